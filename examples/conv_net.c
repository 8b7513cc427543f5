/* conv_net.c - A small convolutional network: two convolutions with pooling, then scores. */
#include "sluice/graph.h"
#include <stdio.h>
#include <string.h>

static const char text[] =
    "graph \"conv_net\" {\n"
    "  input %x : f32[1,1,28,28]\n"
    "  weight %w1 : f32[8,1,3,3]\n"
    "  weight %b1 : f32[8]\n"
    "  weight %w2 : f32[16,8,3,3]\n"
    "  weight %b2 : f32[16]\n"
    "  weight %w3 : f32[784,10]\n"
    "  %c1 = conv(%x, %w1, %b1) {strides = [1, 1], pads_before = [1, 1], pads_after = [1, 1], "
    "dilations = [1, 1], groups = 1}\n"
    "  %r1 = relu(%c1)\n"
    "  %p1 = pool_max(%r1) {kernel = [2, 2], strides = [2, 2], pads_before = [0, 0], "
    "pads_after = [0, 0], dilations = [1, 1]}\n"
    "  %c2 = conv(%p1, %w2, %b2) {strides = [1, 1], pads_before = [1, 1], pads_after = [1, 1], "
    "dilations = [1, 1], groups = 1}\n"
    "  %r2 = relu(%c2)\n"
    "  %p2 = pool_max(%r2) {kernel = [2, 2], strides = [2, 2], pads_before = [0, 0], "
    "pads_after = [0, 0], dilations = [1, 1]}\n"
    "  %flat = reshape(%p2) {shape = [1, 784]}\n"
    "  %scores = matmul(%flat, %w3)\n"
    "  %y = softmax(%scores)\n"
    "  output \"y\" = %y\n"
    "}\n";

/* Deterministic pseudo-random numbers. */
static sl_status fill(sl_compiled *c, const char *name, size_t count, float size, sl_error *err) {
    static float numbers[7840];
    static uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = size * ((float)(state >> 8) / (float)(1 << 23) - 1);
    }
    return sl_compiled_set(c, name, numbers, count * sizeof(float), err);
}

int main(void) {
    static const struct {
        const char *name;
        size_t count;
        float size;
    } tensors[] = {{"x", 784, 1},      {"w1", 72, 0.5f}, {"b1", 8, 0.1f},
                   {"w2", 1152, 0.2f}, {"b2", 16, 0.1f}, {"w3", 7840, 0.1f}};
    sl_error err = {0};
    sl_graph *g = NULL;
    sl_compiled *c = NULL;
    sl_status status = sl_graph_read(text, strlen(text), &g, &err);
    if (status == SL_OK) status = sl_compile(g, NULL, &c, &err);
    for (int i = 0; i < 6 && status == SL_OK; i++)
        status = fill(c, tensors[i].name, tensors[i].count, tensors[i].size, &err);
    if (status == SL_OK) status = sl_compiled_run(c, &err);
    const float *y = status == SL_OK ? sl_compiled_get(c, "y", NULL) : NULL;
    for (int i = 0; y && i < 10; i++) (void)printf("%.4f%c", (double)y[i], i == 9 ? '\n' : ' ');
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return status != SL_OK;
}
