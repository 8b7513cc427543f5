/* norm.c - Norms over the last axis. */
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

/* A warp computes a short row, so that no barrier is needed; a block a longer one. */
enum { SHORT_ROW = 256, SHORT_ROWS_PER_BLOCK = 4, MOST_LANES = 512 };
_Static_assert((int)SHORT_ROW <= (int)SL_CUDA_WARP * 4 * (int)SL_NORM_LOADS, "a warp keeps a row");

/* Indices of kernels in their families: FORM_once, FORM_kept, FORM_any. */
#define PLACE(PREFIX, FORM) PREFIX##_##FORM,
enum { SL_NORM_FORMS_WITH(PLACE, FORM) };

static sl_status plan_norm(sl_gpu_planner *planner, sl_norm_rows_fn family, const sl_type *type,
                           sl_norm_rows rows) {
    const int64_t count = last_dim(type);
    rows.rows = rows_of(type);
    rows.count = (int32_t)count;
    if (count % 4 || count > (int64_t)MOST_LANES * 4 * SL_NORM_LOADS) {
        SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(family, FORM_any), rows.rows,
                    threads_for(count, 256), rows);
        return SL_OK;
    }
    const bool alone = count > SHORT_ROW;
    const uint32_t lanes = alone ? threads_for(count / 4, MOST_LANES) : (uint32_t)SL_CUDA_WARP;
    const uint32_t per_block = alone ? 1 : SHORT_ROWS_PER_BLOCK;
    rows.lanes = (int32_t)lanes;
    const int form = count <= (int64_t)lanes * 4 ? FORM_once : FORM_kept;
    SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(family, form), parts_of(rows.rows, per_block),
                per_block * lanes, rows);
    return SL_OK;
}

PLAN(rms_norm) {
    const sl_rms_norm_args *a = args;
    return plan_norm(planner, SL_CUDA_FN(sl_norm_rms), &a->x.type,
                     (sl_norm_rows){.x = a->x.data,
                                    .gain = a->gain.data,
                                    .out = a->out.data,
                                    .eps = a->attrs.eps,
                                    .factor = a->attrs.offset});
}

PLAN(gated_rms_norm) {
    const sl_gated_rms_norm_args *a = args;
    return plan_norm(planner, SL_CUDA_FN(sl_norm_gated), &a->x.type,
                     (sl_norm_rows){.x = a->x.data,
                                    .other = a->z.data,
                                    .gain = a->gain.data,
                                    .out = a->out.data,
                                    .eps = a->attrs.eps});
}

PLAN(l2_norm) {
    const sl_l2_norm_args *a = args;
    return plan_norm(
        planner, SL_CUDA_FN(sl_norm_l2), &a->x.type,
        (sl_norm_rows){
            .x = a->x.data, .out = a->out.data, .eps = a->attrs.eps, .factor = a->attrs.scale});
}

PLAN(add_rms_norm) {
    const sl_add_rms_norm_args *a = args;
    if (SL_LIST_COUNT(a->extra))
        return sl_fail(err, SL_UNSUPPORTED, "%s: the cuda device adds no shift and no bias",
                       planner->label);
    return plan_norm(planner, SL_CUDA_FN(sl_norm_add), &a->a.type,
                     (sl_norm_rows){.x = a->a.data,
                                    .other = a->b.data,
                                    .gain = a->gain.data,
                                    .sum = a->sum.data,
                                    .out = a->out.data,
                                    .eps = a->attrs.eps,
                                    .factor = a->attrs.offset});
}

PLAN(rms_norm_mul) {
    const sl_rms_norm_mul_args *a = args;
    return plan_norm(planner, SL_CUDA_FN(sl_norm_mul), &a->x.type,
                     (sl_norm_rows){.x = a->x.data,
                                    .other = a->y.data,
                                    .gain = a->gain.data,
                                    .out = a->out.data,
                                    .eps = a->attrs.eps,
                                    .factor = a->attrs.offset});
}

/* ---- with quantised results ---- */

PLAN(rms_norm_quantise) {
    const sl_rms_norm_quantise_args *a = args;
    return plan_norm(planner, SL_CUDA_FN(sl_norm_rms_coded), &a->x.type,
                     (sl_norm_rows){.x = a->x.data,
                                    .gain = a->gain.data,
                                    .out = a->out.data,
                                    .codes = rows8_at(a->codes.data, &a->codes.type),
                                    .eps = a->attrs.eps,
                                    .factor = a->attrs.offset});
}

PLAN(add_rms_norm_quantise) {
    const sl_add_rms_norm_quantise_args *a = args;
    return plan_norm(planner, SL_CUDA_FN(sl_norm_add_coded), &a->a.type,
                     (sl_norm_rows){.x = a->a.data,
                                    .other = a->b.data,
                                    .gain = a->gain.data,
                                    .sum = a->sum.data,
                                    .out = a->out.data,
                                    .codes = rows8_at(a->codes.data, &a->codes.type),
                                    .eps = a->attrs.eps,
                                    .factor = a->attrs.offset});
}

PLAN(gated_rms_norm_quantise) {
    const sl_gated_rms_norm_quantise_args *a = args;
    return plan_norm(planner, SL_CUDA_FN(sl_norm_gated_coded), &a->x.type,
                     (sl_norm_rows){.x = a->x.data,
                                    .other = a->z.data,
                                    .gain = a->gain.data,
                                    .codes = rows8_at(a->codes.data, &a->codes.type),
                                    .eps = a->attrs.eps});
}
