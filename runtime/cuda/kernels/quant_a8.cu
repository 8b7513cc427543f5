/* quant_a8.cu - int8 quantisation of activations, optionally multiplied by sigmoid(gate). */
#include "runtime/cuda/kernels/quant_a8.h"
#include "runtime/cuda/kernels/norm.cuh"

/* Eight lanes per group, a float4 each; the row length is a multiple of 4. */
template <bool GATED> DEVICE void quantise_fours(const sl_quantise_groups &a) {
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, group = thread / 8;
    const int groups = a.codes.groups;
    const int64_t row = group / groups;
    const int column = (int)(group - row * groups) * SL_CUDA_GROUP_COLS + (int)thread % 8 * 4;
    const bool kept = group < a.all_groups;
    float4 x = make_float4(0, 0, 0, 0);
    if (kept && column < a.count) {
        x = four(a.x, row * a.count + column);
        if (GATED) {
            const float4 gate = four(a.gate, row * a.count + column);
            x = make_float4(x.x * sigmoid(gate.x), x.y * sigmoid(gate.y), x.z * sigmoid(gate.z),
                            x.w * sigmoid(gate.w));
        }
    }
    quantise_eight(a.codes, group, kept, x);
}

/* One warp per group. */
template <bool GATED> DEVICE void quantise_ones(const sl_quantise_groups &a) {
    const int64_t group = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id();
    const int groups = a.codes.groups;
    const int64_t row = group / groups;
    const int column = (int)(group - row * groups) * SL_CUDA_GROUP_COLS + lane_id();
    const bool kept = group < a.all_groups;
    float x = 0;
    if (kept && column < a.count) {
        x = a.x[row * a.count + column];
        if (GATED) x *= sigmoid(a.gate[row * a.count + column]);
    }
    quantise_warp(a.codes, group, kept, x);
}

SL_CUDA_KERNEL(sl_quantise_fours, sl_quantise_groups) {
    quantise_fours<false>(a);
}
SL_CUDA_KERNEL(sl_quantise_ones, sl_quantise_groups) {
    quantise_ones<false>(a);
}
SL_CUDA_KERNEL(sl_gate_quantise_fours, sl_quantise_groups) {
    quantise_fours<true>(a);
}
SL_CUDA_KERNEL(sl_gate_quantise_ones, sl_quantise_groups) {
    quantise_ones<true>(a);
}
