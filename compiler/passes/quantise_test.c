/* quantise_test.c - Which products take rows of 8 bits, and which must not. */
#include "compiler/passes/fuse.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define DECLARATIONS                                                                               \
    "input %x : f32[4,64] weight %w : q4[16,64] weight %plain : f32[16,64] weight %b : f32[16]\n"  \
    "weight %wide : q8[64,64] experts %e : q4[16,32,64] weight %two : q8[32,64]\n"                 \
    "weight %ib : f32[16,32] weight %hb : f32[16,64] weight %log : f32[16] weight %dt : f32[16]\n"
#define GRAPH(BODY) "graph \"g\" {\n" DECLARATIONS BODY "\n}\n"

static sl_graph *quantised(const char *text) {
    sl_error err = {0};
    sl_graph *graph = NULL;
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err) != SL_OK)
        fail_msg("%s", err.message);
    if (sl_quantise_activations(graph, &err) != SL_OK) fail_msg("%s", err.message);
    if (sl_graph_verify(graph, &err) != SL_OK) fail_msg("%s", err.message);
    return graph;
}

/* How many nodes of an op have a first operand of a8. */
static uint32_t with_rows(const char *text, sl_op op) {
    sl_graph *graph = quantised(text);
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].op == op &&
                 graph->values[graph->nodes[n].inputs[0].v].type.dtype == SL_DTYPE_a8;
    sl_graph_destroy(graph);
    return count;
}

static void products_with_panels_take_rows(void **state) {
    (void)state;
    assert_int_equal(
        with_rows(GRAPH("%1 = linear(%x, %w) %2 = softmax(%1) output \"o\" = %2"), SL_OP_linear),
        1);
    assert_int_equal(
        with_rows(GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = softmax(%2) output \"o\" = %3"),
                  SL_OP_linear),
        1);
    assert_int_equal(with_rows(GRAPH("%1 = linear(%x, %plain) %2 = softmax(%1) output \"o\" = %2"),
                               SL_OP_linear),
                     0);
}

#define ROUTED "%c, %r = route(%l) {k = 2} %o, %s = moe_group(%c, %e) {layer = 1} "

static void experts_take_rows(void **state) {
    (void)state;
    assert_int_equal(with_rows(GRAPH("%l = linear(%x, %w) " ROUTED
                                     "%y = moe_ffn(%x, %o, %s, %e) {layer = 1, k = 2} "
                                     "%z = moe_combine(%y, %r) output \"o\" = %z"),
                               SL_OP_moe_ffn),
                     1);
    assert_int_equal(with_rows(GRAPH("%l = linear(%x, %w) " ROUTED
                                     "%y = moe_ffn_biased(%x, %o, %s, %ib, %ib, %hb, %e) "
                                     "{layer = 1, k = 2, limit = 7, alpha = 1.702} "
                                     "%z = moe_combine(%y, %r) output \"o\" = %z"),
                               SL_OP_moe_ffn_biased),
                     1);
}

/* The product that chooses is exact, whatever stands between it and the choice. */
static void what_steers_stays_exact(void **state) {
    (void)state;
    static const char *const graphs[] = {
        GRAPH("%1 = linear(%x, %w) %c, %r = route(%1) {k = 2} output \"o\" = %r"),
        GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %c, %r = route(%2) {k = 2} output \"o\" = %r"),
        GRAPH("%1 = linear(%x, %w) %2 = add(%b, %1) %c, %r = route(%2) {k = 2} output \"o\" = %r"),
        GRAPH("%1 = linear(%x, %w) %c, %r = route_groups(%1, %b) {k = 2, groups = 4, groups_kept = "
              "2, scale = 1} output \"o\" = %r"),
        GRAPH("%1 = linear(%x, %two) %2, %3 = split(%1) {axis = 1, sizes = [16, 16]} "
              "%d, %t = decay_beta(%2, %3, %log, %dt) output \"o\" = %d output \"p\" = %t"),
        GRAPH("%1 = linear(%x, %two) %2 = slice(%1) {axis = 1, start = 4, length = 16} "
              "%3 = reshape(%2) {shape = [4, 16]} %c, %r = route(%3) {k = 2} output \"o\" = %r"),
        GRAPH("%1 = linear(%x, %w) output \"o\" = %1"),
        GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) output \"o\" = %2"),
    };
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++)
        if (with_rows(graphs[i], SL_OP_linear)) fail_msg("quantised: %s", graphs[i]);
}

/* A residual that is a result does not make the products before it exact. */
static void sums_of_activations_do_not(void **state) {
    (void)state;
    assert_int_equal(
        with_rows(GRAPH("%1 = linear(%x, %wide) %2 = add(%x, %1) output \"o\" = %2"), SL_OP_linear),
        1);
}

/* A product that is looked at is computed as it is without that. */
static void what_is_observed_does_not_change(void **state) {
    (void)state;
    static const char text[] = GRAPH("%1 = linear(%x, %wide) %2 = softmax(%1) output \"o\" = %2");
    sl_error err = {0};
    sl_graph *graph = NULL;
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err) != SL_OK)
        fail_msg("%s", err.message);
    sl_graph_observe(graph, "product", graph->nodes[0].outputs[0]);
    assert_int_equal(sl_quantise_activations(graph, &err), SL_OK);
    assert_int_equal(graph->output_count, 2);
    const sl_node *product = NULL;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == SL_OP_linear) product = &graph->nodes[n];
    assert_non_null(product);
    assert_int_equal(graph->values[product->inputs[0].v].type.dtype, SL_DTYPE_a8);
    assert_int_equal(graph->outputs[1].value.v, product->outputs[0].v);
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_with_panels_take_rows),
        cmocka_unit_test(experts_take_rows),
        cmocka_unit_test(what_steers_stays_exact),
        cmocka_unit_test(sums_of_activations_do_not),
        cmocka_unit_test(what_is_observed_does_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
