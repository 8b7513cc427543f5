/* kv_test.c - Rows of a quantised cache: accuracy after a round trip, and that sums of products fit
 * in 32 bits. */
#include "core/codec.h"
#include "core/kv.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WIDEST = 259, POSITIONS = 32 };

/* Rows of very different kinds, from a single nonzero element to all equal. */
static float element(int kind, int64_t row, int64_t d) {
    const float wave = sinf((float)(row * 31 + d * 7));
    if (kind == 0) return wave;
    if (kind == 1) return d == row ? -3e30f : 0;
    if (kind == 2) return row % 2 ? 1 : -1e-20f;
    return d % 64 == 0 ? wave * 100 : wave;
}

static void rows_come_back(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 2, 37, 256, WIDEST};
    for (int i = 0; i < 5 * 4 * 2; i++) {
        const int64_t width = widths[i % 5];
        const int kind = i / 5 % 4;
        const sl_kv_shape shape = {SL_DTYPE_k16, 1, 2, POSITIONS / 2, width};
        const bool keys = i < 20;
        const sl_type type = keys ? sl_kv_keys(shape) : sl_kv_values(shape);
        void *cache = calloc(1, sl_type_bytes(&type));
        double *out = calloc((size_t)sl_type_elements(&type), sizeof *out);
        assert_non_null(cache);
        assert_non_null(out);
        assert_int_equal(sl_kv_rows(&type), POSITIONS);
        for (int64_t row = 0; row < POSITIONS; row++) {
            float x[WIDEST];
            for (int64_t d = 0; d < width; d++) x[d] = element(kind, row, d);
            sl_kv_store_row(&type, cache, row, x);
        }
        sl_decode_tensor(&type, cache, out);
        for (int64_t row = 0; row < POSITIONS; row++) {
            float x[WIDEST];
            double squares = 0, largest = 0;
            for (int64_t d = 0; d < width; d++) {
                x[d] = element(kind, row, d);
                squares += (double)x[d] * (double)x[d];
                largest = fmax(largest, fabs((double)x[d]));
            }
            const double step = keys ? sqrt(squares) / SL_K16_NORM : largest / SL_V16_TOP;
            sl_kv_round_row(type.dtype, width, x);
            for (int64_t d = 0; d < width; d++) {
                const int64_t at =
                    keys ? sl_kv_key_at(row, width) + d * SL_KV_LANES : row * width + d;
                assert_true(out[at] == (double)x[d]);
                assert_true(fabs(out[at] - (double)element(kind, row, d)) <= step * 0.51);
            }
        }
        free(cache);
        free(out);
    }
}

/* Every partial sum of products of the codes of two keys fits in 32 bits. */
static void sums_fit(void **state) {
    (void)state;
    const sl_kv_shape shape = {SL_DTYPE_k16, 1, 1, 16, WIDEST};
    const sl_type type = sl_kv_keys(shape);
    char *cache = calloc(1, sl_type_bytes(&type));
    assert_non_null(cache);
    for (int kind = 0; kind < 4; kind++) {
        for (int64_t row = 0; row < 16; row++) {
            float x[WIDEST];
            for (int64_t d = 0; d < WIDEST; d++) x[d] = element(kind, row, d);
            sl_kv_store_row(&type, cache, row, x);
        }
        const int16_t *codes = (const int16_t *)(const void *)(cache + SL_KV_SCALES_BYTES);
        for (int64_t a = 0; a < 16; a++)
            for (int64_t b = 0; b < 16; b++) {
                int64_t sum = 0, apart = 0;
                for (int64_t d = 0; d < sl_kv_pairs(WIDEST) * 2; d++) {
                    const int64_t at = d / 2 * SL_KV_LANES * 2 + d % 2;
                    const int64_t product =
                        (int64_t)codes[sl_k16_at(a) + at] * codes[sl_k16_at(b) + at];
                    sum += product;
                    apart += product < 0 ? -product : product;
                    assert_true(codes[sl_k16_at(a) + at] > INT16_MIN);
                }
                assert_true(sum <= apart && apart < INT32_MAX);
            }
    }
    free(cache);
}

static void blocks_are_whole(void **state) {
    (void)state;
    sl_error err;
    const sl_type keys = sl_type_make(SL_DTYPE_k16, 2, (int64_t)4, (int64_t)8);
    const sl_type values = sl_type_make(SL_DTYPE_v16, 2, (int64_t)24, (int64_t)4);
    assert_int_equal(sl_type_check(&keys, "x", &err), SL_INVALID);
    assert_string_equal(err.message, "x: dim 1 of k16 is 8, must be 16");
    assert_int_equal(sl_type_check(&values, "x", &err), SL_INVALID);
    assert_string_equal(err.message, "x: dim 0 of v16 is 24, must be a multiple of 16");
    const sl_kv_shape shape = {SL_DTYPE_k16, 2, 3, 33, 5};
    const sl_type both[2] = {sl_kv_keys(shape), sl_kv_values(shape)};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sl_type_check(&both[i], "x", &err), SL_OK);
        assert_int_equal(sl_type_bytes(&both[i]), 2 * 3 * 3 * (64 + 3 * 64));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(sums_fit),
        cmocka_unit_test(blocks_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
