/* delta_chunk.cu - The delta net's recurrence in chunked form: a tile of rows at a time, as small
 * matrix products.
 *
 * A stretch is a run of consecutive rows of one sequence within a tile.  With G the running sum of
 * decay over the stretch, M the memory before it, and i, j rows of the stretch,
 *
 *   (1 + A) U = diag(beta) (V - diag(e^G) K M),   A_ij = beta_i e^(G_i - G_j) (k_i . k_j), j < i
 *   out = diag(e^G) Q M + P U,                    P_ij = e^(G_i - G_j) (q_i . k_j), j <= i
 *   M   = e^G_last M + K^T diag(e^(G_last - G)) U.
 *
 * sl_delta_prepare computes what does not depend on M, with a block per tile and head: P, and the
 * solutions W and U' of (1 + A) W = diag(beta e^G) K and (1 + A) U' = diag(beta) V.  U' is stored
 * in the output buffer.  Then U = U' - W M.  The columns of M are independent of each other: a
 * block of sl_delta_walk takes some columns of a head's memory and iterates over the tiles of a
 * slot.  A_ij and P_ij are 0 if i and j are in different stretches.
 *
 * Products run on tensor cores in 3xTF32: each factor is split into a high and a low part of 11
 * bits, and low times low is dropped.  The products with a low part have accumulators of their own.
 */
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/delta.cuh"
#include "runtime/cuda/kernels/mma.cuh"

enum {
    SIZE = SL_DELTA_SIZE,
    TILE = SL_DELTA_TILE,
    COLUMNS = SL_DELTA_COLUMNS,
    ROW = SL_DELTA_ROW,
    FLAT_ROW = SL_DELTA_FLAT_ROW,
    MIX_ROW = SL_DELTA_MIX_ROW,
    STRIP_ROW = SL_DELTA_STRIP_ROW,
    THREADS = 256
};

/* ---- asynchronous copies ---- */

/* Copies TILE rows of `width` floats to rows with a pitch of `to_row`.  Only the first `there` rows
 * exist; the others are filled with zeros. */
DEVICE void copy_rows(float *to, int to_row, const float *from, int64_t from_row, int width,
                      int there) {
    const int chunks = width / 4;
    for (int i = (int)threadIdx.x; i < TILE * chunks; i += THREADS) {
        const int row = i / chunks, at = i % chunks * 4;
        const bool exists = row < there;
        copy_start(to + row * to_row + at, from + (exists ? row : 0) * from_row + at, exists);
    }
}

/* ---- products ---- */

/* A lane's accumulators of a product of 16 rows by 8 F columns: high times high, and the rest. */
template <int F> struct sums { float large[F][4], small[F][4]; };
template <int F> DEVICE sums<F> no_sums() {
    sums<F> s;
#pragma unroll
    for (int f = 0; f < F; f++)
#pragma unroll
        for (int i = 0; i < 4; i++) s.large[f][i] = s.small[f][i] = 0;
    return s;
}
template <int F> DEVICE float sum_at(const sums<F> &s, int f, int i) {
    return s.large[f][i] + s.small[f][i];
}

/* A lane's fragments of the left and the right factor, split into high and low parts. */
struct left {
    unsigned high[4], low[4];
};
struct right {
    unsigned high[2], low[2];
};
DEVICE void split(float x, unsigned &high, unsigned &low) {
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}
/* Loads a 16 x 8 fragment of the left factor.  `from` is its element at row lane / 4 and column
 * lane % 4; `down` and `along` are the strides from row to row and from column to column. */
DEVICE left left_at(const float *from, int down, int along) {
    left x;
    split(from[0], x.high[0], x.low[0]);
    split(from[8 * down], x.high[1], x.low[1]);
    split(from[4 * along], x.high[2], x.low[2]);
    split(from[8 * down + 4 * along], x.high[3], x.low[3]);
    return x;
}
/* Loads an 8 x 8 fragment of the right factor.  `from` is its element at row lane % 4 and column
 * lane / 4; `down` is the stride from row to row. */
DEVICE right right_at(const float *from, int down) {
    right x;
    split(from[0], x.high[0], x.low[0]);
    split(from[4 * down], x.high[1], x.low[1]);
    return x;
}
template <int F> DEVICE void add_product(sums<F> &s, int f, const left &x, const right &y) {
    mma_tf32(s.small[f], x.low, y.high);
    mma_tf32(s.large[f], x.high, y.high);
    mma_tf32(s.small[f], x.high, y.low);
}

/* ---- stretches ---- */

/* One bit per row of a tile; warp-uniform. */
struct row_bits {
    uint64_t starts; /* first row of a stretch; always set for the first row of the tile */
    uint64_t resets; /* the position is 0: a sequence begins */
    uint64_t mine;   /* the row belongs to the slot in question */
};
DEVICE uint64_t bits_of(bool low, bool high) {
    const unsigned lower = __ballot_sync(ALL_LANES, low);
    return (uint64_t)__ballot_sync(ALL_LANES, high) << 32 | lower;
}
/* What row_bits is computed from: rows lane and lane + 32 of a tile, loaded ahead of use. */
struct row_words {
    int slot[2], before[2], position[2];
    bool exists[2];
};
DEVICE row_words words_of_tile(const sl_delta &d, int tile) {
    row_words words;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = tile * TILE + half * WARP + lane_id();
        const bool exists = row < d.rows;
        words.exists[half] = exists;
        words.slot[half] = exists ? d.slots[row] : -1;
        words.before[half] = exists && row > 0 ? d.slots[row - 1] : -1;
        words.position[half] = exists ? d.positions[row] : -1;
    }
    return words;
}
DEVICE row_bits bits_of_words(const row_words &words, int slot) {
    bool start[2], reset[2], mine[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const bool exists = words.exists[half];
        reset[half] = exists && words.position[half] == 0;
        mine[half] = exists && words.slot[half] == slot;
        start[half] = half * WARP + lane_id() == 0 || reset[half] ||
                      (exists && words.slot[half] != words.before[half]);
    }
    return {bits_of(start[0], start[1]), bits_of(reset[0], reset[1]), bits_of(mine[0], mine[1])};
}
/* The first row of the stretch that contains `row`, and the row after its last. */
DEVICE int stretch_begin(uint64_t starts, int row) {
    return 63 - __clzll((long long)(starts << (63 - row) >> (63 - row)));
}
DEVICE int stretch_end(uint64_t starts, int row, int rows) {
    const uint64_t later = row == 63 ? 0 : starts >> (row + 1);
    return later ? row + __ffsll((long long)later) : rows;
}

/* ---- preparation: what does not depend on the memory ---- */

struct prepared {                       /* per row of a tile, for one head */
    double sums[TILE];                  /* prefix sums of decay over the tile */
    float2 running[TILE];               /* G as the sum of two floats */
    float beta[TILE], faded_beta[TILE]; /* faded: beta e^G */
    int begin[TILE];                    /* first row of the row's stretch */
};

/* Run by one warp: fills t, and writes e^G and e^(G_last - G) to a.fades. */
DEVICE void sum_decay(const sl_delta_tiles &a, int tile, int head, prepared &t) {
    const uint64_t starts = bits_of_words(words_of_tile(a.d, tile), 0).starts;
    const int rows = min((int)TILE, a.d.rows - tile * TILE);
    float *fades = a.fades + ((int64_t)tile * a.d.heads + head) * 2 * TILE;
    double before = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = half * WARP + lane_id();
        const int64_t at = ((int64_t)tile * TILE + row) * a.d.heads + head;
        double sum = row < rows ? (double)a.d.decay[at] : 0.0;
        t.beta[row] = row < rows ? a.d.beta[at] : 0.0f;
#pragma unroll
        for (int i = 1; i < WARP; i *= 2) {
            const double other = __shfl_up_sync(ALL_LANES, sum, (unsigned)i);
            if (lane_id() >= i) sum += other;
        }
        t.sums[row] = sum + before;
        before = __shfl_sync(ALL_LANES, sum + before, WARP - 1);
        if (row < rows) (void)delta_slot(a.d, tile * TILE + row);
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = half * WARP + lane_id(), begin = stretch_begin(starts, row);
        const int last = row < rows ? stretch_end(starts, row, rows) - 1 : row;
        const double sum = t.sums[row] - (begin > 0 ? t.sums[begin - 1] : 0.0);
        t.begin[row] = begin;
        t.running[row].x = (float)sum;
        t.running[row].y = (float)(sum - (double)t.running[row].x);
        fades[row] = expf((float)sum);
        t.faded_beta[row] = t.beta[row] * fades[row];
        fades[TILE + row] = expf((float)(t.sums[last] - t.sums[row]));
    }
}

/* e^(G_i - G_j) if j <= i and both are in one stretch, else 0. */
DEVICE float fade_between(const prepared &t, int i, int j) {
    if (j > i || j < t.begin[i]) return 0;
    return expf(t.running[i].x - t.running[j].x + (t.running[i].y - t.running[j].y));
}

/* The products of 16 rows i of x, from `first` on, with the tile's keys j up to the last of these
 * rows (8 F keys), times e^(G_i - G_j).  If x are the keys, the result times beta is A, which is
 * stored transposed in `mix`; if x are the queries, the result is P. */
struct mixed {
    const float *x, *keys;
    float *mix, *p; /* one of them NULL */
    int first;
};
template <int F> DEVICE void multiply_rows(const mixed &m, const prepared &t) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const float *x = m.x + (m.first + r) * ROW + c, *y = m.keys + r * ROW + c;
    sums<F> s = no_sums<F>();
#pragma unroll 2
    for (int k = 0; k < SIZE; k += 8) {
        const left rows = left_at(x + k, ROW, 1);
#pragma unroll
        for (int f = 0; f < F; f++) add_product(s, f, rows, right_at(y + 8 * f * ROW + k, 1));
    }
#pragma unroll
    for (int f = 0; f < TILE / 8; f++)
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
            const int i = m.first + r + 4 * e, j = 8 * f + 2 * c;
            const float one = f < F ? sum_at(s, f % F, e) * fade_between(t, i, j) : 0.0f;
            const float two = f < F ? sum_at(s, f % F, e + 1) * fade_between(t, i, j + 1) : 0.0f;
            if (m.p) {
                *(float2 *)(m.p + i * TILE + j) = make_float2(one, two);
            } else {
                m.mix[j * MIX_ROW + i] = j < i ? t.beta[i] * one : 0.0f;
                m.mix[(j + 1) * MIX_ROW + i] = j + 1 < i ? t.beta[i] * two : 0.0f;
            }
        }
}

/* Warps 0 to 3 compute A, warps 4 to 7 P.  Later row blocks take longer; those of P are assigned in
 * reverse order, so that warps w and w + 4, which share a scheduler, balance each other. */
DEVICE void multiply_keys(float *p, const float *keys, const float *queries, float *mix,
                          const prepared &t) {
    const bool queried = warp_id() >= 4;
    const int block = queried ? 7 - warp_id() : warp_id();
    const mixed m = {queried ? queries : keys, keys, queried ? nullptr : mix, queried ? p : nullptr,
                     16 * block};
    if (block == 0)
        multiply_rows<2>(m, t);
    else if (block == 1)
        multiply_rows<4>(m, t);
    else if (block == 2)
        multiply_rows<6>(m, t);
    else
        multiply_rows<8>(m, t);
}

struct prepared_mix {
    const float *mix, *scales; /* A transposed; factors of the right-hand side's rows */
};

/* now[i] -= factors[i] * known for i >= FIRST. */
template <int FIRST, int ROWS>
DEVICE void subtract_known(float2 (&now)[ROWS], float2 known, const float *factors) {
#pragma unroll
    for (int i = FIRST / 4 * 4; i < ROWS; i += 4) {
        const float4 four = *(const float4 *)(factors + i);
        const float factor[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (i + e >= FIRST) {
                now[i + e].x = fmaf(-factor[e], known.x, now[i + e].x);
                now[i + e].y = fmaf(-factor[e], known.y, now[i + e].y);
            }
    }
}
/* Forward substitution within a diagonal block of A, from row J on. */
template <int J, int ROWS> DEVICE void solve_block(float2 (&now)[ROWS], const float *mix) {
    if constexpr (J + 1 < ROWS) {
        subtract_known<J + 1>(now, now[J], mix + J * MIX_ROW);
        solve_block<J + 1>(now, mix);
    }
}

/* Solves (1 + A) X = diag(scales) Y for two adjacent columns by blocked forward substitution; x has
 * Y in shared memory and is overwritten with X.  X is also written to `to`, which has `rows` rows
 * with a pitch of `to_row`.  A thread takes two columns because loading A takes most of the time.
 */
DEVICE void solve_columns(const prepared_mix &a, float *x, float *to, int64_t to_row, int rows) {
    enum { BLOCK = 16 };
    for (int begin = 0; begin < TILE; begin += BLOCK) {
        float2 now[BLOCK];
#pragma unroll
        for (int i = 0; i < BLOCK; i++) {
            const float2 right_side = *(const float2 *)(x + (begin + i) * ROW);
            const float scale = a.scales[begin + i];
            now[i] = make_float2(scale * right_side.x, scale * right_side.y);
        }
#pragma unroll 2
        for (int j = 0; j < begin; j++)
            subtract_known<0, BLOCK>(now, *(const float2 *)(x + j * ROW),
                                     a.mix + j * MIX_ROW + begin);
        solve_block<0>(now, a.mix + begin * MIX_ROW + begin);
#pragma unroll
        for (int i = 0; i < BLOCK; i++) {
            *(float2 *)(x + (begin + i) * ROW) = now[i];
            if (begin + i < rows) *(float2 *)(to + (begin + i) * to_row) = now[i];
        }
    }
}

SL_CUDA_KERNEL(sl_delta_prepare, sl_delta_tiles, THREADS) {
    SL_DYNAMIC_SHARED(float, keys);
    __shared__ prepared t;
    float *queries = keys + TILE * ROW, *mix = queries + TILE * ROW, *values = queries;
    const int tile = (int)blockIdx.x / a.d.heads, head = (int)blockIdx.x % a.d.heads;
    const int first = tile * TILE, rows = min((int)TILE, a.d.rows - first);
    const int64_t key_row = (int64_t)a.d.key_heads * SIZE, value_row = (int64_t)a.d.heads * a.d.dv;
    const int64_t place = (int64_t)tile * a.d.heads + head, at = delta_value(a.d, first, head);
    copy_rows(keys, ROW, delta_key(a.d, a.d.k, first, head), key_row, SIZE, rows);
    copy_rows(queries, ROW, delta_key(a.d, a.d.q, first, head), key_row, SIZE, rows);
    if (warp_id() == 0) sum_decay(a, tile, head, t);
    copy_wait_all();
    __syncthreads();
    multiply_keys(a.p + place * TILE * TILE, keys, queries, mix, t);
    __syncthreads();
    const int column = (int)threadIdx.x * 2 % SIZE;
    if ((int)threadIdx.x < SIZE / 2) {
        solve_columns({mix, t.faded_beta}, keys + column, a.w + place * TILE * SIZE + column, SIZE,
                      TILE);
    } else if ((int)threadIdx.x < SIZE && column < a.d.dv) {
        for (int i = 0; i < TILE; i++)
            if (i < rows)
                copy_async<8>(values + i * ROW + column, a.d.v + at + i * value_row + column);
            else
                *(float2 *)(values + i * ROW + column) = make_float2(0, 0);
        copy_wait_all();
        solve_columns({mix, t.beta}, values + column, a.d.out + at + column, value_row, rows);
    }
}

/* ---- the recurrence over tiles ---- */

/* What a block works on: COLUMNS columns of a head's memory, and the rows of one slot. */
struct walk {
    float *w, *q, *k, *p, *memory, *changes, *faded; /* in shared memory */
    int head, column, slot;
};

DEVICE int64_t place_of(const sl_delta_tiles &a, const walk &s, int tile) {
    return (int64_t)tile * a.d.heads + s.head;
}
/* Start the copies of a tile's operands: W and Q, which change_and_read needs; K and P, which
 * write_output and change_memory need. */
DEVICE void fetch_before(const sl_delta_tiles &a, const walk &s, int tile) {
    const int first = tile * TILE, rows = min((int)TILE, a.d.rows - first);
    copy_rows(s.w, ROW, a.w + place_of(a, s, tile) * TILE * SIZE, SIZE, SIZE, TILE);
    copy_rows(s.q, ROW, delta_key(a.d, a.d.q, first, s.head), (int64_t)a.d.key_heads * SIZE, SIZE,
              rows);
}
DEVICE void fetch_after(const sl_delta_tiles &a, const walk &s, int tile) {
    const int first = tile * TILE, rows = min((int)TILE, a.d.rows - first);
    copy_rows(s.k, FLAT_ROW, delta_key(a.d, a.d.k, first, s.head), (int64_t)a.d.key_heads * SIZE,
              SIZE, rows);
    copy_rows(s.p, MIX_ROW, a.p + place_of(a, s, tile) * TILE * TILE, TILE, TILE, TILE);
}

/* Rows [begin, end) of a tile, one stretch. */
struct stretch {
    int tile, begin, end;
};

/* A warp computes 16 rows by 16 columns of a TILE x COLUMNS result.  A lane has rows row, row + 8
 * and columns column, column + 1, column + 8, column + 9 of it. */
struct corner {
    int row, column;
};
DEVICE corner corner_of_warp() {
    return {warp_id() / 2 * 16 + lane_id() / 4, warp_id() % 2 * 16 + lane_id() % 4 * 2};
}

/* Stores changes = U' - W M and faded = e^(G_last - G) changes, both 0 outside the stretch; returns
 * e^G Q M. */
DEVICE sums<2> change_and_read(const sl_delta_tiles &a, const walk &s, const stretch &now) {
    const corner at = corner_of_warp();
    const float *fades = a.fades + place_of(a, s, now.tile) * 2 * TILE;
    float2 known[2][2] = {};
    float fade[2], rest[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int row = at.row + 8 * e;
        const bool in = row >= now.begin && row < now.end;
        const float *from =
            a.d.out + delta_value(a.d, now.tile * TILE + row, s.head) + s.column + at.column;
        fade[e] = fades[row];
        rest[e] = fades[TILE + row];
#pragma unroll
        for (int f = 0; f < 2; f++)
            known[f][e] = in ? *(const float2 *)(from + 8 * f) : make_float2(0, 0);
    }
    sums<2> changed = no_sums<2>(), read = no_sums<2>();
    const int r = lane_id() / 4, c = lane_id() % 4;
    const float *w = s.w + at.row * ROW + c, *q = s.q + at.row * ROW + c;
    const float *m = s.memory + c * STRIP_ROW + warp_id() % 2 * 16 + r;
#pragma unroll 4
    for (int k = 0; k < SIZE; k += 8) {
        const left w_part = left_at(w + k, ROW, 1), q_part = left_at(q + k, ROW, 1);
#pragma unroll
        for (int f = 0; f < 2; f++) {
            const right part = right_at(m + k * STRIP_ROW + 8 * f, STRIP_ROW);
            add_product(changed, f, w_part, part);
            add_product(read, f, q_part, part);
        }
    }
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int row = at.row + 8 * e, to = row * STRIP_ROW + at.column + 8 * f;
            const bool in = row >= now.begin && row < now.end;
            const float x = in ? known[f][e].x - sum_at(changed, f, 2 * e) : 0.0f;
            const float y = in ? known[f][e].y - sum_at(changed, f, 2 * e + 1) : 0.0f;
            *(float2 *)(s.changes + to) = make_float2(x, y);
            *(float2 *)(s.faded + to) =
                in ? make_float2(rest[e] * x, rest[e] * y) : make_float2(0, 0);
#pragma unroll
            for (int i = 2 * e; i < 2 * e + 2; i++) {
                read.large[f][i] *= fade[e];
                read.small[f][i] *= fade[e];
            }
        }
    return read;
}

/* out = read + P changes. */
DEVICE void write_output(const sl_delta_tiles &a, const walk &s, const stretch &now, sums<2> read) {
    const corner at = corner_of_warp();
    const int r = lane_id() / 4, c = lane_id() % 4, end = (warp_id() / 2 + 1) * 16;
    const float *p = s.p + at.row * MIX_ROW + c;
    const float *u = s.changes + c * STRIP_ROW + warp_id() % 2 * 16 + r;
    for (int k = 0; k < end; k += 8) {
        const left part = left_at(p + k, MIX_ROW, 1);
#pragma unroll
        for (int f = 0; f < 2; f++)
            add_product(read, f, part, right_at(u + k * STRIP_ROW + 8 * f, STRIP_ROW));
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int row = at.row + 8 * e;
        if (row < now.begin || row >= now.end) continue;
        const int64_t start = delta_value(a.d, now.tile * TILE + row, s.head);
        float *to = a.d.out + start + s.column + at.column;
#pragma unroll
        for (int f = 0; f < 2; f++)
            *(float2 *)(to + 8 * f) =
                make_float2(sum_at(read, f, 2 * e), sum_at(read, f, 2 * e + 1));
    }
}

/* M = e^G_last M + K^T faded; a warp updates 16 rows of M. */
DEVICE void change_memory(const sl_delta_tiles &a, const walk &s, const stretch &now) {
    enum { F = COLUMNS / 8 };
    const int r = lane_id() / 4, c = lane_id() % 4;
    const float fade = a.fades[place_of(a, s, now.tile) * 2 * TILE + now.end - 1];
    const float *k = s.k + c * FLAT_ROW + warp_id() * 16 + r, *u = s.faded + c * STRIP_ROW + r;
    sums<F> learnt = no_sums<F>();
#pragma unroll 4
    for (int j = 0; j < TILE; j += 8) {
        const left part = left_at(k + j * FLAT_ROW, 1, FLAT_ROW);
#pragma unroll
        for (int f = 0; f < F; f++)
            add_product(learnt, f, part, right_at(u + j * STRIP_ROW + 8 * f, STRIP_ROW));
    }
#pragma unroll
    for (int f = 0; f < F; f++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float2 *m =
                (float2 *)(s.memory + (warp_id() * 16 + r + 8 * e) * STRIP_ROW + 8 * f + 2 * c);
            *m = make_float2(fmaf(fade, m->x, sum_at(learnt, f, 2 * e)),
                             fmaf(fade, m->y, sum_at(learnt, f, 2 * e + 1)));
        }
}

/* The first and the last tile with rows of a slot; first > last if there are none. */
DEVICE int2 tiles_of_slot(const sl_delta &d, int slot) {
    const int2 rows = rows_of_slot(d.slots, d.rows, slot);
    int2 tiles;
    tiles.x = rows.y < 0 ? 1 : rows.x / TILE;
    tiles.y = rows.y < 0 ? 0 : rows.y / TILE;
    return tiles;
}

/* Copies the block's columns of the memory to shared memory, or back.  If a sequence begins, they
 * are zeroed instead of loaded: the memory may never have been written. */
DEVICE void move_memory(const sl_delta_tiles &a, const walk &s, bool back, bool begins) {
    float *memory = delta_memory(a.d, s.slot, s.head) + s.column;
    for (int i = (int)threadIdx.x; i < SIZE * COLUMNS / 4; i += THREADS) {
        const int row = i / (COLUMNS / 4), column = i % (COLUMNS / 4) * 4;
        float4 *here = (float4 *)(s.memory + row * STRIP_ROW + column);
        float4 *there = (float4 *)(memory + (int64_t)row * a.d.dv + column);
        if (back)
            *there = *here;
        else
            *here = begins ? make_float4(0, 0, 0, 0) : *there;
    }
}

/* Processes one tile.  On entry W and Q are in shared memory, while K and P may still be in flight.
 * If there are more tiles, the next one's copies start as soon as their buffers are free, so that
 * the same holds for it on return. */
DEVICE void walk_tile(const sl_delta_tiles &a, const walk &s, int tile, const row_bits &bits,
                      bool more) {
    const int rows = min((int)TILE, a.d.rows - tile * TILE);
    for (uint64_t left_over = bits.starts & bits.mine; left_over; left_over &= left_over - 1) {
        const int begin = __ffsll((long long)left_over) - 1;
        const stretch now = {tile, begin, stretch_end(bits.starts, begin, rows)};
        const bool next = more && !(left_over & (left_over - 1));
        if (bits.resets >> begin & 1) {
            for (int i = (int)threadIdx.x; i < SIZE * STRIP_ROW; i += THREADS) s.memory[i] = 0;
            __syncthreads();
        }
        const sums<2> read = change_and_read(a, s, now);
        copy_wait_all();
        __syncthreads();
        if (next) fetch_before(a, s, tile + 1);
        write_output(a, s, now, read);
        change_memory(a, s, now);
        copy_wait_all();
        __syncthreads();
        if (next) fetch_after(a, s, tile + 1);
    }
    if (more && !(bits.starts & bits.mine)) { /* no rows of this slot */
        fetch_before(a, s, tile + 1);
        fetch_after(a, s, tile + 1);
        copy_wait_all();
        __syncthreads();
    }
}

SL_CUDA_KERNEL(sl_delta_walk, sl_delta_tiles, THREADS) {
    SL_DYNAMIC_SHARED(float, shared);
    const int parts = a.d.dv / COLUMNS;
    walk s;
    s.w = shared;
    s.q = s.w + TILE * ROW;
    s.k = s.q + TILE * ROW;
    s.p = s.k + TILE * FLAT_ROW;
    s.memory = s.p + TILE * MIX_ROW;
    s.changes = s.memory + SIZE * STRIP_ROW;
    s.faded = s.changes + TILE * STRIP_ROW;
    s.head = (int)blockIdx.x / parts;
    s.column = (int)blockIdx.x % parts * COLUMNS;
    s.slot = (int)blockIdx.y;
    const int2 tiles = tiles_of_slot(a.d, s.slot);
    if (tiles.x > tiles.y) return;
    fetch_before(a, s, tiles.x);
    fetch_after(a, s, tiles.x);
    row_bits bits = bits_of_words(words_of_tile(a.d, tiles.x), s.slot);
    /* mine & -mine: the slot's first row. */
    move_memory(a, s, false, (bits.resets & bits.mine & (0 - bits.mine)) != 0);
    copy_wait_all();
    __syncthreads();
    for (int tile = tiles.x; tile <= tiles.y; tile++) {
        const row_words next = words_of_tile(a.d, tile + 1);
        walk_tile(a, s, tile, bits, tile < tiles.y);
        bits = bits_of_words(next, s.slot);
    }
    move_memory(a, s, true, false);
}
