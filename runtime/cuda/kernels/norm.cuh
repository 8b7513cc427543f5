/* norm.cuh - What norms are made of, and norms of one row inside other kernels: of the same bits as
 * those of norm.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_NORM_CUH
#define SL_RUNTIME_CUDA_KERNELS_NORM_CUH
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/kernels/rows.cuh"

enum kind {
    norm_rms,   /* x / rms(x) * (factor + gain) */
    norm_add,   /* the same of x + other, which is stored too */
    norm_mul,   /* the same of x, times other */
    norm_gated, /* x / rms(x) * gain * silu(other) */
    norm_l2     /* factor * x / sqrt(sum of squares) */
};

DEVICE float4 four(const float *from, int64_t at) {
    return *(const float4 *)(from + at);
}
DEVICE float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}
DEVICE float silu(float x) {
    return x / (1.0f + expf(-x));
}

/* The same on all threads of the row: a warp, or a block that calls it once. */
DEVICE float sum_of_row(float x, int lanes) {
    __shared__ float parts[WARP];
    x = warp_sum(x);
    if (lanes == WARP) return x;
    if (lane_id() == 0) parts[warp_id()] = x;
    __syncthreads();
    return warp_sum(lane_id() < lanes / WARP ? parts[lane_id()] : 0.0f);
}

/* What a row is multiplied with, from its sum of squares. */
template <kind N> DEVICE float inverse_of(const sl_norm_rows &a, float squares) {
    if (N == norm_l2) return a.factor / sqrtf(squares + a.eps);
    return 1.0f / sqrtf(squares / (float)a.count + a.eps);
}

/* An element of the result; gain and other are read where the norm has them. */
template <kind N>
DEVICE float normed(const sl_norm_rows &a, float x, float inverse, float gain, float other) {
    const float scaled = x * inverse;
    if (N == norm_l2) return scaled;
    if (N == norm_gated) return scaled * gain * silu(other);
    const float result = scaled * (a.factor + gain);
    return N == norm_mul ? result * other : result;
}

/* The result of four elements from `at` on, which lie in the row or are none (at >= count). */
template <kind N>
DEVICE float4 normed_four(const sl_norm_rows &a, float4 x, float inverse, float4 gain,
                          float4 other) {
    return make_float4(normed<N>(a, x.x, inverse, gain.x, other.x),
                       normed<N>(a, x.y, inverse, gain.y, other.y),
                       normed<N>(a, x.z, inverse, gain.z, other.z),
                       normed<N>(a, x.w, inverse, gain.w, other.w));
}
DEVICE float squares_of(float4 x) {
    return x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
}

/* A row of at most 128 elements, a multiple of 4, by a warp. */
template <kind N> DEVICE void norm_by_warp(const sl_norm_rows &a, int64_t row) {
    const int at = lane_id() * 4;
    const int64_t start = row * a.count;
    const bool in = at < a.count;
    const float4 none = make_float4(0, 0, 0, 0);
    const float4 x = in ? four(a.x, start + at) : none;
    const float4 other = in && a.other ? four(a.other, start + at) : none;
    const float4 gain = in && a.gain ? four(a.gain, at) : none;
    const float inverse = inverse_of<N>(a, warp_sum(squares_of(x)));
    const float4 y = normed_four<N>(a, x, inverse, gain, other);
    if (a.out && in) *(float4 *)(a.out + start + at) = y;
    if (a.codes.codes)
        quantise_eight(a.codes, row * a.codes.groups + at / SL_CUDA_GROUP_COLS,
                       at < a.codes.groups * SL_CUDA_GROUP_COLS, in ? y : none);
}

/* The only row, of at most SL_NORM_SHARES * 128 elements for each warp, by a block that need not
 * have the a.lanes threads of the kernel: a warp does the work of several of its warps. */
template <kind N> DEVICE void norm_by_block(const sl_norm_rows &a) {
    __shared__ float parts[WARP];
    const int all = a.lanes / WARP, warps = (int)(blockDim.x / WARP), lane = lane_id();
    const float4 none = make_float4(0, 0, 0, 0);
    float4 x[SL_NORM_SHARES], gain[SL_NORM_SHARES];
#pragma unroll
    for (int i = 0; i < SL_NORM_SHARES; i++) {
        const int at = ((i * warps + warp_id()) * WARP + lane) * 4;
        const bool in = at < a.count;
        x[i] = in ? four(a.x, at) : none;
        gain[i] = in ? four(a.gain, at) : none;
        if (N == norm_add && in) {
            const float4 other = four(a.other, at);
            x[i] = make_float4(x[i].x + other.x, x[i].y + other.y, x[i].z + other.z,
                               x[i].w + other.w);
        }
    }
#pragma unroll
    for (int i = 0; i < SL_NORM_SHARES; i++) {
        const int part = i * warps + warp_id();
        const float squares = warp_sum(squares_of(x[i]));
        if (lane == 0 && part < all) parts[part] = squares;
        if (N == norm_add && (part * WARP + lane) * 4 < a.count)
            *(float4 *)(a.sum + (part * WARP + lane) * 4) = x[i];
    }
    __syncthreads();
    float sum = parts[0];
    if (all > 1) sum = warp_sum(lane < all ? parts[lane] : 0.0f);
    const float inverse = inverse_of<N>(a, sum);
#pragma unroll
    for (int i = 0; i < SL_NORM_SHARES; i++) {
        const int first = (i * warps + warp_id()) * WARP * 4, at = first + lane * 4;
        const int width = a.codes.groups * SL_CUDA_GROUP_COLS;
        const float4 y = normed_four<N>(a, x[i], inverse, gain[i], none);
        if (a.out && at < a.count) *(float4 *)(a.out + at) = y;
        if (a.codes.codes && first < width)
            quantise_eight(a.codes, at / SL_CUDA_GROUP_COLS, at < width, at < a.count ? y : none);
    }
}
#endif
