/* rows.cuh - Quantising groups of 32 values to a8, by the lanes of a warp.
 *
 * All lanes of the warp must take part, lanes without values with zeros; `kept` says whether a
 * lane's group is stored.  Results are bit-identical to sl_quantise_rows (core/codec.h). */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROWS_CUH
#define SL_RUNTIME_CUDA_KERNELS_ROWS_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/panel.h"

enum { A8_TOP = 127, INFINITE_BITS = 0x7f800000 };

/* Magnitude as bits: ordered like the magnitudes, with infinity and then NaN above all numbers. */
DEVICE int size_bits(float x) {
    return __float_as_int(x) & 0x7fffffff;
}

/* Maximum over LANES adjacent lanes, a power of two. */
template <int LANES> DEVICE int most_of_lanes(int x) {
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) x = max(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}
template <int LANES> DEVICE int sum_of_lanes(int x) {
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

/* From the size_bits of a group's largest value: the factor for its values (0: all codes are 0),
 * and its scale. */
DEVICE float group_inverse(int most) {
    const float inverse = (float)A8_TOP / __int_as_float(most);
    return most < INFINITE_BITS && size_bits(inverse) < INFINITE_BITS ? inverse : 0.0f;
}
DEVICE float group_scale(int most, float inverse) {
    if (most >= INFINITE_BITS) return __int_as_float(0x7fc00000);
    return inverse == 0.0f ? 0.0f : __int_as_float(most) / (float)A8_TOP;
}
DEVICE int code_of(float x, float inverse) {
    return inverse == 0.0f ? 0 : __float2int_rn(x * inverse);
}

DEVICE void store_group(const sl_cuda_rows8_out &to, int64_t group, float scale, int sum,
                        int half) {
    to.scales[group] = scale;
    to.sums[group] = (float)sum;
    to.halves[group] = (float)half;
}

/* Eight lanes share a group: lane l of them has values 4l to 4l + 3.  `word` has the lane's four
 * codes; `sum` and `scale` are those of the group, `half` is the sum over the lane's half of it. */
struct coded_four {
    int word, sum, half;
    float scale;
};
DEVICE coded_four code_eight(float4 x) {
    const int most = most_of_lanes<8>(
        max(max(size_bits(x.x), size_bits(x.y)), max(size_bits(x.z), size_bits(x.w))));
    const float inverse = group_inverse(most);
    const int a = code_of(x.x, inverse), b = code_of(x.y, inverse);
    const int c = code_of(x.z, inverse), d = code_of(x.w, inverse);
    const int half = sum_of_lanes<4>(a + b + c + d);
    const int sum = half + __shfl_xor_sync(ALL_LANES, half, 4);
    return {(a & 255) | (b & 255) << 8 | (c & 255) << 16 | (int)((unsigned)d << 24), sum, half,
            group_scale(most, inverse)};
}
DEVICE void quantise_eight(const sl_cuda_rows8_out &to, int64_t group, bool kept, float4 x) {
    const coded_four c = code_eight(x);
    const int lane = lane_id() % 8;
    if (!kept) return;
    ((int *)to.codes)[group * 8 + lane] = c.word;
    if (lane == 0) store_group(to, group, c.scale, c.sum, c.half);
}

/* One warp per group, a value per lane. */
DEVICE void quantise_warp(const sl_cuda_rows8_out &to, int64_t group, bool kept, float x) {
    const int most = most_of_lanes<WARP>(size_bits(x));
    const float inverse = group_inverse(most);
    const int code = code_of(x, inverse);
    const int half = sum_of_lanes<16>(code);
    const int sum = half + __shfl_xor_sync(ALL_LANES, half, 16);
    if (!kept) return;
    to.codes[group * WARP + lane_id()] = (int8_t)code;
    if (lane_id() == 0) store_group(to, group, group_scale(most, inverse), sum, half);
}
#endif
