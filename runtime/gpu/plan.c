/* plan.c - The functions that plans use to add launches and to take scratch memory. */
#include "runtime/gpu/plan.h"
#include "base/sizes.h"
#include <assert.h>
#include <string.h>

void sl_gpu_set_launch(sl_gpu_launch *launch, uint32_t function, const void *args,
                       size_t args_bytes) {
    assert(args_bytes <= SL_GPU_ARGS_BYTES);
    launch->function = function;
    launch->args_bytes = (uint32_t)args_bytes;
    memcpy(launch->args, args, args_bytes);
}

sl_gpu_launch *sl_gpu_add_launch(sl_gpu_planner *planner, uint32_t function, int64_t blocks,
                                 uint32_t threads, const void *args, size_t args_bytes) {
    assert(planner->count < SL_GPU_MAX_LAUNCHES);
    assert(blocks > 0 && blocks <= INT32_MAX);
    sl_gpu_launch *launch = &planner->launches[planner->count++];
    *launch = (sl_gpu_launch){.grid = {(uint32_t)blocks, 1, 1}, .threads = threads};
    sl_gpu_set_launch(launch, function, args, args_bytes);
    return launch;
}

void *sl_gpu_scratch(sl_gpu_planner *planner, uint64_t bytes) {
    enum { ALIGNMENT = 256 };
    char *const dummy_base = (char *)(uintptr_t)ALIGNMENT; /* while the size is measured */
    char *block = (planner->scratch ? planner->scratch : dummy_base) + planner->scratch_bytes;
    planner->scratch_bytes += sl_round_up(bytes, ALIGNMENT);
    return block;
}
