/* reduce.h - Arguments of the kernels in reduce.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_REDUCE_H
#define SL_RUNTIME_CUDA_KERNELS_REDUCE_H
#include <stdint.h>

/* Rows of `count` elements. */
typedef struct {
    const float *x;
    float *out;
    int64_t count;
} sl_softmax_rows;
#endif
