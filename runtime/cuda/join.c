/* join.c - Which steps of a graph share a launch. */
#include "runtime/cuda/join.h"
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/route.h"
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

/* Whether all that the leader's steps need from others can be over before its launch begins. */
static bool is_in_order(const joining *j, uint32_t leader) {
    memset(j->seen, 0, j->exe->binding.program->step_count * sizeof *j->seen);
    for (uint32_t m = leader; m != UINT32_MAX; m = task_of(j, m)->next)
        for (uint32_t i = j->needs->first[m]; i < j->needs->first[m + 1]; i++) {
            const uint32_t before = j->needs->from[i];
            if (task_of(j, before)->leader != leader && comes_after(j, before, leader))
                return false;
        }
    return true;
}

/* A step with a launch of its own becomes one of the leader's, unless that leaves no order. */
static bool add_member(const joining *j, uint32_t step, uint32_t leader) {
    sl_cuda_task *head = task_of(j, leader), *task = task_of(j, step);
    const sl_cuda_task head_before = *head, task_before = *task;
    task->leader = leader;
    task->next = head->next;
    head->next = step;
    if (step < head->lowest) head->lowest = step;
    if (step > head->highest) head->highest = step;
    if (is_in_order(j, leader)) return true;
    *head = head_before;
    *task = task_before;
    return false;
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

/* ---- the delta net's step ---- */

static const sl_step *step_at(const joining *j, uint32_t step) {
    return &j->exe->binding.program->steps[step];
}
static bool is_alone(const joining *j, uint32_t step) {
    const sl_cuda_task *task = task_of(j, step);
    return task->leader == step && task->next == UINT32_MAX && !task->joined;
}

/* How many operands of all steps are in the same buffer. */
static uint32_t count_uses(const joining *j, const sl_operand *operand) {
    const sl_program *program = j->exe->binding.program;
    uint32_t uses = 0;
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t i = 0; i < program->steps[s].operand_count; i++)
            uses += program->steps[s].operands[i].buffer.v == operand->buffer.v;
    return uses;
}

/* The step of that op which makes an operand for nobody else, UINT32_MAX where there is none;
 * output is the number of its operand. */
static uint32_t maker_of(const joining *j, const sl_operand *operand, sl_op op, uint32_t output) {
    const sl_program *program = j->exe->binding.program;
    if (program->buffers[operand->buffer.v].kind != SL_BUFFER_TEMP) return UINT32_MAX;
    if (count_uses(j, operand) != 2) return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++)
        if (program->steps[s].op == op &&
            program->steps[s].operands[output].buffer.v == operand->buffer.v)
            return is_alone(j, s) ? s : UINT32_MAX;
    return UINT32_MAX;
}

static bool overlap(const joining *j, const sl_operand *a, const sl_operand *b) {
    const sl_cu_address x = sl_cuda_resolve(j->exe, a), y = sl_cuda_resolve(j->exe, b);
    return x < y + sl_type_bytes(&b->type) && y < x + sl_type_bytes(&a->type);
}

/* Operands of delta_step: q k v decay beta slots positions memory out. */
enum { STEP_Q, STEP_K, STEP_V, STEP_DECAY, STEP_BETA, STEP_SLOTS, STEP_POSITIONS, STEP_MEMORY };
enum { STEP_OUT = STEP_MEMORY + 1 };

static bool is_input(const joining *j, const sl_operand *operand) {
    return j->exe->binding.program->buffers[operand->buffer.v].kind == SL_BUFFER_INPUT;
}

/* Whether the kernel for one row is right: what it reads before it waits is nobody else's. */
static bool is_joinable_delta(const joining *j, uint32_t step) {
    const sl_step *s = step_at(j, step);
    if (s->op != SL_OP_delta_step || !is_alone(j, step)) return false;
    const sl_delta *d = (const void *)last_launch(j, step)->args;
    return strcmp(last_launch(j, step)->function, "sl_delta_step") == 0 && d->rows == 1 &&
           is_input(j, &s->operands[STEP_SLOTS]) && is_input(j, &s->operands[STEP_POSITIONS]) &&
           count_uses(j, &s->operands[STEP_MEMORY]) == 1;
}

/* l2_norm of q or k; false where it stays a launch of its own. */
static bool take_norm(const joining *j, uint32_t step, uint32_t which, const float **row,
                      float how[2]) {
    const sl_step *s = step_at(j, step);
    const uint32_t maker = maker_of(j, &s->operands[which], SL_OP_l2_norm, 1);
    if (maker == UINT32_MAX) return false;
    if (overlap(j, &step_at(j, maker)->operands[0], &s->operands[STEP_OUT])) return false;
    const sl_l2_norm_args *norm = task_of(j, maker)->args;
    if (!add_member(j, maker, step)) return false;
    *row = norm->x.data;
    how[0] = norm->attrs.eps;
    how[1] = norm->attrs.scale;
    return true;
}

static void take_gates(const joining *j, uint32_t step, sl_delta_joined *launch) {
    const sl_step *s = step_at(j, step);
    const uint32_t maker = maker_of(j, &s->operands[STEP_DECAY], SL_OP_decay_beta, 4);
    if (maker == UINT32_MAX || maker_of(j, &s->operands[STEP_BETA], SL_OP_decay_beta, 5) != maker)
        return;
    const sl_step *gates = step_at(j, maker);
    for (uint32_t i = 0; i < 2; i++)
        if (overlap(j, &gates->operands[i], &s->operands[STEP_OUT])) return;
    if (!add_member(j, maker, step)) return;
    const sl_decay_beta_args *a = task_of(j, maker)->args;
    launch->a = a->a.data;
    launch->b = a->b.data;
    launch->a_log = a->a_log.data;
    launch->dt_bias = a->dt_bias.data;
}

static sl_status join_delta(const joining *j, uint32_t step, sl_error *err) {
    if (!is_joinable_delta(j, step)) return SL_OK;
    const sl_cuda_launch *own = last_launch(j, step);
    sl_delta_joined launch = {.d = *(const sl_delta *)(const void *)own->args};
    const sl_cuda_task before = *task_of(j, step);
    float q_how[2], k_how[2];
    if (!take_norm(j, step, STEP_Q, &launch.d.q, q_how)) return SL_OK;
    if (!take_norm(j, step, STEP_K, &launch.d.k, k_how)) {
        sl_cuda_task *only = task_of(j, task_of(j, step)->next);
        only->leader = (uint32_t)(only - j->exe->tasks);
        *task_of(j, step) = before;
        return SL_OK;
    }
    launch.q_eps = q_how[0], launch.q_scale = q_how[1];
    launch.k_eps = k_how[0], launch.k_scale = k_how[1];
    take_gates(j, step, &launch);
    sl_cuda_launch *joined = NULL;
    SL_TRY(own_launch(j, step, &joined, err));
    joined->function = "sl_delta_step_joined";
    joined->args_bytes = sizeof launch;
    memcpy(joined->args, &launch, sizeof launch);
    return SL_OK;
}

/* ---- routing ---- */

/* The pairs of one row are put in order by the warp that chose them. */
static sl_status join_group(const joining *j, uint32_t step, sl_error *err) {
    const sl_cuda_launch *own = last_launch(j, step);
    const sl_step *s = step_at(j, step);
    if (s->op != SL_OP_moe_group || !is_alone(j, step) || task_of(j, step)->launch_count != 1)
        return SL_OK;
    for (uint32_t i = j->needs->first[step]; i < j->needs->first[step + 1]; i++) {
        const uint32_t leader = j->needs->from[i];
        sl_route_grouping both = {.group = *(const sl_group_pairs *)(const void *)own->args};
        if (step_at(j, leader)->op != SL_OP_route || !is_alone(j, leader)) continue;
        both.route = *(const sl_route_rows *)(const void *)last_launch(j, leader)->args;
        if (both.route.rows != 1 || both.route.k > SL_CUDA_WARP ||
            both.route.chosen != both.group.chosen || both.route.experts != both.group.experts ||
            !add_member(j, step, leader))
            continue;
        sl_cuda_launch *launch = NULL;
        SL_TRY(own_launch(j, leader, &launch, err));
        launch->function = "sl_route_group";
        launch->threads = SL_CUDA_WARP;
        launch->args_bytes = sizeof both;
        memcpy(launch->args, &both, sizeof both);
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
    for (uint32_t s = segment->first; s < segment->end; s++) {
        SL_TRY_ELSE(done, join_group(&j, s, err));
        SL_TRY_ELSE(done, join_delta(&j, s, err));
    }
    for (uint32_t s = segment->first; s < segment->end; s++)
        SL_TRY_ELSE(done, find_function(exe, s, err));
done:
    sl_arena_deinit(&arena);
    return status;
}
