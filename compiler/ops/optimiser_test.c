/* optimiser_test.c - Steps against torch.optim, and a weight that is written in a graph. */
#include "tests/support/op_fixture.h"

static void compare(fixture *f, size_t number) {
    fixture_compare(f, number, 1e-12);
}

static void steps_are_those_of_torch(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    each_fixture("tests/data/ops/optimiser.json", compare, seen);
    assert_int_equal(seen[SL_OP_assign], 3);
    assert_int_equal(seen[SL_OP_sgd_step], 18);
    assert_int_equal(seen[SL_OP_adamw_step], 18);
    assert_int_equal(seen[SL_OP_lion_step], 9);
}

static void operands_must_fit(void **state) {
    (void)state;
    fixture_rejects("assign", "", TYPES("f32[2,3]", "f32[3,2]"),
                    "assign: value is f32[3,2], must be f32[2,3] as x");
    fixture_rejects("assign", "", TYPES("f32[2]", "f16[2]"),
                    "assign: value is f16[2], must be f32[2] as x");
    fixture_rejects("sgd_step", "", TYPES("f64[2]", "f64[2]", "f64[2]", "f32[1]"),
                    "sgd_step: x is f64, must be f32");
    fixture_rejects("adamw_step", "",
                    TYPES("f32[2]", "f32[2]", "f32[3]", "f32[2]", "f32[1]", "f32[2]"),
                    "adamw_step: square is f32[3], must be f32[2] as x");
    fixture_rejects("adamw_step", "",
                    TYPES("f32[2]", "f32[2]", "f32[2]", "f32[2]", "f32[1]", "f32[3]"),
                    "adamw_step: corrections is f32[3], must have 2 f32");
    fixture_rejects("lion_step", "", TYPES("f32[2]", "f32[2]", "f32[2]", "f32[2]"),
                    "lion_step: rate is f32[2], must have 1 f32");
}

static const char text[] = "graph \"g\" {\n"
                           "  weight %w : f32[2]\n"
                           "  input %x : f32[2]\n"
                           "  %3 = add(%w, %x) : f32[2]\n"
                           "  %4 = assign(%w, %3) : f32[2]\n"
                           "  output \"before\" = %3\n"
                           "  output \"w\" = %4\n"
                           "}\n";

static void a_written_weight_is_a_state(void **state) {
    (void)state;
    sl_graph *g = NULL, *copy = NULL;
    sl_error err = {0};
    char *again = NULL;
    if (sl_graph_parse(text, strlen(text), NULL, &g, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_value w = sl_graph_find(g, "w");
    assert_int_equal(g->values[w.v].kind, SL_VALUE_STATE);
    assert_int_equal(g->values[w.v].root.v, w.v);
    assert_int_equal(sl_value_declared_kind(&g->values[w.v]), SL_VALUE_WEIGHT);
    assert_int_equal(sl_graph_verify(g, &err), SL_OK);
    assert_int_equal(sl_graph_copy(g, NULL, &copy, &err), SL_OK);
    assert_int_equal(sl_graph_print(copy, &copy->arena, &again, &err), SL_OK);
    assert_string_equal(again, text);
    sl_graph_destroy(copy);
    /* What was updated is read by its new name. */
    const sl_value stale = sl_graph_find(g, "w");
    sl_value out;
    sl_graph_append(g, SL_OP_neg, &stale, &(sl_neg_attrs){0}, &out);
    sl_graph_output(g, "late", out);
    assert_int_equal(sl_graph_verify(g, &err), SL_INVALID);
    assert_string_equal(err.message,
                        "neg: input 'x' is %w, a state that was updated since: use %4");
    sl_graph_destroy(g);
}

/* Only ops that assign make states of weights. */
static void other_ops_take_states(void **state) {
    (void)state;
    static const char wrong[] =
        "graph \"g\" { input %l : f32[1,3] input %h : f64[1,5] input %s : i32[1] "
        "weight %c : i32[2] %o, %n = choose(%l, %h, %s, %c) output \"o\" = %o }";
    sl_graph *g = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_parse(wrong, strlen(wrong), NULL, &g, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "choose: input 'chosen' must be a state"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_torch),
        cmocka_unit_test(operands_must_fit),
        cmocka_unit_test(a_written_weight_is_a_state),
        cmocka_unit_test(other_ops_take_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
