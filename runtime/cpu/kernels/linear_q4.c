/* linear_q4.c - Rows of activations against 4-bit panels (layout in core/codec.h).
 *
 * Per group of 32 columns, with q the codes: y += d s sum(q x) - m n sum(x).  sum(q x) runs in
 * chains by nibble. */
#include "runtime/cpu/kernels/panel.h"

enum { WORDS = 4, NIBBLES = 8, GROUP_BYTES = 256, WORD_BYTES = 64 };

/* A nibble is left where it is in its word: nibble i stands for q * 16^i, and x is scaled to match.
 * Only the last, which would be a sign, is moved down.  Column c % 8 is nibble 2 (c % 4), or one
 * more from 4 on. */
static const float factors[FACTORS] = {1,       0x1p-8f,  0x1p-16f, 0x1p-24f,
                                       0x1p-4f, 0x1p-12f, 0x1p-20f, 1};
INLINE vf nibble(vu word, const int i) {
    return vfrom_i32((vi)(i < NIBBLES - 1 ? word & (0xfu << (4 * i)) : word >> (4 * i)));
}

INLINE void add_group(const panel *p, const panel_rows *rows, int64_t g, const int v,
                      const int tokens, vf (*y)[PANEL_VECTORS]) {
    const float *x = rows->x + g * SL_GROUP_COLS;
    const uint8_t *codes = p->blocks + codes_at(g, GROUP_BYTES) + v * LANES * 4;
    vf dots[PANEL_TOKENS][CHAINS];
    if (v == 0) prefetch_group(codes, GROUP_BYTES);
    zero_chains(dots, tokens);
#pragma GCC unroll 4
    for (int j = 0; j < WORDS; j++) {
        const vu word = vload_u32(codes + j * WORD_BYTES);
#pragma GCC unroll 8
        for (int i = 0; i < NIBBLES; i++) {
            const vf q = nibble(word, i);
            const int column = 8 * j + 4 * (i % 2) + i / 2;
#pragma GCC unroll 4
            for (int t = 0; t < tokens; t++)
                dots[t][i % CHAINS] =
                    vfma(q, vsplat(x[t * rows->stride + column]), dots[t][i % CHAINS]);
        }
    }
    const float *header = p->headers + g / SL_SUPER_GROUPS * 2;
    const uint8_t *scales = p->blocks + params_at(g, GROUP_BYTES) + v * LANES;
    const vf scale = vsplat(header[0]) * vload_u8(scales);
    const vf minimum = vsplat(-header[1]) * vload_u8(scales + SL_PANEL_ROWS);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) {
        const vf sum = vsplat(rows->sums[t * rows->groups + g]);
        y[t][v] = vfma(scale, add_chains(dots[t]), vfma(minimum, sum, y[t][v]));
    }
}

void SL_KERNEL(sl_linear_part_q4)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    panel_product(job, begin, end, scratch, factors, add_group);
}
