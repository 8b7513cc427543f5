/* vmath_test.c - Vector functions against the C library in doubles: dense samples of all floats and
 * special values, on every instruction set. */
#include "runtime/cpu/kernel_set.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *const isas[] = {"baseline", "avx2", "avx512"};

enum { COUNT = 1 << 20 };
static float x[COUNT], y[COUNT];

/* Distance in units in the last place of the true value. */
static double ulps(float got, double want) {
    const float nearest = (float)want;
    if (isnan(want)) return isnan(got) ? 0 : 1e9;
    if (isinf(nearest)) return got == nearest ? 0 : 1e9;
    int exponent = 0;
    (void)frexp(want, &exponent);
    /* Subnormals have the ulp of the smallest normal number. */
    if (exponent < -125) exponent = -125;
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

static double gelu(double v) {
    return 0.5 * v * erfc(v * -0.70710678118654752440);
}

/* Evenly spaced bit patterns of both signs up to a magnitude, then special values. */
static void fill_samples(float limit) {
    uint32_t most;
    memcpy(&most, &limit, sizeof most);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t bits = (uint32_t)((uint64_t)most * (i / 2) / (COUNT / 2)) | i << 31;
        memcpy(&x[i], &bits, sizeof bits);
    }
    static const float special[] = {NAN,       INFINITY,  0.0f, -0.0f, 1.0f,
                                    0x1p-149f, 0x1p-126f, 0.5f, 1e30f, 0x1.fffffep+127f};
    memcpy(x, special, sizeof special);
}

/* Every bit pattern from a float on, as many as there is room for. */
static void fill_every(float from) {
    uint32_t bits;
    memcpy(&bits, &from, sizeof bits);
    for (uint32_t i = 0; i < COUNT; i++, bits++) memcpy(&x[i], &bits, sizeof bits);
}

static void check_ulps(sl_op op, double f(double), double limit) {
    const sl_type type = sl_type_make(SL_DTYPE_f32, 1, (int64_t)COUNT);
    const sl_exp_args args = {.x = {x, type}, .out = {y, type}}; /* same layout for all of them */
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (!set) continue;
        const sl_kernel *kernel = sl_cpu_kernel_find(set, op, &type);
        assert_non_null(kernel);
        sl_error err = {0};
        sl_worker worker = {.err = &err};
        assert_int_equal(kernel->run(&args, 0, kernel->split(&args).items, &worker), SL_OK);
        double worst = 0;
        float where = 0;
        for (int j = 0; j < COUNT; j++) {
            const double distance = ulps(y[j], f((double)x[j]));
            if (distance > worst) worst = distance, where = x[j];
        }
        print_message("%s on %s: within %.2f ulp, at %a\n", sl_op_info_of(op)->name, isas[i], worst,
                      (double)where);
        assert_true(worst <= limit);
    }
}

static void test_log(void **state) {
    (void)state;
    fill_samples(INFINITY);
    check_ulps(SL_OP_log, log, 1.5);
    fill_every(0.9f);
    check_ulps(SL_OP_log, log, 1.5);
    fill_every(0.68f);
    check_ulps(SL_OP_log, log, 1.5);
}
static void test_tanh(void **state) {
    (void)state;
    fill_samples(INFINITY);
    check_ulps(SL_OP_tanh, tanh, 2);
    fill_every(0.6f);
    check_ulps(SL_OP_tanh, tanh, 2);
}
static void test_gelu(void **state) {
    (void)state;
    fill_samples(1e30f);
    check_ulps(SL_OP_gelu, gelu, 6);
    fill_every(-2.0f);
    check_ulps(SL_OP_gelu, gelu, 6);
    fill_every(-12.0f);
    check_ulps(SL_OP_gelu, gelu, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_gelu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
