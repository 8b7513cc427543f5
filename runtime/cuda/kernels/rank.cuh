/* rank.cuh - Maps floats to unsigned integers with the same order. */
#ifndef SL_RUNTIME_CUDA_KERNELS_RANK_CUH
#define SL_RUNTIME_CUDA_KERNELS_RANK_CUH
#include "runtime/cuda/kernels/cuda.cuh"

/* NaN maps to 0, below all numbers. */
DEVICE unsigned rank_of(float x) {
    const unsigned bits = __float_as_uint(x + 0.0f); /* maps -0 to +0 */
    return x != x ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE float of_rank(unsigned rank) {
    return __uint_as_float(rank >> 31 ? rank & 0x7fffffffu : ~rank);
}
#endif
