/* attention.cu - Attention without a cache: tiles of rows against tiles of positions, with online
 * softmax (as in FlashAttention), so that no [S,T] matrix is stored.
 *
 * A block takes some rows of one KV head, which are the queries of all heads of its group, and
 * iterates over the positions that any of them attends to.  Eight threads share EACH rows: of a
 * tile of scores and of a tile of mixes, a thread has every eighth column.  Everything is computed
 * in REAL: double for f64, else float. */
#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/kernels/number.cuh"
#include <cfloat>

enum {
    LANES = SL_ATTENTION_LANES,
    KEYS = SL_ATTENTION_KEYS,
    DEPTH = SL_ATTENTION_DEPTH,
    KEYS_EACH = KEYS / LANES,
    COLUMNS_EACH = DEPTH / LANES
};

/* Rows are padded by one element, against bank conflicts. */
template <class REAL, int EACH> struct tile {
    enum { ROWS = SL_ATTENTION_THREADS / LANES * EACH };
    int64_t first[ROWS], end[ROWS]; /* the positions that a row attends to */
    REAL query[ROWS][DEPTH + 1];
    REAL other[KEYS][DEPTH + 1]; /* keys, then values */
    REAL weights[ROWS][KEYS + 1];
};

/* What a thread knows about its rows. */
template <class REAL, int EACH> struct running {
    int row, lane; /* the first row of the tile; the first column */
    REAL largest[EACH], keep[EACH];
    REAL sum[EACH]; /* over this thread's columns */
};

DEVICE float exponential(float x) {
    return expf(x);
}
DEVICE double exponential(double x) {
    return exp(x);
}
DEVICE float hyperbolic(float x) {
    return tanhf(x);
}
DEVICE double hyperbolic(double x) {
    return tanh(x);
}
DEVICE float fused(float x, float y, float z) {
    return fmaf(x, y, z);
}
DEVICE double fused(double x, double y, double z) {
    return fma(x, y, z);
}
DEVICE float larger_of(float x, float y) {
    return fmaxf(x, y);
}
DEVICE double larger_of(double x, double y) {
    return fmax(x, y);
}

/* ---- rows ---- */

DEVICE int64_t head_of(const sl_attended &a) {
    return (int64_t)blockIdx.x / a.tiles;
}
/* Later rows first: if the mask is causal they take longest. */
template <int ROWS> DEVICE int64_t first_row(const sl_attended &a) {
    return (a.tiles - 1 - (int64_t)blockIdx.x % a.tiles) * ROWS;
}

template <class REAL, int EACH> DEVICE void set_rows(const sl_attended &a, tile<REAL, EACH> &s) {
    const int me = (int)threadIdx.x;
    const int64_t row = first_row<tile<REAL, EACH>::ROWS>(a) + me;
    if (me >= s.ROWS) return;
    s.first[me] = 0;
    s.end[me] = row < a.rows ? a.keys : 0;
    if (row >= a.rows || a.mask_kind != SL_ATTENDED_BACK) return;
    const int64_t end = a.keys - a.queries + row % a.queries + 1;
    s.end[me] = end > 0 ? end : 0;
    s.first[me] = end > a.window ? end - a.window : 0;
}

/* An attention sink counts as a first score without a value. */
template <int TYPE, class REAL, int EACH>
DEVICE void begin(const sl_attended &a, int64_t first, running<REAL, EACH> &w) {
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int64_t row = first + w.row + r;
        w.largest[r] = -(REAL)FLT_MAX;
        w.sum[r] = 0;
        if (!a.sinks || row >= a.rows) continue;
        const int64_t groups = a.rows / a.queries, own = head_of(a) % a.kv_heads * groups;
        const REAL sink = (REAL)load_real(TYPE, a.sinks, own + row / a.queries);
        w.largest[r] = larger_of(w.largest[r], sink);
        if (w.lane == 0) w.sum[r] = exponential(sink - w.largest[r]);
    }
}

/* ---- scores ---- */

/* How many columns from `column` on are loaded at once. */
DEVICE int columns_at(int64_t width, int64_t column) {
    const int64_t left = width - column;
    return left < DEPTH ? (int)left : (int)DEPTH;
}

/* Loads columns from `column` on of `rows` rows, of which `there` exist; the others are 0. */
template <int TYPE, class REAL>
DEVICE void fill(REAL (*to)[DEPTH + 1], int rows, const void *from, int64_t at, int64_t there,
                 int64_t width, int64_t column) {
    const int n = columns_at(width, column);
    for (int i = (int)threadIdx.x; i < rows * DEPTH; i += SL_ATTENTION_THREADS) {
        const int row = i / DEPTH, d = i % DEPTH;
        if (d >= n) continue;
        to[row][d] =
            row < there ? (REAL)load_real(TYPE, from, (at + row) * width + column + d) : (REAL)0;
    }
}

/* Dot products of this thread's rows with positions first + lane, + LANES, ... of the tile. */
template <int TYPE, class REAL, int EACH>
DEVICE void multiply(const sl_attended &a, tile<REAL, EACH> &s, const running<REAL, EACH> &w,
                     int64_t first, int64_t end, bool fresh, REAL (*scores)[KEYS_EACH]) {
    const int64_t head = head_of(a), row = first_row<tile<REAL, EACH>::ROWS>(a);
    for (int64_t column = 0; column < a.key_dim; column += DEPTH) {
        __syncthreads();
        if (fresh || a.key_dim > DEPTH)
            fill<TYPE>(s.query, s.ROWS, a.q, head * a.rows + row, a.rows - row, a.key_dim, column);
        fill<TYPE>(s.other, KEYS, a.k, head * a.keys + first, end - first, a.key_dim, column);
        __syncthreads();
        const int n = columns_at(a.key_dim, column);
        for (int d = 0; d < n; d++) {
            REAL key[KEYS_EACH];
#pragma unroll
            for (int j = 0; j < KEYS_EACH; j++) key[j] = s.other[w.lane + LANES * j][d];
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                const REAL query = s.query[w.row + r][d];
#pragma unroll
                for (int j = 0; j < KEYS_EACH; j++)
                    scores[r][j] = fused(query, key[j], scores[r][j]);
            }
        }
    }
}

/* The score of row `row` of the head and a position; -inf where masked. */
template <int TYPE, class REAL>
DEVICE REAL finished(const sl_attended &a, int64_t row, int64_t position, REAL product) {
    REAL score = product * (REAL)a.scale;
    const REAL cap = (REAL)a.softcap;
    if (cap > 0) score = hyperbolic(score / cap) * cap;
    if (!a.mask) return score;
    const int64_t head = head_of(a), groups = a.rows / a.queries;
    const int64_t at = head / a.kv_heads * a.mask_by[0] +
                       (head % a.kv_heads * groups + row / a.queries) * a.mask_by[1] +
                       row % a.queries * a.mask_by[2] + position * a.mask_by[3];
    if (a.mask_kind == SL_ATTENDED_BIASED) return score + (REAL)load_real(TYPE, a.mask, at);
    return ((const uint8_t *)a.mask)[at] ? score : -(REAL)INFINITY;
}

/* ---- online softmax ---- */

/* Among the threads that share rows. */
template <class REAL> DEVICE REAL shared_sum(REAL x) {
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
template <class REAL> DEVICE REAL shared_largest(REAL x) {
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) x = larger_of(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

/* Turns products into weights relative to the running maximum; `keep` rescales what was accumulated
 * before. */
template <int TYPE, class REAL, int EACH>
DEVICE void weigh(const sl_attended &a, tile<REAL, EACH> &s, int64_t first,
                  REAL (*scores)[KEYS_EACH], running<REAL, EACH> &w) {
    const int64_t tile_row = first_row<tile<REAL, EACH>::ROWS>(a);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        REAL most = -(REAL)INFINITY;
#pragma unroll
        for (int j = 0; j < KEYS_EACH; j++) {
            const int64_t position = first + w.lane + LANES * j;
            const bool seen = position >= s.first[w.row + r] && position < s.end[w.row + r];
            scores[r][j] = seen ? finished<TYPE>(a, tile_row + w.row + r, position, scores[r][j])
                                : -(REAL)INFINITY;
            most = larger_of(most, scores[r][j]);
        }
        const REAL before = w.largest[r];
        w.largest[r] = larger_of(before, shared_largest(most));
        w.keep[r] = exponential(before - w.largest[r]);
        w.sum[r] *= w.keep[r];
#pragma unroll
        for (int j = 0; j < KEYS_EACH; j++) {
            const REAL weight = exponential(scores[r][j] - w.largest[r]);
            w.sum[r] += weight;
            s.weights[w.row + r][w.lane + LANES * j] = weight;
        }
    }
}

/* ---- mixes: in shared memory, each element is used by one thread only ---- */

template <int TYPE, class REAL, int EACH>
DEVICE void add_values(const sl_attended &a, tile<REAL, EACH> &s, const running<REAL, EACH> &w,
                       int64_t first, int64_t end, bool fresh, REAL *mix) {
    for (int64_t column = 0; column < a.value_dim; column += DEPTH) {
        REAL sums[EACH][COLUMNS_EACH] = {};
        __syncthreads();
        fill<TYPE>(s.other, KEYS, a.v, head_of(a) * a.keys + first, end - first, a.value_dim,
                   column);
        __syncthreads();
        for (int k = 0; k < KEYS; k++) {
            REAL value[COLUMNS_EACH];
#pragma unroll
            for (int c = 0; c < COLUMNS_EACH; c++) value[c] = s.other[k][w.lane + LANES * c];
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                const REAL weight = s.weights[w.row + r][k];
#pragma unroll
                for (int c = 0; c < COLUMNS_EACH; c++)
                    sums[r][c] = fused(weight, value[c], sums[r][c]);
            }
        }
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int c = 0; c < COLUMNS_EACH; c++) {
                const int64_t at = column + w.lane + LANES * c;
                REAL *own = &mix[(w.row + r) * a.value_dim + at];
                if (at < a.value_dim)
                    *own = fresh ? sums[r][c] : fused(*own, w.keep[r], sums[r][c]);
            }
    }
}

template <int TYPE, class REAL, int EACH> DEVICE void attend(const sl_attended &a) {
    typedef tile<REAL, EACH> block;
    SL_DYNAMIC_SHARED(block, shared);
    block &s = *shared;
    REAL *mix = (REAL *)(shared + 1);
    running<REAL, EACH> w = {};
    w.row = (int)threadIdx.x / LANES * EACH;
    w.lane = (int)threadIdx.x % LANES;
    const int64_t row = first_row<block::ROWS>(a);
    begin<TYPE>(a, row, w);
    set_rows(a, s);
    __syncthreads();
    int64_t first = a.keys, end = 0;
    for (int r = 0; r < block::ROWS; r++) {
        if (s.first[r] >= s.end[r]) continue;
        first = s.first[r] < first ? s.first[r] : first;
        end = s.end[r] > end ? s.end[r] : end;
    }
    for (int64_t at = first; at < end; at += KEYS) {
        REAL scores[EACH][KEYS_EACH] = {};
        multiply<TYPE>(a, s, w, at, end, at == first, scores);
        weigh<TYPE>(a, s, at, scores, w);
        add_values<TYPE>(a, s, w, at, end, at == first, mix);
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const REAL sum = shared_sum(w.sum[r]), inverse = sum != 0 ? 1 / sum : (REAL)0;
        const int64_t to = (head_of(a) * a.rows + row + w.row + r) * a.value_dim;
        if (row + w.row + r >= a.rows) continue;
        for (int64_t c = w.lane; c < a.value_dim; c += LANES) {
            const REAL mixed = first < end ? mix[(w.row + r) * a.value_dim + c] : (REAL)0;
            store_number(TYPE, a.out, to + c, number_of(mixed * inverse));
        }
    }
}

/* The number of rows of a tile ends the name. */
#define ATTENTION(TYPE, REAL, ROWS)                                                                \
    static_assert(sizeof(tile<REAL, ROWS / 16>) % sizeof(REAL) == 0, "the mixes are aligned");     \
    SL_CUDA_KERNEL(sl_attention_##TYPE##_##ROWS, sl_attended, SL_ATTENTION_THREADS) {              \
        attend<SL_TYPE_##TYPE, REAL, ROWS / 16>(a);                                                \
    }
ATTENTION(f32, float, 16)
ATTENTION(f16, float, 16)
ATTENTION(bf16, float, 16)
ATTENTION(f64, double, 16)
ATTENTION(f32, float, 64)
ATTENTION(f16, float, 64)
ATTENTION(bf16, float, 64)
