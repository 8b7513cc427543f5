/* optimiser_test.c - Writing states, and the steps of optimisers, against the evaluator. */
#include "tests/support/op_case.h"

static const int64_t widths[] = {1, 3, 16, 33, 1000, 70001};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void test_assign(void **state) {
    (void)state;
    static const sl_dtype dtypes[] = {SL_DTYPE_f32, SL_DTYPE_bf16, SL_DTYPE_f64,
                                      SL_DTYPE_i8,  SL_DTYPE_i64,  SL_DTYPE_c64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (int w = 0; w < WIDTHS; w++) {
            op_case c = case_of(SL_OP_assign, NULL, 0);
            const sl_type type = sl_type_make(dtypes[d], 2, (int64_t)2, widths[w]);
            (void)input(&c, type, -9, 9);
            (void)input(&c, type, -9, 9);
            check(&c);
        }
    op_case whole = case_of(SL_OP_assign, NULL, 0);
    (void)input(&whole, i32(7), -9, 9);
    (void)input(&whole, i32(7), -9, 9);
    check(&whole);
}

/* Parameters, `moments` of them not negative, the gradient and the rate. */
static op_case step_case(sl_op op, const void *attrs, int64_t width, int moments) {
    op_case c = case_of(op, attrs, 2e-6);
    const sl_type type = f32(1, width, 0, 0, 0);
    (void)input(&c, type, -1, 1);
    (void)input(&c, type, -1, 1);
    for (int i = 1; i < moments; i++) (void)input(&c, type, 0, 1);
    (void)input(&c, type, -1, 1);
    (void)input(&c, f32(1, 1, 0, 0, 0), 0.01, 0.5);
    return c;
}

static void test_sgd(void **state) {
    (void)state;
    for (uint32_t nesterov = 0; nesterov < 2; nesterov++)
        for (int w = 0; w < WIDTHS; w++) {
            const sl_sgd_step_attrs attrs = {.mu = 0.9f, .decay = 0.125f, .nesterov = nesterov};
            op_case c = step_case(SL_OP_sgd_step, &attrs, widths[w], 1);
            check(&c);
        }
}

static void test_adamw(void **state) {
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        const sl_adamw_step_attrs attrs = {
            .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-3f, .decay = 0.1f};
        op_case c = step_case(SL_OP_adamw_step, &attrs, widths[w], 2);
        (void)input(&c, f32(1, 2, 0, 0, 0), 0.1, 1);
        check(&c);
    }
}

static void test_lion(void **state) {
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        const sl_lion_step_attrs attrs = {.beta1 = 0.9f, .beta2 = 0.99f, .decay = 0.1f};
        op_case c = step_case(SL_OP_lion_step, &attrs, widths[w], 1);
        check(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assign),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_lion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
