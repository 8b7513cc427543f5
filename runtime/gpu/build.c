/* build.c - What is done before the first run: the launches of all steps are planned, and the
 * program is cut into segments where the host must step in. */
#include "runtime/gpu/executable.h"

/* ---- launches ---- */

/* Plans the launches of one step into planner->launches. */
static sl_status plan_step(const sl_gpu_executable *exe, uint32_t s, sl_gpu_planner *planner,
                           sl_error *err) {
    const sl_step *step = &exe->binding.program->steps[s];
    const sl_gpu_kernel *kernel = exe->steps[s].kernel;
    const sl_gpu *gpu = exe->gpu;
    uint32_t at;
    sl_gpu_fill_addresses(exe, s);
    if (!kernel) return SL_OK;
    planner->label = step->label;
    planner->multiprocessors = gpu->multiprocessors;
    planner->shared_limit = gpu->shared_limit;
    planner->deterministic = gpu->options.deterministic;
    planner->fault = (sl_fault *)(uintptr_t)gpu->fault.address;
    if (gpu->experts && sl_gpu_uses_experts(step, &at))
        planner->places = sl_gpu_experts_places(gpu->experts, sl_gpu_layer_of(step));
    SL_TRY(kernel->plan(exe->steps[s].args, planner, err));
    if (!planner->count)
        return sl_fail(err, SL_UNSUPPORTED, "%s: the plan of %s launches nothing", step->label,
                       kernel->name);
    return SL_OK;
}

/* How much scratch each step needs, and how many launches there are. */
static sl_status measure(sl_gpu_executable *exe, uint32_t *out_launches, sl_error *err) {
    sl_gpu_launch launches[SL_GPU_MAX_LAUNCHES];
    *out_launches = 0;
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        sl_gpu_planner planner = {.launches = launches};
        SL_TRY(plan_step(exe, s, &planner, err));
        exe->steps[s].scratch_bytes = planner.scratch_bytes;
        *out_launches += planner.count;
    }
    return SL_OK;
}

static sl_status plan_launches(sl_gpu_executable *exe, uint32_t launches, sl_error *err) {
    if (launches > exe->launch_capacity) {
        exe->launches = SL_ARENA_NEW_ARRAY(&exe->arena, sl_gpu_launch, launches);
        if (!exe->launches) return sl_no_memory(err, "launches", launches);
        exe->launch_capacity = launches;
    }
    exe->launch_count = 0;
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        sl_gpu_step *step = &exe->steps[s];
        /* as many as were measured */
        sl_gpu_planner planner = {
            .launches = exe->launches + exe->launch_count,
            .scratch = (char *)(uintptr_t)(exe->gpu->scratch.address + step->scratch_offset)};
        SL_TRY(plan_step(exe, s, &planner, err));
        step->first_launch = exe->launch_count;
        step->launch_count = planner.count;
        exe->launch_count += planner.count;
    }
    return SL_OK;
}

/* ---- segments ---- */

static sl_gpu_segment *close_segment(sl_gpu_executable *exe, uint32_t end) {
    const uint32_t first = exe->segment_count ? exe->segments[exe->segment_count - 1].end : 0;
    sl_gpu_segment *segment = &exe->segments[exe->segment_count];
    *segment = (sl_gpu_segment){.first = first, .end = end};
    if (first < end) exe->segment_count++;
    return segment;
}

/* If all experts are on the device, everything is one segment, except for steps that the host runs.
 * Otherwise a segment ends after each step that tells which experts are needed, and a step that
 * needs them is a segment of its own. */
static sl_status cut(sl_gpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    const bool split = !sl_gpu_experts_all_here(exe->gpu->experts);
    if (!exe->segments)
        exe->segments =
            SL_ARENA_NEW_ARRAY(&exe->arena, sl_gpu_segment, (size_t)program->step_count + 1);
    if (!exe->segments) return sl_no_memory(err, "segments", program->step_count);
    for (uint32_t s = 0; s < program->step_count; s++) {
        const uint32_t traits = sl_op_info_of(program->steps[s].op)->traits;
        if (split && (traits & SL_OP_REQUESTS)) close_segment(exe, s + 1)->requests = true;
        if (!exe->steps[s].kernel || (split && (traits & SL_OP_STREAMS))) {
            (void)close_segment(exe, s);
            close_segment(exe, s + 1)->alone = true;
        }
    }
    (void)close_segment(exe, program->step_count);
    return SL_OK;
}

/* ---- all of it ---- */

static bool is_built(const sl_gpu_executable *exe) {
    return !exe->rebound && exe->built_arena == exe->activations->address &&
           exe->built_scratch == exe->gpu->scratch.address &&
           exe->built_experts == exe->gpu->experts_opened;
}

void sl_gpu_unbuild(sl_gpu_executable *exe) {
    exe->gpu->calls->unrecord(exe);
    exe->segment_count = 0;
}

sl_status sl_gpu_build(sl_gpu_executable *exe, sl_error *err) {
    sl_gpu *gpu = exe->gpu;
    uint32_t launches;
    if (is_built(exe)) return SL_OK;
    sl_gpu_unbuild(exe);
    exe->rebound = true;
    SL_TRY(sl_binding_check(&exe->binding, err));
    SL_TRY(sl_gpu_open_experts(exe, err));
    SL_TRY(sl_gpu_build_hosted(exe, err));
    SL_TRY(measure(exe, &launches, err));
    const uint64_t scratch_bytes = gpu->calls->place_scratch(exe);
    SL_TRY(sl_gpu_ensure(gpu, &gpu->scratch, scratch_bytes, "kernel scratch", err));
    SL_TRY(plan_launches(exe, launches, err));
    SL_TRY(cut(exe, err));
    SL_TRY(gpu->calls->record(exe, err));
    exe->built_arena = exe->activations->address;
    exe->built_scratch = gpu->scratch.address;
    exe->built_experts = gpu->experts_opened;
    exe->rebound = false;
    return SL_OK;
}
