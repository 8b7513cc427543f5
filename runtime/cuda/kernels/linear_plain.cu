/* linear_plain.cu - Products with panel types that few files use: one warp per row of the weights
 * and up to eight tokens.  Grid: (rows, tokens). */
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/panel.cuh"

DEVICE float row_value(const sl_linear_plain &a, int token, int column) {
    if (a.x) return a.x[(int64_t)token * a.w.cols + column];
    const int64_t group = (int64_t)token * a.x8.groups + column / 32;
    return (float)a.x8.codes[group * 32 + column % 32] * a.x8.scales[group];
}

template <class TYPE> DEVICE void multiply_plain(const sl_linear_plain &a) {
    const int row = (int)(blockIdx.x * (blockDim.x / WARP)) + warp_id();
    const int first = (int)blockIdx.y * SL_LINEAR_TOKENS;
    const int count = min(a.tokens - first, (int)SL_LINEAR_TOKENS);
    if (row >= a.w.rows) return;
    float sums[SL_LINEAR_TOKENS] = {};
    for (int column = lane_id(); column < a.w.cols; column += WARP) {
        const float weight = weight_of<TYPE>(a.w, row, column);
#pragma unroll
        for (int i = 0; i < SL_LINEAR_TOKENS; i++)
            if (i < count) sums[i] = fmaf(weight, row_value(a, first + i, column), sums[i]);
    }
#pragma unroll
    for (int i = 0; i < SL_LINEAR_TOKENS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane_id() == 0 && i < count) a.out[(int64_t)(first + i) * a.w.rows + row] = sum;
    }
}

#define PLAIN(NAME)                                                                                \
    SL_CUDA_KERNEL(sl_linear_plain_##NAME, sl_linear_plain) {                                      \
        multiply_plain<type_##NAME>(a);                                                            \
    }
SL_PLAIN_PANEL_TYPES(PLAIN)
