/* embed.cu - Embedding lookup: rows of a table of any type as f32, bit-identical to sl_decode_row.
 */
#include "runtime/cuda/kernels/embed.h"
#include "runtime/cuda/kernels/panel.cuh"
#include "runtime/cuda/kernels/strides.cuh"

/* ---- plain elements ---- */

struct plain_f32 {
    typedef float element;
    DEVICE float value(float x) {
        return x;
    }
    DEVICE void vector(const float *from, float *to) {
        *(float4 *)to = *(const float4 *)from;
        *(float4 *)(to + 4) = *(const float4 *)(from + 4);
    }
};
template <class HALF> struct plain_halves {
    typedef uint16_t element;
    DEVICE float value(uint16_t x) {
        return HALF::value(x);
    }
    DEVICE void vector(const uint16_t *from, float *to) {
        const uint4 words = *(const uint4 *)from;
        const unsigned four[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            to[2 * i] = HALF::value((uint16_t)four[i]);
            to[2 * i + 1] = HALF::value((uint16_t)(four[i] >> 16));
        }
    }
};
struct half_f16 {
    DEVICE float value(uint16_t x) {
        return f32_of_f16(x);
    }
};
struct half_bf16 {
    DEVICE float value(uint16_t x) {
        return f32_of_bf16(x);
    }
};

template <class PLAIN> struct from_plain {
    DEVICE void decode(const sl_lookup &a, int row, int column, float *to) {
        typedef typename PLAIN::element element;
        const element *from = (const element *)a.table + (int64_t)row * a.cols + column;
        if (a.vectors) {
            PLAIN::vector(from, to);
            return;
        }
#pragma unroll
        for (int i = 0; i < SL_EMBED_COLS; i++)
            to[i] = column + i < a.cols ? PLAIN::value(from[i]) : 0.0f;
    }
};

/* ---- panels: columns are padded to whole groups, so loads need no bounds check ---- */

/* OFFSET: of types with w = scale * (code - OFFSET), for which TYPE gives the minimum scale *
 * OFFSET.  Subtracting it from the code instead rounds like sl_decode_row. */
template <class TYPE, int OFFSET> struct from_panel {
    DEVICE void decode(const sl_lookup &a, int row, int column, float *to) {
        const int panel = row / 16, lane = row % 16, group = column / 32, inside = column % 32;
        const uint8_t *at = panel_at(a.panels, panel);
        const uint2 pair = TYPE::codes(group_codes(a.panels, at, group), lane, inside / 8);
        const params w = TYPE::read(a.panels, panel, at, group, lane, inside / 16);
#pragma unroll
        for (int i = 0; i < SL_EMBED_COLS; i++) {
            const unsigned word = i < 4 ? pair.x : pair.y;
            const int code = (int)(int8_t)(word >> 8 * (i % 4)) - OFFSET;
            to[i] = __fmul_rn(w.scale, (float)code);
            if (!OFFSET) to[i] = __fadd_rn(to[i], -w.minimum);
        }
    }
};

/* Unsigned 8-bit codes, from which TYPE::codes subtracts 128. */
template <class TYPE> struct from_unsigned {
    DEVICE void decode(const sl_lookup &a, int row, int column, float *to) {
        const int lane = row % 16, group = column / 32;
        const uint8_t *at = panel_at(a.panels, row / 16);
        const uint2 pair = TYPE::codes(group_codes(a.panels, at, group), lane, column % 32 / 8);
        const params w = TYPE::exactly(at + block_offset(a.panels, group), group % 2, lane);
#pragma unroll
        for (int i = 0; i < SL_EMBED_COLS; i++) {
            const unsigned word = i < 4 ? pair.x : pair.y;
            const int code = (int)(int8_t)(word >> 8 * (i % 4)) + 128;
            to[i] = __fadd_rn(__fmul_rn(w.scale, (float)code), -w.minimum);
        }
    }
};

struct from_f8 {
    DEVICE void decode(const sl_lookup &a, int row, int column, float *to) {
#pragma unroll
        for (int i = 0; i < SL_EMBED_COLS; i++)
            to[i] = weight_of<type_f8>(a.panels, row, column + i);
    }
};

/* ---- the kernels ---- */

template <class FROM> DEVICE void lookup(const sl_lookup &a) {
    const int64_t i = thread_number();
    if (i >= a.units) return;
    const int64_t token = quotient(i, a.row_units);
    const int column = (int)(i - token * a.row_units) * SL_EMBED_COLS;
    const int row = checked(a.fault, SL_FAULT_TOKEN, (int)token, a.ids[token], a.rows);
    __align__(16) float values[SL_EMBED_COLS];
    FROM::decode(a, row, column, values);
    float *out = a.out + token * a.cols + column;
    if (a.vectors) {
        ((float4 *)out)[0] = *(const float4 *)values;
        ((float4 *)out)[1] = *(const float4 *)(values + 4);
        return;
    }
#pragma unroll
    for (int c = 0; c < SL_EMBED_COLS; c++)
        if (column + c < a.cols) out[c] = values[c];
}

#define EMBED(TYPE, ...)                                                                           \
    SL_CUDA_KERNEL(sl_embed_##TYPE, sl_lookup) {                                                   \
        lookup<__VA_ARGS__>(a);                                                                    \
    }
EMBED(f32, from_plain<plain_f32>)
EMBED(f16, from_plain<plain_halves<half_f16>>)
EMBED(bf16, from_plain<plain_halves<half_bf16>>)
EMBED(q4, from_panel<type_q4, 0>)
EMBED(q8, from_panel<type_q8, 0>)
EMBED(q4_k, from_panel<type_q4_k, 0>)
EMBED(q4_0, from_panel<type_q4_0, 8>)
EMBED(q6_k, from_panel<type_q6_k, 32>)
EMBED(q4_m, from_panel<type_q4_m, 0>)
EMBED(q2_k, from_panel<type_q2_k, 0>)
EMBED(q3_k, from_panel<type_q3_k, 4>)
EMBED(q5_k, from_panel<type_q5_k, 0>)
EMBED(iq4_nl, from_panel<type_iq4_nl, 0>)
EMBED(iq4_xs, from_panel<type_iq4_xs, 0>)
EMBED(mxfp4, from_panel<type_mxfp4, 0>)
EMBED(nvfp4, from_panel<type_nvfp4, 0>)
EMBED(q6_m, from_panel<type_q6_m, 0>)
EMBED(q4_f, from_panel<type_q4_f, 0>)
EMBED(q8_m, from_unsigned<type_q8_m>)
EMBED(q8_f, from_unsigned<type_q8_f>)
EMBED(f8, from_f8)
