/* linear_tile.cu - Many f32 rows with weights of f32 or f16, by tiles of both in shared memory.
 *
 * A block computes 64 rows of weights by 32 or 128 tokens, a thread 4 rows by 2 or 8 tokens in
 * registers.  Tiles are 32 columns deep. */
#include "runtime/cuda/kernels/linear.cuh"

enum { DEPTH = 32, THREADS = 256, ROW_STRIDE = SL_TILE_ROWS + 4, OWN_ROWS = 4 };

/* Loads eight weights of a row: columns 8j to 8j+7 of tile g; zeros outside the matrix. */
template <class ELEMENT, float (*VALUE)(ELEMENT)> struct dense_weights {
    DEVICE void load(const sl_linear_tile &a, int row, int g, int j, float (&to)[8]) {
        const int column = DEPTH * g + 8 * j;
        const ELEMENT *from = (const ELEMENT *)a.w + (int64_t)row * a.cols + column;
#pragma unroll
        for (int i = 0; i < 8; i++)
            to[i] = row < a.rows && column + i < a.cols ? VALUE(from[i]) : 0.0f;
    }
};
DEVICE float same_f32(float w) {
    return w;
}

/* The tiles in shared memory, stored column by column. */
template <int TOKENS> struct __align__(16) tiles {
    enum { X_STRIDE = TOKENS + 4 };
    float w[DEPTH * ROW_STRIDE], x[DEPTH * X_STRIDE];
};

/* A thread's part of the next tiles, prefetched into registers: eight weights, and TOKENS / 8
 * elements of x. */
template <class WEIGHTS, int TOKENS> struct tile_prefetch {
    enum { X = TOKENS * DEPTH / THREADS, X_STRIDE = tiles<TOKENS>::X_STRIDE };
    float w[8], x[X];
    MEMBER void load(const sl_linear_tile &a, int row, int token, int g) {
        const int tid = (int)threadIdx.x, t = token + tid % TOKENS;
        const int column = DEPTH * g + tid / TOKENS * X;
        const float *from = a.x + (int64_t)t * a.cols + column;
        WEIGHTS::load(a, row + tid % SL_TILE_ROWS, g, tid / SL_TILE_ROWS, w);
#pragma unroll
        for (int i = 0; i < X; i++)
            x[i] = t < a.tokens && column + i < a.cols ? from[i] : 0.0f;
    }
    MEMBER void store(tiles<TOKENS> &to) const {
        const int tid = (int)threadIdx.x;
#pragma unroll
        for (int i = 0; i < 8; i++)
            to.w[(tid / SL_TILE_ROWS * 8 + i) * ROW_STRIDE + tid % SL_TILE_ROWS] = w[i];
#pragma unroll
        for (int i = 0; i < X; i++)
            to.x[(tid / TOKENS * X + i) * X_STRIDE + tid % TOKENS] = x[i];
    }
};

/* Adds up these columns by themselves before adding them to `all`: short sums round less. */
template <int TOKENS, int OWN>
DEVICE void multiply_tiles(const tiles<TOKENS> &t, float (&all)[OWN][OWN_ROWS]) {
    const int rows = (int)threadIdx.x % 16 * OWN_ROWS, tokens = (int)threadIdx.x / 16 * OWN;
    float sums[OWN][OWN_ROWS];
#pragma unroll
    for (int i = 0; i < OWN * OWN_ROWS; i++) sums[i / OWN_ROWS][i % OWN_ROWS] = 0;
#pragma unroll 8
    for (int k = 0; k < DEPTH; k++) {
        const float4 w = *(const float4 *)(t.w + k * ROW_STRIDE + rows);
#pragma unroll
        for (int i = 0; i < OWN; i += 2) {
            const float2 x = *(const float2 *)(t.x + k * tiles<TOKENS>::X_STRIDE + tokens + i);
            const float both[2] = {x.x, x.y};
#pragma unroll
            for (int h = 0; h < 2; h++) {
                sums[i + h][0] = fmaf(both[h], w.x, sums[i + h][0]);
                sums[i + h][1] = fmaf(both[h], w.y, sums[i + h][1]);
                sums[i + h][2] = fmaf(both[h], w.z, sums[i + h][2]);
                sums[i + h][3] = fmaf(both[h], w.w, sums[i + h][3]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < OWN * OWN_ROWS; i++)
        all[i / OWN_ROWS][i % OWN_ROWS] += sums[i / OWN_ROWS][i % OWN_ROWS];
}

template <class WEIGHTS, int TOKENS> DEVICE void multiply_many(const sl_linear_tile &a) {
    enum { OWN = TOKENS / 16 };
    __shared__ tiles<TOKENS> shared;
    const int row = (int)blockIdx.x * SL_TILE_ROWS, token = (int)blockIdx.y * TOKENS;
    const int groups = (a.cols + DEPTH - 1) / DEPTH;
    float sums[OWN][OWN_ROWS];
    tile_prefetch<WEIGHTS, TOKENS> next;
#pragma unroll
    for (int i = 0; i < OWN * OWN_ROWS; i++) sums[i / OWN_ROWS][i % OWN_ROWS] = 0;
    next.load(a, row, token, 0);
    for (int g = 0; g < groups; g++) {
        __syncthreads();
        next.store(shared);
        __syncthreads();
        if (g + 1 < groups) next.load(a, row, token, g + 1);
        multiply_tiles<TOKENS, OWN>(shared, sums);
    }
#pragma unroll
    for (int i = 0; i < OWN * OWN_ROWS; i++) {
        const int t = token + (int)threadIdx.x / 16 * OWN + i / OWN_ROWS;
        const int r = row + (int)threadIdx.x % 16 * OWN_ROWS + i % OWN_ROWS;
        if (t < a.tokens && r < a.rows)
            a.out[t * a.out_stride + r] = sums[i / OWN_ROWS][i % OWN_ROWS];
    }
}

#define TILE(NAME, ...)                                                                            \
    SL_CUDA_KERNEL(sl_linear_tile_32_##NAME, sl_linear_tile) {                                     \
        multiply_many<__VA_ARGS__, 32>(a);                                                         \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_linear_tile_128_##NAME, sl_linear_tile) {                                    \
        multiply_many<__VA_ARGS__, 128>(a);                                                        \
    }
TILE(f32, dense_weights<float, same_f32>)
TILE(f16, dense_weights<uint16_t, f32_of_f16>)

/* ---- after the products: epilogue, split-K reduction ---- */

/* A block has 256 rows of one token; the 32 of a warp are a group of the quantised result. */
SL_CUDA_KERNEL(sl_linear_after_sums, sl_linear_after) {
    const sl_linear_finish &f = a.finish;
    const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x), token = (int)blockIdx.y;
    const int64_t at = (int64_t)token * a.rows + row;
    float value = 0;
    if (row < a.rows) {
        value = f.out[0][at];
        if (joins(f)) value = apply_swiglu(value, f.out[1][at]);
        if (f.kind == SL_FINISH_BIAS) value = activated(f.act, value + f.bias[row]);
    }
    if (f.kind == SL_FINISH_QUANTISE) {
        quantise_warp(f.codes, (int64_t)token * f.codes.groups + row / WARP,
                      row / WARP < f.codes.groups, value);
    } else if (row < a.rows) {
        a.out[at] = value;
    }
}

/* One element per thread, or four. */
SL_CUDA_KERNEL(sl_linear_sum_parts, sl_linear_parts) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.count / (a.four ? 4 : 1)) return;
    if (!a.four) {
        float sum = 0;
        for (int p = 0; p < a.part_count; p++) sum += a.parts[p * a.count + i];
        a.out[i] = sum;
        return;
    }
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int p = 0; p < a.part_count; p++) {
        const float4 x = *(const float4 *)(a.parts + p * a.count + 4 * i);
        sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
    }
    *(float4 *)(a.out + 4 * i) = sum;
}
