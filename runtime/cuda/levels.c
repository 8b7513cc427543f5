/* levels.c - Cuts the program of one row into levels when experts stream.
 *
 * Steps are joined as if all experts were on the device, so that the same launches give the same
 * bits. Level 0: steps that depend on no expert; level 1: the experts of the first layer; level 2:
 * steps that depend on these, and so on.  Even levels are graphs, odd levels the launches of one
 * layer's experts. */
#include "runtime/cuda/join.h"

static bool streams(const sl_cuda_executable *exe, uint32_t step) {
    return sl_op_info_of(exe->base.binding.program->steps[step].op)->traits & SL_OP_STREAMS;
}

/* Whether the host runs no step and every step that streams is joined with its routing and its sum.
 */
static bool all_experts_joined(const sl_cuda_executable *exe) {
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++) {
        const sl_cuda_task *task = &exe->tasks[s];
        if (!exe->base.steps[s].kernel) return false;
        if (streams(exe, s) &&
            (!task->joined || !sl_cuda_fn_is(task->joined[0].launch.function, SL_FN_sl_moe_row_up)))
            return false;
    }
    return true;
}

/* Raises the level of a step's leader above its dependencies; whether it was too low. */
static bool raise_level(sl_cuda_executable *exe, const sl_cuda_needs *needs, uint32_t step) {
    const uint32_t leader = exe->tasks[step].leader, odd = streams(exe, leader);
    uint32_t level = exe->tasks[leader].level;
    for (uint32_t i = needs->first[step]; i < needs->first[step + 1]; i++) {
        const uint32_t before = exe->tasks[needs->from[i]].leader;
        if (before == leader) continue;
        uint32_t least = exe->tasks[before].level + (streams(exe, before) ? 1 : 0);
        if (least % 2 != odd) least++;
        if (least > level) level = least;
    }
    const bool raised = level > exe->tasks[leader].level;
    exe->tasks[leader].level = level;
    return raised;
}

static uint32_t find_levels(sl_cuda_executable *exe, const sl_cuda_needs *needs) {
    const uint32_t count = exe->base.binding.program->step_count;
    uint32_t levels = 0;
    for (uint32_t s = 0; s < count; s++) exe->tasks[s].level = streams(exe, s) ? 1 : 0;
    for (bool raised = true; raised;) { /* terminates: no launch depends on itself */
        raised = false;
        for (uint32_t s = 0; s < count; s++) raised |= raise_level(exe, needs, s);
    }
    for (uint32_t s = 0; s < count; s++)
        if (exe->tasks[s].leader == s && exe->tasks[s].level >= levels)
            levels = exe->tasks[s].level + 1;
    return levels;
}

/* Whether two layers' experts are on one level because neither depends on the other. */
static bool any_shared(const sl_cuda_executable *exe) {
    uint32_t before = 0; /* streaming steps are in order, and so are levels unless they share one */
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++) {
        if (!streams(exe, s)) continue;
        if (exe->tasks[s].level <= before) return true;
        before = exe->tasks[s].level;
    }
    return false;
}

bool sl_cuda_level(sl_cuda_executable *exe, const sl_cuda_needs *needs) {
    const uint32_t count = exe->base.binding.program->step_count;
    if (!all_experts_joined(exe)) return false;
    const uint32_t levels = find_levels(exe, needs);
    if (any_shared(exe)) return false;
    sl_gpu_segment *segments = exe->base.segments;
    for (uint32_t i = 0; i < levels; i++) {
        segments[i] = (sl_gpu_segment){.end = count};
        exe->graphs[i] = (sl_cuda_graph){.leveled = true, .level = i};
    }
    for (uint32_t s = 0; s < count; s++)
        if (streams(exe, s))
            segments[exe->tasks[s].level] =
                (sl_gpu_segment){.first = s, .end = s + 1, .alone = true, .as_whole = true};
    exe->base.segment_count = levels;
    return true;
}
