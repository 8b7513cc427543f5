/* newton.c - Cube roots by Newton's method: a `while` loop that ends when no element changes any
 * more. */
#include "sluice/graph.h"
#include <stdio.h>
#include <string.h>

static const char text[] = "graph \"newton\" {\n"
                           "  input %a : f32[6]\n"
                           "  constant %one : f32[6] = {1, 1, 1, 1, 1, 1}\n"
                           "  constant %far : f32[] = {1}\n"
                           "  %x, %step, %same = while(%one, %far, %a) {most = 100,\n"
                           "    condition = graph \"moves\" {\n"
                           "      input %x : f32[6]\n"
                           "      input %step : f32[]\n"
                           "      input %a : f32[6]\n"
                           "      constant %small : f32[] = {1e-6}\n"
                           "      %go = greater(%step, %small)\n"
                           "      output \"go\" = %go\n"
                           "    },\n"
                           "    body = graph \"step\" {\n"
                           "      input %x : f32[6]\n"
                           "      input %step : f32[]\n"
                           "      input %a : f32[6]\n"
                           "      constant %three : f32[] = {3}\n"
                           "      %square = mul(%x, %x)\n"
                           "      %slope = mul(%square, %three)\n"
                           "      %cube = mul(%square, %x)\n"
                           "      %off = sub(%cube, %a)\n"
                           "      %change = div(%off, %slope)\n"
                           "      %next = sub(%x, %change)\n"
                           "      %relative = div(%change, %next)\n"
                           "      %size = abs(%relative)\n"
                           "      %largest = reduce_max(%size) {axes = [0]}\n"
                           "      output \"x\" = %next\n"
                           "      output \"step\" = %largest\n"
                           "      output \"a\" = %a\n"
                           "    }}\n"
                           "  output \"root\" = %x\n"
                           "}\n";

int main(void) {
    const float a[6] = {1, 8, 27, 2, 0.001f, 1e6f};
    sl_error err = {0};
    sl_graph *g = NULL;
    sl_compiled *c = NULL;
    sl_status status = sl_graph_read(text, strlen(text), &g, &err);
    if (status == SL_OK) status = sl_compile(g, NULL, &c, &err);
    if (status == SL_OK) status = sl_compiled_set(c, "a", a, sizeof a, &err);
    if (status == SL_OK) status = sl_compiled_run(c, &err);
    const float *root = status == SL_OK ? sl_compiled_get(c, "root", NULL) : NULL;
    for (int i = 0; root && i < 6; i++)
        (void)printf("the cube root of %g is %.6g\n", (double)a[i], (double)root[i]);
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return status != SL_OK;
}
