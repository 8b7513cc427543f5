/* joining.h - What the rules of joining (join_*.c) have in common: looking at steps, and making one
 * part of another's launches. */
#ifndef SL_RUNTIME_CUDA_JOINING_H
#define SL_RUNTIME_CUDA_JOINING_H
#include "runtime/cuda/join.h"

typedef struct {
    sl_cuda_executable *exe;
    const sl_cuda_segment *segment;
    const sl_cuda_needs *needs;
    bool *seen; /* [step] */
} sl_joining;

static inline sl_cuda_task *task_of(const sl_joining *j, uint32_t step) {
    return &j->exe->tasks[step];
}
static inline const sl_step *step_at(const sl_joining *j, uint32_t step) {
    return &j->exe->base.binding.program->steps[step];
}
static inline const void *args_of(const sl_joining *j, uint32_t step) {
    return j->exe->base.steps[step].args;
}
/* As it was planned. */
static inline const sl_cuda_launch *launch_of(const sl_joining *j, uint32_t step, uint32_t i) {
    return &j->exe->launches[task_of(j, step)->first_launch + i];
}
/* Whether the step neither joins another nor is joined. */
bool sl_joining_is_alone(const sl_joining *j, uint32_t step);
/* The same, of a step of one launch of that function, or of one whose name begins so. */
bool sl_joining_is_one(const sl_joining *j, uint32_t step, const char *function);
bool sl_joining_is_any(const sl_joining *j, uint32_t step, const char *beginning);

/* How many operands of all steps are in the same buffer. */
uint32_t sl_joining_uses(const sl_joining *j, const sl_operand *operand);
bool sl_joining_is_input(const sl_joining *j, const sl_operand *operand);
/* Whether both are the same bytes of a buffer. */
bool sl_joining_is_same(const sl_operand *a, const sl_operand *b);
/* The step of that op, alone, which makes an operand for nobody else, UINT32_MAX where there is
 * none; output is the number of its operand. */
uint32_t sl_joining_maker(const sl_joining *j, const sl_operand *operand, sl_op op,
                          uint32_t output);

/* Makes steps part of the leader's launches: all of them, or none where that leaves no order or
 * where one writes what another has, other than by making what the other takes.  `late` are those
 * that only the leader's last launch has to do with; the count of steps comes first. */
bool sl_joining_add(const sl_joining *j, uint32_t leader, const uint32_t *steps, uint32_t count,
                    const bool *late);
/* Copies of the leader's launches, which may be changed. */
SL_CHECKED sl_status sl_joining_own(const sl_joining *j, uint32_t leader, sl_cuda_joined **out,
                                    sl_error *err);
void sl_joining_set(sl_cuda_joined *joined, const char *function, const void *args,
                    size_t args_bytes);

/* The rules, each for a step that may be the one it is about. */
SL_CHECKED sl_status sl_join_delta(const sl_joining *j, uint32_t step, sl_error *err);
SL_CHECKED sl_status sl_join_route(const sl_joining *j, uint32_t step, sl_error *err);
SL_CHECKED sl_status sl_join_experts(const sl_joining *j, uint32_t step, sl_error *err);
SL_CHECKED sl_status sl_join_row(const sl_joining *j, uint32_t step, sl_error *err);
SL_CHECKED sl_status sl_join_attention(const sl_joining *j, uint32_t step, sl_error *err);
SL_CHECKED sl_status sl_join_output(const sl_joining *j, uint32_t step, sl_error *err);
SL_CHECKED sl_status sl_join_codes(const sl_joining *j, uint32_t step, sl_error *err);
#endif
