/* quant_a8.c - int8 quantisation of activations. */
#include "runtime/cuda/kernels/quant_a8.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

/* Indices of kernels in their families: FORM_fours, FORM_ones. */
#define PLACE(PREFIX, FORM) PREFIX##_##FORM,
enum { SL_QUANTISE_FORMS_WITH(PLACE, FORM) };

static sl_status plan_quantise(sl_gpu_planner *planner, sl_quantise_groups_fn family,
                               const sl_type *type, sl_quantise_groups groups) {
    enum { THREADS = 128, FOURS_PER_BLOCK = THREADS / 8, ONES_PER_BLOCK = THREADS / SL_CUDA_WARP };
    groups.count = (int32_t)last_dim(type);
    groups.all_groups = rows_of(type) * groups.codes.groups;
    if (groups.count % 4)
        SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(family, FORM_ones),
                    parts_of(groups.all_groups, ONES_PER_BLOCK), THREADS, groups);
    else
        SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(family, FORM_fours),
                    parts_of(groups.all_groups, FOURS_PER_BLOCK), THREADS, groups);
    return SL_OK;
}

PLAN(quantise) {
    const sl_quantise_args *a = args;
    return plan_quantise(
        planner, SL_CUDA_FN(sl_quantise), &a->x.type,
        (sl_quantise_groups){.x = a->x.data, .codes = rows8_at(a->out.data, &a->out.type)});
}

PLAN(sigmoid_gate_quantise) {
    const sl_sigmoid_gate_quantise_args *a = args;
    return plan_quantise(planner, SL_CUDA_FN(sl_gate_quantise), &a->x.type,
                         (sl_quantise_groups){.x = a->x.data,
                                              .gate = a->gate.data,
                                              .codes = rows8_at(a->codes.data, &a->codes.type)});
}
