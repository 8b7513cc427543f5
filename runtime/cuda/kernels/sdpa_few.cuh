/* sdpa_few.cuh - Attention of few rows over an f16 cache, at the bandwidth of reading the cache:
 * the work of a block.
 *
 * A block takes SL_CUDA_SPLIT positions of a KV head and the queries of a few rows of one slot that
 * attend to them.  In the tensor-core products, positions (then elements) are rows and queries are
 * columns.  The order of rows and of k is permuted so that 16 contiguous bytes of the cache are mma
 * operands of a single lane: each lane loads exactly the keys (into registers) and values (into
 * shared memory that only it reads) that it multiplies, and the cache is neither transposed nor
 * shared between lanes.  Queries and factors are split into two f16, so that results are f32 except
 * for the last bits. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_FEW_CUH
#define SL_RUNTIME_CUDA_KERNELS_SDPA_FEW_CUH
#include "runtime/cuda/kernels/copy.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/sdpa.cuh"

enum {
    SPLIT = SL_CUDA_SPLIT,
    SIDE = 64,         /* a warp multiplies SIDE positions by SIDE elements */
    STEPS = SIDE / 16, /* mma steps over elements (scores) or positions (mixes) */
    LOADS = 4 * STEPS, /* 16-byte loads per lane */
    FRAGMENT = 8       /* f16 per lane and step: four high halves, then four low halves */
};

/* Shared memory of a block. */
template <int D, int TILES> struct few {
    enum {
        QUERIES = SL_CUDA_FEW_QUERIES * TILES,
        STRIPES = D / SIDE, /* SIDE elements each */
        WARPS = SPLIT / SIDE * STRIPES,
        FRAGMENTS = D / 16 > SPLIT / 16 ? D / 16 : SPLIT / 16
    };
    uint4 values[LOADS][WARPS * WARP];
    float scores[STRIPES][QUERIES][SPLIT]; /* partial sums per stripe; later mixes [QUERIES][D] */
    uint16_t fragments[FRAGMENTS][TILES][WARP][FRAGMENT]; /* `b`: of queries; later of factors */
    float scale[QUERIES];                                 /* of a query's scores */
    int first[QUERIES], count[QUERIES];                   /* positions; count 0: no query */
    int64_t at[QUERIES];                                  /* index of the query */
};

/* The lane and the slot of its fragment that hold index k (element or position within a step of 16)
 * of column n. */
DEVICE int fragment_lane(int n, int k) {
    return 4 * (n % 8) + k % 4;
}
DEVICE int fragment_slot(int k) {
    return k / 4;
}

/* Rows [first, end) of one sequence that block z takes; empty where another block takes row z. */
DEVICE range rows_of_block(const sl_sdpa_splits &a, int most) {
    const int t = (int)blockIdx.z;
    int run = t, end = t + 1;
    while (run > 0 && continues(a, run)) run--;
    if ((t - run) % most) return {t, t};
    while (end < a.rows && end < t + most && continues(a, end)) end++;
    return {t, end};
}

/* Sets up the block's queries; returns the union of the positions that its rows attend to. */
template <int D, int TILES>
DEVICE range set_queries(const sl_sdpa_splits &a, few<D, TILES> &s, range rows) {
    enum { QUERIES = few<D, TILES>::QUERIES };
    const int chunks = (a.ratio + QUERIES - 1) / QUERIES;
    const int head = (int)blockIdx.y / chunks, chunk = (int)blockIdx.y % chunks;
    range seen = {INT32_MAX, 0};
    for (int t = rows.first; t < rows.end; t++) {
        const cached_row row = row_of(a, t);
        seen = {min(seen.first, row.first), max(seen.end, row.count)};
    }
    if ((int)threadIdx.x < QUERIES) {
        const int i = (int)threadIdx.x + chunk * QUERIES; /* among the queries of this head */
        const int t = rows.first + i / a.ratio;
        const bool is_there = t < rows.end;
        const cached_row row = is_there ? row_of(a, t) : cached_row{0, 0};
        s.first[threadIdx.x] = row.first;
        s.count[threadIdx.x] = row.count;
        s.at[threadIdx.x] = is_there ? ((int64_t)t * a.heads + head) * a.ratio + i % a.ratio : 0;
    }
    return seen;
}

/* Stores query n, of which a lane has elements lane + 32 i, as `b` fragments [element / 16]. */
template <int D, int TILES>
DEVICE void put_query(few<D, TILES> &s, int n, const float (&x)[D / WARP], float scale) {
    float most = 0;
#pragma unroll
    for (int i = 0; i < D / WARP; i++) most = fmaxf(most, fabsf(x[i]));
    const power p = power_for(warp_max(most));
    if (lane_id() == 0) s.scale[n] = p.up * scale;
#pragma unroll
    for (int i = 0; i < D / WARP; i++) {
        const int d = lane_id() + WARP * i, k = d % 16;
        uint16_t *to = s.fragments[d / 16][n / 8][fragment_lane(n, k)] + fragment_slot(k);
        const uint16_t high = f16_of_f32(x[i] * p.down);
        to[0] = high;
        to[4] = low_half(x[i] * p.down, high);
    }
}
template <int D, int TILES> DEVICE void put_queries(const sl_sdpa_splits &a, few<D, TILES> &s) {
    for (int n = warp_id(); n < few<D, TILES>::QUERIES; n += few<D, TILES>::WARPS) {
        const float *query = a.q + s.at[n] * D;
        float x[D / WARP];
#pragma unroll
        for (int i = 0; i < D / WARP; i++) x[i] = s.count[n] ? query[lane_id() + WARP * i] : 0.0f;
        put_query<D, TILES>(s, n, x, a.scale);
    }
}

DEVICE unsigned word_of(uint4 x, int j) {
    return j == 0 ? x.x : j == 1 ? x.y : j == 2 ? x.z : x.w;
}

/* The `a` fragment of 16 x 16 tile j, from the lane's four 16-byte loads (one per k index that it
 * holds).  Bytes 4j to 4j + 3 of a load are rows r and r + 8 of tile j. */
DEVICE void operands_of(unsigned (&out)[4], const uint4 (&x)[4], int j) {
    out[0] = __byte_perm(word_of(x[0], j), word_of(x[1], j), 0x5410);
    out[1] = __byte_perm(word_of(x[0], j), word_of(x[1], j), 0x7632);
    out[2] = __byte_perm(word_of(x[2], j), word_of(x[3], j), 0x5410);
    out[3] = __byte_perm(word_of(x[2], j), word_of(x[3], j), 0x7632);
}

/* sums[n][j] += tile j (16 rows of x) times query tile n, high and low halves. */
template <int TILES>
DEVICE void multiply(float (&sums)[TILES][4][4], const uint4 (&x)[4],
                     const uint16_t (*fragments)[WARP][FRAGMENT]) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        unsigned rows[4];
        operands_of(rows, x, j);
#pragma unroll
        for (int n = 0; n < TILES; n++) {
            const uint4 both = load_bits(fragments[n][lane_id()]);
            const unsigned high[2] = {both.x, both.y}, low[2] = {both.z, both.w};
            mma_f16(sums[n][j], rows, high);
            mma_f16(sums[n][j], rows, low);
        }
    }
}

/* Swizzle of the scores that avoids bank conflicts in stores and loads. */
DEVICE int score_at(int query, int position) {
    const int c = query % 8 / 2;
    return (position / 4 ^ (c % 2 | c / 2 * 4)) * 4 + position % 4;
}

/* Partial scores: keys of SIDE positions and a stripe of elements, times the queries. */
template <int D, int TILES> DEVICE void score(few<D, TILES> &s, const uint4 (&keys)[LOADS]) {
    enum { STRIPES = few<D, TILES>::STRIPES };
    const int stripe = warp_id() % STRIPES, side = warp_id() / STRIPES;
    const int r = lane_id() / 4, c = lane_id() % 4;
    float sums[TILES][4][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const uint4 x[4] = {keys[4 * step], keys[4 * step + 1], keys[4 * step + 2],
                            keys[4 * step + 3]};
        multiply<TILES>(sums, x, s.fragments[stripe * STEPS + step]);
    }
#pragma unroll
    for (int n = 0; n < TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) { /* lane's query i % 2, half i / 2 of its 8 positions */
            const int query = 8 * n + 2 * c + i % 2, j = i / 2 * 2;
            const float4 four = make_float4(sums[n][j][i % 2], sums[n][j][2 + i % 2],
                                            sums[n][j + 1][i % 2], sums[n][j + 1][2 + i % 2]);
            const int position = side * SIDE + r * 8 + i / 2 * 4;
            *(float4 *)&s.scores[stripe][query][score_at(query, position)] = four;
        }
}

/* Softmax within the split: scores become factors, stored as `b` fragments [position / 16].  One
 * warp per query. */
template <int D, int TILES>
DEVICE void weigh(const sl_sdpa_splits &a, few<D, TILES> &s, int first) {
    for (int n = warp_id(); n < few<D, TILES>::QUERIES; n += few<D, TILES>::WARPS) {
        float x[SPLIT / WARP], largest = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < SPLIT / WARP; i++) {
            const int p = lane_id() + WARP * i;
            x[i] = 0;
            for (int g = 0; g < few<D, TILES>::STRIPES; g++) x[i] += s.scores[g][n][score_at(n, p)];
            const bool is_seen = first + p >= s.first[n] && first + p < s.count[n];
            x[i] = is_seen ? x[i] * s.scale[n] : -INFINITY;
            largest = fmaxf(largest, x[i]);
        }
        largest = warp_max(largest);
        const bool is_empty = first >= s.count[n] || first + SPLIT <= s.first[n];
#pragma unroll
        for (int i = 0; i < SPLIT / WARP; i++) {
            const int p = lane_id() + WARP * i, k = p % 16;
            const float factor = is_empty ? 0.0f : expf(x[i] - largest);
            sum += factor;
            uint16_t *to = s.fragments[p / 16][n / 8][fragment_lane(n, k)] + fragment_slot(k);
            const uint16_t high = f16_of_f32(factor * FACTOR_SCALE);
            to[0] = high;
            to[4] = low_half(factor * FACTOR_SCALE, high);
        }
        sum = warp_sum(sum);
        if (lane_id() == 0 && s.count[n]) {
            float *weights = a.weights + (s.at[n] * a.splits + blockIdx.x) * 2;
            weights[0] = is_empty ? 0.0f : largest;
            weights[1] = sum;
        }
    }
}

/* Mixes: values of SIDE positions and a stripe of elements, times the factors; the sums of the two
 * sides are added through shared memory. */
template <int D, int TILES> DEVICE void mix(const sl_sdpa_splits &a, few<D, TILES> &s) {
    enum { STRIPES = few<D, TILES>::STRIPES };
    const int stripe = warp_id() % STRIPES, side = warp_id() / STRIPES;
    const int r = lane_id() / 4, c = lane_id() % 4;
    float sums[TILES][4][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        uint4 x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = s.values[4 * step + i][threadIdx.x];
        multiply<TILES>(sums, x, s.fragments[side * STEPS + step]);
    }
    float4 *mixes = (float4 *)&s.scores[0][0][0]; /* sums of the second side */
    for (int pass = 0; pass < 2; pass++) {
        if (pass) __syncthreads();
        if (side == pass) continue;
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) { /* indices as in score */
            const int n = i / 4, query = 8 * n + 2 * c + i % 2, j = i / 2 % 2 * 2;
            const float *x = &sums[n][j][i % 2], *y = &sums[n][j + 1][i % 2];
            const int d = stripe * SIDE + r * 8 + i / 2 % 2 * 4;
            float4 &other = mixes[(query * D + d) / 4];
            if (pass == 0) {
                other = make_float4(x[0], x[2], y[0], y[2]);
            } else if (s.count[query]) {
                const float f = 1.0f / FACTOR_SCALE;
                *(float4 *)&a.mixes[(s.at[query] * a.splits + blockIdx.x) * D + d] =
                    make_float4((x[0] + other.x) * f, (x[2] + other.y) * f, (y[0] + other.z) * f,
                                (y[2] + other.w) * f);
            }
        }
    }
}

/* Stores the weights of a split with no visible position. */
template <int D, int TILES> DEVICE void leave_empty(const sl_sdpa_splits &a, few<D, TILES> &s) {
    if (threadIdx.x >= few<D, TILES>::QUERIES || !s.count[threadIdx.x]) return;
    float *weights = a.weights + (s.at[threadIdx.x] * a.splits + blockIdx.x) * 2;
    weights[0] = weights[1] = 0;
}
#endif
