/* join.c - Which steps of a graph share a launch. */
#include "runtime/cuda/join.h"
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/tail.h"
#include <string.h>

typedef struct {
    sl_executable *exe;
    const sl_cuda_segment *segment;
    const sl_cuda_needs *needs;
    bool *seen; /* [step] */
} joining;

void sl_cuda_part(sl_executable *exe) {
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        sl_cuda_task *task = &exe->tasks[s];
        task->leader = task->lowest = task->highest = s;
        task->next = UINT32_MAX;
        task->joined = NULL;
    }
}

static sl_cuda_task *task_of(const joining *j, uint32_t step) {
    return &j->exe->tasks[step];
}
static sl_cuda_launch *last_launch(const joining *j, uint32_t step) {
    const sl_cuda_task *task = task_of(j, step);
    if (task->joined) return task->joined;
    return &j->exe->launches[task->first_launch + task->launch_count - 1];
}
static uint32_t *counters_of(const joining *j, uint32_t step) {
    return (uint32_t *)(uintptr_t)j->exe->counters.address + (size_t)step * SL_CUDA_COUNTERS;
}

/* ---- whether joining leaves an order ---- */

/* Whether the launch of `leader` must be over before the launch that `step` is part of begins.
 * Goes back from step; what lies before all of leader's steps does not matter. */
static bool comes_after(const joining *j, uint32_t step, uint32_t leader) {
    const uint32_t own = task_of(j, step)->leader;
    if (own == leader) return true;
    if (j->seen[own] || task_of(j, own)->highest < task_of(j, leader)->lowest) return false;
    j->seen[own] = true;
    for (uint32_t m = own; m != UINT32_MAX; m = task_of(j, m)->next)
        for (uint32_t i = j->needs->first[m]; i < j->needs->first[m + 1]; i++)
            if (comes_after(j, j->needs->from[i], leader)) return true;
    return false;
}

/* Whether all that `step` needs besides leader's launch can be over before that begins. */
static bool may_join(const joining *j, uint32_t step, uint32_t leader) {
    memset(j->seen, 0, j->exe->binding.program->step_count * sizeof *j->seen);
    for (uint32_t i = j->needs->first[step]; i < j->needs->first[step + 1]; i++) {
        const uint32_t before = j->needs->from[i];
        if (task_of(j, before)->leader != leader && comes_after(j, before, leader)) return false;
    }
    return true;
}

/* A copy of the leader's last launch, which may be changed. */
static sl_status own_launch(const joining *j, uint32_t leader, sl_cuda_launch **out,
                            sl_error *err) {
    sl_cuda_task *task = task_of(j, leader);
    if (!task->joined) {
        sl_cuda_launch *copy = SL_ARENA_NEW(&j->exe->arena, sl_cuda_launch);
        if (!copy) return sl_no_memory(err, "launches", sizeof *copy);
        *copy = *last_launch(j, leader);
        task->joined = copy;
    }
    *out = task->joined;
    return SL_OK;
}

static void add_member(const joining *j, uint32_t step, uint32_t leader) {
    sl_cuda_task *head = task_of(j, leader), *task = task_of(j, step);
    task->leader = leader;
    task->next = head->next;
    head->next = step;
    if (step < head->lowest) head->lowest = step;
    if (step > head->highest) head->highest = step;
}

/* ---- tails ---- */

static bool fits_norm(const sl_cuda_launch *launch, const sl_cuda_launch *step) {
    const sl_norm_rows *norm = (const void *)step->args;
    const uint32_t warps = launch->threads / SL_CUDA_WARP;
    return (uint32_t)norm->lanes <= SL_NORM_SHARES * warps * SL_CUDA_WARP;
}
static bool fits_group(const sl_cuda_launch *launch, const sl_cuda_launch *step) {
    const sl_group_pairs *group = (const void *)step->args;
    const uint32_t warps = ((uint32_t)group->pairs + SL_CUDA_WARP - 1) / SL_CUDA_WARP;
    return (uint32_t)group->pairs <= launch->threads &&
           warps * (uint32_t)group->experts * sizeof(int32_t) <= launch->shared_bytes;
}

/* Whether a launch has room for this step at its end. */
static bool has_room(const sl_cuda_launch *launch, const sl_cuda_launch *step) {
    if (!launch->tail_at || !step->as_tail) return false;
    const sl_cuda_tail *tail = (const void *)(launch->args + launch->tail_at);
    if (step->as_tail == SL_TAIL_GROUP)
        return tail->kind == SL_TAIL_ROUTE && !tail->groups && fits_group(launch, step);
    if (tail->kind != SL_TAIL_NONE) return false;
    return step->as_tail == SL_TAIL_ROUTE || fits_norm(launch, step);
}

static void put_tail(const joining *j, uint32_t leader, sl_cuda_launch *launch,
                     const sl_cuda_launch *step) {
    sl_cuda_tail *tail = (void *)(launch->args + launch->tail_at);
    launch->function = launch->tail_function;
    tail->arrived = counters_of(j, leader);
    if (step->as_tail == SL_TAIL_GROUP) {
        tail->groups = 1;
        memcpy(&tail->group, step->args, sizeof tail->group);
        return;
    }
    tail->kind = step->as_tail;
    memcpy(&tail->of, step->args, step->args_bytes);
}

/* The step ends the launch of one that it follows anyway, where there is such a one. */
static sl_status join_tail(const joining *j, uint32_t step, sl_error *err) {
    const sl_cuda_task *task = task_of(j, step);
    if (task->leader != step || task->next != UINT32_MAX || task->launch_count != 1) return SL_OK;
    const sl_cuda_launch *own = last_launch(j, step);
    for (uint32_t i = j->needs->first[step]; i < j->needs->first[step + 1]; i++) {
        const uint32_t leader = task_of(j, j->needs->from[i])->leader;
        if (!has_room(last_launch(j, leader), own) || !may_join(j, step, leader)) continue;
        sl_cuda_launch *launch = NULL;
        SL_TRY(own_launch(j, leader, &launch, err));
        put_tail(j, leader, launch, own);
        add_member(j, step, leader);
        return SL_OK;
    }
    return SL_OK;
}

static sl_status find_function(sl_executable *exe, uint32_t step, sl_error *err) {
    sl_cuda_task *task = &exe->tasks[step];
    if (!task->joined) return SL_OK;
    return sl_cuda_function_of(exe->device, task->joined, &task->joined_function, err);
}

sl_status sl_cuda_join(sl_executable *exe, const sl_cuda_segment *segment,
                       const sl_cuda_needs *needs, sl_error *err) {
    const uint32_t count = exe->binding.program->step_count;
    sl_status status = SL_OK;
    sl_arena arena;
    sl_arena_init(&arena, exe->device->allocator);
    const joining j = {exe, segment, needs, SL_ARENA_NEW_ARRAY(&arena, bool, (size_t)count + 1)};
    SL_TRY_ELSE(done, j.seen ? SL_OK : sl_no_memory(err, "joining steps", count));
    for (uint32_t s = segment->first; s < segment->end; s++)
        SL_TRY_ELSE(done, join_tail(&j, s, err));
    for (uint32_t s = segment->first; s < segment->end; s++)
        SL_TRY_ELSE(done, find_function(exe, s, err));
done:
    sl_arena_deinit(&arena);
    return status;
}
