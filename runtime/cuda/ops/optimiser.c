/* optimiser.c - Writing states in place, and the steps of optimisers. */
#include "runtime/cuda/kernels/optimiser.h"
#include "runtime/cuda/ops/strides.h"

PLAN(assign) {
    const sl_assign_args *a = args;
    const sl_assignment launch = {.x = a->x.data,
                                  .value = a->value.data,
                                  .count = sl_type_elements(&a->x.type),
                                  .each = (int32_t)sl_dtype_infos[a->x.type.dtype].bytes};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_assign), launch.count, launch);
    return SL_OK;
}

PLAN(sgd_step) {
    const sl_sgd_step_args *a = args;
    const sl_optimiser_step launch = {.x = a->x.data,
                                      .first = a->momentum.data,
                                      .gradient = a->gradient.data,
                                      .rate = a->rate.data,
                                      .count = sl_type_elements(&a->x.type),
                                      .beta1 = a->attrs.mu,
                                      .decay = a->attrs.decay,
                                      .nesterov = (int32_t)a->attrs.nesterov};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_sgd_step), launch.count, launch);
    return SL_OK;
}

PLAN(adamw_step) {
    const sl_adamw_step_args *a = args;
    const sl_optimiser_step launch = {.x = a->x.data,
                                      .first = a->mean.data,
                                      .second = a->square.data,
                                      .gradient = a->gradient.data,
                                      .rate = a->rate.data,
                                      .corrections = a->corrections.data,
                                      .count = sl_type_elements(&a->x.type),
                                      .beta1 = a->attrs.beta1,
                                      .beta2 = a->attrs.beta2,
                                      .rest1 = (float)(1 - (double)a->attrs.beta1),
                                      .rest2 = (float)(1 - (double)a->attrs.beta2),
                                      .eps = a->attrs.eps,
                                      .decay = a->attrs.decay};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_adamw_step), launch.count, launch);
    return SL_OK;
}

PLAN(lion_step) {
    const sl_lion_step_args *a = args;
    const sl_optimiser_step launch = {.x = a->x.data,
                                      .first = a->mean.data,
                                      .gradient = a->gradient.data,
                                      .rate = a->rate.data,
                                      .count = sl_type_elements(&a->x.type),
                                      .beta1 = a->attrs.beta1,
                                      .beta2 = a->attrs.beta2,
                                      .rest1 = (float)(1 - (double)a->attrs.beta1),
                                      .rest2 = (float)(1 - (double)a->attrs.beta2),
                                      .decay = a->attrs.decay};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_lion_step), launch.count, launch);
    return SL_OK;
}
