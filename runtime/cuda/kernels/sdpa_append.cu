/* sdpa_append.cu - Writing to the KV cache (core/kv.h). */
#include "runtime/cuda/kernels/head.cuh"
#include "runtime/cuda/kernels/sdpa_append.h"
#include "runtime/cuda/kernels/sdpa_place.cuh"

DEVICE void put_cached(void *cache, int64_t at, float value, int is_half) {
    if (is_half)
        ((uint16_t *)cache)[at] = f16_of_f32(value);
    else
        ((float *)cache)[at] = value;
}

/* One warp per head of a row: first all keys, then all values. */
SL_CUDA_KERNEL(sl_kv_append, sl_cache_append) {
    const sl_head_change &change = a.change;
    const int64_t heads = (int64_t)a.rows * change.heads;
    const int64_t w = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id(), i = w % heads;
    if (w >= 2 * heads) return;
    const int t = (int)(i / change.heads), width = change.width, value_width = a.value_width;
    const int position = checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], a.capacity);
    const int64_t place = place_at(a, t, change.heads, (int)(i % change.heads), position);
    if (w >= heads) {
        for (int d = lane_id(); d < value_width; d += WARP)
            put_cached(a.values, place * value_width + d, a.v[i * value_width + d], a.is_half);
        return;
    }
    const int64_t at = place / KV_LANES * KV_LANES * width + place % KV_LANES;
    const float *x = a.k + i * width;
    const int64_t angles = (int64_t)t * change.columns;
    void *keys = a.keys;
    const int is_half = a.is_half;
    change_head(change, x, angles, [=](int i, float value) {
        put_cached(keys, at + (int64_t)(lane_id() + WARP * i) * KV_LANES, value, is_half);
    });
}
