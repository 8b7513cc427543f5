/* transformer.c - A transformer block: attention and a gated MLP with residual connections, built
 * node by node, run on the CPU and in double precision. */
#include "sluice/graph.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 6, WIDTH = 32, HEADS = 4, HEAD = WIDTH / HEADS, HIDDEN = 64 };

/* ---- Building: mistakes are recorded and reported when the graph is compiled. ---- */

static sl_value apply1(sl_graph *g, const char *op, sl_value x, const char *attrs) {
    return sl_graph_apply(g, op, &x, 1, attrs);
}
static sl_value apply2(sl_graph *g, const char *op, sl_value x, sl_value y, const char *attrs) {
    return sl_graph_apply(g, op, (sl_value[]){x, y}, 2, attrs);
}
static sl_value matrix(sl_graph *g, const char *name, int64_t rows, int64_t cols) {
    return sl_graph_add_weight(g, name, "f32", 2, (int64_t[]){rows, cols});
}
static sl_value norm(sl_graph *g, const char *gain, sl_value x) {
    const sl_value w = sl_graph_add_weight(g, gain, "f32", 1, (int64_t[]){WIDTH});
    return apply2(g, "rms_norm", x, w, "eps=1e-6");
}

/* [T,WIDTH] -> [1,HEADS,T,HEAD], with RoPE by tables of cosines and sines unless they are NULL. */
static sl_value heads(sl_graph *g, sl_value x, const sl_value *tables) {
    char shape[64];
    (void)snprintf(shape, sizeof shape, "shape=[%d,%d,%d]", TOKENS, HEADS, HEAD);
    sl_value apart = apply1(g, "reshape", x, shape);
    if (tables)
        apart = sl_graph_apply(g, "rope_apply", (sl_value[]){apart, tables[0], tables[1]}, 3, NULL);
    (void)snprintf(shape, sizeof shape, "shape=[1,%d,%d,%d]", TOKENS, HEADS, HEAD);
    return apply1(g, "transpose", apply1(g, "reshape", apart, shape), "perm=[0,2,1,3]");
}

static sl_value attention(sl_graph *g, sl_value x, sl_value positions) {
    char attrs[64];
    (void)snprintf(attrs, sizeof attrs, "rotary=%d, theta=10000", HEAD);
    sl_value tables[2] = {0}, mixed = {0};
    const sl_node_spec angles = {.struct_size = sizeof angles,
                                 .op = "rope_table",
                                 .attrs = attrs,
                                 .inputs = &positions,
                                 .input_count = 1,
                                 .outputs = tables,
                                 .output_count = 2};
    sl_graph_add_node(g, &angles);
    const sl_value q = apply2(g, "linear", x, matrix(g, "wq", WIDTH, WIDTH), NULL);
    const sl_value k = apply2(g, "linear", x, matrix(g, "wk", WIDTH, WIDTH), NULL);
    const sl_value v = apply2(g, "linear", x, matrix(g, "wv", WIDTH, WIDTH), NULL);
    const sl_value qkv[3] = {heads(g, q, tables), heads(g, k, tables), heads(g, v, NULL)};
    const sl_node_spec node = {.struct_size = sizeof node,
                               .op = "attention",
                               .attrs = "mask=1", /* causal: no position attends to later ones */
                               .inputs = qkv,
                               .input_count = 3,
                               .outputs = &mixed,
                               .output_count = 1};
    sl_graph_add_node(g, &node);
    (void)snprintf(attrs, sizeof attrs, "shape=[%d,%d]", TOKENS, WIDTH);
    const sl_value rows =
        apply1(g, "reshape", apply1(g, "transpose", mixed, "perm=[0,2,1,3]"), attrs);
    return apply2(g, "linear", rows, matrix(g, "wo", WIDTH, WIDTH), NULL);
}

static sl_value network(sl_graph *g, sl_value x) {
    const sl_value gate = apply2(g, "linear", x, matrix(g, "gate", HIDDEN, WIDTH), NULL);
    const sl_value up = apply2(g, "linear", x, matrix(g, "up", HIDDEN, WIDTH), NULL);
    const sl_value both = apply2(g, "swiglu", gate, up, NULL);
    return apply2(g, "linear", both, matrix(g, "down", WIDTH, HIDDEN), NULL);
}

static void build(sl_graph *g) {
    const sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){TOKENS, WIDTH});
    const sl_value positions = sl_graph_add_input(g, "positions", "i32", 1, (int64_t[]){TOKENS});
    const sl_value seen = apply2(g, "add", x, attention(g, norm(g, "norm1", x), positions), NULL);
    const sl_value y = apply2(g, "add", seen, network(g, norm(g, "norm2", seen)), NULL);
    sl_graph_add_output(g, "y", y);
}

/* ---- Running ---- */

/* Deterministic pseudo-random numbers, the same for every device. */
static sl_status fill(sl_compiled *c, const sl_graph_item *item, sl_error *err) {
    static float numbers[HIDDEN * WIDTH];
    uint32_t state = 1;
    size_t count = 1;
    for (const char *at = item->name; *at; at++) state = state * 31 + (unsigned char)*at;
    for (uint32_t d = 0; d < item->rank; d++) count *= (size_t)item->dims[d];
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(state >> 8) / (float)(1 << 23) - 1;
        if (item->rank == 1) numbers[i] = 1; /* gains */
        if (strcmp(item->kind, "weight") == 0 && item->rank == 2) numbers[i] /= 4;
    }
    return sl_compiled_set(c, item->name, numbers, count * sizeof(float), err);
}

static sl_status run(const sl_graph *g, const char *device, float *out, sl_error *err) {
    const sl_compile_options options = {.struct_size = sizeof options, .device = device};
    const int32_t positions[TOKENS] = {0, 1, 2, 3, 4, 5};
    sl_compiled *c = NULL;
    sl_graph_item item = {.struct_size = sizeof item};
    sl_status status = sl_compile(g, &options, &c, err);
    for (uint32_t i = 0; status == SL_OK && sl_graph_item_at(g, i, &item, NULL) == SL_OK; i++) {
        if (strcmp(item.name, "positions") == 0)
            status = sl_compiled_set(c, item.name, positions, sizeof positions, err);
        else if (strcmp(item.kind, "output") != 0)
            status = fill(c, &item, err);
    }
    if (status == SL_OK) status = sl_compiled_run(c, err);
    const float *y = status == SL_OK ? sl_compiled_get(c, "y", NULL) : NULL;
    if (y) memcpy(out, y, sizeof(float) * TOKENS * WIDTH);
    sl_compiled_destroy(c);
    return status;
}

int main(void) {
    static float fast[TOKENS][WIDTH], exact[TOKENS][WIDTH];
    sl_error err = {0};
    sl_graph *g = NULL;
    double apart = 0;
    sl_status status = sl_graph_create("transformer", NULL, &g, &err);
    if (status == SL_OK) {
        build(g);
        status = run(g, "cpu", fast[0], &err);
    }
    if (status == SL_OK) status = run(g, "ref", exact[0], &err);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < WIDTH; i++)
            apart = fmax(apart, fabs((double)fast[t][i] - (double)exact[t][i]));
    if (status != SL_OK)
        (void)fprintf(stderr, "%s\n", err.message);
    else
        for (int t = 0; t < TOKENS; t++)
            (void)printf("token %d: %8.4f %8.4f %8.4f ...\n", t, (double)fast[t][0],
                         (double)fast[t][1], (double)fast[t][2]);
    if (status == SL_OK)
        (void)printf("cpu and double precision are %s\n", apart < 1e-4 ? "alike" : "apart");
    sl_graph_destroy(g);
    return status != SL_OK || apart >= 1e-4;
}
