/* sdpa_step.cu - Attention of one row, from the outputs of its projections (sdpa_few.cuh): norms
 * and RoPE, the write to the cache, the splits; then merging them, with an optional gate.
 *
 * No launch that may still be running writes this cache, so earlier positions are loaded before
 * follow().  The block with the row's own position writes its key and value both to the cache and
 * to the operands that it has loaded. */
#include "runtime/cuda/kernels/head.cuh"
#include "runtime/cuda/kernels/norm.cuh"
#include "runtime/cuda/kernels/sdpa_few.cuh"
#include "runtime/cuda/kernels/sdpa_step.h"

/* The row's own key, rounded to the type of the cache. */
template <int D> struct own_key {
    float squares[D / WARP]; /* sums of squares, per warp */
    uint16_t halves[D];
};

/* The work of a block: positions from `first` on, of one KV head. */
struct step_place {
    int first, own; /* own: the row's position */
    range older;    /* the visible positions before it */
    int head;
    int64_t own_at; /* the row's position in the cache (place_at), where the block has it */
    bool has_own, writes;
};
template <int D> DEVICE step_place place_of(const sl_sdpa_splits &a) {
    const cached_row row = row_of(a, 0);
    const int chunks = (a.ratio + SL_CUDA_FEW_QUERIES - 1) / SL_CUDA_FEW_QUERIES;
    step_place p;
    p.first = (int)blockIdx.x * SPLIT;
    p.own = row.count - 1;
    p.older = {row.first, p.own};
    p.head = (int)blockIdx.y / chunks;
    p.has_own = p.own >= p.first && p.own < p.first + SPLIT;
    p.own_at = p.has_own ? place_at(a, 0, a.heads, p.head, p.own) : 0;
    p.writes = p.has_own && (int)blockIdx.y % chunks == 0;
    return p;
}

/* First position and element of a lane's keys and values; both as in attend_few. */
struct lane_place {
    int from, element;
};
template <int D> DEVICE lane_place lane_place_of(const step_place &p) {
    enum { STRIPES = few<D, 1>::STRIPES };
    return {p.first + warp_id() / STRIPES * SIDE, warp_id() % STRIPES * SIDE};
}

template <int D>
DEVICE void ask_older(const sl_sdpa_splits &a, few<D, 1> &s, const step_place &p,
                      uint4 (&near)[LOADS]) {
    const lane_place l = lane_place_of<D>(p);
    const int slot = slot_of(a, 0, l.from); /* of the warp: loaded before it is known to be used */
    const bool is_used = l.from < p.older.end && l.from + SIDE > p.older.first;
    const int64_t place = is_used ? place_in(a, 0, slot, a.heads, p.head, l.from) : 0;
    const uint16_t *keys = (const uint16_t *)a.keys + place * D;
    const uint16_t *values = (const uint16_t *)a.values + place * D;
    const int r = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int position = l.from + r * 8, d = l.element + 4 * i + c;
        const int64_t at = (int64_t)(r / 2 * D + d) * KV_LANES + r % 2 * 8;
        const bool is_seen = position + 8 > p.older.first && position < p.older.end;
        near[i] = is_seen ? load_bits(keys + at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int position = l.from + 4 * i + c;
        if (position == p.own) continue;
        copy_start(&s.values[i][threadIdx.x],
                   values + (int64_t)(position - l.from) * D + l.element + r * 8,
                   position >= p.older.first && position < p.older.end);
    }
    copy_commit();
}

/* Inserts the row's own value into the operands: eight elements by each lane that multiplies it. */
template <int D>
DEVICE void put_own_value(const sl_sdpa_step &a, few<D, 1> &s, const step_place &p) {
    const lane_place l = lane_place_of<D>(p);
    const int i = (p.own - l.from) / 4, d = l.element + lane_id() / 4 * 8;
    if (p.own < l.from || i >= LOADS || (p.own - l.from) % 4 != lane_id() % 4) return;
    const float *v = a.append.v + (int64_t)p.head * D + d;
    const float4 low = four(v, 0), high = four(v, 4);
    const uint4 x = make_uint4(f16_pair(low.x, low.y), f16_pair(low.z, low.w),
                               f16_pair(high.x, high.y), f16_pair(high.z, high.w));
    s.values[i][threadIdx.x] = x;
    if (p.writes) *(uint4 *)((uint16_t *)a.append.values + p.own_at * D + d) = x;
}

/* Inserts the row's own key into the loaded keys (eight positions of one element each). */
template <int D>
DEVICE void insert_own_key(const own_key<D> &key, const step_place &p, uint4 (&near)[LOADS]) {
    const lane_place l = lane_place_of<D>(p);
    const int k = p.own - l.from - lane_id() / 4 * 8;
    if (k < 0 || k >= 8) return;
    unsigned order[4];
#pragma unroll
    for (int j = 0; j < 4; j++) order[j] = k / 2 != j ? 0x3210 : k % 2 ? 0x5410 : 0x3254;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const unsigned half = key.halves[l.element + 4 * i + lane_id() % 4];
        near[i] = make_uint4(
            __byte_perm(near[i].x, half, order[0]), __byte_perm(near[i].y, half, order[1]),
            __byte_perm(near[i].z, half, order[2]), __byte_perm(near[i].w, half, order[3]));
    }
}

/* One thread per element. */
template <int D>
DEVICE void make_own_key(const sl_cache_append &a, own_key<D> &key, const step_place &p,
                         const element &e) {
    float squares = 0;
#pragma unroll
    for (int w = 0; w < D / WARP; w++) squares += key.squares[w];
    const int d = (int)threadIdx.x;
    const uint16_t half = f16_of_f32(changed(a.change, e, inverse_rms(a.change, squares)));
    key.halves[d] = half;
    if (!p.writes) return;
    const int64_t block = p.own_at / KV_LANES * KV_LANES;
    ((uint16_t *)a.keys)[block * D + (int64_t)d * KV_LANES + p.own_at % KV_LANES] = half;
}

template <int D> DEVICE void put_changed_queries(const sl_sdpa_step &a, few<D, 1> &s) {
    for (int n = warp_id(); n < SL_CUDA_FEW_QUERIES; n += few<D, 1>::WARPS) {
        const float *query = a.splits.q + s.at[n] * a.query_step;
        float x[D / WARP];
#pragma unroll
        for (int i = 0; i < D / WARP; i++) x[i] = 0;
        if (s.count[n]) /* warp-uniform */
            change_head(a.query, query, 0, [&](int i, float value) {
#pragma unroll
                for (int k = 0; k < D / WARP; k++)
                    if (k == i) x[k] = value;
            });
        put_query<D, 1>(s, n, x, a.splits.scale);
    }
}

template <int D> DEVICE void attend_step(const sl_sdpa_step &a, few<D, 1> &s) {
    __shared__ own_key<D> key;
    const sl_sdpa_splits &splits = a.splits;
    lead();
    const step_place p = place_of<D>(splits);
    (void)set_queries<D, 1>(splits, s, {0, 1});
    if (p.first > p.own || p.first + SPLIT <= p.older.first) {
        follow();
        leave_empty<D, 1>(splits, s);
        return;
    }
    uint4 near[LOADS];
    ask_older<D>(splits, s, p, near);
    follow();
    element e = {};
    if (p.has_own) {
        const sl_head_change &change = a.append.change;
        e = load_element(change, a.append.k + (int64_t)p.head * D, 0, (int)threadIdx.x);
        put_own_value<D>(a, s, p);
        const float squares = warp_sum(e.own * e.own);
        if (lane_id() == 0) key.squares[warp_id()] = squares;
    }
    __syncthreads();
    if (p.has_own) make_own_key<D>(a.append, key, p, e);
    put_changed_queries<D>(a, s);
    __syncthreads();
    if (p.has_own) insert_own_key<D>(key, p, near);
    score<D, 1>(s, near);
    __syncthreads();
    weigh<D, 1>(splits, s, p.first);
    copy_wait<0>();
    __syncthreads();
    mix<D, 1>(splits, s);
}

#define STEP(D)                                                                                    \
    SL_CUDA_KERNEL_AHEAD(sl_sdpa_step_##D, sl_sdpa_step, 512) { /* 2 resident blocks of D 256 */   \
        SL_DYNAMIC_SHARED(unsigned char, shared);                                                  \
        attend_step<D>(a, *(few<D, 1> *)shared);                                                   \
    }
STEP(64)
STEP(128)
STEP(256)

/* ---- merging splits ---- */

/* One block per query and SL_CUDA_MERGE_COLUMNS columns; a thread sums four columns over every
 * LISTS-th split, and the lists are added in order.  Splits after the row's position or before its
 * window are empty.  Shared memory: a factor per split. */
enum {
    MERGE_LANES = SL_CUDA_MERGE_COLUMNS / 4,
    LISTS = SL_CUDA_MERGE_THREADS / MERGE_LANES,
    MERGE_AHEAD = 4
};

/* An attention sink is one more score without a value. */
DEVICE float sum_with_sink(const sl_sdpa_joined &a, float largest, float sum) {
    if (!a.sinks) return sum;
    const float sink = a.sinks[blockIdx.x % a.query_heads], most = fmaxf(largest, sink);
    const float keep = expf(largest - most);
    return (sum * keep + expf(sink - most)) / keep;
}

/* Computes the factors of all splits; returns the denominator. */
DEVICE float merge_factors(const sl_sdpa_joined &a, float *factors, int count) {
    const float *weights = a.weights + (int64_t)blockIdx.x * a.splits * 2;
    float largest = -INFINITY, sum = 0;
    for (int s = (int)threadIdx.x; s < count; s += (int)blockDim.x)
        if (weights[s * 2 + 1] > 0) largest = fmaxf(largest, weights[s * 2]);
    largest = block_max(largest);
    for (int s = (int)threadIdx.x; s < count; s += (int)blockDim.x) {
        const float own = weights[s * 2 + 1];
        factors[s] = own > 0 ? expf(weights[s * 2] - largest) : 0.0f;
        sum += factors[s] * own;
    }
    return sum_with_sink(a, largest, block_sum(sum));
}

/* Called by a whole warp; lanes with `kept` false hold duplicates. */
DEVICE void finish_merge(const sl_sdpa_merge_step &a, int column, bool kept, float4 y) {
    const sl_sdpa_joined &j = a.joined;
    const int64_t query = blockIdx.x;
    if (!a.gate) {
        if (kept) *(float4 *)(j.out + query * j.width + column) = y;
        return;
    }
    const float4 gate = four(a.gate, query * a.gate_step + column);
    y = make_float4(y.x * sigmoid(gate.x), y.y * sigmoid(gate.y), y.z * sigmoid(gate.z),
                    y.w * sigmoid(gate.w));
    quantise_eight(a.codes, (query * j.width + column) / SL_CUDA_GROUP_COLS, kept, y);
}

SL_CUDA_KERNEL_AHEAD(sl_sdpa_merge_row, sl_sdpa_merge_step, SL_CUDA_MERGE_THREADS) {
    SL_DYNAMIC_SHARED(float, factors);
    __shared__ float4 parts[LISTS][MERGE_LANES];
    const sl_sdpa_joined &j = a.joined;
    const int lane = (int)threadIdx.x % MERGE_LANES, list = (int)threadIdx.x / MERGE_LANES;
    const int column = (int)blockIdx.y * SL_CUDA_MERGE_COLUMNS + 4 * lane;
    const int own = a.positions[0], count = max(min(j.splits, own / SL_CUDA_SPLIT + 1), 1);
    const int begin = a.window > 0 ? max(own + 1 - a.window, 0) / SL_CUDA_SPLIT : 0;
    const float *mixes = j.mixes + (int64_t)blockIdx.x * j.splits * j.width + column;
    lead();
    follow();
    float4 near[MERGE_AHEAD]; /* loads issued before it is known which splits are empty */
#pragma unroll
    for (int i = 0; i < MERGE_AHEAD; i++) {
        const int s = list + i * LISTS;
        near[i] =
            s >= begin && s < count ? four(mixes, (int64_t)s * j.width) : make_float4(0, 0, 0, 0);
    }
    const float sum = merge_factors(j, factors, count);
    float4 mix = make_float4(0, 0, 0, 0);
    for (int first = list; first < count; first += MERGE_AHEAD * LISTS) {
#pragma unroll
        for (int i = 0; i < MERGE_AHEAD; i++) {
            const int s = first + i * LISTS, next = s + MERGE_AHEAD * LISTS;
            if (s < count && factors[s] > 0) add_times(mix, factors[s], near[i]);
            if (next >= begin && next < count) near[i] = four(mixes, (int64_t)next * j.width);
        }
    }
    parts[list][lane] = mix;
    __syncthreads();
    if (warp_id() > 0) return;
    mix = parts[0][lane];
#pragma unroll
    for (int i = 1; i < LISTS; i++) add_times(mix, 1.0f, parts[i][lane]);
    finish_merge(a, column, list == 0,
                 make_float4(mix.x / sum, mix.y / sum, mix.z / sum, mix.w / sum));
}
