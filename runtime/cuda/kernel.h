/* kernel.h - The launches that are planned for a step.
 *
 * A plan looks at an op's arguments (whose views hold device addresses) and decides which kernels
 * to launch, one after another, with which grid and which argument struct.  Plans are made once;
 * launches are replayed.  So nothing in them may depend on data: what changes from run to run is
 * read from device memory (tokens, slots, positions).  A kernel takes one struct by value, declared
 * in runtime/cuda/kernels/<family>.h for host and device. */
#ifndef SL_RUNTIME_CUDA_KERNEL_H
#define SL_RUNTIME_CUDA_KERNEL_H
#include "core/ops.h"
#include "runtime/cuda/functions.h"
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/gpu/experts.h"
#include <assert.h>

enum { SL_GPU_MAX_LAUNCHES = 32, SL_CUDA_WARP = 32 };

typedef struct {
    sl_cuda_fn function;
    uint32_t grid[3], threads; /* blocks; threads per block, whole warps */
    uint32_t shared_bytes;     /* dynamic */
    uint32_t args_bytes;
    _Alignas(16) unsigned char args[SL_GPU_ARGS_BYTES];
} sl_gpu_launch;

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

/* Rows of a8 that earlier launches converted to f16. */
typedef struct {
    const void *of; /* NULL: there are none */
    sl_cuda_rows16 x;
} sl_cuda_halves;

typedef struct {
    sl_gpu_launch *launches; /* [SL_GPU_MAX_LAUNCHES] */
    uint32_t count;
    uint32_t multiprocessors;
    uint32_t shared_limit;       /* bytes of shared memory available to a block */
    const char *label;           /* of the step, for messages */
    sl_fault *fault;             /* in device memory: kernels report bad indices here */
    sl_gpu_expert_places places; /* of steps with experts */
    sl_cuda_halves halves;
    char *scratch; /* in device memory; NULL while its size is measured */
    uint64_t scratch_bytes;
} sl_gpu_planner;

typedef sl_status sl_gpu_plan_fn(const void *args, sl_gpu_planner *planner, sl_error *err);

typedef struct {
    sl_op op;
    int weight; /* required sl_dtype of the second input (or the only one), or SL_CUDA_ANY_WEIGHT */
    const char *name;
    sl_gpu_plan_fn *plan;
} sl_gpu_kernel;

/* NULL if there is none. */
const sl_gpu_kernel *sl_cuda_kernel_find(sl_op op, const sl_type *input_types);

/* For plans: adds a launch of a typed id (functions.h); the argument struct is copied.  The grid is
 * one-dimensional unless the returned launch is changed. */
#define SL_CUDA_ADD(PLANNER, FN, BLOCKS, THREADS, ARGS)                                            \
    sl_cuda_add((PLANNER), (FN).id, (BLOCKS), (THREADS), &(ARGS), SL_CUDA_TAKEN_BYTES(FN, ARGS))
sl_gpu_launch *sl_cuda_add(sl_gpu_planner *planner, sl_cuda_fn function, int64_t blocks,
                           uint32_t threads, const void *args, size_t args_bytes);
/* For plans: scratch memory of this step, 256-byte aligned. */
void *sl_gpu_scratch(sl_gpu_planner *planner, uint64_t bytes);
#endif
