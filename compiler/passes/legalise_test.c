/* legalise_test.c - Every rule of rewrites.def on a device that lacks its op: the evaluator gives
 * the same before and after.  What devices say of graphs, and that fusion asks them. */
#include "compiler/passes/fuse.h"
#include "compiler/passes/legalise.h"
#include "compiler/passes/rewrite.h"
#include "runtime/cuda/cuda.h"
#include "tests/support/graph_case.h"

/* ---- a device that lacks some ops ---- */

static bool lacks[SL_OP_COUNT];

static sl_status accepts_the_rest(const sl_step *step, sl_error *err) {
    if (!lacks[step->op]) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: no %s here", step->label,
                   sl_op_info_of(step->op)->name);
}
static const sl_target lacking = {.name = "lacking", .accepts = accepts_the_rest};

/* "a b": these and no others. */
static void lack(const char *names) {
    memset(lacks, 0, sizeof lacks);
    while (*names) {
        const size_t bytes = strcspn(names, " ");
        const sl_op op = sl_op_find(names, bytes);
        if (op == SL_OP_COUNT) fail_msg("no op %s", names);
        lacks[op] = true;
        names += bytes + (names[bytes] == ' ');
    }
}

static bool has_lacking(const sl_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (lacks[graph->nodes[n].op]) return true;
    return false;
}

static void assert_same(const sl_type *type, const double *before, const double *after) {
    double largest = 0;
    assert_true(before && after);
    for (int64_t i = 0; before && i < sl_type_slots(type); i++)
        if (isfinite(before[i])) largest = fmax(largest, fabs(before[i]));
    for (int64_t i = 0; before && i < sl_type_slots(type); i++) {
        const bool same = before[i] == after[i] || (isnan(before[i]) && isnan(after[i]));
        if (!same && !(fabs(before[i] - after[i]) <= 1e-6 * largest))
            fail_msg("element %lld: %.9g, was %.9g", (long long)i, after[i], before[i]);
    }
}

/* Without these ops the graph means the same, and has none of them. */
static void rewrites(const char *ops, const char *body) {
    graph_case c = graph_open(body);
    double *before[8] = {0};
    uint32_t rewritten = 0;
    sl_error err = {0};
    lack(ops);
    assert_true(c.graph->output_count <= 8);
    assert_true(has_lacking(c.graph));
    for (uint32_t o = 0; o < c.graph->output_count; o++) before[o] = graph_evaluate(&c, o);
    if (sl_legalise(c.graph, &lacking, NULL, &rewritten, &err) != SL_OK)
        fail_msg("%s in %s", err.message, body);
    if (sl_graph_verify(c.graph, &err) != SL_OK) fail_msg("%s in %s", err.message, body);
    assert_true(rewritten > 0);
    assert_false(has_lacking(c.graph));
    for (uint32_t i = 0, v = 1; v <= c.graph->value_count; v++)
        if (c.graph->values[v].kind == SL_VALUE_INPUT) c.inputs[i++] = (sl_value){v};
    for (uint32_t o = 0; o < c.graph->output_count; o++) {
        double *after = graph_evaluate(&c, o);
        assert_same(&c.graph->values[c.graph->outputs[o].value.v].type, before[o], after);
        free(after);
    }
    for (int o = 0; o < 8; o++) free(before[o]);
    graph_close(&c);
}

/* Refused, by a message with these words. */
static void refuses(const char *ops, const char *body, const char *words) {
    graph_case c = graph_open(body);
    sl_error err = {0};
    lack(ops);
    assert_int_equal(sl_legalise(c.graph, &lacking, NULL, NULL, &err), SL_UNSUPPORTED);
    if (!strstr(err.message, words)) fail_msg("'%s' lacks '%s'", err.message, words);
    graph_close(&c);
}

/* ---- the rules ---- */

#define Y " output \"y\" = %y"

static void test_products(void **state) {
    (void)state;
    rewrites("dot_general",
             "input %a : f32[3,2,4,5] input %b : f32[5,6,3,2] %y = dot_general(%a, %b) "
             "{lhs_contract = [-1,1], rhs_contract = [0,3], lhs_batch = [0], rhs_batch = [2]}" Y);
    rewrites("dot_general", "input %a : f64[4] input %b : f64[4] %y = dot_general(%a, %b) "
                            "{lhs_contract = [0], rhs_contract = [0], lhs_batch = [], "
                            "rhs_batch = []}" Y);
    rewrites("dot_general", "input %a : i32[2,3] input %b : i32[4] %y = dot_general(%a, %b) "
                            "{lhs_contract = [], rhs_contract = [], lhs_batch = [], "
                            "rhs_batch = []}" Y);
    rewrites("lora_matmul", "input %x : f32[2,3,4] input %w : f32[4,5] input %a : f32[4,2] "
                            "input %b : f32[2,5] %y = lora_matmul(%x, %w, %a, %b) {scale = 0.5}" Y);
    for (int act = 0; act <= 6; act++) {
        char text[400];
        (void)snprintf(text, sizeof text,
                       "input %%a : f32[3,4] input %%b : f32[4,5] input %%c : f32[5] "
                       "%%y = fused_matmul_bias_act(%%a, %%b, %%c) {act = %d} output \"y\" = %%y",
                       act);
        rewrites("fused_matmul_bias_act", text);
        (void)snprintf(text, sizeof text,
                       "input %%x : f32[2,4,5,6] input %%w : f32[6,2,3,2] input %%b : f32[6] "
                       "%%y = fused_conv_bias_act(%%x, %%w, %%b) {strides = [1,2], groups = 2, "
                       "act = %d} output \"y\" = %%y",
                       act);
        rewrites("fused_conv_bias_act", text);
    }
}

static void test_convolution(void **state) {
    (void)state;
    rewrites("conv", "input %x : f32[2,3,7] input %w : f32[4,3,3] input %b : f32[4] "
                     "%y = conv(%x, %w, %b) {strides = [2], pads_before = [1], pads_after = [2], "
                     "dilations = [2], groups = 1}" Y);
    rewrites("conv strided_slice pad",
             "input %x : f32[2,4,5,6] input %w : f32[6,2,3,2] %y = conv(%x, %w) {strides = [1,2], "
             "pads_before = [0,1], pads_after = [1,0], dilations = [], groups = 2}" Y);
    rewrites("conv strided_slice pad",
             "input %x : f64[1,2,3,4,3] input %w : f64[2,1,2,2,1] %y = conv(%x, %w) {strides = "
             "[], pads_before = [], pads_after = [], dilations = [], groups = 2}" Y);
    rewrites("conv", "input %x : i32[2,4,5] input %w : i32[6,2,3] input %b : i32[6] "
                     "%y = conv(%x, %w, %b) {strides = [2], pads_before = [1], pads_after = [], "
                     "dilations = [], groups = 2}" Y);
    rewrites("conv", "input %x : f32[1,2,13,14] input %w : f32[3,2,12,12] input %b : f32[3] "
                     "%y = conv(%x, %w, %b) {strides = [], pads_before = [], pads_after = [1,1], "
                     "dilations = [], groups = 1}" Y);
    rewrites("conv_backward_weight",
             "input %x : f32[2,4,5,6] input %d : f32[2,6,3,3] %y = conv_backward_weight(%x, %d) "
             "{strides = [2,2], pads_before = [1,0], pads_after = [0,1], dilations = [], "
             "groups = 2, kernel = [2,3]}" Y);
}

static void test_norms(void **state) {
    (void)state;
    rewrites("layer_norm", "input %x : f32[3,4,5] input %g : f32[4,5] input %b : f32[4,5] "
                           "%y = layer_norm(%x, %g, %b) {axis = 1, eps = 1e-3}" Y);
    rewrites("layer_norm2d", "input %x : f32[2,4,3,2] input %g : f32[4] input %b : f32[4] "
                             "%y = layer_norm2d(%x, %g, %b) {eps = 1e-3}" Y);
    rewrites("group_norm", "input %x : f32[2,4,3] input %g : f32[4] input %b : f32[4] "
                           "%y = group_norm(%x, %g, %b) {groups = 2, eps = 1e-3}" Y);
    rewrites("batch_norm_inference",
             "input %x : f32[2,4,3] input %g : f32[4] input %b : f32[4] input %m : f32[4] "
             "input %v : f32[4] %w = abs(%v) "
             "%y = batch_norm_inference(%x, %g, %b, %m, %w) {axis = -2, eps = 1e-3}" Y);
    rewrites("rms_norm", "input %x : f32[2,3,4] input %g : f32[4] "
                         "%y = rms_norm(%x, %g) {eps = 1e-3, offset = 1}" Y);
    rewrites("rms_norm", "input %x : f64[2,3,4] input %g : f64[4] "
                         "%y = rms_norm(%x, %g) {eps = 1e-3, offset = 1}" Y);
    rewrites("rms_norm_axes", "input %x : f32[2,3,4] input %g : f32[2,4] "
                              "%y = rms_norm_axes(%x, %g) {axes = [2, 0], eps = 1e-3}" Y);
    rewrites("rms_norm_axes", "input %x : f64[2,3,4] "
                              "%y = rms_norm_axes(%x) {axes = [1], eps = 1e-3}" Y);
    rewrites("gated_rms_norm rms_norm silu",
             "input %x : f32[2,3,4] input %z : f32[2,3,4] input %g : f32[4] "
             "%y = gated_rms_norm(%x, %z, %g) {eps = 1e-3}" Y);
    rewrites("l2_norm rsqrt", "input %x : f32[3,4] %y = l2_norm(%x) {eps = 1e-3, scale = 2}" Y);
    rewrites("reduce_mean", "input %x : f32[3,4,2] %y = reduce_mean(%x) {axes = [-1,0]}" Y);
    rewrites("reduce_min", "input %x : f32[3,4] %y = reduce_min(%x) {axes = [1], keep = 1}" Y);
    rewrites("argmin", "input %x : f32[3,4] %y = argmin(%x) {axis = 1, last = 1, to = i64}" Y);
    rewrites("softmax", "input %x : f32[3,4] %y = softmax(%x) {axis = 0}" Y);
    rewrites("log_softmax", "input %x : f32[3,4,2] %y = log_softmax(%x) {axis = 2}" Y);
    rewrites("softmax_backward", "input %x : f32[3,4,2] input %d : f32[3,4,2] "
                                 "%y = softmax_backward(%x, %d) {axis = 1}" Y);
    rewrites("log_softmax_backward", "input %x : f32[3,4] input %d : f32[3,4] "
                                     "%y = log_softmax_backward(%x, %d) {axis = 0}" Y);
}

static void test_gradients(void **state) {
    (void)state;
    rewrites("layer_norm_backward_input",
             "input %x : f32[3,4,5] input %g : f32[4,5] input %d : f32[3,4,5] "
             "%y = layer_norm_backward_input(%x, %g, %d) {axis = 1, eps = 1e-3}" Y);
    rewrites("layer_norm_backward_gain",
             "input %x : f64[3,4,5] input %d : f64[3,4,5] "
             "%y = layer_norm_backward_gain(%x, %d) {axis = -2, eps = 1e-3}" Y);
    rewrites("group_norm_backward_input",
             "input %x : f32[2,4,3] input %g : f32[4] input %d : f32[2,4,3] "
             "%y = group_norm_backward_input(%x, %g, %d) {groups = 2, eps = 1e-3}" Y);
    rewrites("group_norm_backward_gain",
             "input %x : f32[2,4,3] input %d : f32[2,4,3] "
             "%y = group_norm_backward_gain(%x, %d) {groups = 2, eps = 1e-3}" Y);
    rewrites("group_norm_backward_bias",
             "input %d : f32[2,4,3] %y = group_norm_backward_bias(%d)" Y);
    rewrites("batch_norm_inference_backward_input",
             "input %g : f32[4] input %v : f32[4] input %d : f32[2,4,3] %w = abs(%v) "
             "%y = batch_norm_inference_backward_input(%g, %w, %d) {axis = 1, eps = 1e-3}" Y);
    rewrites("batch_norm_inference_backward_gain",
             "input %x : f32[2,4,3] input %m : f32[4] input %v : f32[4] input %d : f32[2,4,3] "
             "%w = abs(%v) "
             "%y = batch_norm_inference_backward_gain(%x, %m, %w, %d) {axis = -2, eps = 1e-3}" Y);
    rewrites("batch_norm_inference_backward_bias",
             "input %d : f32[2,4,3] %y = batch_norm_inference_backward_bias(%d) {axis = 2}" Y);
    rewrites("rms_norm_backward_input",
             "input %x : f32[2,3,4] input %g : f32[4] input %d : f32[2,3,4] "
             "%y = rms_norm_backward_input(%x, %g, %d) {eps = 1e-3, offset = 1}" Y);
    rewrites("rms_norm_backward_gain", "input %x : f32[4] input %d : f32[4] "
                                       "%y = rms_norm_backward_gain(%x, %d) {eps = 1e-3}" Y);
    /* Elements that tie share. */
    rewrites("reduce_max_backward", "input %x : f32[3,4,2] input %d : f32[4] %r = round(%x) "
                                    "%m = reduce_max(%r) {axes = [0,-1]} "
                                    "%y = reduce_max_backward(%r, %m, %d) {axes = [0,-1]}" Y);
}

static void test_losses(void **state) {
    (void)state;
    rewrites("nll", "input %x : f32[2,3,4] constant %l : i32[2,3] = {0, 3, 2, 7, 1, 0} "
                    "input %w : f16[4] %y = nll(%x, %l, %w) {ignores = 1, ignore = 7}" Y);
    rewrites("nll_backward",
             "constant %l : i64[3] = {2, -1, 3} input %d : f64[3] input %w : f32[4] "
             "%y = nll_backward(%l, %d, %w) {classes = 4, ignores = 1, ignore = -1}" Y);
    rewrites("softmax_cross_entropy nll", "input %x : f32[3,4] constant %l : i64[3] = {3, 0, 3} "
                                          "%y = softmax_cross_entropy(%x, %l)" Y);
    rewrites("softmax_cross_entropy_backward softmax",
             "input %x : f16[3,4] constant %l : i32[3] = {3, 0, -9} input %d : f16[3] "
             "%y = softmax_cross_entropy_backward(%x, %l, %d) {ignores = 1, ignore = -9}" Y);
}

static void test_quant(void **state) {
    (void)state;
    rewrites("quantize", "input %x : f32[2,3,4] constant %s : f32[3] = {0.1, 0.001, 0.2} "
                         "constant %z : i8[3] = {3, 0, -7} "
                         "%y = quantize(%x, %s, %z) {axis = -2, to = i8}" Y);
    rewrites("dequantize", "constant %x : u8[2,2] = {3, 0, 255, 9} input %s : f16[1] "
                           "constant %z : u8[1] = {4} %y = dequantize(%x, %s, %z) {axis = 0}" Y);
    rewrites("fake_quantize", "input %x : f32[3,4] %y, %s = fake_quantize(%x) "
                              "{bits = 4, by_axis = 1, axis = 1, mode = 0} "
                              "output \"s\" = %s" Y);
    rewrites("fake_quantize", "input %x : f16[3,4] constant %t : f16[1] = {0.5} "
                              "%y, %s = fake_quantize(%x, %t) {bits = 3, mode = 1, decay = 0.9} "
                              "output \"s\" = %s" Y);
    rewrites("fake_quantize", "input %x : f64[3,4] constant %t : f64[1] = {0} "
                              "%y, %s = fake_quantize(%x, %t) {bits = 8, mode = 2} "
                              "output \"s\" = %s" Y);
    for (int ste = 0; ste < 4; ste++) {
        char text[300];
        (void)snprintf(text, sizeof text,
                       "input %%x : f32[3,4] constant %%s : f32[3] = {0.1, 0, 0.5} "
                       "input %%d : f32[3,4] %%y = fake_quantize_backward(%%x, %%s, %%d) "
                       "{bits = 3, axis = 0, ste = %d} output \"y\" = %%y",
                       ste);
        rewrites("fake_quantize_backward", text);
    }
#define LSQ "input %x : f32[3,4] constant %s : f32[4] = {0.1, 0.3, 0.5, 0.02} input %d : f32[3,4] "
    rewrites("fake_quantize_lsq", LSQ "%y = fake_quantize_lsq(%x, %s) {bits = 3, axis = 1}" Y);
    rewrites("fake_quantize_lsq_backward_x",
             LSQ "%y = fake_quantize_lsq_backward_x(%x, %s, %d) {bits = 3, axis = 1}" Y);
    rewrites("fake_quantize_lsq_backward_scale",
             LSQ "%y = fake_quantize_lsq_backward_scale(%x, %s, %d) {bits = 3, axis = -1}" Y);
    rewrites("q_matmul", "constant %a : u8[2,3] = {1, 200, 3, 4, 5, 6} "
                         "constant %b : i8[3,2] = {1, -2, 3, -4, 5, 100} constant %p : u8[] = {7} "
                         "constant %q : i8[2] = {1, -3} constant %m : f32[2] = {0.5, 0.01} "
                         "constant %o : i8[1] = {-4} constant %c : i32[2] = {10, -20} "
                         "%y = q_matmul(%a, %b, %p, %q, %m, %o, %c)" Y);
    rewrites("q_conv conv",
             "constant %x : u8[1,2,3] = {1, 200, 3, 4, 5, 6} "
             "constant %w : i8[2,1,2] = {1, -2, 3, -4} constant %p : u8[] = {7} "
             "constant %q : i8[2] = {1, -3} constant %m : f32[1] = {0.05} "
             "constant %o : u8[1] = {90} %y = q_conv(%x, %w, %p, %q, %m, %o) {strides = [2], "
             "pads_before = [1], pads_after = [2], dilations = [], groups = 2}" Y);
}

static void test_elementwise(void **state) {
    (void)state;
    static const char *const one[] = {"silu", "relu", "gelu_approx", "reciprocal", "rsqrt", "tan"};
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "input %%x : f32[3,4] %%p = abs(%%x) %%y = %s(%%p) output \"y\" = %%y",
                       one[i]);
        rewrites(one[i], text);
    }
    rewrites("relu", "input %x : i32[7] %y = relu(%x)" Y);
    rewrites("clamp", "input %x : f32[3,4] input %l : f32[4] input %h : f32[3,1] "
                      "%y = clamp(%x, %l, %h)" Y);
    rewrites("swiglu silu", "input %x : f32[3,4] input %z : f32[3,4] %y = swiglu(%x, %z)" Y);
    rewrites("sigmoid_gate", "input %x : f32[3,4] input %z : f32[3,4] %y = sigmoid_gate(%x, %z)" Y);
    rewrites("not_equal", "input %x : i32[30] input %z : i32[] %y = not_equal(%x, %z)" Y);
}

static void test_movement(void **state) {
    (void)state;
    rewrites("expand", "input %x : f32[3,1] %y = expand(%x) {shape = [2,-1,4]}" Y);
    rewrites("expand", "input %x : i64[3,1] %y = expand(%x) {shape = [3,4]}" Y);
    rewrites("split", "input %x : f32[3,7] %a, %b = split(%x) {axis = -1, sizes = [0,7]} "
                      "output \"a\" = %a output \"y\" = %b");
    rewrites("pad", "input %x : f32[0,4] input %v : f32[1] %y = pad(%x, %v) "
                    "{before = [2,-1], after = [0,0], mode = 0}" Y);
    rewrites("split", "input %x : f32[3,7] %a, %b, %c = split(%x) {axis = -1, sizes = [1,4,2]} "
                      "output \"a\" = %a output \"b\" = %b output \"c\" = %c");
    rewrites("split", "input %x : f32[3,6] %a, %b = split(%x) {axis = -1, sizes = [3,3]} "
                      "output \"a\" = %a output \"b\" = %b");
    rewrites("strided_slice", "input %x : i64[5,9,4] %y = strided_slice(%x) "
                              "{starts = [1,-8,0], ends = [99,8,-1], steps = [2,3,1]}" Y);
    rewrites("strided_slice", "input %x : f32[5] %y = strided_slice(%x) "
                              "{starts = [3], ends = [5], steps = [7]}" Y);
    rewrites("pad", "input %x : f32[3,4] input %v : f32[1] %y = pad(%x, %v) "
                    "{before = [1,-2], after = [0,3], mode = 0}" Y);
    rewrites("reverse", "input %x : f32[3,4,2] %y = reverse(%x) {axes = [0,-1]}" Y);
#define RESIZE "scales = [], exclude_outside = 1, antialias = 1, "
    rewrites("resize",
             "input %x : f32[2,5,4] %y = resize(%x) {shape = [2,3,9], mode = \"cubic\", " RESIZE
             "roi = []}" Y);
    rewrites("resize",
             "input %x : f64[5,4] %y = resize(%x) {shape = [4,6], mode = \"linear\", " RESIZE
             "roi = [0.1,0,1.4,1], coordinates = \"tf_crop_and_resize\", "
             "extrapolation = 7}" Y);
    rewrites("resize",
             "input %x : i64[2,3] %y = resize(%x) {shape = [3,2], scales = [], roi = []}" Y);
    rewrites("resize",
             "input %x : f32[2,3] %y = resize(%x) {shape = [2,3], scales = [], roi = []}" Y);
    rewrites("resize_nearest2x", "input %x : u8[2,3,4] %y = resize_nearest2x(%x)" Y);
    rewrites("resize_nearest2x_backward",
             "input %x : f32[2,4,6] %y = resize_nearest2x_backward(%x)" Y);
    rewrites("transform_region",
             "input %x : u8[2,3,2] %y = transform_region(%x) {steps = [1,1]}" Y);
    rewrites("batch_elementwise_region elementwise_region",
             "input %a : f32[1,3,2] input %b : f32[1,3,2] %y = batch_elementwise_region(%a, %b) "
             "{code = [33,0,0,0,0, 1,1,0,0,0], prologue = 1}" Y);
    rewrites("elementwise_region",
             "input %a : f32[3] input %b : f32[2,3] "
             "%y = elementwise_region(%a, %b) {code = [3,0,1,0,0, 39,2,0,0,0]}" Y);
}

static void test_attention(void **state) {
    (void)state;
#define QKV "input %q : f32[2,4,3,5] input %k : f32[2,2,6,5] input %v : f32[2,2,6,3] "
    rewrites("attention", QKV "%y = attention(%q, %k, %v) {mask = 0}" Y);
    rewrites("attention", QKV "%y = attention(%q, %k, %v) {mask = 1, softcap = 2, scale = 3}" Y);
    rewrites("attention", QKV "%y = attention(%q, %k, %v) {mask = 2, window = 2}" Y);
    rewrites("attention", QKV "input %m : bool[2,1,3,6] input %s : f32[4] "
                              "%y = attention(%q, %k, %v, %m, %s) {mask = 3, sinks = 1}" Y);
    rewrites("attention", QKV "input %m : f32[3,6] %y = attention(%q, %k, %v, %m) {mask = 4}" Y);
    /* Queries that see nothing give 0. */
    rewrites("attention", "input %q : f32[1,1,4,2] input %k : f32[1,1,2,2] input %v : f32[1,1,2,2] "
                          "%y = attention(%q, %k, %v) {mask = 1}" Y);
#define GRADIENTS " output \"q\" = %dq output \"k\" = %dk output \"v\" = %dv"
    rewrites("attention_backward",
             QKV "input %d : f32[2,4,3,3] %dq, %dk, %dv = attention_backward(%q, %k, %v, %d) "
                 "{mask = 1, softcap = 2, scale = 3}" GRADIENTS);
    rewrites("attention_backward",
             QKV "input %d : f32[2,4,3,3] input %m : bool[2,1,3,6] "
                 "%dq, %dk, %dv = attention_backward(%q, %k, %v, %d, %m) {mask = 3}" GRADIENTS);
    rewrites("attention_backward",
             QKV "input %d : f32[2,4,3,3] input %m : f32[4,1,6] input %s : f32[4] "
                 "%dq, %dk, %dv, %dm, %y = attention_backward(%q, %k, %v, %d, %m, %s) "
                 "{mask = 4, sinks = 1} output \"m\" = %dm" GRADIENTS Y);
    rewrites("mrope", "input %x : f32[2,3,9] input %c : f32[3,3,4] input %s : f32[3,3,4] "
                      "%y = mrope(%x, %c, %s) {sections = [1,2,1]}" Y);
    rewrites("mrope_backward",
             "input %x : f32[2,3,8] input %c : f32[3,1,4] input %s : f32[3,1,4] %y = "
             "mrope_backward(%x, %c, %s) {sections = [2,1,1], striped = 1, interleaved = 1}" Y);
    rewrites("fused_swiglu", "input %x : f32[3,6] %a = fused_swiglu(%x) {gate_first = 1} "
                             "%b = fused_swiglu(%x) {gate_first = 0} "
                             "output \"a\" = %a output \"b\" = %b");
    rewrites("fused_residual_ln layer_norm",
             "input %x : f32[3,4] input %r : f32[3,4] input %g : f32[4] input %s : f32[4] "
             "input %b : f32[4] %o, %y = fused_residual_ln(%x, %r, %g, %s, %b) {eps = 1e-3} "
             "output \"o\" = %o" Y);
    rewrites("add_rms_norm",
             "input %x : f32[3,4] input %r : f32[3,4] input %g : f32[4] input %s : f32[4] "
             "%o, %y = add_rms_norm(%x, %r, %g, %s) {eps = 1e-3} output \"o\" = %o" Y);
    rewrites("add_rms_norm rms_norm",
             "input %x : f32[3,4] input %r : f32[3,4] input %g : f32[4] input %s : f32[4] "
             "input %b : f32[4] %o, %y = add_rms_norm(%x, %r, %g, %s, %b) {eps = 1e-3, offset = 1} "
             "output \"o\" = %o" Y);
    rewrites("add_rms_norm", "input %x : f64[3,4] input %r : f64[3,4] input %g : f64[4] "
                             "%o, %y = add_rms_norm(%x, %r, %g) {eps = 1e-3} output \"o\" = %o" Y);
    rewrites("fused_attention_block attention",
             "input %x : f32[2,3,4] input %w : f32[4,12] input %o : f32[4,5] input %m : f32[3,3] "
             "input %b : f32[12] input %c : f32[5] input %cos : f32[3,1] input %sin : f32[3,1] "
             "%y = fused_attention_block(%x, %w, %o, %m, %b, %c, %cos, %sin) "
             "{heads = 2, bias = 1, rope = 1, mask = 4}" Y);
    rewrites("fused_transformer_layer fused_attention_block attention layer_norm",
             "input %x : f32[2,3,4] input %w : f32[4,12] input %o : f32[4,4] input %g : f32[4] "
             "input %s : f32[4] input %f : f32[4,6] input %h : f32[6,4] input %b1 : f32[12] "
             "input %b2 : f32[4] input %b3 : f32[6] input %b4 : f32[4] "
             "%y = fused_transformer_layer(%x, %w, %o, %g, %s, %f, %h, %g, %s, %b1, %b2, %b3, %b4) "
             "{heads = 2, bias = 1, act = 6, eps1 = 1e-3, eps2 = 1e-3, mask = 1}" Y);
}

static void test_control(void **state) {
    (void)state;
#define BRANCHES                                                                                   \
    "{then = graph \"b\" {input %a : f32[3] %1 = exp(%a) output \"r\" = %1}, "                     \
    "otherwise = graph \"b\" {input %a : f32[3] constant %k : f32[] = {4} %1 = mul(%a, %k) "       \
    "output \"r\" = %1}}"
    for (int yes = 0; yes < 2; yes++) {
        char text[600];
        (void)snprintf(text, sizeof text,
                       "input %%x : f32[3] constant %%c : bool[] = {%s} %%y = if(%%c, "
                       "%%x) %s output \"y\" = %%y",
                       yes ? "1" : "0", BRANCHES);
        rewrites("if", text);
    }
    rewrites("if", "input %x : f32[3] input %c : bool[1] %y = if(%c, %x) " BRANCHES Y);
#define BODY                                                                                       \
    "body = graph \"b\" {input %h : f32[2] input %w : f32[2] input %t : f32[2] %1 = mul(%h, %w) "  \
    "%2 = add(%1, %t) %3 = tanh(%2) output \"h\" = %3 output \"y\" = %2}"
    rewrites("scan", "input %h : f32[2] input %w : f32[2] input %t : f32[5,2] "
                     "%r, %y = scan(%h, %w, %t) {carries = 1, consts = 1, " BODY "} "
                     "output \"r\" = %r" Y);
    rewrites("scan", "input %h : f32[2] input %w : f32[2] input %t : f32[5,2] "
                     "%r, %y = scan(%h, %w, %t) {carries = 1, consts = 1, reverse = 1, " BODY "} "
                     "output \"r\" = %r" Y);
#define BACK                                                                                       \
    "(%h, %w, %t, %d, %e) {carries = 1, consts = 1, " BODY ", backward = graph \"k\" {"            \
    "input %h : f32[2] input %w : f32[2] input %t : f32[2] input %d : f32[2] input %e : f32[2] "   \
    "%1 = mul(%d, %w) %2 = mul(%e, %h) %3 = sub(%d, %t) "                                          \
    "output \"h\" = %1 output \"w\" = %2 output \"t\" = %3}} "
    rewrites("scan_backward",
             "input %h : f32[2] input %w : f32[2] input %t : f32[5,2] "
             "input %d : f32[2] input %e : f32[5,2] "
             "%r, %s, %y = scan_backward" BACK "output \"r\" = %r output \"s\" = %s" Y);
    rewrites("scan_backward_xs", "input %h : f32[2] input %w : f32[2] input %t : f32[5,2] "
                                 "input %d : f32[2] input %e : f32[5,2] "
                                 "%y = scan_backward_xs" BACK Y);
    rewrites("custom_fn",
             "input %x : f32[3] %y = custom_fn(%x) {body = graph \"b\" {input %a : f32[3] "
             "%1 = neg(%a) output \"r\" = %1}}" Y);
    refuses("if where", "input %x : f32[3] input %c : bool[1] %y = if(%c, %x) " BRANCHES Y,
            "no where here");
    refuses("while",
            "input %x : f32[3] %y = while(%x) {condition = graph \"b\" {input %a : f32[3] constant "
            "%t : bool[] = {0} output \"t\" = %t}, body = graph \"b\" {input %a : f32[3] "
            "%1 = exp(%a) output \"r\" = %1}}" Y,
            "while: no while here");
}

static void test_parts(void **state) {
    (void)state;
    rewrites("add_rms_norm", "input %a : f32[3,4] input %b : f32[3,4] input %g : f32[4] "
                             "%s, %y = add_rms_norm(%a, %b, %g) {eps = 1e-3} output \"s\" = %s" Y);
    rewrites("linear_triple linear_pair",
             "input %x : f32[3,4] input %a : f32[2,4] input %b : f32[3,4] input %c : f32[5,4] "
             "%p, %q, %y = linear_triple(%x, %a, %b, %c) output \"p\" = %p output \"q\" = %q" Y);
    rewrites("linear_bias_act", "input %x : f32[3,4] input %w : f32[5,4] input %b : f32[5] "
                                "%y = linear_bias_act(%x, %w, %b) {act = 3}" Y);
    rewrites("linear_swiglu swiglu", "input %x : f32[3,4] input %a : f32[5,4] input %b : f32[5,4] "
                                     "%y = linear_swiglu(%x, %a, %b)" Y);
    rewrites("add3",
             "input %a : f32[3] input %b : f32[3] input %c : f32[3] %y = add3(%a, %b, %c)" Y);
    rewrites("elementwise_region",
             "input %a : f32[3] input %b : f32[3] %y = elementwise_region(%a, %b, %a, %a) "
             "{code = [1,0,1,0,0, 5,0,0,0,0]}" Y);
}

/* A rule that ends in what the device lacks too does not count. */
static void test_refusal(void **state) {
    (void)state;
    refuses("dot_general matmul",
            "input %a : f32[3] input %b : f32[3] %y = dot_general(%a, %b) {lhs_contract = [0], "
            "rhs_contract = [0], lhs_batch = [], rhs_batch = []}" Y,
            "no matmul here");
    refuses("layer_norm cast",
            "input %x : f16[3,4] input %g : f16[4] %y = layer_norm(%x, %g, %g) "
            "{axis = 1}" Y,
            "layer_norm cast: no cast here");
    refuses("sin", "input %x : f32[3] scope \"layer 7\" %y = sin(%x)" Y, "layer 7 sin");
}

/* ---- real devices ---- */

static void test_report(void **state) {
    (void)state;
    graph_case c = graph_open("input %x : f32[4,4] input %g : f32[4] constant %k : f32[] = {2} "
                              "%k2 = exp(%k) %1 = layer_norm(%x, %g, %g) {axis = 1, eps = 1e-5} "
                              "%2 = mul(%1, %k2) %3 = dense_solve(%2, %g) output \"y\" = %3");
    sl_arena arena;
    sl_error err = {0};
    sl_arena_init(&arena, NULL);
    lack("layer_norm dense_solve");
    sl_legality_log log = {.arena = &arena};
    if (sl_legality_report(c.graph, &lacking, &log, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(log.count, 3); /* exp of a constant is folded */
    assert_int_equal(log.rows[0].kind, SL_LEGAL_REWRITTEN);
    assert_string_equal(log.rows[0].op, "layer_norm");
    assert_string_equal(log.rows[0].detail, "reduce_mean sub mul add rsqrt");
    assert_int_equal(log.rows[1].kind, SL_LEGAL_NATIVE);
    assert_int_equal(log.rows[2].kind, SL_LEGAL_UNSUPPORTED);
    assert_string_equal(log.rows[2].detail, "dense_solve: no dense_solve here");
    sl_arena_deinit(&arena);
    graph_close(&c);
}

static sl_status compile_for(const char *body, const sl_target *target, sl_op made, bool *has,
                             sl_error *err) {
    graph_case c = graph_open(body);
    const sl_compiler_options options = {.target = target};
    sl_program *program = NULL;
    const sl_status status = sl_compile_graph(c.graph, &options, NULL, &program, err);
    *has = false;
    for (uint32_t s = 0; program && s < program->step_count; s++)
        *has |= program->steps[s].op == made;
    sl_program_destroy(program);
    graph_close(&c);
    return status;
}

/* A product with a bias is fused where the device has the fused op. */
static void test_fusion_asks(void **state) {
    (void)state;
    const char *body = "input %a : f32[3,4] input %b : f32[4,5] input %c : f32[5] "
                       "%1 = matmul(%a, %b) %2 = add(%1, %c) output \"y\" = %2";
    bool fused;
    sl_error err = {0};
    lack("");
    assert_int_equal(compile_for(body, &lacking, SL_OP_fused_matmul_bias_act, &fused, &err), SL_OK);
    assert_true(fused);
    lack("fused_matmul_bias_act");
    assert_int_equal(compile_for(body, &lacking, SL_OP_fused_matmul_bias_act, &fused, &err), SL_OK);
    assert_false(fused);
    const char *chain = "input %a : f32[3] %1 = exp(%a) %2 = tanh(%1) output \"y\" = %2";
    lack("elementwise_region");
    assert_int_equal(compile_for(chain, &lacking, SL_OP_elementwise_region, &fused, &err), SL_OK);
    assert_false(fused);
}

/* Without a driver: the table and the plans say it. */
static void test_cuda(void **state) {
    (void)state;
    bool has;
    sl_error err = {0};
    assert_int_equal(compile_for("input %x : f32[3,4] input %g : f32[4] "
                                 "%y = layer_norm(%x, %g, %g) {axis = 1, eps = 1e-5}" Y,
                                 &sl_target_cuda, SL_OP_layer_norm, &has, &err),
                     SL_OK);
    assert_int_equal(compile_for("input %x : f32[3,4] %y = softmax(%x) {axis = 1}" Y,
                                 &sl_target_cuda, SL_OP_softmax, &has, &err),
                     SL_OK);
    assert_int_equal(compile_for("input %x : f32[3000,0] input %b : f32[0,3000] scope \"step 2\" "
                                 "%y = matmul(%x, %b)" Y,
                                 &sl_target_cuda, SL_OP_matmul, &has, &err),
                     SL_UNSUPPORTED); /* nothing, but too much of it to be folded */
    assert_non_null(strstr(err.message, "step 2 matmul"));
    assert_non_null(strstr(err.message, "cuda"));
    static const char caches[] = "input %k : f32[2,2,8] input %i : i32[2] "
                                 "state %a : k16[1,2,4,8,16] state %b : v16[1,2,64,8] ";
    static const char *const users[] = {"%y, %z = kv_append(%k, %k, %i, %i, %a, %b)" Y,
                                        "%y = sdpa(%k, %a, %b, %i, %i)" Y,
                                        "%y, %z = sdpa_parts(%k, %a, %b, %i, %i)" Y};
    for (size_t u = 0; u < sizeof users / sizeof users[0]; u++) {
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s", caches, users[u]);
        assert_int_equal(compile_for(text, &sl_target_cuda, SL_OP_matmul, &has, &err),
                         SL_UNSUPPORTED);
        assert_non_null(strstr(err.message, "no KV cache of type k16"));
    }
}

/* More parts than launches of one step can join. */
static void test_cuda_joins_many_parts(void **state) {
    (void)state;
    static const char more[] = ", %x", end[] = ") {axis = 0}" Y;
    char text[1024] = "input %x : f32[3,4] %y = concat(%x", *at = text + strlen(text);
    bool has;
    sl_error err = {0};
    for (int i = 0; i < 199; i++, at += sizeof more - 1) memcpy(at, more, sizeof more);
    memcpy(at, end, sizeof end);
    if (compile_for(text, &sl_target_cuda, SL_OP_concat, &has, &err)) fail_msg("%s", err.message);
    assert_true(has);
}

/* The host is asked for bodies where nothing else is left. */
static void test_cuda_hosts_bodies(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "input %c : bool[1] input %x : f32[3] %y = if(%c, %x) {"
        "then = graph \"t\" {input %a : f32[3] %1 = @(%a) output \"r\" = %1}, "
        "otherwise = graph \"o\" {input %a : f32[3] output \"r\" = %a}}" Y,
        "input %h : f32[3] %y = scan(%h) {carries = 1, length = @, "
        "body = graph \"b\" {input %a : f32[3] %1 = exp(%a) output \"r\" = %1}}" Y};
    static const char *const words[][2] = {{"exp", "sort"}, {"256", "257"}};
    for (int i = 0; i < 4; i++) {
        char text[1024];
        bool has;
        sl_error err = {0};
        const char *body = bodies[i / 2], *at = strchr(body, '@');
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - body), body, words[i / 2][i % 2],
                       at + 1);
        const sl_op op = i / 2 ? SL_OP_scan : SL_OP_if;
        if (compile_for(text, &sl_target_cuda, op, &has, &err)) fail_msg("%s", err.message);
        assert_int_equal(has, i % 2);
    }
}

/* Whatever a rule may be asked to do, its row has words. */
static void test_table(void **state) {
    (void)state;
    for (const sl_rewrite *rule = sl_rewrites; rule->name; rule++) {
        assert_true(rule->summary[0] && rule->rewrite);
        assert_true(rule->op < SL_OP_COUNT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_quant),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_fusion_asks),
        cmocka_unit_test(test_cuda),
        cmocka_unit_test(test_cuda_joins_many_parts),
        cmocka_unit_test(test_cuda_hosts_bodies),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
