/* softmax.h - Arguments of the kernel in softmax.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SOFTMAX_H
#define SL_RUNTIME_CUDA_KERNELS_SOFTMAX_H
#include <stdint.h>

/* Rows of `count` elements. */
typedef struct {
    const float *x;
    float *out;
    int64_t count;
} sl_softmax_rows;
#endif
