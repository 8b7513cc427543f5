/* solve.h - Arguments of the kernels in solve.cu.  Types are numbered as in
 * core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SOLVE_H
#define SL_RUNTIME_CUDA_KERNELS_SOLVE_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum { SL_SOLVE_THREADS = 256 };

/* One block per system or determinant; for a determinant cols is 0. */
typedef struct {
    const void *a, *b; /* [count, size, size], [count, size, cols] */
    void *out;
    double *work; /* [count, size, size + cols], scratch */
    sl_fault *fault;
    int64_t count, size, cols;
    int32_t type, reserved;
} sl_systems;
#endif
