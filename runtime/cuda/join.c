/* join.c - Which steps of a graph share launches. */
#include "runtime/cuda/joining.h"
#include <string.h>

void sl_cuda_unjoin(sl_cuda_executable *exe) {
    exe->base.direct_outputs = 0;
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++) {
        sl_cuda_task *task = &exe->tasks[s];
        task->leader = task->lowest = task->highest = s;
        task->next = UINT32_MAX;
        task->late = false;
        task->joined = NULL;
    }
}

/* ---- queries about steps ---- */

bool sl_joining_is_alone(const sl_joining *j, uint32_t step) {
    const sl_cuda_task *task = task_of(j, step);
    return task->leader == step && task->next == UINT32_MAX && !task->joined;
}
static bool is_launch(const sl_joining *j, uint32_t step, uint32_t i, sl_cuda_fn what) {
    return sl_cuda_fn_is(launch_of(j, step, i)->function, what);
}

static bool lists(const sl_join_rule *rule, sl_cuda_fn what) {
    bool listed = sl_cuda_fn_is(what, rule->first[0]);
    for (size_t i = 0; i < sizeof rule->takes / sizeof rule->takes[0]; i++)
        listed = listed || sl_cuda_fn_is(what, rule->takes[i]);
    return listed;
}
bool sl_joining_is(const sl_joining *j, uint32_t step, sl_cuda_fn what) {
    return lists(j->rule, what) && sl_joining_is_alone(j, step) && launches_of(j, step) == 1 &&
           is_launch(j, step, 0, what);
}

uint32_t sl_joining_uses(const sl_joining *j, const sl_operand *operand) {
    const sl_program *program = j->exe->base.binding.program;
    uint32_t uses = 0;
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t i = 0; i < program->steps[s].operand_count; i++)
            uses += program->steps[s].operands[i].buffer.v == operand->buffer.v;
    return uses;
}
bool sl_joining_is_input(const sl_joining *j, const sl_operand *operand) {
    return j->exe->base.binding.program->buffers[operand->buffer.v].kind == SL_BUFFER_INPUT;
}
bool sl_joining_is_same(const sl_operand *a, const sl_operand *b) {
    return a->buffer.v == b->buffer.v && a->offset_bytes == b->offset_bytes &&
           sl_type_bytes(&a->type) == sl_type_bytes(&b->type);
}

uint32_t sl_joining_producer(const sl_joining *j, const sl_operand *operand, sl_op op,
                             uint32_t output) {
    const sl_program *program = j->exe->base.binding.program;
    if (program->buffers[operand->buffer.v].kind != SL_BUFFER_TEMP) return UINT32_MAX;
    if (sl_joining_uses(j, operand) != 2) return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++)
        if (program->steps[s].op == op &&
            program->steps[s].operands[output].buffer.v == operand->buffer.v)
            return sl_joining_is_alone(j, s) ? s : UINT32_MAX;
    return UINT32_MAX;
}

/* ---- whether joined steps can still be ordered ---- */

/* Whether the launch of `leader` must have finished before the launch that includes `step` starts.
 * Searches backwards from step; what precedes all of the leader's steps is irrelevant. */
static bool comes_after(const sl_joining *j, uint32_t step, uint32_t leader) {
    const uint32_t own = task_of(j, step)->leader;
    if (own == leader) return true;
    if (j->seen[own] || task_of(j, own)->highest < task_of(j, leader)->lowest) return false;
    j->seen[own] = true;
    for (uint32_t m = own; m != UINT32_MAX; m = task_of(j, m)->next)
        for (uint32_t i = j->needs->first[m]; i < j->needs->first[m + 1]; i++)
            if (comes_after(j, j->needs->from[i], leader)) return true;
    return false;
}

/* Whether everything that the leader's steps need from others can finish before its launch starts.
 */
static bool is_in_order(const sl_joining *j, uint32_t leader) {
    memset(j->seen, 0, j->exe->base.binding.program->step_count * sizeof *j->seen);
    for (uint32_t m = leader; m != UINT32_MAX; m = task_of(j, m)->next)
        for (uint32_t i = j->needs->first[m]; i < j->needs->first[m + 1]; i++) {
            const uint32_t before = j->needs->from[i];
            if (task_of(j, before)->leader != leader && comes_after(j, before, leader))
                return false;
        }
    return true;
}

static bool overlap(const sl_joining *j, const sl_operand *a, const sl_operand *b) {
    const sl_cu_address x = sl_gpu_resolve(&j->exe->base, a), y = sl_gpu_resolve(&j->exe->base, b);
    return x < y + sl_type_bytes(&b->type) && y < x + sl_type_bytes(&a->type);
}

/* Whether `writer` writes memory that `other` reads or writes.  Producer and consumer are exempt:
 * the value passes through the kernel. */
static bool writes_over(const sl_joining *j, const sl_step *writer, const sl_step *other) {
    const uint32_t inputs = sl_op_info_of(writer->op)->input_count;
    for (uint32_t o = inputs; o < writer->operand_count; o++)
        for (uint32_t i = 0; i < other->operand_count; i++)
            if (writer->operands[o].buffer.v != other->operands[i].buffer.v &&
                overlap(j, &writer->operands[o], &other->operands[i]))
                return true;
    return false;
}
static bool is_apart(const sl_joining *j, uint32_t leader) {
    for (uint32_t a = leader; a != UINT32_MAX; a = task_of(j, a)->next)
        for (uint32_t b = leader; b != UINT32_MAX; b = task_of(j, b)->next)
            if (a != b && writes_over(j, step_at(j, a), step_at(j, b))) return false;
    return true;
}

bool sl_joining_add(const sl_joining *j, uint32_t leader, const uint32_t *steps, uint32_t count,
                    const bool *late) {
    sl_cuda_task *head = task_of(j, leader);
    const sl_cuda_task before = *head;
    for (uint32_t i = 0; i < count; i++) {
        sl_cuda_task *task = task_of(j, steps[i]);
        task->leader = leader;
        task->late = late && late[i];
        task->next = head->next;
        head->next = steps[i];
        if (steps[i] < head->lowest) head->lowest = steps[i];
        if (steps[i] > head->highest) head->highest = steps[i];
    }
    if (is_in_order(j, leader) && is_apart(j, leader)) return true;
    *head = before;
    for (uint32_t i = 0; i < count; i++) {
        task_of(j, steps[i])->leader = steps[i];
        task_of(j, steps[i])->next = UINT32_MAX;
        task_of(j, steps[i])->late = false;
    }
    return false;
}

sl_status sl_joining_own(const sl_joining *j, uint32_t leader, sl_cuda_joined **out,
                         sl_error *err) {
    sl_cuda_task *task = task_of(j, leader);
    if (!task->joined) {
        const uint32_t count = launches_of(j, leader);
        sl_cuda_joined *copies = SL_ARENA_NEW_ARRAY(&j->exe->base.arena, sl_cuda_joined, count);
        if (!copies) return sl_no_memory(err, "launches", count * sizeof *copies);
        for (uint32_t i = 0; i < count; i++) copies[i].launch = *launch_of(j, leader, i);
        task->joined = copies;
        task->rule = j->rule;
    }
    *out = task->joined;
    return SL_OK;
}

void sl_joining_set(const sl_joining *j, sl_cuda_joined *joined, uint32_t i, sl_cuda_fn function,
                    const void *args, size_t args_bytes) {
    assert(sl_cuda_fn_is(function, j->rule->makes[i]));
    (void)j;
    sl_cuda_set(&joined[i].launch, function, args, args_bytes);
}

/* ---- all rules ---- */

static sl_status find_functions(sl_cuda_executable *exe, uint32_t step, sl_error *err) {
    sl_cuda_task *task = &exe->tasks[step];
    for (uint32_t i = 0; task->joined && i < exe->base.steps[step].launch_count; i++)
        SL_TRY(sl_cuda_function_of(sl_cuda_device_of(exe), &task->joined[i].launch,
                                   &task->joined[i].function, err));
    return SL_OK;
}

const sl_join_rule sl_join_rules[SL_JOIN_RULES] = {
    {.name = "row",
     .first = {SL_FN_sl_norm_rms_coded, SL_FN_sl_norm_add_coded},
     .takes = {SL_FN_sl_linear_a8_1, SL_FN_sl_linear_exact_2, SL_FN_sl_conv_few},
     .makes = {SL_FN_sl_row},
     .join = sl_join_row},
    {.name = "delta",
     .first = {SL_FN_sl_delta_step},
     .takes = {SL_FN_sl_norm_l2, SL_FN_sl_decay_beta},
     .makes = {SL_FN_sl_delta_step_joined},
     .join = sl_join_delta,
     .keeps_bits = true},
    {.name = "attention",
     .first = {SL_FN_sl_sdpa_few},
     .second = SL_FN_sl_sdpa_join,
     .takes = {SL_FN_sl_kv_append, SL_FN_sl_rope, SL_FN_sl_copy, SL_FN_sl_sdpa_join_any,
               SL_FN_sl_gate_quantise_fours},
     .makes = {SL_FN_sl_sdpa_step, SL_FN_sl_sdpa_merge_row},
     .join = sl_join_attention},
    {.name = "experts",
     .first = {SL_FN_sl_moe_pairs_up},
     .second = SL_FN_sl_moe_pairs_down,
     .takes = {SL_FN_sl_route, SL_FN_sl_moe_group, SL_FN_sl_moe_join},
     .makes = {SL_FN_sl_moe_row_up, SL_FN_sl_moe_row_down},
     .join = sl_join_experts},
    {.name = "route",
     .first = {SL_FN_sl_moe_group},
     .takes = {SL_FN_sl_route},
     .makes = {SL_FN_sl_route_group},
     .join = sl_join_route,
     .keeps_bits = true},
    {.name = "codes",
     .first = {SL_FN_sl_linear_a8_1},
     .makes = {SL_FN_sl_row},
     .join = sl_join_codes},
    {.name = "output",
     .first = {SL_FN_sl_linear_stream_q8},
     .makes = {SL_FN_sl_linear_stream_q8},
     .join = sl_join_output,
     .keeps_bits = true},
};

static bool is_for(const sl_joining *j, uint32_t step) {
    const sl_join_rule *rule = j->rule;
    const uint32_t launches = rule->second ? 2 : 1;
    if (j->exe->base.gpu->options.deterministic && !rule->keeps_bits) return false;
    return sl_joining_is_alone(j, step) && launches_of(j, step) == launches &&
           (is_launch(j, step, 0, rule->first[0]) || is_launch(j, step, 0, rule->first[1])) &&
           (launches == 1 || is_launch(j, step, 1, rule->second));
}

sl_status sl_cuda_join(sl_cuda_executable *exe, const sl_gpu_segment *segment,
                       const sl_cuda_needs *needs, sl_error *err) {
    const uint32_t count = exe->base.binding.program->step_count;
    sl_status status = SL_OK;
    sl_arena arena;
    sl_arena_init(&arena, exe->base.gpu->allocator);
    sl_joining j = {.exe = exe, .segment = segment, .needs = needs};
    j.seen = SL_ARENA_NEW_ARRAY(&arena, bool, (size_t)count + 1);
    SL_TRY_ELSE(done, j.seen ? SL_OK : sl_no_memory(err, "joining steps", count));
    for (j.rule = sl_join_rules; j.rule < sl_join_rules + SL_JOIN_RULES; j.rule++)
        for (uint32_t s = segment->first; s < segment->end; s++)
            if (is_for(&j, s)) SL_TRY_ELSE(done, j.rule->join(&j, s, err));
    for (uint32_t s = segment->first; s < segment->end; s++)
        SL_TRY_ELSE(done, find_functions(exe, s, err));
done:
    sl_arena_deinit(&arena);
    return status;
}
