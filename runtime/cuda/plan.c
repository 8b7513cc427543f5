/* plan.c - Launches of kernels by id. */
#include "runtime/cuda/kernel.h"

void sl_cuda_set(sl_gpu_launch *launch, sl_cuda_fn function, const void *args, size_t args_bytes) {
    assert(sl_cuda_fn_infos[function].name && sl_cuda_fn_infos[function].args_bytes == args_bytes);
    sl_gpu_set_launch(launch, function, args, args_bytes);
}

sl_gpu_launch *sl_cuda_add(sl_gpu_planner *planner, sl_cuda_fn function, int64_t blocks,
                           uint32_t threads, const void *args, size_t args_bytes) {
    assert(sl_cuda_fn_infos[function].name && sl_cuda_fn_infos[function].args_bytes == args_bytes);
    assert(threads % SL_CUDA_WARP == 0);
    return sl_gpu_add_launch(planner, function, blocks, threads, args, args_bytes);
}
