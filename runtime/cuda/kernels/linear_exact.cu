/* linear_exact.cu - Few f32 rows with panel weights, by exact products in bf16 (exact.cuh).  The
 * three bf16 parts of a token are separate columns of the mma, whose sums the epilogue adds up.
 *
 * In shared memory: [group][column][j][8], columns 8j to 8j+7 of x in the order of exact.cuh; then
 * the sums of groups, [group][column], columns rounded up to pairs, with the whole sum in a token's
 * first column and zeros in its others. */
#include "runtime/cuda/kernels/exact.cuh"
#include "runtime/cuda/kernels/linear_panels.cuh"

/* TILES: mma tiles of eight columns. */
template <class TYPE_, int TILES> struct exact_tokens {
    typedef TYPE_ TYPE;
    enum { PARTS = X_PARTS, ROWS = 2, GROUPS = SL_LINEAR_BATCH };
    typedef panel_batch<TYPE, ROWS, GROUPS> batch;
    uint4 *values;
    float *totals;
    int columns, pairs;
    float sums[TILES][4]; /* [tile][2 rows][2 columns] */

    MEMBER exact_tokens(unsigned char *shared, const sl_linear_panels &a, const block_tokens &t)
        : values((uint4 *)shared), columns(t.count * PARTS),
          pairs((t.count * PARTS + 1) / 2), sums{} {
        totals = (float *)(values + (int64_t)a.slab * columns * 4);
    }
    MEMBER panel_lane place() const { return {nullptr, 0, lane_id() / 4 * ROWS, lane_id() % 4}; }

    /* Stores eight values of a token's group per thread, four adjacent lanes a group.  All lanes of
     * the warp must call it, those without values with group -1. */
    MEMBER void put(int group, int token, int j, const float (&from)[8]) {
        uint4 parts[PARTS];
        const float sum = split_values(from, parts);
        if (group < 0) return;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const int column = token * PARTS + p;
            values[(group * columns + column) * 4 + j] = parts[p];
            if (j == 0) totals[group * 2 * pairs + column] = p ? 0.0f : sum;
        }
    }
    MEMBER void fill(const sl_linear_panels &a, const block_tokens &t, int first, int groups) {
        const int items = groups * t.count * 4, cols = a.w[0].cols;
        for (int base = 0; base < items; base += (int)blockDim.x) {
            const int i = base + (int)threadIdx.x, token = i / (4 * groups);
            const int column = 32 * first + 8 * (i % (4 * groups));
            const float *from = a.x + (int64_t)(t.first + token) * cols + column;
            float x[8];
#pragma unroll
            for (int k = 0; k < 8; k++) x[k] = i < items && column + k < cols ? from[k] : 0.0f;
            put(i < items ? i / 4 % groups : -1, token, i % 4, x);
        }
    }
    MEMBER void load(batch &b, const sl_cuda_panels &p, const panel_lane &lane, int group) const {
        const uint8_t *block = lane.data + block_offset(p, group);
        load_super(b, p, lane, group);
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
            if (group + k < p.groups) load_group<TYPE>(b.groups[k], block, lane, k);
    }

    /* Accumulates a group, or half of it; rows[0] and rows[1] are the `a` fragments of its two mma
     * steps. */
    MEMBER void add(const batch &b, int k, int group, int half, const unsigned (&rows)[2][4]) {
        params s[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) s[r] = TYPE::scale(b.super, b.groups[k], r, half);
#pragma unroll
        for (int n = 0; n < TILES; n++) {
            const int column = 8 * n + lane_id() / 4, pair = 4 * n + lane_id() % 4;
            const uint4 x = column < columns
                                ? values[(group * columns + column) * 4 + lane_id() % 4]
                                : make_uint4(0, 0, 0, 0);
            const unsigned first[2] = {x.x, x.y}, second[2] = {x.z, x.w};
            float d[4] = {0, 0, 0, 0};
            mma_bf16(d, rows[0], first);
            mma_bf16(d, rows[1], second);
#pragma unroll
            for (int i = 0; i < 4; i++) sums[n][i] = fmaf(s[i / 2].scale, d[i], sums[n][i]);
            if (!TYPE::MINIMUM) continue;
            float2 total =
                pair < pairs ? ((const float2 *)totals)[group * pairs + pair] : make_float2(0, 0);
            if (TYPE::HALVES) {
                float halves[4] = {0, 0, 0, 0};
                mma_ones(halves, lane_id() % 4 / 2 == half, first, second);
                total = make_float2(halves[0], halves[1]);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                sums[n][2 * r] = fmaf(-s[r].minimum, total.x, sums[n][2 * r]);
                sums[n][2 * r + 1] = fmaf(-s[r].minimum, total.y, sums[n][2 * r + 1]);
            }
        }
    }
    MEMBER void multiply_group(const batch &b, int k, int group) {
        const int j = lane_id() % 4;
        unsigned rows[2][4];
        operands_of<TYPE>(rows, b.groups[k], j);
#pragma unroll
        for (int half = 0; half <= TYPE::HALVES; half++) {
            const bool mine = !TYPE::HALVES || j / 2 == half;
            unsigned part[2][4];
#pragma unroll
            for (int i = 0; i < 8; i++) part[i / 4][i % 4] = mine ? rows[i / 4][i % 4] : 0;
            add(b, k, group, half, part);
        }
    }
    MEMBER void multiply(const batch &b, int group, int count) {
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
            if (k < count) multiply_group(b, k, group + k);
    }
    MEMBER void clear() {
#pragma unroll
        for (int i = 0; i < 4 * TILES; i++) sums[i / 4][i % 4] = 0;
    }
    MEMBER void store(float *out) {
        const int row = lane_id() / 4 * ROWS;
#pragma unroll
        for (int n = 0; n < TILES; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int column = 8 * n + lane_id() % 4 * 2 + i;
                if (column < columns)
                    *(float2 *)(out + column * SL_CUDA_PANEL_ROWS + row) =
                        make_float2(sums[n][i], sums[n][2 + i]);
            }
    }
};

/* One, two and three tiles hold 2, 5 and 8 tokens, of three columns each. */
#define INSTANCE(NAME, THREADS, ...)                                                               \
    SL_CUDA_KERNEL_AHEAD(sl_linear_exact_2_##NAME, sl_linear_panels, THREADS) {                    \
        multiply_panels<exact_tokens<rows_##NAME, 1>>(a);                                          \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_linear_exact_5_##NAME, sl_linear_panels, 512) {                        \
        multiply_panels<exact_tokens<rows_##NAME, 2>>(a);                                          \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_linear_exact_8_##NAME, sl_linear_panels, 512) {                        \
        multiply_panels<exact_tokens<rows_##NAME, 3>>(a);                                          \
    }
SL_PANEL_TYPES(INSTANCE)
