/* levels.c - Where one row's steps are cut when its experts stream.
 *
 * Steps join as if all experts were there, so that the same launches make the same bits.  What
 * nobody waits for experts for is level 0, experts of the first layer are level 1, what needs them
 * level 2, and so on: even levels are graphs, odd ones the launches of one layer's experts. */
#include "runtime/cuda/join.h"

static bool streams(const sl_cuda_executable *exe, uint32_t step) {
    return sl_op_info_of(exe->base.binding.program->steps[step].op)->traits & SL_OP_STREAMS;
}

/* Whether every step that streams is one whose routing and whose sum are part of it, and the host
 * runs none. */
static bool all_experts_joined(const sl_cuda_executable *exe) {
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++) {
        const sl_cuda_task *task = &exe->tasks[s];
        if (!task->kernel) return false;
        if (streams(exe, s) &&
            (!task->joined || !sl_cuda_fn_is(task->joined[0].launch.function, SL_FN_sl_moe_row_up)))
            return false;
    }
    return true;
}

/* Raises the level of a step's leader above what the step needs; whether it was too low. */
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
    for (bool raised = true; raised;) { /* ends: no launch waits for itself */
        raised = false;
        for (uint32_t s = 0; s < count; s++) raised |= raise_level(exe, needs, s);
    }
    for (uint32_t s = 0; s < count; s++)
        if (exe->tasks[s].leader == s && exe->tasks[s].level >= levels)
            levels = exe->tasks[s].level + 1;
    return levels;
}

/* Whether experts of two layers are on one level: they do not need each other. */
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
    for (uint32_t i = 0; i < levels; i++)
        exe->segments[i] = (sl_cuda_segment){.end = count, .leveled = true, .level = i};
    for (uint32_t s = 0; s < count; s++)
        if (streams(exe, s))
            exe->segments[exe->tasks[s].level] =
                (sl_cuda_segment){.first = s, .end = s + 1, .alone = true, .leveled = true};
    exe->segment_count = levels;
    return true;
}
