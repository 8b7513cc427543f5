/* graph_test.c - Building, verifying, printing, parsing and evaluating graphs. */
#include "compiler/build.h"
#include "compiler/eval.h"
#include "core/kv.h"
#include "tests/support/families.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static sl_graph *new_graph(void) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("test", NULL, &graph, &err), SL_OK);
    return graph;
}

static sl_type f32(uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return sl_type_make(SL_DTYPE_f32, rank, a, b, c, d);
}

static sl_value declare(sl_graph *g, sl_value_kind kind, const char *name, sl_type type) {
    return sl_graph_declare(g, kind, name, type);
}

/* ---- A graph that uses every op ---- */

static void use_elementwise(sl_graph *g, sl_value x, sl_value y) {
    sl_graph_scope(g, "elementwise");
#define BINARY(OP) y = sl_build_##OP(g, (sl_##OP##_in){x, y}, (sl_##OP##_attrs){0}).out;
    BINARY(add)
    BINARY(sub)
    BINARY(mul)
    BINARY(div)
    BINARY(maximum)
    BINARY(minimum)
    BINARY(sigmoid_gate)
    BINARY(swiglu)
#undef BINARY
#define UNARY(OP) y = sl_build_##OP(g, (sl_##OP##_in){y}, (sl_##OP##_attrs){0}).out;
    UNARY(neg)
    UNARY(abs)
    UNARY(exp)
    UNARY(log)
    UNARY(sqrt)
    UNARY(rsqrt)
    UNARY(tanh)
    UNARY(sigmoid)
    UNARY(silu)
    UNARY(gelu)
    UNARY(relu)
    UNARY(softmax)
#undef UNARY
    const sl_value best = sl_build_argmax(g, (sl_argmax_in){y}, (sl_argmax_attrs){.axis = -1}).out;
    sl_graph_output(g, "best", best);
}

static void use_reductions(sl_graph *g, sl_value x) {
    sl_graph_scope(g, "reductions \"and\" movement\n");
    const sl_dims axes = {.rank = 1, .dims = {1}};
    const sl_value sum =
        sl_build_reduce_sum(g, (sl_reduce_sum_in){x}, (sl_reduce_sum_attrs){.axes = axes}).out;
    sl_build_reduce_mean(g, (sl_reduce_mean_in){x},
                         (sl_reduce_mean_attrs){.axes = axes, .keep = 1});
    sl_build_reduce_max(g, (sl_reduce_max_in){x}, (sl_reduce_max_attrs){.axes = axes});
    const sl_value wide =
        sl_build_reshape(g, (sl_reshape_in){x}, (sl_reshape_attrs){.shape = {2, {-1, 3}}}).out;
    const sl_value tall =
        sl_build_transpose(g, (sl_transpose_in){wide}, (sl_transpose_attrs){.perm = {2, {1, 0}}})
            .out;
    const sl_value product =
        sl_build_matmul(g, (sl_matmul_in){wide, tall}, (sl_matmul_attrs){0}).out;
    const sl_value part = sl_build_slice(g, (sl_slice_in){product},
                                         (sl_slice_attrs){.axis = 1, .start = 1, .length = 2})
                              .out;
    const sl_value both = sl_build_join(g, part, part, 1);
    const sl_value index = sl_graph_constant(
        g, "two indices", sl_type_make(SL_DTYPE_i32, 1, (int64_t)2), (const int32_t[]){3, 0});
    sl_build_gather(g, (sl_gather_in){both, index}, (sl_gather_attrs){.axis = 1});
    sl_graph_output(g, "sum", sum);
}

typedef struct {
    sl_value slots, positions, x; /* i32[3], i32[3], f32[3,8] */
} rows;

static void use_attention(sl_graph *g, rows r) {
    sl_graph_scope(g, "layer %d", 0);
    const sl_value gain = declare(g, SL_VALUE_WEIGHT, "layers.0.gain", f32(1, 2, 0, 0, 0));
    const sl_value cube =
        sl_build_reshape(g, (sl_reshape_in){r.x}, (sl_reshape_attrs){.shape = {3, {3, 2, 4}}}).out;
    sl_value halves[2];
    sl_build_even_split(g, cube, (sl_value_slots){2, halves});
    const sl_value normed = sl_build_rms_norm(g, (sl_rms_norm_in){halves[0], gain},
                                              (sl_rms_norm_attrs){.eps = 1e-6f, .offset = 1})
                                .out;
    const sl_rope_table_attrs yarn = {2, 1e7f, 3, 40, 4096, 1, 32, 1, 1.25f, 0};
    const sl_rope_table_out table = sl_build_rope_table(g, (sl_rope_table_in){r.positions}, yarn);
    const sl_value turned = sl_build_rope_apply(g, (sl_rope_apply_in){normed, table.cos, table.sin},
                                                (sl_rope_apply_attrs){.interleaved = 1})
                                .out;
    const sl_kv_shape shape = {SL_DTYPE_f16, 2, 2, 5, 2};
    const sl_value k = declare(g, SL_VALUE_STATE, "cache.k", sl_kv_keys(shape));
    const sl_value v = declare(g, SL_VALUE_STATE, "cache.v", sl_kv_values(shape));
    const sl_kv_append_out cache =
        sl_build_kv_append(g, (sl_kv_append_in){turned, halves[1], r.slots, r.positions, k, v},
                           (sl_kv_append_attrs){0});
    const sl_value out =
        sl_build_sdpa(g, (sl_sdpa_in){turned, cache.cache_k, cache.cache_v, r.slots, r.positions},
                      (sl_sdpa_attrs){.scale = 0.7f})
            .out;
    const sl_sdpa_parts_out parts = sl_build_sdpa_parts(
        g, (sl_sdpa_parts_in){turned, cache.cache_k, cache.cache_v, r.slots, r.positions},
        (sl_sdpa_parts_attrs){.scale = 0.7f});
    const sl_value merged = sl_build_sdpa_merge(g, (sl_sdpa_merge_in){parts.mixes, parts.weights},
                                                (sl_sdpa_merge_attrs){0})
                                .out;
    sl_graph_output(g, "attention", out);
    sl_graph_output(g, "attention in parts", merged);
}

static void use_delta(sl_graph *g, rows r) {
    sl_graph_scope(g, "layer %d", 1);
    const sl_value w = declare(g, SL_VALUE_WEIGHT, "conv w", f32(2, 8, 4, 0, 0));
    const sl_value window = declare(g, SL_VALUE_STATE, "window", f32(3, 2, 3, 8, 0));
    const sl_value memory = declare(g, SL_VALUE_STATE, "memory", f32(4, 2, 2, 4, 4));
    const sl_value heads = declare(g, SL_VALUE_WEIGHT, "heads", f32(1, 2, 0, 0, 0));
    const sl_value a = declare(g, SL_VALUE_INPUT, "a", f32(2, 3, 2, 0, 0));
    const sl_value mixed =
        sl_build_causal_conv(g, (sl_causal_conv_in){r.x, w, r.slots, r.positions, window},
                             (sl_causal_conv_attrs){0})
            .out;
    const sl_value cube =
        sl_build_reshape(g, (sl_reshape_in){mixed}, (sl_reshape_attrs){.shape = {3, {3, 2, 4}}})
            .out;
    const sl_value unit =
        sl_build_l2_norm(g, (sl_l2_norm_in){cube}, (sl_l2_norm_attrs){.eps = 1e-6f, .scale = 0.1f})
            .out;
    const sl_decay_beta_out gates =
        sl_build_decay_beta(g, (sl_decay_beta_in){a, a, heads, heads}, (sl_decay_beta_attrs){0});
    const sl_delta_step_out step = sl_build_delta_step(
        g,
        (sl_delta_step_in){unit, unit, cube, gates.decay, gates.beta, r.slots, r.positions, memory},
        (sl_delta_step_attrs){0});
    const sl_delta_chunk_out chunk =
        sl_build_delta_chunk(g,
                             (sl_delta_chunk_in){unit, unit, cube, gates.decay, gates.beta, r.slots,
                                                 r.positions, step.memory},
                             (sl_delta_chunk_attrs){.chunk = 64});
    const sl_value gain = declare(g, SL_VALUE_WEIGHT, "42", f32(1, 4, 0, 0, 0));
    const sl_value out = sl_build_gated_rms_norm(g, (sl_gated_rms_norm_in){chunk.out, cube, gain},
                                                 (sl_gated_rms_norm_attrs){.eps = 1e-6f})
                             .out;
    sl_graph_output(g, "delta", out);
    sl_graph_output(g, "memory after", chunk.memory);
}

/* Routing by groups into experts with biases. */
static void use_biased_experts(sl_graph *g, sl_value x, sl_value logits, sl_value experts) {
    const sl_value bias = declare(g, SL_VALUE_WEIGHT, "route bias", f32(1, 5, 0, 0, 0));
    const sl_value inner = declare(g, SL_VALUE_WEIGHT, "inner bias", f32(2, 5, 16, 0, 0));
    const sl_value outer = declare(g, SL_VALUE_WEIGHT, "outer bias", f32(2, 5, 8, 0, 0));
    const sl_route_groups_out route = sl_build_route_groups(
        g, (sl_route_groups_in){logits, bias},
        (sl_route_groups_attrs){.k = 2, .groups = 5, .groups_kept = 3, .scale = 2.5f});
    const sl_moe_group_out group = sl_build_moe_group(g, (sl_moe_group_in){route.experts, experts},
                                                      (sl_moe_group_attrs){.layer = 7});
    (void)sl_build_moe_ffn_biased(
        g, (sl_moe_ffn_biased_in){x, group.order, group.starts, inner, inner, outer, experts},
        (sl_moe_ffn_biased_attrs){.layer = 7, .k = 2, .limit = 7, .alpha = 1.702f});
}

static void use_experts(sl_graph *g, rows r) {
    sl_graph_scope(g, "%s", "");
    const sl_type stack = sl_type_make(SL_DTYPE_q4, 3, (int64_t)5, (int64_t)16, (int64_t)8);
    const sl_value experts = declare(g, SL_VALUE_EXPERTS, "experts", stack);
    const sl_value router = declare(g, SL_VALUE_WEIGHT, "router",
                                    sl_type_make(SL_DTYPE_bf16, 2, (int64_t)5, (int64_t)8));
    const sl_value one = declare(g, SL_VALUE_INPUT, "gate", f32(2, 3, 1, 0, 0));
    const sl_value ids = sl_build_argmax(g, (sl_argmax_in){r.x}, (sl_argmax_attrs){.axis = -1}).out;
    const sl_value x = sl_build_embed(g, (sl_embed_in){router, ids}, (sl_embed_attrs){0}).out;
    const sl_value logits = sl_build_linear(g, (sl_linear_in){x, router}, (sl_linear_attrs){0}).out;
    use_biased_experts(g, x, logits, experts);
    const sl_route_out route =
        sl_build_route(g, (sl_route_in){logits}, (sl_route_attrs){.k = 2, .normalise = 1});
    const sl_moe_group_out group = sl_build_moe_group(g, (sl_moe_group_in){route.experts, experts},
                                                      (sl_moe_group_attrs){.layer = 7});
    const sl_value y = sl_build_moe_ffn(g, (sl_moe_ffn_in){x, group.order, group.starts, experts},
                                        (sl_moe_ffn_attrs){.layer = 7, .k = 2})
                           .out;
    const sl_value routed =
        sl_build_moe_combine(g, (sl_moe_combine_in){y, route.weights}, (sl_moe_combine_attrs){0})
            .out;
    const sl_value out = sl_build_shared_combine(g, (sl_shared_combine_in){routed, x, one},
                                                 (sl_shared_combine_attrs){0})
                             .out;
    sl_graph_output(g, "out \\ \x01", out);
}

static void use_fused(sl_graph *g, rows r) {
    const sl_value gain = declare(g, SL_VALUE_WEIGHT, "gain", f32(1, 8, 0, 0, 0));
    const sl_value w = declare(g, SL_VALUE_WEIGHT, "w", f32(2, 8, 8, 0, 0));
    const sl_value heads = declare(g, SL_VALUE_INPUT, "q", f32(3, 3, 2, 4, 0));
    const sl_value head = declare(g, SL_VALUE_WEIGHT, "head gain", f32(1, 4, 0, 0, 0));
    const sl_kv_shape cache = {SL_DTYPE_f32, 2, 2, 5, 4};
    const sl_value k = declare(g, SL_VALUE_STATE, "k", sl_kv_keys(cache));
    const sl_value v = declare(g, SL_VALUE_STATE, "v", sl_kv_values(cache));
    const sl_value table = declare(g, SL_VALUE_INPUT, "table", f32(3, 3, 1, 2, 0));
    const sl_value y = declare(g, SL_VALUE_INPUT, "y", f32(3, 3, 2, 8, 0));
    const sl_value two = declare(g, SL_VALUE_INPUT, "two", f32(2, 3, 2, 0, 0));
    const sl_value one = declare(g, SL_VALUE_INPUT, "one", f32(2, 3, 1, 0, 0));
    const sl_value parts = declare(g, SL_VALUE_INPUT, "parts", f32(4, 3, 2, 1, 2));
    const sl_value pair = declare(g, SL_VALUE_WEIGHT, "pair", f32(1, 2, 0, 0, 0)),
                   stack = declare(g, SL_VALUE_WEIGHT, "stack", f32(3, 2, 5, 4, 0));
    const struct {
        sl_op op;
        sl_value inputs[SL_MAX_INPUTS];
        const char *attrs;
    } nodes[] = {
        {SL_OP_sdpa_sinks, {heads, k, v, r.slots, r.positions, pair}, "window = 3"},
        {SL_OP_sdpa_merge_sinks, {parts, parts, pair}, ""},
        {SL_OP_linear_heads, {heads, stack}, ""},
        {SL_OP_add_rms_norm, {r.x, r.x, gain}, "eps = 1e-6, offset = 1"},
        {SL_OP_rms_norm_mul, {r.x, gain, r.x}, "eps = 1e-6"},
        {SL_OP_linear_swiglu, {r.x, w, w}, ""},
        {SL_OP_quantise, {r.x}, ""},
        {SL_OP_rms_norm_quantise, {r.x, gain}, "eps = 1e-6"},
        {SL_OP_add_rms_norm_quantise, {r.x, r.x, gain}, "eps = 1e-6, offset = 1"},
        {SL_OP_gated_rms_norm_quantise, {r.x, r.x, gain}, "eps = 1e-6"},
        {SL_OP_sigmoid_gate_quantise, {r.x, r.x}, ""},
        {SL_OP_linear_swiglu_quantise, {r.x, w, w}, ""},
        {SL_OP_linear_pair, {r.x, w, w}, ""},
        {SL_OP_linear_triple, {r.x, w, w, w}, ""},
        {SL_OP_linear_bias_act, {r.x, w, gain}, "act = 3"},
        {SL_OP_norm_rope, {heads, head, table, table}, ""},
        {SL_OP_norm_rope_append,
         {heads, head, table, table, heads, r.slots, r.positions, k, v},
         "eps = 1e-6, offset = 1"},
        {SL_OP_moe_join, {y, two, r.x, one, r.x}, ""},
        {SL_OP_moe_add, {y, two, r.x}, ""},
        {SL_OP_moe_add_shared, {y, two, r.x, r.x}, ""},
        {SL_OP_add3, {r.x, r.x, r.x}, ""},
    };
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
        sl_value outputs[SL_MAX_OUTPUTS];
        const char *text = nodes[i].attrs;
        assert_int_equal(sl_attrs_parse(nodes[i].op, text, strlen(text), g, attrs, NULL), SL_OK);
        sl_graph_append(g, nodes[i].op, nodes[i].inputs, attrs, outputs);
    }
}

static void use_choices(sl_graph *g, rows r) {
    const sl_value chosen =
        declare(g, SL_VALUE_STATE, "chosen", sl_type_make(SL_DTYPE_i32, 1, (int64_t)2));
    const sl_value how =
        declare(g, SL_VALUE_INPUT, "how", sl_type_make(SL_DTYPE_f64, 2, (int64_t)3, (int64_t)5));
    (void)sl_build_resume(g, (sl_resume_in){r.positions, r.slots, chosen}, (sl_resume_attrs){0});
    sl_graph_output(
        g, "chosen",
        sl_build_choose(g, (sl_choose_in){r.x, how, r.slots, chosen}, (sl_choose_attrs){0}).out);
}

static sl_graph *graph_of_every_op(void) {
    sl_graph *g = new_graph();
    const sl_type i32 = sl_type_make(SL_DTYPE_i32, 1, (int64_t)3);
    const rows r = {.slots = declare(g, SL_VALUE_INPUT, "slots", i32),
                    .positions = declare(g, SL_VALUE_INPUT, "positions", i32),
                    .x = declare(g, SL_VALUE_INPUT, "x", f32(2, 3, 8, 0, 0))};
    use_elementwise(g, r.x, r.x);
    use_reductions(g, r.x);
    use_attention(g, r);
    use_delta(g, r);
    use_experts(g, r);
    use_fused(g, r);
    use_choices(g, r);
    sl_value normed;
    sl_graph_append_list(g, SL_OP_rms_norm_axes, (sl_values){1, &r.x},
                         &(sl_rms_norm_axes_attrs){.axes = {1, {-1}}, .eps = 1e-6f},
                         (sl_value_slots){1, &normed});
    sl_error err = {0};
    if (sl_graph_verify(g, &err) != SL_OK) fail_msg("%s", err.message);
    bool used[SL_OP_COUNT] = {false};
    for (uint32_t n = 0; n < g->node_count; n++) used[g->nodes[n].op] = true;
    for (int i = 0; i < FIRST_FAMILIES; i++) assert_true(used[first_families[i]]);
    return g;
}
/* ---- Text ---- */
static sl_graph *parsed(const char *text) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err) != SL_OK)
        fail_msg("%s in\n%s", err.message, text);
    return graph;
}

static char *printed(const sl_graph *graph, sl_arena *arena) {
    char *text = NULL;
    sl_error err = {0};
    if (sl_graph_print(graph, arena, &text, &err) != SL_OK) fail_msg("%s", err.message);
    return text;
}

static void assert_equal_graphs(const sl_graph *a, const sl_graph *b) {
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->value_count, b->value_count);
    assert_int_equal(a->node_count, b->node_count);
    assert_int_equal(a->output_count, b->output_count);
    for (uint32_t v = 1; v <= a->value_count; v++) {
        const sl_value_info *x = &a->values[v], *y = &b->values[v];
        assert_true(x->kind == y->kind && x->root.v == y->root.v && x->use_count == y->use_count);
        assert_true(sl_type_equal(&x->type, &y->type));
        assert_true(!x->name == !y->name && (!x->name || strcmp(x->name, y->name) == 0));
        if (x->data) assert_memory_equal(x->data, y->data, sl_type_bytes(&x->type));
    }
    for (uint32_t n = 0; n < a->node_count; n++) {
        const sl_node *x = &a->nodes[n], *y = &b->nodes[n];
        assert_int_equal(x->op, y->op);
        assert_string_equal(x->label, y->label);
        assert_true(x->input_count == y->input_count && x->output_count == y->output_count);
        assert_memory_equal(x->inputs, y->inputs, x->input_count * sizeof(sl_value));
        assert_memory_equal(x->outputs, y->outputs, x->output_count * sizeof(sl_value));
    }
    for (uint32_t i = 0; i < a->output_count; i++) {
        assert_string_equal(a->outputs[i].name, b->outputs[i].name);
        assert_int_equal(a->outputs[i].value.v, b->outputs[i].value.v);
    }
}

static void assert_round_trip(const sl_graph *graph) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    char *text = printed(graph, &arena);
    sl_graph *again = parsed(text);
    assert_equal_graphs(graph, again);
    assert_string_equal(printed(again, &arena), text);
    sl_graph_destroy(again);
    sl_arena_deinit(&arena);
}

static void every_op_round_trips(void **state) {
    (void)state;
    sl_graph *graph = graph_of_every_op();
    assert_round_trip(graph);
    sl_graph_destroy(graph);
}

static void constants_round_trip_bit_for_bit(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const uint32_t bits[8] = {0x7fc00001, 0xff800000, 0x7f800000, 0x80000000,
                              0x00000001, 0x3dcccccd, 0x7f7fffff, 0xffc00000};
    const uint16_t halves[4] = {0x7e01, 0xfc00, 0x0001, 0x3555};
    const uint8_t bytes[3] = {0, 255, 7}, flags[2] = {1, 0};
    unsigned char panel[4096];
    for (size_t i = 0; i < sizeof panel; i++) panel[i] = (unsigned char)(i * 31);
    const sl_type q4 = sl_type_make(SL_DTYPE_q4, 2, (int64_t)3, (int64_t)5);
    assert_true(sl_type_bytes(&q4) <= sizeof panel);
    sl_graph_constant(g, "f32", f32(1, 8, 0, 0, 0), bits);
    sl_graph_constant(g, "f16", sl_type_make(SL_DTYPE_f16, 1, (int64_t)4), halves);
    sl_graph_constant(g, "bf16", sl_type_make(SL_DTYPE_bf16, 2, (int64_t)2, (int64_t)2), halves);
    sl_graph_constant(g, "i32", sl_type_make(SL_DTYPE_i32, 0), &bits[3]);
    sl_graph_constant(g, "u8", sl_type_make(SL_DTYPE_u8, 1, (int64_t)3), bytes);
    sl_graph_constant(g, "bool", sl_type_make(SL_DTYPE_bool, 1, (int64_t)2), flags);
    sl_graph_constant(g, "q4", q4, panel);
    assert_round_trip(g);
    sl_graph_destroy(g);
}

static void text_is_as_documented(void **state) {
    (void)state;
    const char *const text = "graph \"mlp\" {\n"
                             "  input %x : f32[2,4]\n"
                             "  weight %w : q4[16,4]\n"
                             "  weight %\"a b\" : f32[16]\n"
                             "  state %s : f32[1,3,8]\n"
                             "  experts %e : bf16[8,64,128]\n"
                             "  constant %c : f32[2] = {1, 2.5}\n"
                             "  scope \"layer 0\"\n"
                             "  %7 = linear(%x, %w) : f32[2,16]\n"
                             "  label \"q_norm\"\n"
                             "  %8 = rms_norm(%7, %\"a b\") {eps = 1e-06, offset = 0} : f32[2,16]\n"
                             "  %9, %10 = split(%8) {axis = 1, sizes = [8, 8]} : f32[2,8], "
                             "f32[2,8]\n"
                             "  output \"logits\" = %10\n"
                             "}\n";
    sl_graph *graph = parsed(text);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    assert_string_equal(printed(graph, &arena), text);
    assert_string_equal(graph->nodes[1].label, "layer 0 q_norm");
    assert_string_equal(graph->nodes[2].label, "layer 0 split");
    sl_arena_deinit(&arena);
    sl_graph_destroy(graph);
}

static void types_numbers_and_layout_are_free(void **state) {
    (void)state;
    sl_graph *graph = parsed("# a comment\ngraph\"g\"{input %x:f32[2] # x\n"
                             "%sum=add(%x,%x)%99=reduce_sum(%sum){axes=[0]} output\"y\"=%99}");
    assert_int_equal(graph->node_count, 2);
    assert_int_equal(graph->values[3].type.shape.rank, 0);
    sl_graph_destroy(graph);
}

static void assert_parse_fails(const char *text, const char *message) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    assert_int_not_equal(sl_graph_parse(text, strlen(text), NULL, &graph, &err), SL_OK);
    assert_string_equal(err.message, message);
    assert_null(graph);
}

static void syntax_errors_have_positions(void **state) {
    (void)state;
    assert_parse_fails("", "line 1, column 1: expected 'graph', found the end of the text");
    assert_parse_fails("grape \"g\" {}", "line 1, column 1: expected 'graph'");
    assert_parse_fails("graph g {}",
                       "line 1, column 7: expected the quoted name of the graph, found 'g'");
    assert_parse_fails("graph \"g\" {} x",
                       "line 1, column 14: expected the end of the text, found 'x'");
    assert_parse_fails("graph \"g\" {\n  \x80",
                       "line 2, column 3: expected a statement or '}', found byte 0x80");
    assert_parse_fails("graph \"g", "line 1, column 7: this string is not closed");
    assert_parse_fails("graph \"\\n\"",
                       "line 1, column 9: expected \\\", \\\\ or \\x01 to \\xff in a string");
    assert_parse_fails(
        "graph \"g\" {\n  inputs %x",
        "line 2, column 3: expected input, weight, state, experts, constant, symbol, "
        "scope, label, output or a value, found 'inputs'");
    assert_parse_fails("graph \"g\" {input %1 : f32[]}",
                       "line 1, column 18: declared values have names, numbers are for results");
    assert_parse_fails("graph \"g\" {input x",
                       "line 1, column 18: expected a value such as %x or %1, found 'x'");
    assert_parse_fails("graph \"g\" {input %x f32[]}",
                       "line 1, column 21: expected ':', found 'f'");
    assert_parse_fails("graph \"g\" {input %x : f31[]}",
                       "line 1, column 23: unknown element type 'f31'");
    assert_parse_fails("graph \"g\" {input %x : f32[1,1,1,1,1,1,1,1,1]}",
                       "line 1, column 43: more than 8 entries in a list");
    assert_parse_fails("graph \"g\" {input %x : q4[0,1]}",
                       "line 1, column 23: this type: dim 0 is 0, must be at least 1");
    assert_parse_fails("graph \"g\" {constant %x : f32[9] = {1}}",
                       "line 1, column 36: expected 9 elements, but the text ends before");
    assert_parse_fails("graph \"g\" {constant %x : f32[2] = {1}}",
                       "line 1, column 37: expected ',', found '}'");
    assert_parse_fails("graph \"g\" {constant %x : u8[] = {256}}",
                       "line 1, column 34: expected an integer from 0 to 255, found '256'");
    assert_parse_fails("graph \"g\" {constant %x : f32[] = {1e39}}",
                       "line 1, column 35: expected a number that fits f32, found '1e39'");
    assert_parse_fails("graph \"g\" {constant %x : f32[] = {nan:1}}",
                       "line 1, column 35: these are not the bits of a NaN");
}

static void meaning_errors_have_positions(void **state) {
    (void)state;
#define HEAD "graph \"g\" {input %x : f32[2,3]\n"
    assert_parse_fails(HEAD "input %x : f32[]}",
                       "line 2, column 7: the name 'x' is declared twice");
    assert_parse_fails(HEAD "%x = exp(%x)}", "line 2, column 1: %x is defined twice");
    assert_parse_fails(HEAD "%1 = exp(%y)}", "line 2, column 10: %y is not defined");
    assert_parse_fails(HEAD "%1 = expo(%x)}", "line 2, column 6: unknown op 'expo'");
    assert_parse_fails(HEAD "%1 = exp(%x, %x)}",
                       "line 2, column 6: exp takes 1 inputs (x), found 2");
    assert_parse_fails(HEAD "%1, %2 = exp(%x)}", "line 2, column 10: exp has 1 results, found 2");
    assert_parse_fails(HEAD "%1 = exp(%x) {eps = 1}}",
                       "line 2, column 15: exp has no attribute 'eps'");
    assert_parse_fails(HEAD "%1 = reduce_sum(%x) {keep = 1}}",
                       "line 2, column 22: reduce_sum: attribute 'axes' is missing");
    assert_parse_fails(HEAD "%1 = reduce_sum(%x)}",
                       "line 2, column 20: reduce_sum: attribute 'axes' is missing");
    assert_parse_fails(HEAD "%1 = reduce_sum(%x) {axes = 1}}",
                       "line 2, column 22: attribute 'axes' is a list, as [1, 2]");
    assert_parse_fails(HEAD "%1 = reduce_sum(%x) {axes = [1], keep = [1]}}",
                       "line 2, column 34: attribute 'keep' is a number, not a list");
    assert_parse_fails(HEAD "%1 = reduce_sum(%x) {axes = [1], axes = [1]}}",
                       "line 2, column 34: attribute 'axes' is given twice");
    assert_parse_fails(HEAD "%1 = reduce_sum(%x) {axes = [1], keep = -1}}",
                       "line 2, column 41: expected an integer from 0 to 4294967295, found '-1'");
    assert_parse_fails(HEAD "scope \"top\" %1 = matmul(%x, %x)}",
                       "line 2, column 18: top matmul: b is f32[2,3], its second-to-last dim must "
                       "be 3 as in a f32[2,3]");
    assert_parse_fails(HEAD "%1 = exp(%x) : f32[3,2]}",
                       "line 2, column 16: result 'out' of exp is f32[2,3], not f32[3,2]");
    assert_parse_fails(HEAD "output \"y\" = %1}", "line 2, column 14: %1 is not defined");
#undef HEAD
}

/* ---- Mistakes of builders ---- */

static void assert_mistake(sl_graph *graph, const char *message) {
    sl_error err = {0};
    assert_int_equal(sl_graph_check(graph, &err), SL_INVALID);
    assert_string_equal(err.message, message);
    assert_int_equal(sl_graph_verify(graph, &err), SL_INVALID);
    assert_int_equal(declare(graph, SL_VALUE_INPUT, "later", f32(1, 1, 0, 0, 0)).v, 0);
    sl_graph_destroy(graph);
}

static void builders_remember_the_first_mistake(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    declare(g, SL_VALUE_INPUT, "x", f32(1, -1, 0, 0, 0));
    declare(g, SL_VALUE_INPUT, "y", f32(1, -2, 0, 0, 0));
    assert_mistake(g, "x: dim 0 is -1, must be at least 0");

    g = new_graph();
    declare(g, SL_VALUE_INPUT, "x", f32(1, 1, 0, 0, 0));
    declare(g, SL_VALUE_WEIGHT, "x", f32(1, 1, 0, 0, 0));
    assert_mistake(g, "the name 'x' is declared twice");

    g = new_graph();
    sl_graph_scope(g, "layer %d", 3);
    const sl_value x = declare(g, SL_VALUE_INPUT, "x", f32(2, 4, 256, 0, 0));
    const sl_value w =
        declare(g, SL_VALUE_WEIGHT, "w", sl_type_make(SL_DTYPE_bf16, 2, (int64_t)64, (int64_t)128));
    assert_int_equal(sl_build_linear(g, (sl_linear_in){x, w}, (sl_linear_attrs){0}).out.v, 0);
    assert_mistake(g, "layer 3 linear: w is bf16[64,128], its second dim must be 256 as in x "
                      "f32[4,256]");

    g = new_graph();
    sl_build_exp(g, (sl_exp_in){{9}}, (sl_exp_attrs){0});
    assert_mistake(g, "exp: input 'x' is not a value of this graph");

    g = new_graph();
    sl_graph_output(g, "y", (sl_value){0});
    assert_mistake(g, "output 'y' is not a value of this graph");
}

static void operand_kinds_are_checked(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value e = declare(g, SL_VALUE_EXPERTS, "e", f32(3, 2, 2, 2, 0));
    sl_build_exp(g, (sl_exp_in){e}, (sl_exp_attrs){0});
    assert_mistake(g, "exp: input 'x' must be a tensor, not experts");

    g = new_graph();
    const sl_value chosen =
        declare(g, SL_VALUE_INPUT, "chosen", sl_type_make(SL_DTYPE_i32, 2, (int64_t)1, (int64_t)1));
    const sl_value w = declare(g, SL_VALUE_WEIGHT, "w", f32(3, 2, 2, 2, 0));
    sl_build_moe_group(g, (sl_moe_group_in){chosen, w}, (sl_moe_group_attrs){0});
    assert_mistake(g, "moe_group: input 'experts' must be experts");

    g = new_graph();
    const sl_value i = declare(g, SL_VALUE_INPUT, "i", sl_type_make(SL_DTYPE_i32, 1, (int64_t)1));
    const sl_value x = declare(g, SL_VALUE_INPUT, "x", f32(2, 1, 2, 0, 0));
    const sl_value taps = declare(g, SL_VALUE_WEIGHT, "taps", f32(2, 2, 2, 0, 0));
    const sl_value window = declare(g, SL_VALUE_INPUT, "window", f32(3, 1, 1, 2, 0));
    sl_build_causal_conv(g, (sl_causal_conv_in){x, taps, i, i, window}, (sl_causal_conv_attrs){0});
    assert_mistake(g, "causal_conv: input 'window' must be a state");
}

/* ---- Verification ---- */

static void assert_refused(const sl_graph *graph, const char *message) {
    sl_error err = {0};
    assert_int_equal(sl_graph_verify(graph, &err), SL_INVALID);
    assert_string_equal(err.message, message);
}

/* %x, %w inputs; %3 = exp(%x); %4 = add(%3, %w); output y = %4. */
static sl_graph *small_graph(void) {
    sl_graph *g = parsed("graph \"g\" {input %x : f32[2] weight %w : f32[2] %3 = exp(%x)"
                         " %4 = add(%3, %w) output \"y\" = %4}");
    sl_error err = {0};
    assert_int_equal(sl_graph_verify(g, &err), SL_OK);
    return g;
}

/* Breaks one thing, expects the message, and puts it back. */
#define BREAK(PLACE, WRONG, MESSAGE)                                                               \
    do {                                                                                           \
        const __typeof__(PLACE) kept = (PLACE);                                                    \
        (PLACE) = (WRONG);                                                                         \
        assert_refused(g, (MESSAGE));                                                              \
        (PLACE) = kept;                                                                            \
    } while (0)

static void corrupted_values_are_found(void **state) {
    (void)state;
    sl_graph *g = small_graph();
    BREAK(g->values[1].kind, (sl_value_kind)9, "%x: unknown kind 9");
    BREAK(g->values[1].name, NULL, "%1 is declared without a name");
    BREAK(g->values[2].name, "x", "the name 'x' is declared twice");
    BREAK(g->values[1].root.v, 1, "%x: its root is 1, must be 0");
    BREAK(g->values[1].data, "bytes", "%x: constants have data, and nothing else has");
    BREAK(g->values[1].type.dtype, (sl_dtype)99, "%x: unknown element type 99");
    BREAK(g->values[1].type.shape.rank, 9, "%x: rank 9, at most 8 supported");
    BREAK(g->values[3].node, 2, "%3: made by node 2 of 2");
    BREAK(g->values[3].node, 1, "exp: result 'out' is not a value made by this node alone");
    BREAK(g->values[3].root.v, 1, "exp: the root of result 'out' is 1, must be 0");
    BREAK(g->values[3].type.shape.dims[0], 3, "exp: result 'out' is f32[3], must be f32[2]");
    BREAK(g->values[1].use_count, 2, "%x: use count 2, must be 1");
    BREAK(g->values[4].kind, SL_VALUE_INPUT, "%4 is declared without a name");
    sl_graph_destroy(g);
}

static void corrupted_nodes_are_found(void **state) {
    (void)state;
    sl_graph *g = small_graph();
    BREAK(g->nodes[0].op, (sl_op)999, "node 0: unknown op 999");
    BREAK(g->nodes[0].label, NULL, "node 0: no label or no attributes");
    BREAK(g->nodes[0].attrs, NULL, "node 0: no label or no attributes");
    BREAK(g->nodes[0].inputs[0].v, 5, "exp: input 'x' is not a value of this graph");
    BREAK(g->nodes[0].inputs[0].v, 4, "exp: input 'x' is %4, which is made later");
    BREAK(g->nodes[0].outputs[0].v, 4, "exp: result 'out' is not a value made by this node alone");
    BREAK(g->nodes[1].outputs[0].v, 3, "add: result 'out' is not a value made by this node alone");
    BREAK(g->values[3].type.dtype, SL_DTYPE_i32, "exp: result 'out' is i32[2], must be f32[2]");
    BREAK(g->node_count, 1, "%4: made by node 1 of 1");
    BREAK(g->outputs[0].value.v, 0, "output 'y' is not a tensor of this graph");
    BREAK(g->outputs[0].name, NULL, "output 0 has no name");
    BREAK(g->output_count, 0, "graph 'g' has no outputs and changes no state");
    sl_error err = {0};
    assert_int_equal(sl_graph_verify(g, &err), SL_OK);
    sl_graph_destroy(g);
}

#define CONV_HEAD                                                                                  \
    "graph \"g\" {input %x : f32[1,2] weight %w : f32[2,2] input %i : i32[1] "                     \
    "state %s : f32[1,1,2] %5, %6 = causal_conv(%x, %w, %i, %i, %s) "

static void states_are_used_in_order(void **state) {
    (void)state;
    sl_error err = {0};
    sl_graph *g = parsed(CONV_HEAD "%7, %8 = causal_conv(%5, %w, %i, %i, %6) output \"y\" = %7}");
    assert_int_equal(sl_graph_verify(g, &err), SL_OK);
    sl_graph_destroy(g);
    g = parsed(CONV_HEAD "}"); /* of use for its state alone */
    assert_int_equal(sl_graph_verify(g, &err), SL_OK);
    sl_graph_destroy(g);
    g = parsed(CONV_HEAD "%7, %8 = causal_conv(%5, %w, %i, %i, %s) output \"y\" = %7}");
    assert_refused(g, "causal_conv: input 'window' is %s, a state that was updated since: use %6");
    sl_graph_destroy(g);
    g = parsed(CONV_HEAD "%7 = exp(%s) output \"y\" = %7}");
    assert_refused(g, "exp: input 'x' is %s, a state that was updated since: use %6");
    sl_graph_destroy(g);
    g = parsed(CONV_HEAD "output \"y\" = %s}");
    assert_refused(g, "output 'y' is %s, a state that was updated since");
    sl_graph_destroy(g);
    g = parsed(CONV_HEAD "output \"y\" = %5 output \"y\" = %6}");
    assert_refused(g, "two outputs are called 'y'");
    sl_graph_destroy(g);
    g = parsed("graph \"g\" {input %k : f32[1,1,2] input %i : i32[1] state %s : f32[1,1,1,2,16]"
               "state %t : f32[1,1,16,2] %5, %6 = kv_append(%k, %k, %i, %i, %s, %t)}");
    g->nodes[0].inputs[5] = g->nodes[0].inputs[4]; /* types keep such a graph from being built */
    assert_refused(g, "kv_append: updates 'cache_k', which is also its 'cache_v'");
    sl_graph_destroy(g);
}

/* ---- Evaluation ---- */

static void evaluator_runs_graphs(void **state) {
    (void)state;
    sl_graph *g = parsed(CONV_HEAD "constant %c : f32[2] = {10, 20} %8 = add(%5, %c)"
                                   "output \"y\" = %8 output \"w\" = %w output \"s\" = %6}");
    sl_evaluator *evaluator = NULL;
    sl_error err = {0};
    assert_int_equal(sl_evaluator_create(g, NULL, &evaluator, &err), SL_OK);
    const float x[2] = {1, 2}, w[4] = {1, 0.5f, 2, 0};
    const int32_t zero = 0;
    double window[2] = {7, 8};
    assert_int_equal(sl_evaluator_run(evaluator, &err), SL_INVALID);
    assert_string_equal(err.message, "evaluate: 'x' is not bound");
    assert_int_equal(sl_evaluator_bind(evaluator, sl_graph_find(g, "x"), x, &err), SL_OK);
    assert_int_equal(sl_evaluator_bind(evaluator, sl_graph_find(g, "w"), w, &err), SL_OK);
    assert_int_equal(sl_evaluator_bind(evaluator, sl_graph_find(g, "i"), &zero, &err), SL_OK);
    assert_int_equal(sl_evaluator_bind(evaluator, sl_graph_find(g, "s"), x, &err), SL_INVALID);
    assert_string_equal(err.message,
                        "evaluate: bound value 's' is a state, must be an input or weight");
    assert_int_equal(sl_evaluator_bind_experts(evaluator, (sl_value){99}, NULL, &err), SL_INVALID);
    assert_int_equal(sl_evaluator_bind_state(evaluator, sl_graph_find(g, "s"), window, &err),
                     SL_OK);
    assert_int_equal(sl_evaluator_run(evaluator, &err), SL_OK);
    const double *y = sl_evaluator_result(evaluator, g->outputs[0].value);
    assert_true(fabs(y[0] - 10 - 0.5 / (1 + exp(-0.5))) < 1e-15 && y[1] == 20);
    assert_true(sl_evaluator_result(evaluator, g->outputs[1].value)[2] == 2);
    assert_ptr_equal(sl_evaluator_result(evaluator, g->outputs[2].value), window);
    assert_true(window[0] == 1 && window[1] == 2);
    sl_evaluator_destroy(evaluator);
    sl_graph_destroy(g);
}

/* ---- Out of memory ---- */

typedef struct {
    uint32_t left;
} limited;

static void *limited_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    limited *limit = ctx;
    if (new_bytes && limit->left == 0) return NULL;
    if (new_bytes) limit->left--;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

/* Every allocation fails in turn; nothing leaks and the error says why. */
static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    sl_graph *every = graph_of_every_op();
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const char *text = printed(every, &arena);
    bool finished = false;
    for (uint32_t allowed = 0; !finished; allowed++) {
        assert_true(allowed < 1000);
        limited limit = {allowed};
        const sl_allocator allocator = {limited_resize, &limit};
        sl_graph *graph = NULL;
        sl_evaluator *evaluator = NULL;
        sl_error err = {0};
        sl_status status = sl_graph_parse(text, strlen(text), &allocator, &graph, &err);
        if (status == SL_OK) status = sl_evaluator_create(graph, &allocator, &evaluator, &err);
        if (status != SL_OK) assert_int_equal(err.status, SL_NO_MEMORY);
        finished = status == SL_OK;
        sl_evaluator_destroy(evaluator);
        sl_graph_destroy(graph);
    }
    sl_arena_deinit(&arena);
    sl_graph_destroy(every);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_round_trips),
        cmocka_unit_test(constants_round_trip_bit_for_bit),
        cmocka_unit_test(text_is_as_documented),
        cmocka_unit_test(types_numbers_and_layout_are_free),
        cmocka_unit_test(syntax_errors_have_positions),
        cmocka_unit_test(meaning_errors_have_positions),
        cmocka_unit_test(builders_remember_the_first_mistake),
        cmocka_unit_test(operand_kinds_are_checked),
        cmocka_unit_test(corrupted_values_are_found),
        cmocka_unit_test(corrupted_nodes_are_found),
        cmocka_unit_test(states_are_used_in_order),
        cmocka_unit_test(evaluator_runs_graphs),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
