/* row.cu - One row: its norm, fused with the products that use it.
 *
 * Every block recomputes the norm, which costs less than a launch of its own.  A block loads its
 * weights, and everything else that preceding launches do not write, before the row is available
 * (gemv_panel.cuh). */
#include "runtime/cuda/kernels/row.h"
#include "runtime/cuda/kernels/linear.cuh"
#include "runtime/cuda/kernels/norm.cuh"
#include "runtime/cuda/kernels/gemv_panel.cuh"

/* ---- the row ---- */

/* Layout of the shared memory; `x` becomes the normalised row. */
struct row_room {
    float *x, *other, *gain;
    float4 *groups;
    uint8_t *codes;
    float *sums; /* [warp][row of a panel] */
};
DEVICE row_room room_of(const sl_row_products &a, uint8_t *shared) {
    row_room r;
    r.x = (float *)(shared + a.row_at);
    r.other = r.x + a.width;
    r.gain = r.other + a.width;
    r.groups = (float4 *)(r.gain + a.width);
    r.codes = (uint8_t *)(r.groups + a.width / SL_CUDA_GROUP_COLS);
    r.sums = (float *)(r.codes + a.width);
    return r;
}

/* A thread copies exactly the elements that it later processes. */
DEVICE void ask_gain(const sl_row_products &a, const row_room &r) {
    if (a.kind == SL_ROW_CODED) return;
#pragma unroll 1
    for (int at = (int)threadIdx.x * 4; at < a.width; at += (int)blockDim.x * 4)
        copy_async<16>(r.gain + at, a.norm.gain + at);
}
DEVICE void ask_row(const sl_row_products &a, const row_room &r) {
#pragma unroll 1
    for (int at = (int)threadIdx.x * 4; at < a.width; at += (int)blockDim.x * 4) {
        copy_async<16>(r.x + at, a.norm.x + at);
        if (a.kind == SL_ROW_ADD) copy_async<16>(r.other + at, a.norm.other + at);
    }
}

/* Whether this block stores the four elements at `at` to global memory; warp-uniform. */
DEVICE bool is_mine(const sl_row_products &a, int at) {
    return (unsigned)(at - (int)blockIdx.x * a.stored) < (unsigned)a.stored;
}

/* The row's norm factor; with SL_ROW_ADD, first replaces x by x + other. */
DEVICE float whole_inverse(const sl_row_products &a, const row_room &r) {
    float squares = 0;
#pragma unroll 1
    for (int at = (int)threadIdx.x * 4; at < a.width; at += (int)blockDim.x * 4) {
        float4 x = four(r.x, at);
        if (a.kind == SL_ROW_ADD) {
            const float4 other = four(r.other, at);
            x = make_float4(x.x + other.x, x.y + other.y, x.z + other.z, x.w + other.w);
            *(float4 *)(r.x + at) = x;
            if (is_mine(a, at)) *(float4 *)(a.norm.sum + at) = x;
        }
        squares += squares_of(x);
    }
    return inverse_of<norm_rms>(a.norm, block_sum(squares));
}

/* Quantises the lane's four elements for this block and, if is_mine, for later launches. */
DEVICE void put_codes(const sl_row_products &a, const row_room &r, int at, float4 y) {
    const coded_four c = code_eight(y);
    const int group = at / SL_CUDA_GROUP_COLS;
    float sum = (y.x + y.y) + (y.z + y.w);
#pragma unroll
    for (int d = 1; d < 8; d *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, d);
    ((int *)r.codes)[at / 4] = c.word;
    const bool first = lane_id() % 8 == 0;
    if (first) r.groups[group] = make_float4(c.scale, (float)c.sum, (float)c.half, sum);
    if (!is_mine(a, at)) return;
    if (a.norm.out) *(float4 *)(a.norm.out + at) = y;
    ((int *)a.norm.codes.codes)[at / 4] = c.word;
    if (first) store_group(a.norm.codes, group, c.scale, c.sum, c.half);
}

/* Needs no barrier before it: a thread reads only what it copied itself. */
DEVICE void make_row(const sl_row_products &a, const row_room &r) {
    const float inverse = whole_inverse(a, r);
    const float4 none = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int at = (int)threadIdx.x * 4; at < a.width; at += (int)blockDim.x * 4) {
        const float4 y =
            normed_four<norm_rms>(a.norm, four(r.x, at), inverse, four(r.gain, at), none);
        *(float4 *)(r.x + at) = y;
        put_codes(a, r, at, y);
    }
}

/* ---- epilogues ---- */

/* Convolution windows and taps of this block's rows.  No launch that may still be running writes
 * them, so they are requested before follow(). */
enum { CONV_ROWS = SL_ROW_UNITS * SL_CUDA_PANEL_ROWS };
struct conv_rows {
    float4 taps[CONV_ROWS];
    float window[SL_CONV_TAPS - 1][CONV_ROWS];
};

/* The row of a weight matrix that thread i finishes, or -1. */
DEVICE int row_of(const sl_row_product &p, int task, int i, int *out_weight) {
    const unit_place u = unit_at(p.d, p.finish, task, i / SL_CUDA_PANEL_ROWS);
    const int row = u.unit * SL_CUDA_PANEL_ROWS + i % SL_CUDA_PANEL_ROWS;
    *out_weight = u.weight;
    return u.unit >= 0 && row < p.d.rows[u.weight] ? row : -1;
}
DEVICE float *window_of(const sl_conv &c, int at) {
    const int slot = checked(c.fault, SL_FAULT_SLOT, 0, c.slots[0], c.slot_count);
    return c.window + (int64_t)slot * (SL_CONV_TAPS - 1) * c.channels + at;
}
DEVICE void ask_conv(const sl_row_products &a, conv_rows &held, int i, int row, bool begins) {
    const sl_conv &c = a.conv;
    const float *from = window_of(c, row);
    copy_async<16>(&held.taps[i], c.w + (int64_t)row * SL_CONV_TAPS);
    if (begins) return; /* a new sequence: the window may be uninitialised */
#pragma unroll
    for (int k = 0; k < SL_CONV_TAPS - 1; k++)
        copy_async<4>(&held.window[k][i], from + (int64_t)k * c.channels);
}
DEVICE void convolve(const sl_row_products &a, const conv_rows &held, int i, int row, float x,
                     bool begins) {
    const sl_conv &c = a.conv;
    float *to = window_of(c, row);
    const float4 w = held.taps[i];
    const float x0 = begins ? 0.0f : held.window[0][i], x1 = begins ? 0.0f : held.window[1][i];
    const float x2 = begins ? 0.0f : held.window[2][i];
    c.out[row] = silu(w.x * x0 + w.y * x1 + w.z * x2 + w.w * x);
    to[0] = x1;
    to[c.channels] = x2;
    to[2 * (int64_t)c.channels] = x;
}

DEVICE float sum_of_unit(const sl_row_product &p, const float *sums, int unit, int row) {
    float sum = 0;
#pragma unroll 1
    for (int s = 0; s < p.d.split; s++)
        sum += sums[(unit * p.d.split + s) * SL_CUDA_PANEL_ROWS + row];
    return sum;
}

/* Epilogue of blocks with two panels of either weight: swiglu, quantised by one warp as one
 * group. */
DEVICE void finish_group(const sl_row_product &p, const float *sums, int task) {
    const int unit = lane_id() / SL_CUDA_PANEL_ROWS, row = lane_id() % SL_CUDA_PANEL_ROWS;
    float value = 0;
    if (warp_id() > 0) return;
    if (task * WARP + lane_id() < p.d.rows[0])
        value = apply_swiglu(sum_of_unit(p, sums, unit, row), sum_of_unit(p, sums, 2 + unit, row));
    quantise_warp(p.finish.codes, task, true, value);
}

/* ---- both products ---- */

template <class CODED, class EXACT> DEVICE void row_products(const sl_row_products &a) {
    SL_DYNAMIC_SHARED(uint8_t, shared);
    __shared__ conv_rows held;
    const bool exact = (int)blockIdx.x < a.exact_blocks;
    const sl_row_product &p = a.product[exact ? SL_ROW_OF_ITSELF : SL_ROW_OF_CODES];
    const int task = (int)blockIdx.x - (exact ? 0 : a.exact_blocks), i = (int)threadIdx.x;
    const row_room r = room_of(a, shared);
    const bool works = warp_id() < p.d.units * p.d.split;
    const unit_place u = unit_at(p.d, p.finish, task, works ? warp_id() / p.d.split : 0);
    const sl_cuda_panels &w = p.w[u.weight];
    const int first = warp_id() % p.d.split * p.blocks;
    const panel_part part = exact ? part_of<EXACT>(w, w.data, u.unit, first, p.blocks)
                                  : part_of<CODED>(w, w.data, u.unit, first, p.blocks);
    const bool has_part = works && u.unit >= 0 && part.count > 0;
    uint8_t *share = shared + warp_id() * p.share_bytes;
    int weight = 0, row = -1;
    bool begins = false;
    lead();
    if (has_part) exact ? ask_part<EXACT>(share, part) : ask_part<CODED>(share, part);
    ask_gain(a, r);
    if (i < p.d.units * SL_CUDA_PANEL_ROWS) row = row_of(p, task, i, &weight);
    const bool goes_on = !exact && row >= 0 && weight == a.conv_weight;
    if (goes_on) {
        begins = checked(a.conv.fault, SL_FAULT_POSITION, 0, a.conv.positions[0], INT32_MAX) == 0;
        ask_conv(a, held, i, row, begins);
    }
    follow();
    const shared_row x = {r.codes, r.groups, r.x};
    if (a.kind == SL_ROW_CODED)
        take_codes(a.x8, 0, a.width / SL_CUDA_GROUP_COLS, x);
    else
        ask_row(a, r);
    copy_commit();
    copy_wait<0>();
    if (a.kind != SL_ROW_CODED) make_row(a, r);
    __syncthreads();
    float sum = 0;
    if (has_part)
        sum = exact ? sum_part<EXACT, true>(share, part, x)
                    : sum_part<CODED, false>(share, part, x);
    if (works && lane_id() < 16) r.sums[warp_id() * SL_CUDA_PANEL_ROWS + lane_id()] = sum;
    __syncthreads();
    if (p.finish.kind == SL_FINISH_QUANTISE) {
        finish_group(p, r.sums, task);
        return;
    }
    if (row < 0) return;
    const float y = sum_of_unit(p, r.sums, i / SL_CUDA_PANEL_ROWS, i % SL_CUDA_PANEL_ROWS);
    if (goes_on)
        convolve(a, held, i, row, y, begins);
    else
        p.finish.out[weight][row] = y;
}

/* CODED: type of the weights for the a8 codes; EXACT: of those for the f32 row. */
#define INSTANCE(CODED, EXACT)                                                                     \
    SL_CUDA_KERNEL_AHEAD(sl_row_##CODED##_##EXACT, sl_row_products, SL_ROW_WARPS *WARP) {          \
        row_products<type_##CODED, type_##EXACT>(a);                                               \
    }
INSTANCE(q4, q4)
INSTANCE(q4, q8)
INSTANCE(q8, q8)
