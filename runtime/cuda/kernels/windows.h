/* windows.h - Arguments of the kernels in pool.cu and convolution.cu: sliding windows
 * (core/sliding.h) of any plain type.  Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_WINDOWS_H
#define SL_RUNTIME_CUDA_KERNELS_WINDOWS_H
#include "core/sliding.h"
#include "runtime/cuda/kernels/number.h"
#include <stdint.h>

enum { SL_WINDOW_THREADS = 128 };

/* Pooling: reduces each window of a channel, or finds the index of its maximum. */
typedef struct {
    const void *x;
    void *out;
    int64_t count; /* results */
    int32_t type, how;
    int32_t mean, include_pad, column_major, reserved;
    double power; /* Lp pooling: the exponent; 0: none */
    sl_window w;
} sl_pooled;

/* Gradient of pooling: dy goes to the position in `largest`, or in equal parts to the window's
 * taps. */
typedef struct {
    const void *dy;
    const int64_t *largest; /* flat index in dx; NULL: mean pooling */
    void *dx;
    int64_t count; /* elements of dx */
    int32_t type, include_pad;
    sl_window w;
} sl_pool_gradient;

/* im2col of x [n, channels, positions]: one row per window. */
typedef struct {
    const void *x;
    void *out;
    int64_t count, channels;
    int32_t type, reserved;
    sl_window w;
} sl_columns;

/* Transposed convolution: x [n, groups * sources, windows] with weight [groups * sources, results,
 * taps] gives out [n, groups * results, positions]. */
typedef struct {
    const void *x, *weight, *bias; /* bias may be NULL */
    void *out;
    int64_t count, groups, sources, results;
    int32_t type, reserved;
    sl_window w;
} sl_transposed;

/* Causal depthwise convolution of x [n, channels, length] with weight [channels, taps]. */
typedef struct {
    const void *x, *weight, *bias; /* bias may be NULL */
    void *out;
    int64_t count, channels, length, taps, dilation;
    int32_t type, reserved;
} sl_causal;
#endif
