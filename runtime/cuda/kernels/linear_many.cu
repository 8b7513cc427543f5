/* linear_many.cu - Many f32 rows with panel or bf16 weights, by exact products in bf16 (exact.cuh).
 *
 * A block computes 64 rows of weights by 64 tokens, a warp 16 rows by 32 tokens.  Weights are
 * loaded into registers one group ahead.  x is double-buffered in shared memory, a group at a time,
 * split into its bf16 parts.  With split-K, the blocks' sums are then added (linear_tile.cu). */
#include "runtime/cuda/kernels/exact.cuh"
#include "runtime/cuda/kernels/linear.h"

enum { THREADS = 256, TILES = 4, WARP_TOKENS = 8 * TILES };

/* A lane's weights of one group of a panel: rows 2r and 2r + 1, r = lane / 4. */
template <class TYPE_> struct rows_of_panel {
    typedef TYPE_ TYPE;
    enum { HALVES = TYPE::HALVES, MINIMUM = TYPE::MINIMUM };
    panel_batch<TYPE, 2, 1> batch;
    MEMBER void load(const sl_linear_tile &a, int panel, int group) {
        panel = min(panel, (a.rows - 1) / SL_CUDA_PANEL_ROWS); /* beyond the last: the last again */
        const panel_lane lane = {panel_at(a.panels, panel), panel, lane_id() / 4 * 2,
                                 lane_id() % 4};
        load_super(batch, a.panels, lane, group);
        const uint8_t *block = lane.data + block_offset(a.panels, group);
        load_group<TYPE>(batch.groups[0], block, lane, group % 2);
    }
    MEMBER void operands(unsigned (&rows)[2][4]) const {
        operands_of<TYPE>(rows, batch.groups[0], lane_id() % 4);
    }
    MEMBER params scale(int row, int half) const {
        return TYPE::scale(batch.super, batch.groups[0], row, half);
    }
};
struct rows_of_bf16 {
    enum { HALVES = 0, MINIMUM = 0 };
    uint4 w[2];
    DEVICE unsigned pair_at(const sl_linear_tile &a, const uint16_t *row, int column) {
        const unsigned low = column < a.cols ? row[column] : 0;
        const unsigned high = column + 1 < a.cols ? row[column + 1] : 0;
        return low | high << 16;
    }
    MEMBER void load(const sl_linear_tile &a, int panel, int group) {
        const int column = SL_CUDA_GROUP_COLS * group + lane_id() % 4 * 8;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = min(panel * SL_CUDA_PANEL_ROWS + lane_id() / 4 * 2 + r, a.rows - 1);
            const uint16_t *from = (const uint16_t *)a.w + (int64_t)row * a.cols;
            if (!a.wide)
                w[r] = make_uint4(pair_at(a, from, column), pair_at(a, from, column + 2),
                                  pair_at(a, from, column + 4), pair_at(a, from, column + 6));
            else
                w[r] = column < a.cols ? __ldg((const uint4 *)(from + column))
                                       : make_uint4(0, 0, 0, 0);
        }
    }
    MEMBER void operands(unsigned (&rows)[2][4]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            rows[0][r] = __byte_perm(w[r].x, w[r].y, 0x5410);
            rows[0][2 + r] = __byte_perm(w[r].x, w[r].y, 0x7632);
            rows[1][r] = __byte_perm(w[r].z, w[r].w, 0x5410);
            rows[1][2 + r] = __byte_perm(w[r].z, w[r].w, 0x7632);
        }
    }
    MEMBER params scale(int, int) const {
        return {1.0f, 0.0f};
    }
};

/* One group of x: [part][token][j], and its sum for each token. */
struct x_tile {
    uint4 parts[X_PARTS][SL_TILE_TOKENS * 4];
    float totals[SL_TILE_TOKENS];
};

/* A thread's part of the next x_tile, prefetched into registers: eight columns of a token. */
struct x_prefetch {
    float x[8];
    MEMBER void load(const sl_linear_tile &a, int token, int group) {
        const int t = token + (int)threadIdx.x / 4;
        const int column = SL_CUDA_GROUP_COLS * group + (int)threadIdx.x % 4 * 8;
        const float *from = a.x + (int64_t)t * a.cols + column;
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = t < a.tokens && column + i < a.cols ? from[i] : 0.0f;
    }
    MEMBER void store(x_tile &to) const {
        uint4 parts[X_PARTS];
        const float sum = split_values(x, parts);
#pragma unroll
        for (int p = 0; p < X_PARTS; p++) to.parts[p][threadIdx.x] = parts[p];
        if (threadIdx.x % 4 == 0) to.totals[threadIdx.x / 4] = sum;
    }
};

template <class ROWS>
DEVICE void add_group(float (&sums)[TILES][4], const ROWS &w, const unsigned (&rows)[2][4],
                      const x_tile &x, int first, int half) {
    const params s[2] = {w.scale(0, half), w.scale(1, half)};
#pragma unroll
    for (int n = 0; n < TILES; n++) {
        float d[4] = {0, 0, 0, 0}, halves[4] = {0, 0, 0, 0};
#pragma unroll
        for (int p = X_PARTS - 1; p >= 0; p--) {
            const uint4 v = x.parts[p][(first + 8 * n) * 4 + lane_id()];
            const unsigned one[2] = {v.x, v.y}, two[2] = {v.z, v.w};
            mma_bf16(d, rows[0], one);
            mma_bf16(d, rows[1], two);
            if (ROWS::HALVES && ROWS::MINIMUM)
                mma_ones(halves, lane_id() % 4 / 2 == half, one, two);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = fmaf(s[i / 2].scale, d[i], sums[n][i]);
        if (!ROWS::MINIMUM) continue;
        float2 total = *(const float2 *)(x.totals + first + 8 * n + lane_id() % 4 * 2);
        if (ROWS::HALVES) total = make_float2(halves[0], halves[1]);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            sums[n][2 * r] = fmaf(-s[r].minimum, total.x, sums[n][2 * r]);
            sums[n][2 * r + 1] = fmaf(-s[r].minimum, total.y, sums[n][2 * r + 1]);
        }
    }
}

template <class ROWS>
DEVICE void multiply_group(float (&sums)[TILES][4], const ROWS &w, const x_tile &x, int first) {
    unsigned rows[2][4];
    w.operands(rows);
#pragma unroll
    for (int half = 0; half <= ROWS::HALVES; half++) {
        const bool mine = !ROWS::HALVES || lane_id() % 4 / 2 == half;
        unsigned part[2][4];
#pragma unroll
        for (int i = 0; i < 8; i++) part[i / 4][i % 4] = mine ? rows[i / 4][i % 4] : 0;
        add_group(sums, w, part, x, first, half);
    }
}

template <class ROWS> DEVICE void multiply_many(const sl_linear_tile &a) {
    __shared__ x_tile tiles[2];
    const int panel = (int)blockIdx.x * 4 + warp_id() % 4;
    const int token = (int)blockIdx.y * SL_TILE_TOKENS, first = warp_id() / 4 * WARP_TOKENS;
    const int begin = (int)blockIdx.z * a.part_groups;
    const int groups =
        min(begin + a.part_groups, (a.cols + SL_CUDA_GROUP_COLS - 1) / SL_CUDA_GROUP_COLS);
    float *out = a.out + blockIdx.z * (a.tokens * a.out_stride);
    float sums[TILES][4];
    ROWS now, next;
    x_prefetch x;
#pragma unroll
    for (int i = 0; i < 4 * TILES; i++) sums[i / 4][i % 4] = 0;
    now.load(a, panel, begin);
    x.load(a, token, begin);
    for (int g = begin; g < groups; g++) {
        x.store(tiles[g % 2]);
        __syncthreads();
        if (g + 1 < groups) {
            next.load(a, panel, g + 1);
            x.load(a, token, g + 1);
        }
        multiply_group(sums, now, tiles[g % 2], first);
        now = next;
    }
#pragma unroll
    for (int i = 0; i < 4 * TILES; i++) {
        const int t = token + first + i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
        const int row = panel * SL_CUDA_PANEL_ROWS + lane_id() / 4 * 2 + i % 4 / 2;
        if (t < a.tokens && row < a.rows) out[t * a.out_stride + row] = sums[i / 4][i % 4];
    }
}

#define INSTANCE(NAME, ...)                                                                        \
    SL_CUDA_KERNEL(sl_linear_many_##NAME, sl_linear_tile, THREADS) {                               \
        multiply_many<rows_of_panel<rows_##NAME>>(a);                                              \
    }
SL_PANEL_TYPES(INSTANCE)
SL_CUDA_KERNEL(sl_linear_many_bf16, sl_linear_tile, THREADS) {
    multiply_many<rows_of_bf16>(a);
}
