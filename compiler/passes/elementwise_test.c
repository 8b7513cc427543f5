/* elementwise_test.c - Which elementwise ops join and which do not; what a program computes has the
 * same bits, fused, taken apart again, and never fused. */
#include "compiler/compile.h"
#include "compiler/passes/fuse.h"
#include "runtime/cpu/cpu.h"
#include "tests/support/bound_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GRAPH(BODY)                                                                                \
    "graph \"g\" {\n"                                                                              \
    "input %x : f32[40,60] input %y : f32[40,60] input %row : f32[60] input %col : f32[40,1]\n"    \
    "input %one : f32[] input %n : i32[40,60] input %half : bf16[40,60] input %cube : "            \
    "f32[3,40,60]\n"                                                                               \
    "state %s : f32[40,60]\n" BODY "\n}\n"

static const struct {
    const char *text;
    uint32_t nodes, regions;
} rows[] = {
    /* chains, with operands that broadcast in every way */
    {GRAPH("%1 = mul(%x, %row) %2 = add(%1, %col) %3 = silu(%2) %4 = mul(%3, %one) "
           "output \"o\" = %4"),
     1, 1},
    {GRAPH("%1 = add(%row, %x) %2 = sub(%cube, %y) %3 = tanh(%2) output \"o\" = %3 output \"p\" = "
           "%1"),
     2, 1},
    /* trees: both sides of a product */
    {GRAPH("%1 = exp(%x) %2 = sin(%y) %3 = add(%1, %col) %4 = mul(%2, %row) %5 = div(%3, %4) "
           "output \"o\" = %5"),
     1, 1},
    /* masks and choices */
    {GRAPH("%1 = less(%x, %col) %2 = erf(%y) %3 = where(%1, %2, %row) %4 = clamp(%3, %one, %x) "
           "output \"o\" = %4"),
     1, 1},
    /* from type to type */
    {GRAPH("%1 = cast(%n) {to = f32} %2 = mul(%1, %x) %3 = cast(%2) {to = bf16} %4 = add(%3, "
           "%half) %5 = cast(%4) {to = i32, saturate = 1} %6 = mod(%5, %n) output \"o\" = %6"),
     1, 1},
    {GRAPH("%z = complex(%x, %row) %1 = mul(%z, %z) %2 = conjugate(%1) %3 = complex_norm_sq(%2) "
           "output \"o\" = %3"),
     1, 1},
    /* a value used twice inside */
    {GRAPH("%1 = tanh(%x) %2 = mul(%1, %1) %3 = sub(%2, %1) output \"o\" = %3"), 1, 1},
    /* what is smaller and broadcasts stays outside, as a region of its own */
    {GRAPH("%1 = mul(%row, %one) %2 = exp(%1) %3 = add(%x, %2) %4 = neg(%3) output \"o\" = %4"), 2,
     2},
    /* outputs, values used elsewhere and states end a region */
    {GRAPH("%1 = mul(%x, %row) %2 = exp(%1) output \"o\" = %2 output \"p\" = %1"), 2, 0},
    {GRAPH("%1 = mul(%x, %y) %2 = exp(%1) %3 = softmax(%1) output \"o\" = %2 output \"p\" = %3"), 3,
     0},
    {GRAPH("%1 = mul(%x, %s) %2 = exp(%1) output \"o\" = %2"), 2, 0},
    {GRAPH("%1 = reshape(%s) {shape = [60,40]} %2 = reshape(%x) {shape = [60,40]} %3 = mul(%1, %2) "
           "%4 = exp(%3) output \"o\" = %4"),
     4, 0},
    {GRAPH("%1 = exp(%x) output \"o\" = %1"), 1, 0},
    /* regions alike of several, joined along a first axis of one each */
    {GRAPH("%a = reshape(%x) {shape = [1,40,60]} %b = reshape(%y) {shape = [1,40,60]} "
           "%1 = exp(%a) %2 = tanh(%1) %3 = exp(%b) %4 = tanh(%3) %5 = concat(%2, %4) {axis = 0} "
           "output \"o\" = %5"),
     3, 0},
    {GRAPH("%a = reshape(%x) {shape = [1,40,60]} %b = reshape(%y) {shape = [1,40,60]} "
           "%1 = exp(%a) %2 = tanh(%1) %3 = exp(%b) %4 = sin(%3) %5 = concat(%2, %4) {axis = 0} "
           "output \"o\" = %5"),
     5, 2},
};

static sl_graph *parse(const char *text) {
    sl_error err = {0};
    sl_graph *graph = NULL;
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err) != SL_OK)
        fail_msg("%s", err.message);
    return graph;
}

static uint64_t digest(sl_graph *graph, bool fused) {
    const sl_compiler_options options = {.no_fusion = !fused, .no_simplify = true};
    sl_error err = {0};
    sl_program *program = NULL;
    sl_device *device = NULL;
    bound_program bound;
    if (sl_compile_graph(graph, &options, NULL, &program, &err) ||
        sl_device_cpu_create(&(sl_device_options){.threads = 2}, NULL, &device, &err))
        fail_msg("%s", err.message);
    assert_non_null(device);
    bound_program_init(&bound, program, device, NULL);
    const uint64_t found = bound_program_run(&bound, NULL);
    bound_program_deinit(&bound);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    device->ops->destroy(device);
    sl_program_destroy(program);
    return found;
}

static uint32_t count_regions(const sl_graph *graph) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].op == SL_OP_elementwise_region;
    return count;
}

static void ops_join(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sl_error err = {0};
        sl_fusion_report report;
        sl_graph *plain = parse(rows[i].text), *fused = parse(rows[i].text);
        sl_graph *apart = parse(rows[i].text);
        const uint32_t before = plain->node_count;
        assert_int_equal(sl_fuse(apart, &report, &err), SL_OK);
        if (apart->node_count != rows[i].nodes || count_regions(apart) != rows[i].regions)
            fail_msg("row %zu: %u nodes, %u regions", i, apart->node_count, count_regions(apart));
        assert_int_equal(before - apart->node_count, report.fused_nodes);
        if (sl_graph_verify(apart, &err) || sl_unfuse(apart, &err) || sl_graph_verify(apart, &err))
            fail_msg("row %zu: %s", i, err.message);
        assert_int_equal(apart->node_count, before);
        assert_int_equal(count_regions(apart), 0);
        const uint64_t wanted = digest(plain, false);
        assert_true(digest(fused, true) == wanted);
        assert_true(digest(apart, false) == wanted);
        sl_graph_destroy(plain);
        sl_graph_destroy(fused);
        sl_graph_destroy(apart);
    }
}

/* More steps than a region takes become two. */
static void long_chains_are_cut(void **state) {
    (void)state;
    char text[8000] = "graph \"g\" { input %x : f32[7] %1 = tanh(%x) ";
    for (int i = 1; i < 100; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%%%d = tanh(%%%d) ", i + 1,
                       i);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "output \"o\" = %%100 }");
    sl_error err = {0};
    sl_graph *graph = parse(text);
    assert_int_equal(sl_fuse(graph, NULL, &err), SL_OK);
    assert_int_equal(graph->node_count, 2);
    assert_int_equal(count_regions(graph), 2);
    sl_graph_destroy(graph);
}

/* A prologue becomes a transform when it is taken apart. */
static void prologues_come_apart(void **state) {
    (void)state;
    const char *text = "graph \"g\" { input %a : f32[2,3,4] input %b : f32[2,6,8] %1 = "
                       "elementwise_region(%a, %b) {code = [3, 0, 1, 0, 0], prologue = 1} "
                       "output \"o\" = %1 }";
    sl_error err = {0};
    sl_graph *whole = parse(text), *apart = parse(text);
    if (sl_unfuse(apart, &err) || sl_graph_verify(apart, &err)) fail_msg("%s", err.message);
    assert_int_equal(apart->node_count, 2);
    assert_int_equal(apart->nodes[0].op, SL_OP_transform_region);
    assert_int_equal(apart->nodes[1].op, SL_OP_mul);
    assert_true(digest(whole, false) == digest(apart, false));
    sl_graph_destroy(whole);
    sl_graph_destroy(apart);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_join),
        cmocka_unit_test(long_chains_are_cut),
        cmocka_unit_test(prologues_come_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
