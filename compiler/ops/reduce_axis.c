/* reduce_axis.c - Ops along one axis: argmax, argmin and cumulative ops. */
#include "compiler/ops/operand.h"

/* ---- argmax and argmin ---- */

_Static_assert(sizeof(sl_argmax_attrs) == sizeof(sl_argmin_attrs), "one struct serves both");

static sl_status infer_arg(const sl_infer_args *a, sl_error *err) {
    const sl_argmax_attrs *attrs = a->attrs;
    SL_TRY(sl_check_kinds(a, 0, "x", SL_NUMBERS | SL_BOOLS, err));
    const sl_dims *x = &a->in[0].shape;
    if (x->rank == 0) return sl_refuse(a, 0, "x", "of at least one dim", err);
    uint32_t axis;
    SL_TRY(sl_find_axis(a->label, attrs->axis, x->rank, &axis, err));
    SL_TRY(sl_check_attr(a->label, "keep", attrs->keep, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "last", attrs->last, 0, 1, err));
    const bool given = attrs->to != SL_DTYPE_f32; /* f32 is 0, the default */
    if (given && attrs->to != SL_DTYPE_i32 && attrs->to != SL_DTYPE_i64)
        return sl_fail(err, SL_INVALID, "%s: to is %s, must be i32 or i64", a->label,
                       (unsigned)attrs->to < SL_DTYPE_COUNT ? sl_dtype_infos[attrs->to].name : "?");
    if (x->dims[axis] == 0) return sl_refuse(a, 0, "x", "not empty along axis", err);
    a->out[0] = (sl_type){.dtype = given ? attrs->to : SL_DTYPE_i32};
    sl_dims *out = &a->out[0].shape;
    for (uint32_t d = 0; d < x->rank; d++)
        if (d != axis || attrs->keep) out->dims[out->rank++] = d == axis ? 1 : x->dims[d];
    return SL_OK;
}

/* Whether x replaces the best so far. */
static bool is_better(sl_dtype dtype, const double *x, const double *best, bool least, bool last) {
    const bool integers = sl_dtype_infos[dtype].kind == SL_KIND_INT;
    if (!integers && (*x != *x || *best != *best)) return false;
    if (sl_slot_less(dtype, least ? x : best, least ? best : x)) return true;
    return last && !sl_slot_less(dtype, least ? best : x, least ? x : best);
}

static sl_status eval_arg(const sl_eval_args *a, bool least, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_argmax_attrs *attrs = a->attrs;
    const sl_type *type = &a->in[0].type;
    const uint32_t axis = sl_axis(attrs->axis, type->shape.rank);
    const int64_t count = type->shape.dims[axis], inner = sl_dims_tail(&type->shape, axis + 1);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double *line = x + i / inner * inner * count + i % inner;
        int64_t best = 0;
        for (int64_t j = 1; j < count; j++)
            if (is_better(type->dtype, line + j * inner, line + best * inner, least, attrs->last))
                best = j;
        sl_slot_set_integer(a->out[0].type.dtype, &a->out[0].data[i], best);
    }
    return SL_OK;
}

sl_status sl_infer_argmax(const sl_infer_args *a, sl_error *err) {
    return infer_arg(a, err);
}

sl_status sl_eval_argmax(const sl_eval_args *a, sl_error *err) {
    return eval_arg(a, false, err);
}

sl_status sl_infer_argmin(const sl_infer_args *a, sl_error *err) {
    return infer_arg(a, err);
}

sl_status sl_eval_argmin(const sl_eval_args *a, sl_error *err) {
    return eval_arg(a, true, err);
}

/* ---- cumulative sums and products ---- */

_Static_assert(sizeof(sl_cumsum_attrs) == sizeof(sl_cumprod_attrs) &&
                   sizeof(sl_cumsum_attrs) == sizeof(sl_cumsum_backward_attrs),
               "one struct serves all");

static sl_status infer_cumulation(const sl_infer_args *a, const char *name, uint32_t kinds,
                                  sl_error *err) {
    const sl_cumsum_attrs *attrs = a->attrs;
    uint32_t axis;
    SL_TRY(sl_check_kinds(a, 0, name, kinds, err));
    SL_TRY(sl_find_axis(a->label, attrs->axis, a->in[0].shape.rank, &axis, err));
    SL_TRY(sl_check_attr(a->label, "exclusive", attrs->exclusive, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "reverse", attrs->reverse, 0, 1, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

static sl_status eval_cumulation(const sl_eval_args *a, sl_fold kind, bool reverse, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_cumsum_attrs *attrs = a->attrs;
    const sl_type *type = &a->in[0].type;
    const uint32_t axis = sl_axis(attrs->axis, type->shape.rank);
    const int64_t count = type->shape.dims[axis], inner = sl_dims_tail(&type->shape, axis + 1);
    const int64_t lines = count ? sl_type_elements(type) / count : 0;
    for (int64_t i = 0; i < lines; i++) {
        const int64_t first = i / inner * inner * count + i % inner;
        double so_far;
        sl_fold_start(type->dtype, kind, &so_far);
        for (int64_t j = 0; j < count; j++) {
            const int64_t at = first + (reverse ? count - 1 - j : j) * inner;
            if (attrs->exclusive) a->out[0].data[at] = so_far;
            sl_fold_slot(type->dtype, kind, &so_far, &x[at]);
            if (!attrs->exclusive) a->out[0].data[at] = so_far;
        }
    }
    return SL_OK;
}

sl_status sl_infer_cumsum(const sl_infer_args *a, sl_error *err) {
    return infer_cumulation(a, "x", SL_NUMBERS, err);
}

sl_status sl_eval_cumsum(const sl_eval_args *a, sl_error *err) {
    return eval_cumulation(a, SL_FOLD_ADD, ((const sl_cumsum_attrs *)a->attrs)->reverse, err);
}

sl_status sl_infer_cumprod(const sl_infer_args *a, sl_error *err) {
    return infer_cumulation(a, "x", SL_NUMBERS, err);
}

sl_status sl_eval_cumprod(const sl_eval_args *a, sl_error *err) {
    return eval_cumulation(a, SL_FOLD_MUL, ((const sl_cumprod_attrs *)a->attrs)->reverse, err);
}

sl_status sl_infer_cumsum_backward(const sl_infer_args *a, sl_error *err) {
    return infer_cumulation(a, "dy", SL_FLOATS, err);
}

sl_status sl_eval_cumsum_backward(const sl_eval_args *a, sl_error *err) {
    const sl_cumsum_backward_attrs *attrs = a->attrs;
    return eval_cumulation(a, SL_FOLD_ADD, !attrs->reverse, err);
}
