/* reduce.c - Reductions, softmax and argmax. */
#include "compiler/ops/check.h"
#include <math.h>

/* The three reductions have the same attributes. */
_Static_assert(sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_mean_attrs) &&
                   sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_max_attrs),
               "one struct serves all reductions");

static sl_status find_axes(const char *label, const sl_reduce_sum_attrs *attrs, uint32_t rank,
                           bool reduced[SL_MAX_RANK], sl_error *err) {
    SL_TRY(sl_check_attr(label, "the number of axes", attrs->axes.rank, 1, SL_MAX_RANK, err));
    for (uint32_t i = 0; i < attrs->axes.rank; i++) {
        const int64_t axis = attrs->axes.dims[i];
        SL_TRY(sl_check_attr(label, "an axis", axis, 0, (int64_t)rank - 1, err));
        if (reduced[axis])
            return sl_fail(err, SL_INVALID, "%s: axis %lld is given twice", label, (long long)axis);
        reduced[axis] = true;
    }
    return SL_OK;
}

static sl_status infer_reduce(const sl_infer_args *a, sl_error *err) {
    const sl_reduce_sum_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "x f32[..] -> f32[..]", err));
    SL_TRY(sl_check_attr(a->label, "keep", attrs->keep, 0, 1, err));
    bool reduced[SL_MAX_RANK] = {false};
    const sl_dims *x = &a->in[0].shape;
    SL_TRY(find_axes(a->label, attrs, x->rank, reduced, err));
    sl_dims *out = &a->out[0].shape;
    out->rank = 0;
    for (uint32_t d = 0; d < x->rank; d++)
        if (!reduced[d] || attrs->keep) out->dims[out->rank++] = reduced[d] ? 1 : x->dims[d];
    return SL_OK;
}

typedef double fold_fn(double so_far, double x);

static double plus(double so_far, double x) {
    return so_far + x;
}

static double larger(double so_far, double x) {
    return isnan(x) || x > so_far ? x : so_far;
}

/* Folds every element of x into the result it belongs to, in order. */
static sl_status eval_reduce(const sl_eval_args *a, double start, fold_fn *fold, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    bool reduced[SL_MAX_RANK] = {false};
    const sl_dims *shape = &a->in[0].type.shape;
    SL_TRY(find_axes(a->label, a->attrs, shape->rank, reduced, err));
    sl_dims kept = *shape;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (reduced[d]) kept.dims[d] = 1;
    double *out = a->out[0].data;
    for (int64_t i = 0; i < sl_dims_tail(&kept, 0); i++) out[i] = start;
    for (int64_t i = 0; i < sl_dims_tail(shape, 0); i++) {
        double *target = &out[sl_broadcast_index(&kept, shape, i)];
        *target = fold(*target, x[i]);
    }
    return SL_OK;
}

sl_status infer_reduce_sum(const sl_infer_args *a, sl_error *err) {
    return infer_reduce(a, err);
}

sl_status eval_reduce_sum(const sl_eval_args *a, sl_error *err) {
    return eval_reduce(a, 0, plus, err);
}

sl_status infer_reduce_mean(const sl_infer_args *a, sl_error *err) {
    return infer_reduce(a, err);
}

sl_status eval_reduce_mean(const sl_eval_args *a, sl_error *err) {
    SL_TRY(eval_reduce(a, 0, plus, err));
    const int64_t results = sl_type_elements(&a->out[0].type);
    const double count = (double)(sl_type_elements(&a->in[0].type) / results);
    for (int64_t i = 0; i < results; i++) a->out[0].data[i] /= count;
    return SL_OK;
}

sl_status infer_reduce_max(const sl_infer_args *a, sl_error *err) {
    return infer_reduce(a, err);
}

sl_status eval_reduce_max(const sl_eval_args *a, sl_error *err) {
    return eval_reduce(a, -INFINITY, larger, err);
}

sl_status infer_softmax(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D] -> f32[..,D]", err);
}

static void softmax_row(const double *x, int64_t count, double *out) {
    double most = x[0], sum = 0;
    for (int64_t i = 1; i < count; i++) most = larger(most, x[i]);
    for (int64_t i = 0; i < count; i++) sum += out[i] = exp(x[i] - most);
    for (int64_t i = 0; i < count; i++) out[i] /= sum;
}

sl_status eval_softmax(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i += width)
        softmax_row(x + i, width, a->out[0].data + i);
    return SL_OK;
}

sl_status infer_argmax(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D] -> i32[..]", err);
}

sl_status eval_argmax(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t row = 0; row < sl_type_elements(&a->out[0].type); row++) {
        int64_t best = 0;
        for (int64_t i = 1; i < width; i++)
            if (x[row * width + i] > x[row * width + best]) best = i;
        a->out[0].data[row] = (double)best;
    }
    return SL_OK;
}
