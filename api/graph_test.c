/* graph_test.c - Graphs by way of the public functions. */
#include "compiler/graph.h"
#include "sluice/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void graphs_are_built_and_read_back(void **state) {
    (void)state;
    sl_graph *g = NULL;
    sl_error err = {0};
    char *text = NULL;
    assert_int_equal(sl_graph_new("api", &g, &err), SL_OK);
    sl_value in[2] = {sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4}),
                      sl_graph_add_weight(g, "gain", "f32", 1, (int64_t[]){4})};
    sl_value out[3];
    sl_graph_add_state(g, "s", "f16", 1, (int64_t[]){3});
    sl_graph_add_constant(g, "c", "i32", 0, NULL, &(int32_t){-7});
    sl_graph_set_scope(g, "first");
    sl_graph_set_label(g, "q_norm");
    sl_graph_apply(g, "rms_norm", in, 2, "eps=1e-6", out);
    sl_graph_add_output(g, "y", out[0]);
    assert_int_equal(sl_graph_text(g, &text, &err), SL_OK);
    assert_string_equal(text, "graph \"api\" {\n  input %x : f32[2,4]\n  weight %gain : f32[4]\n"
                              "  state %s : f16[3]\n  constant %c : i32[] = {-7}\n"
                              "  scope \"first\"\n  label \"q_norm\"\n"
                              "  %5 = rms_norm(%x, %gain) {eps = 1e-06, offset = 0} : f32[2,4]\n"
                              "  output \"y\" = %5\n}\n");
    sl_graph *again = NULL;
    assert_int_equal(sl_graph_read(text, strlen(text), &again, &err), SL_OK);
    char *same = NULL;
    assert_int_equal(sl_graph_text(again, &same, &err), SL_OK);
    assert_string_equal(same, text);
    sl_graph_free(again);
    sl_graph_text_free(same);
    sl_graph_text_free(text);
    const char *const kinds[] = {"input", "weight", "state", "constant", "output"};
    sl_graph_item item;
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(sl_graph_item_at(g, i, &item), 1);
        assert_string_equal(item.kind, kinds[i]);
    }
    assert_true(strcmp(item.name, "y") == 0 && item.rank == 2 && item.dims[1] == 4);
    assert_int_equal(sl_graph_item_at(g, 5, &item), 0);
    const sl_op_row *ops;
    assert_int_equal(sl_op_rows(&ops), SL_OP_COUNT);
    assert_string_equal(ops[SL_OP_swiglu].name, "swiglu");
    sl_graph_free(g);
}

static void mistakes_are_reported(void **state) {
    (void)state;
    static const struct {
        const char *op, *attrs, *message;
        uint32_t count;
    } cases[] = {{"soft", NULL, "unknown op 'soft'", 1},
                 {"softmax", NULL, "softmax takes 1 inputs, found 2", 2},
                 {"softmax", "width=1",
                  "attributes of softmax: line 1, column 1: softmax has no attribute 'width'", 1},
                 {"reduce_sum", NULL,
                  "attributes of reduce_sum: line 1, column 1: attribute 'axes' is missing", 1},
                 {"reduce_sum", "axes=[1] keep=1",
                  "attributes of reduce_sum: line 1, column 10: expected ',', found 'k'", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_graph *g = NULL;
        sl_error err = {0};
        assert_int_equal(sl_graph_new("api", &g, &err), SL_OK);
        const sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4});
        sl_value y = {5};
        sl_graph_apply(g, cases[i].op, (sl_value[]){x, x}, cases[i].count, cases[i].attrs, &y);
        assert_int_equal(y.v, 0);
        assert_int_not_equal(sl_graph_check(g, &err), SL_OK);
        assert_string_equal(err.message, cases[i].message);
        sl_graph_free(g);
    }
    sl_graph *g = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_new("api", &g, &err), SL_OK);
    assert_int_equal(sl_graph_add_input(g, "x", "f65", 0, NULL).v, 0);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_string_equal(err.message, "x: unknown element type 'f65'");
    sl_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_built_and_read_back),
        cmocka_unit_test(mistakes_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
