/* linear_heads.cu - A matrix product per head.
 *
 * Panels: the warps of a block take groups in turn, a lane half a group of one row; the partial
 * sums of the warps are added in order.  Dense weights: each warp has rows of its own, and its
 * lanes take their columns in turn. */
#include "runtime/cuda/kernels/linear_heads.h"
#include "runtime/cuda/kernels/panel.cuh"

enum { ROWS = SL_HEADS_ROWS, WARPS = SL_HEADS_WARPS, TOKENS = SL_HEADS_TOKENS };

/* What a block works on. */
struct head_rows {
    const float *x; /* of its first token */
    float *out;
    int64_t x_stride, out_stride;
    int head, tokens, first; /* first: its first row */
};
DEVICE head_rows rows_of_block(const sl_linear_by_head &a) {
    const int head = (int)blockIdx.y, token = (int)blockIdx.z * TOKENS;
    head_rows r;
    r.head = head;
    r.tokens = min(a.tokens - token, (int)TOKENS);
    r.first = (int)blockIdx.x * ROWS;
    r.x_stride = (int64_t)a.heads * a.cols;
    r.out_stride = (int64_t)a.heads * a.rows;
    r.x = a.x + token * r.x_stride + (int64_t)head * a.cols;
    r.out = a.out + token * r.out_stride + (int64_t)head * a.rows + r.first;
    return r;
}

/* Adds up the partial sums of all warps and stores the results. */
DEVICE void store_sums(const sl_linear_by_head &a, const head_rows &r,
                       const float (&parts)[WARPS][TOKENS][ROWS]) {
    __syncthreads();
    for (int i = (int)threadIdx.x; i < r.tokens * ROWS; i += WARPS * WARP) {
        const int token = i / ROWS, row = i % ROWS;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += parts[w][token][row];
        if (r.first + row < a.rows) r.out[token * r.out_stride + row] = sum;
    }
}

/* ---- panels ---- */

/* Loads half a group, 16 columns, of a token; zeros beyond the last column. */
DEVICE void load_columns(float (&to)[16], const float *x, int column, int cols, bool wide) {
    if (wide && column + 16 <= cols) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float4 v = __ldg((const float4 *)(x + column) + i);
            to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 16; i++) to[i] = column + i < cols ? x[column + i] : 0.0f;
}

/* Marks a type whose weights are decoded one by one. */
template <class TYPE> struct one_by_one {};
template <class TYPE>
DEVICE void load_weights(one_by_one<TYPE>, float (&to)[16], const sl_cuda_panels &p, int panel,
                         int group, int row, int half) {
#pragma unroll
    for (int i = 0; i < 16; i++)
        to[i] = weight_of<TYPE>(p, 16 * panel + row, 32 * group + 16 * half + i);
}

/* The lane's 16 weights of a group. */
template <class TYPE>
DEVICE void load_weights(TYPE, float (&to)[16], const sl_cuda_panels &p, int panel, int group,
                         int row, int half) {
    const uint8_t *at = panel_at(p, panel), *codes = group_codes(p, at, group);
    const params w = TYPE::read(p, panel, at, group, row, half);
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const uint2 pair = TYPE::codes(codes, row, 2 * half + j);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int code = (int)(int8_t)((i < 4 ? pair.x : pair.y) >> 8 * (i % 4));
            to[8 * j + i] = w.scale * (float)code - w.minimum;
        }
    }
}

template <class TYPE> DEVICE void multiply_panels(const sl_linear_by_head &a) {
    __shared__ float parts[WARPS][TOKENS][ROWS];
    const head_rows r = rows_of_block(a);
    const int row = lane_id() % ROWS, half = lane_id() / ROWS;
    sl_cuda_panels p = a.panels;
    p.data += (uint64_t)r.head * a.matrix_bytes;
    float sums[TOKENS];
#pragma unroll
    for (int t = 0; t < TOKENS; t++) sums[t] = 0;
    for (int group = warp_id(); group < p.groups; group += WARPS) {
        float w[16], x[16];
        load_weights(TYPE(), w, p, (int)blockIdx.x, group, row, half);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            if (t >= r.tokens) break;
            load_columns(x, r.x + t * r.x_stride, 32 * group + 16 * half, a.cols, a.wide);
#pragma unroll
            for (int i = 0; i < 16; i++) sums[t] = fmaf(w[i], x[i], sums[t]);
        }
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        const float both = sums[t] + __shfl_xor_sync(ALL_LANES, sums[t], ROWS);
        if (half == 0) parts[warp_id()][t][row] = both;
    }
    store_sums(a, r, parts);
}

/* ---- dense weights: ROWS / WARPS rows per warp ---- */

struct dense_f32 {
    typedef float element;
    enum { WIDE = 4 };
    DEVICE float value(float x) {
        return x;
    }
    DEVICE void values(float *to, const uint4 &x) {
        to[0] = __uint_as_float(x.x), to[1] = __uint_as_float(x.y);
        to[2] = __uint_as_float(x.z), to[3] = __uint_as_float(x.w);
    }
};
template <class HALF> struct dense_half {
    typedef uint16_t element;
    enum { WIDE = 8 };
    DEVICE void values(float *to, const uint4 &x) {
        const unsigned words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = HALF::value((uint16_t)(words[i / 2] >> 16 * (i % 2)));
    }
};
struct dense_f16 : dense_half<dense_f16> {
    DEVICE float value(uint16_t x) {
        return f32_of_f16(x);
    }
};
struct dense_bf16 : dense_half<dense_bf16> {
    DEVICE float value(uint16_t x) {
        return f32_of_bf16(x);
    }
};

/* Adds N columns from `column` on to the sums of a row. */
template <class TYPE, int N>
DEVICE void add_columns(float (&sums)[TOKENS], const typename TYPE::element *w, const head_rows &r,
                        int column) {
    float values[N];
    if constexpr (N == 1)
        values[0] = TYPE::value(w[column]);
    else
        TYPE::values(values, __ldg((const uint4 *)(w + column)));
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        if (t >= r.tokens) break;
#pragma unroll
        for (int i = 0; i < N; i++)
            sums[t] = fmaf(values[i], __ldg(r.x + t * r.x_stride + column + i), sums[t]);
    }
}

template <class TYPE> DEVICE void multiply_dense(const sl_linear_by_head &a) {
    enum { EACH = ROWS / WARPS };
    const head_rows r = rows_of_block(a);
    const char *matrix = (const char *)a.w + (uint64_t)r.head * a.matrix_bytes;
    for (int i = 0; i < EACH; i++) {
        const int row = warp_id() * EACH + i;
        if (r.first + row >= a.rows) break; /* warp-uniform */
        const typename TYPE::element *w =
            (const typename TYPE::element *)matrix + (int64_t)(r.first + row) * a.cols;
        float sums[TOKENS];
#pragma unroll
        for (int t = 0; t < TOKENS; t++) sums[t] = 0;
        if (a.wide)
            for (int c = lane_id() * TYPE::WIDE; c < a.cols; c += WARP * TYPE::WIDE)
                add_columns<TYPE, TYPE::WIDE>(sums, w, r, c);
        else
            for (int c = lane_id(); c < a.cols; c += WARP) add_columns<TYPE, 1>(sums, w, r, c);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const float sum = warp_sum(sums[t]);
            if (lane_id() == 0 && t < r.tokens) r.out[t * r.out_stride + row] = sum;
        }
    }
}

/* ---- the kernels ---- */

#define HEADS(TYPE, MULTIPLY)                                                                      \
    SL_CUDA_KERNEL(sl_linear_heads_##TYPE, sl_linear_by_head, WARPS *WARP) {                       \
        MULTIPLY(a);                                                                               \
    }
HEADS(f32, multiply_dense<dense_f32>)
HEADS(f16, multiply_dense<dense_f16>)
HEADS(bf16, multiply_dense<dense_bf16>)
#define HEADS_PANELS(TYPE, ...) HEADS(TYPE, multiply_panels<type_##TYPE>)
SL_PANEL_TYPES(HEADS_PANELS)
#define HEADS_PLAIN(TYPE) HEADS(TYPE, multiply_panels<one_by_one<type_##TYPE>>)
SL_PLAIN_PANEL_TYPES(HEADS_PLAIN)
