/* gemm.h - C = A B or C += A B on small or strided matrices, vectorised over the columns of C.
 *
 * Each element of C is accumulated over the inner dim in order, independent of the tiling. */
#ifndef SL_RUNTIME_CPU_GEMM_H
#define SL_RUNTIME_CPU_GEMM_H
#include "runtime/cpu/kernels/vec.h"
#include <stdbool.h>

typedef struct {
    const float *a;
    int64_t a_row, a_col; /* strides, in floats */
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    int64_t rows, cols, inner;
    bool add;   /* C += A B instead of C = A B */
    bool apart; /* adds the complete sum to C at the end, instead of starting the accumulators from
                   C */
} gemm;

/* The accumulators of a register tile, the vectors of B and one of A fill the registers. */
enum { GEMM_ROWS = LANES == 16 ? 8 : 6, GEMM_VECTORS = 2 };

/* One register tile: `rows` x (`vectors` vectors, the last with n lanes) of C at (r, c); rows and
 * vectors are compile-time constants. */
INLINE void gemm_tile(const gemm *g, int64_t r, int64_t c, const int rows, const int vectors,
                      int64_t n) {
    const float *a = g->a + r * g->a_row, *b = g->b + c;
    float *to = g->c + r * g->c_row + c;
    vf acc[GEMM_ROWS][GEMM_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) {
            const int64_t lanes = v + 1 < vectors ? LANES : n;
            acc[i][v] =
                g->add && !g->apart ? vload_n(to + i * g->c_row + v * LANES, lanes) : vzero();
        }
    for (int64_t k = 0; k < g->inner; k++) {
        vf column[GEMM_VECTORS];
        for (int v = 0; v < vectors; v++)
            column[v] = vload_n(b + k * g->b_row + v * LANES, v + 1 < vectors ? LANES : n);
        for (int i = 0; i < rows; i++) {
            const vf factor = vsplat(a[i * g->a_row + k * g->a_col]);
            for (int v = 0; v < vectors; v++) acc[i][v] = vfma(factor, column[v], acc[i][v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) {
            const int64_t lanes = v + 1 < vectors ? LANES : n;
            float *at = to + i * g->c_row + v * LANES;
            if (g->apart) acc[i][v] += vload_n(at, lanes);
            vstore_n(at, acc[i][v], lanes);
        }
}

/* All rows of one column of tiles; its part of B stays in the L1 cache. */
INLINE void gemm_columns(const gemm *g, int64_t c, const int vectors, int64_t n) {
    int64_t r = 0;
    for (; r + GEMM_ROWS <= g->rows; r += GEMM_ROWS) gemm_tile(g, r, c, GEMM_ROWS, vectors, n);
    for (; r + 2 <= g->rows; r += 2) gemm_tile(g, r, c, 2, vectors, n);
    for (; r < g->rows; r++) gemm_tile(g, r, c, 1, vectors, n);
}

__attribute__((noinline)) static void gemm_run(const gemm *g) {
    int64_t c = 0;
    for (; c + 2 * LANES <= g->cols; c += 2 * LANES) gemm_columns(g, c, 2, LANES);
    const int64_t rest = g->cols - c; /* uses a two-vector tile if more than one vector is left */
    if (rest > LANES)
        gemm_columns(g, c, 2, rest - LANES);
    else if (rest == LANES)
        gemm_columns(g, c, 1, LANES);
    else if (rest)
        gemm_columns(g, c, 1, rest);
}
#endif
