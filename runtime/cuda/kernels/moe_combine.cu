/* moe_combine.cu - Weighted sums of expert outputs. */
#include "runtime/cuda/kernels/elementwise.cuh"
#include "runtime/cuda/kernels/moe_combine.h"
#include "runtime/cuda/kernels/strides.cuh"

enum { COLS = SL_MIX_COLS, WARPS = SL_MIX_THREADS / WARP };

/* Columns [column, column + 4) of a row of `width`; columns beyond it are 0. */
DEVICE float4 load_columns(const float *y, int column, int width, int vectors) {
    if (vectors && column < width) return *(const float4 *)(y + column);
    float4 four;
    four.x = column < width ? y[column] : 0.0f;
    four.y = column + 1 < width ? y[column + 1] : 0.0f;
    four.z = column + 2 < width ? y[column + 2] : 0.0f;
    four.w = column + 3 < width ? y[column + 3] : 0.0f;
    return four;
}

/* Each warp accumulates the weighted outputs of every WARPS-th expert; then each thread sums one
 * column over the warps.  All loads of a row are in flight at once. */
template <bool JOIN> DEVICE void mix(const sl_mixture &a) {
    __shared__ float4 parts[WARPS][COLS / 4];
    const int row = (int)blockIdx.x / a.row_blocks;
    const int first = ((int)blockIdx.x - row * a.row_blocks) * COLS;
    const int column = first + (int)threadIdx.x;
    const int64_t at = (int64_t)row * a.width + column;
    const bool is_mine = threadIdx.x < COLS && column < a.width;
    const float residual = JOIN && is_mine ? a.residual[at] : 0.0f;
    const float shared = JOIN && is_mine && a.shared ? a.shared[at] : 0.0f;
    const float gate = JOIN && is_mine && a.gate ? a.gate[row] : 0.0f;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int j = warp_id(); j < a.k; j += WARPS) {
        const int64_t pair = (int64_t)row * a.k + j;
        const float weight = a.weights[pair];
        const float4 y =
            load_columns(a.y + pair * a.width, first + 4 * lane_id(), a.width, a.vectors);
        add_times(sum, weight, y);
    }
    parts[warp_id()][lane_id()] = sum;
    __syncthreads();
    if (!is_mine) return;
    float result = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) result += ((const float *)parts[w])[threadIdx.x];
    if (JOIN) result = residual + fmaf(a.gate ? apply_sigmoid(gate) : 1.0f, shared, result);
    a.out[at] = result;
}

SL_CUDA_KERNEL(sl_moe_combine, sl_mixture, SL_MIX_THREADS) {
    mix<false>(a);
}
SL_CUDA_KERNEL(sl_moe_join, sl_mixture, SL_MIX_THREADS) {
    mix<true>(a);
}

SL_CUDA_KERNEL(sl_shared_combine, sl_shared_sum) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    a.out[i] = fmaf(apply_sigmoid(a.gate[quotient(i, a.width)]), a.shared[i], a.routed[i]);
}
