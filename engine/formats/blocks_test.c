/* blocks_test.c - Every GGUF type and every MLX mode, decoded from panels: bit-identical to the
 * format's definition on random blocks, and to the results of the gguf package and of mlx in
 * tests/data/blocks (tools/make_block_vectors.py, tools/make_mlx_vectors.py). */
#include "engine/formats/gguf.h"
#include "engine/formats/gguf_blocks.h"
#include "engine/formats/mlx_blocks.h"
#include "engine/formats/source.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t seed = 0x853c49e6748fea9b;
static uint8_t random_byte(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(seed >> 56);
}
/* An f16 of ordinary size; a random exponent would often give infinity. */
static void random_half(uint8_t *at) {
    at[0] = random_byte();
    at[1] = (uint8_t)(random_byte() % 16 + (random_byte() % 2 ? 0x2c : 0xac));
}

/* ---- one weight of a block, by the definition of GGUF ---- */

static float half_of(const uint8_t *b) {
    return sl_f32_from_f16((uint16_t)(b[0] | b[1] << 8));
}
static int nibble(const uint8_t *b, int e) {
    return e < 16 ? b[e] & 15 : b[e - 16] >> 4;
}
static float weight_q4_0(const uint8_t *b, int e) {
    return (float)(nibble(b + 2, e) - 8) * half_of(b);
}
static float weight_q4_1(const uint8_t *b, int e) {
    return (float)nibble(b + 4, e) * half_of(b) + half_of(b + 2);
}
static float weight_q5_0(const uint8_t *b, int e) {
    return (float)((nibble(b + 6, e) | (b[2 + e / 8] >> e % 8 & 1) << 4) - 16) * half_of(b);
}
static float weight_q5_1(const uint8_t *b, int e) {
    const int q = nibble(b + 8, e) | (b[4 + e / 8] >> e % 8 & 1) << 4;
    return (float)q * half_of(b) + half_of(b + 2);
}
static float weight_q8_0(const uint8_t *b, int e) {
    return (float)(int8_t)b[2 + e] * half_of(b);
}
static float weight_q8_1(const uint8_t *b, int e) {
    return (float)(int8_t)b[4 + e] * half_of(b);
}
static float weight_q2_k(const uint8_t *b, int e) {
    const int q = b[16 + 32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3;
    const float scale = half_of(b + 80) * (float)(b[e / 16] & 15);
    return scale * (float)q - half_of(b + 82) * (float)(b[e / 16] >> 4);
}
static float weight_q3_k(const uint8_t *b, int e) {
    const uint8_t *s = b + 96;
    const int q = b[32 + 32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3, j = e / 16;
    const int scale = (j < 8 ? s[j] & 15 : s[j - 8] >> 4) | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4;
    const int high = b[e % 32] >> e / 32 & 1;
    return half_of(b + 108) * (float)(scale - 32) * (float)(q - (high ? 0 : 4));
}
static float of_k(const uint8_t *b, int e, int q) {
    const uint8_t *s = b + 4;
    const int j = e / 32;
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    return half_of(b) * (float)scale * (float)q - half_of(b + 2) * (float)minimum;
}
static float weight_q4_k(const uint8_t *b, int e) {
    return of_k(b, e, b[16 + 32 * (e / 64) + e % 32] >> 4 * (e / 32 & 1) & 15);
}
static float weight_q5_k(const uint8_t *b, int e) {
    const int low = b[48 + 32 * (e / 64) + e % 32] >> 4 * (e / 32 & 1) & 15;
    return of_k(b, e, low + 16 * (b[16 + e % 32] >> e / 32 & 1));
}
static float weight_q6_k(const uint8_t *b, int e) {
    const int n = e / 128, g = e % 128 / 32, l = e % 32;
    const int low = b[64 * n + l + 32 * (g & 1)] >> 4 * (g >> 1) & 15;
    const int high = b[128 + 32 * n + l] >> 2 * g & 3;
    return half_of(b + 208) * (float)(int8_t)b[192 + e / 16] * (float)((low | high << 4) - 32);
}
static float weight_q8_k(const uint8_t *b, int e) {
    float d;
    memcpy(&d, b, sizeof d);
    const int8_t code = (int8_t)b[4 + e];
    return d * (float)code;
}
static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};
static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static float weight_iq4_nl(const uint8_t *b, int e) {
    return half_of(b) * (float)iq4[nibble(b + 2, e)];
}
static float weight_iq4_xs(const uint8_t *b, int e) {
    const int i = e / 32, high = b[2] | b[3] << 8;
    const int scale = (b[4 + i / 2] >> 4 * (i & 1) & 15) | (high >> 2 * i & 3) << 4;
    return half_of(b) * (float)(scale - 32) * (float)iq4[nibble(b + 8 + 16 * i, e % 32)];
}
static float weight_mxfp4(const uint8_t *b, int e) {
    return (float)fp4[nibble(b + 1, e)] * ldexpf(1, b[0] - 128);
}
static float weight_nvfp4(const uint8_t *b, int e) {
    const int s = e / 16, r = e % 16, byte = b[4 + 8 * s + r % 8], x = b[s];
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    float u =
        exponent ? ldexpf(1 + (float)mantissa / 8, exponent - 7) : ldexpf((float)mantissa, -9);
    if ((x & 0x7f) == 0x7f) u = 0;
    return (float)fp4[r < 8 ? byte & 15 : byte >> 4] * 0.5f * u;
}
static float weight_tq2_0(const uint8_t *b, int e) {
    return (float)((b[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3) - 1) * half_of(b + 64);
}
static float weight_tq1_0(const uint8_t *b, int e) {
    static const int powers[] = {1, 3, 9, 27, 81};
    const int byte = e < 160 ? e % 32 : e < 240 ? 32 + (e - 160) % 16 : 48 + (e - 240) % 4;
    const int digit = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4;
    const int rest = b[byte] * powers[digit] % 256;
    return (float)(rest * 3 / 256 - 1) * half_of(b + 52);
}

typedef struct {
    uint32_t id;
    const char *name;
    float (*weight)(const uint8_t *block, int e);
    int halves[2]; /* offsets of the f16 values; -1: none */
} gguf_rule;
static const gguf_rule rules[] = {
    {2, "Q4_0", weight_q4_0, {0, -1}},      {3, "Q4_1", weight_q4_1, {0, 2}},
    {6, "Q5_0", weight_q5_0, {0, -1}},      {7, "Q5_1", weight_q5_1, {0, 2}},
    {8, "Q8_0", weight_q8_0, {0, -1}},      {9, "Q8_1", weight_q8_1, {0, 2}},
    {10, "Q2_K", weight_q2_k, {80, 82}},    {11, "Q3_K", weight_q3_k, {108, -1}},
    {12, "Q4_K", weight_q4_k, {0, 2}},      {13, "Q5_K", weight_q5_k, {0, 2}},
    {14, "Q6_K", weight_q6_k, {208, -1}},   {15, "Q8_K", weight_q8_k, {-1, -1}},
    {20, "IQ4_NL", weight_iq4_nl, {0, -1}}, {23, "IQ4_XS", weight_iq4_xs, {0, -1}},
    {34, "TQ1_0", weight_tq1_0, {52, -1}},  {35, "TQ2_0", weight_tq2_0, {64, -1}},
    {39, "MXFP4", weight_mxfp4, {-1, -1}},  {40, "NVFP4", weight_nvfp4, {-1, -1}},
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* ---- comparing ---- */

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static void assert_same(const char *what, int64_t row, int64_t column, float got, float want) {
    if (bits_of(got) != bits_of(want) && !(got == 0 && want == 0) && !(isnan(got) && isnan(want)))
        fail_msg("%s: row %lld, column %lld is %.9g, wanted %.9g", what, (long long)row,
                 (long long)column, (double)got, (double)want);
}

/* A GGUF matrix converted to panels (or floats).  Every byte is written. */
static uint8_t *converted(const sl_gguf_type *type, const uint8_t *raw, int64_t rows,
                          int64_t cols) {
    const sl_type made = sl_type_make(type->dtype, 2, rows, cols);
    const uint64_t bytes = sl_type_bytes(&made);
    uint8_t *out = NULL, *again = NULL;
    assert_int_equal(posix_memalign((void **)&out, 64, bytes), 0);
    assert_int_equal(posix_memalign((void **)&again, 64, bytes), 0);
    memset(out, 0xa5, bytes);
    memset(again, 0x5a, bytes);
    const sl_raw_matrix matrix = {type->form, {raw}, rows, cols};
    type->form->convert(&matrix, out);
    type->form->convert(&matrix, again);
    assert_memory_equal(out, again, bytes);
    free(again);
    return out;
}

static void test_gguf_types_follow_their_rules(void **state) {
    static const int64_t sizes[][2] = {{1, 256}, {16, 512}, {37, 768}};
    (void)state;
    for (int t = 0; t < RULES; t++)
        for (int i = 0; i < 3; i++) {
            const gguf_rule *rule = &rules[t];
            const int64_t rows = sizes[i][0], cols = sizes[i][1];
            const sl_gguf_type *type = sl_gguf_type_find(rule->id);
            assert_string_equal(type->name, rule->name);
            const int64_t blocks = rows * cols / type->elements;
            uint8_t *raw = malloc((size_t)blocks * type->bytes);
            float *row = malloc((size_t)cols * sizeof *row);
            assert_true(raw && row);
            for (int64_t b = 0; b < blocks; b++) {
                uint8_t *block = raw + (size_t)b * type->bytes;
                for (size_t k = 0; k < type->bytes; k++) block[k] = random_byte();
                for (int h = 0; h < 2; h++)
                    if (rule->halves[h] >= 0) random_half(block + rule->halves[h]);
            }
            uint8_t *panels = converted(type, raw, rows, cols);
            for (int64_t r = 0; r < rows; r++) {
                sl_decode_row(type->dtype, panels, rows, cols, r, row);
                for (int64_t c = 0; c < cols; c++) {
                    const int64_t block = (r * cols + c) / type->elements;
                    assert_same(
                        rule->name, r, c, row[c],
                        rule->weight(raw + (size_t)block * type->bytes, (int)(c % type->elements)));
                }
            }
            free(raw), free(row), free(panels);
        }
}

/* ---- vectors ---- */

typedef struct {
    uint8_t *data;
    size_t bytes, at;
} vectors;

static vectors vectors_read(const char *path) {
    vectors v = {0};
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: cannot be opened", path);
    v.data = malloc(1 << 20);
    assert_non_null(v.data);
    v.bytes = fread(v.data, 1, 1 << 20, file);
    (void)fclose(file);
    assert_true(v.bytes > 1000);
    return v;
}
/* The next bytes of the file. */
static const void *take(vectors *v, size_t bytes) {
    assert_true(bytes <= v->bytes - v->at);
    const void *from = v->data + v->at;
    v->at += bytes;
    return from;
}
static uint32_t take_u32(vectors *v) {
    uint32_t value;
    memcpy(&value, take(v, sizeof value), sizeof value);
    return value;
}

static void test_gguf_package_agrees(void **state) {
    (void)state;
    vectors v = vectors_read("tests/data/blocks/gguf.bin");
    int count = 0;
    for (; v.at < v.bytes; count++) {
        const char *name = take(&v, 16);
        const uint32_t rows = take_u32(&v), cols = take_u32(&v), row_bytes = take_u32(&v);
        const uint8_t *raw = take(&v, (size_t)rows * row_bytes);
        const sl_gguf_type *type = NULL;
        for (int t = 0; t < RULES; t++)
            if (strcmp(rules[t].name, name) == 0) type = sl_gguf_type_find(rules[t].id);
        assert_non_null(type);
        uint8_t *panels = converted(type, raw, rows, cols);
        float *row = malloc(cols * sizeof *row);
        assert_non_null(row);
        for (uint32_t r = 0; r < rows; r++) {
            sl_decode_row(type->dtype, panels, rows, cols, r, row);
            for (uint32_t c = 0; c < cols; c++) {
                float want;
                memcpy(&want, take(&v, sizeof want), sizeof want);
                assert_same(name, r, c, row[c], want);
            }
        }
        free(row), free(panels);
    }
    assert_int_equal(count, 16);
    free(v.data);
}

static sl_dtype dtype_named(const char *name) {
    for (int i = 0; i < SL_DTYPE_COUNT; i++)
        if (strcmp(sl_dtype_infos[i].name, name) == 0) return (sl_dtype)i;
    fail_msg("no type %s", name);
    return SL_DTYPE_f32;
}

static void test_mlx_agrees(void **state) {
    (void)state;
    vectors v = vectors_read("tests/data/blocks/mlx.bin");
    int count = 0;
    for (; v.at < v.bytes; count++) {
        sl_mlx_matrix m = {0};
        sl_error err = {0};
        sl_dtype dtype;
        const char *mode = take(&v, 8), *scales = take(&v, 8);
        assert_true(sl_mlx_mode_find(mode, &m.format.mode));
        m.format.scales = dtype_named(scales);
        m.format.bits = take_u32(&v), m.format.group = take_u32(&v);
        m.rows = take_u32(&v), m.cols = take_u32(&v);
        const uint32_t bytes[3] = {take_u32(&v), take_u32(&v), take_u32(&v)};
        assert_int_equal(bytes[0], (uint64_t)m.rows * sl_mlx_code_bytes(&m.format, m.cols));
        assert_int_equal(bytes[1], (uint64_t)m.rows * sl_mlx_scale_bytes(&m.format, m.cols));
        m.codes = take(&v, bytes[0]);
        m.scales = take(&v, bytes[1]);
        m.biases = bytes[2] ? take(&v, bytes[2]) : NULL;
        if (sl_mlx_check(&m, mode, &dtype, &err)) fail_msg("%s", err.message);
        const sl_type made = sl_type_make(dtype, 2, m.rows, m.cols);
        void *panels = NULL;
        assert_int_equal(posix_memalign(&panels, 64, sl_type_bytes(&made)), 0);
        memset(panels, 0xa5, sl_type_bytes(&made));
        sl_mlx_repack(&m, panels);
        float *row = malloc((size_t)m.cols * sizeof *row);
        assert_non_null(row);
        for (int64_t r = 0; r < m.rows; r++) {
            sl_decode_row(dtype, panels, m.rows, m.cols, r, row);
            for (int64_t c = 0; c < m.cols; c++) {
                float want;
                memcpy(&want, take(&v, sizeof want), sizeof want);
                /* With f32 scales the product is rounded; mlx may have contracted it with the sum
                 * (FMA). */
                if (m.format.scales == SL_DTYPE_f32 && fabsf(row[c] - want) <= 3e-8f) continue;
                assert_same(mode, r, c, row[c], want);
            }
        }
        free(row), free(panels);
    }
    assert_int_equal(count, 6 * 3 * 3 + 3);
    free(v.data);
}

/* ---- blocks of 8-bit floats ---- */

static float e4m3(uint8_t x) {
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    const float value =
        exponent ? ldexpf(1 + (float)mantissa / 8, exponent - 7) : ldexpf((float)mantissa, -9);
    return x & 0x80 ? -value : value;
}

static void test_fp8_blocks(void **state) {
    enum { ROWS = 150, COLS = 328, BLOCK_ROWS = 2, BLOCK_COLS = 3 };
    static uint8_t codes[ROWS * COLS];
    static float row[COLS];
    float scales[BLOCK_ROWS * BLOCK_COLS];
    sl_error err = {0};
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++) {
        codes[i] = random_byte();
        if ((codes[i] & 0x7f) == 0x7f) codes[i] = 0;
    }
    codes[17 * COLS + 40] = 0x7f;
    for (int i = 0; i < BLOCK_ROWS * BLOCK_COLS; i++)
        scales[i] = 0.001f * (float)(1 + random_byte());
    const sl_fp8_matrix m = {ROWS, COLS, 128, 128, {0, 1}, codes, scales, SL_DTYPE_f32};
    if (sl_fp8_check(&m, "x", &err)) fail_msg("%s", err.message);
    const sl_type made = sl_type_make(SL_DTYPE_f8, 2, (int64_t)ROWS, (int64_t)COLS);
    void *panels = NULL;
    assert_int_equal(posix_memalign(&panels, 64, sl_type_bytes(&made)), 0);
    memset(panels, 0xa5, sl_type_bytes(&made));
    sl_fp8_repack(&m, panels);
    for (int r = 0; r < ROWS; r++) {
        sl_decode_row(SL_DTYPE_f8, panels, ROWS, COLS, r, row);
        for (int c = 0; c < COLS; c++) {
            const float scale = scales[r / 128 * BLOCK_COLS + c / 128];
            const bool none = r == 17 && c / 32 == 40 / 32;
            assert_same("f8", r, c, row[c], none ? NAN : scale * e4m3(codes[r * COLS + c]));
        }
    }
    free(panels);
}

/* ---- invalid formats ---- */

static void test_bad_formats_are_refused(void **state) {
    static const struct {
        sl_mlx_matrix matrix;
        const char *message;
    } cases[] = {
        {{.format = {SL_MLX_AFFINE, 7, 64, SL_DTYPE_bf16}, .rows = 2, .cols = 128},
         "x: affine with 7 bits, wanted 2, 3, 4, 5, 6 or 8"},
        {{.format = {SL_MLX_AFFINE, 4, 48, SL_DTYPE_bf16}, .rows = 2, .cols = 96},
         "x: affine in groups of 48, wanted 32, 64 or 128"},
        {{.format = {SL_MLX_AFFINE, 4, 64, SL_DTYPE_u8}, .rows = 2, .cols = 128},
         "x: affine with scales of u8, wanted f32, f16 or bf16"},
        {{.format = {SL_MLX_AFFINE, 4, 64, SL_DTYPE_bf16}, .rows = 2, .cols = 96},
         "x: 96 columns, wanted whole groups of 64"},
        {{.format = {SL_MLX_NVFP4, 4, 32, SL_DTYPE_u8}, .rows = 2, .cols = 96},
         "x: nvfp4 with 4 bits in groups of 32, wanted 4 in 16"},
        {{.format = {SL_MLX_MXFP4, 4, 32, SL_DTYPE_f16}, .rows = 2, .cols = 96},
         "x: mxfp4 with scales of f16, wanted u8"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_error err = {0};
        sl_dtype dtype;
        assert_int_not_equal(sl_mlx_check(&cases[i].matrix, "x", &dtype, &err), SL_OK);
        assert_string_equal(err.message, cases[i].message);
    }
    sl_mlx_mode mode;
    assert_false(sl_mlx_mode_find("int4", &mode));
    const sl_fp8_matrix odd = {4, 200, 128, 100, {0, 1}, NULL, NULL, SL_DTYPE_f32};
    sl_error err = {0};
    assert_int_equal(sl_fp8_check(&odd, "x", &err), SL_UNSUPPORTED);
    assert_string_equal(err.message,
                        "x: fp8 scales for blocks of 128 x 100, wanted columns in multiples of 32");
}

/* ---- whole files ---- */

static void write_tensor(const sl_gguf_tensor *t, const uint8_t *file, FILE *out) {
    const sl_gguf_type *type = t->type;
    const int64_t cols = t->shape.dims[t->shape.rank - 1];
    const int64_t rows = (int64_t)(t->bytes / type->bytes) * type->elements / cols;
    const uint32_t length = (uint32_t)strlen(t->name);
    const uint64_t count = (uint64_t)(rows * cols);
    const uint8_t *raw = file + t->offset;
    uint8_t *made = type->form ? converted(type, raw, rows, cols) : NULL;
    float *row = malloc((size_t)cols * sizeof *row);
    assert_non_null(row);
    (void)fwrite(&length, sizeof length, 1, out);
    (void)fwrite(t->name, 1, length, out);
    (void)fwrite(&count, sizeof count, 1, out);
    for (int64_t r = 0; r < rows; r++) {
        sl_decode_row(type->dtype, made ? made : raw, rows, cols, r, row);
        (void)fwrite(row, sizeof *row, (size_t)cols, out);
    }
    free(row), free(made);
}

static int write_tensors(const char *path, FILE *file, FILE *out) {
    sl_gguf gguf;
    sl_arena arena;
    sl_error err = {0};
    if (fseek(file, 0, SEEK_END)) return 2;
    const size_t bytes = (size_t)ftell(file);
    uint8_t *data = malloc(bytes);
    rewind(file);
    if (!data || fread(data, 1, bytes, file) != bytes) {
        free(data);
        return 2;
    }
    sl_arena_init(&arena, NULL);
    const sl_status status = sl_gguf_parse(path, data, bytes, &arena, &gguf, &err);
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    for (uint32_t i = 0; status == SL_OK && i < gguf.tensor_count; i++)
        if (gguf.tensors[i].type->known) write_tensor(&gguf.tensors[i], data, out);
    sl_arena_deinit(&arena);
    free(data);
    return status != SL_OK;
}

static int write_decoded(const char *path, const char *out_path) {
    FILE *file = fopen(path, "rb"), *out = fopen(out_path, "wb");
    int result = file && out ? write_tensors(path, file, out) : 2;
    if (file) (void)fclose(file);
    if (out && fclose(out)) result = 2;
    return result;
}

int main(int argc, char **argv) {
    if (argc == 3) return write_decoded(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_types_follow_their_rules),
        cmocka_unit_test(test_gguf_package_agrees),
        cmocka_unit_test(test_mlx_agrees),
        cmocka_unit_test(test_fp8_blocks),
        cmocka_unit_test(test_bad_formats_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
