/* predicates_test.c - What kind each op is. */
#include "api/predicates.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is(sl_op op, uint32_t what) {
    return (sl_op_predicates(op) & what) == what;
}

static void every_op_is_something(void **state) {
    (void)state;
    for (int op = 0; op < SL_OP_COUNT; op++) assert_int_not_equal(sl_op_predicates((sl_op)op), 0);
}

static void kinds_exclude_each_other(void **state) {
    (void)state;
    for (int op = 0; op < SL_OP_COUNT; op++) {
        const uint32_t kinds = sl_op_predicates((sl_op)op);
        assert_false((kinds & SL_IS_ELEMENTWISE) && (kinds & SL_IS_BOUNDARY));
        assert_false((kinds & SL_IS_ELEMENTWISE) && (kinds & SL_IS_REDUCTION));
        assert_false((kinds & SL_IS_REORDERABLE) && (kinds & (SL_IS_STATEFUL | SL_IS_STREAMS)));
    }
}

static void some_are_known(void **state) {
    (void)state;
    assert_true(is(SL_OP_add, SL_IS_ELEMENTWISE | SL_IS_REORDERABLE));
    assert_true(is(SL_OP_matmul, SL_IS_BLAS | SL_IS_REORDERABLE));
    assert_true(is(SL_OP_reduce_sum, SL_IS_REDUCTION | SL_IS_BOUNDARY));
    assert_true(is(SL_OP_kv_append, SL_IS_STATEFUL | SL_IS_BOUNDARY));
    assert_true(is(SL_OP_moe_ffn, SL_IS_STREAMS | SL_IS_BLAS));
    assert_true(is(SL_OP_resize_nearest2x, SL_IS_TRANSFORM));
    assert_false(is(SL_OP_while, SL_IS_REORDERABLE));
    assert_int_equal(sl_op_predicates(SL_OP_reshape), SL_IS_REORDERABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_is_something),
                                       cmocka_unit_test(kinds_exclude_each_other),
                                       cmocka_unit_test(some_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
