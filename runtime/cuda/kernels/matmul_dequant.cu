/* matmul_dequant.cu - Dequantising low-bit weights (core/schemes.h, core/gguf_blocks.h), one thread
 * per weight, and products with them.  GGUF weights are bit-identical to those of the CPU: no
 * contraction to FMA. */
#include "core/packings.h"
#include "runtime/cuda/kernels/indices.cuh"
#include "runtime/cuda/kernels/matmul_dequant.h"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/panel.cuh"
#include "runtime/cuda/kernels/strides.cuh"

/* ---- fields of blocks; b points to the block or to the start of the field ---- */

DEVICE int word_at(const uint8_t *b) {
    return b[0] | b[1] << 8;
}
DEVICE float half_at(const uint8_t *b) {
    return f32_of_f16((uint16_t)word_at(b));
}
DEVICE int bit_at(const uint8_t *b, int i) {
    return b[i / 8] >> i % 8 & 1;
}
/* 4-bit codes of 32 columns: the low nibbles are the first 16 columns. */
DEVICE int nibble_at(const uint8_t *b, int i) {
    return b[i % 16] >> i / 16 * 4 & 15;
}
/* 2-bit codes: 32 bytes hold four groups of 32 columns, one in each pair of bits. */
DEVICE int pair_at(const uint8_t *b, int e) {
    return b[e / 128 * 32 + e % 32] >> e / 32 % 4 * 2 & 3;
}
/* Lookup of a 4-bit code in a table of 16 signed bytes; entry 0 is the lowest byte of `low`. */
DEVICE float entry(uint64_t low, uint64_t high, int code) {
    return (float)(int8_t)((code < 8 ? low : high) >> code % 8 * 8);
}
DEVICE float iq4(int code) {
    return entry(0xf6eaddcfbfad9881u, 0x7159453526190d01u, code);
}
DEVICE float fp4(int code) {
    return entry(0x0c08060403020100u, 0xf4f8fafcfdfeff00u, code);
}
DEVICE float signed_e4m3(int bits) {
    const float size = (bits & 0x7f) == 0x7f ? NAN : f32_of_e4m3(bits & 0x7f);
    return bits & 0x80 ? -size : size;
}
DEVICE float less_minimum(float scale, int code, float minimum) {
    return __fadd_rn(__fmul_rn(scale, (float)code), -minimum);
}

/* ---- GGUF: weight e of block b ---- */

/* Half of the block's scale 2^(e - 127); subnormal where e is below 2. */
DEVICE float half_power(int e) {
    return f32_of_bf16((uint16_t)(e < 2 ? 0x20 << e : (e - 1) << 7));
}
DEVICE float nvfp4_weight(const uint8_t *b, int e) {
    const int codes = b[4 + e / 16 * 8 + e % 8], scale = b[e / 16] & 0x7f;
    return 0.5f * (scale == 0x7f ? 0 : f32_of_e4m3(scale)) *
           fp4(e % 16 < 8 ? codes & 15 : codes >> 4);
}
DEVICE float q3_k_weight(const uint8_t *b, int e) {
    const uint8_t *s = b + 96;
    const int j = e / 16, low = j < 8 ? s[j] & 15 : s[j - 8] >> 4, high = s[8 + j % 4] >> j / 4 * 2;
    const int code = pair_at(b + 32, e) | (b[e % 32] >> e / 32 & 1) << 2;
    return half_at(b + 108) * (float)((low | (high & 3) << 4) - 32) * (float)(code - 4);
}
/* Q4_K and Q5_K: a 6-bit scale and a 6-bit minimum per group. */
DEVICE float scaled_k(const uint8_t *b, int group, int code) {
    const uint8_t *s = b + 4;
    const bool first = group < 4;
    const int scale = first ? s[group] & 63 : (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
    const int minimum = first ? s[group + 4] & 63 : s[group + 4] >> 4 | s[group] >> 6 << 4;
    return less_minimum(half_at(b) * (float)scale, code, half_at(b + 2) * (float)minimum);
}
DEVICE int nibble_k(const uint8_t *b, int e) {
    return b[e / 64 * 32 + e % 32] >> e / 32 % 2 * 4 & 15;
}
DEVICE float q6_k_weight(const uint8_t *b, int e) {
    const int half = e / 128, group = e / 32 % 4, i = e % 32;
    const int low = b[64 * half + 32 * (group & 1) + i] >> group / 2 * 4 & 15;
    const int high = b[128 + 32 * half + i] >> group * 2 & 3;
    return half_at(b + 208) * (float)(int8_t)b[192 + e / 16] * (float)((low | high << 4) - 32);
}
DEVICE float iq4_xs_weight(const uint8_t *b, int e) {
    const int group = e / 32, low = b[4 + group / 2] >> group % 2 * 4 & 15;
    const int high = word_at(b + 2) >> group * 2 & 3;
    return half_at(b) * (float)((low | high << 4) - 32) *
           iq4(nibble_at(b + 8 + 16 * group, e % 32));
}
/* A byte holds five base-3 digits as a fraction of 256; the last four bytes hold four each. */
DEVICE float tq1_0_weight(const uint8_t *b, int e) {
    const int second = e - 160, third = e - 240;
    const int byte = second < 0 ? e % 32 : third < 0 ? 32 + second % 16 : 48 + third % 4;
    int digit = second < 0 ? e / 32 : third < 0 ? second / 16 : third / 4;
    uint8_t rest = b[byte];
    while (digit-- > 0) rest = (uint8_t)(rest * 3);
    return half_at(b + 52) * (float)((rest * 3 >> 8) - 1);
}
DEVICE float q8_k_weight(const uint8_t *b, int e) {
    float scale;
    memcpy(&scale, b, sizeof scale);
    return scale * (float)(int8_t)b[4 + e];
}

DEVICE float gguf_weight(int type, const uint8_t *b, int e) {
    switch (type) {
#define TYPE(NAME, ...)                                                                            \
    case SL_GGUF_##NAME:                                                                           \
        return __VA_ARGS__;
        TYPE(Q4_0, half_at(b) * (float)(nibble_at(b + 2, e) - 8))
        TYPE(Q4_1, less_minimum(half_at(b), nibble_at(b + 4, e), -half_at(b + 2)))
        TYPE(Q5_0, half_at(b) * (float)((nibble_at(b + 6, e) | bit_at(b + 2, e) << 4) - 16))
        TYPE(Q5_1,
             less_minimum(half_at(b), nibble_at(b + 8, e) | bit_at(b + 4, e) << 4, -half_at(b + 2)))
        TYPE(Q8_0, half_at(b) * (float)(int8_t)b[2 + e])
        TYPE(Q8_1, half_at(b) * (float)(int8_t)b[4 + e])
        TYPE(Q2_K, less_minimum(half_at(b + 80) * (float)(b[e / 16] & 15), pair_at(b + 16, e),
                                half_at(b + 82) * (float)(b[e / 16] >> 4)))
        TYPE(Q3_K, q3_k_weight(b, e))
        TYPE(Q4_K, scaled_k(b, e / 32, nibble_k(b + 16, e)))
        TYPE(Q5_K, scaled_k(b, e / 32, nibble_k(b + 48, e) | (b[16 + e % 32] >> e / 32 & 1) << 4))
        TYPE(Q6_K, q6_k_weight(b, e))
        TYPE(Q8_K, q8_k_weight(b, e))
        TYPE(IQ4_NL, half_at(b) * iq4(nibble_at(b + 2, e)))
        TYPE(IQ4_XS, iq4_xs_weight(b, e))
        TYPE(MXFP4, half_power(b[0]) * fp4(nibble_at(b + 1, e)))
        TYPE(NVFP4, nvfp4_weight(b, e))
        TYPE(TQ1_0, tq1_0_weight(b, e))
        TYPE(TQ2_0, half_at(b + 64) * (float)(pair_at(b, e) - 1))
#undef TYPE
    default:
        return 0;
    }
}

/* ---- any scheme ---- */

/* The code at row k (of the inner dimension) and column n, as a float. */
DEVICE float code_at(const sl_packed_weights &p, int64_t k, int64_t n) {
    const bool whole =
        p.kind < SL_SCHEME_INT4 || p.kind == SL_SCHEME_E4M3 || p.kind == SL_SCHEME_E5M2;
    const int byte = p.w[whole ? k * p.cols + n : k * ((p.cols + 1) / 2) + n / 2];
    const int nibble = byte >> n % 2 * 4 & 15;
    switch (p.kind) {
    case SL_SCHEME_INT4:
        return (float)(nibble >= 8 ? nibble - 16 : nibble);
    case SL_SCHEME_INT4_ASYM:
        return (float)nibble;
    case SL_SCHEME_NVFP4:
        return 0.5f * fp4(nibble);
    case SL_SCHEME_E4M3:
        return signed_e4m3(byte);
    case SL_SCHEME_E5M2: /* e5m2 is the upper byte of an f16 */
        return f32_of_f16((uint16_t)(byte << 8));
    default:
        return (float)(p.w_signed ? (int8_t)byte : byte);
    }
}
/* Codes are bits of a stream, the lowest first. */
DEVICE float mlx_weight(const sl_packed_weights &p, int64_t k, int64_t n) {
    const int64_t bit = k * p.bits, at = n * (p.inner / p.block) + quotient(k, p.block);
    const uint8_t *row = p.w + n * (p.inner * p.bits / 8) + bit / 8;
    const int shift = (int)(bit % 8), high = shift + p.bits > 8 ? row[1] : 0;
    const int code = (row[0] | high << 8) >> shift & ((1 << p.bits) - 1);
    return less_minimum(((const float *)p.params[0])[at], code, -((const float *)p.params[1])[at]);
}
DEVICE float weight_at(const sl_packed_weights &p, int64_t matrix, int64_t k, int64_t n) {
    if (p.kind == SL_SCHEME_GGUF) {
        const int64_t block = quotient(k, p.block);
        return gguf_weight(p.gguf,
                           p.w + (matrix * p.cols + n) * p.row_bytes + block * p.block_bytes,
                           (int)(k - block * p.block));
    }
    if (p.kind == SL_SCHEME_MLX) return mlx_weight(p, k, n);
    const int64_t at = p.block ? quotient(k, p.block) * p.cols + n : p.one_scale ? 0 : n;
    const float *scales = (const float *)p.params[0], *second = (const float *)p.params[1];
    const float code = code_at(p, k, n);
    if (p.kind == SL_SCHEME_NVFP4)
        return code * signed_e4m3(((const uint8_t *)p.params[0])[at]) * second[0];
    return (p.two_params ? code - second[at] : code) * scales[at];
}

SL_CUDA_KERNEL(sl_unpack, sl_unpacked, SL_DEQUANT_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const int64_t row = quotient(i, a.weights.cols), matrix = quotient(row, a.weights.inner);
    a.out[i] =
        weight_at(a.weights, matrix, row - matrix * a.weights.inner, i - row * a.weights.cols);
}

SL_CUDA_KERNEL(sl_multiply_packed, sl_packed_product, SL_DEQUANT_THREADS) {
    const int64_t i = thread_number(), inner = a.weights.inner;
    if (i >= a.count) return;
    const int64_t row = quotient(i, a.weights.cols);
    int64_t matrix = 0;
    if (a.experts.data)
        matrix = index_within(a.experts, row, raw_index(a.experts, row), a.expert_count);
    double sum = 0;
    for (int64_t k = 0; k < inner; k++)
        sum += load_number(a.type, a.x, row * inner + k).re *
               (double)weight_at(a.weights, matrix, k, i - row * a.weights.cols);
    store_number(a.type, a.out, i, number_of(sum));
}
