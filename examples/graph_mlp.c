/* graph_mlp.c - A two-layer perceptron: built as a graph, compiled, run. */
#include "sluice/graph.h"
#include <stdio.h>

enum { ROWS = 2, IN = 4, HIDDEN = 8, OUT = 3 };

static sl_graph *build(sl_error *err) {
    sl_graph *g = NULL;
    if (sl_graph_create("mlp", NULL, &g, err) != SL_OK) return NULL;
    const sl_value first[2] = {sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){ROWS, IN}),
                               sl_graph_add_weight(g, "w1", "f32", 2, (int64_t[]){HIDDEN, IN})};
    const sl_value hidden = sl_graph_apply(g, "linear", first, 2, NULL);
    const sl_value second[2] = {sl_graph_apply(g, "silu", &hidden, 1, NULL),
                                sl_graph_add_weight(g, "w2", "f32", 2, (int64_t[]){OUT, HIDDEN})};
    const sl_value scores = sl_graph_apply(g, "linear", second, 2, NULL);
    sl_graph_add_output(g, "y", sl_graph_apply(g, "softmax", &scores, 1, NULL));
    return g;
}

static sl_status run(const sl_graph *g, sl_compiled **c, sl_error *err) {
    float x[ROWS * IN], w1[HIDDEN * IN], w2[OUT * HIDDEN];
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i - 4) / 4;
    for (int i = 0; i < HIDDEN * IN; i++) w1[i] = (float)(i * 7 % 11 - 5) / 8;
    for (int i = 0; i < OUT * HIDDEN; i++) w2[i] = (float)(i * 5 % 13 - 6) / 8;
    sl_status status = sl_compile(g, NULL, c, err);
    if (status == SL_OK) status = sl_compiled_set(*c, "x", x, sizeof x, err);
    if (status == SL_OK) status = sl_compiled_set(*c, "w1", w1, sizeof w1, err);
    if (status == SL_OK) status = sl_compiled_set(*c, "w2", w2, sizeof w2, err);
    return status == SL_OK ? sl_compiled_run(*c, err) : status;
}

int main(void) {
    sl_error err = {0};
    sl_compiled *c = NULL;
    sl_graph *g = build(&err);
    const int failed = !g || run(g, &c, &err) != SL_OK;
    if (failed) (void)fprintf(stderr, "%s\n", err.message);
    const float *y = failed ? NULL : sl_compiled_get(c, "y", NULL);
    for (int i = 0; y && i < ROWS * OUT; i++)
        (void)printf("%.4f%c", y[i], i % OUT == OUT - 1 ? '\n' : ' ');
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return failed;
}
