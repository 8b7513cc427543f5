/* windows.h - Arguments of the kernels in pool.cu and convolution.cu: sliding windows
 * (core/sliding.h) of any plain type.  Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_WINDOWS_H
#define SL_RUNTIME_CUDA_KERNELS_WINDOWS_H
#include "core/sliding.h"
#include "runtime/cuda/kernels/number.h"
#include <stdint.h>

enum { SL_WINDOW_THREADS = 128 };

/* What each window sees of a channel as one number, or where the largest of that lies. */
typedef struct {
    const void *x;
    void *out;
    int64_t count; /* results */
    int32_t type, how;
    int32_t mean, include_pad, column_major, reserved;
    double power; /* of elements, which the result is the root of; 0: none */
    sl_window w;
} sl_pooled;

/* dx from dy, which goes to where `largest` says or in equal parts to all that a window saw. */
typedef struct {
    const void *dy;
    const int64_t *largest; /* among all of dx; NULL: equal parts */
    void *dx;
    int64_t count; /* of dx */
    int32_t type, include_pad;
    sl_window w;
} sl_pool_gradient;

/* x[n, channels, places] as rows of what each window sees. */
typedef struct {
    const void *x;
    void *out;
    int64_t count, channels;
    int32_t type, reserved;
    sl_window w;
} sl_columns;

/* x[n, groups * sources, windows] times weight[groups * sources, results, taps], summed where taps
 * lie: out[n, groups * results, places]. */
typedef struct {
    const void *x, *weight, *bias; /* bias: or NULL */
    void *out;
    int64_t count, groups, sources, results;
    int32_t type, reserved;
    sl_window w;
} sl_transposed;

/* x[n, channels, length] with weight[channels, taps], which look back only. */
typedef struct {
    const void *x, *weight, *bias; /* bias: or NULL */
    void *out;
    int64_t count, channels, length, taps, dilation;
    int32_t type, reserved;
} sl_causal;
#endif
