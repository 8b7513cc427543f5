/* resize.c - Resizing of tensors. */
#include "core/resize.h"
#include "compiler/ops/alike.h"
#include <math.h>
#include <string.h>

/* Checks that attribute `name` is empty or has one number per axis. */
static sl_status check_reals(const sl_infer_args *a, const char *name, const sl_reals *reals,
                             uint32_t count, sl_error *err) {
    if (reals->count && reals->count != count)
        return sl_fail(err, SL_INVALID, "%s: %s has %u numbers, must have %u or none", a->label,
                       name, reals->count, count);
    for (uint32_t i = 0; i < reals->count; i++)
        if (!isfinite(reals->items[i]))
            return sl_fail(err, SL_INVALID, "%s: %s has the number %g, must be finite", a->label,
                           name, reals->items[i]);
    return SL_OK;
}

static sl_status unknown(const sl_infer_args *a, const char *name, const char *text,
                         sl_error *err) {
    return sl_fail(err, SL_INVALID, "%s: %s is '%s', which is not a known value", a->label, name,
                   text);
}

static sl_status check_words(const sl_infer_args *a, const sl_resize_attrs *attrs, sl_error *err) {
    sl_resize_mode mode;
    sl_resize_coordinates coordinates;
    sl_resize_rounding rounding;
    if (!sl_resize_mode_find(attrs->mode, &mode)) return unknown(a, "mode", attrs->mode, err);
    if (!sl_resize_coordinates_find(attrs->coordinates, &coordinates))
        return unknown(a, "coordinates", attrs->coordinates, err);
    if (!sl_resize_rounding_find(attrs->rounding, &rounding))
        return unknown(a, "rounding", attrs->rounding, err);
    SL_TRY(sl_check_attr(a->label, "exclude_outside", attrs->exclude_outside, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "antialias", attrs->antialias, 0, 1, err));
    if (!isfinite(attrs->cubic_a))
        return sl_fail(err, SL_INVALID, "%s: cubic_a is %g, must be finite", a->label,
                       (double)attrs->cubic_a);
    if (coordinates == SL_RESIZE_TF_CROP_AND_RESIZE && attrs->roi.count == 0)
        return sl_fail(err, SL_INVALID, "%s: tf_crop_and_resize needs roi", a->label);
    return sl_check_class(a, 0, "x", mode == SL_RESIZE_NEAREST ? SL_PLAIN : SL_FLOATS, err);
}

sl_status sl_infer_resize(const sl_infer_args *a, sl_error *err) {
    const sl_resize_attrs *attrs = a->attrs;
    SL_TRY(check_words(a, attrs, err));
    const sl_dims *x = &a->in[0].shape, *shape = &attrs->shape;
    SL_TRY(check_reals(a, "scales", &attrs->scales, x->rank, err));
    SL_TRY(check_reals(a, "roi", &attrs->roi, 2 * x->rank, err));
    for (uint32_t i = 0; i < attrs->scales.count; i++)
        if (!(attrs->scales.items[i] > 0x1p-20) || attrs->scales.items[i] > 0x1p20)
            return sl_fail(err, SL_INVALID, "%s: a scale is %g, must be 2^-20 to 2^20", a->label,
                           attrs->scales.items[i]);
    if (shape->rank && shape->rank != x->rank)
        return sl_fail(err, SL_INVALID, "%s: shape has %u dims, must have %u or none", a->label,
                       shape->rank, x->rank);
    if (!shape->rank && x->rank && !attrs->scales.count)
        return sl_fail(err, SL_INVALID, "%s: shape or scales must be given", a->label);
    if (attrs->extrapolation != 0 && sl_dtype_infos[a->in[0].dtype].kind != SL_KIND_FLOAT)
        return sl_fail(err, SL_INVALID,
                       "%s: extrapolation is %g, must be 0 unless x is a float type", a->label,
                       (double)attrs->extrapolation);
    a->out[0] = a->in[0];
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t *dim = &a->out[0].shape.dims[i];
        *dim = sl_resize_axis_of(attrs, x, i).out;
        SL_TRY(sl_check_attr(a->label, "a dim of the result", *dim, 1, (int64_t)1 << 40, err));
    }
    return SL_OK;
}

/* [outer][in][inner] -> [outer][out][inner]. */
typedef struct {
    const double *from;
    double *to;
    int64_t outer, inner;
} passage;

static sl_status resize_axis(const sl_eval_args *a, const sl_resize_axis *axis, const passage *p,
                             sl_error *err) {
    const sl_resize_attrs *attrs = a->attrs;
    const int64_t taps = sl_resize_taps(axis);
    int64_t *indices = SL_ARENA_NEW_ARRAY(a->scratch, int64_t, taps);
    double *weights;
    SL_TRY(sl_eval_scratch(a, taps, &weights, err));
    if (!indices) return sl_no_memory(err, a->label, (uint64_t)taps * sizeof *indices);
    for (int64_t row = 0; row < p->outer * axis->out; row++) {
        const bool seen = sl_resize_at(axis, row % axis->out, indices, weights);
        const double *source = p->from + row / axis->out * axis->in * p->inner;
        for (int64_t i = 0; i < p->inner; i++) {
            double sum = 0;
            for (int64_t t = 0; t < taps && seen && taps > 1; t++)
                sum += weights[t] * source[indices[t] * p->inner + i];
            if (!seen) sum = (double)attrs->extrapolation;
            /* A single tap copies the slot, so any type is allowed. */
            memcpy(&p->to[row * p->inner + i],
                   seen && taps == 1 ? &source[indices[0] * p->inner + i] : &sum, sizeof sum);
        }
    }
    return SL_OK;
}

sl_status sl_eval_resize(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    sl_type shape = a->in[0].type;
    const int64_t slots = sl_dtype_infos[shape.dtype].kind == SL_KIND_COMPLEX ? 2 : 1;
    for (uint32_t i = 0; i < shape.shape.rank; i++) {
        const sl_resize_axis axis = sl_resize_axis_of(a->attrs, &a->in[0].type.shape, i);
        const int64_t inner = sl_dims_tail(&shape.shape, i + 1) * slots;
        shape.shape.dims[i] = 1;
        const int64_t outer = sl_type_slots(&shape) / inner;
        shape.shape.dims[i] = axis.out;
        double *to;
        SL_TRY(sl_eval_scratch(a, outer * axis.out * inner, &to, err));
        SL_TRY(resize_axis(a, &axis, &(const passage){x, to, outer, inner}, err));
        x = to;
    }
    memcpy(a->out[0].data, x, (size_t)sl_type_slots(&shape) * sizeof *x);
    return SL_OK;
}

/* ---- resize_nearest2x ---- */

sl_status sl_infer_resize_nearest2x(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_class(a, 0, "x", SL_PLAIN, err));
    SL_TRY(sl_check_rank(a, 0, "x", 2, SL_MAX_RANK, err));
    a->out[0] = a->in[0];
    a->out[0].shape.dims[a->in[0].shape.rank - 2] *= 2;
    a->out[0].shape.dims[a->in[0].shape.rank - 1] *= 2;
    return SL_OK;
}

sl_status sl_eval_resize_nearest2x(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_type *type = &a->out[0].type;
    const int64_t width = type->shape.dims[type->shape.rank - 1];
    const size_t slots = sl_dtype_infos[type->dtype].kind == SL_KIND_COMPLEX ? 2 : 1;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const int64_t from = i / width / 2 * (width / 2) + i % width / 2;
        memcpy(a->out[0].data + (size_t)i * slots, x + (size_t)from * slots, slots * sizeof *x);
    }
    return SL_OK;
}

sl_status sl_infer_resize_nearest2x_backward(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_class(a, 0, "dy", SL_FLOATS, err));
    SL_TRY(sl_check_rank(a, 0, "dy", 2, SL_MAX_RANK, err));
    a->out[0] = a->in[0];
    for (uint32_t i = a->in[0].shape.rank - 2; i < a->in[0].shape.rank; i++) {
        char text[SL_TYPE_TEXT];
        if (a->in[0].shape.dims[i] % 2)
            return sl_fail(err, SL_INVALID, "%s: dy is %s, its last two dims must be even",
                           a->label, sl_type_format(&a->in[0], text, sizeof text));
        a->out[0].shape.dims[i] /= 2;
    }
    return SL_OK;
}

sl_status sl_eval_resize_nearest2x_backward(const sl_eval_args *a, sl_error *err) {
    const double *dy;
    SL_TRY(sl_eval_inputs(a, 1, &dy, err));
    const sl_type *type = &a->out[0].type;
    const int64_t width = type->shape.dims[type->shape.rank - 1];
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const double *from = dy + i / width * 4 * width + i % width * 2;
        a->out[0].data[i] = from[0] + from[1] + from[2 * width] + from[2 * width + 1];
    }
    return SL_OK;
}
