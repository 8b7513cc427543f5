/* quant_product.c - Products and convolutions of 8-bit codes, accumulated in 32 bits and
 * requantised. */
#include "compiler/ops/numbers.h"
#include <math.h>

/* The inputs of both ops: operands, their zero points, multiplier, out_zero, and a list of at most
 * one bias. */
enum { FIRST, SECOND, FIRST_ZERO, SECOND_ZERO, MULTIPLIER, OUT_ZERO, BIAS };

/* names: of the first six inputs; channels: number of columns or output channels. */
static sl_status check_codes(const sl_infer_args *a, const char *const names[6], int64_t channels,
                             sl_error *err) {
    static const uint32_t bytes[] = {FIRST, SECOND, FIRST_ZERO, SECOND_ZERO, OUT_ZERO};
    for (int i = 0; i < 5; i++)
        SL_TRY(sl_check_numbers(a, bytes[i], names[bytes[i]], SL_NUMBERS_BYTE, err));
    for (uint32_t i = 0; i < 2; i++)
        SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){i, i + 2},
                                   (const char *[2]){names[i], names[i + 2]}, err));
    SL_TRY(sl_type_check(&a->in[MULTIPLIER], a->label, err));
    if (a->in[MULTIPLIER].dtype != SL_DTYPE_f32)
        return sl_fail(err, SL_INVALID, "%s: multiplier is %s, must be f32", a->label,
                       sl_dtype_infos[a->in[MULTIPLIER].dtype].name);
    SL_TRY(sl_check_param(a, FIRST_ZERO, names[FIRST_ZERO], 1, err));
    SL_TRY(sl_check_param(a, SECOND_ZERO, names[SECOND_ZERO], channels, err));
    SL_TRY(sl_check_param(a, MULTIPLIER, "multiplier", channels, err));
    SL_TRY(sl_check_param(a, OUT_ZERO, "out_zero", 1, err));
    SL_TRY(sl_check_inputs_after(a, BIAS, "bias", 0, 1, err));
    if (a->in_count <= BIAS) return SL_OK;
    if (a->in[BIAS].dtype != SL_DTYPE_i32)
        return sl_fail(err, SL_INVALID, "%s: bias is %s, must be i32", a->label,
                       sl_dtype_infos[a->in[BIAS].dtype].name);
    return sl_check_dims(a, BIAS, "bias", &(sl_dims){1, {channels}}, err);
}

static double param(const sl_eval_args *a, const double *const *in, uint32_t input,
                    int64_t channel) {
    return in[input][sl_type_elements(&a->in[input].type) == 1 ? 0 : channel];
}

/* Requantises a sum: in f32, to nearest even, saturating. */
static double code_of(const sl_eval_args *a, const double *const *in, int64_t sum,
                      int64_t channel) {
    const bool is_unsigned = a->out[0].type.dtype == SL_DTYPE_u8;
    if (in[BIAS]) sum += (int64_t)in[BIAS][channel];
    const float wrapped = (float)sl_wrap_integer(SL_DTYPE_i32, sum);
    const float scaled = wrapped * (float)param(a, in, MULTIPLIER, channel);
    const double code = (double)rintf(scaled) + in[OUT_ZERO][0];
    const double low = is_unsigned ? 0 : -128, high = is_unsigned ? 255 : 127;
    return isnan(code) ? in[OUT_ZERO][0] : code < low ? low : code > high ? high : code;
}

/* ---- q_matmul ---- */

sl_status sl_infer_q_matmul(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"a", "b", "a_zero", "b_zero", "multiplier", "out_zero"};
    for (uint32_t i = 0; i < 6; i++) SL_TRY(sl_type_check_shape(&a->in[i], a->label, err));
    SL_TRY(sl_matmul_shape(a, &a->out[0].shape, err));
    SL_TRY(check_codes(a, names, a->out[0].shape.dims[a->out[0].shape.rank - 1], err));
    a->out[0].dtype = a->in[OUT_ZERO].dtype;
    return SL_OK;
}

sl_status sl_eval_q_matmul(const sl_eval_args *a, sl_error *err) {
    const double *in[BIAS + 1] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const sl_dims *out = &a->out[0].type.shape;
    const int64_t rows = out->dims[out->rank - 2], cols = out->dims[out->rank - 1];
    const int64_t inner = sl_eval_last_dim(a, 0);
    for (int64_t e = 0; e < sl_type_elements(&a->out[0].type); e++) {
        const int64_t matrix = e / (rows * cols), row = e / cols % rows, col = e % cols;
        const int64_t left = sl_matmul_index(&a->in[0].type.shape, out, matrix);
        const int64_t right = sl_matmul_index(&a->in[1].type.shape, out, matrix);
        const double zero = param(a, in, SECOND_ZERO, col);
        int64_t sum = 0;
        for (int64_t k = 0; k < inner; k++)
            sum += (int64_t)((in[0][(left * rows + row) * inner + k] - in[FIRST_ZERO][0]) *
                             (in[1][(right * inner + k) * cols + col] - zero));
        a->out[0].data[e] = code_of(a, (const double *const *)in, sum, col);
    }
    return SL_OK;
}

/* ---- q_conv ---- */

enum { MAX_SPACE = 3 };

static sl_status check_window(const sl_infer_args *a, const char *name, sl_integers list,
                              int64_t least, sl_error *err) {
    const uint32_t space = a->in[0].shape.rank - 2;
    if (list.count != 0 && list.count != space)
        return sl_fail(err, SL_INVALID, "%s: %s has %u numbers, must have none or %u", a->label,
                       name, list.count, space);
    for (uint32_t i = 0; i < list.count; i++)
        SL_TRY(sl_check_attr(a->label, name, list.items[i], least, INT32_MAX, err));
    return SL_OK;
}
static int64_t item_or(sl_integers list, uint32_t i, int64_t missing) {
    return list.count ? list.items[i] : missing;
}

static sl_status check_conv_attrs(const sl_infer_args *a, sl_error *err) {
    const sl_q_conv_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].shape, *w = &a->in[1].shape;
    char text[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
    if (x->rank < 3 || x->rank > 2 + MAX_SPACE || w->rank != x->rank)
        return sl_fail(err, SL_INVALID,
                       "%s: x is %s and w is %s, must both have one to three spatial dims",
                       a->label, sl_type_format(&a->in[0], text, sizeof text),
                       sl_type_format(&a->in[1], other, sizeof other));
    for (uint32_t i = 0; i < 2; i++) SL_TRY(sl_type_check(&a->in[i], a->label, err));
    const int64_t groups = attrs->groups ? attrs->groups : 1;
    if (x->dims[1] % groups || w->dims[0] % groups || w->dims[1] != x->dims[1] / groups)
        return sl_fail(err, SL_INVALID,
                       "%s: w is %s, must be [O,C/groups,..] with groups %lld and x %s", a->label,
                       sl_type_format(&a->in[1], other, sizeof other), (long long)groups,
                       sl_type_format(&a->in[0], text, sizeof text));
    SL_TRY(check_window(a, "strides", attrs->strides, 1, err));
    SL_TRY(check_window(a, "dilations", attrs->dilations, 1, err));
    SL_TRY(check_window(a, "pads_before", attrs->pads_before, 0, err));
    return check_window(a, "pads_after", attrs->pads_after, 0, err);
}

sl_status sl_infer_q_conv(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "w", "x_zero", "w_zero", "multiplier", "out_zero"};
    const sl_q_conv_attrs *attrs = a->attrs;
    for (uint32_t i = 0; i < 6; i++) SL_TRY(sl_type_check_shape(&a->in[i], a->label, err));
    SL_TRY(check_conv_attrs(a, err));
    SL_TRY(check_codes(a, names, a->in[1].shape.dims[0], err));
    sl_dims *out = &a->out[0].shape;
    *out = (sl_dims){2, {a->in[0].shape.dims[0], a->in[1].shape.dims[0]}};
    for (uint32_t d = 0; d + 2 < a->in[0].shape.rank; d++) {
        const int64_t wide = a->in[0].shape.dims[d + 2] + item_or(attrs->pads_before, d, 0) +
                             item_or(attrs->pads_after, d, 0);
        const int64_t reach =
            (a->in[1].shape.dims[d + 2] - 1) * item_or(attrs->dilations, d, 1) + 1;
        if (reach > wide)
            return sl_fail(err, SL_INVALID,
                           "%s: the kernel reaches over %lld of spatial dim %u, which is %lld with "
                           "its padding",
                           a->label, (long long)reach, d, (long long)wide);
        out->dims[out->rank++] = (wide - reach) / item_or(attrs->strides, d, 1) + 1;
    }
    a->out[0].dtype = a->in[OUT_ZERO].dtype;
    return SL_OK;
}

/* The index in x that a tap reads, -1 in the padding. */
static int64_t tap_of(const sl_eval_args *a, int64_t place, int64_t tap) {
    const sl_q_conv_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].type.shape, *w = &a->in[1].type.shape;
    const sl_dims *out = &a->out[0].type.shape;
    int64_t index = 0, stride = 1;
    for (uint32_t d = x->rank; d-- > 2;) {
        const int64_t at = place % out->dims[d] * item_or(attrs->strides, d - 2, 1) +
                           tap % w->dims[d] * item_or(attrs->dilations, d - 2, 1) -
                           item_or(attrs->pads_before, d - 2, 0);
        if (at < 0 || at >= x->dims[d]) return -1;
        index += at * stride;
        stride *= x->dims[d];
        place /= out->dims[d];
        tap /= w->dims[d];
    }
    return index;
}

sl_status sl_eval_q_conv(const sl_eval_args *a, sl_error *err) {
    const sl_q_conv_attrs *attrs = a->attrs;
    const double *in[BIAS + 1] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const sl_dims *x = &a->in[0].type.shape, *w = &a->in[1].type.shape;
    const int64_t places = sl_dims_tail(&a->out[0].type.shape, 2), pixels = sl_dims_tail(x, 2);
    const int64_t taps = sl_dims_tail(w, 2), channels = w->dims[0];
    const int64_t each = channels / (attrs->groups ? attrs->groups : 1);
    for (int64_t e = 0; e < sl_type_elements(&a->out[0].type); e++) {
        const int64_t place = e % places, channel = e / places % channels;
        const int64_t image = e / places / channels, first = channel / each * w->dims[1];
        const double zero = param(a, in, SECOND_ZERO, channel);
        int64_t sum = 0;
        for (int64_t k = 0; k < w->dims[1] * taps; k++) {
            const int64_t at = tap_of(a, place, k % taps);
            if (at < 0) continue;
            const double value =
                in[0][(image * x->dims[1] + first + k / taps) * pixels + at] - in[FIRST_ZERO][0];
            sum += (int64_t)(value * (in[1][channel * w->dims[1] * taps + k] - zero));
        }
        a->out[0].data[e] = code_of(a, (const double *const *)in, sum, channel);
    }
    return SL_OK;
}
