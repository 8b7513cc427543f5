/* moe_experts.c - A Mixture-of-Experts layer whose experts come from a function: here from a seed,
 * in a real program from a file or a network.  A cache of two experts serves eight; the result is
 * compared with all experts computed in full.
 *
 *   moe_experts [cpu|cuda|ref] */
#include "sluice/experts.h"
#include <math.h>
#include <stdio.h>

enum { ROWS = 6, HIDDEN = 16, WIDTH = 24, EXPERTS = 8, K = 2, MATRIX = WIDTH * HIDDEN };

/* The i-th number of a sequence, in [-0.5, 0.5). */
static float number(uint32_t sequence, int i) {
    uint32_t x = sequence * 2654435761u + (uint32_t)i * 40503u + 1;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
    return (float)(x >> 8) / 16777216.0f - 0.5f;
}

/* gate and up are [WIDTH, HIDDEN], down is [HIDDEN, WIDTH]. */
static sl_status read_expert(void *ctx, uint32_t layer, uint32_t expert, void *gate, void *up,
                             void *down, sl_error *err) {
    float *const matrices[3] = {gate, up, down};
    (void)ctx, (void)layer, (void)err;
    for (uint32_t m = 0; m < 3; m++)
        for (int i = 0; i < MATRIX; i++) matrices[m][i] = number(expert * 3 + m, i);
    return SL_OK;
}

/* y = sum of weight * down(silu(gate x) * (up x)) over the K experts with the largest logits. */
static sl_graph *build(sl_error *err) {
    sl_graph *g = NULL;
    if (sl_graph_create("moe", NULL, &g, err) != SL_OK) return NULL;
    const sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){ROWS, HIDDEN});
    const sl_value logits = sl_graph_add_input(g, "logits", "f32", 2, (int64_t[]){ROWS, EXPERTS});
    const sl_value experts =
        sl_graph_add_experts(g, "experts", "f32", 3, (int64_t[]){EXPERTS, WIDTH, HIDDEN});
    sl_value chosen[2], groups[2];
    const sl_node_spec route = {sizeof route, "route", "k=2, normalise=true", &logits, 1, chosen, 2,
                                NULL,         0};
    (void)sl_graph_add_node(g, &route);
    const sl_value grouped[2] = {chosen[0], experts};
    const sl_node_spec group = {sizeof group, "moe_group", NULL, grouped, 2, groups, 2, NULL, 0};
    (void)sl_graph_add_node(g, &group);
    const sl_value ffn[4] = {x, groups[0], groups[1], experts};
    const sl_value mix[2] = {sl_graph_apply(g, "moe_ffn", ffn, 4, "k=2"), chosen[1]};
    sl_graph_add_output(g, "y", sl_graph_apply(g, "moe_combine", mix, 2, NULL));
    return g;
}

/* The same with every expert: those that a row did not choose have weight 0. */
static void compute(const float *x, const float *logits, double *y) {
    static float gate[MATRIX], up[MATRIX], down[MATRIX];
    for (uint32_t e = 0; e < EXPERTS; e++) {
        (void)read_expert(NULL, 0, e, gate, up, down, NULL);
        for (int t = 0; t < ROWS; t++) {
            const float *row = logits + (size_t)t * EXPERTS;
            double sum = 0, inner[WIDTH];
            int above = 0;
            for (int o = 0; o < EXPERTS; o++) {
                int before = 0; /* logits are distinct */
                for (int p = 0; p < EXPERTS; p++) before += row[p] > row[o];
                if (before < K) sum += exp((double)row[o]);
                above += row[o] > row[e];
            }
            const double weight = above < K ? exp((double)row[e]) / sum : 0;
            for (int i = 0; i < WIDTH; i++) {
                double g = 0, u = 0;
                for (int h = 0; h < HIDDEN; h++) {
                    g += (double)gate[i * HIDDEN + h] * (double)x[t * HIDDEN + h];
                    u += (double)up[i * HIDDEN + h] * (double)x[t * HIDDEN + h];
                }
                inner[i] = g / (1 + exp(-g)) * u;
            }
            for (int h = 0; h < HIDDEN; h++)
                for (int i = 0; i < WIDTH; i++)
                    y[t * HIDDEN + h] += weight * inner[i] * (double)down[h * WIDTH + i];
        }
    }
}

int main(int count, char **words) {
    float x[ROWS * HIDDEN], logits[ROWS * EXPERTS];
    double wanted[ROWS * HIDDEN] = {0}, off = 0;
    sl_error err = {0};
    sl_experts *experts = NULL;
    sl_compiled *c = NULL;
    sl_expert_counts counts = {.struct_size = sizeof counts};
    for (int i = 0; i < ROWS * HIDDEN; i++) x[i] = number(100, i);
    for (int i = 0; i < ROWS * EXPERTS; i++) logits[i] = 4 * number(101, i);
    const sl_expert_shape shape = {sizeof shape, 1, EXPERTS, WIDTH, HIDDEN, "f32", NULL};
    const sl_expert_reader reader = {.struct_size = sizeof reader,
                                     .read = read_expert,
                                     .budget_bytes = sizeof(float[2][3][MATRIX]) + 4096};
    sl_graph *g = build(&err);
    sl_status status = g ? sl_experts_create(&shape, &reader, &experts, &err) : SL_INVALID;
    const sl_compile_options options = {
        .struct_size = sizeof options, .device = count > 1 ? words[1] : "cpu", .experts = experts};
    if (status == SL_OK) status = sl_compile(g, &options, &c, &err);
    if (status == SL_OK) status = sl_compiled_set(c, "x", x, sizeof x, &err);
    if (status == SL_OK) status = sl_compiled_set(c, "logits", logits, sizeof logits, &err);
    if (status == SL_OK) status = sl_compiled_run(c, &err);
    if (status == SL_OK) status = sl_experts_counts(experts, &counts, &err);
    const float *y = status == SL_OK ? sl_compiled_get(c, "y", NULL) : NULL;
    compute(x, logits, wanted);
    for (int i = 0; y && i < ROWS * HIDDEN; i++) off = fmax(off, fabs((double)y[i] - wanted[i]));
    (void)printf("%llu slots, %llu reads, largest difference %.1e%s\n",
                 (unsigned long long)counts.slots, (unsigned long long)counts.misses, off,
                 err.message);
    sl_compiled_destroy(c);
    sl_experts_destroy(experts);
    sl_graph_destroy(g);
    return !y || off > 1e-6;
}
