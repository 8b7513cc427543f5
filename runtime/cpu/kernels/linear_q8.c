/* linear_q8.c - Rows of activations against 8-bit panels (layout in core/codec.h).
 *
 * Per group of 32 columns, with q the codes: y += scale sum(q x).  The sum runs in chains
 * by byte. */
#include "runtime/cpu/kernels/panel.h"

enum { WORDS = 8, BYTES = 4, GROUP_BYTES = 512, WORD_BYTES = 64 };

static const float factors[FACTORS] = {1, 1, 1, 1, 1, 1, 1, 1};

/* Byte i (constant) of every lane times 2^24, as floats: moved to the top of its lane the byte
 * keeps its sign, and converts exactly. */
INLINE vf code(vu word, const int i) {
#if defined(__AVX2__)
    /* -1 clears a byte. */
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

INLINE void add_group(const panel *p, const panel_rows *rows, int64_t g, const int v,
                      const int tokens, vf (*y)[PANEL_VECTORS]) {
    const float *x = rows->x + g * SL_GROUP_COLS;
    const uint8_t *codes = p->blocks + codes_at(g, GROUP_BYTES) + v * LANES * 4;
    vf dots[PANEL_TOKENS][CHAINS];
    if (v == 0) prefetch_group(codes, GROUP_BYTES);
    zero_chains(dots, tokens);
#pragma GCC unroll 8
    for (int j = 0; j < WORDS; j++) {
        const vu word = vload_u32(codes + j * WORD_BYTES);
#pragma GCC unroll 4
        for (int i = 0; i < BYTES; i++) {
            const vf q = code(word, i);
#pragma GCC unroll 4
            for (int t = 0; t < tokens; t++)
                dots[t][i % CHAINS] =
                    vfma(q, vsplat(x[t * rows->stride + 4 * j + i]), dots[t][i % CHAINS]);
        }
    }
    const vf scale =
        vload_f16(p->blocks + params_at(g, GROUP_BYTES) + v * LANES * 2) * vsplat(0x1p-24f);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) y[t][v] = vfma(scale, add_chains(dots[t]), y[t][v]);
}

void SL_KERNEL(sl_linear_part_q8)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    panel_product(job, begin, end, scratch, factors, add_group);
}
