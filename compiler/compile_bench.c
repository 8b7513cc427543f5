/* compile_bench.c - How long compiling takes: a decoder with experts, of about 2 000 steps. */
#include "base/clock.h"
#include "compiler/build.h"
#include "compiler/compile.h"
#include "core/kv.h"
#include <stdio.h>

enum { LAYERS = 80, ROWS = 4, HIDDEN = 256, HEADS = 4, HEAD = 64, EXPERTS = 16, USED = 4 };

static sl_value weight(sl_graph *g, const char *name, int layer, int64_t rows, int64_t cols) {
    char text[64];
    (void)snprintf(text, sizeof text, "%d.%s", layer, name);
    const sl_type type =
        rows ? sl_type_make(SL_DTYPE_f32, 2, rows, cols) : sl_type_make(SL_DTYPE_f32, 1, cols);
    return sl_graph_declare(g, SL_VALUE_WEIGHT, text, type);
}

static sl_value declare(sl_graph *g, sl_value_kind kind, const char *name, int layer,
                        sl_type type) {
    char text[64];
    (void)snprintf(text, sizeof text, "%d.%s", layer, name);
    return sl_graph_declare(g, kind, text, type);
}

static sl_value linear(sl_graph *g, sl_value x, sl_value w) {
    return sl_build_linear(g, (sl_linear_in){x, w}, (sl_linear_attrs){0}).out;
}

static sl_value norm(sl_graph *g, sl_value x, sl_value gain) {
    return sl_build_rms_norm(g, (sl_rms_norm_in){x, gain}, (sl_rms_norm_attrs){.eps = 1e-6f}).out;
}

static sl_value reshape(sl_graph *g, sl_value x, sl_dims shape) {
    return sl_build_reshape(g, (sl_reshape_in){x}, (sl_reshape_attrs){.shape = shape}).out;
}

static sl_value add(sl_graph *g, sl_value a, sl_value b) {
    return sl_build_add(g, (sl_add_in){a, b}, (sl_add_attrs){0}).out;
}

typedef struct {
    sl_value slots, positions, cos, sin;
} where;

static sl_value head_part(sl_graph *g, sl_value qkv, uint32_t part) {
    const sl_slice_attrs attrs = {.axis = 1, .start = part * HIDDEN, .length = HIDDEN};
    const sl_value flat = sl_build_slice(g, (sl_slice_in){qkv}, attrs).out;
    return reshape(g, flat, (sl_dims){3, {ROWS, HEADS, HEAD}});
}

static sl_value attention(sl_graph *g, sl_value x, where at, int layer) {
    const sl_kv_shape cache = {SL_DTYPE_f16, 2, HEADS, 64, HEAD};
    const sl_value k_state = declare(g, SL_VALUE_STATE, "k", layer, sl_kv_keys(cache));
    const sl_value v_state = declare(g, SL_VALUE_STATE, "v", layer, sl_kv_values(cache));
    const sl_value qkv = linear(g, x, weight(g, "qkv", layer, INT64_C(3) * HIDDEN, HIDDEN));
    const sl_rope_apply_attrs rope = {0};
    const sl_value gain = weight(g, "qk_norm", layer, 0, HEAD);
    const sl_value q =
        sl_build_rope_apply(
            g, (sl_rope_apply_in){norm(g, head_part(g, qkv, 0), gain), at.cos, at.sin}, rope)
            .out;
    const sl_value k =
        sl_build_rope_apply(
            g, (sl_rope_apply_in){norm(g, head_part(g, qkv, 1), gain), at.cos, at.sin}, rope)
            .out;
    const sl_value v = head_part(g, qkv, 2);
    const sl_kv_append_out next =
        sl_build_kv_append(g, (sl_kv_append_in){k, v, at.slots, at.positions, k_state, v_state},
                           (sl_kv_append_attrs){0});
    const sl_value y =
        sl_build_sdpa(g, (sl_sdpa_in){q, next.cache_k, next.cache_v, at.slots, at.positions},
                      (sl_sdpa_attrs){.scale = 0.125f})
            .out;
    return linear(g, reshape(g, y, (sl_dims){2, {ROWS, HIDDEN}}),
                  weight(g, "o", layer, HIDDEN, HIDDEN));
}

static sl_value experts(sl_graph *g, sl_value x, int layer) {
    const sl_value e =
        declare(g, SL_VALUE_EXPERTS, "experts", layer,
                sl_type_make(SL_DTYPE_f32, 3, (int64_t)EXPERTS, (int64_t)HIDDEN, (int64_t)HIDDEN));
    const sl_value logits = linear(g, x, weight(g, "router", layer, EXPERTS, HIDDEN));
    const sl_route_out route =
        sl_build_route(g, (sl_route_in){logits}, (sl_route_attrs){.k = USED, .normalise = 1});
    const sl_moe_group_out group =
        sl_build_moe_group(g, (sl_moe_group_in){route.experts, e}, (sl_moe_group_attrs){0});
    const sl_value y = sl_build_moe_ffn(g, (sl_moe_ffn_in){x, group.order, group.starts, e},
                                        (sl_moe_ffn_attrs){.k = USED})
                           .out;
    const sl_value gate = linear(g, x, weight(g, "gate", layer, HIDDEN, HIDDEN));
    const sl_value up = linear(g, x, weight(g, "up", layer, HIDDEN, HIDDEN));
    const sl_value inner = sl_build_swiglu(g, (sl_swiglu_in){gate, up}, (sl_swiglu_attrs){0}).out;
    const sl_value shared = linear(g, inner, weight(g, "down", layer, HIDDEN, HIDDEN));
    const sl_value routed =
        sl_build_moe_combine(g, (sl_moe_combine_in){y, route.weights}, (sl_moe_combine_attrs){0})
            .out;
    const sl_value share = linear(g, x, weight(g, "share", layer, 1, HIDDEN));
    return sl_build_shared_combine(g, (sl_shared_combine_in){routed, shared, share},
                                   (sl_shared_combine_attrs){0})
        .out;
}

static sl_status build(sl_graph **out, sl_error *err) {
    SL_TRY(sl_graph_create("bench", NULL, out, err));
    sl_graph *g = *out;
    const sl_type rows = sl_type_make(SL_DTYPE_i32, 1, (int64_t)ROWS);
    const sl_rope_table_attrs turns = {.rotary = HEAD, .theta = 1e4f};
    where at = {.slots = sl_graph_declare(g, SL_VALUE_INPUT, "slots", rows),
                .positions = sl_graph_declare(g, SL_VALUE_INPUT, "positions", rows)};
    const sl_rope_table_out table = sl_build_rope_table(g, (sl_rope_table_in){at.positions}, turns);
    at.cos = table.cos, at.sin = table.sin;
    sl_value x = sl_graph_declare(g, SL_VALUE_INPUT, "x",
                                  sl_type_make(SL_DTYPE_f32, 2, (int64_t)ROWS, (int64_t)HIDDEN));
    for (int layer = 0; layer < LAYERS; layer++) {
        x = add(g, x, attention(g, norm(g, x, weight(g, "norm0", layer, 0, HIDDEN)), at, layer));
        x = add(g, x, experts(g, norm(g, x, weight(g, "norm1", layer, 0, HIDDEN)), layer));
    }
    sl_graph_output(g, "y", x);
    return sl_graph_check(g, err);
}

enum { REPEATS = 20 };

static void keep_least(double *best, double seconds) {
    if (seconds < *best) *best = seconds;
}

/* Times are the best of some, for others may be at work on the machine. */
static sl_status bench(const char *name, const sl_compiler_options *options, sl_error *err) {
    sl_program_report r = {0};
    double lower = 1, schedule = 1, plan = 1;
    for (int i = 0; i < REPEATS; i++) {
        sl_graph *graph = NULL;
        sl_program *program = NULL;
        sl_status status = build(&graph, err);
        if (status == SL_OK) status = sl_compile_graph(graph, options, NULL, &program, err);
        if (status == SL_OK) r = program->report;
        sl_program_destroy(program);
        sl_graph_destroy(graph);
        SL_TRY(status);
        keep_least(&lower, r.lower_seconds);
        keep_least(&schedule, r.schedule_seconds);
        keep_least(&plan, r.plan_seconds);
    }
    const double kib = 1.0 / 1024;
    printf("%-13s %6u %6u %6u %8u %6u %8.1f %7.1f %7.1f %5u %7.2f %7.2f %7.2f\n", name, r.steps,
           r.groups, r.moved, r.edges_naive, r.edges, (double)r.unshared_bytes * kib,
           (double)r.arena_bytes * kib, (double)r.live_bytes * kib, r.in_place, lower * 1e3,
           schedule * 1e3, plan * 1e3);
    return SL_OK;
}

int main(void) {
    static const struct {
        const char *name;
        sl_compiler_options options;
    } cases[] = {
        {"levels", {.no_fusion = true}},
        {"groups", {.no_fusion = true, .model = SL_SCHEDULE_GROUPS}},
        {"edges", {.no_fusion = true, .model = SL_SCHEDULE_EDGES}},
        {"in order", {.no_fusion = true, .no_reordering = true}},
        {"not in place", {.no_fusion = true, .no_in_place = true}},
        {"fused", {0}},
    };
    sl_error err;
    printf("%-13s %6s %6s %6s %8s %6s %8s %7s %7s %5s %7s %7s %7s\n", "", "steps", "levels",
           "moved", "pairs", "edges", "unshared", "arena", "live", "in pl", "lower", "sched",
           "plan ms");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (bench(cases[i].name, &cases[i].options, &err) != SL_OK) {
            (void)fprintf(stderr, "%s\n", err.message);
            return 1;
        }
    return 0;
}
