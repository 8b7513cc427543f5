/* matmul.cu - Matrix products of two f32 activations, with register-blocked shared-memory tiles. */
#include "runtime/cuda/kernels/matmul.h"
#include "runtime/cuda/kernels/strides.cuh"

enum { TILE = SL_MATMUL_TILE, DEPTH = 16, OWN = 4, PITCH = TILE + 4 };

/* The operands at the first row and column of a tile, and the rows and columns left from there. */
struct corner {
    const float *left, *right;
    int64_t rows, cols;
};

/* Stages DEPTH columns of left from `k` on, transposed, and the same DEPTH rows of right; elements
 * outside the matrices are 0. */
DEVICE void load_strip(const sl_products &a, const corner &c, int64_t k,
                       float (*left_strip)[PITCH], float (*right_strip)[PITCH]) {
    const int me = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / SL_MATMUL_THREADS; i++) {
        const int row = me / DEPTH + i * (SL_MATMUL_THREADS / DEPTH), at = me % DEPTH;
        left_strip[at][row] =
            row < c.rows && k + at < a.inner ? c.left[row * a.inner + k + at] : 0.0f;
        const int col = me % TILE, down = me / TILE + i * (SL_MATMUL_THREADS / TILE);
        right_strip[down][col] =
            col < c.cols && k + down < a.inner ? c.right[(k + down) * a.cols + col] : 0.0f;
    }
}

DEVICE void multiply_strip(const float (*left)[PITCH], const float (*right)[PITCH], int row,
                           int col, float (*sums)[OWN]) {
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        const float4 l = *(const float4 *)&left[k][row], r = *(const float4 *)&right[k][col];
        const float own[OWN] = {l.x, l.y, l.z, l.w}, across[OWN] = {r.x, r.y, r.z, r.w};
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < OWN; j++) sums[i][j] = fmaf(own[i], across[j], sums[i][j]);
    }
}

/* One block per SL_MATMUL_TILE x SL_MATMUL_TILE tile of the result; a thread computes OWN x OWN
 * elements of it in registers. */
SL_CUDA_KERNEL(sl_matmul, sl_products, SL_MATMUL_THREADS) {
    __align__(16) __shared__ float left_strip[DEPTH][PITCH];
    __align__(16) __shared__ float right_strip[DEPTH][PITCH];
    const int64_t above = quotient(blockIdx.x, a.col_tiles), matrix = quotient(above, a.row_tiles);
    const int64_t first_col = (blockIdx.x - above * a.col_tiles) * TILE;
    const int64_t first_row = (above - matrix * a.row_tiles) * TILE;
    const places at = walk_to(a.batch, matrix);
    const corner c = {a.left + at.x + first_row * a.inner, a.right + at.y + first_col,
                      a.rows - first_row, a.cols - first_col};
    const int row = (int)threadIdx.x / (TILE / OWN) * OWN;
    const int col = (int)threadIdx.x % (TILE / OWN) * OWN;
    float sums[OWN][OWN] = {};
    for (int64_t k = 0; k < a.inner; k += DEPTH) {
        load_strip(a, c, k, left_strip, right_strip);
        __syncthreads();
        multiply_strip(left_strip, right_strip, row, col, sums);
        __syncthreads();
    }
    float *out = a.out + (matrix * a.rows + first_row) * a.cols + first_col;
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int j = 0; j < OWN; j++)
            if (row + i < c.rows && col + j < c.cols)
                out[(row + i) * a.cols + col + j] = sums[i][j];
}
