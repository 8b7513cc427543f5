/* joining.h - Helpers of the join rules (join_*.c): queries about steps, and making a step part of
 * another's launches. */
#ifndef SL_RUNTIME_CUDA_JOINING_H
#define SL_RUNTIME_CUDA_JOINING_H
#include "runtime/cuda/join.h"

struct sl_joining {
    sl_cuda_executable *exe;
    const sl_gpu_segment *segment;
    const sl_cuda_needs *needs;
    bool *seen; /* [step] */
    const sl_join_rule *rule;
};

static inline sl_cuda_task *task_of(const sl_joining *j, uint32_t step) {
    return &j->exe->tasks[step];
}
static inline const sl_step *step_at(const sl_joining *j, uint32_t step) {
    return &j->exe->base.binding.program->steps[step];
}
static inline const void *args_of(const sl_joining *j, uint32_t step) {
    return j->exe->base.steps[step].args;
}
/* Launches as they were planned. */
static inline uint32_t launches_of(const sl_joining *j, uint32_t step) {
    return j->exe->base.steps[step].launch_count;
}
static inline const sl_gpu_launch *launch_of(const sl_joining *j, uint32_t step, uint32_t i) {
    return &j->exe->base.launches[j->exe->base.steps[step].first_launch + i];
}
/* Whether the step is in no join. */
bool sl_joining_is_alone(const sl_joining *j, uint32_t step);
/* The same for a step with one launch, of that kernel or family; false if the rule does not list
 * it. */
bool sl_joining_is(const sl_joining *j, uint32_t step, sl_cuda_fn what);

/* How many operands of all steps are in the same buffer. */
uint32_t sl_joining_uses(const sl_joining *j, const sl_operand *operand);
bool sl_joining_is_input(const sl_joining *j, const sl_operand *operand);
/* Whether both are the same bytes of a buffer. */
bool sl_joining_is_same(const sl_operand *a, const sl_operand *b);
/* The step of that op, in no join, that produces an operand for one user only; UINT32_MAX if there
 * is none; output is the index of its operand. */
uint32_t sl_joining_producer(const sl_joining *j, const sl_operand *operand, sl_op op,
                             uint32_t output);

/* Makes steps part of the leader's launches: all of them, or none if they could no longer be
 * ordered or if one writes memory of another, except a producer and its consumer.  `late` steps
 * depend on the leader's last launch only; the first element of steps is their count. */
bool sl_joining_add(const sl_joining *j, uint32_t leader, const uint32_t *steps, uint32_t count,
                    const bool *late);
/* Copies of the leader's launches, which the rule changes. */
SL_CHECKED sl_status sl_joining_own(const sl_joining *j, uint32_t leader, sl_cuda_joined **out,
                                    sl_error *err);
/* Replaces the i-th of them by a launch of FN, which must be listed in rule->makes. */
#define SL_JOINING_SET(J, JOINED, I, FN, ARGS)                                                     \
    sl_joining_set((J), (JOINED), (I), (FN).id, &(ARGS), SL_CUDA_TAKEN_BYTES(FN, ARGS))
void sl_joining_set(const sl_joining *j, sl_cuda_joined *joined, uint32_t i, sl_cuda_fn function,
                    const void *args, size_t args_bytes);

/* The join functions of the rules. */
sl_join_fn sl_join_row, sl_join_delta, sl_join_attention, sl_join_experts, sl_join_route,
    sl_join_codes, sl_join_output;
#endif
