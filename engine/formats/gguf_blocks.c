/* gguf_blocks.c - What each type of GGUF has to say of a group: its codes, and its parameters as
 * the panels hold them. */
#include "engine/formats/gguf_blocks.h"

static uint16_t half_at(const uint8_t *b) {
    return (uint16_t)(b[0] | b[1] << 8);
}
static void put_halves(uint16_t value, sl_group_row *out) {
    memcpy(out->params, &value, sizeof value);
}
static void put_floats(float first, float second, sl_group_row *out) {
    const float both[2] = {first, second};
    memcpy(out->params, both, sizeof both);
}

/* ---- 4-bit codes of 32 columns: the first half in the low nibbles ---- */

static void low_codes(const uint8_t *from, uint8_t *codes) {
    for (int i = 0; i < 16; i++) {
        codes[i] = from[i] & 15;
        codes[16 + i] = from[i] >> 4;
    }
}

static void group_q4_1(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    low_codes(b + 4, out->codes);
    put_floats(sl_f32_from_f16(half_at(b)), sl_f32_from_f16(half_at(b + 2)), out);
}
static void group_q5_1(const uint8_t *b, int64_t part, sl_group_row *out) {
    group_q4_1(b, part, out);
    low_codes(b + 8, out->codes);
    for (int i = 0; i < 32; i++)
        out->codes[i] = (uint8_t)(out->codes[i] | (b[4 + i / 8] >> i % 8 & 1) << 4);
}
static void group_iq4_nl(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    low_codes(b + 2, out->codes);
    put_halves(half_at(b), out);
}

/* Half of the block's power of two, which is 2^(e - 127), in bf16: subnormal where e is 0. */
static void group_mxfp4(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    low_codes(b + 1, out->codes);
    put_halves((uint16_t)(b[0] < 2 ? 0x20 << b[0] : (b[0] - 1) << 7), out);
}

/* 16 columns have 8 bytes; 0x7f stands for nothing. */
static void group_nvfp4(const uint8_t *b, int64_t part, sl_group_row *out) {
    for (int64_t i = 0; i < 32; i++) {
        const uint8_t byte = b[4 + 16 * part + i / 16 * 8 + i % 8];
        out->codes[i] = i % 16 < 8 ? byte & 15 : byte >> 4;
    }
    for (int i = 0; i < 2; i++) {
        const uint8_t scale = b[2 * part + i] & 0x7f;
        out->params[i] = scale == 0x7f ? 0 : scale;
    }
}

static void group_iq4_xs(const uint8_t *b, int64_t part, sl_group_row *out) {
    const int low = b[4 + part / 2] >> 4 * (part & 1) & 15, high = half_at(b + 2) >> 2 * part & 3;
    low_codes(b + 8 + 16 * part, out->codes);
    out->params[0] = (uint8_t)((low | high << 4) - 32);
}

/* ---- 8-bit codes ---- */

static void group_q8_1(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    memcpy(out->codes, b + 4, sizeof out->codes);
    put_halves(half_at(b), out);
}

/* ---- of 256 columns ---- */

/* Pairs of bits: four groups of 32 columns in 32 bytes. */
static void pair_codes(const uint8_t *from, int64_t part, uint8_t *codes) {
    for (int i = 0; i < 32; i++) codes[i] = from[32 * (part / 4) + i] >> 2 * (part % 4) & 3;
}

static void group_q2_k(const uint8_t *b, int64_t part, sl_group_row *out) {
    pair_codes(b + 16, part, out->codes);
    memcpy(out->params, b + 2 * part, 2);
}
static void super_q2_k(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b + 80);
    out[1] = half_at(b + 82);
}

static void group_q3_k(const uint8_t *b, int64_t part, sl_group_row *out) {
    const uint8_t *s = b + 96;
    pair_codes(b + 32, part, out->codes);
    for (int i = 0; i < 32; i++) out->codes[i] = (uint8_t)(out->codes[i] | (b[i] >> part & 1) << 2);
    for (int64_t i = 0; i < 2; i++) {
        const int64_t j = 2 * part + i;
        const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4, high = s[8 + j % 4] >> 2 * (j / 4) & 3;
        out->params[i] = (uint8_t)((low | high << 4) - 32);
    }
}
static void super_q3_k(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b + 108);
}

static void group_q5_k(const uint8_t *b, int64_t part, sl_group_row *out) {
    const uint8_t *s = b + 4, *low = b + 48 + 32 * (part / 2), *high = b + 16;
    for (int i = 0; i < 32; i++)
        out->codes[i] = (uint8_t)((low[i] >> 4 * (part & 1) & 15) | (high[i] >> part & 1) << 4);
    if (part < 4) {
        out->params[0] = s[part] & 63;
        out->params[1] = s[part + 4] & 63;
        return;
    }
    out->params[0] = (uint8_t)((s[part + 4] & 15) | (s[part - 4] >> 6) << 4);
    out->params[1] = (uint8_t)(s[part + 4] >> 4 | (s[part] >> 6) << 4);
}
static void super_first(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b);
}
static void super_q5_k(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b);
    out[1] = half_at(b + 2);
}

/* ---- -1, 0 and 1, as 4-bit codes around 8 ---- */

static void group_tq2_0(const uint8_t *b, int64_t part, sl_group_row *out) {
    pair_codes(b, part, out->codes);
    for (int i = 0; i < 32; i++) out->codes[i] = (uint8_t)(out->codes[i] + 7);
    put_halves(half_at(b + 64), out);
}

/* A byte holds five digits of base 3, as a fraction of 256; the last four bytes hold four.  160
 * columns are in 32 bytes, 80 in 16, and 16 in 4: a digit of each byte after another. */
static void group_tq1_0(const uint8_t *b, int64_t part, sl_group_row *out) {
    static const uint8_t powers[8] = {1, 3, 9, 27, 81};
    for (int64_t i = 0; i < 32; i++) {
        const int64_t e = 32 * part + i, second = e - 160, third = e - 240;
        const int64_t byte = second < 0 ? e % 32 : third < 0 ? 32 + second % 16 : 48 + third % 4;
        const int64_t digit = second < 0 ? e / 32 : third < 0 ? second / 16 : third / 4;
        const uint8_t rest = (uint8_t)(b[byte] * powers[digit & 7]);
        out->codes[i] = (uint8_t)((rest * 3 >> 8) + 7);
    }
    put_halves(half_at(b + 52), out);
}

/* ---- the table ---- */

typedef struct {
    sl_dtype dtype;
    int64_t cols, bytes; /* of a block */
    void (*group)(const uint8_t *block, int64_t part, sl_group_row *out);
    void (*super)(const uint8_t *block, uint16_t out[2]);
} block_kind;

static const block_kind kinds[] = {
    [SL_GGUF_Q4_1] = {SL_DTYPE_q4_f, 32, 20, group_q4_1, NULL},
    [SL_GGUF_Q5_1] = {SL_DTYPE_q8_f, 32, 24, group_q5_1, NULL},
    [SL_GGUF_Q8_1] = {SL_DTYPE_q8, 32, 36, group_q8_1, NULL},
    [SL_GGUF_Q2_K] = {SL_DTYPE_q2_k, 256, 84, group_q2_k, super_q2_k},
    [SL_GGUF_Q3_K] = {SL_DTYPE_q3_k, 256, 110, group_q3_k, super_q3_k},
    [SL_GGUF_Q5_K] = {SL_DTYPE_q5_k, 256, 176, group_q5_k, super_q5_k},
    [SL_GGUF_IQ4_NL] = {SL_DTYPE_iq4_nl, 32, 18, group_iq4_nl, NULL},
    [SL_GGUF_IQ4_XS] = {SL_DTYPE_iq4_xs, 256, 136, group_iq4_xs, super_first},
    [SL_GGUF_MXFP4] = {SL_DTYPE_mxfp4, 32, 17, group_mxfp4, NULL},
    [SL_GGUF_NVFP4] = {SL_DTYPE_nvfp4, 64, 36, group_nvfp4, NULL},
    [SL_GGUF_TQ1_0] = {SL_DTYPE_q4_0, 256, 54, group_tq1_0, NULL},
    [SL_GGUF_TQ2_0] = {SL_DTYPE_q4_0, 256, 66, group_tq2_0, NULL},
};

sl_dtype sl_gguf_block_dtype(sl_gguf_block kind) {
    return kinds[kind].dtype;
}

static const uint8_t *block_at(const sl_gguf_matrix *m, int64_t row, int64_t index) {
    const block_kind *k = &kinds[m->kind];
    return (const uint8_t *)m->data + (row * (m->cols / k->cols) + index) * k->bytes;
}
static void read_group(const void *from, int64_t row, int64_t group, sl_group_row *out) {
    const sl_gguf_matrix *m = from;
    const block_kind *k = &kinds[m->kind];
    const int64_t parts = k->cols / SL_GROUP_COLS;
    k->group(block_at(m, row, group / parts), group % parts, out);
}
static void read_super(const void *from, int64_t row, int64_t super, uint16_t out[2]) {
    const sl_gguf_matrix *m = from;
    kinds[m->kind].super(block_at(m, row, super), out);
}

void sl_gguf_repack(const sl_gguf_matrix *matrix, void *out) {
    const sl_group_source s = {.dtype = kinds[matrix->kind].dtype,
                               .rows = matrix->rows,
                               .cols = matrix->cols,
                               .from = matrix,
                               .group = read_group,
                               .super = read_super,
                               .scale = matrix->scale};
    sl_groups_repack_all(&s, out);
}

void sl_gguf_decode_q8_k(const void *data, int64_t rows, int64_t cols, float *out) {
    enum { COLS = 256, BYTES = 292 };
    const uint8_t *b = data;
    for (int64_t i = 0; i < rows * (cols / COLS); i++, b += BYTES, out += COLS) {
        float d;
        memcpy(&d, b, sizeof d);
        for (int e = 0; e < COLS; e++) out[e] = d * (float)(int8_t)b[4 + e];
    }
}
