/* convolution_product.h - The matrix product of filters and im2col panels, a block of taps at a
 * time; the bias is added with the first block, a relu applied with the last one.
 *
 * The im2col panels have as many columns as a tile of the product.  Each element is summed over the
 * taps of a block in order, whatever the tiling. */
#ifndef SL_RUNTIME_CPU_CONVOLUTION_PRODUCT_H
#define SL_RUNTIME_CPU_CONVOLUTION_PRODUCT_H
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vec.h"
#include <stdbool.h>

/* The accumulators of a register tile, the vectors of a panel and one factor fill the registers; a
 * panel of BLOCK_TAPS taps stays in the L1 cache. */
enum { TILE_ROWS = LANES == 16 ? 8 : 6, TILE_VECTORS = 2 };
enum { PANEL = TILE_VECTORS * LANES, BLOCK_TAPS = 192 };

typedef struct {
    const float *w; /* [rows][w_row], from the block's first tap on */
    int64_t w_row;
    const float *seen; /* im2col matrix: [panels of columns][taps][PANEL]; the last panel may be
                          partly used */
    const float *bias; /* per row; NULL: none */
    float *out;
    int64_t out_row;
    int64_t rows, cols, taps;
    bool first;
    bool relu; /* of the finished sums: the last block */
} conv_product;

/* One register tile: `rows` x (`vectors` vectors, the last with n lanes) at (r, c); rows and
 * vectors are compile-time constants. */
INLINE void conv_tile(const conv_product *g, int64_t r, int64_t c, const int rows,
                      const int vectors, int64_t n) {
    const float *w = g->w + r * g->w_row, *seen = g->seen + c * g->taps;
    float *to = g->out + r * g->out_row + c;
    vf sums[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) sums[i][v] = vzero();
    for (int64_t k = 0; k < g->taps; k++) {
        vf column[TILE_VECTORS];
        for (int v = 0; v < vectors; v++) column[v] = vload(seen + k * PANEL + v * LANES);
        for (int i = 0; i < rows; i++) {
            const vf factor = vsplat(w[i * g->w_row + k]);
            for (int v = 0; v < vectors; v++) sums[i][v] = vfma(factor, column[v], sums[i][v]);
        }
    }
    for (int i = 0; i < rows; i++) {
        const vf bias = vsplat(g->first && g->bias ? g->bias[r + i] : 0);
        for (int v = 0; v < vectors; v++) {
            const int64_t lanes = v + 1 < vectors ? LANES : n;
            float *at = to + i * g->out_row + v * LANES;
            vf sum = sums[i][v] + (g->first ? bias : vload_n(at, lanes));
            vstore_n(at, g->relu ? vrelu(sum) : sum, lanes);
        }
    }
}

/* All rows of one column of tiles; its part of the im2col matrix stays in the L1 cache. */
INLINE void conv_columns(const conv_product *g, int64_t c, const int vectors, int64_t n) {
    int64_t r = 0;
    for (; r + TILE_ROWS <= g->rows; r += TILE_ROWS) conv_tile(g, r, c, TILE_ROWS, vectors, n);
    for (; r + 2 <= g->rows; r += 2) conv_tile(g, r, c, 2, vectors, n);
    for (; r < g->rows; r++) conv_tile(g, r, c, 1, vectors, n);
}

__attribute__((noinline)) static void conv_multiply(const conv_product *g) {
    int64_t c = 0;
    for (; c + PANEL <= g->cols; c += PANEL) conv_columns(g, c, 2, LANES);
    const int64_t rest = g->cols - c;
    if (rest > LANES)
        conv_columns(g, c, 2, rest - LANES);
    else if (rest)
        conv_columns(g, c, 1, rest);
}
#endif
