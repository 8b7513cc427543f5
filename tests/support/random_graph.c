#include "tests/support/random_graph.h"
#include "compiler/build.h"
#include "core/kv.h"
#include "tests/support/random_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum {
    ROWS = 5,
    UNIT = 32,
    WIDEST = 3,
    MOST_VALUES = 4096,
    RECENT = 8,
    CAPACITY = 16,
    TAPS = 4,
    OUTPUTS = 10
};

/* Values are f32[ROWS, width * UNIT] with width 1 to WIDEST. */
typedef struct {
    sl_graph *graph;
    test_random random;
    sl_value values[MOST_VALUES];
    uint32_t widths[MOST_VALUES], count, names;
    sl_value slots, positions;
    sl_value windows[WIDEST + 1];  /* the latest version of each convolution's state */
    sl_value memories[WIDEST + 1]; /* and of each weight that is written */
} generator;

static uint32_t draw(generator *g, uint32_t limit) {
    return test_draw(&g->random, limit);
}

static void keep(generator *g, sl_value value, uint32_t width) {
    if (g->count == MOST_VALUES) return;
    g->values[g->count] = value;
    g->widths[g->count++] = width;
}

static sl_value declare(generator *g, sl_value_kind kind, const char *what, sl_type type) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s%u", what, g->names++);
    return sl_graph_declare(g->graph, kind, name, type);
}

static sl_type matrix(int64_t rows, int64_t columns) {
    return sl_type_make(SL_DTYPE_f32, 2, rows, columns);
}
static int64_t columns_of(uint32_t width) {
    return (int64_t)width * UNIT;
}

static uint32_t some(generator *g) {
    uint32_t back = draw(g, draw(g, 5) ? RECENT : g->count);
    if (back >= g->count) back = g->count - 1;
    return g->count - 1 - back;
}

static void add_unary(generator *g) {
    static const sl_op ops[] = {SL_OP_silu, SL_OP_tanh, SL_OP_sigmoid, SL_OP_gelu, SL_OP_neg};
    const uint32_t x = some(g);
    const sl_neg_attrs attrs = {0};
    sl_value out;
    sl_graph_append(g->graph, ops[draw(g, 5)], &g->values[x], &attrs, &out);
    keep(g, out, g->widths[x]);
}

/* With a value of the same width, if need be itself. */
static void add_binary(generator *g) {
    static const sl_op ops[] = {SL_OP_add, SL_OP_sub, SL_OP_mul, SL_OP_maximum, SL_OP_swiglu};
    const uint32_t a = some(g);
    uint32_t b = some(g);
    for (int tries = 0; tries < 6 && g->widths[a] != g->widths[b]; tries++) b = some(g);
    if (g->widths[a] != g->widths[b]) b = a;
    const sl_value in[2] = {g->values[a], g->values[b]};
    const sl_add_attrs attrs = {0};
    sl_value out;
    sl_graph_append(g->graph, ops[draw(g, 5)], in, &attrs, &out);
    keep(g, out, g->widths[a]);
}

static void add_product(generator *g) {
    const uint32_t x = some(g), width = 1 + draw(g, WIDEST);
    const int64_t from = columns_of(g->widths[x]), to = columns_of(width);
    if (draw(g, 3)) {
        const sl_value w = declare(g, SL_VALUE_WEIGHT, "w", matrix(to, from));
        keep(g,
             sl_build_linear(g->graph, (sl_linear_in){g->values[x], w}, (sl_linear_attrs){0}).out,
             width);
    } else {
        const sl_value w = declare(g, SL_VALUE_WEIGHT, "w", matrix(from, to));
        keep(g,
             sl_build_matmul(g->graph, (sl_matmul_in){g->values[x], w}, (sl_matmul_attrs){0}).out,
             width);
    }
}

static void add_norm(generator *g) {
    const uint32_t x = some(g);
    const sl_value gain = declare(g, SL_VALUE_WEIGHT, "gain",
                                  sl_type_make(SL_DTYPE_f32, 1, columns_of(g->widths[x])));
    const sl_rms_norm_attrs attrs = {.eps = 1e-6f, .offset = 1};
    keep(g, sl_build_rms_norm(g->graph, (sl_rms_norm_in){g->values[x], gain}, attrs).out,
         g->widths[x]);
}

static sl_value slice(generator *g, sl_value x, uint32_t axis, uint32_t start, uint32_t length) {
    const sl_slice_attrs attrs = {.axis = axis, .start = start, .length = length};
    return sl_build_slice(g->graph, (sl_slice_in){x}, attrs).out;
}

/* Columns: strided.  Halves: two results. */
static void add_columns(generator *g) {
    const uint32_t x = some(g), width = g->widths[x];
    if (width == 1) return;
    if (width == 2 && draw(g, 2)) {
        sl_value halves[2];
        sl_build_even_split(g->graph, g->values[x], (sl_value_slots){2, halves});
        keep(g, halves[0], 1), keep(g, halves[1], 1);
        return;
    }
    const uint32_t kept = 1 + draw(g, width - 1);
    keep(g, slice(g, g->values[x], 1, draw(g, width - kept + 1) * UNIT, kept * UNIT), kept);
}

static void add_join(generator *g) {
    const uint32_t a = some(g), b = some(g);
    if (g->widths[a] + g->widths[b] > WIDEST) return;
    keep(g, sl_build_join(g->graph, g->values[a], g->values[b], 1), g->widths[a] + g->widths[b]);
}

/* Rows apart and together again, the other way round: the parts are views. */
static void add_rows(generator *g) {
    const uint32_t x = some(g), first = 1 + draw(g, ROWS - 1);
    const sl_value top = slice(g, g->values[x], 0, 0, first);
    const sl_value rest = slice(g, g->values[x], 0, first, ROWS - first);
    keep(g, sl_build_join(g->graph, rest, top, 0), g->widths[x]);
}

static sl_value reshape(generator *g, sl_value x, sl_dims shape) {
    return sl_build_reshape(g->graph, (sl_reshape_in){x}, (sl_reshape_attrs){.shape = shape}).out;
}

static void add_softmax(generator *g) {
    const uint32_t x = some(g);
    const int64_t columns = columns_of(g->widths[x]);
    const sl_value narrow = reshape(g, g->values[x], (sl_dims){2, {ROWS * columns / 16, 16}});
    const sl_value out =
        sl_build_softmax(g->graph, (sl_softmax_in){narrow}, (sl_softmax_attrs){.axis = -1}).out;
    keep(g, reshape(g, out, (sl_dims){2, {ROWS, columns}}), g->widths[x]);
}

static void add_transpose(generator *g) {
    const uint32_t x = some(g);
    const sl_transpose_attrs attrs = {.perm = {2, {1, 0}}};
    const sl_value across =
        sl_build_transpose(g->graph, (sl_transpose_in){g->values[x]}, attrs).out;
    const sl_value changed = sl_build_tanh(g->graph, (sl_tanh_in){across}, (sl_tanh_attrs){0}).out;
    keep(g, sl_build_transpose(g->graph, (sl_transpose_in){changed}, attrs).out, g->widths[x]);
}

/* Convolutions of one width share their state: one comes after the other. */
static void add_convolution(generator *g) {
    const uint32_t x = some(g), width = g->widths[x];
    const int64_t columns = columns_of(width);
    if (g->windows[width].v == 0)
        g->windows[width] =
            declare(g, SL_VALUE_STATE, "window",
                    sl_type_make(SL_DTYPE_f32, 3, (int64_t)1, (int64_t)TAPS - 1, columns));
    const sl_value taps = declare(g, SL_VALUE_WEIGHT, "taps", matrix(columns, TAPS));
    const sl_causal_conv_out out = sl_build_causal_conv(
        g->graph,
        (sl_causal_conv_in){g->values[x], taps, g->slots, g->positions, g->windows[width]},
        (sl_causal_conv_attrs){0});
    g->windows[width] = out.window;
    keep(g, out.out, width);
}

static void add_attention(generator *g) {
    const uint32_t x = some(g), width = g->widths[x];
    const int64_t columns = columns_of(width);
    const sl_dims heads = {3, {ROWS, 2, columns / 2}};
    const sl_kv_shape cache = {SL_DTYPE_f32, 1, 2, CAPACITY, columns / 2};
    const sl_value k = reshape(g, g->values[x], heads);
    const sl_value cache_k = declare(g, SL_VALUE_STATE, "keys", sl_kv_keys(cache));
    const sl_value cache_v = declare(g, SL_VALUE_STATE, "values", sl_kv_values(cache));
    const sl_kv_append_out next = sl_build_kv_append(
        g->graph, (sl_kv_append_in){k, k, g->slots, g->positions, cache_k, cache_v},
        (sl_kv_append_attrs){0});
    const sl_value out =
        sl_build_sdpa(g->graph, (sl_sdpa_in){k, next.cache_k, next.cache_v, g->slots, g->positions},
                      (sl_sdpa_attrs){.scale = 0.5f})
            .out;
    keep(g, reshape(g, out, (sl_dims){2, {ROWS, columns}}), width);
}

/* A weight of this width is read, and perhaps written then. */
static void add_assignment(generator *g) {
    const uint32_t x = some(g), width = g->widths[x];
    if (g->memories[width].v == 0)
        g->memories[width] = declare(g, SL_VALUE_WEIGHT, "memory", matrix(ROWS, columns_of(width)));
    const sl_sub_in in = {g->values[x], g->memories[width]};
    keep(g, sl_build_sub(g->graph, in, (sl_sub_attrs){0}).out, width);
    if (!draw(g, 2)) return;
    const sl_assign_in write = {g->memories[width], g->values[x]};
    g->memories[width] = sl_build_assign(g->graph, write, (sl_assign_attrs){0}).x;
}

static void add_something(generator *g) {
    const uint32_t what = draw(g, 100);
    if (what < 20)
        add_binary(g);
    else if (what < 35)
        add_unary(g);
    else if (what < 50)
        add_product(g);
    else if (what < 60)
        add_norm(g);
    else if (what < 70)
        add_columns(g);
    else if (what < 76)
        add_join(g);
    else if (what < 81)
        add_rows(g);
    else if (what < 86)
        add_softmax(g);
    else if (what < 90)
        add_transpose(g);
    else if (what < 94)
        add_convolution(g);
    else if (what < 97)
        add_assignment(g);
    else
        add_attention(g);
}

sl_graph *random_graph(uint64_t seed, uint32_t nodes) {
    static generator g; /* large; tests build one graph at a time */
    g = (generator){.random = test_random_of(seed)};
    sl_error err = {0};
    if (sl_graph_create("random", NULL, &g.graph, &err)) fail_msg("%s", err.message);
    for (uint32_t width = 1; width <= WIDEST; width++)
        keep(&g, declare(&g, SL_VALUE_INPUT, "x", matrix(ROWS, columns_of(width))), width);
    const sl_type ids = sl_type_make(SL_DTYPE_i32, 1, (int64_t)ROWS);
    g.slots = sl_graph_declare(g.graph, SL_VALUE_INPUT, "slots", ids);
    g.positions = sl_graph_declare(g.graph, SL_VALUE_INPUT, "positions", ids);
    while (g.graph->node_count < nodes && g.graph->error.status == SL_OK) add_something(&g);
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        char name[32];
        const uint32_t value = o ? WIDEST + draw(&g, g.count - WIDEST) : g.count - 1;
        (void)snprintf(name, sizeof name, "output%u", o);
        sl_graph_output(g.graph, name, g.values[value]);
    }
    if (sl_graph_check(g.graph, &err))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    return g.graph;
}
