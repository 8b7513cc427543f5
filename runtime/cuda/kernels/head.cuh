/* head.cuh - Norm and RoPE of a head. */
#ifndef SL_RUNTIME_CUDA_KERNELS_HEAD_CUH
#define SL_RUNTIME_CUDA_KERNELS_HEAD_CUH
#include "runtime/cuda/kernels/rope.h"
#include "runtime/cuda/kernels/cuda.cuh"

/* ---- one head by one warp ---- */

enum { HELD = 8 }; /* elements that a lane keeps in registers */

/* An element of the head, and its partner in the rotation. */
struct element {
    float own, other, cosine, sine;
    float own_gain, other_gain;
};
DEVICE element load_element(const sl_head_change &change, const float *x, int64_t angles, int d) {
    const int half = change.half, apart = change.interleaved ? 1 : half;
    const bool is_turned = d < 2 * half;
    const bool is_first = is_turned && (change.interleaved ? d % 2 == 0 : d < half);
    const int partner = !is_turned ? d : is_first ? d + apart : d - apart;
    const int angle = change.interleaved ? d / 2 : is_first ? d : d - half; /* if is_turned */
    const float sine = is_turned ? change.sines[angles + angle] : 0.0f;
    element e;
    e.own = x[d];
    e.other = is_turned ? x[partner] : 0.0f;
    e.cosine = is_turned ? change.cosines[angles + angle] : 1.0f;
    e.sine = is_first ? -sine : sine;
    e.own_gain = change.gain ? change.offset + change.gain[d] : 1.0f;
    e.other_gain = change.gain ? change.offset + change.gain[partner] : 1.0f;
    return e;
}
DEVICE float changed(const sl_head_change &change, const element &e, float inverse) {
    const float own = e.own * inverse * e.own_gain, other = e.other * inverse * e.other_gain;
    return change.half ? own * e.cosine + other * e.sine : own;
}
/* 1 / sqrt(mean(x^2) + eps), or 1 if there is no norm. */
DEVICE float inverse_rms(const sl_head_change &change, float squares) {
    if (!change.gain) return 1.0f;
    return 1.0f / sqrtf(squares / (float)change.width + change.eps);
}

/* Applies norm and RoPE to head x: calls put(i, value) for elements lane + 32 i of the result.
 * `angles` is where its row of the RoPE tables begins.  Heads of up to 32 * HELD elements are loaded
 * at once; elements beyond that are read twice. */
template <class PUT>
DEVICE void change_head(const sl_head_change &change, const float *x, int64_t angles, PUT put) {
    const int lane = lane_id(), width = change.width;
    element held[HELD];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int d = lane + WARP * i;
        held[i] = d < width ? load_element(change, x, angles, d) : element{};
        sum += held[i].own * held[i].own;
    }
    for (int d = lane + WARP * HELD; d < width; d += WARP) sum += x[d] * x[d];
    const float inverse = inverse_rms(change, warp_sum(sum));
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (lane + WARP * i < width) put(i, changed(change, held[i], inverse));
    for (int d = lane + WARP * HELD; d < width; d += WARP)
        put(d / WARP, changed(change, load_element(change, x, angles, d), inverse));
}
#endif
