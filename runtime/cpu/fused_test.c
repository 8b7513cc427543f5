/* fused_test.c - Kernels of fused ops give the same bits as their parts in sequence, on every
 * instruction set, and agree with the evaluator. */
#include "compiler/passes/fuse.h"
#include "core/elementwise_region.h"
#include "core/kv.h"
#include "tests/support/op_case.h"
#include <stdio.h>

/* ---- the parts in sequence ---- */

static void must(sl_status status, const sl_error *err) {
    if (status != SL_OK) fail_msg("%s", err->message);
}

/* A graph of the op alone, unfused again. */
static sl_graph *parts_of_case(const op_case *c) {
    const sl_op_info *info = sl_op_info_of(c->op);
    sl_error err = {0};
    sl_graph *graph = NULL;
    must(sl_graph_create("one", NULL, &graph, &err), &err);
    sl_value inputs[SL_MAX_INPUTS], outputs[SL_MAX_OUTPUTS];
    for (uint32_t i = 0; i < c->inputs; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "i%u", i);
        const bool state = sl_input_kind(info, i) == SL_OPERAND_STATE;
        inputs[i] =
            sl_graph_declare(graph, state ? SL_VALUE_STATE : SL_VALUE_INPUT, name, c->types[i]);
    }
    static const _Alignas(max_align_t) unsigned char none[SL_MAX_ATTRS_BYTES];
    sl_graph_append_list(graph, c->op, (sl_values){c->inputs, inputs}, c->attrs ? c->attrs : none,
                         (sl_value_slots){info->output_count, outputs});
    for (uint32_t o = 0; o < info->output_count; o++)
        sl_graph_output(graph, info->output_names[o], outputs[o]);
    must(sl_unfuse(graph, &err), &err);
    must(sl_graph_verify(graph, &err), &err);
    assert_true(graph->node_count > 1);
    return graph;
}

static void run_part(const sl_graph *graph, const sl_node *node, const char *isa, void **places) {
    const uint32_t inputs = node->input_count;
    op_case part = {.op = node->op, .attrs = node->attrs, .inputs = inputs};
    memory m = {0};
    for (uint32_t i = 0; i < inputs + node->output_count; i++) {
        const bool output = i >= inputs;
        if (output && sl_output_state(sl_op_info_of(node->op), i - inputs) >= 0) continue;
        const sl_value value = output ? node->outputs[i - inputs] : node->inputs[i];
        part.types[part.operands] = graph->values[value.v].type;
        m.views[part.operands++] = places[value.v];
    }
    sl_error err = {0};
    must(run_kernel(&part, isa, &m, INT32_MAX, false, &err), &err);
}

/* Memory of every value: the inputs as given, all versions of a state in one place. */
static void **memory_of_values(const op_case *c, const sl_graph *graph) {
    void **places = calloc(graph->value_count + 1, sizeof *places);
    assert_non_null(places);
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        if (value->root.v && value->root.v != v) {
            places[v] = places[value->root.v];
            continue;
        }
        const uint64_t bytes = sl_type_bytes(&value->type);
        assert_int_equal(posix_memalign(&places[v], 64, bytes), 0);
        if (value->kind == SL_VALUE_RESULT)
            memset(places[v], 0x5a, bytes);
        else
            memcpy(places[v], c->data[strtoul(value->name + 1, NULL, 10)], bytes);
    }
    return places;
}

static void free_values(const sl_graph *graph, void **places) {
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (!graph->values[v].root.v || graph->values[v].root.v == v) free(places[v]);
    free(places);
}

static void compare_bits(const op_case *c, const sl_graph *graph, const char *isa) {
    const sl_op_info *info = sl_op_info_of(c->op);
    void **values = memory_of_values(c, graph);
    for (uint32_t n = 0; n < graph->node_count; n++) run_part(graph, &graph->nodes[n], isa, values);
    memory m = memory_of(c);
    sl_error err = {0};
    must(run_kernel(c, isa, &m, 3, true, &err), &err);
    uint32_t operand = c->inputs;
    for (uint32_t o = 0; o < info->output_count; o++) {
        const uint32_t at =
            info->output_state[o] >= 0 ? (uint32_t)info->output_state[o] : operand++;
        const void *wanted = values[graph->outputs[o].value.v];
        if (!m.views[at] || memcmp(m.views[at], wanted, sl_type_bytes(&c->types[at])) != 0)
            fail_msg("%s on %s: '%s' differs from its parts", info->name, isa,
                     info->output_names[o]);
    }
    memory_free(&m);
    free_values(graph, values);
}

/* Compares bits with the parts and numbers with the evaluator; frees the case. */
static void check_fused(op_case *c) {
    infer_outputs(c);
    sl_graph *graph = parts_of_case(c);
    for (int i = 0; i < ISA_COUNT; i++)
        if (sl_cpu_kernel_set(isas[i])) compare_bits(c, graph, isas[i]);
    sl_graph_destroy(graph);
    check(c);
}

/* ---- cases ---- */

enum { ROUNDS = 6 };
static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint32_t)(high - low + 1));
}

/* The first input of a linear layer, f32 or a8, and its weights. */
static void product(op_case *c, int64_t tokens, int64_t cols, const int64_t *rows, int count) {
    const bool coded = next() % 2;
    input(c, sl_type_make(coded ? SL_DTYPE_a8 : SL_DTYPE_f32, 2, tokens, cols), -1, 1);
    for (int i = 0; i < count; i++) {
        const uint32_t first = coded ? FIRST_PANEL_TYPE : 0;
        const sl_dtype type = weight_types[first + next() % (WEIGHT_TYPES - first)];
        input(c, sl_type_make(type, 2, rows[i], cols), -1, 1);
    }
    c->by_tensor = true; /* a sum over a short row may nearly cancel */
}

/* Widths of normed rows; some are as long as in models. */
static int64_t width_of(int round) {
    static const int64_t widths[] = {128, 256, 2048, 2080, 4100, 8196};
    return round % 2 ? between(1, 300) : widths[round / 2];
}

static void test_norms(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS * 2; round++) {
        const int64_t width = width_of(round);
        const sl_type type = f32(3, between(1, 5), between(1, 4), width, 0);
        const sl_add_rms_norm_attrs add_attrs = {.eps = 1e-6f, .offset = (float)(round / 2 % 2)};
        op_case add = case_of(SL_OP_add_rms_norm, &add_attrs, 1e-6);
        floats(&add, type), floats(&add, type), floats(&add, f32(1, width, 0, 0, 0));
        check_fused(&add);
        const sl_fused_residual_ln_attrs layer_attrs = {.eps = 1e-5f};
        op_case layer = case_of(SL_OP_fused_residual_ln, &layer_attrs, 2e-6);
        sl_type layer_type = type, factors = f32(1, width, 0, 0, 0);
        layer_type.dtype = factors.dtype = round % 3 ? SL_DTYPE_f32 : SL_DTYPE_f64;
        for (int i = 0; i < 4; i++) input(&layer, i < 2 ? layer_type : factors, -1, 2);
        check_fused(&layer);
        const sl_rms_norm_mul_attrs mul_attrs = {.eps = 1e-5f, .offset = (float)(round / 2 % 2)};
        op_case mul = case_of(SL_OP_rms_norm_mul, &mul_attrs, 1e-6);
        floats(&mul, type), floats(&mul, f32(1, width, 0, 0, 0)), floats(&mul, type);
        check_fused(&mul);
    }
}

static void test_quantised(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS * 2; round++) {
        const int64_t width = width_of(round);
        const sl_type type = f32(3, between(1, 5), between(1, 4), width, 0);
        const sl_type gains = f32(1, width, 0, 0, 0);
        const sl_rms_norm_quantise_attrs norm = {.eps = 1e-6f, .offset = (float)(round / 2 % 2)};
        op_case normed = case_of(SL_OP_rms_norm_quantise, &norm, 1e-6);
        floats(&normed, type), floats(&normed, gains);
        check_fused(&normed);
        op_case add = case_of(SL_OP_add_rms_norm_quantise, &norm, 1e-6);
        floats(&add, type), floats(&add, type), floats(&add, gains);
        check_fused(&add);
        const sl_gated_rms_norm_quantise_attrs gated = {.eps = 1e-6f};
        op_case gate_norm = case_of(SL_OP_gated_rms_norm_quantise, &gated, 1e-6);
        floats(&gate_norm, type), floats(&gate_norm, type), floats(&gate_norm, gains);
        check_fused(&gate_norm);
        op_case gate = case_of(SL_OP_sigmoid_gate_quantise, NULL, 1e-6);
        floats(&gate, type), input(&gate, type, -9, 9);
        check_fused(&gate);
    }
}

static void test_products(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS * 3; round++) {
        const int64_t tokens = between(1, 9), cols = between(1, 150), rows = between(1, 400);
        const int64_t some[3] = {between(1, 70), between(1, 70), between(1, 70)};
        op_case pair = case_of(SL_OP_linear_pair, NULL, 1e-5);
        product(&pair, tokens, cols, some, 2);
        check_fused(&pair);
        op_case triple = case_of(SL_OP_linear_triple, NULL, 1e-5);
        product(&triple, tokens, cols, some, 3);
        check_fused(&triple);
        op_case swiglu = case_of(SL_OP_linear_swiglu, NULL, 3e-5);
        product(&swiglu, tokens, cols, (int64_t[]){rows, rows}, 2);
        check_fused(&swiglu);
        op_case coded = case_of(SL_OP_linear_swiglu_quantise, NULL, 3e-5);
        product(&coded, tokens, cols, (int64_t[]){rows, rows}, 2);
        check_fused(&coded);
    }
}

static void test_bias(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS * 4; round++) {
        const sl_linear_bias_act_attrs attrs = {.act = (uint32_t)round % 6};
        const int64_t rows = between(1, 90), cols = between(1, 150);
        op_case c = case_of(SL_OP_linear_bias_act, &attrs, 1e-5);
        product(&c, round % 5 ? between(1, 9) : between(40, 90), cols, &rows, 1);
        floats(&c, f32(1, rows, 0, 0, 0));
        check_fused(&c);
    }
}

static void test_blocks(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS * 4; round++) {
        const sl_fused_matmul_bias_act_attrs attrs = {.act = (uint32_t)round % 7};
        const int64_t rows = between(1, 60), inner = between(1, 90), cols = between(1, 300);
        const sl_dtype dtype = round / 7 % 2 ? SL_DTYPE_f64 : SL_DTYPE_f32;
        op_case c = case_of(SL_OP_fused_matmul_bias_act, &attrs, 1e-5);
        c.by_tensor = true;
        (void)input(&c, sl_type_make(dtype, 3, between(1, 3), rows, inner), -1, 1);
        (void)input(&c, sl_type_make(dtype, 2, inner, cols), -1, 1);
        (void)input(&c, sl_type_make(dtype, 1, cols), -1, 1);
        check_fused(&c);
        const sl_fused_swiglu_attrs first = {.gate_first = (uint32_t)round % 2};
        op_case halves = case_of(SL_OP_fused_swiglu, &first, 1e-6);
        floats(&halves, f32(2, rows, 2 * cols, 0, 0));
        check_fused(&halves);
    }
}

/* Each way in which a convolution is computed: 1x1, several blocks of taps, through lines and not,
 * groups, depthwise with and without loops of its own; f64 has one. */
static void test_convolutions(void **state) {
    (void)state;
    static const struct {
        int64_t x[4], w[4], strides[2], pads[2];
        uint32_t groups;
    } rows[] = {
        {{2, 70, 9, 15}, {140, 70, 1, 1}, {1, 1}, {0, 0}, 1},
        {{1, 40, 5, 64}, {33, 40, 3, 3}, {1, 1}, {1, 1}, 1},
        {{1, 3, 40, 37}, {9, 3, 3, 3}, {3, 1}, {1, 0}, 1},
        {{2, 6, 11, 35}, {12, 2, 3, 3}, {2, 2}, {1, 1}, 3},
        {{2, 5, 19, 37}, {5, 1, 3, 3}, {1, 1}, {1, 1}, 5},
        {{1, 3, 90, 45}, {6, 1, 5, 5}, {2, 2}, {2, 2}, 3},
        {{1, 4, 9, 80}, {4, 1, 2, 5}, {1, 1}, {0, 2}, 4},
    };
    enum { COUNT = sizeof rows / sizeof rows[0] };
    for (uint32_t i = 0; i < COUNT * 6; i++) {
        const uint32_t r = i % COUNT, act = 1 + i / COUNT;
        const int64_t *x = rows[r].x, *w = rows[r].w;
        const sl_fused_conv_bias_act_attrs attrs = {.strides = {2, rows[r].strides},
                                                    .pads_before = {2, rows[r].pads},
                                                    .groups = rows[r].groups,
                                                    .act = act};
        const sl_dtype dtype = i % 6 == 5 ? SL_DTYPE_f64 : SL_DTYPE_f32;
        op_case c = case_of(SL_OP_fused_conv_bias_act, &attrs, 1e-5);
        c.by_tensor = true;
        (void)input(&c, sl_type_make(dtype, 4, x[0], x[1], x[2], x[3]), -1, 1);
        (void)input(&c, sl_type_make(dtype, 4, w[0], w[1], w[2], w[3]), -1, 1);
        if (i % 4) (void)input(&c, sl_type_make(dtype, 1, w[0]), -1, 1);
        check_fused(&c);
    }
}

static void add_rows(op_case *c, int64_t rows, int32_t first) {
    int32_t *slots = input(c, i32(rows), 0, 1), *positions = input(c, i32(rows), 0, 1);
    for (int64_t t = 0; t < rows; t++) {
        slots[t] = t < rows / 2 ? 1 : 0;
        positions[t] = (int32_t)(t < rows / 2 ? first + t : t - rows / 2);
    }
}

static void add_caches(op_case *c, sl_kv_shape shape) {
    floats(c, sl_kv_keys(shape)), floats(c, sl_kv_values(shape));
}

static void test_rope(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS * 4; round++) {
        const int64_t rows = between(1, 7), heads = between(1, 4);
        const int64_t width = between(2, round % 8 == 7 ? 300 : 150);
        const sl_type type = f32(3, rows, heads, width, 0);
        const sl_type table = f32(3, rows, 1, between(1, width / 2), 0);
        const sl_norm_rope_attrs attrs = {
            .eps = 1e-6f, .offset = 1, .interleaved = (uint32_t)round / 2 % 2};
        op_case rope = case_of(SL_OP_norm_rope, &attrs, 1e-6);
        floats(&rope, type), floats(&rope, f32(1, width, 0, 0, 0));
        floats(&rope, table), floats(&rope, table);
        check_fused(&rope);
        const sl_norm_rope_append_attrs append_attrs = {.eps = 1e-6f,
                                                        .interleaved = (uint32_t)round / 2 % 2};
        op_case append = case_of(SL_OP_norm_rope_append, &append_attrs, 1e-6);
        floats(&append, type), floats(&append, f32(1, width, 0, 0, 0));
        floats(&append, table), floats(&append, table), floats(&append, type);
        add_rows(&append, rows, 14);
        add_caches(&append, (sl_kv_shape){cache_types[round % CACHE_TYPES], 2, heads, 20, width});
        check_fused(&append);
    }
}

static void test_positions_are_checked(void **state) {
    (void)state;
    const sl_norm_rope_append_attrs attrs = {.eps = 1e-6f};
    op_case c = case_of(SL_OP_norm_rope_append, &attrs, 0);
    floats(&c, f32(3, 4, 1, 4, 0)), floats(&c, f32(1, 4, 0, 0, 0));
    floats(&c, f32(3, 4, 1, 1, 0)), floats(&c, f32(3, 4, 1, 1, 0));
    floats(&c, f32(3, 4, 1, 4, 0));
    add_rows(&c, 4, 31);
    add_caches(&c, (sl_kv_shape){SL_DTYPE_f32, 2, 1, 20, 4});
    check_refused(&c);
}

static void test_join(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t rows = between(1, 6), k = between(1, 9);
        const int64_t width = round % 3 ? between(1, 300) : 2048;
        op_case c = case_of(SL_OP_moe_join, NULL, 1e-6);
        floats(&c, f32(3, rows, k, width, 0)), floats(&c, f32(2, rows, k, 0, 0));
        floats(&c, f32(2, rows, width, 0, 0)), input(&c, f32(2, rows, 1, 0, 0), -9, 9);
        floats(&c, f32(2, rows, width, 0, 0));
        check_fused(&c);
    }
}

static void test_moe_add(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t rows = between(1, 6), k = between(1, 9);
        const int64_t width = round % 3 ? between(1, 300) : 2048;
        const int others = 1 + round % 2;
        op_case c = case_of(others == 2 ? SL_OP_moe_add_shared : SL_OP_moe_add, NULL, 1e-6);
        floats(&c, f32(3, rows, k, width, 0)), floats(&c, f32(2, rows, k, 0, 0));
        for (int i = 0; i < others; i++) floats(&c, f32(2, rows, width, 0, 0));
        check_fused(&c);
    }
}

static void test_add3(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const sl_type type = f32(2, between(1, 5), between(1, 1500), 0, 0);
        op_case c = case_of(SL_OP_add3, NULL, 2e-7);
        for (int i = 0; i < 3; i++) floats(&c, type);
        check_fused(&c);
    }
}

enum { REGION_INPUTS = 4, REGION_STEPS = 6 };

/* Each op that ends a region in models, after sums and products: where a product that is not
 * rounded before it is added (FMA contraction) would show. */
static void test_region(void **state) {
    (void)state;
    static const uint32_t last_ops[] = {
        SL_STEP_add,     SL_STEP_sub,          SL_STEP_mul,     SL_STEP_div,  SL_STEP_maximum,
        SL_STEP_minimum, SL_STEP_sigmoid_gate, SL_STEP_swiglu,  SL_STEP_neg,  SL_STEP_abs,
        SL_STEP_relu,    SL_STEP_exp,          SL_STEP_log,     SL_STEP_sqrt, SL_STEP_rsqrt,
        SL_STEP_tanh,    SL_STEP_silu,         SL_STEP_sigmoid, SL_STEP_gelu};
    for (size_t i = 0; i < sizeof last_ops / sizeof last_ops[0]; i++)
        for (int round = 0; round < 3; round++) {
            int64_t code[REGION_STEPS * SL_ELEMENTWISE_STEP_NUMBERS] = {0};
            const uint32_t steps = 1 + (uint32_t)between(1, REGION_STEPS - 1);
            const uint32_t number = last_ops[i];
            const bool roots = number >= SL_STEP_log && number <= SL_STEP_rsqrt;
            for (uint32_t s = 0; s < steps; s++) {
                int64_t *step = code + (size_t)s * SL_ELEMENTWISE_STEP_NUMBERS;
                const int64_t last = REGION_INPUTS - 1 + s;
                step[0] = s + 1 == steps ? number : between(0, 1) ? SL_STEP_mul : SL_STEP_add;
                /* A nonnegative argument. */
                if (roots && s + 2 == steps) step[0] = SL_STEP_sigmoid;
                step[1] = s ? last : 0;
                if (step[0] <= SL_STEP_swiglu) step[2] = between(0, last);
            }
            const sl_elementwise_region_attrs attrs = {
                .code = {steps * SL_ELEMENTWISE_STEP_NUMBERS, code}};
            op_case c = case_of(SL_OP_elementwise_region, &attrs, 1e-5);
            const sl_type type = f32(2, between(1, 5), between(60, 700), 0, 0);
            for (int in = 0; in < REGION_INPUTS; in++) input(&c, type, 0.2, 0.6);
            c.by_tensor = true;
            check_fused(&c);
        }
}

/* The result may be written over an operand. */
static void test_region_in_place(void **state) {
    (void)state;
    static const int64_t code[] = {SL_STEP_mul, 0, 1, 0, 0, SL_STEP_silu, 2, 0, 0, 0,
                                   SL_STEP_add, 3, 0, 0, 0}; /* silu(a * b) + a */
    enum { COUNT = 1300 };
    const sl_type type = f32(1, COUNT, 0, 0, 0);
    sl_operand operands[3] = {{.type = type}, {.type = type}, {.type = type}};
    const sl_elementwise_region_attrs attrs = {.code = {sizeof code / sizeof code[0], code}};
    const sl_step step = {.op = SL_OP_elementwise_region,
                          .operands = operands,
                          .operand_count = 3,
                          .input_count = 2,
                          .attrs = &attrs};
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!sl_cpu_kernel_set(isas[i])) continue;
        float a[COUNT], b[COUNT], out[COUNT];
        for (int n = 0; n < COUNT; n++) a[n] = (float)uniform(-2, 2), b[n] = (float)uniform(-2, 2);
        sl_arena arena;
        sl_arena_init(&arena, NULL);
        void *args = sl_arguments_create(&step, &arena);
        assert_non_null(args);
        sl_argument(&step, args, 0)->data = a;
        sl_argument(&step, args, 1)->data = b;
        sl_argument(&step, args, 2)->data = out;
        const sl_type types[3] = {type, type, type};
        const sl_kernel *kernel = sl_cpu_kernel_find(sl_cpu_kernel_set(isas[i]), step.op, types);
        sl_error err = {0};
        assert_int_equal(run_items(kernel, args, INT32_MAX, false, &err), SL_OK);
        sl_argument(&step, args, 2)->data = a;
        assert_int_equal(run_items(kernel, args, 1, true, &err), SL_OK);
        assert_memory_equal(a, out, sizeof a);
        sl_arena_deinit(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_positions_are_checked),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_moe_add),
        cmocka_unit_test(test_add3),
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_region_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
