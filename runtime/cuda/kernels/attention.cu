/* attention.cu - Rotary positions, and what enters the key-value cache (core/kv.h). */
#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/kernels/cuda.cuh"

/* A thread is an angle.  In double: a position of 2^17 turns by as many radians, and a float would
 * know its angle to a hundredth. */
SL_CUDA_KERNEL(sl_rope_table, sl_rope_angles) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)a.rows * a.half) return;
    const int t = (int)(i / a.half), j = (int)(i % a.half);
    const int position = checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], INT32_MAX);
    const double angle = (double)position * pow(a.theta, -(double)j / (double)a.half);
    float *row = a.out + (int64_t)t * 2 * a.half;
    row[j] = (float)cos(angle);
    row[j + a.half] = (float)sin(angle);
}

/* ---- one head by one warp ---- */

enum { KV_LANES = 16 };

/* 1 / sqrt(mean(x^2) + eps), or 1 where nothing is normed. */
DEVICE float inverse_rms(const sl_head_change &change, const float *x) {
    if (!change.gain) return 1.0f;
    float sum = 0;
    for (int d = lane_id(); d < change.width; d += WARP) sum += x[d] * x[d];
    return 1.0f / sqrtf(warp_sum(sum) / (float)change.width + change.eps);
}
DEVICE float normed(const sl_head_change &change, const float *x, float inverse, int d) {
    return change.gain ? x[d] * inverse * (change.offset + change.gain[d]) : x[d];
}
/* Element d of the changed head; `cosines` is its row of the table. */
DEVICE float changed(const sl_head_change &change, const float *x, float inverse,
                     const float *cosines, int d) {
    const float own = normed(change, x, inverse, d);
    const int half = change.half;
    if (d >= 2 * half) return own;
    const float *sines = cosines + half;
    if (d < half) return own * cosines[d] - normed(change, x, inverse, d + half) * sines[d];
    return own * cosines[d - half] + normed(change, x, inverse, d - half) * sines[d - half];
}

/* A warp is a head of a row. */
SL_CUDA_KERNEL(sl_rope, sl_rope_heads) {
    const int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id();
    const sl_head_change &change = a.change;
    if (i >= (int64_t)a.rows * change.heads) return;
    const float *x = a.x + i * change.width;
    const float *cosines = change.table + i / change.heads * 2 * change.half;
    const float inverse = inverse_rms(change, x);
    for (int d = lane_id(); d < change.width; d += WARP)
        a.out[i * change.width + d] = changed(change, x, inverse, cosines, d);
}

DEVICE void put_cached(void *cache, int64_t at, float value, int is_half) {
    if (is_half)
        ((uint16_t *)cache)[at] = f16_of_f32(value);
    else
        ((float *)cache)[at] = value;
}

/* A warp is a head of a row: first all keys, then all values. */
SL_CUDA_KERNEL(sl_kv_append, sl_cache_append) {
    const sl_head_change &change = a.change;
    const int64_t heads = (int64_t)a.rows * change.heads;
    const int64_t w = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id(), i = w % heads;
    if (w >= 2 * heads) return;
    const int t = (int)(i / change.heads), width = change.width;
    const int slot = checked(a.fault, SL_FAULT_SLOT, t, a.slots[t], a.slot_count);
    const int position = checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], a.capacity);
    const int64_t head = ((int64_t)slot * change.heads + i % change.heads) * a.capacity * width;
    if (w >= heads) {
        for (int d = lane_id(); d < width; d += WARP)
            put_cached(a.values, head + (int64_t)position * width + d, a.v[i * width + d],
                       a.is_half);
        return;
    }
    const int64_t at =
        head + (int64_t)(position / KV_LANES) * KV_LANES * width + position % KV_LANES;
    const float *x = a.k + i * width;
    const float *cosines = change.table + (int64_t)t * 2 * change.half;
    const float inverse = inverse_rms(change, x);
    for (int d = lane_id(); d < width; d += WARP)
        put_cached(a.keys, at + (int64_t)d * KV_LANES, changed(change, x, inverse, cosines, d),
                   a.is_half);
}
