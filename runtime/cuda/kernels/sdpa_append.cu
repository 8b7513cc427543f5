/* sdpa_append.cu - Rotary positions, and what enters the key-value cache (core/kv.h). */
#include "runtime/cuda/kernels/head.cuh"

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

enum { KV_LANES = 16 };

/* A warp is a head of a row. */
SL_CUDA_KERNEL(sl_rope, sl_rope_heads) {
    const int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id();
    const sl_head_change &change = a.change;
    if (i >= (int64_t)a.rows * change.heads) return;
    const float *x = a.x + i * change.width;
    const float *cosines = change.table + i / change.heads * 2 * change.half;
    float *out = a.out + i * change.width;
    change_head(change, x, cosines, [=](int i, float value) { out[lane_id() + WARP * i] = value; });
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
    change_head(change, x, cosines, [=](int i, float value) {
        put_cached(keys, at + (int64_t)(lane_id() + WARP * i) * KV_LANES, value, is_half);
    });
}
