/* rewrite_quant.c - Quantisation from elementwise ops, products and reductions.
 *
 * A quotient between two codes is rounded to one of them, so quotients are computed in the type in
 * which the evaluator computes them: f64 for f64, f32 for other floats. */
#include "compiler/passes/rewrite.h"
#include <math.h>

static sl_value mul(sl_graph *g, sl_value a, sl_value b) {
    return sl_rw_binary(g, SL_OP_mul, a, b);
}
static sl_value sub(sl_graph *g, sl_value a, sl_value b) {
    return sl_rw_binary(g, SL_OP_sub, a, b);
}
static sl_value as_double(sl_graph *g, sl_value x) {
    return sl_rw_cast(g, x, SL_DTYPE_f64);
}
static sl_value with_zero(sl_graph *g, sl_op op, sl_value x) {
    return sl_rw_with(g, op, x, 0);
}

/* One number, or one per index of an axis, shaped to broadcast over x. */
static sl_value param_of(sl_graph *g, sl_value numbers, sl_value x, int64_t axis) {
    const uint32_t rank = sl_rw_type(g, x)->shape.rank;
    const sl_dims scalar = {0};
    if (sl_type_elements(sl_rw_type(g, numbers)) == 1) return sl_rw_reshape(g, numbers, &scalar);
    return sl_rw_column(g, numbers, rank - 1 - sl_axis(axis, rank));
}

/* x reduced to the shape of a parameter. */
static sl_value reduce_to_param(sl_graph *g, sl_op op, sl_value x, int64_t axis, bool one) {
    const sl_dims flat = {2, {sl_type_elements(sl_rw_type(g, x)), 1}};
    if (one) return sl_rw_reduce_along(g, op, sl_rw_reshape(g, x, &flat), 1);
    return sl_rw_reduce_along(g, op, x, sl_axis(axis, sl_rw_type(g, x)->shape.rank));
}

static sl_dtype quotient_type(const sl_graph *g, sl_value x) {
    return sl_rw_is_double(g, x) ? SL_DTYPE_f64 : SL_DTYPE_f32;
}
static sl_value quotient(sl_graph *g, sl_value x, sl_value scale) {
    const sl_dtype type = quotient_type(g, x);
    return sl_rw_binary(g, SL_OP_div, sl_rw_cast(g, x, type), sl_rw_cast(g, scale, type));
}

/* round(x) + zero, saturated to zero's type; zero if x is NaN.  Only f64 represents 32-bit codes.
 */
static sl_value code_of(sl_graph *g, sl_value x, sl_value zero) {
    const sl_cast_attrs attrs = {.to = sl_rw_type(g, zero)->dtype, .saturate = 1};
    const sl_value shift = as_double(g, zero);
    const sl_value code =
        sl_rw_binary(g, SL_OP_add, as_double(g, sl_rw_unary(g, SL_OP_round, x)), shift);
    const sl_value number = sl_rw_where(g, sl_rw_unary(g, SL_OP_is_nan, code), shift, code);
    return sl_build_cast(g, (sl_cast_in){.x = number}, attrs).out;
}

bool sl_rewrite_quantize(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const int64_t axis = ((const sl_quantize_attrs *)node->attrs)->axis;
    const sl_value scale = param_of(g, in[1], in[0], axis);
    out[0] = code_of(g, quotient(g, in[0], scale), param_of(g, in[2], in[0], axis));
    return true;
}

bool sl_rewrite_dequantize(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const int64_t axis = ((const sl_dequantize_attrs *)node->attrs)->axis;
    const sl_value scale = as_double(g, param_of(g, in[1], in[0], axis));
    const sl_value zero = as_double(g, param_of(g, in[2], in[0], axis));
    out[0] = sl_rw_cast(g, mul(g, sub(g, as_double(g, in[0]), zero), scale),
                        sl_rw_type(g, in[1])->dtype);
    return true;
}

/* ---- fake_quantize ---- */

static double largest_code(uint32_t bits) {
    return ldexp(1, (int)bits - 1) - 1;
}

/* clamp(round(x / scale), -q, q) scale; 0 where scale is 0. */
static sl_value fake(sl_graph *g, sl_value x, sl_value scale, double q) {
    const sl_dtype own = sl_rw_type(g, x)->dtype, type = quotient_type(g, x);
    const sl_value code = sl_rw_unary(g, SL_OP_round, quotient(g, x, scale));
    const sl_value clamped =
        sl_rw_with(g, SL_OP_minimum, sl_rw_with(g, SL_OP_maximum, code, -q), q);
    const sl_value product = mul(g, clamped, sl_rw_cast(g, scale, type));
    return sl_rw_cast(
        g, sl_rw_where(g, with_zero(g, SL_OP_equal, scale), sl_rw_number(g, type, 0), product),
        own);
}

/* The scale for x, and for the running state if there is one; in x's type. */
static sl_value scale_of(sl_graph *g, const sl_fake_quantize_attrs *a, const sl_value *in) {
    const double q = largest_code(a->bits), decay = (double)a->decay;
    const sl_dtype own = sl_rw_type(g, in[0])->dtype;
    if (a->mode == 2) return in[1];
    const sl_value largest = reduce_to_param(g, SL_OP_reduce_max, sl_rw_unary(g, SL_OP_abs, in[0]),
                                             a->axis, !a->by_axis);
    const sl_value fresh =
        sl_rw_with(g, SL_OP_div, sl_rw_cast(g, largest, quotient_type(g, in[0])), q);
    if (a->mode == 0) return sl_rw_cast(g, fresh, own);
    const sl_value old = sl_rw_with(g, SL_OP_mul, as_double(g, in[1]), decay);
    const sl_value new = sl_rw_with(g, SL_OP_mul, as_double(g, fresh), 1 - decay);
    const sl_value followed =
        sl_rw_where(g, with_zero(g, SL_OP_greater, in[1]), sl_rw_binary(g, SL_OP_add, old, new),
                    as_double(g, fresh));
    return sl_rw_cast(g, followed, own);
}

bool sl_rewrite_fake_quantize(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_fake_quantize_attrs *a = node->attrs;
    out[1] = scale_of(g, a, in);
    out[0] = fake(g, in[0], param_of(g, out[1], in[0], a->axis), largest_code(a->bits));
    return true;
}

bool sl_rewrite_fake_quantize_lsq(sl_graph *g, const sl_node *node, const sl_value *in,
                                  sl_value *out) {
    const sl_fake_quantize_lsq_attrs *a = node->attrs;
    out[0] = fake(g, in[0], param_of(g, in[1], in[0], a->axis), largest_code(a->bits));
    return true;
}

/* ---- its gradients ---- */

/* x / scale in f64, from the rounded values; 0 / 0 is 0. */
static sl_value quotient_or_zero(sl_graph *g, sl_value x, sl_value scale) {
    const sl_value nothing = sl_rw_binary(g, SL_OP_logical_and, with_zero(g, SL_OP_equal, x),
                                          with_zero(g, SL_OP_equal, scale));
    return sl_rw_where(g, nothing, sl_rw_number(g, SL_DTYPE_f64, 0),
                       as_double(g, quotient(g, x, scale)));
}
static sl_value is_within(sl_graph *g, sl_value z, double q) {
    return sl_rw_with(g, SL_OP_less_equal, sl_rw_unary(g, SL_OP_abs, z), q);
}

/* The straight-through estimate of the slope of rounding at z; ste 1 to 3. */
static sl_value slope_of(sl_graph *g, uint32_t ste, sl_value z, double q) {
    const sl_value one = sl_rw_number(g, SL_DTYPE_f64, 1);
    if (ste == 1) return as_double(g, is_within(g, z, q));
    if (ste == 2) {
        const sl_value curve = sl_rw_unary(g, SL_OP_tanh, z);
        return sub(g, one, mul(g, curve, curve));
    }
    const sl_value hat = sub(g, one, sl_rw_with(g, SL_OP_div, sl_rw_unary(g, SL_OP_abs, z), q));
    return sl_rw_where(g, with_zero(g, SL_OP_greater, hat), hat, sl_rw_number(g, SL_DTYPE_f64, 0));
}

/* in: x, scale, dy. */
static sl_value gradient(sl_graph *g, const sl_value *in, int64_t axis, uint32_t ste, double q) {
    const sl_value z = quotient_or_zero(g, in[0], param_of(g, in[1], in[0], axis));
    const sl_value slope = slope_of(g, ste, z, q);
    return sl_rw_cast(g, mul(g, as_double(g, in[2]), slope), sl_rw_type(g, in[2])->dtype);
}

bool sl_rewrite_fake_quantize_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                       sl_value *out) {
    const sl_fake_quantize_backward_attrs *a = node->attrs;
    out[0] = a->ste ? gradient(g, in, a->axis, a->ste, largest_code(a->bits)) : in[2];
    return true;
}

bool sl_rewrite_fake_quantize_lsq_backward_x(sl_graph *g, const sl_node *node, const sl_value *in,
                                             sl_value *out) {
    const sl_fake_quantize_lsq_backward_x_attrs *a = node->attrs;
    out[0] = gradient(g, in, a->axis, 1, largest_code(a->bits));
    return true;
}

bool sl_rewrite_fake_quantize_lsq_backward_scale(sl_graph *g, const sl_node *node,
                                                 const sl_value *in, sl_value *out) {
    const sl_fake_quantize_lsq_backward_scale_attrs *a = node->attrs;
    const sl_type scale = *sl_rw_type(g, in[1]);
    const double q = largest_code(a->bits);
    const sl_value z = quotient_or_zero(g, in[0], param_of(g, in[1], in[0], a->axis));
    const sl_value inside = sub(g, sl_rw_unary(g, SL_OP_round, z), z);
    const sl_value outside = sl_rw_with(g, SL_OP_mul, sl_rw_unary(g, SL_OP_sign, z), q);
    const sl_value step = sl_rw_where(g, is_within(g, z, q), inside, outside);
    const sl_value sum = reduce_to_param(g, SL_OP_reduce_sum, mul(g, as_double(g, in[2]), step),
                                         a->axis, sl_type_elements(&scale) == 1);
    out[0] = sl_rw_cast(g, sum, scale.dtype);
    return true;
}

/* ---- products of quantised tensors ---- */

/* Inputs of both: factors, their zero points, multiplier, out_zero, and optionally a bias. */
enum { FIRST, SECOND, FIRST_ZERO, SECOND_ZERO, MULTIPLIER, OUT_ZERO, BIAS };

/* Codes minus their zero points, which vary along the axis, in i32. */
static sl_value centred(sl_graph *g, sl_value codes, sl_value zeros, int64_t axis) {
    return sub(g, sl_rw_cast(g, codes, SL_DTYPE_i32),
               sl_rw_cast(g, param_of(g, zeros, codes, axis), SL_DTYPE_i32));
}

/* Requantises i32 sums whose channels lie along the axis. */
static sl_value code_of_sums(sl_graph *g, const sl_node *node, const sl_value *in, sl_value sums,
                             int64_t axis) {
    if (node->input_count > BIAS)
        sums = sl_rw_binary(g, SL_OP_add, sums, param_of(g, in[BIAS], sums, axis));
    const sl_value scaled =
        mul(g, sl_rw_cast(g, sums, SL_DTYPE_f32), param_of(g, in[MULTIPLIER], sums, axis));
    return code_of(g, scaled, param_of(g, in[OUT_ZERO], sums, axis));
}

bool sl_rewrite_q_matmul(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_value sums = sl_rw_binary(g, SL_OP_matmul, centred(g, in[FIRST], in[FIRST_ZERO], -1),
                                       centred(g, in[SECOND], in[SECOND_ZERO], -1));
    out[0] = code_of_sums(g, node, in, sums, -1);
    return true;
}

bool sl_rewrite_q_conv(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_q_conv_attrs *a = node->attrs;
    const sl_conv_attrs attrs = {.strides = a->strides,
                                 .pads_before = a->pads_before,
                                 .pads_after = a->pads_after,
                                 .dilations = a->dilations,
                                 .groups = a->groups};
    const sl_value factors[] = {centred(g, in[FIRST], in[FIRST_ZERO], 0),
                                centred(g, in[SECOND], in[SECOND_ZERO], 0)};
    sl_value sums = {0};
    sl_graph_append_list(g, SL_OP_conv, (sl_values){2, factors}, &attrs,
                         (sl_value_slots){1, &sums});
    out[0] = code_of_sums(g, node, in, sums, 1);
    return true;
}
