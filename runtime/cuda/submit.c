/* submit.c - Launching a step, or a segment: its graph, or the experts of one row. */
#include "runtime/cuda/executable.h"
#include "runtime/gpu/experts.h"

/* ---- launches ---- */

static sl_status launch_one(const sl_cuda_executable *exe, sl_gpu_launch *l,
                            sl_cu_function function, sl_error *err) {
    void *arguments[] = {l->args};
    const sl_cuda_device *device = sl_cuda_device_of(exe);
    SL_TRY_CUDA(&device->driver,
                launch(function, l->grid[0], l->grid[1], l->grid[2], l->threads, 1, 1,
                       l->shared_bytes, device->stream, arguments, NULL),
                sl_cuda_fn_infos[l->function].name, err);
    return SL_OK;
}

sl_status sl_cuda_submit_step(sl_gpu_executable *base, uint32_t s, sl_error *err) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    const sl_gpu_step *step = &base->steps[s];
    const sl_cuda_ranges *ranges = &sl_cuda_device_of(exe)->ranges;
    sl_status status = SL_OK;
    sl_cuda_range_begin(ranges, base->binding.program->steps[s].label);
    for (uint32_t i = 0; i < step->launch_count && status == SL_OK; i++) {
        const uint32_t launch = step->first_launch + i;
        status = launch_one(exe, &base->launches[launch], exe->functions[launch], err);
    }
    sl_cuda_range_end(ranges);
    return status;
}

/* A step together with the steps that share its launches. */
static sl_status launch_joined(sl_cuda_executable *exe, uint32_t leader, sl_error *err) {
    sl_cuda_joined *joined = exe->tasks[leader].joined;
    for (uint32_t i = 0; i < exe->base.steps[leader].launch_count; i++)
        SL_TRY(launch_one(exe, &joined[i].launch, joined[i].function, err));
    return SL_OK;
}

/* ---- segments ---- */

/* The experts of a row, whose launches include their routing and their sum.  The routing is also
 * done before, for the host to read.  If not all experts fit at once, the steps run one by one. */
static sl_status submit_joined_streaming(sl_cuda_executable *exe, uint32_t ffn, sl_error *err) {
    const sl_step *steps = exe->base.binding.program->steps;
    sl_gpu_executable *base = &exe->base;
    uint32_t left = 0, sum = ffn;
    for (uint32_t m = ffn; m != UINT32_MAX; m = exe->tasks[m].next)
        if (steps[m].op == SL_OP_route) SL_TRY(sl_cuda_submit_step(base, m, err));
    for (uint32_t m = ffn; m != UINT32_MAX; m = exe->tasks[m].next) {
        if (exe->tasks[m].late) sum = m;
        if (steps[m].op != SL_OP_moe_group) continue;
        SL_TRY(sl_cuda_submit_step(base, m, err));
        SL_TRY(sl_gpu_request_experts(base, &steps[m], err));
    }
    SL_TRY(sl_gpu_experts_round(base->gpu->experts, &left, err));
    if (!left) return launch_joined(exe, ffn, err);
    SL_TRY(sl_cuda_submit_step(base, ffn, err));
    SL_TRY(sl_gpu_submit_streaming(base, ffn, err));
    return sl_cuda_submit_step(base, sum, err);
}

sl_status sl_cuda_submit_segment(sl_gpu_executable *base, uint32_t segment, sl_error *err) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    const sl_cuda_device *device = sl_cuda_device_of(exe);
    const sl_gpu_segment *g = &base->segments[segment];
    if (g->alone) return submit_joined_streaming(exe, g->first, err);
    sl_cuda_range_begin(&device->ranges, base->binding.program->name);
    const sl_cu_result result =
        device->driver.graph_launch(exe->graphs[segment].exec, device->stream);
    sl_cuda_range_end(&device->ranges);
    return result ? sl_cuda_fail(&device->driver, result, "launching a graph", err) : SL_OK;
}
