/* strides.cuh - Strided iteration over up to two operands. */
#ifndef SL_RUNTIME_CUDA_KERNELS_STRIDES_CUH
#define SL_RUNTIME_CUDA_KERNELS_STRIDES_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/strides.h"

struct places {
    int64_t x, y;
};

template <class INDEX> DEVICE places walk_by(const sl_walk &w, INDEX index) {
    places at = {0, 0};
#pragma unroll 1
    for (int i = w.rank - 1; i > 0; i--) {
        const INDEX extent = (INDEX)w.dims[i], outer = index / extent;
        const int64_t inner = (int64_t)(index - outer * extent);
        at.x += inner * w.x[i];
        at.y += inner * w.y[i];
        index = outer;
    }
    at.x += (int64_t)index * w.x[0];
    at.y += (int64_t)index * w.y[0];
    return at;
}
/* The offsets of element `index` in both operands. */
DEVICE places walk_to(const sl_walk &w, int64_t index) {
    return w.narrow ? walk_by(w, (uint32_t)index) : walk_by(w, (uint64_t)index);
}

/* index / extent, as a 32-bit division where both fit. */
DEVICE int64_t quotient(int64_t index, int64_t extent) {
    if ((uint64_t)(index | extent) >> 32 == 0) return (uint32_t)index / (uint32_t)extent;
    return index / extent;
}

/* Splits off the last coordinate of linear index `rest`; the remaining index stays in `rest`. */
DEVICE int64_t take_coordinate(int64_t &rest, int64_t extent) {
    const int64_t outer = quotient(rest, extent), own = rest - outer * extent;
    rest = outer;
    return own;
}

/* Global thread index. */
DEVICE int64_t thread_number() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
#endif
