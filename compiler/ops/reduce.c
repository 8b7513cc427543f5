/* reduce.c - Reductions over axes, and the gradient of max and min. */
#include "compiler/ops/operand.h"
#include <math.h>

/* All reductions and the gradient have the same attributes. */
_Static_assert(sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_mean_attrs) &&
                   sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_max_attrs) &&
                   sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_min_attrs) &&
                   sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_prod_attrs) &&
                   sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_max_backward_attrs),
               "one struct serves all reductions");

/* ---- over any axes ---- */

static sl_status reduced_shape(const sl_infer_args *a, sl_dims *out, sl_error *err) {
    const sl_reduce_sum_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "keep", attrs->keep, 0, 1, err));
    bool reduced[SL_MAX_RANK] = {false};
    const sl_dims *x = &a->in[0].shape;
    SL_TRY(sl_check_axes(a->label, &attrs->axes, x->rank, reduced, err));
    *out = (sl_dims){0};
    for (uint32_t d = 0; d < x->rank; d++)
        if (!reduced[d] || attrs->keep) out->dims[out->rank++] = reduced[d] ? 1 : x->dims[d];
    return SL_OK;
}

static sl_status infer_reduce(const sl_infer_args *a, uint32_t kinds, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, "x", kinds, err));
    a->out[0].dtype = a->in[0].dtype;
    return reduced_shape(a, &a->out[0].shape, err);
}

/* The dims of x, with 1 for the reduced ones. */
static sl_dims kept_dims(const sl_dims *x, const sl_dims *axes) {
    sl_dims kept = *x;
    for (uint32_t i = 0; i < axes->rank; i++) kept.dims[sl_axis(axes->dims[i], x->rank)] = 1;
    return kept;
}

/* Reduces every element of x into its result, in order. */
static sl_status eval_reduce(const sl_eval_args *a, sl_fold kind, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_type *type = &a->in[0].type;
    const sl_dims kept = kept_dims(&type->shape, &((const sl_reduce_sum_attrs *)a->attrs)->axes);
    const int64_t unit = sl_unit(type->dtype);
    double *out = a->out[0].data;
    for (int64_t i = 0; i < sl_dims_tail(&kept, 0); i++)
        sl_fold_start(type->dtype, kind, out + i * unit);
    for (int64_t i = 0; i < sl_type_elements(type); i++)
        sl_fold_slot(type->dtype, kind, out + sl_broadcast_index(&kept, &type->shape, i) * unit,
                     x + i * unit);
    return SL_OK;
}

#define REDUCTION(NAME, KINDS, HOW)                                                                \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        return infer_reduce(a, KINDS, err);                                                        \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        return eval_reduce(a, HOW, err);                                                           \
    }
REDUCTION(reduce_sum, SL_NUMBERS | SL_COMPLEXES, SL_FOLD_ADD)
REDUCTION(reduce_prod, SL_NUMBERS | SL_COMPLEXES, SL_FOLD_MUL)
REDUCTION(reduce_max, SL_NUMBERS | SL_BOOLS, SL_FOLD_MAX)
REDUCTION(reduce_min, SL_NUMBERS | SL_BOOLS, SL_FOLD_MIN)
#undef REDUCTION

sl_status sl_infer_reduce_mean(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_reduce(a, SL_NUMBERS | SL_COMPLEXES, err));
    const bool none = sl_type_elements(&a->in[0]) == 0 && sl_type_elements(&a->out[0]) > 0;
    if (none && sl_dtype_infos[a->in[0].dtype].kind == SL_KIND_INT)
        return sl_refuse(a, 0, "x", "floats or not empty", err);
    return SL_OK;
}

/* For integers the exact sum, which may need more bits than the type, divided toward zero. */
static sl_status eval_integer_mean(const sl_eval_args *a, int64_t count, sl_error *err) {
    int64_t *x;
    SL_TRY(sl_eval_integers(a, 0, &x, err));
    const sl_type *type = &a->in[0].type;
    const sl_dims kept = kept_dims(&type->shape, &((const sl_reduce_mean_attrs *)a->attrs)->axes);
    const int64_t results = sl_type_elements(&a->out[0].type);
    int64_t *sums = SL_ARENA_NEW_ARRAY(a->scratch, int64_t, results + 1);
    if (!sums) return sl_no_memory(err, a->label, (uint64_t)results * sizeof *sums);
    for (int64_t i = 0; i < results; i++) sums[i] = 0;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        int64_t *sum = &sums[sl_broadcast_index(&kept, &type->shape, i)];
        *sum = (int64_t)((uint64_t)*sum + (uint64_t)x[i]);
    }
    for (int64_t i = 0; i < results; i++) {
        const bool large = type->dtype == SL_DTYPE_u64;
        const int64_t mean =
            large ? (int64_t)((uint64_t)sums[i] / (uint64_t)count) : sums[i] / count;
        sl_slot_set_integer(type->dtype, &a->out[0].data[i], mean);
    }
    return SL_OK;
}

sl_status sl_eval_reduce_mean(const sl_eval_args *a, sl_error *err) {
    const int64_t results = sl_type_elements(&a->out[0].type);
    if (!results) return SL_OK;
    const int64_t count = sl_type_elements(&a->in[0].type) / results;
    if (sl_dtype_infos[a->in[0].type.dtype].kind == SL_KIND_INT)
        return eval_integer_mean(a, count, err);
    SL_TRY(eval_reduce(a, SL_FOLD_ADD, err));
    for (int64_t i = 0; i < sl_type_slots(&a->out[0].type); i++) a->out[0].data[i] /= (double)count;
    return SL_OK;
}

sl_status sl_infer_reduce_max_backward(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, "x", SL_FLOATS, err));
    sl_type wanted = {.dtype = a->in[0].dtype};
    SL_TRY(reduced_shape(a, &wanted.shape, err));
    SL_TRY(sl_check_type(a, 1, "y", &wanted, "as x is reduced", err));
    SL_TRY(sl_check_type(a, 2, "dy", &wanted, "as y", err));
    a->out[0] = a->in[0];
    return SL_OK;
}

static bool is_chosen(double x, double y) {
    return x == y || (isnan(x) && isnan(y));
}

sl_status sl_eval_reduce_max_backward(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    double *ties;
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t results = sl_type_elements(&a->in[1].type);
    SL_TRY(sl_eval_scratch(a, results + 1, &ties, err));
    const sl_dims *x = &a->in[0].type.shape;
    const sl_dims kept = kept_dims(x, &((const sl_reduce_max_backward_attrs *)a->attrs)->axes);
    for (int64_t i = 0; i < results; i++) ties[i] = 0;
    for (int64_t i = 0; i < sl_dims_tail(x, 0); i++) {
        const int64_t of = sl_broadcast_index(&kept, x, i);
        ties[of] += is_chosen(in[0][i], in[1][of]);
    }
    for (int64_t i = 0; i < sl_dims_tail(x, 0); i++) {
        const int64_t of = sl_broadcast_index(&kept, x, i);
        a->out[0].data[i] = is_chosen(in[0][i], in[1][of]) ? in[2][of] / ties[of] : 0;
    }
    return SL_OK;
}
