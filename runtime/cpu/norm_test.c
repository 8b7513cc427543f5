/* norm_test.c - Kernels of norms over given axes against the evaluator, on random shapes. */
#include "tests/support/node_case.h"

static const sl_dtype dtypes[] = {SL_DTYPE_f32, SL_DTYPE_f32,  SL_DTYPE_f32,
                                  SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64};

static int64_t ragged(int64_t most) {
    const int64_t unit = (int64_t)1 << node_next() % 7;
    const int64_t size = unit * node_between(0, 5) + node_between(-1, 1);
    return size < 1 ? 1 : size > most ? node_between(1, most) : size;
}

static void layer_norms(void **state) {
    (void)state;
    static const char *const ops[] = {"layer_norm", "layer_norm_backward_input",
                                      "layer_norm_backward_gain"};
    for (int round = 0; round < 60; round++) {
        const int kind = round % 3;
        const sl_dtype dtype = dtypes[node_next() % 6];
        const sl_type x = sl_type_make(dtype, 3, ragged(5), ragged(20), ragged(700));
        const int64_t axis = node_between(-2, -1);
        const sl_type gain = axis == -1 ? sl_type_make(dtype, 1, x.shape.dims[2])
                                        : sl_type_make(dtype, 2, x.shape.dims[1], x.shape.dims[2]);
        char attrs[64];
        (void)snprintf(attrs, sizeof attrs, "axis = %d, eps = 1e-5", (int)axis);
        node_case n;
        node_open(&n, ops[kind], attrs);
        const double centre = node_next() % 3 ? 0 : 30;
        node_random(&n, &x, centre - 1, centre + 1);
        if (kind < 2) node_random(&n, &gain, -1, 2);
        node_random(&n, kind ? &x : &gain, -1, 1);
        node_check(&n);
    }
}

static void group_norms(void **state) {
    (void)state;
    static const char *const ops[] = {"group_norm", "group_norm_backward_input",
                                      "group_norm_backward_gain", "group_norm_backward_bias",
                                      "layer_norm2d"};
    for (int round = 0; round < 100; round++) {
        const int kind = round % 5;
        const sl_dtype dtype = dtypes[node_next() % 6];
        const uint32_t groups = (uint32_t)node_between(1, 5);
        const int64_t channels = groups * ragged(round % 7 ? 9 : 300);
        const sl_type x = sl_type_make(dtype, (uint32_t)node_between(2, 4), node_between(1, 3),
                                       channels, ragged(round % 3 ? 70 : 1200), node_between(1, 3));
        const sl_type gain = sl_type_make(dtype, 1, channels);
        char attrs[64];
        (void)snprintf(attrs, sizeof attrs, "groups = %u, eps = 1e-3", groups);
        node_case n;
        node_open(&n, ops[kind], kind == 3 ? "" : kind == 4 ? "eps = 1e-3" : attrs);
        node_random(&n, &x, -1, 1.5);
        if (kind < 2 || kind == 4) node_random(&n, &gain, -1, 2);
        if (kind != 3) node_random(&n, kind == 1 || kind == 2 ? &x : &gain, -1, 1);
        node_check(&n);
    }
}

static void batch_norms(void **state) {
    (void)state;
    for (int round = 0; round < 80; round++) {
        const int kind = round % 4;
        static const char *const ops[] = {
            "batch_norm_inference", "batch_norm_inference_backward_input",
            "batch_norm_inference_backward_gain", "batch_norm_inference_backward_bias"};
        const sl_dtype dtype = dtypes[node_next() % 6];
        const sl_type x = sl_type_make(dtype, 3, ragged(9), ragged(40), ragged(90));
        const int64_t axis = node_between(-3, 2);
        const sl_type vector = sl_type_make(dtype, 1, x.shape.dims[(axis + 3) % 3]);
        char attrs[64];
        (void)snprintf(attrs, sizeof attrs, "axis = %d%s", (int)axis,
                       kind < 3 ? ", eps = 1e-3" : "");
        node_case n;
        node_open(&n, ops[kind], attrs);
        if (kind == 0 || kind == 2) node_random(&n, &x, -1, 1);
        if (kind == 0 || kind == 1) node_random(&n, &vector, -1, 2);
        if (kind == 0) node_random(&n, &vector, -1, 1);
        if (kind == 0 || kind == 2) node_random(&n, &vector, -1, 1);
        if (kind < 3) node_random(&n, &vector, 0.1, 2);
        if (kind > 0) node_random(&n, &x, -1, 1);
        node_check(&n);
    }
}

static void rms_gradients(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        const sl_dtype dtype = dtypes[node_next() % 6];
        const sl_type x = sl_type_make(dtype, 3, ragged(5), ragged(9), ragged(600));
        const sl_type gain = sl_type_make(dtype, 1, x.shape.dims[2]);
        node_case n;
        node_open(&n, round % 2 ? "rms_norm_backward_input" : "rms_norm_backward_gain",
                  round % 2 ? "eps = 1e-5, offset = 1.0" : "eps = 1e-5");
        node_random(&n, &x, -1, 1);
        if (round % 2) node_random(&n, &gain, -1, 1);
        node_random(&n, &x, -1, 1);
        node_check(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norms),
        cmocka_unit_test(group_norms),
        cmocka_unit_test(batch_norms),
        cmocka_unit_test(rms_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
