/* quant.c - Quantisation, dequantisation, and fake quantisation for training. */
#include "compiler/ops/numbers.h"
#include <math.h>

/* ---- parameters: one, or one per index of an axis ---- */

/* Fails unless the parameter has one element or as many as the axis of x; in that case the axis
 * must be in range. */
static sl_status check_axis_param(const sl_infer_args *a, uint32_t input, const char *name,
                                  int64_t axis, sl_error *err) {
    const sl_dims *x = &a->in[0].shape, *shape = &a->in[input].shape;
    uint32_t at = 0;
    if (shape->rank == 0 || (shape->rank == 1 && shape->dims[0] == 1)) return SL_OK;
    SL_TRY(sl_check_named_axis(a, "axis", axis, x->rank, &at, err));
    return sl_check_param(a, input, name, x->dims[at], err);
}

/* The parameter of element i. */
static double param_at(const sl_eval_args *a, const double *params, int64_t count, int64_t axis,
                       int64_t i) {
    const sl_dims *x = &a->in[0].type.shape;
    if (count == 1) return params[0];
    const uint32_t at = (uint32_t)(axis < 0 ? axis + x->rank : axis);
    return params[i / sl_dims_tail(x, at + 1) % count];
}

/* x / scale in x's type: f32 unless it is f64. */
static double quotient(sl_dtype dtype, double x, double scale) {
    return dtype == SL_DTYPE_f64 ? x / scale : (double)((float)x / (float)scale);
}

/* ---- quantize, dequantize ---- */

sl_status sl_infer_quantize(const sl_infer_args *a, sl_error *err) {
    const sl_quantize_attrs *attrs = a->attrs;
    SL_TRY(sl_check_numbers(a, 0, "x", SL_NUMBERS_FLOAT, err));
    SL_TRY(sl_check_numbers(a, 1, "scale", SL_NUMBERS_FLOAT, err));
    SL_TRY(sl_check_numbers(a, 2, "zero", SL_NUMBERS_CODE, err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"x", "scale"}, err));
    SL_TRY(check_axis_param(a, 1, "scale", attrs->axis, err));
    SL_TRY(sl_check_dims(a, 2, "zero", &a->in[1].shape, err));
    if (attrs->to != a->in[2].dtype)
        return sl_fail(err, SL_INVALID, "%s: zero is %s, must be of the type that `to` names",
                       a->label, sl_dtype_infos[a->in[2].dtype].name);
    a->out[0] = (sl_type){attrs->to, a->in[0].shape};
    return SL_OK;
}

static double saturated(sl_dtype dtype, double code) {
    const int bits = (int)sl_dtype_infos[dtype].bytes * 8;
    const bool is_unsigned = dtype == SL_DTYPE_u8 || dtype == SL_DTYPE_u16;
    const double low = is_unsigned ? 0 : -ldexp(1, bits - 1);
    const double high = ldexp(1, is_unsigned ? bits : bits - 1) - 1;
    return code < low ? low : code > high ? high : code;
}

sl_status sl_eval_quantize(const sl_eval_args *a, sl_error *err) {
    const sl_quantize_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t count = sl_type_elements(&a->in[1].type);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double scale = param_at(a, in[1], count, attrs->axis, i);
        const double zero = param_at(a, in[2], count, attrs->axis, i);
        const double code = rint(quotient(a->in[0].type.dtype, in[0][i], scale)) + zero;
        a->out[0].data[i] = isnan(code) ? zero : saturated(attrs->to, code);
    }
    return SL_OK;
}

sl_status sl_infer_dequantize(const sl_infer_args *a, sl_error *err) {
    const sl_dequantize_attrs *attrs = a->attrs;
    SL_TRY(sl_check_numbers(a, 0, "x", SL_NUMBERS_CODE, err));
    SL_TRY(sl_check_numbers(a, 1, "scale", SL_NUMBERS_FLOAT, err));
    SL_TRY(sl_check_numbers(a, 2, "zero", SL_NUMBERS_CODE, err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 2}, (const char *[2]){"x", "zero"}, err));
    SL_TRY(check_axis_param(a, 1, "scale", attrs->axis, err));
    SL_TRY(sl_check_dims(a, 2, "zero", &a->in[1].shape, err));
    a->out[0] = (sl_type){a->in[1].dtype, a->in[0].shape};
    return SL_OK;
}

sl_status sl_eval_dequantize(const sl_eval_args *a, sl_error *err) {
    const sl_dequantize_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t count = sl_type_elements(&a->in[1].type);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        a->out[0].data[i] = (in[0][i] - param_at(a, in[2], count, attrs->axis, i)) *
                            param_at(a, in[1], count, attrs->axis, i);
    return SL_OK;
}

/* ---- fake_quantize ---- */

static sl_status check_bits(const sl_infer_args *a, uint32_t bits, sl_error *err) {
    return sl_check_attr(a->label, "bits", bits, 2, 16, err);
}
static double largest_code(uint32_t bits) {
    return ldexp(1, (int)bits - 1) - 1;
}
/* clamp(round(x / scale), -q, q) scale; 0 if scale is 0. */
static double fake(sl_dtype dtype, double x, double scale, double q) {
    if (scale == 0) return 0;
    const double code = rint(quotient(dtype, x, scale));
    return (code < -q ? -q : code > q ? q : code) * scale;
}

sl_status sl_infer_fake_quantize(const sl_infer_args *a, sl_error *err) {
    const sl_fake_quantize_attrs *attrs = a->attrs;
    uint32_t axis = 0;
    SL_TRY(sl_match(a, "x float[..]", err));
    SL_TRY(check_bits(a, attrs->bits, err));
    SL_TRY(sl_check_attr(a->label, "by_axis", attrs->by_axis, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "mode", attrs->mode, 0, 2, err));
    if (attrs->by_axis)
        SL_TRY(sl_check_named_axis(a, "axis", attrs->axis, a->in[0].shape.rank, &axis, err));
    if (!(attrs->decay >= 0 && attrs->decay <= 1))
        return sl_fail(err, SL_INVALID, "%s: decay is %g, must be 0 to 1", a->label,
                       (double)attrs->decay);
    const sl_dims scales = {1, {attrs->by_axis ? a->in[0].shape.dims[axis] : 1}};
    const uint32_t states = attrs->mode != 0;
    SL_TRY(sl_check_inputs_after(a, 1, "state", states, states, err));
    if (states) {
        SL_TRY(sl_check_numbers(a, 1, "state", SL_NUMBERS_FLOAT, err));
        SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"x", "state"}, err));
        SL_TRY(sl_check_dims(a, 1, "state", &scales, err));
    }
    a->out[0] = a->in[0];
    a->out[1] = (sl_type){a->in[0].dtype, scales};
    return SL_OK;
}

/* The scale of a channel from its largest magnitude and its state, rounded to x's type. */
static double scale_of(const sl_fake_quantize_attrs *attrs, sl_dtype dtype, double largest,
                       double state) {
    const double scale = quotient(dtype, largest, largest_code(attrs->bits));
    const double decay = (double)attrs->decay;
    if (attrs->mode == 2) return state;
    if (attrs->mode == 0 || !(state > 0)) return sl_round_to(dtype, scale);
    return sl_round_to(dtype, state * decay + (1 - decay) * scale);
}

sl_status sl_eval_fake_quantize(const sl_eval_args *a, sl_error *err) {
    const sl_fake_quantize_attrs *attrs = a->attrs;
    const double *in[2] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const sl_dtype dtype = a->in[0].type.dtype;
    const int64_t count = sl_type_elements(&a->out[1].type);
    const int64_t all = sl_type_elements(&a->in[0].type);
    const sl_dims *x = &a->in[0].type.shape;
    const uint32_t axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
    const int64_t inner = attrs->by_axis ? sl_dims_tail(x, axis + 1) : all;
    double *scales = a->out[1].data;
    for (int64_t c = 0; c < count; c++) scales[c] = 0;
    for (int64_t i = 0; i < all; i++) {
        double *largest = &scales[i / inner % count];
        if (!(fabs(in[0][i]) <= *largest) && !isnan(*largest)) *largest = fabs(in[0][i]);
    }
    for (int64_t c = 0; c < count; c++)
        scales[c] = scale_of(attrs, dtype, scales[c], in[1] ? in[1][c] : 0);
    for (int64_t i = 0; i < all; i++)
        a->out[0].data[i] =
            fake(dtype, in[0][i], scales[i / inner % count], largest_code(attrs->bits));
    return SL_OK;
}

/* ---- gradients, and learned scales ---- */

/* Checks that x, scale and dy (if there is one) have the same type. */
static sl_status check_scaled(const sl_infer_args *a, uint32_t bits, int64_t axis, bool has_dy,
                              sl_error *err) {
    SL_TRY(has_dy ? sl_match(a, "x float[..], scale float[C], dy float[..]", err)
                  : sl_match(a, "x float[..], scale float[C]", err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"x", "scale"}, err));
    if (has_dy)
        SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 2}, (const char *[2]){"x", "dy"}, err));
    SL_TRY(check_bits(a, bits, err));
    SL_TRY(check_axis_param(a, 1, "scale", axis, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

static double quotient_or_zero(sl_dtype dtype, double x, double scale) {
    return x == 0 && scale == 0 ? 0 : quotient(dtype, x, scale);
}

static double slope_of(uint32_t ste, double z, double q) {
    switch (ste) {
    case 0:
        return 1;
    case 1:
        return fabs(z) <= q ? 1 : 0;
    case 2:
        return 1 - tanh(z) * tanh(z);
    default:
        return fmax(1 - fabs(z) / q, 0);
    }
}

/* dy times the straight-through derivative of rounding. */
static sl_status eval_slopes(const sl_eval_args *a, uint32_t bits, int64_t axis, uint32_t ste,
                             sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t count = sl_type_elements(&a->in[1].type);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double scale = param_at(a, in[1], count, axis, i);
        const double z = quotient_or_zero(a->in[0].type.dtype, in[0][i], scale);
        a->out[0].data[i] = in[2][i] * slope_of(ste, z, largest_code(bits));
    }
    return SL_OK;
}

sl_status sl_infer_fake_quantize_backward(const sl_infer_args *a, sl_error *err) {
    const sl_fake_quantize_backward_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "ste", attrs->ste, 0, 3, err));
    return check_scaled(a, attrs->bits, attrs->axis, true, err);
}
sl_status sl_eval_fake_quantize_backward(const sl_eval_args *a, sl_error *err) {
    const sl_fake_quantize_backward_attrs *attrs = a->attrs;
    return eval_slopes(a, attrs->bits, attrs->axis, attrs->ste, err);
}

sl_status sl_infer_fake_quantize_lsq(const sl_infer_args *a, sl_error *err) {
    const sl_fake_quantize_lsq_attrs *attrs = a->attrs;
    return check_scaled(a, attrs->bits, attrs->axis, false, err);
}
sl_status sl_eval_fake_quantize_lsq(const sl_eval_args *a, sl_error *err) {
    const sl_fake_quantize_lsq_attrs *attrs = a->attrs;
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t count = sl_type_elements(&a->in[1].type);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        a->out[0].data[i] =
            fake(a->in[0].type.dtype, in[0][i], param_at(a, in[1], count, attrs->axis, i),
                 largest_code(attrs->bits));
    return SL_OK;
}

sl_status sl_infer_fake_quantize_lsq_backward_x(const sl_infer_args *a, sl_error *err) {
    const sl_fake_quantize_lsq_backward_x_attrs *attrs = a->attrs;
    return check_scaled(a, attrs->bits, attrs->axis, true, err);
}
sl_status sl_eval_fake_quantize_lsq_backward_x(const sl_eval_args *a, sl_error *err) {
    const sl_fake_quantize_lsq_backward_x_attrs *attrs = a->attrs;
    return eval_slopes(a, attrs->bits, attrs->axis, 1, err);
}

sl_status sl_infer_fake_quantize_lsq_backward_scale(const sl_infer_args *a, sl_error *err) {
    const sl_fake_quantize_lsq_backward_scale_attrs *attrs = a->attrs;
    SL_TRY(check_scaled(a, attrs->bits, attrs->axis, true, err));
    a->out[0] = a->in[1];
    return SL_OK;
}
sl_status sl_eval_fake_quantize_lsq_backward_scale(const sl_eval_args *a, sl_error *err) {
    const sl_fake_quantize_lsq_backward_scale_attrs *attrs = a->attrs;
    const double *in[3], q = largest_code(attrs->bits);
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const sl_dims *x = &a->in[0].type.shape;
    const int64_t count = sl_type_elements(&a->in[1].type);
    const uint32_t axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
    const int64_t inner = count > 1 ? sl_dims_tail(x, axis + 1) : 1;
    for (int64_t c = 0; c < count; c++) a->out[0].data[c] = 0;
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) {
        const int64_t c = i / inner % count;
        const double z = quotient_or_zero(a->in[0].type.dtype, in[0][i], in[1][c]);
        const double step = fabs(z) <= q ? rint(z) - z : z > 0 ? q : z < 0 ? -q : z;
        a->out[0].data[c] += in[2][i] * step;
    }
    return SL_OK;
}
