/* plan.c - The kernel table of ops, and the functions that plans use to add launches. */
#include "base/sizes.h"
#include "runtime/cuda/kernel.h"
#include <assert.h>
#include <string.h>

#define KERNEL(OP, WEIGHT, FN) sl_gpu_plan_fn sl_cuda_plan_##FN;
#include "runtime/cuda/kernels.def"

enum { SL_DTYPE_any = SL_CUDA_ANY_WEIGHT };
static const sl_gpu_kernel kernels[] = {
#define KERNEL(OP, WEIGHT, FN) {SL_OP_##OP, SL_DTYPE_##WEIGHT, #FN, sl_cuda_plan_##FN},
#include "runtime/cuda/kernels.def"
};

const sl_gpu_kernel *sl_cuda_kernel_find(sl_op op, const sl_type *input_types) {
    const sl_type *weight = &input_types[sl_op_info_of(op)->input_count > 1 ? 1 : 0];
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (kernels[i].op != op) continue;
        if (kernels[i].weight == SL_CUDA_ANY_WEIGHT || kernels[i].weight == (int)weight->dtype)
            return &kernels[i];
    }
    return NULL;
}

void sl_cuda_set(sl_gpu_launch *launch, sl_cuda_fn function, const void *args, size_t args_bytes) {
    assert(sl_cuda_fn_infos[function].name && sl_cuda_fn_infos[function].args_bytes == args_bytes);
    launch->function = function;
    launch->args_bytes = (uint32_t)args_bytes;
    memcpy(launch->args, args, args_bytes);
}

sl_gpu_launch *sl_cuda_add(sl_gpu_planner *planner, sl_cuda_fn function, int64_t blocks,
                           uint32_t threads, const void *args, size_t args_bytes) {
    assert(planner->count < SL_GPU_MAX_LAUNCHES);
    assert(threads % SL_CUDA_WARP == 0 && blocks > 0 && blocks <= INT32_MAX);
    sl_gpu_launch *launch = &planner->launches[planner->count++];
    *launch = (sl_gpu_launch){.grid = {(uint32_t)blocks, 1, 1}, .threads = threads};
    sl_cuda_set(launch, function, args, args_bytes);
    return launch;
}

void *sl_gpu_scratch(sl_gpu_planner *planner, uint64_t bytes) {
    enum { ALIGNMENT = 256 };
    char *const dummy_base = (char *)(uintptr_t)ALIGNMENT; /* while the size is measured */
    char *block = (planner->scratch ? planner->scratch : dummy_base) + planner->scratch_bytes;
    planner->scratch_bytes += sl_round_up(bytes, ALIGNMENT);
    return block;
}
