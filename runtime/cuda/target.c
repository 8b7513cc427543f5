/* target.c - The kernel of each op, and which steps the CUDA device supports. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/executable.h"
#include "sluice/experimental.h"

#define KERNEL(OP, WEIGHT, FN) sl_gpu_plan_fn sl_cuda_plan_##FN;
#include "runtime/cuda/kernels.def"

enum { SL_DTYPE_any = SL_GPU_ANY_WEIGHT };
static const sl_gpu_kernel kernels[] = {
#define KERNEL(OP, WEIGHT, FN) {SL_OP_##OP, SL_DTYPE_##WEIGHT, #FN, sl_cuda_plan_##FN},
#include "runtime/cuda/kernels.def"
};
static bool takes_custom(const sl_custom_attrs *attrs) {
    return attrs->handler && attrs->handler->cuda_launch;
}

const sl_gpu_kernels sl_cuda_kernels = {.device = "cuda",
                                        .rows = kernels,
                                        .count = sizeof kernels / sizeof kernels[0],
                                        .multiprocessors = 16,
                                        .shared_limit = 99 << 10,
                                        .takes_custom = takes_custom};

static sl_status accepts(const sl_step *step, sl_error *err) {
    return sl_gpu_accepts(&sl_cuda_kernels, step, err);
}

static const sl_target_kernel names[] = {
#define KERNEL(OP, WEIGHT, FN) {SL_OP_##OP, #WEIGHT},
#include "runtime/cuda/kernels.def"
#define ROW(OP) {SL_OP_##OP, "run by the host"},
    SL_GPU_HOSTED(ROW)
#undef ROW
        {0},
};

const sl_target sl_target_cuda = {.name = "cuda",
                                  .schedule = SL_SCHEDULE_EDGES,
                                  .hosts_bodies = true,
                                  .kernels = names,
                                  .accepts = accepts};
