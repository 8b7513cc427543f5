/* rewrite_gradients.c - Gradients of norms, reduce_max and reduce_min, from sums and elementwise
 * ops.
 *
 * Gradients of norms are small differences of large sums: they are computed in f64 for every type.
 */
#include "compiler/ops/alike.h"
#include "compiler/passes/rewrite.h"

static sl_value mul(sl_graph *g, sl_value a, sl_value b) {
    return sl_rw_binary(g, SL_OP_mul, a, b);
}
static sl_value sub(sl_graph *g, sl_value a, sl_value b) {
    return sl_rw_binary(g, SL_OP_sub, a, b);
}
static sl_value mean_over(sl_graph *g, sl_value x, const sl_dims *axes) {
    return sl_rw_reduce(g, SL_OP_reduce_mean, x, axes);
}
static sl_value sums_along(sl_graph *g, sl_value x, uint32_t axis) {
    return sl_rw_reduce_along(g, SL_OP_reduce_sum, x, axis);
}

/* ---- layer_norm, group_norm ---- */

/* Both normalise x[N, groups, width, inner] over the last two axes; gains are [groups, width]. */
static const sl_dims normed_axes = {2, {2, 3}};

static sl_dims form_of_layer(const sl_dims *x, int64_t axis) {
    const int64_t width = sl_dims_tail(x, sl_axis(axis, x->rank));
    return (sl_dims){4, {sl_dims_tail(x, 0) / width, 1, width, 1}};
}
static sl_dims form_of_groups(const sl_dims *x, int64_t groups) {
    return (sl_dims){4, {x->dims[0], groups, x->dims[1] / groups, sl_dims_tail(x, 2)}};
}

/* in: x, gain, dy.  With y the normed x and s = gain dy: (s - mean(s) - y mean(s y)) / root. */
static sl_value input_gradient(sl_graph *g, const sl_value *in, const sl_dims *form, double eps) {
    const sl_dims own = sl_rw_type(g, in[0])->shape;
    const sl_dims gains = {3, {form->dims[1], form->dims[2], 1}};
    sl_value inverse;
    const sl_value x = sl_rw_reshape(g, in[0], form), dy = sl_rw_reshape(g, in[2], form);
    const sl_value y = sl_rw_standardise(g, x, &normed_axes, eps, &inverse);
    const sl_value slope = mul(g, sl_rw_reshape(g, in[1], &gains), dy);
    const sl_value along = mul(g, y, mean_over(g, mul(g, slope, y), &normed_axes));
    const sl_value rest = sub(g, sub(g, slope, mean_over(g, slope, &normed_axes)), along);
    return sl_rw_reshape(g, mul(g, rest, inverse), &own);
}

/* in: x, dy. */
static sl_value gain_gradient(sl_graph *g, const sl_value *in, const sl_dims *form, double eps) {
    const sl_dims summed = {2, {0, 3}};
    const sl_value x = sl_rw_reshape(g, in[0], form), dy = sl_rw_reshape(g, in[1], form);
    const sl_value y = sl_rw_standardise(g, x, &normed_axes, eps, NULL);
    return sl_rw_reduce(g, SL_OP_reduce_sum, mul(g, dy, y), &summed);
}

bool sl_rewrite_layer_norm_backward_input(sl_graph *g, const sl_node *node, const sl_value *in,
                                          sl_value *out) {
    const sl_layer_norm_backward_input_attrs *a = node->attrs;
    const sl_dims form = form_of_layer(&sl_rw_type(g, in[0])->shape, a->axis);
    if (!sl_rw_is_double(g, in[0])) return false;
    out[0] = input_gradient(g, in, &form, (double)a->eps);
    return true;
}

bool sl_rewrite_layer_norm_backward_gain(sl_graph *g, const sl_node *node, const sl_value *in,
                                         sl_value *out) {
    const sl_layer_norm_backward_gain_attrs *a = node->attrs;
    const sl_dims *x = &sl_rw_type(g, in[0])->shape, form = form_of_layer(x, a->axis);
    const sl_dims tail = sl_dims_from(x, sl_axis(a->axis, x->rank));
    if (!sl_rw_is_double(g, in[0])) return false;
    out[0] = sl_rw_reshape(g, gain_gradient(g, in, &form, (double)a->eps), &tail);
    return true;
}

bool sl_rewrite_group_norm_backward_input(sl_graph *g, const sl_node *node, const sl_value *in,
                                          sl_value *out) {
    const sl_group_norm_backward_input_attrs *a = node->attrs;
    const sl_dims form = form_of_groups(&sl_rw_type(g, in[0])->shape, a->groups);
    if (!sl_rw_is_double(g, in[0])) return false;
    out[0] = input_gradient(g, in, &form, (double)a->eps);
    return true;
}

bool sl_rewrite_group_norm_backward_gain(sl_graph *g, const sl_node *node, const sl_value *in,
                                         sl_value *out) {
    const sl_group_norm_backward_gain_attrs *a = node->attrs;
    const sl_dims *x = &sl_rw_type(g, in[0])->shape, form = form_of_groups(x, a->groups);
    const sl_dims channels = {1, {x->dims[1]}};
    if (!sl_rw_is_double(g, in[0])) return false;
    out[0] = sl_rw_reshape(g, gain_gradient(g, in, &form, (double)a->eps), &channels);
    return true;
}

bool sl_rewrite_group_norm_backward_bias(sl_graph *g, const sl_node *node, const sl_value *in,
                                         sl_value *out) {
    (void)node;
    if (!sl_rw_is_double(g, in[0])) return false;
    out[0] = sums_along(g, in[0], 1);
    return true;
}

/* ---- batch_norm_inference ---- */

/* 1 / sqrt(variance + eps), of a vector. */
static sl_value inverse_root(sl_graph *g, sl_value variance, float eps) {
    return sl_rw_unary(g, SL_OP_rsqrt, sl_rw_with(g, SL_OP_add, variance, (double)eps));
}

bool sl_rewrite_batch_norm_backward_input(sl_graph *g, const sl_node *node, const sl_value *in,
                                          sl_value *out) {
    const sl_batch_norm_inference_backward_input_attrs *a = node->attrs;
    const uint32_t rank = sl_rw_type(g, in[2])->shape.rank;
    if (!sl_rw_is_double(g, in[2])) return false;
    const sl_value slope = mul(g, in[0], inverse_root(g, in[1], a->eps));
    out[0] = mul(g, in[2], sl_rw_column(g, slope, rank - 1 - sl_axis(a->axis, rank)));
    return true;
}

bool sl_rewrite_batch_norm_backward_gain(sl_graph *g, const sl_node *node, const sl_value *in,
                                         sl_value *out) {
    const sl_batch_norm_inference_backward_gain_attrs *a = node->attrs;
    const uint32_t rank = sl_rw_type(g, in[0])->shape.rank, axis = sl_axis(a->axis, rank);
    if (!sl_rw_is_double(g, in[0])) return false;
    const sl_value off = sub(g, in[0], sl_rw_column(g, in[1], rank - 1 - axis));
    out[0] = mul(g, sums_along(g, mul(g, in[3], off), axis), inverse_root(g, in[2], a->eps));
    return true;
}

bool sl_rewrite_batch_norm_backward_bias(sl_graph *g, const sl_node *node, const sl_value *in,
                                         sl_value *out) {
    const sl_batch_norm_inference_backward_bias_attrs *a = node->attrs;
    if (!sl_rw_is_double(g, in[0])) return false;
    out[0] = sums_along(g, in[0], sl_axis(a->axis, sl_rw_type(g, in[0])->shape.rank));
    return true;
}

/* ---- rms_norm ---- */

/* With y = x / rms(x) and s = (offset + gain) dy: (s - y mean(s y)) / rms(x). */
bool sl_rewrite_rms_norm_backward_input(sl_graph *g, const sl_node *node, const sl_value *in,
                                        sl_value *out) {
    const sl_rms_norm_backward_input_attrs *a = node->attrs;
    const sl_dims last = {1, {sl_rw_type(g, in[0])->shape.rank - 1}};
    if (!sl_rw_is_double(g, in[0])) return false;
    const sl_value inverse = sl_rw_inverse_rms(g, in[0], (double)a->eps);
    const sl_value y = mul(g, in[0], inverse);
    const sl_value slope = mul(g, sl_rw_with(g, SL_OP_add, in[1], (double)a->offset), in[2]);
    const sl_value along = mul(g, y, mean_over(g, mul(g, slope, y), &last));
    out[0] = mul(g, sub(g, slope, along), inverse);
    return true;
}

bool sl_rewrite_rms_norm_backward_gain(sl_graph *g, const sl_node *node, const sl_value *in,
                                       sl_value *out) {
    const sl_rms_norm_backward_gain_attrs *a = node->attrs;
    if (!sl_rw_is_double(g, in[0])) return false;
    const sl_value y = mul(g, in[0], sl_rw_inverse_rms(g, in[0], (double)a->eps));
    out[0] = sums_along(g, mul(g, in[1], y), sl_rw_type(g, y)->shape.rank - 1);
    return true;
}

/* ---- reduce_max, reduce_min ---- */

/* Where an element of x equals the extremum y, NaN included. */
static sl_value is_chosen(sl_graph *g, sl_value x, sl_value y) {
    const sl_value nans = sl_rw_binary(g, SL_OP_logical_and, sl_rw_unary(g, SL_OP_is_nan, x),
                                       sl_rw_unary(g, SL_OP_is_nan, y));
    return sl_rw_binary(g, SL_OP_logical_or, sl_rw_binary(g, SL_OP_equal, x, y), nans);
}

bool sl_rewrite_reduce_max_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                    sl_value *out) {
    const sl_dims *axes = &((const sl_reduce_max_backward_attrs *)node->attrs)->axes;
    const sl_type type = *sl_rw_type(g, in[0]);
    sl_dims kept = type.shape;
    if (!sl_rw_is_wide(g, in[0])) return false;
    for (uint32_t i = 0; i < axes->rank; i++) kept.dims[sl_axis(axes->dims[i], kept.rank)] = 1;
    const sl_value chosen = is_chosen(g, in[0], sl_rw_reshape(g, in[1], &kept));
    const sl_value ties =
        sl_rw_reduce(g, SL_OP_reduce_sum, sl_rw_cast(g, chosen, type.dtype), axes);
    const sl_value share = sl_rw_binary(g, SL_OP_div, sl_rw_reshape(g, in[2], &kept), ties);
    out[0] = sl_rw_where(g, chosen, share, sl_rw_number(g, type.dtype, 0));
    return true;
}
