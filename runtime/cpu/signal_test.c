/* signal_test.c - FFTs of many lengths and layouts, and log_mel, on every instruction set. */
#include "tests/support/graph_case.h"

static void check_fft(const char *dtype, int rows, int n, int inverse, int norm, double tolerance) {
    char text[256];
    const int width = strcmp(dtype, "c64") == 0 ? n : 2 * n;
    (void)snprintf(
        text, sizeof text,
        "input %%x : %s[%d,%d] %%1 = fft(%%x) {inverse = %d, norm = %d} output \"y\" = %%1", dtype,
        rows, width, inverse, norm);
    check_graph(tolerance, text);
}

/* Products of small primes, primes, and other lengths: one row, a few rows, many rows. */
static void lengths(void **state) {
    (void)state;
    static const int all[] = {1,   2,   3,   4,   5,   6,   7,   8,    9,    10,  11,
                              12,  13,  14,  15,  16,  17,  21,  25,   31,   32,  49,
                              60,  64,  97,  100, 105, 121, 127, 128,  179,  210, 243,
                              256, 257, 343, 360, 500, 512, 625, 1000, 1009, 1024};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check_fft("f32", 1, all[i], i % 2, (int)(i % 4), 1e-6);
        /* The evaluator takes quadratic time in the odd part of a length. */
        if (all[i] > 130) continue;
        check_fft("c64", 3, all[i], !(i % 2), (int)(i % 4), 1e-6);
        check_fft("c64", 19, all[i], i % 2, 0, 1e-6);
        check_fft("f64", 5, all[i], i % 2, 1, 2e-14);
    }
    check_fft("c64", 2, 4096, 0, 0, 1e-6);
    check_fft("f64", 1, 2310, 1, 0, 2e-14);
    check_fft("c64", 17, 512, 1, 0, 1e-6);
}

/* Rows that are vectorised within the row, with each kind of first stage, and rows computed as
 * matrices, whose sides are multiples of a vector or not. */
static void long_rows(void **state) {
    (void)state;
    static const int rows[] = {64, 72, 104, 256, 264, 504, 640, 768, 1000, 1400, 2048, 8192, 10240};
    static const int matrices[] = {65536, 69120, 80000, 131072};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_fft("c64", 3, rows[i], i % 2, (int)(i % 4), 1e-6);
        check_fft("c64", 1, rows[i], !(i % 2), 3, 1e-6);
        check_fft("f32", 2, rows[i], !(i % 2), 0, 1e-6);
        check_fft("f64", 2, rows[i], i % 2, 0, 2e-14);
    }
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        check_fft("c64", 1, matrices[i], i % 2, 0, 1e-6);
        check_fft("f32", 1, matrices[i], !(i % 2), 1, 1e-6);
        check_fft("f64", 1, matrices[i], i % 2, 2, 2e-14);
    }
}

static void there_and_back(void **state) {
    (void)state;
    static const int all[] = {1, 30, 97, 256};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int norm = 0; norm < 3; norm++) {
            char text[512];
            (void)snprintf(text, sizeof text,
                           "input %%x : f64[2,%d] %%1 = fft(%%x) {norm = %d} "
                           "%%2 = fft(%%1) {inverse = 1, norm = %d} output \"y\" = %%2",
                           2 * all[i], norm, norm);
            graph_case c = graph_open(text);
            double *back = graph_evaluate(&c, 0);
            for (int64_t k = 0; k < 4 * all[i]; k++)
                assert_true(fabs(back[k] - ((const double *)c.data[0])[k]) < 1e-13);
            free(back);
            check_case(&c, 1e-13);
            graph_close(&c);
        }
}

/* All butterfly stages together, on bit-reversed input, are the transform. */
static void stages_make_a_transform(void **state) {
    (void)state;
    enum { N = 16, BITS = 4 };
    graph_case whole = graph_open("input %x : f32[32] %1 = fft(%x) output \"y\" = %1");
    double *wanted = graph_evaluate(&whole, 0);
    double values[2 * N], next[2 * N];
    for (int i = 0; i < N; i++) {
        int from = 0;
        for (int b = 0; b < BITS; b++) from |= (i >> b & 1) << (BITS - 1 - b);
        values[i] = (double)((const float *)whole.data[0])[from];
        values[N + i] = (double)((const float *)whole.data[0])[N + from];
    }
    for (int s = 0; s < BITS; s++) {
        char text[256];
        (void)snprintf(
            text, sizeof text,
            "input %%x : f32[32] input %%w : f32[16] input %%g : f32[8] input %%r : f32[8] "
            "%%1 = fft_butterfly_stage(%%x, %%w, %%g, %%r) {stage = %d} output \"y\" = %%1",
            s);
        graph_case c = graph_open(text);
        float *w = c.data[1], *gates = c.data[2], *reversed = c.data[3];
        sl_encode_f64(SL_DTYPE_f32, values, 2 * N, c.data[0]);
        for (int b = 0; b < N / 2; b++) {
            const double angle = -2 * M_PI * (b % (1 << s)) / (2 << s);
            w[b] = (float)cos(angle);
            w[N / 2 + b] = (float)sin(angle);
            gates[b] = 1;
            reversed[b] = 0;
        }
        double *out = graph_evaluate(&c, 0);
        memcpy(next, out, sizeof next);
        free(out);
        check_case(&c, 1e-6);
        for (int b = 0; b < N / 2; b++) gates[b] = (float)(b % 3), reversed[b] = (float)(b % 2);
        check_case(&c, 1e-6);
        graph_close(&c);
        memcpy(values, next, sizeof values);
    }
    for (int i = 0; i < 2 * N; i++) assert_true(fabs(values[i] - wanted[i]) < 1e-5);
    free(wanted);
    graph_close(&whole);
}

static void make_filters_positive(graph_case *c) {
    const int64_t count = sl_type_elements(&c->graph->values[c->inputs[1].v].type);
    float *filters = c->data[1];
    for (int64_t i = 0; i < count; i++) filters[i] = i % 7 == 0 ? 0 : fabsf(filters[i]);
}

static void log_mels(void **state) {
    (void)state;
    static const int lengths_and_mels[][2] = {{8, 3}, {400, 80}, {9, 2}, {30, 1}};
    for (size_t i = 0; i < 4; i++) {
        char text[512];
        const int n = lengths_and_mels[i][0], mels = lengths_and_mels[i][1];
        (void)snprintf(text, sizeof text,
                       "input %%s : f32[2,3,%d] input %%f : f32[%d,%d] input %%g : f32[2,3,%d] "
                       "%%1 = log_mel(%%s, %%f) %%2 = log_mel_backward(%%s, %%f, %%g) "
                       "output \"y\" = %%1 output \"d\" = %%2",
                       2 * n, mels, n / 2 + 1, mels);
        graph_case c = graph_open(text);
        make_filters_positive(&c);
        float *s = c.data[0];
        for (int k = 0; k < 2 * n; k++) s[k] = 0; /* a row of silence */
        for (int k = 2 * n; k < 4 * n; k++) s[k] *= k % n < 3 ? 1e3f : 1e-5f;
        check_case(&c, 2e-6);
        graph_close(&c);
    }
}

/* Compared with central differences of the forward op, in doubles, where no lower bound applies. */
static void gradients_are_slopes(void **state) {
    (void)state;
    graph_case c = graph_open("input %s : f32[1,24] input %f : f32[4,7] input %g : f32[1,4] "
                              "%1 = log_mel(%s, %f) %2 = log_mel_backward(%s, %f, %g) "
                              "output \"y\" = %1 output \"d\" = %2");
    make_filters_positive(&c);
    double *grad = graph_evaluate(&c, 1);
    float *s = c.data[0];
    const float *g = c.data[2];
    for (int i = 0; i < 24; i++) {
        const float at = s[i], high = at + 0x1p-10f, low = at - 0x1p-10f;
        double sums[2];
        for (int side = 0; side < 2; side++) {
            s[i] = side ? high : low;
            double *y = graph_evaluate(&c, 0);
            sums[side] = 0;
            for (int m = 0; m < 4; m++) sums[side] += y[m] * (double)g[m];
            free(y);
        }
        s[i] = at;
        const double slope = (sums[1] - sums[0]) / ((double)high - (double)low);
        if (fabs(slope - grad[i]) > 1e-5) fail_msg("%d: %g, slope %g", i, grad[i], slope);
    }
    free(grad);
    graph_close(&c);
}

static void bad_operands_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"input %x : f32[3] %1 = fft(%x)",
         "x is f32[3], must be c64[..,N], f32[..,2N] or f64[..,2N]"},
        {"input %x : i32[4] %1 = fft(%x)", "x is i32[4], must be"},
        {"input %x : f32[] %1 = fft(%x)", "x is f32[], must be"},
        {"input %x : f32[4] %1 = fft(%x) {norm = 4}", "norm is 4, must be 0 to 3"},
        {"input %x : f32[4] %1 = fft(%x) {inverse = 2}", "inverse is 2, must be 0 to 1"},
        {"input %s : f32[16] input %f : f32[3,4] %1 = log_mel(%s, %f)", "2N and N/2+1 wanted"},
        {"input %s : f32[16] input %f : f32[3,5] input %g : f32[4] "
         "%1 = log_mel_backward(%s, %f, %g)",
         "grad is f32[4], must be f32[3]"},
        {"input %x : f32[16] input %w : f32[8] input %g : f32[4] "
         "%1 = fft_butterfly_stage(%x, %w, %g, %g) {stage = 3}",
         "2^stage is 8, must be 1 to 4"},
        {"input %x : f32[12] input %w : f32[6] input %g : f32[3] "
         "%1 = fft_butterfly_stage(%x, %w, %g, %g) {stage = 0}",
         "must be a power of two"},
    };
    check_refused(cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(stages_make_a_transform),
        cmocka_unit_test(log_mels),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(bad_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
