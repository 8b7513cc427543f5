/* strides.h - Places in memory of the elements of a shape, for up to two operands.
 *
 * Dims of one, and dims that lie in both operands as one, are joined by who makes a walk; so that
 * of operands without gaps or broadcasting a single dim is left, and no division. */
#ifndef SL_RUNTIME_CUDA_KERNELS_STRIDES_H
#define SL_RUNTIME_CUDA_KERNELS_STRIDES_H
#include <stdint.h>

enum { SL_WALK_DIMS = 8 };

typedef struct {
    int32_t rank;   /* 1 at least */
    int32_t narrow; /* indices fit 31 bits */
    int64_t dims[SL_WALK_DIMS];
    int64_t x[SL_WALK_DIMS], y[SL_WALK_DIMS]; /* strides */
} sl_walk;
#endif
