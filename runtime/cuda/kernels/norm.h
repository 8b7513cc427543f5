/* norm.h - Arguments of the kernels in norm.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_NORM_H
#define SL_RUNTIME_CUDA_KERNELS_NORM_H
#include "runtime/cuda/kernels/panel.h"

/* Rows of `count` elements; `lanes` threads work on a row: one warp or one block. */
typedef struct {
    const float *x, *other, *gain;
    float *sum, *out; /* sum: norm_add only; out: NULL if only codes are needed */
    sl_cuda_rows8_out codes;
    int64_t rows;
    int32_t count, lanes;
    float eps, factor; /* factor: offset or scale */
} sl_norm_rows;

enum { SL_NORM_LOADS = 4 }; /* float4 loads per thread, at most, where rows are held in registers */
#endif
