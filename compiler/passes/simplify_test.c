/* simplify_test.c - What the passes of passes.def change, and that the evaluator gives the same
 * before and after. */
#include "compiler/eval.h"
#include "compiler/passes/pipeline.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sl_error err;

static sl_graph *parsed(const char *body) {
    char text[4096];
    sl_graph *graph = NULL;
    const int bytes = snprintf(text, sizeof text, "graph \"g\" {%s}", body);
    if (sl_graph_parse(text, (size_t)bytes, NULL, &graph, &err) != SL_OK)
        fail_msg("%s in %s", err.message, text);
    return graph;
}

/* Every input bound to 1, 2, 3, ...; the first output in doubles, to be freed. */
static double *evaluated(const sl_graph *graph, int64_t *count) {
    static const float numbers[64] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -0.0f, 13, 0, 15, 16};
    sl_evaluator *evaluator = NULL;
    assert_int_equal(sl_evaluator_create(graph, NULL, &evaluator, &err), SL_OK);
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind == SL_VALUE_INPUT)
            assert_int_equal(sl_evaluator_bind(evaluator, (sl_value){v}, numbers, &err), SL_OK);
    if (sl_evaluator_run(evaluator, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_value out = graph->outputs[0].value;
    *count = sl_type_elements(&graph->values[out.v].type);
    double *copy = calloc((size_t)*count + 1, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, sl_evaluator_result(evaluator, out), (size_t)*count * sizeof *copy);
    sl_evaluator_destroy(evaluator);
    return copy;
}

/* What is folded is rounded to its type. */
static void assert_alike(const double *before, const double *after, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const double off = before[i] == after[i] ? 0 : fabs(before[i] - after[i]);
        if (!(off <= 1e-7 * fabs(before[i])))
            fail_msg("element %lld: %.17g, was %.17g", (long long)i, after[i], before[i]);
        assert_int_equal(signbit(before[i]), signbit(after[i]));
    }
}

/* Simplifies the graph; it must keep its meaning and have so many nodes. */
static sl_graph *simplified(const char *body, uint32_t nodes) {
    sl_graph *graph = parsed(body);
    int64_t count, same;
    double *before = evaluated(graph, &count);
    if (sl_simplify(graph, &err) != SL_OK) fail_msg("%s", err.message);
    if (sl_graph_verify(graph, &err) != SL_OK) fail_msg("%s", err.message);
    double *after = evaluated(graph, &same);
    assert_int_equal(count, same);
    assert_alike(before, after, count);
    free(before);
    free(after);
    if (graph->node_count != nodes)
        fail_msg("%u nodes, not %u: %s", graph->node_count, nodes, body);
    return graph;
}

static void becomes(const char *body, uint32_t nodes) {
    sl_graph_destroy(simplified(body, nodes));
}

static void unused_nodes_go(void **state) {
    (void)state;
    becomes("input %x : f32[4] %1 = exp(%x) %2 = log(%1) %3 = abs(%x) output \"y\" = %3", 1);
}

static void constants_are_folded(void **state) {
    (void)state;
    becomes("input %x : f32[2] constant %a : f32[2] = {1, 2} constant %b : f32[] = {0.5} "
            "%1 = mul(%a, %b) %2 = exp(%1) %3 = mul(%x, %2) output \"y\" = %3",
            1);
    sl_graph *graph = simplified("constant %a : i32[2] = {2147483647, 5} constant %b : i32[] = {1} "
                                 "%1 = add(%a, %b) output \"y\" = %1",
                                 0);
    const sl_value_info *value = &graph->values[graph->outputs[0].value.v];
    assert_int_equal(value->kind, SL_VALUE_CONSTANT);
    assert_int_equal(((const int32_t *)value->data)[0], INT32_MIN);
    sl_graph_destroy(graph);
}

static void of_nothing_nothing_is_computed(void **state) {
    (void)state;
    becomes("input %x : f32[2,0] input %y : f32[0,3] %1 = matmul(%x, %y) output \"z\" = %1", 0);
    becomes("input %x : f32[0,3] input %y : f32[3] %1 = add(%x, %y) output \"z\" = %1", 0);
    becomes("input %x : f32[0,3] input %y : f32[2,3] %1 = concat(%x, %y) {axis = 0} "
            "output \"z\" = %1",
            0);
    becomes("input %x : f32[2,3] input %i : i32[0,3] input %u : f32[0,3] "
            "%1 = scatter(%x, %i, %u) {axis = 0} output \"z\" = %1",
            0);
    becomes("input %x : f32[0,3] input %y : f32[2,3] %1 = concat(%y, %x, %y) {axis = 0} "
            "output \"z\" = %1",
            1);
}

static void a_bad_index_is_left_to_run(void **state) {
    (void)state;
    sl_graph *graph = parsed("constant %a : f32[2] = {1, 2} constant %i : i32[1] = {7} "
                             "%1 = gather(%a, %i) output \"y\" = %1");
    assert_int_equal(sl_simplify(graph, &err), SL_OK);
    assert_int_equal(graph->node_count, 1);
    sl_graph_destroy(graph);
}

static void neutral_elements_go(void **state) {
    (void)state;
#define ONE "input %x : f32[4] constant %one : f32[] = {1} constant %zero : f32[] = {0} "
    becomes(ONE "%1 = mul(%x, %one) output \"y\" = %1", 0);
    becomes(ONE "%1 = mul(%one, %x) %2 = div(%1, %one) %3 = sub(%2, %zero) output \"y\" = %3", 0);
    becomes(ONE "%1 = add(%x, %zero) output \"y\" = %1", 1); /* -0 + 0 is 0 */
    becomes(ONE "%1 = neg(%zero) %2 = add(%x, %1) output \"y\" = %2", 0);
    becomes(ONE "%1 = div(%one, %x) output \"y\" = %1", 1);
    becomes(ONE "%1 = sub(%zero, %x) output \"y\" = %1", 1);
    becomes(ONE "%1 = neg(%x) %2 = neg(%1) %3 = abs(%2) %4 = abs(%3) output \"y\" = %4", 1);
    /* A constant that makes the result larger stays. */
    becomes("input %x : f32[1] constant %one : f32[4] = {1, 1, 1, 1} %1 = mul(%x, %one) "
            "output \"y\" = %1",
            1);
#undef ONE
}

static void movements_join(void **state) {
    (void)state;
    becomes("input %x : f32[2,3] %1 = reshape(%x) {shape = [6]} %2 = reshape(%1) {shape = [3,2]} "
            "%3 = exp(%2) output \"y\" = %3",
            2);
    becomes("input %x : f32[2,3] %1 = reshape(%x) {shape = [6]} %2 = reshape(%1) {shape = [2,3]} "
            "%3 = exp(%2) output \"y\" = %3",
            1);
    becomes("input %x : f32[2,3,2] %1 = transpose(%x) {perm = [1,2,0]} "
            "%2 = transpose(%1) {perm = [1,2,0]} %3 = transpose(%2) {perm = [1,2,0]} "
            "output \"y\" = %3",
            0);
    becomes("input %x : f32[2,3,2] %1 = transpose(%x) {perm = [1,2,0]} "
            "%2 = transpose(%1) {perm = [0,2,1]} output \"y\" = %2",
            1);
    /* A reshape of leading dims goes in front of a transpose that leaves them alone. */
    becomes("input %x : f32[2,3,4] %1 = transpose(%x) {perm = [0,2,1]} "
            "%2 = reshape(%1) {shape = [1,2,4,3]} %3 = transpose(%2) {perm = [0,1,3,2]} "
            "%4 = exp(%3) output \"y\" = %4",
            2);
    becomes("input %x : f32[2,3,4] %1 = transpose(%x) {perm = [0,2,1]} "
            "%2 = reshape(%1) {shape = [8,3]} %3 = transpose(%2) {perm = [1,0]} output \"y\" = %3",
            3);
    becomes("input %x : f32[2,3] %1 = slice(%x) {axis = 1, start = 0, length = 3} "
            "%2 = exp(%1) output \"y\" = %2",
            1);
}

/* Elementwise nodes and norms are computed on the rows that a product gives. */
static void reshapes_go_behind_rows(void **state) {
    (void)state;
#define ROWS                                                                                       \
    "input %a : f32[6,4] input %b : f32[4,4] input %h : f32[2,3,4] input %g : f32[4] "             \
    "%1 = matmul(%a, %b) %2 = reshape(%1) {shape = [2,3,4]} "
    becomes(ROWS "%3 = add(%2, %g) %4 = add(%3, %h) %5 = layer_norm(%4, %g, %g) "
                 "%6 = reshape(%5) {shape = [6,4]} %7 = matmul(%6, %b) output \"y\" = %7",
            6);
    /* The norm is over another axis; the other operand is repeated for rows. */
    becomes("input %z : f32[12] " ROWS
            "%4 = reshape(%1) {shape = [1,2,12]} %5 = rms_norm(%4, %z) output \"y\" = %5",
            3);
    becomes("input %a : f32[6,4] input %b : f32[4,4] input %h : f32[3,4] %1 = matmul(%a, %b) "
            "%2 = reshape(%1) {shape = [2,3,4]} %3 = add(%2, %h) %4 = exp(%3) output \"y\" = %4",
            4);
#undef ROWS
}

/* A reshape between elementwise nodes moves to where it meets another one. */
static void reshapes_leave_elementwise_nodes(void **state) {
    (void)state;
    becomes("input %x : f32[2,3] %1 = exp(%x) %2 = reshape(%1) {shape = [6]} %3 = neg(%2) "
            "%4 = reshape(%3) {shape = [2,3]} output \"y\" = %4",
            2);
    becomes("input %x : f32[2,3] input %z : f32[2,3] constant %c : f32[] = {2} "
            "%1 = reshape(%x) {shape = [6]} %2 = reshape(%z) {shape = [6]} %3 = add(%1, %2) "
            "%4 = reshape(%3) {shape = [3,2]} output \"y\" = %4",
            2);
    becomes("input %x : f32[2,3] constant %c : f32[] = {2} %1 = reshape(%x) {shape = [6]} "
            "%2 = mul(%1, %c) %3 = reshape(%2) {shape = [2,3]} output \"y\" = %3",
            1);
    /* Its result is needed with both shapes; the other operand has no reshape. */
    becomes("input %x : f32[2,3] %1 = reshape(%x) {shape = [6]} %2 = exp(%1) "
            "%3 = reshape(%2) {shape = [2,3]} output \"y\" = %3 output \"z\" = %2",
            3);
    becomes("input %x : f32[2,3] input %z : f32[6] %1 = reshape(%x) {shape = [6]} "
            "%2 = add(%1, %z) %3 = reshape(%2) {shape = [2,3]} output \"y\" = %3",
            3);
}

static void equal_nodes_become_one(void **state) {
    (void)state;
    becomes("input %x : f32[4] %1 = exp(%x) %2 = exp(%x) %3 = add(%1, %2) output \"y\" = %3", 2);
    becomes("input %x : f32[2,2] %1 = reduce_sum(%x) {axes = [0]} "
            "%2 = reduce_sum(%x) {axes = [1]} %3 = add(%1, %2) output \"y\" = %3",
            3);
    becomes("input %x : f32[2,2] %1 = reduce_sum(%x) {axes = [0]} %2 = exp(%1) "
            "%3 = reduce_sum(%x) {axes = [0]} %4 = exp(%3) %5 = mul(%2, %4) output \"y\" = %5",
            3);
}

/* A state is read before and after its update: neither read may pass it. */
static void states_keep_their_order(void **state) {
    (void)state;
    sl_graph *graph = parsed("input %x : f32[1,2] weight %w : f32[2,2] input %i : i32[1] "
                             "state %s : f32[1,1,2] "
                             "%1 = reduce_sum(%s) {axes = [0,1]} "
                             "%2, %3 = causal_conv(%x, %w, %i, %i, %s) "
                             "%4 = reduce_sum(%3) {axes = [0,1]} %5 = add(%1, %4) "
                             "output \"y\" = %5");
    assert_int_equal(sl_simplify(graph, &err), SL_OK);
    assert_int_equal(sl_graph_verify(graph, &err), SL_OK);
    assert_int_equal(graph->node_count, 4);
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unused_nodes_go),
        cmocka_unit_test(constants_are_folded),
        cmocka_unit_test(of_nothing_nothing_is_computed),
        cmocka_unit_test(a_bad_index_is_left_to_run),
        cmocka_unit_test(neutral_elements_go),
        cmocka_unit_test(movements_join),
        cmocka_unit_test(reshapes_go_behind_rows),
        cmocka_unit_test(reshapes_leave_elementwise_nodes),
        cmocka_unit_test(equal_nodes_become_one),
        cmocka_unit_test(states_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
