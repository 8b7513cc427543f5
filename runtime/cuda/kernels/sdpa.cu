/* sdpa.cu - Attention of any shape with f32 arithmetic, and merging the splits.  The layout of the
 * cache is in core/kv.h. */
#include "runtime/cuda/kernels/sdpa.cuh"
#include "runtime/cuda/kernels/sdpa.h"

/* ---- any shape: one block per query and split; in a step, a thread scores one position ---- */

template <class T>
DEVICE float score_of(const sl_sdpa_splits &a, const float *query, const T *key) {
    float sum = 0;
    for (int d = 0; d < a.width; d++) sum = fmaf(query[d], f32_of(key[d * KV_LANES]), sum);
    const float score = sum * a.scale;
    return a.softcap > 0 ? a.softcap * tanhf(score / a.softcap) : score;
}

/* Shared memory at `query`: the query, the accumulated mix, a factor per position of a step. */
template <class T> DEVICE void attend_plain(const sl_sdpa_splits &a, float *query) {
    float *mix = query + a.width, *factors = mix + a.value_width;
    const int split = (int)(blockIdx.x % a.splits), i = (int)(blockIdx.x / a.splits);
    const int query_heads = a.heads * a.ratio, t = i / query_heads;
    const cached_row row = row_of(a, t);
    const int head = i % query_heads / a.ratio;
    const T *keys = (const T *)a.keys, *values = (const T *)a.values;
    range own = split_of(a, split, range{row.first, row.count}, SL_CUDA_SPLIT);
    own.first = max(own.first, row.first);
    const int me = (int)threadIdx.x;
    for (int d = me; d < a.width; d += (int)blockDim.x) query[d] = a.q[(int64_t)i * a.width + d];
    for (int d = me; d < a.value_width; d += (int)blockDim.x) mix[d] = 0;
    __syncthreads();
    float largest = -INFINITY, sum = 0;
    for (int first = own.first; first < own.end; first += SL_CUDA_SPLIT) {
        const int position = first + me, count = min(own.end - first, (int)SL_CUDA_SPLIT);
        float score = -INFINITY;
        if (position < own.end) {
            const int64_t at = place_at(a, t, a.heads, head, position);
            score =
                score_of<T>(a, query, keys + at / KV_LANES * KV_LANES * a.width + at % KV_LANES);
        }
        const float before = largest;
        largest = fmaxf(largest, block_max(score));
        const float keep = expf(before - largest), factor = expf(score - largest);
        factors[me] = factor;
        sum = sum * keep + block_sum(factor);
        __syncthreads();
        for (int d = me; d < a.value_width; d += (int)blockDim.x) {
            float taken = mix[d] * keep;
            for (int p = 0, end; p < count; p = end) { /* page by page */
                end = min(count, p + (int)KV_PAGE - (first + p) % KV_PAGE);
                const T *value = values + place_at(a, t, a.heads, head, first + p) * a.value_width;
                for (int i = p; i < end; i++, value += a.value_width)
                    taken = fmaf(factors[i], f32_of(value[d]), taken);
            }
            mix[d] = taken;
        }
        __syncthreads();
    }
    const int64_t out = (int64_t)i * a.splits + split;
    if (me == 0 && a.weights) {
        a.weights[out * 2] = sum > 0 ? largest : 0;
        a.weights[out * 2 + 1] = sum;
    }
    const float factor = a.weights ? 1.0f : 1.0f / sum;
    float *to = a.mixes + out * a.value_width;
    for (int d = me; d < a.value_width; d += (int)blockDim.x) to[d] = mix[d] * factor;
}

SL_CUDA_KERNEL(sl_sdpa_plain_f32, sl_sdpa_splits, SL_CUDA_SPLIT) {
    SL_DYNAMIC_SHARED(float, shared);
    attend_plain<float>(a, shared);
}
SL_CUDA_KERNEL(sl_sdpa_plain_f16, sl_sdpa_splits, SL_CUDA_SPLIT) {
    SL_DYNAMIC_SHARED(float, shared);
    attend_plain<half_bits>(a, shared);
}

/* ---- merging splits ---- */

/* One block per query, group of splits and SL_CUDA_JOIN_COLUMNS columns.  The LISTS threads of a
 * column take every LISTS-th split; their sums are added in order.  Shared memory: a factor per
 * split. */
SL_CUDA_KERNEL(sl_sdpa_join_any, sl_sdpa_joined, SL_CUDA_JOIN_THREADS) {
    enum { COLUMNS = SL_CUDA_JOIN_COLUMNS, LISTS = SL_CUDA_JOIN_THREADS / COLUMNS, AHEAD = 4 };
    SL_DYNAMIC_SHARED(float, factors);
    __shared__ float parts[LISTS][COLUMNS];
    const int me = (int)threadIdx.x, list = me / COLUMNS;
    const int column = (int)blockIdx.y * COLUMNS + me % COLUMNS;
    const int first = (int)(blockIdx.x % a.groups) * a.group;
    const int count = min(a.group, a.splits - first);
    const int64_t at = (int64_t)(blockIdx.x / a.groups) * a.splits + first;
    const float *weights = a.weights + at * 2, *mixes = a.mixes + at * a.width + column;
    const bool has_column = column < a.width;
    float near[AHEAD]; /* loads in flight together; mixes of empty splits are uninitialised */
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        const int s = list + i * LISTS;
        const bool is_there = has_column && s < count && weights[s * 2 + 1] > 0;
        near[i] = is_there ? mixes[(int64_t)s * a.width] : 0.0f;
    }
    float largest = -INFINITY, sum = 0;
    for (int s = me; s < count; s += (int)blockDim.x)
        if (weights[s * 2 + 1] > 0) largest = fmaxf(largest, weights[s * 2]);
    largest = block_max(largest);
    for (int s = me; s < count; s += (int)blockDim.x) {
        const float own = weights[s * 2 + 1];
        factors[s] = own > 0 ? expf(weights[s * 2] - largest) : 0.0f;
        sum += factors[s] * own;
    }
    sum = block_sum(sum);
    __syncthreads();
    float mix = 0;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        const int s = list + i * LISTS;
        if (s < count && factors[s] > 0) mix = fmaf(factors[s], near[i], mix);
    }
    for (int s = list + AHEAD * LISTS; s < count; s += LISTS)
        if (has_column && factors[s] > 0) mix = fmaf(factors[s], mixes[(int64_t)s * a.width], mix);
    parts[list][me % COLUMNS] = mix;
    __syncthreads();
    if (a.sinks) { /* only where one group has all splits */
        const float sink = a.sinks[blockIdx.x % a.query_heads], most = fmaxf(largest, sink);
        const float keep = expf(largest - most);
        sum = (sum * keep + expf(sink - most)) / keep;
    }
    if (list == 0 && has_column) {
        for (int i = 1; i < LISTS; i++) mix += parts[i][me];
        a.out[(int64_t)blockIdx.x * a.width + column] = a.out_weights ? mix : mix / sum;
    }
    if (me == 0 && blockIdx.y == 0 && a.out_weights) {
        a.out_weights[(int64_t)blockIdx.x * 2] = sum > 0 ? largest : 0;
        a.out_weights[(int64_t)blockIdx.x * 2 + 1] = sum;
    }
}

/* One thread per query and four columns, for few splits and many queries. */
SL_CUDA_KERNEL(sl_sdpa_join_few, sl_sdpa_joined, SL_CUDA_JOIN_THREADS) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int lanes = a.width / 4;
    const int64_t query = i / lanes;
    if (query >= a.queries) return;
    const float *weights = a.weights + query * a.splits * 2;
    const float *mixes = a.mixes + query * a.splits * a.width + i % lanes * 4;
    float largest = -INFINITY, sum = 0;
    for (int s = 0; s < a.splits; s++)
        if (weights[2 * s + 1] > 0) largest = fmaxf(largest, weights[2 * s]);
    float4 mix = make_float4(0, 0, 0, 0);
#pragma unroll 2
    for (int s = 0; s < a.splits; s++) {
        const float own = weights[2 * s + 1];
        if (!(own > 0)) continue;
        const float factor = expf(weights[2 * s] - largest);
        const float4 x = *(const float4 *)(mixes + (int64_t)s * a.width);
        sum += factor * own;
        add_times(mix, factor, x);
    }
    if (a.sinks) {
        const float sink = a.sinks[query % a.query_heads], most = fmaxf(largest, sink);
        const float keep = expf(largest - most);
        sum = (sum * keep + expf(sink - most)) / keep;
    }
    *(float4 *)(a.out + query * a.width + i % lanes * 4) =
        make_float4(mix.x / sum, mix.y / sum, mix.z / sum, mix.w / sum);
}
