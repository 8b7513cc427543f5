/* gguf_blocks.c - The GGUF block types: extraction of the codes and parameters of a group in the
 * form of panels, and decoding to floats. */
#include "core/gguf_blocks.h"

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
static void group_q5_0(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    low_codes(b + 6, out->codes);
    for (int i = 0; i < 32; i++)
        out->codes[i] = (uint8_t)((out->codes[i] | (b[2 + i / 8] >> i % 8 & 1) << 4) - 16);
    put_halves(half_at(b), out);
}
/* Also used for Q4_0. */
static void group_iq4_nl(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    low_codes(b + 2, out->codes);
    put_halves(half_at(b), out);
}

/* The scale is half of the block's power of two 2^(e - 127), in bf16: subnormal for small e. */
static void group_mxfp4(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    low_codes(b + 1, out->codes);
    put_halves((uint16_t)(b[0] < 2 ? 0x20 << b[0] : (b[0] - 1) << 7), out);
}

/* 16 columns are 8 bytes.  The scale 0x7f (NaN in e4m3) is read as 0. */
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

static void group_q8_0(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    memcpy(out->codes, b + 2, sizeof out->codes);
    put_halves(half_at(b), out);
}
static void group_q8_1(const uint8_t *b, int64_t part, sl_group_row *out) {
    (void)part;
    memcpy(out->codes, b + 4, sizeof out->codes);
    put_halves(half_at(b), out);
}

/* ---- blocks of 256 columns ---- */

/* 2-bit codes: 32 bytes hold four groups of 32 columns. */
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

/* Q4_K and Q5_K: a 6-bit scale and a 6-bit minimum per group. */
static void scale_and_minimum(const uint8_t *s, int64_t part, sl_group_row *out) {
    if (part < 4) {
        out->params[0] = s[part] & 63;
        out->params[1] = s[part + 4] & 63;
        return;
    }
    out->params[0] = (uint8_t)((s[part + 4] & 15) | (s[part - 4] >> 6) << 4);
    out->params[1] = (uint8_t)(s[part + 4] >> 4 | (s[part] >> 6) << 4);
}
static void group_q4_k(const uint8_t *b, int64_t part, sl_group_row *out) {
    const uint8_t *low = b + 16 + 32 * (part / 2);
    for (int i = 0; i < 32; i++) out->codes[i] = low[i] >> 4 * (part & 1) & 15;
    scale_and_minimum(b + 4, part, out);
}
static void group_q5_k(const uint8_t *b, int64_t part, sl_group_row *out) {
    const uint8_t *low = b + 48 + 32 * (part / 2), *high = b + 16;
    for (int i = 0; i < 32; i++)
        out->codes[i] = (uint8_t)((low[i] >> 4 * (part & 1) & 15) | (high[i] >> part & 1) << 4);
    scale_and_minimum(b + 4, part, out);
}
/* 128 columns have 64 bytes of low bits; the two nibbles of a byte belong to groups that are two
 * apart. */
static void group_q6_k(const uint8_t *b, int64_t part, sl_group_row *out) {
    const int64_t half = part / 4, g = part % 4;
    const uint8_t *low = b + 64 * half + 32 * (g & 1), *high = b + 128 + 32 * half;
    for (int i = 0; i < 32; i++)
        out->codes[i] = (uint8_t)((low[i] >> 4 * (g >> 1) & 15) | (high[i] >> 2 * g & 3) << 4);
    memcpy(out->params, b + 192 + 2 * part, 2);
}
static void super_q6_k(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b + 208);
}
static void super_first(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b);
}
static void super_both(const uint8_t *b, uint16_t out[2]) {
    out[0] = half_at(b);
    out[1] = half_at(b + 2);
}

/* ---- ternary codes -1, 0 and 1, stored as 4-bit codes 7, 8 and 9 ---- */

static void group_tq2_0(const uint8_t *b, int64_t part, sl_group_row *out) {
    pair_codes(b, part, out->codes);
    for (int i = 0; i < 32; i++) out->codes[i] = (uint8_t)(out->codes[i] + 7);
    put_halves(half_at(b + 64), out);
}

/* A byte holds five base-3 digits as a fraction of 256; each of the last four bytes holds four.
 * The columns are in three runs: 160 in 32 bytes, 80 in 16, and 16 in 4; within a run, the first
 * digits of all bytes come first, then the second digits, and so on. */
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

/* ---- Q8_K, which no panel type can represent ---- */

static void decode_q8_k(const uint8_t *b, float *out) {
    float d;
    memcpy(&d, b, sizeof d);
    for (int e = 0; e < 256; e++) out[e] = d * (float)(int8_t)b[4 + e];
}

/* ---- the table ---- */

const sl_gguf_layout sl_gguf_layouts[SL_GGUF_COUNT] = {
    [SL_GGUF_Q4_0] = {"q4_0", SL_DTYPE_q4_0, 32, 18, group_iq4_nl, NULL},
    [SL_GGUF_Q4_1] = {"q4_1", SL_DTYPE_q4_f, 32, 20, group_q4_1, NULL},
    [SL_GGUF_Q5_0] = {"q5_0", SL_DTYPE_q8, 32, 22, group_q5_0, NULL},
    [SL_GGUF_Q5_1] = {"q5_1", SL_DTYPE_q8_f, 32, 24, group_q5_1, NULL},
    [SL_GGUF_Q8_0] = {"q8_0", SL_DTYPE_q8, 32, 34, group_q8_0, NULL},
    [SL_GGUF_Q8_1] = {"q8_1", SL_DTYPE_q8, 32, 36, group_q8_1, NULL},
    [SL_GGUF_Q2_K] = {"q2_k", SL_DTYPE_q2_k, 256, 84, group_q2_k, super_q2_k},
    [SL_GGUF_Q3_K] = {"q3_k", SL_DTYPE_q3_k, 256, 110, group_q3_k, super_q3_k},
    [SL_GGUF_Q4_K] = {"q4_k", SL_DTYPE_q4_k, 256, 144, group_q4_k, super_both},
    [SL_GGUF_Q5_K] = {"q5_k", SL_DTYPE_q5_k, 256, 176, group_q5_k, super_both},
    [SL_GGUF_Q6_K] = {"q6_k", SL_DTYPE_q6_k, 256, 210, group_q6_k, super_q6_k},
    [SL_GGUF_Q8_K] = {"q8_k", SL_DTYPE_f32, 256, 292, NULL, NULL},
    [SL_GGUF_IQ4_NL] = {"iq4_nl", SL_DTYPE_iq4_nl, 32, 18, group_iq4_nl, NULL},
    [SL_GGUF_IQ4_XS] = {"iq4_xs", SL_DTYPE_iq4_xs, 256, 136, group_iq4_xs, super_first},
    [SL_GGUF_MXFP4] = {"mxfp4", SL_DTYPE_mxfp4, 32, 17, group_mxfp4, NULL},
    [SL_GGUF_NVFP4] = {"nvfp4", SL_DTYPE_nvfp4, 64, 36, group_nvfp4, NULL},
    [SL_GGUF_TQ1_0] = {"tq1_0", SL_DTYPE_q4_0, 256, 54, group_tq1_0, NULL},
    [SL_GGUF_TQ2_0] = {"tq2_0", SL_DTYPE_q4_0, 256, 66, group_tq2_0, NULL},
};

const sl_gguf_layout *sl_gguf_layout_find(const char *name) {
    for (int i = 0; i < SL_GGUF_COUNT; i++)
        if (strcmp(sl_gguf_layouts[i].name, name) == 0) return &sl_gguf_layouts[i];
    return NULL;
}

/* ---- decoding to weights ---- */

/* w = scale[h] * (code - offset) - minimum[h] for the columns of half h. */
typedef struct {
    float scale[2], minimum[2];
    int offset;
    const int8_t *table; /* lookup table of code values, or NULL */
    bool is_signed;      /* codes are signed bytes */
} group_rule;

static group_rule rule_of_one(float scale, float minimum) {
    return (group_rule){.scale = {scale, scale}, .minimum = {minimum, minimum}};
}
static float float_at(const uint8_t *params) {
    float value;
    memcpy(&value, params, sizeof value);
    return value;
}

/* Types with parameters per super-group. */
static group_rule rule_under_super(sl_dtype dtype, const uint8_t *params, const uint16_t super[2]) {
    const float d = sl_f32_from_f16(super[0]), m = sl_f32_from_f16(super[1]);
    const uint8_t first = params[0], second = params[1];
    switch (dtype) {
    case SL_DTYPE_q2_k:
        return (group_rule){.scale = {d * (float)(first & 15), d * (float)(second & 15)},
                            .minimum = {m * (float)(first >> 4), m * (float)(second >> 4)}};
    case SL_DTYPE_q3_k:
    case SL_DTYPE_q6_k:
        return (group_rule){.scale = {d * (float)(int8_t)first, d * (float)(int8_t)second},
                            .offset = dtype == SL_DTYPE_q3_k ? 4 : 32};
    case SL_DTYPE_iq4_xs: {
        group_rule rule = rule_of_one(d * (float)(int8_t)first, 0);
        rule.table = sl_iq4_table;
        return rule;
    }
    default:
        return rule_of_one(d * (float)first, m * (float)second);
    }
}

static group_rule rule_of(sl_dtype dtype, const uint8_t *params) {
    uint16_t half;
    memcpy(&half, params, sizeof half);
    group_rule rule = rule_of_one(sl_f32_from_f16(half), 0);
    if (dtype == SL_DTYPE_q4_f || dtype == SL_DTYPE_q8_f)
        return rule_of_one(float_at(params), -float_at(params + 4));
    if (dtype == SL_DTYPE_q4_0) rule.offset = 8;
    if (dtype == SL_DTYPE_q8) rule.is_signed = true;
    if (dtype == SL_DTYPE_iq4_nl) rule.table = sl_iq4_table;
    if (dtype == SL_DTYPE_mxfp4) {
        rule = rule_of_one(sl_f32_from_bf16(half), 0);
        rule.table = sl_fp4_table;
    }
    if (dtype == SL_DTYPE_nvfp4)
        rule = (group_rule){
            .scale = {0.5f * sl_f32_from_e4m3(params[0]), 0.5f * sl_f32_from_e4m3(params[1])},
            .table = sl_fp4_table};
    return rule;
}

static void decode_group(const group_rule *rule, const uint8_t *codes, float *out) {
    for (int i = 0; i < SL_GROUP_COLS; i++) {
        const int half = i / 16;
        int code = codes[i];
        if (rule->is_signed && code > 127) code -= 256;
        if (rule->table) code = rule->table[code]; /* NOLINT(bugprone-signed-char-misuse): signed */
        out[i] = rule->scale[half] * (float)(code - rule->offset) - rule->minimum[half];
    }
}

void sl_gguf_decode(const sl_gguf_layout *layout, const void *blocks, int64_t count, float *out) {
    const uint8_t *b = blocks;
    for (int64_t i = 0; i < count; i++, b += layout->bytes) {
        if (!layout->group) {
            decode_q8_k(b, out + i * layout->cols);
            continue;
        }
        uint16_t super[2] = {0, 0};
        if (layout->super) layout->super(b, super);
        for (int64_t part = 0; part < layout->cols / SL_GROUP_COLS; part++) {
            sl_group_row row = {{0}, {0}};
            layout->group(b, part, &row);
            const group_rule rule = layout->super
                                        ? rule_under_super(layout->dtype, row.params, super)
                                        : rule_of(layout->dtype, row.params);
            decode_group(&rule, row.codes, out + i * layout->cols + part * SL_GROUP_COLS);
        }
    }
}
