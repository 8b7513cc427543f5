/* gemm_half.cu - GEMM of many a8 rows with panel weights, in f16 on tensor cores. */
#include "runtime/cuda/kernels/gemm_half.cuh"

/* Converts a8 rows to f16, a block per row. */
SL_CUDA_KERNEL(sl_rows_to_halves, sl_to_halves) {
    const int64_t row = (int64_t)blockIdx.x * a.x.groups;
    float largest = 0;
    for (int g = (int)threadIdx.x; g < a.x.groups; g += (int)blockDim.x)
        largest = fmaxf(largest, fabsf(a.x.scales[row + g]));
    largest = block_max(largest);
    /* Scaled by 2^-shift, 127 times the largest scale is below 2^15.  Scales that are 0, tiny,
     * infinite or NaN are not scaled. */
    const int exponent = (int)(__float_as_uint(largest) >> 23) - 127;
    const bool ordinary = exponent > -100 && exponent < 128;
    const int shift = ordinary ? exponent - 7 : 0;
    const float by = __uint_as_float((unsigned)(127 - shift) << 23);
    if (threadIdx.x == 0)
        a.factors[blockIdx.x] = __uint_as_float((unsigned)(127 + shift - SL_HALF_SHIFT) << 23);
    for (int i = (int)threadIdx.x; i < a.x.groups * 4; i += (int)blockDim.x) {
        const float scale = a.x.scales[row + i / 4] * by;
        const uint2 codes = ((const uint2 *)(a.x.codes + row * 32))[i];
        unsigned words[4]; /* columns (0, 2), (1, 3), (4, 6), (5, 7) */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const unsigned four = (j < 2 ? codes.x : codes.y) >> 8 * (j % 2);
            words[j] = f16_pair(scale * (float)(int8_t)four, scale * (float)(int8_t)(four >> 16));
        }
        ((uint4 *)(a.halves + row * 32))[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* Grid: (rows of weights, tokens, split-K parts). */
template <class TYPE> DEVICE void gemm_halves(const sl_gemm_halves &a) {
    SL_DYNAMIC_SHARED(half_shared<TYPE>, s);
    const int first = (int)blockIdx.y * TYPE::TOKENS;
    const int tokens = min(a.tokens - first, (int)TYPE::TOKENS);
    const int panel = (int)blockIdx.x * SL_HALF_PANELS + 2 * warp_id();
    for (int i = (int)threadIdx.x; i < TYPE::TOKENS; i += HALF_THREADS)
        s->tokens[i] = first + min(i, tokens - 1);
    const int begin = (int)blockIdx.z * a.part_groups;
    half_sums<TYPE> sums;
    half_tile<TYPE>(s, a.w, {{a.w.data, panel}, {a.w.data, panel + 1}}, a.x.data, tokens, begin,
                    min(begin + a.part_groups, a.w.groups), &sums);
    float *out = a.out + (blockIdx.z * (int64_t)a.tokens + first) * a.out_stride;
    half_write<TYPE>(sums, tokens, a.w.rows, [&](int token, int row, float y) {
        out[token * a.out_stride + row] = a.x.factors[first + token] * y;
    });
}

/* Tiles of many tokens, and of few. */
#define GEMM_HALVES(TYPE, ...)                                                                     \
    SL_CUDA_KERNEL(sl_gemm_many_##TYPE, sl_gemm_halves, MANY_THREADS) {                            \
        gemm_halves<many<type_##TYPE>>(a);                                                         \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_gemm_few_##TYPE, sl_gemm_halves, FEW_THREADS) {                              \
        gemm_halves<few<type_##TYPE>>(a);                                                          \
    }
SL_PANEL_TYPES(GEMM_HALVES)
