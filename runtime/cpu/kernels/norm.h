/* norm.h - layer_norm of one row, for kernels that contain it: the same bits as the op itself. */
#ifndef SL_RUNTIME_CPU_NORM_H
#define SL_RUNTIME_CPU_NORM_H
#include "runtime/cpu/kernel.h"

/* Vectors of `width` elements of one float type. */
typedef struct {
    sl_dtype dtype;
    int64_t width;
    double eps;
    const void *x, *gain, *bias;
    void *out;
} norm_row;
void SL_KERNEL(sl_normalise_row)(const norm_row *row);
#endif
