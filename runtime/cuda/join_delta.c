/* join_delta.c - The delta-net step, with the norms and gates that only prepare its operands. */
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/delta.h"

/* Operands of delta_step: q k v decay beta slots positions memory out. */
enum { STEP_Q, STEP_K, STEP_V, STEP_DECAY, STEP_BETA, STEP_SLOTS, STEP_POSITIONS, STEP_MEMORY };

/* Whether the one-row kernel can be used: no other step writes what it reads before it waits. */
static bool is_joinable(const sl_joining *j, uint32_t step) {
    const sl_step *s = step_at(j, step);
    return s->op == SL_OP_delta_step &&
           SL_CUDA_ARGS(launch_of(j, step, 0), sl_delta_step)->rows == 1 &&
           sl_joining_is_input(j, &s->operands[STEP_SLOTS]) &&
           sl_joining_is_input(j, &s->operands[STEP_POSITIONS]) &&
           sl_joining_uses(j, &s->operands[STEP_MEMORY]) == 1;
}

static void take_gates(const sl_joining *j, uint32_t step, sl_delta_joined *launch) {
    const sl_step *s = step_at(j, step);
    const uint32_t maker = sl_joining_producer(j, &s->operands[STEP_DECAY], SL_OP_decay_beta, 4);
    if (maker == UINT32_MAX ||
        sl_joining_producer(j, &s->operands[STEP_BETA], SL_OP_decay_beta, 5) != maker ||
        !sl_joining_add(j, step, &maker, 1, NULL))
        return;
    const sl_decay_beta_args *a = args_of(j, maker);
    launch->a = a->a.data;
    launch->b = a->b.data;
    launch->a_log = a->a_log.data;
    launch->dt_bias = a->dt_bias.data;
}

sl_status sl_join_delta(const sl_joining *j, uint32_t step, sl_error *err) {
    if (!is_joinable(j, step)) return SL_OK;
    const sl_step *s = step_at(j, step);
    const uint32_t norms[] = {sl_joining_producer(j, &s->operands[STEP_Q], SL_OP_l2_norm, 1),
                              sl_joining_producer(j, &s->operands[STEP_K], SL_OP_l2_norm, 1)};
    if (norms[0] == UINT32_MAX || norms[1] == UINT32_MAX ||
        !sl_joining_add(j, step, norms, 2, NULL))
        return SL_OK;
    const sl_l2_norm_args *q = args_of(j, norms[0]), *k = args_of(j, norms[1]);
    sl_delta_joined launch = {.d = *SL_CUDA_ARGS(launch_of(j, step, 0), sl_delta_step),
                              .q_eps = q->attrs.eps,
                              .q_scale = q->attrs.scale,
                              .k_eps = k->attrs.eps,
                              .k_scale = k->attrs.scale};
    launch.d.q = q->x.data;
    launch.d.k = k->x.data;
    take_gates(j, step, &launch);
    sl_cuda_joined *joined = NULL;
    SL_TRY(sl_joining_own(j, step, &joined, err));
    SL_JOINING_SET(j, joined, 0, SL_CUDA_FN(sl_delta_step_joined), launch);
    return SL_OK;
}
