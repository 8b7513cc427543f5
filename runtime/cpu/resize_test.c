/* resize_test.c - Kernels of resizing and of recurrent layers against the evaluator, on random
 * shapes. */
#include "tests/support/node_case.h"

static sl_dtype any_float(void) {
    static const sl_dtype dtypes[] = {SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64};
    return node_next() % 4 ? SL_DTYPE_f32 : dtypes[node_next() % 3];
}

static void resizing(void **state) {
    (void)state;
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel",    "half_pixel_symmetric",
                                              "align_corners", "pytorch_half_pixel",
                                              "asymmetric",    "tf_half_pixel_for_nn"};
    static const char *const roundings[] = {"", "round_prefer_ceil", "floor", "ceil"};
    static const sl_dtype others[] = {SL_DTYPE_u8, SL_DTYPE_bool, SL_DTYPE_i64, SL_DTYPE_c64};
    for (int round = 0; round < 120; round++) {
        const int mode = round % 3;
        sl_type x = {any_float(), {(uint32_t)node_between(1, 4), {0}}};
        if (mode == 0 && node_next() % 2) x.dtype = others[node_next() % 3];
        char attrs[400];
        int at = snprintf(attrs, sizeof attrs, "shape = [");
        for (uint32_t i = 0; i < x.shape.rank; i++) {
            x.shape.dims[i] = node_between(1, i + 1 == x.shape.rank ? 40 : 7);
            const int64_t out =
                node_next() % 3 ? node_between(1, 2 * x.shape.dims[i]) : x.shape.dims[i];
            at += snprintf(attrs + at, sizeof attrs - (size_t)at, "%s%d", i ? ", " : "", (int)out);
        }
        (void)snprintf(attrs + at, sizeof attrs - (size_t)at,
                       "], mode = \"%s\", coordinates = \"%s\", rounding = \"%s\", "
                       "exclude_outside = %u, antialias = %u",
                       modes[mode], coordinates[node_next() % 6], roundings[node_next() % 4],
                       node_next() % 2, node_next() % 2);
        node_case n;
        node_open(&n, "resize", attrs);
        node_random(&n, &x, x.dtype == SL_DTYPE_bool || x.dtype == SL_DTYPE_u8 ? 0 : -1,
                    x.dtype == SL_DTYPE_u8     ? 200
                    : x.dtype == SL_DTYPE_bool ? 2
                                               : 1);
        node_check(&n);
    }
}

static void crops(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        const sl_type x = sl_type_make(any_float(), 3, node_between(1, 3), node_between(2, 9),
                                       node_between(2, 9));
        char attrs[300];
        (void)snprintf(attrs, sizeof attrs,
                       "shape = [%d, %d, 7], mode = \"%s\", coordinates = \"tf_crop_and_resize\", "
                       "roi = [0.0, 0.1, %g, 1.0, %g, 1.1], extrapolation = 0.75",
                       (int)x.shape.dims[0], (int)node_between(1, 12),
                       round % 2 ? "nearest" : "linear", (double)node_between(-3, 3) / 10,
                       (double)node_between(5, 14) / 10);
        node_case n;
        node_open(&n, "resize", attrs);
        node_random(&n, &x, -1, 1);
        node_check(&n);
    }
}

static void twice(void **state) {
    (void)state;
    static const sl_dtype dtypes[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_u8, SL_DTYPE_i64,
                                      SL_DTYPE_bool};
    for (int round = 0; round < 30; round++) {
        const bool backward = round % 2;
        const int64_t factor = backward ? 2 : 1;
        const sl_type x =
            sl_type_make(backward ? any_float() : dtypes[node_next() % 5], 3, node_between(1, 4),
                         factor * node_between(1, 9), factor * node_between(1, 40));
        node_case n;
        node_open(&n, backward ? "resize_nearest2x_backward" : "resize_nearest2x", "");
        node_random(&n, &x, 0, 2);
        node_check(&n);
    }
}

static void recurrent(void **state) {
    (void)state;
    static const char *const ops[] = {"rnn", "gru", "lstm"}, *const directions[] = {
                                                                 "forward", "reverse",
                                                                 "bidirectional"};
    static const int64_t gate_counts[] = {1, 3, 4};
    for (int round = 0; round < 90; round++) {
        const int kind = round % 3, direction = (int)(node_next() % 3);
        const sl_dtype dtype = any_float();
        const int64_t steps = node_between(1, 9), batch = node_between(1, 4), d = 1 + direction / 2;
        const int64_t inputs = node_between(1, 40), hidden = node_between(1, 70);
        const int64_t rows = gate_counts[kind] * hidden;
        const uint32_t extras = node_next() % (kind == 2 ? 32 : 8);
        char attrs[200];
        int at = snprintf(attrs, sizeof attrs, "extras = %u, direction = \"%s\", clip = %d", extras,
                          directions[direction], (int)node_between(0, 2));
        if (kind)
            (void)snprintf(attrs + at, sizeof attrs - (size_t)at, ", %s = %u",
                           kind == 1 ? "linear_before_reset" : "input_forget", node_next() % 2);
        const sl_type types[] = {
            sl_type_make(dtype, 3, steps, batch, inputs),
            sl_type_make(dtype, 3, d, rows, inputs),
            sl_type_make(dtype, 3, d, rows, hidden),
            sl_type_make(dtype, 2, d, 2 * rows),
            sl_type_make(node_next() % 2 ? SL_DTYPE_i32 : SL_DTYPE_i64, 1, batch),
            sl_type_make(dtype, 3, d, batch, hidden),
            sl_type_make(dtype, 3, d, batch, hidden),
            sl_type_make(dtype, 2, d, 3 * hidden)};
        node_case n;
        node_open(&n, ops[kind], attrs);
        for (int i = 0; i < 8; i++) {
            if (i > 2 && !(extras >> (i - 3) & 1)) continue;
            const double most = i == 4 ? (double)(steps + 1) : i == 1 || i == 2 ? 0.4 : 1;
            node_random(&n, &types[i], i == 4 ? 0 : -most, most);
        }
        node_check(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing),
        cmocka_unit_test(crops),
        cmocka_unit_test(twice),
        cmocka_unit_test(recurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
