/* moe_combine.h - Arguments of the kernels in moe_combine.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_COMBINE_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_COMBINE_H
#include <stdint.h>

/* Rows of `width` elements; y has k of them for each row of the result.  A block makes
 * SL_MIX_COLS columns of a row.  What an op does not take is NULL. */
enum { SL_MIX_COLS = 128, SL_MIX_THREADS = 256 };
typedef struct {
    const float *y, *weights;
    const float *shared, *gate; /* gate has one element for each row; without it, all of shared */
    const float *residual;
    float *out;
    int32_t width, k;
    int32_t row_blocks;
    int32_t vectors; /* rows of y start where vectors may */
} sl_mixture;

/* A thread makes an element. */
typedef struct {
    const float *routed, *shared, *gate;
    float *out;
    int64_t count, width;
} sl_shared_sum;
#endif
