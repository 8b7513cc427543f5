/* linear_q4.c - Rows of activations against 4-bit panels (layout in core/codec.h).
 *
 * Per group of 32 columns, with q the codes: y += d s sum(q x) - m n sum(x).  sum(q x) runs in two
 * chains (even and odd words), then they are added. */
#include "runtime/cpu/kernels/panel.h"

enum { WORDS = 4, NIBBLES = 8, GROUP_BYTES = 256, WORD_BYTES = 64, SCALE_BYTES = 32 };

/* The codes of a word per lane, ready to be taken one nibble at a time. */
#if defined(__AVX512F__)
typedef struct {
    vu word;
} nibbles;
INLINE nibbles nibbles_of(vu word) {
    return (nibbles){word};
}
#else
typedef struct {
    vu low, high; /* bytes of low nibbles and of high nibbles */
} nibbles;
INLINE nibbles nibbles_of(vu word) {
    return (nibbles){word & 0x0f0f0f0f, (word >> 4) & 0x0f0f0f0f};
}
#endif

/* Nibble i (constant) of every lane, as floats. */
INLINE vf nibble(nibbles n, const int i) {
#if defined(__AVX512F__)
    /* The permutation looks at the low four bits of an index only. */
    const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (vf)_mm512_permutexvar_ps((__m512i)(n.word >> (4 * i)), values);
#elif defined(__AVX2__)
    /* A byte of each lane, those above it cleared by -1. */
    const char b = (char)(i / 2);
    const __m128i pick = _mm_setr_epi8(b, -1, -1, -1, (char)(4 + b), -1, -1, -1, (char)(8 + b), -1,
                                       -1, -1, (char)(12 + b), -1, -1, -1);
    const __m256i bytes = (__m256i)(i % 2 ? n.high : n.low);
    return vfrom_i32((vi)_mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(pick)));
#else
    return vfrom_i32((vi)((i % 2 ? n.high : n.low) >> (8 * (i / 2)) & 15));
#endif
}

INLINE void add_group(const panel *p, const panel_rows *rows, int64_t g, const int v,
                      const int tokens, vf (*y)[PANEL_VECTORS]) {
    const float *x = rows->x + g * SL_GROUP_COLS;
    const uint8_t *codes = p->codes + g * GROUP_BYTES + v * LANES * 4;
    vf dots[PANEL_TOKENS][2];
    for (int t = 0; t < tokens; t++) dots[t][0] = dots[t][1] = vzero();
#pragma GCC unroll 4
    for (int j = 0; j < WORDS; j++) {
        const nibbles word = nibbles_of(vload_u32(codes + j * WORD_BYTES));
#pragma GCC unroll 8
        for (int i = 0; i < NIBBLES; i++) {
            const vf q = nibble(word, i);
            const int column = 8 * j + 4 * (i % 2) + i / 2;
#pragma GCC unroll 8
            for (int t = 0; t < tokens; t++)
                dots[t][j % 2] = vfma(q, vsplat(x[t * rows->stride + column]), dots[t][j % 2]);
        }
    }
    const float *header = p->headers + g / SL_SUPER_GROUPS * 2;
    const uint8_t *scales = p->scales + g * SCALE_BYTES + v * LANES;
    const vf scale = vsplat(header[0]) * vload_u8(scales);
    const vf minimum = vsplat(-header[1]) * vload_u8(scales + SL_PANEL_ROWS);
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        const vf sum = vsplat(rows->sums[t * rows->groups + g]);
        y[t][v] = vfma(scale, dots[t][0] + dots[t][1], vfma(minimum, sum, y[t][v]));
    }
}

void SL_KERNEL(sl_linear_part_q4)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    panel_product(job, begin, end, scratch, add_group);
}
