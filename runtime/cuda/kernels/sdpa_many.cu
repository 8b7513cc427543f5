/* sdpa_many.cu - Attention of many rows over an f16 cache: tiles of queries against tiles of
 * positions, with online softmax (as in FlashAttention).
 *
 * A block takes the queries of some rows that read one KV head, 16 per warp, and iterates over the
 * positions of their slots (or a split of them).  Copies overlap computation: the values of a tile
 * are loaded while its scores are computed, the keys of the next tile while the mixes are.  A warp
 * keeps its mixes in registers; scores become operands of the second product in place.  Queries and
 * factors are split into two f16, so that results are f32 except for the last bits. */
#include "runtime/cuda/kernels/copy.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/sdpa.cuh"

enum { ROWS = 16 }; /* queries per warp */

/* Shared memory of a block: rows of 16-byte chunks, swizzled or padded so that loading eight rows
 * of a matrix has no bank conflicts. */
template <int D, int WARPS, int TILE> struct many {
    enum { QUERIES = ROWS * WARPS, CHUNKS = D / 8, BLOCKS = TILE / KV_LANES };
    uint4 high[QUERIES][CHUNKS], low[QUERIES][CHUNKS];
    uint4 keys[BLOCKS][D][2];
    uint4 values[TILE][CHUNKS + 1];
    float scale[QUERIES];               /* of scores */
    int row[QUERIES];                   /* -1: no query */
    int goes_on[QUERIES];               /* whether it is of the sequence of the query before it */
    int first[QUERIES], count[QUERIES]; /* visible positions [first, count) */
    int64_t at[QUERIES];                /* index of the query */
};
DEVICE int chunk_at(int row, int chunk) {
    return chunk ^ row % 8;
}
DEVICE int key_half_at(int element, int half) {
    return half ^ element / 4 % 2;
}

/* ---- queries ---- */

template <int D, int WARPS, int TILE>
DEVICE void set_queries(const sl_sdpa_splits &a, many<D, WARPS, TILE> &s) {
    enum { QUERIES = ROWS * WARPS };
    const int rows = QUERIES / a.ratio;
    const int tile = (int)(gridDim.x - 1 - blockIdx.x); /* later rows first: they take longest */
    if ((int)threadIdx.x < QUERIES) {
        const int i = (int)threadIdx.x, t = tile * rows + i / a.ratio;
        const bool is_there = i < rows * a.ratio && t < a.rows;
        const cached_row row = is_there ? row_of(a, t) : cached_row{0, 0};
        s.row[i] = is_there ? t : -1;
        s.goes_on[i] = is_there && (i % a.ratio || (i > 0 && continues(a, t)));
        s.first[i] = row.first;
        s.count[i] = row.count;
        s.at[i] = ((int64_t)t * a.heads + blockIdx.y) * a.ratio + i % a.ratio;
    }
}

/* One warp per query; a lane has D / 32 contiguous elements. */
template <int D, int WARPS, int TILE>
DEVICE void put_queries(const sl_sdpa_splits &a, many<D, WARPS, TILE> &s) {
    enum { EACH = D / WARP };
    for (int n = warp_id(); n < ROWS * WARPS; n += WARPS) {
        const float *query = a.q + s.at[n] * D + lane_id() * EACH;
        float x[EACH], most = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            x[i] = s.row[n] >= 0 ? query[i] : 0.0f;
            most = fmaxf(most, fabsf(x[i]));
        }
        const power p = power_for(warp_max(most));
        if (lane_id() == 0) s.scale[n] = p.up * a.scale;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int d = lane_id() * EACH + i, at = chunk_at(n, d / 8) * 8 + d % 8;
            const uint16_t high = f16_of_f32(x[i] * p.down);
            ((uint16_t *)s.high[n])[at] = high;
            ((uint16_t *)s.low[n])[at] = low_half(x[i] * p.down, high);
        }
    }
}

/* ---- tiles of the cache ---- */

/* A tile of a KV head of a sequence, of which positions up to `count` are read. */
struct source {
    const uint16_t *keys, *values;
    int first, count;
};
template <int D, int WARPS, int TILE>
DEVICE void ask_keys(many<D, WARPS, TILE> &s, const source &from) {
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TILE * D / 8; i += WARPS * WARP) {
        const int block = i / (2 * D), d = i / 2 % D;
        copy_start(&s.keys[block][d][key_half_at(d, i % 2)], from.keys + (int64_t)i * 8,
                   from.first + block * KV_LANES < from.count);
    }
    copy_commit();
}
template <int D, int WARPS, int TILE>
DEVICE void ask_values(many<D, WARPS, TILE> &s, const source &from) {
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TILE * D / 8; i += WARPS * WARP) {
        const int p = i / (D / 8), chunk = i % (D / 8);
        copy_start(&s.values[p][chunk], from.values + (int64_t)i * 8, from.first + p < from.count);
    }
    copy_commit();
}

/* ---- a warp's work: 16 queries; a lane holds results of queries r and r + 8 ---- */

template <int D, int TILE> struct running {
    float mix[D / 8][4];       /* `d` fragments of 8 elements */
    float scores[TILE / 8][4]; /* `d` fragments of 8 positions */
    float largest[2], keep[2];
    float sum[2]; /* over this lane's positions only */
};

/* Unscaled scores.  Tensor cores truncate when they accumulate, so that a long chain is biased:
 * they add up four steps, and the partial sums are added in f32. */
template <int D, int WARPS, int TILE>
DEVICE void score(const many<D, WARPS, TILE> &s, running<D, TILE> &w) {
    enum { STEPS = 4 };
    const int lane = lane_id(), row = warp_id() * ROWS + lane % 16;
    const int element = lane % 16, half = lane / 16;
#pragma unroll 1
    for (int group = 0; group < D / 16; group += STEPS) {
        float sums[TILE / 8][4] = {};
#pragma unroll
        for (int step = group; step < group + STEPS; step++) {
            unsigned high[4], low[4];
            const int chunk = chunk_at(row, 2 * step + half);
            load_matrices(high, &s.high[row][chunk]);
            load_matrices(low, &s.low[row][chunk]);
#pragma unroll
            for (int block = 0; block < TILE / KV_LANES; block++) {
                unsigned x[4];
                load_transposed(x, &s.keys[block][16 * step + element][key_half_at(element, half)]);
                const unsigned first[2] = {x[0], x[1]}, second[2] = {x[2], x[3]};
                mma_f16(sums[2 * block], high, first);
                mma_f16(sums[2 * block + 1], high, second);
                mma_f16(sums[2 * block], low, first);
                mma_f16(sums[2 * block + 1], low, second);
            }
        }
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                w.scores[n][i] = group ? w.scores[n][i] + sums[n][i] : sums[n][i];
    }
}

/* Online softmax: masks and scales the scores of the tile from position `first` on and turns them
 * into factors; `keep` rescales what was accumulated before. */
template <int D, int WARPS, int TILE>
DEVICE void weigh(const many<D, WARPS, TILE> &s, running<D, TILE> &w, range queries, int first) {
    const int c = lane_id() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int query = warp_id() * ROWS + lane_id() / 4 + 8 * half;
        const bool is_one = query >= queries.first && query < queries.end;
        const int count = is_one ? s.count[query] : 0, least = s.first[query];
        const float scale = s.scale[query];
        float largest = w.largest[half];
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                const int position = first + 8 * n + 2 * c + i % 2;
                float &x = w.scores[n][i];
                x = position >= least && position < count ? x * scale : -INFINITY;
                largest = fmaxf(largest, x);
            }
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
        const float base = largest == -INFINITY ? 0.0f : largest; /* no unmasked position so far */
        w.keep[half] = expf(w.largest[half] - base);
        w.largest[half] = largest;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++)
                sum += w.scores[n][i] = expf(w.scores[n][i] - base);
        w.sum[half] = w.sum[half] * w.keep[half] + sum;
    }
}

/* The factors as `a` fragments, split into high and low f16, per step of 16 positions. */
template <int D, int TILE>
DEVICE void split_factors(const running<D, TILE> &w, unsigned (&high)[TILE / 16][4],
                          unsigned (&low)[TILE / 16][4]) {
#pragma unroll
    for (int step = 0; step < TILE / 16; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *x = &w.scores[2 * step + i / 2][i % 2 * 2];
            const float one = x[0] * FACTOR_SCALE, two = x[1] * FACTOR_SCALE;
            high[step][i] = f16_pair(one, two);
            const float2 rounded = f32_of_f16_pair(high[step][i]);
            low[step][i] = f16_pair(one - rounded.x, two - rounded.y);
        }
}

/* Accumulates the factors times the tile's values, 16 elements at a time; mma chains are short, as
 * in score. */
template <int D, int WARPS, int TILE>
DEVICE void mix(const many<D, WARPS, TILE> &s, running<D, TILE> &w) {
    const int lane = lane_id(), p = lane % 16, half = lane / 16;
    unsigned high[TILE / 16][4], low[TILE / 16][4];
    split_factors(w, high, low);
#pragma unroll
    for (int n = 0; n < D / 16; n++) {
        float sums[2][4] = {}, small[2][4] = {};
#pragma unroll
        for (int step = 0; step < TILE / 16; step++) {
            unsigned x[4];
            load_transposed(x, &s.values[16 * step + p][2 * n + half]);
            const unsigned first[2] = {x[0], x[1]}, second[2] = {x[2], x[3]};
            mma_f16(sums[0], high[step], first);
            mma_f16(sums[1], high[step], second);
            mma_f16(small[0], low[step], first);
            mma_f16(small[1], low[step], second);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float &to = w.mix[2 * n + i / 4][i % 4];
            to = fmaf(to, w.keep[i % 4 / 2], sums[i / 4][i % 4] + small[i / 4][i % 4]);
        }
    }
}

/* Stores the warp's results: of a split, or normalised where there is only one. */
template <int D, int WARPS, int TILE>
DEVICE void put_results(const sl_sdpa_splits &a, const many<D, WARPS, TILE> &s,
                        running<D, TILE> &w) {
    const int r = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = w.sum[half];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        const int n = warp_id() * ROWS + r + 8 * half;
        if (s.row[n] < 0) continue;
        const int64_t at = s.at[n] * a.splits + blockIdx.z;
        const float factor = (a.weights ? 1.0f : 1.0f / sum) / FACTOR_SCALE;
        if (a.weights && c == 0) {
            a.weights[at * 2] = sum > 0 ? w.largest[half] : 0;
            a.weights[at * 2 + 1] = sum;
        }
        float *out = a.mixes + at * D + 2 * c;
#pragma unroll
        for (int i = 0; i < D / 8; i++)
            *(float2 *)(out + 8 * i) =
                make_float2(w.mix[i][2 * half] * factor, w.mix[i][2 * half + 1] * factor);
    }
}

/* ---- a block's work ---- */

/* The tile from position `first` on; tiles begin at multiples of their size, so that each is in one
 * page.  Of the rows of a sequence the last one sees the most. */
template <int D, int WARPS, int TILE>
DEVICE source tile_at(const sl_sdpa_splits &a, const many<D, WARPS, TILE> &s, range queries,
                      int first, int count) {
    const int64_t place = place_at(a, s.row[queries.end - 1], a.heads, (int)blockIdx.y, first) * D;
    return {(const uint16_t *)a.keys + place, (const uint16_t *)a.values + place, first, count};
}

/* The split's tiles of one sequence, for `queries`, which belong to consecutive rows. */
template <int D, int WARPS, int TILE>
DEVICE void attend_sequence(const sl_sdpa_splits &a, many<D, WARPS, TILE> &s, running<D, TILE> &w,
                            range queries) {
    range seen = {INT32_MAX, 0}, own = seen; /* visible to any query of the block; of the warp */
    for (int n = queries.first; n < queries.end; n++) {
        seen = {min(seen.first, s.first[n]), max(seen.end, s.count[n])};
        if (n / ROWS == warp_id()) own = {min(own.first, s.first[n]), max(own.end, s.count[n])};
    }
    const range split = split_of(a, (int)blockIdx.z, seen, TILE);
    if (split.first >= split.end) return;
    source tile = tile_at(a, s, queries, split.first, seen.end);
    ask_keys(s, tile);
    for (int first = split.first; first < split.end; first += TILE) {
        copy_wait<0>();
        __syncthreads(); /* keys have arrived; the previous values are no longer read */
        ask_values(s, tile);
        const bool is_own = first < own.end && first + TILE > own.first;
        if (is_own) {
            score(s, w);
            weigh(s, w, queries, first);
        }
        copy_wait<0>();
        __syncthreads(); /* values have arrived; these keys are no longer read */
        if (first + TILE < split.end) {
            tile = tile_at(a, s, queries, first + TILE, seen.end);
            ask_keys(s, tile);
        }
        if (is_own) mix(s, w);
    }
}

template <int D, int WARPS, int TILE>
DEVICE void attend_many(const sl_sdpa_splits &a, many<D, WARPS, TILE> &s) {
    enum { QUERIES = ROWS * WARPS };
    running<D, TILE> w;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) w.mix[n][i] = 0;
    w.largest[0] = w.largest[1] = -INFINITY;
    w.sum[0] = w.sum[1] = 0;
    set_queries(a, s);
    __syncthreads();
    put_queries(a, s);
    __syncthreads();
    for (int n = 0, end; n < QUERIES && s.row[n] >= 0; n = end) {
        for (end = n + 1; end < QUERIES && s.goes_on[end];) end++;
        attend_sequence(a, s, w, range{n, end});
    }
    put_results(a, s, w);
}

#define MANY(D, WARPS, TILE)                                                                       \
    static_assert(sizeof(many<D, WARPS, TILE>) <= SL_CUDA_MANY_BYTES(D, WARPS, TILE),              \
                  "room in shared memory");                                                        \
    SL_CUDA_KERNEL(sl_sdpa_many_##D##_##WARPS, sl_sdpa_splits, WARPS *WARP) {                      \
        SL_DYNAMIC_SHARED(unsigned char, shared);                                                  \
        attend_many(a, *(many<D, WARPS, TILE> *)shared);                                           \
    }
MANY(64, 8, SL_CUDA_MANY_TILE(8))
MANY(64, 4, SL_CUDA_MANY_TILE(4))
MANY(128, 8, SL_CUDA_MANY_TILE(8))
MANY(128, 4, SL_CUDA_MANY_TILE(4))
MANY(256, 8, SL_CUDA_MANY_TILE(8))
MANY(256, 4, SL_CUDA_MANY_TILE(4))
