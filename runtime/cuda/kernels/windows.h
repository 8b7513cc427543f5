/* windows.h - Arguments of the kernel in windows.cu: what windows over places see (core/window.h),
 * of any plain type.  Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_WINDOWS_H
#define SL_RUNTIME_CUDA_KERNELS_WINDOWS_H
#include "runtime/cuda/kernels/number.h"
#include <stdint.h>

enum { SL_WINDOW_AXES = 3, SL_WINDOW_THREADS = 128 };

typedef struct {
    const void *x;
    void *out;
    int64_t count; /* results */
    int32_t type, how;
    int32_t mean, include_pad;
    int64_t in[SL_WINDOW_AXES], outs[SL_WINDOW_AXES], taps[SL_WINDOW_AXES];
    int64_t stride[SL_WINDOW_AXES], dilation[SL_WINDOW_AXES];
    int64_t before[SL_WINDOW_AXES], after[SL_WINDOW_AXES];
} sl_pooled;
#endif
