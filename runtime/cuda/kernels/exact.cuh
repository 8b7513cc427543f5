/* exact.cuh - Products of panels with f32 on bf16 tensor cores, exact up to the accumulation: codes
 * are small integers, which bf16 represents exactly, and an f32 x is the sum of three bf16 with 8
 * bits each.
 *
 * An mma is 16 columns deep, so a group takes two.  In both operands, lane j of four has columns 8j
 * to 8j+7 of a group, in the order 0 2 1 3 for the first mma and 4 6 5 7 for the second. */
#ifndef SL_RUNTIME_CUDA_KERNELS_EXACT_CUH
#define SL_RUNTIME_CUDA_KERNELS_EXACT_CUH
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/panel_rows.cuh"

enum { X_PARTS = 3 };

/* (low - by, high - by), exact. */
DEVICE unsigned less_bf16(unsigned pair, float by) {
#if SL_EMULATED
    const float2 v = f32_of_bf16_pair(pair);
    return bf16_pair(v.x - by, v.y - by);
#else
    const unsigned ones = 0x3f803f80u, minus = bf16_pair(-by, -by);
    unsigned result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(ones), "r"(minus));
    return result;
#endif
}

/* Four codes as the bf16 pairs (0, 2) and (1, 3). */
template <class TYPE> DEVICE uint2 bf16_of_codes(unsigned codes) {
    if (!TYPE::SIGNED) /* 0x4300 + code, code < 128, is the bf16 of 128 + code */
        return make_uint2(less_bf16(__byte_perm(codes, 0x43434343u, 0x4240), 128 + TYPE::BIAS),
                          less_bf16(__byte_perm(codes, 0x43434343u, 0x4341), 128 + TYPE::BIAS));
    const unsigned shifted = codes ^ 0x80808080u; /* code + 128 */
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = __uint_as_float(__byte_perm(shifted, 0x4b000000u, 0x7440u + (unsigned)i)) -
               8388736.0f;
    /* The lower halves of these floats are 0: the upper ones are the exact bf16. */
    return make_uint2(__byte_perm(__float_as_uint(v[0]), __float_as_uint(v[2]), 0x7632),
                      __byte_perm(__float_as_uint(v[1]), __float_as_uint(v[3]), 0x7632));
}

/* Returns x rounded to bf16 and leaves the remainder in x. */
DEVICE float take_bf16(float &x) {
    const float part = f32_of_bf16(bf16_of_f32(x));
    x = fabsf(part) < INFINITY ? x - part : 0.0f;
    return part;
}

/* Splits a lane's eight values into bf16 parts, the most significant first.  Returns the sum of the
 * group, whose values are on four adjacent lanes.  All lanes of the warp must call it. */
DEVICE float split_values(const float (&from)[8], uint4 (&parts)[X_PARTS]) {
    float rest[8], sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) rest[i] = from[i], sum += from[i];
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
#pragma unroll
    for (int p = 0; p < X_PARTS; p++) {
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = take_bf16(rest[i]);
        parts[p] = make_uint4(bf16_pair(v[0], v[2]), bf16_pair(v[1], v[3]), bf16_pair(v[4], v[6]),
                              bf16_pair(v[5], v[7]));
    }
    return sum;
}

/* Adds the sum of each column of `b` over a group to d, by a product with ones.  For half a group,
 * only the lanes with its columns are `mine`; the others multiply with zeros. */
DEVICE void mma_ones(float (&d)[4], bool mine, const unsigned (&first)[2],
                     const unsigned (&second)[2]) {
    const unsigned one = mine ? 0x3f803f80u : 0, ones[4] = {one, one, one, one};
    mma_bf16(d, ones, first);
    mma_bf16(d, ones, second);
}

/* The `a` fragments of a group's two mma steps, from the codes of the lane's two rows. */
template <class TYPE, class G> DEVICE void operands_of(unsigned (&rows)[2][4], const G &g, int j) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint2 w = TYPE::codes(g, r, j);
        const uint2 low = bf16_of_codes<TYPE>(w.x), high = bf16_of_codes<TYPE>(w.y);
        rows[0][r] = low.x, rows[0][2 + r] = low.y;
        rows[1][r] = high.x, rows[1][2 + r] = high.y;
    }
}
#endif
