/* repack_test.c - Panels decode to the same bits as the blocks they were made of, and the blocks
 * can be recovered from the panels. */
#include "engine/formats/repack.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const sl_dtype dtypes[] = {SL_DTYPE_q4_k, SL_DTYPE_q4_0, SL_DTYPE_q6_k, SL_DTYPE_q8,
                                  SL_DTYPE_q4_m};
enum { TYPES = sizeof dtypes / sizeof dtypes[0] };
static const int64_t sizes[][2] = {{1, 256}, {16, 512}, {37, 768}, {50, 2048}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static uint64_t seed = 0x853c49e6748fea9b;
static uint8_t random_byte(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(seed >> 56);
}
/* An f16 or bf16 of ordinary size; a random exponent would often give infinity. */
static void random_half(uint8_t *at) {
    at[0] = random_byte();
    at[1] = (uint8_t)(random_byte() % 16 + (random_byte() % 2 ? 0x2c : 0xac));
}

/* ---- one weight of a block, by the definition of the format ---- */

static float half_of(const uint8_t *b) {
    return sl_f32_from_f16((uint16_t)(b[0] | b[1] << 8));
}
static float weight_q4_k(const uint8_t *b, int e) {
    const uint8_t *s = b + 4;
    const int j = e / 32;
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    const int q = b[16 + 32 * (e / 64) + e % 32] >> 4 * (j & 1) & 15;
    const float d = half_of(b) * (float)scale, m = half_of(b + 2) * (float)minimum;
    return d * (float)q - m;
}
static float weight_q4_0(const uint8_t *b, int e) {
    return (float)((e < 16 ? b[2 + e] & 15 : b[2 + e - 16] >> 4) - 8) * half_of(b);
}
static float weight_q6_k(const uint8_t *b, int e) {
    const int n = e / 128, g = e % 128 / 32, l = e % 32;
    const int low = b[64 * n + l + 32 * (g & 1)] >> 4 * (g >> 1) & 15;
    const int high = b[128 + 32 * n + l] >> 2 * g & 3;
    return half_of(b + 208) * (float)(int8_t)b[192 + e / 16] * (float)((low | high << 4) - 32);
}
static float weight_q8_0(const uint8_t *b, int e) {
    return (float)(int8_t)b[2 + e] * half_of(b);
}
static float weight_mlx(const sl_repack_source *s, int64_t r, int64_t c) {
    uint32_t word;
    memcpy(&word, (const uint8_t *)s->data + (size_t)r * s->row_bytes + (size_t)(c / 8) * 4, 4);
    const size_t at = (size_t)r * s->scale_row_bytes + (size_t)(c / 64) * 2;
    uint16_t scale, bias;
    memcpy(&scale, (const uint8_t *)s->scales + at, 2);
    memcpy(&bias, (const uint8_t *)s->biases + at, 2);
    const int q = (int)(word >> 4 * (c % 8) & 15);
    return sl_f32_from_bf16(scale) * (float)q + sl_f32_from_bf16(bias);
}
static float weight_of(const sl_repack_source *s, int64_t r, int64_t c) {
    const uint8_t *row = (const uint8_t *)s->data + (size_t)r * s->row_bytes;
    if (s->dtype == SL_DTYPE_q4_k) return weight_q4_k(row + c / 256 * 144, (int)(c % 256));
    if (s->dtype == SL_DTYPE_q6_k) return weight_q6_k(row + c / 256 * 210, (int)(c % 256));
    if (s->dtype == SL_DTYPE_q4_0) return weight_q4_0(row + c / 32 * 18, (int)(c % 32));
    if (s->dtype == SL_DTYPE_q8) return weight_q8_0(row + c / 32 * 34, (int)(c % 32));
    return weight_mlx(s, r, c);
}

/* ---- random sources ---- */

/* Fills the 16-bit floats of a row. */
static void random_halves(const sl_repack_source *s, uint8_t *row) {
    const int64_t cols = s->cols;
    for (int64_t b = 0; b < cols / 256; b++) {
        if (s->dtype == SL_DTYPE_q4_k) random_half(row + b * 144), random_half(row + b * 144 + 2);
        if (s->dtype == SL_DTYPE_q6_k) random_half(row + b * 210 + 208);
    }
    for (int64_t b = 0; b < cols / 32; b++) {
        if (s->dtype == SL_DTYPE_q4_0) random_half(row + b * 18);
        if (s->dtype == SL_DTYPE_q8) random_half(row + b * 34);
    }
}

/* Rows are `gap` bytes apart. */
static sl_repack_source source_make(sl_dtype dtype, int64_t rows, int64_t cols, size_t gap) {
    sl_repack_source s = {.dtype = dtype, .rows = rows, .cols = cols};
    s.row_bytes = sl_repack_row_bytes(dtype, cols) + gap;
    s.scale_row_bytes = (size_t)(cols / 64) * 2 + gap;
    uint8_t *data = malloc((size_t)rows * s.row_bytes);
    uint8_t *scales = malloc((size_t)rows * s.scale_row_bytes);
    uint8_t *biases = malloc((size_t)rows * s.scale_row_bytes);
    assert_true(data && scales && biases);
    for (size_t i = 0; i < (size_t)rows * s.row_bytes; i++) data[i] = random_byte();
    for (int64_t r = 0; r < rows; r++) {
        random_halves(&s, data + (size_t)r * s.row_bytes);
        for (int64_t i = 0; i < cols / 64; i++) {
            random_half(scales + (size_t)r * s.scale_row_bytes + i * 2);
            random_half(biases + (size_t)r * s.scale_row_bytes + i * 2);
        }
    }
    s.data = data, s.scales = scales, s.biases = biases;
    return s;
}
static void source_free(sl_repack_source *s) {
    free((void *)s->data);
    free((void *)s->scales);
    free((void *)s->biases);
}

static uint64_t bytes_of(const sl_repack_source *s) {
    return sl_panel_layout_of(s->dtype, s->rows, s->cols).matrix_bytes;
}
static uint8_t *repacked(const sl_repack_source *s) {
    uint8_t *matrix = malloc(bytes_of(s));
    assert_non_null(matrix);
    memset(matrix, 0xa5, bytes_of(s));
    sl_error err = {0};
    if (sl_repack_check(s, "x", &err)) fail_msg("%s", err.message);
    sl_repack_panels(s, 0, sl_panel_layout_of(s->dtype, s->rows, s->cols).panels, matrix);
    return matrix;
}

/* ---- tests ---- */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void decodes_to_the_same_bits(void **state) {
    (void)state;
    for (int n = 0; n < TYPES * SIZES; n++) {
        sl_repack_source s = source_make(dtypes[n / SIZES], sizes[n % SIZES][0],
                                         sizes[n % SIZES][1], (size_t)(n % 3));
        uint8_t *matrix = repacked(&s);
        float *row = calloc((size_t)s.cols, sizeof *row);
        for (int64_t r = 0; r < s.rows; r++) {
            sl_decode_row(s.dtype, matrix, s.rows, s.cols, r, row);
            for (int64_t c = 0; c < s.cols; c++) {
                const float want = weight_of(&s, r, c);
                if (bits_of(want) != bits_of(row[c]))
                    fail_msg("%s [%lld,%lld]: row %lld column %lld is %.9g, wanted %.9g",
                             sl_dtype_infos[s.dtype].name, (long long)s.rows, (long long)s.cols,
                             (long long)r, (long long)c, (double)row[c], (double)want);
            }
        }
        free(row);
        free(matrix);
        source_free(&s);
    }
}

/* One nibble of the low codes of a group. */
static int nibble_at(const uint8_t *codes, int64_t lane, int64_t c) {
    return codes[c / 8 * 64 + lane * 4 + c % 4] >> (c % 8 < 4 ? 0 : 4) & 15;
}

/* One lane of one panel. */
typedef struct {
    const uint8_t *panel;
    sl_panel_layout layout;
    int64_t lane;
} parts;

static const uint8_t *super_of(const parts *p, int64_t super) {
    return p->panel + sl_super_params(&p->layout, super);
}
static const uint8_t *params_of(const parts *p, int64_t group) {
    return p->panel + sl_group_params(&p->layout, group);
}
static const uint8_t *codes_of(const parts *p, int64_t group) {
    return p->panel + sl_group_codes(&p->layout, group);
}

static void block_q4_k(const parts *p, int64_t super, uint8_t *b) {
    memcpy(b, super_of(p, super) + p->lane * 2, 2);
    memcpy(b + 2, super_of(p, super) + 32 + p->lane * 2, 2);
    for (int j = 0; j < 8; j++) {
        const uint8_t *group = params_of(p, super * 8 + j) + p->lane;
        const int scale = group[0], minimum = group[16];
        assert_true(scale < 64 && minimum < 64);
        if (j < 4) {
            b[4 + j] |= (uint8_t)scale, b[8 + j] |= (uint8_t)minimum;
        } else {
            b[8 + j] |= (uint8_t)((scale & 15) | (minimum & 15) << 4);
            b[j] |= (uint8_t)(scale >> 4 << 6), b[4 + j] |= (uint8_t)(minimum >> 4 << 6);
        }
    }
    for (int e = 0; e < 256; e++)
        b[16 + 32 * (e / 64) + e % 32] |=
            (uint8_t)(nibble_at(codes_of(p, super * 8 + e / 32), p->lane, e % 32)
                      << 4 * (e / 32 & 1));
}
static void block_q6_k(const parts *p, int64_t super, uint8_t *b) {
    memcpy(b + 208, super_of(p, super) + p->lane * 2, 2);
    for (int i = 0; i < 16; i++) b[192 + i] = params_of(p, super * 8 + i / 2)[i % 2 * 16 + p->lane];
    for (int e = 0; e < 256; e++) {
        const int n = e / 128, g = e % 128 / 32, l = e % 32;
        const uint8_t *codes = codes_of(p, super * 8 + e / 32);
        const uint8_t high = codes[256 + l / 16 * 64 + p->lane * 4 + l % 4];
        b[64 * n + l + 32 * (g & 1)] |= (uint8_t)(nibble_at(codes, p->lane, l) << 4 * (g >> 1));
        b[128 + 32 * n + l] |= (uint8_t)((high >> 2 * (l / 4 % 4) & 3) << 2 * g);
    }
}
static void block_q4_0(const parts *p, int64_t group, uint8_t *b) {
    memcpy(b, params_of(p, group) + p->lane * 2, 2);
    for (int e = 0; e < 32; e++)
        b[2 + e % 16] |= (uint8_t)(nibble_at(codes_of(p, group), p->lane, e) << (e < 16 ? 0 : 4));
}
static void block_q8_0(const parts *p, int64_t group, uint8_t *b) {
    memcpy(b, params_of(p, group) + p->lane * 2, 2);
    for (int e = 0; e < 32; e++) b[2 + e] = codes_of(p, group)[e / 4 * 64 + p->lane * 4 + e % 4];
}

static void blocks_come_back(void **state) {
    (void)state;
    static const struct {
        int64_t cols;
        size_t bytes;
        void (*make)(const parts *p, int64_t block, uint8_t *b);
    } kinds[] = {
        {256, 144, block_q4_k}, {32, 18, block_q4_0}, {256, 210, block_q6_k}, {32, 34, block_q8_0}};
    for (int n = 0; n < 4 * SIZES; n++) {
        const int k = n / SIZES;
        sl_repack_source s = source_make(dtypes[k], sizes[n % SIZES][0], sizes[n % SIZES][1], 0);
        const sl_panel_layout l = sl_panel_layout_of(s.dtype, s.rows, s.cols);
        uint8_t *matrix = repacked(&s), block[256];
        for (int64_t r = 0; r < s.rows; r++) {
            const uint8_t *panel = matrix + (uint64_t)(r / 16) * l.panel_bytes;
            const parts p = {panel, l, r % 16};
            for (int64_t b = 0; b < s.cols / kinds[k].cols; b++) {
                memset(block, 0, sizeof block);
                kinds[k].make(&p, b, block);
                assert_memory_equal(block,
                                    (const uint8_t *)s.data + (size_t)r * s.row_bytes +
                                        (size_t)b * kinds[k].bytes,
                                    kinds[k].bytes);
            }
        }
        free(matrix);
        source_free(&s);
    }
}

/* Missing rows and padding are zeros, and panels can be written separately. */
static void panels_are_independent(void **state) {
    (void)state;
    for (int k = 0; k < TYPES; k++) {
        const int64_t cols = dtypes[k] == SL_DTYPE_q4_0 || dtypes[k] == SL_DTYPE_q8 ? 96 : 256;
        sl_repack_source s = source_make(dtypes[k], 37, cols, 0);
        sl_repack_source padded = source_make(dtypes[k], 48, cols, 0);
        memset((void *)padded.data, 0, 48 * s.row_bytes);
        memcpy((void *)padded.data, s.data, 37 * s.row_bytes);
        memset((void *)padded.scales, 0, 48 * s.scale_row_bytes);
        memcpy((void *)padded.scales, s.scales, 37 * s.scale_row_bytes);
        memset((void *)padded.biases, 0, 48 * s.scale_row_bytes);
        memcpy((void *)padded.biases, s.biases, 37 * s.scale_row_bytes);
        uint8_t *whole = repacked(&s), *same = repacked(&padded), *apart = malloc(bytes_of(&s));
        assert_int_equal(bytes_of(&s), bytes_of(&padded));
        assert_memory_equal(whole, same, bytes_of(&s));
        for (int64_t p = 2; p >= 0; p--) sl_repack_panels(&s, p, 1, apart);
        assert_memory_equal(whole, apart, bytes_of(&s));
        free(whole), free(same), free(apart);
        source_free(&s), source_free(&padded);
    }
}

static void bad_sources_are_refused(void **state) {
    (void)state;
    static const struct {
        sl_repack_source source;
        sl_status status;
        const char *message;
    } cases[] = {
        {{.dtype = SL_DTYPE_q4_k, .rows = 3, .cols = 288, .row_bytes = 162},
         SL_FORMAT,
         "x: 288 columns, a multiple of 256 wanted for q4_k"},
        {{.dtype = SL_DTYPE_q6_k, .rows = 3, .cols = 32, .row_bytes = 27},
         SL_FORMAT,
         "x: 32 columns, a multiple of 256 wanted for q6_k"},
        {{.dtype = SL_DTYPE_q4_0, .rows = 3, .cols = 40, .row_bytes = 23},
         SL_FORMAT,
         "x: 40 columns, a multiple of 32 wanted for q4_0"},
        {{.dtype = SL_DTYPE_q8, .rows = 3, .cols = 33, .row_bytes = 40},
         SL_FORMAT,
         "x: 33 columns, a multiple of 32 wanted for q8"},
        {{.dtype = SL_DTYPE_q4_m, .rows = 3, .cols = 96, .row_bytes = 48},
         SL_FORMAT,
         "x: 96 columns, a multiple of 64 wanted for q4_m"},
        {{.dtype = SL_DTYPE_q4_k, .rows = 3, .cols = 512, .row_bytes = 287},
         SL_FORMAT,
         "x: rows of 287 bytes, at least 288 wanted for q4_k"},
        {{.dtype = SL_DTYPE_q4_m, .rows = 3, .cols = 128, .row_bytes = 64, .scale_row_bytes = 3},
         SL_FORMAT,
         "x: rows of 3 bytes of scales, at least 4 wanted"},
        {{.dtype = SL_DTYPE_q4, .rows = 3, .cols = 256, .row_bytes = 144},
         SL_UNSUPPORTED,
         "x: no file format has rows of q4"},
        {{.dtype = SL_DTYPE_q8, .rows = 0, .cols = 32, .row_bytes = 34},
         SL_INVALID,
         "x: dim 0 is 0, must be at least 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_error err = {0};
        assert_int_equal(sl_repack_check(&cases[i].source, "x", &err), cases[i].status);
        assert_string_equal(err.message, cases[i].message);
    }
    assert_int_equal(sl_repack_row_bytes(SL_DTYPE_q6_k, 512), 420);
    assert_int_equal(sl_repack_row_bytes(SL_DTYPE_q6_k, 500), 0);
    assert_int_equal(sl_repack_row_bytes(SL_DTYPE_bf16, 512), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_to_the_same_bits),
        cmocka_unit_test(blocks_come_back),
        cmocka_unit_test(panels_are_independent),
        cmocka_unit_test(bad_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
