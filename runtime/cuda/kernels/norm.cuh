/* norm.cuh - Parts of the norms, shared with other kernels so that results are bit-identical. */
#ifndef SL_RUNTIME_CUDA_KERNELS_NORM_CUH
#define SL_RUNTIME_CUDA_KERNELS_NORM_CUH
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/kernels/rows.cuh"

enum kind {
    norm_rms,   /* x / rms(x) * (factor + gain) */
    norm_add,   /* norm_rms of x + other; the sum is stored too */
    norm_mul,   /* norm_rms of x, times other */
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

/* Sum over the threads of a row, on all of them: a warp, or a block that calls this once. */
DEVICE float sum_of_row(float x, int lanes) {
    __shared__ float parts[WARP];
    x = warp_sum(x);
    if (lanes == WARP) return x;
    if (lane_id() == 0) parts[warp_id()] = x;
    __syncthreads();
    return warp_sum(lane_id() < lanes / WARP ? parts[lane_id()] : 0.0f);
}

/* The factor for all elements of a row, from its sum of squares. */
template <kind N> DEVICE float inverse_of(const sl_norm_rows &a, float squares) {
    if (N == norm_l2) return a.factor / sqrtf(squares + a.eps);
    return 1.0f / sqrtf(squares / (float)a.count + a.eps);
}

/* One element of the result; gain and other are used only by the norms that have them. */
template <kind N>
DEVICE float normed(const sl_norm_rows &a, float x, float inverse, float gain, float other) {
    const float scaled = x * inverse;
    if (N == norm_l2) return scaled;
    if (N == norm_gated) return scaled * gain * silu(other);
    const float result = scaled * (a.factor + gain);
    return N == norm_mul ? result * other : result;
}

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
#endif
