/* norm.h - Arguments of the kernels in norm.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_NORM_H
#define SL_RUNTIME_CUDA_KERNELS_NORM_H
#include "runtime/cuda/kernels/panel.h"

/* Rows of `count` elements.  A row is worked on by `lanes` threads: by 32, or by a block. */
typedef struct {
    const float *x, *other, *gain;
    float *sum, *out; /* NULL where not wanted */
    sl_cuda_rows8_out codes;
    int64_t rows;
    int32_t count, lanes;
    float eps, factor; /* factor: offset or scale */
} sl_norm_rows;

enum { SL_NORM_LOADS = 4 }; /* of four floats, at most, by a thread that keeps its part of a row */
#endif
