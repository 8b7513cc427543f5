/* attention.cu - Rotary positions, and what enters the key-value cache (core/kv.h). */
#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/kernels/cuda.cuh"

/* A thread is an angle. */
SL_CUDA_KERNEL(sl_rope_table, sl_rope_angles) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)a.rows * a.half) return;
    const int t = (int)(i / a.half), j = (int)(i % a.half);
    const int position = checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], INT32_MAX);
    const double angle = (double)position * sl_rope_frequency(&a.form, j);
    float *row = a.out + (int64_t)t * 2 * a.half;
    row[j] = (float)(a.form.magnitude * cos(angle));
    row[j + a.half] = (float)(a.form.magnitude * sin(angle));
}

/* ---- one head by one warp ---- */

enum { KV_LANES = 16, HELD = 8 };

/* An element d, and the one that it is turned with. */
struct element {
    float own, other, cosine, sine;
    float own_gain, other_gain;
};
DEVICE element load_element(const sl_head_change &change, const float *x, const float *cosines,
                            int d) {
    const int half = change.half, apart = change.interleaved ? 1 : half;
    const bool is_turned = d < 2 * half;
    const bool is_first = is_turned && (change.interleaved ? d % 2 == 0 : d < half);
    const int partner = !is_turned ? d : is_first ? d + apart : d - apart;
    const int angle = change.interleaved ? d / 2 : is_first ? d : d - half; /* where turned */
    const float sine = is_turned ? cosines[angle + half] : 0.0f;
    element e;
    e.own = x[d];
    e.other = is_turned ? x[partner] : 0.0f;
    e.cosine = is_turned ? cosines[angle] : 1.0f;
    e.sine = is_first ? -sine : sine;
    e.own_gain = change.gain ? change.offset + change.gain[d] : 1.0f;
    e.other_gain = change.gain ? change.offset + change.gain[partner] : 1.0f;
    return e;
}
DEVICE float changed(const sl_head_change &change, const element &e, float inverse) {
    const float own = e.own * inverse * e.own_gain, other = e.other * inverse * e.other_gain;
    return change.half ? own * e.cosine + other * e.sine : own;
}
/* 1 / sqrt(mean(x^2) + eps), or 1 where nothing is normed. */
DEVICE float inverse_rms(const sl_head_change &change, float sum) {
    if (!change.gain) return 1.0f;
    return 1.0f / sqrtf(warp_sum(sum) / (float)change.width + change.eps);
}

/* Calls put(d, value) for each element of the changed head x; `cosines` is its row of the table.
 * All of an ordinary head is asked for at once. */
template <class PUT>
DEVICE void change_head(const sl_head_change &change, const float *x, const float *cosines,
                        PUT put) {
    const int lane = lane_id(), width = change.width;
    element held[HELD];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int d = lane + WARP * i;
        held[i] = d < width ? load_element(change, x, cosines, d) : element{};
        sum += held[i].own * held[i].own;
    }
    for (int d = lane + WARP * HELD; d < width; d += WARP) sum += x[d] * x[d];
    const float inverse = inverse_rms(change, sum);
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (lane + WARP * i < width) put(lane + WARP * i, changed(change, held[i], inverse));
    for (int d = lane + WARP * HELD; d < width; d += WARP)
        put(d, changed(change, load_element(change, x, cosines, d), inverse));
}

/* A warp is a head of a row. */
SL_CUDA_KERNEL(sl_rope, sl_rope_heads) {
    const int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id();
    const sl_head_change &change = a.change;
    if (i >= (int64_t)a.rows * change.heads) return;
    const float *x = a.x + i * change.width;
    const float *cosines = change.table + i / change.heads * 2 * change.half;
    float *out = a.out + i * change.width;
    change_head(change, x, cosines, [=](int d, float value) { out[d] = value; });
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
    const int t = (int)(i / change.heads), width = change.width, value_width = a.value_width;
    const int slot = checked(a.fault, SL_FAULT_SLOT, t, a.slots[t], a.slot_count);
    const int position = checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], a.capacity);
    const int64_t before = ((int64_t)slot * change.heads + i % change.heads) * a.capacity;
    if (w >= heads) {
        for (int d = lane_id(); d < value_width; d += WARP)
            put_cached(a.values, (before + position) * value_width + d, a.v[i * value_width + d],
                       a.is_half);
        return;
    }
    const int64_t at = (before + position / KV_LANES * KV_LANES) * width + position % KV_LANES;
    const float *x = a.k + i * width;
    const float *cosines = change.table + (int64_t)t * 2 * change.half;
    void *keys = a.keys;
    const int is_half = a.is_half;
    change_head(change, x, cosines, [=](int d, float value) {
        put_cached(keys, at + (int64_t)d * KV_LANES, value, is_half);
    });
}
