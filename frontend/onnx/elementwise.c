/* elementwise.c - Elementwise ops: arithmetic, comparison, logic, casts. */
#include "frontend/onnx/families.h"
#include <math.h>
#include <string.h>

void sl_onnx_unary(sl_onnx_call *c) {
    sl_onnx_set(c, 0, sl_onnx_op1(c, c->op, sl_onnx_in(c, 0)));
}

/* Before opset 7 the dims of the second operand may start at an axis of the first. */
static sl_value align_from_axis(sl_onnx_call *c, sl_value a, sl_value b) {
    if (c->opset >= 7 || !sl_onnx_int(c, "broadcast", 0) || !sl_onnx_attr_of(c, "axis")) return b;
    const sl_dims to = sl_onnx_type(c, a).shape, from = sl_onnx_type(c, b).shape;
    const uint32_t axis = sl_onnx_axis(c, sl_onnx_int(c, "axis", 0), to.rank);
    sl_dims shape = from;
    while (shape.rank + axis < to.rank) shape.dims[shape.rank++] = 1;
    return shape.rank == from.rank ? b : sl_onnx_reshape(c, b, &shape);
}

void sl_onnx_binary(sl_onnx_call *c) {
    const sl_value a = sl_onnx_in(c, 0), b = sl_onnx_in(c, 1);
    sl_onnx_set(c, 0, sl_onnx_op2(c, c->op, a, align_from_axis(c, a, b)));
}

/* Combines any number of operands with a binary op, from left to right. */
static sl_value join_all(sl_onnx_call *c, const char *op) {
    sl_value all = sl_onnx_in(c, 0);
    for (uint32_t i = 1; i < c->in_count; i++) all = sl_onnx_op2(c, op, all, sl_onnx_in(c, i));
    return all;
}

void sl_onnx_variadic(sl_onnx_call *c) {
    sl_onnx_set(c, 0, join_all(c, c->op));
}

void sl_onnx_mean(sl_onnx_call *c) {
    sl_onnx_set(c, 0, sl_onnx_op_scalar(c, "div", join_all(c, "add"), c->in_count));
}

void sl_onnx_identity(sl_onnx_call *c) {
    if (sl_onnx_is_known(c, 0))
        sl_onnx_set_literal(c, 0, c->in[0]->type, c->in[0]->data);
    else
        sl_onnx_set(c, 0, sl_onnx_in(c, 0));
}

void sl_onnx_is_inf(sl_onnx_call *c) {
    const int64_t negative = sl_onnx_int(c, "detect_negative", 1);
    const int64_t positive = sl_onnx_int(c, "detect_positive", 1);
    sl_onnx_set(c, 0,
                sl_onnx_with(c, "is_inf", sl_onnx_in(c, 0), "which=%d",
                             (negative ? 1 : 0) + (positive ? 2 : 0)));
}

void sl_onnx_mod(sl_onnx_call *c) {
    const sl_value two[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1)};
    sl_onnx_set(c, 0, sl_onnx_with2(c, "mod", two, "truncate=%d", sl_onnx_int(c, "fmod", 0) != 0));
}

void sl_onnx_bit_shift(sl_onnx_call *c) {
    const bool left = strcmp(sl_onnx_text(c, "direction", ""), "LEFT") == 0;
    sl_onnx_set(
        c, 0,
        sl_onnx_op2(c, left ? "shift_left" : "shift_right", sl_onnx_in(c, 0), sl_onnx_in(c, 1)));
}

static bool is_float(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_FLOAT;
}

/* The result has the type of the base; for an integer base, a fractional exponent is not
 * truncated. */
void sl_onnx_pow(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    sl_value y = align_from_axis(c, x, sl_onnx_in(c, 1));
    const sl_dtype type = sl_onnx_type(c, x).dtype, exponent = sl_onnx_type(c, y).dtype;
    const sl_dtype common = is_float(exponent) && !is_float(type) ? SL_DTYPE_f64 : type;
    y = sl_onnx_op2(c, "pow", sl_onnx_cast(c, x, common), sl_onnx_cast(c, y, common));
    sl_onnx_set(c, 0, sl_onnx_cast(c, y, type));
}

static sl_value clip_to(sl_onnx_call *c, sl_value x, const char *op, const char *attr,
                        uint32_t input) {
    if (c->opset < 11) {
        const float limit = sl_onnx_float(c, attr, NAN);
        return isnan(limit) ? x : sl_onnx_op_scalar(c, op, x, (double)limit);
    }
    return sl_onnx_has(c, input) ? sl_onnx_op2(c, op, x, sl_onnx_in(c, input)) : x;
}

void sl_onnx_clip(sl_onnx_call *c) {
    const sl_value x = clip_to(c, sl_onnx_in(c, 0), "maximum", "min", 1);
    sl_onnx_set(c, 0, clip_to(c, x, "minimum", "max", 2));
}

static void cast_to(sl_onnx_call *c, int64_t number) {
    sl_dtype to;
    if (!sl_onnx_type_find((int32_t)number, &to))
        sl_onnx_refuse(c, "a cast to %s is not supported", sl_onnx_type_name((int32_t)number));
    else
        sl_onnx_set(c, 0, sl_onnx_cast(c, sl_onnx_in(c, 0), to));
}

/* Before opset 6 the type is given by name. */
void sl_onnx_cast_op(sl_onnx_call *c) {
    if (c->opset < 6)
        sl_onnx_refuse(c, "opset %lld is not supported, only 6 or later", (long long)c->opset);
    else
        cast_to(c, sl_onnx_int(c, "to", 0));
}

void sl_onnx_cast_like(sl_onnx_call *c) {
    cast_to(c, sl_onnx_type_number(sl_onnx_in_type(c, 1).dtype));
}

void sl_onnx_where(sl_onnx_call *c) {
    sl_onnx_set(c, 0,
                sl_onnx_op3(c, "where", sl_onnx_in(c, 0), sl_onnx_in(c, 1), sl_onnx_in(c, 2)));
}

/* Inference mode; training mode only if nothing is dropped. */
void sl_onnx_dropout(sl_onnx_call *c) {
    const bool training = c->opset >= 12 && sl_onnx_has(c, 2) && sl_onnx_integer_in(c, 2, 0);
    if (training && sl_onnx_real_in(c, 1, 0.5) != 0) {
        sl_onnx_refuse(c, "training mode is not supported");
        return;
    }
    sl_onnx_identity(c);
    if (!sl_onnx_wants(c, 1)) return;
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    const sl_dtype mask = c->opset < 10 ? sl_onnx_in_type(c, 0).dtype : SL_DTYPE_bool;
    sl_onnx_set(c, 1, sl_onnx_expand(c, sl_onnx_scalar(c, mask, 1), &shape));
}
