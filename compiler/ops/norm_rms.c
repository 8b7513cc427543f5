/* norm_rms.c - Norms over the last axis, and over any. */
#include "compiler/ops/alike.h"
#include "compiler/ops/attention.h"
#include "compiler/ops/check.h"
#include <math.h>

static double sum_of_squares(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sum;
}

/* The pattern has the right shapes; all operands and the result have one float type. */
static sl_status match_alike(const sl_infer_args *a, const char *pattern, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(a->in_count == 2 ? SL_OP_rms_norm : SL_OP_rms_norm_mul);
    SL_TRY(sl_match(a, pattern, err));
    SL_TRY(sl_check_alike(a, a->in_count, info->input_names, SL_FLOATS, err));
    a->out[0].dtype = a->in[0].dtype;
    return SL_OK;
}

sl_status sl_infer_rms_norm(const sl_infer_args *a, sl_error *err) {
    return match_alike(a, "x float[..,D], gain float[D] -> f32[..,D]", err);
}

/* Rows of x, which is of this type. */
static void norm_rows(const sl_type *type, const double *rows, const double *gain,
                      const sl_rms_norm_attrs *attrs, double *out) {
    const int64_t width = type->shape.dims[type->shape.rank - 1];
    for (int64_t at = 0; at < sl_type_elements(type); at += width) {
        const double *x = rows + at;
        const double root = sqrt(sum_of_squares(x, width) / (double)width + (double)attrs->eps);
        for (int64_t i = 0; i < width; i++)
            out[at + i] = x[i] / root * ((double)attrs->offset + gain[i]);
    }
}

sl_status sl_eval_rms_norm(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    norm_rows(&a->in[0].type, in[0], in[1], a->attrs, a->out[0].data);
    return SL_OK;
}

/* Which axes are normalised, and the dims of x along them. */
static sl_status axes_of(const char *label, const sl_dims *x, const sl_dims *axes,
                         bool normed[SL_MAX_RANK], sl_dims *out, sl_error *err) {
    *out = (sl_dims){0};
    for (uint32_t d = 0; d < SL_MAX_RANK; d++) normed[d] = false;
    for (uint32_t i = 0; i < axes->rank; i++) {
        uint32_t axis;
        SL_TRY(sl_check_axis(label, axes->dims[i], x->rank, &axis, err));
        if (normed[axis])
            return sl_fail(err, SL_INVALID, "%s: axis %u is given twice", label, axis);
        normed[axis] = true;
    }
    for (uint32_t d = 0; d < x->rank; d++)
        if (normed[d]) out->dims[out->rank++] = x->dims[d];
    return SL_OK;
}

sl_status sl_infer_rms_norm_axes(const sl_infer_args *a, sl_error *err) {
    const sl_rms_norm_axes_attrs *attrs = a->attrs;
    bool normed[SL_MAX_RANK];
    sl_dims gain;
    SL_TRY(sl_check_attr(a->label, "the number of inputs", a->in_count, 1, 2, err));
    SL_TRY(sl_check_alike(a, a->in_count, (const char *const[]){"x", "gain"}, SL_FLOATS, err));
    SL_TRY(axes_of(a->label, &a->in[0].shape, &attrs->axes, normed, &gain, err));
    if (a->in_count == 2)
        SL_TRY(sl_check_shape(a, 1, "gain", &gain, "the dims of x along the axes", err));
    a->out[0] = a->in[0];
    return SL_OK;
}

/* Where element i of x lies among what its rms is over, and which rms that is. */
static void place_of(const sl_dims *x, const bool normed[SL_MAX_RANK], int64_t i, int64_t *inner,
                     int64_t *outer) {
    int64_t steps[2] = {1, 1};
    *inner = *outer = 0;
    for (uint32_t d = x->rank; d-- > 0; i /= x->dims[d]) {
        *(normed[d] ? inner : outer) += i % x->dims[d] * steps[normed[d]];
        steps[normed[d]] *= x->dims[d];
    }
}

sl_status sl_eval_rms_norm_axes(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_axes_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].type.shape;
    const int64_t count = sl_type_elements(&a->in[0].type);
    bool normed[SL_MAX_RANK];
    sl_dims dims;
    const double *in[2] = {NULL, NULL};
    double *squares;
    int64_t inner, outer, width = 1;
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    SL_TRY(axes_of(a->label, x, &attrs->axes, normed, &dims, err));
    SL_TRY(sl_eval_scratch(a, count, &squares, err));
    for (uint32_t d = 0; d < dims.rank; d++) width *= dims.dims[d];
    for (int64_t i = 0; i < count; i++) squares[i] = 0;
    for (int64_t i = 0; i < count; i++) {
        place_of(x, normed, i, &inner, &outer);
        squares[outer] += in[0][i] * in[0][i];
    }
    for (int64_t i = 0; i < count; i++) {
        place_of(x, normed, i, &inner, &outer);
        const double root = sqrt(squares[outer] / (double)width + (double)attrs->eps);
        a->out[0].data[i] = in[0][i] / root * (in[1] ? (double)attrs->offset + in[1][inner] : 1);
    }
    return SL_OK;
}

sl_status sl_infer_gated_rms_norm(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], z f32[..,D], gain f32[D] -> f32[..,D]", err);
}

sl_status sl_eval_gated_rms_norm(const sl_eval_args *a, sl_error *err) {
    const sl_gated_rms_norm_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width) {
        const double *x = in[0] + at, *z = in[1] + at;
        const double root = sqrt(sum_of_squares(x, width) / (double)width + (double)attrs->eps);
        for (int64_t i = 0; i < width; i++)
            a->out[0].data[at + i] = x[i] / root * in[2][i] * sl_silu(z[i]);
    }
    return SL_OK;
}

sl_status sl_infer_l2_norm(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D] -> f32[..,D]", err);
}

sl_status sl_eval_l2_norm(const sl_eval_args *a, sl_error *err) {
    const sl_l2_norm_attrs *attrs = a->attrs;
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width) {
        const double root = sqrt(sum_of_squares(x + at, width) + (double)attrs->eps);
        for (int64_t i = 0; i < width; i++)
            a->out[0].data[at + i] = (double)attrs->scale * x[at + i] / root;
    }
    return SL_OK;
}

/* ---- fused ---- */

/* add_rms_norm: a, b, gain, then perhaps shift, then perhaps bias. */
enum { GAIN = 2, SHIFT, BIAS };

sl_status sl_infer_add_rms_norm(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"a", "b", "gain", "shift", "bias"};
    SL_TRY(sl_match(a, "a float[..,D], b float[..,D], gain float[D] -> float[..,D], float[..,D]",
                    err));
    SL_TRY(sl_check_one_type(a, names, SHIFT, err));
    a->out[0].dtype = a->out[1].dtype = a->in[0].dtype;
    if (a->in_count > BIAS + 1)
        return sl_check_extra_count(a, SHIFT, 2, " (shift, bias) or fewer", err);
    for (uint32_t i = SHIFT; i < a->in_count; i++)
        SL_TRY(sl_check_extra(a, i, names[i], &a->in[GAIN], err));
    return SL_OK;
}

static void add_to_rows(double *rows, int64_t count, const double *row, int64_t width) {
    for (int64_t i = 0; i < count; i++) rows[i] += row[i % width];
}

sl_status sl_eval_add_rms_norm(const sl_eval_args *a, sl_error *err) {
    const sl_add_rms_norm_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    const double *in[BIAS + 1] = {NULL};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t width = sl_eval_last_dim(a, 0), count = sl_type_elements(&a->in[0].type);
    double *sum = a->out[0].data, *out = a->out[1].data;
    for (int64_t i = 0; i < count; i++) sum[i] = in[0][i] + in[1][i];
    if (in[BIAS]) add_to_rows(sum, count, in[BIAS], width);
    norm_rows(&a->in[0].type, sum, in[GAIN], &norm, out);
    if (in[SHIFT]) add_to_rows(out, count, in[SHIFT], width);
    return SL_OK;
}

sl_status sl_infer_rms_norm_mul(const sl_infer_args *a, sl_error *err) {
    return match_alike(a, "x float[..,D], gain float[D], y float[..,D] -> f32[..,D]", err);
}

sl_status sl_eval_rms_norm_mul(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_mul_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    SL_TRY(sl_eval_part(a, SL_OP_rms_norm, a->in, &norm, a->out, err));
    return sl_eval_part(a, SL_OP_mul, (sl_eval_tensor[]){a->out[0], a->in[2]}, NULL, a->out, err);
}

sl_status sl_infer_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gain f32[D] -> f32[..,D], a8[..,D]", err);
}

sl_status sl_eval_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_quantise_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    return sl_eval_quantised(a, SL_OP_rms_norm, &norm, 1, err);
}

sl_status sl_infer_add_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "a f32[..,D], b f32[..,D], gain f32[D] -> f32[..,D], f32[..,D], a8[..,D]",
                    err);
}

sl_status sl_eval_add_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_add_rms_norm_quantise_attrs *attrs = a->attrs;
    const sl_add_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    return sl_eval_quantised(a, SL_OP_add_rms_norm, &norm, 2, err);
}

sl_status sl_infer_gated_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], z f32[..,D], gain f32[D] -> a8[..,D]", err);
}

sl_status sl_eval_gated_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_gated_rms_norm_quantise_attrs *attrs = a->attrs;
    return sl_eval_quantised(a, SL_OP_gated_rms_norm, &(sl_gated_rms_norm_attrs){.eps = attrs->eps},
                             0, err);
}
