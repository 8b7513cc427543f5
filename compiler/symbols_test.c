/* symbols_test.c - Symbolic sizes: printed, parsed, bound, and compiled in buckets. */
#include "compiler/graph.h"
#include "sluice/experimental.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sl_graph *parse(const char *text) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err)) fail_msg("%s", err.message);
    return graph;
}

static const char *type_of(const sl_graph *graph, sl_value value) {
    static char text[SL_TYPE_TEXT];
    return sl_type_format(&graph->values[value.v].type, text, sizeof text);
}

static const char text[] =
    "graph \"g\" { input %x : f32[B,S,4] weight %w : f32[4,3] "
    "%1 = matmul(%x, %w) %2 = reshape(%1) {shape = [-1, 3]} %3 = reshape(%2) {shape = [B, S, 3]} "
    "%4 = transpose(%3) {perm = [1, 0, 2]} "
    "%5, %6 = scan(%w, %4) {carries = 1, length = S, body = graph \"b\" { "
    "  input %c : f32[4,3] input %x : f32[B,3] %y = neg(%x) output \"c\" = %c output \"y\" = %y }} "
    "output \"y\" = %3 output \"z\" = %6 }";

static void test_bind(void **state) {
    (void)state;
    sl_graph *graph = parse(text), *bound = NULL, *again = NULL;
    sl_error err = {0};
    assert_int_equal(graph->symbol_count, 2);
    assert_int_equal(sl_graph_verify(graph, &err), SL_OK);
    const sl_symbol sizes[] = {{"S", 9}, {"B", 2}};
    if (sl_graph_bind(graph, sizes, 2, NULL, &bound, &err)) fail_msg("%s", err.message);
    if (sl_graph_verify(bound, &err)) fail_msg("%s", err.message);
    assert_int_equal(bound->symbol_count, 0);
    assert_string_equal(type_of(bound, bound->outputs[0].value), "f32[2,9,3]");
    assert_string_equal(type_of(bound, bound->outputs[1].value), "f32[9,2,3]");
    assert_string_equal(bound->nodes[1].label, "reshape");
    /* What is printed binds to the same. */
    char *printed = NULL, *first = NULL, *second = NULL;
    assert_int_equal(sl_graph_text(graph, &printed, &err), SL_OK);
    assert_non_null(strstr(printed, "  symbol B = 7\n  symbol S = 11\n"));
    assert_non_null(strstr(printed, "input %x : f32[B,S,4]"));
    assert_non_null(strstr(printed, "{shape = [B, S, 3]}"));
    assert_non_null(strstr(printed, "length = S"));
    sl_graph *reread = parse(printed);
    assert_int_equal(sl_graph_bind(reread, sizes, 2, NULL, &again, &err), SL_OK);
    assert_int_equal(sl_graph_text(bound, &first, &err), SL_OK);
    assert_int_equal(sl_graph_text(again, &second, &err), SL_OK);
    assert_string_equal(first, second);
    sl_free(printed);
    sl_free(first);
    sl_free(second);
    sl_graph_destroy(reread);
    sl_graph_destroy(again);
    sl_graph_destroy(bound);
    sl_graph_destroy(graph);
}

static void refuses(const sl_graph *graph, const sl_symbol *sizes, uint32_t count,
                    const char *message) {
    sl_graph *bound = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_bind(graph, sizes, count, NULL, &bound, &err), SL_INVALID);
    assert_string_equal(err.message, message);
}

static void test_errors(void **state) {
    (void)state;
    sl_graph *graph = parse(text);
    sl_compiled *compiled = NULL;
    sl_error err = {0};
    refuses(graph, (const sl_symbol[]){{"B", 2}}, 1,
            "with B = 2: graph 'g': symbol 'S' is given no size");
    refuses(graph, (const sl_symbol[]){{"B", 2}, {"S", 3}, {"T", 4}}, 3,
            "graph 'g' has no symbol 'T'");
    refuses(graph, (const sl_symbol[]){{"B", -2}, {"S", 3}}, 2,
            "with B = -2, S = 3: graph 'g': symbol 'B' is -2, must be 0 or more");
    assert_int_equal(sl_compile(graph, NULL, &compiled, &err), SL_INVALID);
    assert_string_equal(err.message, "graph 'g': its symbol 'B' has no size yet: bind it");
    sl_graph_destroy(graph);
    graph = parse("graph \"h\" { symbol N = 3 input %x : f32[N] input %y : f32[3] "
                  "%z = add(%x, %y) output \"z\" = %z }");
    refuses(graph, (const sl_symbol[]){{"N", 4}}, 1,
            "with N = 4: add: dims 4 and 3 (number 1 from the end) do not broadcast: they must be "
            "equal or 1");
    sl_graph_destroy(graph);
    const char *const wrong[] = {"graph \"g\" { symbol B = 0 }",
                                 "graph \"g\" { symbol B = -9223372036854775808 }",
                                 "graph \"g\" { symbol B = -92233720368547758081 }",
                                 "graph \"g\" { symbol B = 2 symbol B = 2 }",
                                 "graph \"g\" { symbol 1 = 2 }",
                                 "graph \"g\" { symbol a.b = 2 }",
                                 "graph \"g\" { constant %c : f32[B] = {1} output \"c\" = %c }"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_not_equal(sl_graph_parse(wrong[i], strlen(wrong[i]), NULL, &graph, &err), SL_OK);
}

/* ---- built by calls, and in buckets ---- */

/* y = tanh(x w) for each of B rows, and the sum of x over them. */
static sl_graph *build(void) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("rows", NULL, &graph, &err), SL_OK);
    const int64_t B = sl_graph_add_symbol(graph, "B", 0), S = sl_graph_add_symbol(graph, "S", 6);
    sl_value in[2] = {sl_graph_add_input(graph, "x", "f32", 3, (int64_t[]){B, S, 3}),
                      sl_graph_add_weight(graph, "w", "f32", 2, (int64_t[]){3, 2})};
    const sl_value product = sl_graph_apply(graph, "matmul", in, 2, NULL);
    const sl_value y = sl_graph_apply(graph, "tanh", &product, 1, NULL);
    const sl_value sum = sl_graph_apply(graph, "reduce_sum", in, 1, "axes=[1], keep=0");
    sl_graph_add_output(graph, "y", y);
    sl_graph_add_output(graph, "sum", sum);
    return graph;
}

static void run_exactly(const sl_graph *graph, int64_t b, int64_t s, const float *x, const float *w,
                        float *y, float *sum) {
    sl_graph *bound = NULL;
    sl_compiled *c = NULL;
    sl_error err = {0};
    const sl_symbol_size sizes[] = {{"B", b}, {"S", s}};
    if (sl_graph_with_sizes(graph, sizes, 2, &bound, &err)) fail_msg("%s", err.message);
    if (sl_compile(bound, NULL, &c, &err)) fail_msg("%s", err.message);
    assert_int_equal(sl_compiled_set(c, "x", x, (size_t)(b * s * 3) * 4, &err), SL_OK);
    assert_int_equal(sl_compiled_set(c, "w", w, 24, &err), SL_OK);
    assert_int_equal(sl_compiled_run(c, &err), SL_OK);
    memcpy(y, sl_compiled_get(c, "y", NULL), (size_t)(b * s * 2) * 4);
    memcpy(sum, sl_compiled_get(c, "sum", NULL), (size_t)(b * 3) * 4);
    sl_compiled_destroy(c);
    sl_graph_destroy(bound);
}

static void near(const float *got, const float *want, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!(got[i] - want[i] < 1e-6f && want[i] - got[i] < 1e-6f))
            fail_msg("%g, must be %g", (double)got[i], (double)want[i]);
}

static void test_buckets(void **state) {
    (void)state;
    sl_graph *graph = build();
    sl_bucketed *b = NULL;
    sl_error err = {0};
    float x[8 * 16 * 3], y[8 * 16 * 2], sum[8 * 3];
    const float w[6] = {0.5f, -1, 0.25f, 2, -0.125f, 1};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 13) / 8 - 0.7f;
    const sl_bucket_options options = {.struct_size = sizeof options, .least = 2, .most_kept = 3};
    if (sl_bucketed_create(graph, &options, &b, &err)) fail_msg("%s", err.message);
    assert_int_equal(sl_bucketed_run(b, &err), SL_INVALID);
    assert_string_equal(err.message, "graph 'rows': no sizes are chosen yet");
    assert_int_equal(sl_bucketed_set(b, "w", w, sizeof w, &err), SL_OK);
    static const int64_t sizes[][3] = {{1, 1, 1}, {2, 2, 1},  {3, 5, 2}, {4, 8, 2}, {3, 6, 2},
                                       {8, 5, 3}, {5, 16, 3}, {1, 2, 3}, {7, 9, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t rows = sizes[i][0], length = sizes[i][1];
        size_t bytes = 0;
        const sl_symbol_size chosen[] = {{"B", rows}, {"S", length}};
        if (sl_bucketed_resize(b, chosen, 2, &err)) fail_msg("%s", err.message);
        assert_int_equal(sl_bucketed_count(b), sizes[i][2]);
        assert_int_equal(sl_bucketed_set(b, "x", x, (size_t)(rows * length * 3) * 4, &err), SL_OK);
        if (sl_bucketed_run(b, &err)) fail_msg("%s", err.message);
        run_exactly(graph, rows, length, x, w, y, sum);
        near(sl_bucketed_get(b, "y", &bytes), y, rows * length * 2);
        assert_int_equal(bytes, rows * length * 2 * 4);
        near(sl_bucketed_get(b, "sum", &bytes), sum, rows * 3);
        assert_int_equal(bytes, rows * 3 * 4);
    }
    assert_int_equal(sl_bucketed_set(b, "x", x, 12, &err), SL_INVALID);
    assert_string_equal(err.message, "'x' is f32[7,9,3] of 756 bytes, but 12 bytes were given");
    assert_int_equal(sl_bucketed_resize(b, (const sl_symbol_size[]){{"B", 2}}, 1, &err),
                     SL_INVALID);
    assert_string_equal(err.message, "with B = 2: graph 'rows': symbol 'S' is given no size");
    assert_null(sl_bucketed_get(b, "nothing", NULL));
    sl_bucketed_destroy(b);
    sl_graph_destroy(graph);
}

static void test_bucket_refusals(void **state) {
    (void)state;
    sl_graph *graph = parse("graph \"s\" { input %x : f32[B] state %s : f32[4] "
                            "%y = neg(%x) output \"y\" = %y output \"s\" = %s }");
    sl_bucketed *b = NULL;
    sl_error err = {0};
    assert_int_equal(sl_bucketed_create(graph, NULL, &b, &err), SL_UNSUPPORTED);
    assert_string_equal(err.message,
                        "graph 's': 's' is a state or experts, which buckets do not support");
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_bucket_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
