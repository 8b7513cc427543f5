/* row.cu - One row from its norm through the products that it goes into.
 *
 * Every block makes the row anew, which takes less than a launch of its own before the products
 * would.  A block asks for weights, and for what else nobody changes, before the row is there. */
#include "runtime/cuda/kernels/row.h"
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/linear_a8.cuh"
#include "runtime/cuda/kernels/linear_exact.cuh"
#include "runtime/cuda/kernels/norm.cuh"

enum { FOURS = SL_ROW_FOURS };

/* ---- the row ---- */

struct made_row {
    const sl_row_products &a;
    float *row; /* holds the gain until it holds the row */

    MEMBER explicit made_row(const sl_row_products &args, unsigned char *shared)
        : a(args), row((float *)(shared + args.row_at)) {}

    DEVICE int at(int i) {
        return (int)(i * blockDim.x + threadIdx.x) * 4;
    }
    MEMBER void ahead() {
#pragma unroll
        for (int i = 0; i < FOURS; i++)
            if (a.kind != SL_ROW_GATE && at(i) < a.width)
                copy_async<16>(row + at(i), a.norm.gain + (a.kind == SL_ROW_GATED
                                                               ? at(i) % SL_ROW_HEAD
                                                               : at(i)));
        copy_commit();
    }

    /* Four elements into shared memory; into memory where this block is the one to do so. */
    MEMBER void put(int at, float4 y) {
        *(float4 *)(row + at) = y;
        if (at / (4 * WARP) % (int)gridDim.x != (int)blockIdx.x) return; /* alike in a warp */
        if (a.norm.out) *(float4 *)(a.norm.out + at) = y;
        if (a.norm.codes.codes)
            quantise_eight(a.norm.codes, at / SL_CUDA_GROUP_COLS, true, y);
    }

    /* The whole row has one norm. */
    template <kind N> MEMBER void norm_whole() {
        const float4 none = make_float4(0, 0, 0, 0);
        float4 x[FOURS];
        float squares = 0;
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            x[i] = at(i) < a.width ? four(a.norm.x, at(i)) : none;
            if (N != norm_add || at(i) >= a.width) continue;
            const float4 other = four(a.norm.other, at(i));
            x[i] = make_float4(x[i].x + other.x, x[i].y + other.y, x[i].z + other.z,
                               x[i].w + other.w);
            if (at(i) / (4 * WARP) % (int)gridDim.x == (int)blockIdx.x)
                *(float4 *)(a.norm.sum + at(i)) = x[i];
        }
#pragma unroll
        for (int i = 0; i < FOURS; i++) squares += squares_of(x[i]);
        const float inverse = inverse_of<N>(a.norm, sum_of_row(squares, (int)blockDim.x));
#pragma unroll
        for (int i = 0; i < FOURS; i++)
            if (at(i) < a.width)
                put(at(i), normed_four<N>(a.norm, x[i], inverse, four(row, at(i)), none));
    }

    /* A warp has a part, four elements of each lane. */
    template <bool NORM> MEMBER void gate_parts() {
        float4 x[FOURS], z[FOURS];
#pragma unroll
        for (int i = 0; i < FOURS; i++)
            if (at(i) < a.width) {
                x[i] = four(a.norm.x, at(i));
                z[i] = four(a.norm.other, at(i));
            }
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            if (at(i) >= a.width) continue;
            const float4 v = x[i], g = z[i];
            if (NORM) {
                const float inverse = inverse_of<norm_gated>(a.norm, warp_sum(squares_of(v)));
                put(at(i), normed_four<norm_gated>(a.norm, v, inverse, four(row, at(i)), g));
            } else {
                put(at(i), make_float4(v.x * sigmoid(g.x), v.y * sigmoid(g.y), v.z * sigmoid(g.z),
                                       v.w * sigmoid(g.w)));
            }
        }
    }

    template <class METHOD>
    MEMBER void fill(METHOD &m, const sl_linear_panels &, const block_tokens &, int, int groups) {
        copy_wait<0>(); /* what this thread asked for is all it needs of that */
        switch (a.kind) {
        case SL_ROW_RMS: norm_whole<norm_rms>(); break;
        case SL_ROW_ADD: norm_whole<norm_add>(); break;
        case SL_ROW_GATED: gate_parts<true>(); break;
        default: gate_parts<false>();
        }
        __syncthreads();
        m.take(row, groups);
    }
};

/* ---- the convolution after a product ---- */

/* The row of a weight that thread i of a task finishes; -1 where there is none. */
DEVICE int row_of(const sl_linear_panels &a, int task, int i, int *out_weight) {
    const unit_place u = unit_at(a.d, a.finish, task, i / SL_CUDA_PANEL_ROWS);
    const int row = u.unit * SL_CUDA_PANEL_ROWS + i % SL_CUDA_PANEL_ROWS;
    *out_weight = u.weight;
    return u.unit >= 0 && row < a.d.rows[u.weight] ? row : -1;
}

/* Windows and taps are nobody else's: a thread asks for those of its row ahead. */
enum { CONV_ROWS = SL_ROW_UNITS * SL_CUDA_PANEL_ROWS };
struct conv_rows {
    float4 taps[CONV_ROWS];
    float window[SL_CONV_TAPS - 1][CONV_ROWS];
};
struct then_conv {
    const sl_row_products &all;
    conv_rows &held;

    MEMBER then_conv(const sl_row_products &args, conv_rows &shared) : all(args), held(shared) {}

    MEMBER float *window_of(int at) const {
        const sl_conv &c = all.conv;
        const int slot = checked(c.fault, SL_FAULT_SLOT, 0, c.slots[0], c.slot_count);
        return c.window + (int64_t)slot * (SL_CONV_TAPS - 1) * c.channels + at;
    }
    MEMBER void look(int place, int at) {
        const sl_conv &c = all.conv;
        const float *from = window_of(at);
        copy_async<16>(&held.taps[place], c.w + (int64_t)at * SL_CONV_TAPS);
#pragma unroll
        for (int i = 0; i < SL_CONV_TAPS - 1; i++)
            copy_async<4>(&held.window[i][place], from + (int64_t)i * c.channels);
    }
    MEMBER void ahead(const sl_linear_panels &a, int task) {
        const int place = (int)threadIdx.x;
        int weight;
        if (all.conv_weight < 0 || place >= a.d.units * SL_CUDA_PANEL_ROWS) return;
        const int row = row_of(a, task, place, &weight);
        if (row >= 0 && weight == all.conv_weight) look(place, row);
    }
    MEMBER void convolve(int place, int at, float x) {
        const sl_conv &c = all.conv;
        const int position = checked(c.fault, SL_FAULT_POSITION, 0, c.positions[0], INT32_MAX);
        float *to = window_of(at), before[SL_CONV_TAPS - 1];
        const float4 w = held.taps[place];
#pragma unroll
        for (int i = 0; i < SL_CONV_TAPS - 1; i++)
            before[i] = position == 0 ? 0.0f : held.window[i][place];
        c.out[at] = silu(w.x * before[0] + w.y * before[1] + w.z * before[2] + w.w * x);
        to[0] = before[1];
        to[c.channels] = before[2];
        to[2 * (int64_t)c.channels] = x;
    }
    template <class SUMS>
    MEMBER void task(const sl_linear_panels &a, const SUMS &sums, int task, const block_tokens &t) {
        if (a.finish.kind == SL_FINISH_QUANTISE) {
            finish_quantise(a.finish, a.d, sums, task, t.first, t.count);
            return;
        }
        for (int i = (int)threadIdx.x; i < a.d.units * SL_CUDA_PANEL_ROWS; i += (int)blockDim.x) {
            int weight;
            const int row = row_of(a, task, i, &weight);
            if (row < 0) continue;
            const float value = sums.at(i / SL_CUDA_PANEL_ROWS, 0, i % SL_CUDA_PANEL_ROWS);
            if (weight == all.conv_weight)
                convolve(i, row, value);
            else
                a.finish.out[weight][row] = value;
        }
    }
};

/* ---- both products ---- */

struct then_store {
    MEMBER void ahead(const sl_linear_panels &, int) {}
    template <class SUMS>
    MEMBER void task(const sl_linear_panels &a, const SUMS &sums, int task, const block_tokens &) {
        for (int i = (int)threadIdx.x; i < a.d.units * SL_CUDA_PANEL_ROWS; i += (int)blockDim.x) {
            int weight;
            const int row = row_of(a, task, i, &weight);
            if (row >= 0)
                a.finish.out[weight][row] =
                    sums.at(i / SL_CUDA_PANEL_ROWS, 0, i % SL_CUDA_PANEL_ROWS);
        }
    }
};

template <class CODED, class EXACT> DEVICE void row_products(const sl_row_products &a) {
    SL_DYNAMIC_SHARED(unsigned char, shared);
    __shared__ conv_rows held;
    made_row x(a, shared);
    const int block = (int)blockIdx.x, exact = a.exact_blocks;
    if (block < exact) {
        then_store then;
        multiply_panels<exact_tokens<EXACT, 1>>(a.exact, block, exact, x, then);
    } else {
        then_conv then(a, held);
        multiply_panels<one_token<CODED>>(a.coded, block - exact, (int)gridDim.x - exact, x, then);
    }
}

/* Types of the weights that codes are multiplied with, and of those that the row itself is; and for
 * how many threads registers are: of 4 bits, two blocks of most divisions fit. */
#define INSTANCE(CODED, EXACT, THREADS)                                                            \
    SL_CUDA_KERNEL_AHEAD(sl_row_##CODED##_##EXACT, sl_row_products, THREADS) {                     \
        row_products<rows_##CODED, rows_##EXACT>(a);                                               \
    }
INSTANCE(q4, q4, 768)
INSTANCE(q4, q8, 512)
INSTANCE(q8, q8, 512)
