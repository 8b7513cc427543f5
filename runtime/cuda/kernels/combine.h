/* combine.h - Arguments of the kernels in combine.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_COMBINE_H
#define SL_RUNTIME_CUDA_KERNELS_COMBINE_H
#include <stdint.h>

/* Rows of the hidden size; y has k of them for each row of the result.  A thread makes a unit: four
 * elements where `vectors`, else one.  What an op does not take is NULL. */
typedef struct {
    const float *y, *weights;   /* of chosen experts, or */
    const float *routed;        /* their sum */
    const float *shared, *gate; /* gate has one element for each row */
    const float *residual;
    float *out;
    int64_t units;
    int32_t row_units, k, vectors, reserved;
} sl_mixture;
#endif
