/* reduce.h - Arguments of the kernels in reduce.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_REDUCE_H
#define SL_RUNTIME_CUDA_KERNELS_REDUCE_H
#include "runtime/cuda/kernels/strides.h"

/* A block makes `columns` outputs of one part (blockIdx.y) of what is reduced, `slices` threads for
 * each; both are powers of two.  out is [parts, outputs]. */
enum { SL_REDUCE_THREADS = 256 };
typedef struct {
    const float *x;
    float *out;
    int64_t outputs, count, span; /* elements for each output, and of a part of them */
    float divisor;
    int32_t columns, slices;
    int32_t inner; /* neighbours in memory are reduced */
    sl_walk stay, go;
} sl_reduction;

/* The largest of each `span` elements of a row, as keys[row, parts]; or out where a row is one
 * part. */
enum { SL_ARGMAX_SPAN = 4096 };
typedef struct {
    const float *x;
    uint64_t *keys;
    int32_t *out;
    int64_t count;
    int32_t parts, vectors;
} sl_argmax_rows;
#endif
