/* linear_panel.c - f32 activations times panels of quantised weights (layouts in core/codec.h).
 *
 * Per group of 32 columns, with q the codes: y += scale sum(q x) - minimum sum(x).  sum(q x) uses
 * several independent accumulators. */
#include "runtime/cpu/kernels/panel.h"

/* ---- 4-bit codes, accumulators by nibble ---- */

enum { WORDS = 4, NIBBLES = 8 };

/* A nibble is not shifted down in its word: nibble i has the value q * 16^i, and x is scaled to
 * match.  Only the last one, which includes the sign bit, is shifted.  Column c is nibble 2 (c % 4)
 * of its word, plus 1 if c % 8 >= 4. */
static const float nibble_factors[FACTORS] = {1,       0x1p-8f,  0x1p-16f, 0x1p-24f,
                                              0x1p-4f, 0x1p-12f, 0x1p-20f, 1};
INLINE vf nibble(vu word, const int i) {
    return vfrom_i32((vi)(i < NIBBLES - 1 ? word & (0xfu << (4 * i)) : word >> (4 * i)));
}

INLINE void add_nibbles(const panel_group *at, vf (*y)[PANEL_VECTORS], panel_form form,
                        panel_params_fn *params) {
    const panel_rows *rows = at->rows;
    const float *x = rows->x + at->g * SL_GROUP_COLS;
    const uint8_t *codes = codes_of(at->p, form, at->g) + at->v * LANES * 4;
    vf dots[PANEL_TOKENS][CHAINS];
    if (at->v == 0) read_ahead(at->p, form, at->g, AHEAD_BYTES);
    zero_chains(dots, at->tokens);
    UNROLL(4)
    for (int j = 0; j < WORDS; j++) {
        const vu word = vload_u32(codes + j * WORD_BYTES);
        UNROLL(8)
        for (int i = 0; i < NIBBLES; i++) {
            const vf q = nibble(word, i);
            const int column = 8 * j + 4 * (i % 2) + i / 2;
            UNROLL(4)
            for (int t = 0; t < at->tokens; t++)
                dots[t][i % CHAINS] =
                    vfma(q, vsplat(x[t * rows->stride + column]), dots[t][i % CHAINS]);
        }
    }
    vf scale, minimum;
    params(at->p, at->g, at->v, &scale, &minimum);
    UNROLL(4)
    for (int t = 0; t < at->tokens; t++) {
        const vf sum = vsplat(rows->sums[t * rows->groups + at->g]);
        y[t][at->v] = vfma(scale, add_chains(dots[t]), vfma(-minimum, sum, y[t][at->v]));
    }
}

#define NIBBLE_PRODUCT(TYPE)                                                                       \
    INLINE void add_##TYPE(const panel_group *at, vf(*y)[PANEL_VECTORS]) {                         \
        add_nibbles(at, y, form_##TYPE, params_##TYPE);                                            \
    }                                                                                              \
    void SL_KERNEL(sl_linear_part_##TYPE)(const sl_linear_job *job, int64_t begin, int64_t end,    \
                                          void *scratch) {                                         \
        panel_product(job, begin, end, scratch, nibble_factors, add_##TYPE);                       \
    }
NIBBLE_PRODUCT(q4)
NIBBLE_PRODUCT(q4_k)
NIBBLE_PRODUCT(q4_0)
NIBBLE_PRODUCT(q4_m)
NIBBLE_PRODUCT(q4_f)

/* ---- codes that are unpacked to signed bytes, accumulators by byte ---- */

static const float byte_factors[FACTORS] = {1, 1, 1, 1, 1, 1, 1, 1};

/* Byte i (a constant) of every lane times 2^24, as floats: in the top byte of its lane the byte
 * keeps its sign and converts exactly. */
INLINE vf byte_of(vu word, const int i) {
#if defined(__AVX2__)
    /* An index of -1 gives a zero byte. */
    const __m128i pick = _mm_setr_epi8(-1, -1, -1, (char)i, -1, -1, -1, (char)(4 + i), -1, -1, -1,
                                       (char)(8 + i), -1, -1, -1, (char)(12 + i));
#endif
#if defined(__AVX512F__)
    return vfrom_i32((vi)_mm512_shuffle_epi8((__m512i)word, _mm512_broadcast_i32x4(pick)));
#elif defined(__AVX2__)
    return vfrom_i32((vi)_mm256_shuffle_epi8((__m256i)word, _mm256_broadcastsi128_si256(pick)));
#else
    return vfrom_i32((vi)(word << (24 - 8 * i) & 0xff000000u));
#endif
}

/* How the codes of a type are unpacked to signed bytes. */
typedef struct {
    panel_form form;
    int scales;   /* scales per group and lane: 1 or 2 */
    float unit;   /* value of one unit of a byte */
    float offset; /* for types with minima: added to unit * byte to get the code */
    bool minimum;
    panel_word_fn *word;
    panel_bytes_fn *params;
} byte_codes;

/* 32 (q - 4) and 4 (q - 32), which use the whole range of a signed byte. */
INLINE vu word_q3_k(const uint8_t *codes, const int word) {
    return word_3(codes, word) << 5 ^ 0x80808080u;
}
INLINE vu word_q6_k(const uint8_t *codes, const int word) {
    return word_6(codes, word) << 2 ^ 0x80808080u;
}
INLINE vu word_flipped(const uint8_t *codes, const int word) {
    return word_bytes(codes, word) ^ 0x80808080u;
}
INLINE vu word_iq4(const uint8_t *codes, const int word) {
    return vlookup(sl_iq4_table, low_bits(codes, word));
}
INLINE vu word_fp4(const uint8_t *codes, const int word) {
    return vlookup(sl_fp4_table, low_bits(codes, word));
}

/* Adds the products of columns 4 word to 4 word + 3. */
INLINE void add_word(const panel_group *at, vu codes, const int word, vf (*dots)[CHAINS]) {
    const float *x = at->rows->x + at->g * SL_GROUP_COLS + word * 4;
    UNROLL(4)
    for (int i = 0; i < CHAINS; i++) {
        const vf q = byte_of(codes, i);
        UNROLL(4)
        for (int t = 0; t < at->tokens; t++)
            dots[t][i] = vfma(q, vsplat(x[t * at->rows->stride + i]), dots[t][i]);
    }
}

/* Adds the columns that use scale `part` (a constant). */
INLINE void add_part(const panel_group *at, vf (*y)[PANEL_VECTORS], const byte_codes *type,
                     const int part) {
    const uint8_t *codes = codes_of(at->p, type->form, at->g) + at->v * LANES * 4;
    const int words = SL_GROUP_COLS / 4 / type->scales;
    vf dots[PANEL_TOKENS][CHAINS];
    zero_chains(dots, at->tokens);
    UNROLL(8)
    for (int i = 0; i < words; i++)
        add_word(at, type->word(codes, part * words + i), part * words + i, dots);
    vf scale, minimum = vzero();
    type->params(at->p, at->g, at->v, part, &scale, &minimum);
    minimum -= scale * vsplat(type->offset);
    scale *= vsplat(type->unit * 0x1p-24f);
    UNROLL(4)
    for (int t = 0; t < at->tokens; t++) {
        const int64_t group = t * at->rows->groups + at->g;
        const float half = at->rows->halves[group], all = at->rows->sums[group];
        const float sum = type->scales == 1 ? all : part == 0 ? half : all - half;
        if (type->minimum) y[t][at->v] = vfma(-minimum, vsplat(sum), y[t][at->v]);
        y[t][at->v] = vfma(scale, add_chains(dots[t]), y[t][at->v]);
    }
}

INLINE void add_bytes(const panel_group *at, vf (*y)[PANEL_VECTORS], const byte_codes *type) {
    if (at->v == 0) read_ahead(at->p, type->form, at->g, AHEAD_BYTES);
    add_part(at, y, type, 0);
    if (type->scales == 2) add_part(at, y, type, 1);
}

#define BYTE_PRODUCT(TYPE, SCALES, UNIT, OFFSET, MINIMUM, WORD)                                    \
    INLINE void add_##TYPE(const panel_group *at, vf(*y)[PANEL_VECTORS]) {                         \
        const byte_codes type = {form_##TYPE, SCALES, UNIT, OFFSET, MINIMUM, WORD, bytes_##TYPE};  \
        add_bytes(at, y, &type);                                                                   \
    }                                                                                              \
    void SL_KERNEL(sl_linear_part_##TYPE)(const sl_linear_job *job, int64_t begin, int64_t end,    \
                                          void *scratch) {                                         \
        panel_product(job, begin, end, scratch, byte_factors, add_##TYPE);                         \
    }
BYTE_PRODUCT(q8, 1, 1, 0, false, word_bytes)
BYTE_PRODUCT(q2_k, 2, 1, 0, true, word_2)
BYTE_PRODUCT(q3_k, 2, 0x1p-5f, 0, false, word_q3_k)
BYTE_PRODUCT(q5_k, 1, 1, 0, true, word_5)
BYTE_PRODUCT(q6_k, 2, 0x1p-2f, 0, false, word_q6_k)
BYTE_PRODUCT(iq4_nl, 1, 1, 0, false, word_iq4)
BYTE_PRODUCT(iq4_xs, 1, 1, 0, false, word_iq4)
BYTE_PRODUCT(mxfp4, 1, 1, 0, false, word_fp4)
BYTE_PRODUCT(nvfp4, 2, 1, 0, false, word_fp4)
BYTE_PRODUCT(q6_m, 1, 1, 0, true, word_6)
BYTE_PRODUCT(q8_m, 1, 1, 128, true, word_flipped)
BYTE_PRODUCT(q8_f, 1, 1, 128, true, word_flipped)

/* ---- 8-bit floats ---- */

INLINE void add_f8(const panel_group *at, vf (*y)[PANEL_VECTORS]) {
    const uint8_t *codes = codes_of(at->p, form_f8, at->g) + at->v * LANES * 4;
    const float *x = at->rows->x + at->g * SL_GROUP_COLS;
    vf dots[PANEL_TOKENS][CHAINS], scale, minimum;
    if (at->v == 0) read_ahead(at->p, form_f8, at->g, AHEAD_BYTES);
    zero_chains(dots, at->tokens);
    for (int word = 0; word < SL_GROUP_COLS / 4; word++) {
        const vu four = word_bytes(codes, word);
        UNROLL(4)
        for (int i = 0; i < CHAINS; i++) {
            const vu byte = four >> 8 * i;
            const vf w = (vf)((vu)vfrom_e4m3(byte) | (byte & 0x80) << 24);
            UNROLL(4)
            for (int t = 0; t < at->tokens; t++)
                dots[t][i] = vfma(w, vsplat(x[t * at->rows->stride + 4 * word + i]), dots[t][i]);
        }
    }
    bytes_f8(at->p, at->g, at->v, 0, &scale, &minimum);
    UNROLL(4)
    for (int t = 0; t < at->tokens; t++)
        y[t][at->v] = vfma(scale, add_chains(dots[t]), y[t][at->v]);
}
void SL_KERNEL(sl_linear_part_f8)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    panel_product(job, begin, end, scratch, byte_factors, add_f8);
}
