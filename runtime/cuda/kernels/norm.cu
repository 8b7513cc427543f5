/* norm.cu - Norms over the last axis, optionally with the result quantised to a8. */
#include "runtime/cuda/kernels/norm.cuh"

/* ---- rows whose length is a multiple of 4, held in registers ---- */

/* LOADS: float4 loads per thread. */
template <kind N, bool CODED, int LOADS> DEVICE void norm_kept(const sl_norm_rows &a) {
    const int lane = (int)threadIdx.x % a.lanes;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / (unsigned)a.lanes) +
                        (int)threadIdx.x / a.lanes;
    if (row >= a.rows) return; /* uniform over all warps of a row */
    const int64_t start = row * a.count;
    const float4 none = make_float4(0, 0, 0, 0);
    float4 x[LOADS], other[LOADS], gain[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = (i * a.lanes + lane) * 4;
        const bool in = at < a.count;
        x[i] = in ? four(a.x, start + at) : none;
        if (N == norm_add || N == norm_mul || N == norm_gated)
            other[i] = in ? four(a.other, start + at) : none;
        else
            other[i] = none;
        gain[i] = N != norm_l2 && in ? four(a.gain, at) : none;
    }
    float squares = 0;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        if (N == norm_add) {
            x[i] = make_float4(x[i].x + other[i].x, x[i].y + other[i].y, x[i].z + other[i].z,
                               x[i].w + other[i].w);
            const int at = (i * a.lanes + lane) * 4;
            if (at < a.count) *(float4 *)(a.sum + start + at) = x[i];
        }
        squares += squares_of(x[i]);
    }
    const float inverse = inverse_of<N>(a, sum_of_row(squares, a.lanes));
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = (i * a.lanes + lane) * 4, width = a.codes.groups * SL_CUDA_GROUP_COLS;
        const float4 y = normed_four<N>(a, x[i], inverse, gain[i], other[i]);
        if (a.out && at < a.count) *(float4 *)(a.out + start + at) = y;
        if (CODED && at - lane_id() * 4 < width) /* warp-uniform */
            quantise_eight(a.codes, row * a.codes.groups + at / SL_CUDA_GROUP_COLS, at < width,
                           at < a.count ? y : none);
    }
}

/* ---- rows of any length, one block each ---- */

template <kind N> DEVICE float element(const sl_norm_rows &a, int64_t at) {
    return N == norm_add ? a.x[at] + a.other[at] : a.x[at];
}

template <kind N, bool CODED> DEVICE void norm_any(const sl_norm_rows &a) {
    const int64_t row = blockIdx.x, start = row * a.count;
    float squares = 0;
    for (int i = (int)threadIdx.x; i < a.count; i += (int)blockDim.x) {
        const float x = element<N>(a, start + i);
        if (N == norm_add) a.sum[start + i] = x;
        squares += x * x;
    }
    const float inverse = inverse_of<N>(a, sum_of_row(squares, (int)blockDim.x));
    const int width = (a.count + WARP - 1) / WARP * WARP;
    for (int i = (int)threadIdx.x; i < width; i += (int)blockDim.x) { /* warp-uniform trip count */
        float y = 0;
        if (i < a.count) {
            const float x = N == norm_add ? a.sum[start + i] : a.x[start + i];
            const float other = N == norm_mul || N == norm_gated ? a.other[start + i] : 0.0f;
            y = normed<N>(a, x, inverse, N == norm_l2 ? 0.0f : a.gain[i], other);
            if (a.out) a.out[start + i] = y;
        }
        if (CODED) quantise_warp(a.codes, row * a.codes.groups + i / WARP, true, y);
    }
}

#define NORM_KERNELS(NAME, N, CODED)                                                               \
    SL_CUDA_KERNEL(sl_norm_##NAME##_once, sl_norm_rows, 512) {                                     \
        norm_kept<norm_##N, CODED, 1>(a);                                                          \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_norm_##NAME##_kept, sl_norm_rows, 512) {                                     \
        norm_kept<norm_##N, CODED, SL_NORM_LOADS>(a);                                              \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_norm_##NAME##_any, sl_norm_rows) {                                           \
        norm_any<norm_##N, CODED>(a);                                                              \
    }
NORM_KERNELS(rms, rms, false)
NORM_KERNELS(add, add, false)
NORM_KERNELS(mul, mul, false)
NORM_KERNELS(gated, gated, false)
NORM_KERNELS(l2, l2, false)
NORM_KERNELS(rms_coded, rms, true)
NORM_KERNELS(add_coded, add, true)
NORM_KERNELS(gated_coded, gated, true)
