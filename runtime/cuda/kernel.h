/* kernel.h - Launches of CUDA kernels in plans (runtime/gpu/plan.h), with typed ids.
 *
 * A kernel takes one struct by value, declared in runtime/cuda/kernels/<family>.h for host and
 * device. */
#ifndef SL_RUNTIME_CUDA_KERNEL_H
#define SL_RUNTIME_CUDA_KERNEL_H
#include "runtime/cuda/functions.h"
#include <assert.h>

enum { SL_CUDA_WARP = 32 };

/* The arguments of a launch of kernel NAME, or of a kernel of that family. */
#define SL_CUDA_ARGS(LAUNCH, NAME)                                                                 \
    ((const sl_args_of_##NAME *)sl_cuda_args_of((LAUNCH), SL_FN_##NAME))
/* The same for a typed id. */
#define SL_CUDA_TYPED_ARGS(LAUNCH, FN) ((__typeof__((FN).takes))sl_cuda_args_of((LAUNCH), (FN).id))
static inline const void *sl_cuda_args_of(const sl_gpu_launch *launch, sl_cuda_fn what) {
    assert(sl_cuda_fn_is(launch->function, what));
    (void)what;
    return launch->args;
}
/* Turns it into a launch of FN with other arguments, which are copied. */
#define SL_CUDA_SET(LAUNCH, FN, ARGS)                                                              \
    sl_cuda_set((LAUNCH), (FN).id, &(ARGS), SL_CUDA_TAKEN_BYTES(FN, ARGS))
void sl_cuda_set(sl_gpu_launch *launch, sl_cuda_fn function, const void *args, size_t args_bytes);

/* The kernels of ops (target.c). */
extern const sl_gpu_kernels sl_cuda_kernels;

/* For plans: adds a launch of a typed id (functions.h); the argument struct is copied.  The grid is
 * one-dimensional unless the returned launch is changed. */
#define SL_CUDA_ADD(PLANNER, FN, BLOCKS, THREADS, ARGS)                                            \
    sl_cuda_add((PLANNER), (FN).id, (BLOCKS), (THREADS), &(ARGS), SL_CUDA_TAKEN_BYTES(FN, ARGS))
sl_gpu_launch *sl_cuda_add(sl_gpu_planner *planner, sl_cuda_fn function, int64_t blocks,
                           uint32_t threads, const void *args, size_t args_bytes);
#endif
