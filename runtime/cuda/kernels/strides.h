/* strides.h - Strided iteration over the elements of a shape, for up to two operands.
 *
 * The host merges dims that are contiguous in both operands and drops dims of size 1, so that dense
 * operands have a single dim and need no division. */
#ifndef SL_RUNTIME_CUDA_KERNELS_STRIDES_H
#define SL_RUNTIME_CUDA_KERNELS_STRIDES_H
#include <stdint.h>

enum { SL_WALK_DIMS = 8 };

typedef struct {
    int32_t rank;   /* at least 1 */
    int32_t narrow; /* indices fit 31 bits */
    int64_t dims[SL_WALK_DIMS];
    int64_t x[SL_WALK_DIMS], y[SL_WALK_DIMS]; /* strides of the two operands */
} sl_walk;
#endif
