/* train_mlp.c - Trains a perceptron on exclusive or.  One program is a whole step: the forward
 * pass, the gradients written out by hand, and AdamW, which updates the weights and their moments
 * in place.
 *
 *   train_mlp [cpu|cuda|ref] */
#include "sluice/graph.h"
#include <math.h>
#include <stdio.h>

enum { ROWS = 4, IN = 3, HIDDEN = 8, OUT = 2, STEPS = 200 };

static sl_value apply2(sl_graph *g, const char *op, sl_value a, sl_value b) {
    return sl_graph_apply(g, op, (sl_value[]){a, b}, 2, NULL);
}

/* a transposed times b: the gradient of a weight. */
static sl_value outer(sl_graph *g, sl_value a, sl_value b) {
    return apply2(g, "matmul", sl_graph_apply(g, "transpose", &a, 1, "perm=[1, 0]"), b);
}

/* The moments of a weight are states, which begin with zeros. */
static void update(sl_graph *g, sl_value weight, sl_value gradient, sl_value rate, sl_value powers,
                   const char *const names[2], const int64_t dims[2]) {
    const sl_value mean = sl_graph_add_state(g, names[0], "f32", 2, dims);
    const sl_value square = sl_graph_add_state(g, names[1], "f32", 2, dims);
    const sl_value in[6] = {weight, mean, square, gradient, rate, powers};
    sl_value out[3];
    const sl_node_spec step = {sizeof step, "adamw_step", "decay=0", in, 6, out, 3, NULL, 0};
    (void)sl_graph_add_node(g, &step);
}

static sl_graph *build(sl_error *err) {
    static const char *const first[2] = {"w1.mean", "w1.square"};
    static const char *const second[2] = {"w2.mean", "w2.square"};
    const int64_t in[2] = {ROWS, IN}, out[2] = {ROWS, OUT}, w1_dims[2] = {HIDDEN, IN};
    const int64_t w2_dims[2] = {OUT, HIDDEN}, pair[1] = {2};
    const float one = 1, rows = ROWS;
    sl_graph *g = NULL;
    if (sl_graph_create("train", NULL, &g, err) != SL_OK) return NULL;
    const sl_value x = sl_graph_add_input(g, "x", "f32", 2, in);
    const sl_value wanted = sl_graph_add_input(g, "wanted", "f32", 2, out);
    const sl_value rate = sl_graph_add_input(g, "rate", "f32", 0, NULL);
    const sl_value powers = sl_graph_add_input(g, "corrections", "f32", 1, pair);
    const sl_value w1 = sl_graph_add_weight(g, "w1", "f32", 2, w1_dims);
    const sl_value w2 = sl_graph_add_weight(g, "w2", "f32", 2, w2_dims);
    const sl_value ones = sl_graph_add_constant(g, "one", "f32", 0, NULL, &one);
    const sl_value count = sl_graph_add_constant(g, "rows", "f32", 0, NULL, &rows);
    /* Forward; the gradient of the mean cross entropy with respect to the scores is known. */
    const sl_value sum = apply2(g, "linear", x, w1), h = sl_graph_apply(g, "tanh", &sum, 1, NULL);
    const sl_value scores = apply2(g, "linear", h, w2);
    const sl_value p = sl_graph_apply(g, "softmax", &scores, 1, NULL);
    const sl_value d_scores = apply2(g, "div", apply2(g, "sub", p, wanted), count);
    const sl_value d_h = apply2(g, "matmul", d_scores, w2);
    const sl_value d_sum = apply2(g, "mul", d_h, apply2(g, "sub", ones, apply2(g, "mul", h, h)));
    update(g, w2, outer(g, d_scores, h), rate, powers, second, w2_dims);
    update(g, w1, outer(g, d_sum, x), rate, powers, first, w1_dims);
    sl_graph_add_output(g, "p", p);
    return g;
}

static sl_status set(sl_compiled *c, const char *name, const float *data, size_t count,
                     sl_error *err) {
    return sl_compiled_set(c, name, data, count * sizeof *data, err);
}

int main(int count, char **words) {
    /* The last column is a constant 1, for the biases. */
    const float x[ROWS * IN] = {0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1};
    const float wanted[ROWS * OUT] = {1, 0, 0, 1, 0, 1, 1, 0}, rate = 0.05f;
    float w1[HIDDEN * IN], w2[OUT * HIDDEN], corrections[2];
    double loss = 0, beta1 = 1, beta2 = 1;
    sl_error err = {0};
    sl_compiled *c = NULL;
    for (int i = 0; i < HIDDEN * IN; i++) w1[i] = (float)(i * 7 % 11 - 5) / 8;
    for (int i = 0; i < OUT * HIDDEN; i++) w2[i] = (float)(i * 5 % 13 - 6) / 8;
    sl_graph *g = build(&err);
    const sl_compile_options options = {.struct_size = sizeof options,
                                        .device = count > 1 ? words[1] : "cpu"};
    sl_status status = g ? sl_compile(g, &options, &c, &err) : SL_INVALID;
    if (status == SL_OK) status = set(c, "x", x, sizeof x / sizeof *x, &err);
    if (status == SL_OK) status = set(c, "wanted", wanted, sizeof wanted / sizeof *wanted, &err);
    if (status == SL_OK) status = set(c, "rate", &rate, 1, &err);
    if (status == SL_OK) status = set(c, "w1", w1, sizeof w1 / sizeof *w1, &err);
    if (status == SL_OK) status = set(c, "w2", w2, sizeof w2 / sizeof *w2, &err);
    for (int step = 1; step <= STEPS && status == SL_OK; step++) {
        beta1 *= 0.9, beta2 *= 0.999;
        corrections[0] = (float)(1 - beta1), corrections[1] = (float)(1 - beta2);
        status = set(c, "corrections", corrections, 2, &err);
        if (status == SL_OK) status = sl_compiled_run(c, &err);
        const float *p = status == SL_OK ? sl_compiled_get(c, "p", NULL) : NULL;
        loss = 0;
        for (int i = 0; p && i < ROWS * OUT; i++)
            loss -= (double)wanted[i] * log((double)p[i]) / ROWS;
        if (p && (step == 1 || step == STEPS)) (void)printf("step %d: loss %.4f\n", step, loss);
    }
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return status != SL_OK || !(loss < 0.01);
}
