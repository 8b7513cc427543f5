/* blocked.h - Long products of matrices whose sums are kept short: each block of BLOCK_INNER terms
 * is one chain in f32, and chains are added in order. */
#ifndef SL_RUNTIME_CPU_BLOCKED_H
#define SL_RUNTIME_CPU_BLOCKED_H
#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

enum { BLOCK_INNER = 512 };

/* C += A B, where the product is at most one block long; sums has rows * cols floats. */
static inline void gemm_add_block(const gemm *g, float *sums) {
    gemm part = *g;
    part.c = sums;
    part.c_row = g->cols;
    part.add = false;
    gemm_run(&part);
    for (int64_t r = 0; r < g->rows; r++) {
        float *to = g->c + r * g->c_row;
        const float *from = sums + r * g->cols;
        FOR_VECTORS(i, n, g->cols, vstore_n(to + i, vload_n(to + i, n) + vload_n(from + i, n), n););
    }
}
#endif
