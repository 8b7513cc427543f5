/* reduce.cu - Reductions. */
#include "runtime/cuda/kernels/reduce.h"
#include "runtime/cuda/kernels/rank.cuh"
#include "runtime/cuda/kernels/strides.cuh"

/* ---- over any axes ---- */

struct fold_sum {
    DEVICE float start() {
        return 0.0f;
    }
    DEVICE float of(float so_far, float x) {
        return so_far + x;
    }
};
/* Propagates NaN. */
struct fold_max {
    DEVICE float start() {
        return -INFINITY;
    }
    DEVICE float of(float so_far, float x) {
        return x != x || x > so_far ? x : so_far;
    }
};

/* One thread's part of a reduction over elements `stride` apart, in batches of BATCH: for loads in
 * flight, and for less rounding error than one long chain. */
template <class FOLD>
DEVICE float fold_slice(const float *x, int64_t stride, int64_t first, int64_t end, int step) {
    enum { BATCH = 8 };
    float result = FOLD::start();
    for (int64_t g = first; g < end; g += BATCH * step) {
        float values[BATCH], part = FOLD::start();
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            values[j] = g + j * step < end ? x[(g + j * step) * stride] : FOLD::start();
#pragma unroll
        for (int j = 0; j < BATCH; j++) part = FOLD::of(part, values[j]);
        result = FOLD::of(result, part);
    }
    return result;
}

/* The same over several strided dims; here the batches only reduce the rounding error. */
template <class FOLD>
DEVICE float fold_walk(const float *x, const sl_walk &go, int64_t first, int64_t end, int step) {
    enum { BATCH = 8 };
    float result = FOLD::start(), part = FOLD::start();
    int filled = 0;
    for (int64_t g = first; g < end; g += step) {
        part = FOLD::of(part, x[walk_to(go, g).x]);
        if (++filled % BATCH) continue;
        result = FOLD::of(result, part);
        part = FOLD::start();
    }
    return FOLD::of(result, part);
}

template <class FOLD> DEVICE void reduce(const sl_reduction &a) {
    __shared__ float parts[SL_REDUCE_THREADS];
    const int me = (int)threadIdx.x;
    const int column = a.inner ? me / a.slices : me % a.columns;
    const int slice = a.inner ? me % a.slices : me / a.columns;
    const int64_t out = (int64_t)blockIdx.x * a.columns + column;
    const int64_t begin = blockIdx.y * a.span, end = min(begin + a.span, a.count);
    float *mine = &parts[slice * a.columns + column];
    const float *x = a.x + walk_to(a.stay, min(out, a.outputs - 1)).x;
    *mine = a.go.rank == 1 ? fold_slice<FOLD>(x, a.go.x[0], begin + slice, end, a.slices)
                           : fold_walk<FOLD>(x, a.go, begin + slice, end, a.slices);
    for (int half = a.slices / 2; half > 0; half /= 2) {
        __syncthreads();
        if (slice < half) *mine = FOLD::of(*mine, mine[half * a.columns]);
    }
    if (slice == 0 && out < a.outputs) a.out[blockIdx.y * a.outputs + out] = *mine / a.divisor;
}

SL_CUDA_KERNEL(sl_reduce_sum, sl_reduction) {
    reduce<fold_sum>(a);
}
SL_CUDA_KERNEL(sl_reduce_max, sl_reduction) {
    reduce<fold_max>(a);
}

/* ---- over the last axis ---- */

/* A key that orders by value, and among equal values puts the lower index first.  NaN is below all
 * numbers, except as the first element, which then is the result. */
DEVICE uint64_t argmax_key(float value, int64_t index) {
    if (value != value) return index == 0 ? UINT64_MAX : 0;
    return (uint64_t)rank_of(value) << 32 | (uint32_t)~index;
}
DEVICE int32_t argmax_index(uint64_t key) {
    return (int32_t)~(uint32_t)key;
}

DEVICE uint64_t warp_largest(uint64_t key) {
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) key = max(key, __shfl_xor_sync(ALL_LANES, key, d));
    return key;
}
/* The result is valid on the first warp. */
DEVICE uint64_t block_largest(uint64_t key) {
    __shared__ uint64_t parts[WARP];
    const int warps = (int)(blockDim.x / WARP);
    key = warp_largest(key);
    if (lane_id() == 0) parts[warp_id()] = key;
    __syncthreads();
    return warp_largest(lane_id() < warps ? parts[lane_id()] : 0);
}

SL_CUDA_KERNEL(sl_argmax_parts, sl_argmax_rows) {
    const int64_t row = blockIdx.x / (unsigned)a.parts, part = blockIdx.x % (unsigned)a.parts;
    const int64_t begin = part * SL_ARGMAX_SPAN, end = min(begin + SL_ARGMAX_SPAN, a.count);
    const float *x = a.x + row * a.count;
    uint64_t most = 0;
    if (a.vectors) {
        const float4 none = make_float4(NAN, NAN, NAN, NAN);
        enum { LOADS = SL_ARGMAX_SPAN / 4 / 256 };
        float4 v[LOADS];
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int64_t i = begin + 4 * (j * 256 + (int64_t)threadIdx.x);
            v[j] = i < end ? *(const float4 *)(x + i) : none;
        }
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int64_t i = begin + 4 * (j * 256 + (int64_t)threadIdx.x);
            most = max(max(most, argmax_key(v[j].x, i)), argmax_key(v[j].y, i + 1));
            most = max(max(most, argmax_key(v[j].z, i + 2)), argmax_key(v[j].w, i + 3));
        }
    } else {
        for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
            most = max(most, argmax_key(x[i], i));
    }
    most = block_largest(most);
    if (threadIdx.x != 0) return;
    if (a.parts == 1)
        a.out[row] = argmax_index(most);
    else
        a.keys[blockIdx.x] = most;
}

/* Combines the parts of each row, one block per row. */
SL_CUDA_KERNEL(sl_argmax_join, sl_argmax_rows) {
    const uint64_t *keys = a.keys + (int64_t)blockIdx.x * a.parts;
    uint64_t most = 0;
    for (int i = (int)threadIdx.x; i < a.parts; i += (int)blockDim.x) most = max(most, keys[i]);
    most = block_largest(most);
    if (threadIdx.x == 0) a.out[blockIdx.x] = argmax_index(most);
}
