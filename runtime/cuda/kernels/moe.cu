/* moe.cu - Experts: dividing the sorted pairs into tiles, and products for all weight types, one
 * weight at a time. */
#include "runtime/cuda/kernels/moe.cuh"

/* ---- tiles ---- */

/* Number of tiles for an expert's pairs; 0 where the expert is not on the device.  Invalid starts
 * raise a fault. */
DEVICE int tiles_of(const sl_moe_cut &a, int expert, int *out_first, int *out_last) {
    const sl_moe_places &p = a.places;
    const int first = p.starts[expert], last = p.starts[expert + 1];
    *out_first = first;
    *out_last = last;
    if (first < 0 || last < first || last > p.pairs) {
        checked(p.fault, SL_FAULT_RUN, expert,
                first < 0      ? first
                : last < first ? -1
                               : last,
                p.pairs + 1);
        return 0;
    }
    return p.table[expert] ? (last - first + a.tile_pairs - 1) / a.tile_pairs : 0;
}

/* Exclusive prefix sum of x over the threads of the block; *out_all is the total. */
DEVICE int block_before(int x, int *out_all) {
    __shared__ int sums[WARP];
    int upto = x;
#pragma unroll
    for (int d = 1; d < WARP; d *= 2) {
        const int other = __shfl_up_sync(ALL_LANES, upto, d);
        if (lane_id() >= d) upto += other;
    }
    if (lane_id() == WARP - 1) sums[warp_id()] = upto;
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < (int)(blockDim.x / WARP); w++) {
        if (w < warp_id()) before += sums[w];
        all += sums[w];
    }
    __syncthreads();
    *out_all = all;
    return before + upto - x;
}

/* Launched with one block.  Unused entries of `tiles` get count 0. */
SL_CUDA_KERNEL(sl_moe_cut_tiles, sl_moe_cut) {
    const int threads = (int)blockDim.x;
    int used = 0;
    for (int base = 0; base < a.places.experts; base += threads) {
        const int expert = base + (int)threadIdx.x;
        int first = 0, last = 0, all;
        const int count = expert < a.places.experts ? tiles_of(a, expert, &first, &last) : 0;
        const int at = used + block_before(count, &all);
        for (int i = 0; i < count && at + i < a.tile_count; i++) {
            const int from = first + i * a.tile_pairs;
            a.tiles[at + i] = {expert, from, min(last - from, a.tile_pairs), 0};
        }
        used += all;
    }
    for (int i = used + (int)threadIdx.x; i < a.tile_count; i += threads) a.tiles[i] = {0, 0, 0, 0};
}

/* ---- products of any type: a warp computes one row of the matrix for all pairs of a tile ---- */

enum { PLAIN_PAIRS = 8 };

template <class TYPE> struct panel_matrix {
    DEVICE float at(const sl_cuda_panels &p, int row, int column) {
        return weight_of<TYPE>(p, row, column);
    }
};
struct matrix_f32 {
    DEVICE float at(const sl_cuda_panels &p, int row, int column) {
        return ((const float *)p.data)[(int64_t)row * p.cols + column];
    }
};
struct matrix_f16 {
    DEVICE float at(const sl_cuda_panels &p, int row, int column) {
        return f32_of_f16(((const uint16_t *)p.data)[(int64_t)row * p.cols + column]);
    }
};
struct matrix_bf16 {
    DEVICE float at(const sl_cuda_panels &p, int row, int column) {
        return f32_of_bf16(((const uint16_t *)p.data)[(int64_t)row * p.cols + column]);
    }
};

DEVICE float row_value(const sl_moe_plain &a, int row, int column) {
    if (a.x) return a.x[(int64_t)row * a.w.cols + column];
    const int64_t group = (int64_t)row * a.x8.groups + column / 32;
    return (float)a.x8.codes[group * 32 + column % 32] * a.x8.scales[group];
}

template <class MATRIX> DEVICE void plain_product(const sl_moe_plain &a) {
    __shared__ int from[PLAIN_PAIRS], to[PLAIN_PAIRS];
    const sl_moe_tile tile = a.tiles[blockIdx.x];
    const int row = (int)(blockIdx.y * (blockDim.x / WARP)) + warp_id();
    if (!tile.count) return;
    if (threadIdx.x < PLAIN_PAIRS) {
        const int place = tile.first + min((int)threadIdx.x, tile.count - 1);
        const int pair =
            checked(a.places.fault, SL_FAULT_PAIR, place, a.places.order[place], a.places.pairs);
        from[threadIdx.x] = a.into ? pair / a.places.k : place;
        to[threadIdx.x] = a.into ? place : pair;
    }
    __syncthreads();
    if (row >= a.w.rows) return;
    sl_cuda_panels w = a.w;
    w.data = (const uint8_t *)a.places.table[tile.expert] + a.offset;
    const float bias = a.bias ? a.bias[(int64_t)tile.expert * w.rows + row] : -0.0f;
    float sums[PLAIN_PAIRS] = {};
    for (int column = lane_id(); column < w.cols; column += WARP) {
        const float weight = MATRIX::at(w, row, column);
#pragma unroll
        for (int i = 0; i < PLAIN_PAIRS; i++)
            if (i < tile.count) sums[i] = fmaf(weight, row_value(a, from[i], column), sums[i]);
    }
#pragma unroll
    for (int i = 0; i < PLAIN_PAIRS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane_id() == 0 && i < tile.count) a.out[(int64_t)to[i] * w.rows + row] = sum + bias;
    }
}

#define PLAIN(NAME, MATRIX)                                                                        \
    SL_CUDA_KERNEL(sl_moe_plain_##NAME, sl_moe_plain) {                                            \
        plain_product<MATRIX>(a);                                                                  \
    }
PLAIN(f32, matrix_f32)
PLAIN(f16, matrix_f16)
PLAIN(bf16, matrix_bf16)
#define PLAIN_PANELS(NAME, ...) PLAIN(NAME, panel_matrix<type_##NAME>)
SL_PANEL_TYPES(PLAIN_PANELS)
SL_PLAIN_PANEL_TYPES(PLAIN_PANELS)

/* One warp per group of 32 columns. */
SL_CUDA_KERNEL(sl_moe_swiglu_rows, sl_moe_swiglu) {
    const int groups = (a.width + WARP - 1) / WARP;
    const int64_t at = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id();
    if (at >= (int64_t)a.rows * groups) return;
    const int column = (int)(at % groups) * WARP + lane_id();
    const int64_t index = at / groups * a.width + column;
    const bool inside = column < a.width;
    float value = 0.0f;
    if (inside && a.act.limit > 0.0f)
        value = limited_swiglu(a.act, a.gate[index], a.up[index]);
    else if (inside)
        value = swiglu(a.gate[index], a.up[index]);
    if (a.coded) {
        const a8_scale s = a8_scale_of(warp_max(fabsf(value)), warp_sum(value * 0.0f));
        value = (float)a8_code(value, s) * s.scale;
    }
    if (inside) a.gate[index] = value;
}
