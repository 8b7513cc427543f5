#include "engine/quant/quantise.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka needs the headers above first */
#include <cmocka.h>

typedef struct {
    int64_t rows, cols;
    float *w;
} matrix;

/* Sums of uniform numbers: close to normal, the same on every machine. */
static float noise(uint32_t *state) {
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) * 0x1p-24f - 0.5f;
    }
    return sum;
}

static matrix matrix_noise(int64_t rows, int64_t cols, float size) {
    matrix m = {rows, cols, calloc((size_t)(rows * cols), sizeof(float))};
    assert_non_null(m.w);
    uint32_t state = 7;
    for (int64_t i = 0; i < rows * cols; i++) m.w[i] = size * noise(&state);
    return m;
}

static uint8_t *quantised(sl_dtype dtype, const matrix *m, uint64_t *out_bytes) {
    *out_bytes = sl_panel_layout_of(dtype, m->rows, m->cols).matrix_bytes;
    uint8_t *out = malloc(*out_bytes);
    assert_non_null(out);
    memset(out, 0xee, *out_bytes);
    sl_error error;
    assert_int_equal(sl_quantise(dtype, m->w, m->rows, m->cols, out, &error), SL_OK);
    return out;
}

/* ||decoded - w|| / ||w|| */
static double relative_error(sl_dtype dtype, const matrix *m) {
    uint64_t bytes;
    uint8_t *codes = quantised(dtype, m, &bytes);
    float *row = malloc((size_t)m->cols * sizeof *row);
    double miss = 0, size = 0;
    for (int64_t r = 0; r < m->rows; r++) {
        sl_decode_row(dtype, codes, m->rows, m->cols, r, row);
        for (int64_t c = 0; c < m->cols; c++) {
            const double w = m->w[r * m->cols + c];
            miss += (row[c] - w) * (row[c] - w);
            size += w * w;
        }
    }
    free(row);
    free(codes);
    return size > 0 ? sqrt(miss / size) : sqrt(miss);
}

/* 16 levels from the smallest to the largest of 32 weights, exact scales: what must be beaten. */
static double range_error(const matrix *m) {
    double miss = 0, size = 0;
    for (int64_t start = 0; start < m->rows * m->cols; start += SL_GROUP_COLS) {
        float low = m->w[start], high = low;
        for (int64_t i = start; i < start + SL_GROUP_COLS; i++) {
            low = fminf(low, m->w[i]);
            high = fmaxf(high, m->w[i]);
        }
        for (int64_t i = start; i < start + SL_GROUP_COLS; i++) {
            const float step = (high - low) / 15, q = roundf((m->w[i] - low) / step);
            const double off = (double)(low + step * q - m->w[i]);
            miss += off * off;
            size += (double)m->w[i] * m->w[i];
        }
    }
    return sqrt(miss / size);
}

static void errors_are_small(void **state) {
    (void)state;
    matrix m = matrix_noise(64, 512, 0.05f);
    assert_true(relative_error(SL_DTYPE_q8, &m) < 0.0055);
    assert_true(relative_error(SL_DTYPE_q6_k, &m) < 0.0165);
    const double q4 = relative_error(SL_DTYPE_q4, &m);
    assert_true(q4 < 0.072);
    assert_true(q4 < 0.96 * range_error(&m));
    free(m.w);
}

static void odd_sizes_work(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {1, 32}, {17, 33}, {15, 300}, {33, 31}, {16, 257}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        matrix m = matrix_noise(sizes[i][0], sizes[i][1], 1);
        assert_true(relative_error(SL_DTYPE_q4, &m) < 0.08);
        assert_true(relative_error(SL_DTYPE_q8, &m) < 0.006);
        assert_true(relative_error(SL_DTYPE_q6_k, &m) < 0.018);
        free(m.w);
    }
}

static void zero_is_exact(void **state) {
    (void)state;
    matrix m = matrix_noise(17, 40, 0);
    for (int d = SL_DTYPE_q4; d <= SL_DTYPE_q8; d++) {
        uint64_t bytes;
        uint8_t *codes = quantised((sl_dtype)d, &m, &bytes);
        for (uint64_t i = 0; i < bytes; i++) assert_int_equal(codes[i], 0);
        free(codes);
    }
    free(m.w);
}

/* Groups on one side of zero: the minimum cannot be negative, the error must stay that of a range
 * that includes zero. */
static void one_sided_groups_work(void **state) {
    (void)state;
    matrix m = matrix_noise(16, 64, 0.1f);
    for (int side = -1; side <= 1; side += 2) {
        for (int64_t i = 0; i < m.rows * m.cols; i++) m.w[i] = (float)side * (1 + fabsf(m.w[i]));
        assert_true(relative_error(SL_DTYPE_q4, &m) < 0.03);
        assert_true(relative_error(SL_DTYPE_q8, &m) < 0.006);
        assert_true(relative_error(SL_DTYPE_q6_k, &m) < 0.018);
    }
    free(m.w);
}

/* Weights that the format can hold exactly come back exactly, up to rounding. */
static void representable_weights_survive(void **state) {
    (void)state;
    matrix m = {16, 64, calloc(1024, sizeof(float))};
    for (int64_t r = 0; r < 16; r++)
        for (int64_t c = 0; c < 64; c++)
            m.w[r * 64 + c] = 0.25f * (float)(c * 7 % 16) - 0.5f * (float)(r % 4);
    assert_true(relative_error(SL_DTYPE_q4, &m) < 0.004);
    free(m.w);
}

static void tiny_and_large_weights_stay_finite(void **state) {
    (void)state;
    static const float sizes[] = {1e-42f, 1e-38f, 1e-30f, 1e-7f, 1000.0f, 500000.0f};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        matrix m = matrix_noise(16, 64, sizes[i]);
        const double q4 = relative_error(SL_DTYPE_q4, &m), q8 = relative_error(SL_DTYPE_q8, &m);
        assert_true(q4 <= 1.0001 && q8 <= 1.0001);
        if (sizes[i] > 1e-20f) assert_true(q4 < 0.08);
        if (sizes[i] > 1) assert_true(relative_error(SL_DTYPE_q6_k, &m) < 0.018);
        assert_true(relative_error(SL_DTYPE_q6_k, &m) <= 1.0001);
        free(m.w);
    }
}

/* One outlier must not spoil the groups that share its header. */
static void outliers_stay_in_their_group(void **state) {
    (void)state;
    matrix m = matrix_noise(16, 256, 0.05f);
    m.w[5] = 1;
    uint64_t bytes;
    uint8_t *codes = quantised(SL_DTYPE_q4, &m, &bytes);
    float row[256];
    double miss = 0, size = 0;
    for (int64_t r = 1; r < 16; r++) {
        sl_decode_row(SL_DTYPE_q4, codes, 16, 256, r, row);
        for (int64_t c = 0; c < 256; c++) {
            miss += pow((double)(row[c] - m.w[r * 256 + c]), 2);
            size += pow((double)m.w[r * 256 + c], 2);
        }
    }
    assert_true(sqrt(miss / size) < 0.08);
    free(codes);
    free(m.w);
}

/* Blocks of whole panels can be coded apart, in any order. */
static void panels_are_independent(void **state) {
    (void)state;
    matrix m = matrix_noise(48, 288, 0.3f), last = {16, 288, m.w + (m.rows - 16) * m.cols};
    static const sl_dtype types[] = {SL_DTYPE_q4, SL_DTYPE_q6_k, SL_DTYPE_q8};
    for (int i = 0; i < 3; i++) {
        const sl_dtype d = types[i];
        uint64_t bytes, last_bytes;
        uint8_t *codes = quantised(d, &m, &bytes);
        uint8_t *again = quantised(d, &m, &bytes);
        uint8_t *alone = quantised(d, &last, &last_bytes);
        assert_memory_equal(codes, again, bytes);
        const uint64_t panel = sl_panel_layout_of(d, 48, 288).panel_bytes;
        assert_memory_equal(codes + bytes - panel, alone + last_bytes - panel, panel);
        free(codes);
        free(again);
        free(alone);
    }
    free(m.w);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p21f};
    uint8_t out[8192];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        matrix m = matrix_noise(2, 40, 1);
        m.w[43] = bad[i];
        sl_error error;
        assert_int_equal(sl_quantise(SL_DTYPE_q4, m.w, 2, 40, out, &error), SL_FORMAT);
        assert_non_null(strstr(error.message, "row 1 column 3"));
        assert_int_equal(sl_quantise(SL_DTYPE_bf16, m.w, 2, 40, out, &error), SL_INVALID);
        assert_non_null(strstr(error.message, "bf16"));
        assert_int_equal(sl_quantise(SL_DTYPE_q4_k, m.w, 2, 40, out, &error), SL_INVALID);
        assert_string_equal(
            error.message, "cannot quantise to q4_k, which only files hold, wanted q4, q6_k or q8");
        assert_int_equal(sl_quantise(SL_DTYPE_q8, m.w, 0, 40, out, &error), SL_INVALID);
        free(m.w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(odd_sizes_work),
        cmocka_unit_test(zero_is_exact),
        cmocka_unit_test(one_sided_groups_work),
        cmocka_unit_test(representable_weights_survive),
        cmocka_unit_test(tiny_and_large_weights_stay_finite),
        cmocka_unit_test(outliers_stay_in_their_group),
        cmocka_unit_test(panels_are_independent),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
