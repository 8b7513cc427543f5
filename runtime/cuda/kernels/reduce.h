/* reduce.h - Arguments of the kernels in reduce.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_REDUCE_H
#define SL_RUNTIME_CUDA_KERNELS_REDUCE_H
#include "runtime/cuda/kernels/strides.h"

/* A block computes `columns` outputs for one part (blockIdx.y) of the reduced elements, with
 * `slices` threads per output; both are powers of two.  out is [parts, outputs]. */
enum { SL_REDUCE_THREADS = 256 };
typedef struct {
    const float *x;
    float *out;
    int64_t outputs, count, span; /* count: reduced elements per output; span: per part */
    float divisor;
    int32_t columns, slices;
    int32_t inner; /* reduced elements are adjacent in memory */
    sl_walk stay, go;
} sl_reduction;

/* The maximum of each SL_ARGMAX_SPAN elements of a row, as keys [row, parts]; or the index in `out`
 * where a row is one part. */
enum { SL_ARGMAX_SPAN = 4096 };
typedef struct {
    const float *x;
    uint64_t *keys;
    int32_t *out;
    int64_t count;
    int32_t parts, vectors;
} sl_argmax_rows;
#endif
