/* rewrite_norm.c - Norms, softmax and reductions in terms of simpler ops. */
#include "compiler/passes/rewrite.h"

static sl_dims axes_from(uint32_t first, uint32_t rank) {
    sl_dims axes = {0};
    for (uint32_t i = first; i < rank; i++) axes.dims[axes.rank++] = i;
    return axes;
}

/* The mean is subtracted twice: rounding leaves a remainder of a large mean the first time. */
static sl_value without_mean(sl_graph *g, sl_value x, const sl_dims *axes) {
    return sl_rw_binary(g, SL_OP_sub, x, sl_rw_reduce(g, SL_OP_reduce_mean, x, axes));
}

sl_value sl_rw_standardise(sl_graph *g, sl_value x, const sl_dims *axes, double eps,
                           sl_value *inverse) {
    const sl_value off = without_mean(g, without_mean(g, x, axes), axes);
    const sl_value squares = sl_rw_binary(g, SL_OP_mul, off, off);
    const sl_value variance = sl_rw_reduce(g, SL_OP_reduce_mean, squares, axes);
    const sl_value root = sl_rw_unary(g, SL_OP_rsqrt, sl_rw_with(g, SL_OP_add, variance, eps));
    if (inverse) *inverse = root;
    return sl_rw_binary(g, SL_OP_mul, off, root);
}

static sl_value scale_shift(sl_graph *g, sl_value x, sl_value gain, sl_value bias) {
    return sl_rw_binary(g, SL_OP_add, sl_rw_binary(g, SL_OP_mul, x, gain), bias);
}

bool sl_rewrite_layer_norm(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_layer_norm_attrs *a = node->attrs;
    const uint32_t rank = sl_rw_type(g, in[0])->shape.rank;
    const sl_dims axes = axes_from(sl_axis(a->axis, rank), rank);
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = scale_shift(g, sl_rw_standardise(g, in[0], &axes, (double)a->eps, NULL), in[1], in[2]);
    return true;
}

bool sl_rewrite_layer_norm2d(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_layer_norm2d_attrs *a = node->attrs;
    const uint32_t after = sl_rw_type(g, in[0])->shape.rank - 2;
    const sl_dims axes = {.rank = 1, .dims = {1}};
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = scale_shift(g, sl_rw_standardise(g, in[0], &axes, (double)a->eps, NULL),
                         sl_rw_column(g, in[1], after), sl_rw_column(g, in[2], after));
    return true;
}

bool sl_rewrite_group_norm(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_group_norm_attrs *a = node->attrs;
    const sl_dims shape = sl_rw_type(g, in[0])->shape;
    const int64_t each = sl_dims_tail(&shape, 1) / (int64_t)a->groups;
    const sl_dims grouped = {.rank = 3, .dims = {shape.dims[0], a->groups, each}};
    const sl_dims axes = {.rank = 1, .dims = {2}};
    if (!sl_rw_is_wide(g, in[0])) return false;
    const sl_value x =
        sl_rw_standardise(g, sl_rw_reshape(g, in[0], &grouped), &axes, (double)a->eps, NULL);
    out[0] = scale_shift(g, sl_rw_reshape(g, x, &shape), sl_rw_column(g, in[1], shape.rank - 2),
                         sl_rw_column(g, in[2], shape.rank - 2));
    return true;
}

bool sl_rewrite_batch_norm(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_batch_norm_inference_attrs *a = node->attrs;
    const uint32_t rank = sl_rw_type(g, in[0])->shape.rank,
                   after = rank - 1 - sl_axis(a->axis, rank);
    sl_value vectors[4];
    if (!sl_rw_is_wide(g, in[0])) return false;
    for (int i = 0; i < 4; i++) vectors[i] = sl_rw_column(g, in[1 + i], after);
    const sl_value root =
        sl_rw_unary(g, SL_OP_rsqrt, sl_rw_with(g, SL_OP_add, vectors[3], (double)a->eps));
    const sl_value off = sl_rw_binary(g, SL_OP_sub, in[0], vectors[2]);
    out[0] = scale_shift(g, sl_rw_binary(g, SL_OP_mul, off, root), vectors[0], vectors[1]);
    return true;
}

sl_value sl_rw_inverse_rms(sl_graph *g, sl_value x, double eps) {
    const uint32_t rank = sl_rw_type(g, x)->shape.rank;
    const sl_dims axes = axes_from(rank - 1, rank);
    const sl_value mean =
        sl_rw_reduce(g, SL_OP_reduce_mean, sl_rw_binary(g, SL_OP_mul, x, x), &axes);
    return sl_rw_unary(g, SL_OP_rsqrt, sl_rw_with(g, SL_OP_add, mean, eps));
}

/* rms_norm of x, from a mean and elementwise ops. */
static sl_value rms_normed(sl_graph *g, sl_value x, sl_value gain, const sl_rms_norm_attrs *a) {
    if (a->offset != 0) gain = sl_rw_with(g, SL_OP_add, gain, (double)a->offset);
    const sl_value inverse = sl_rw_inverse_rms(g, x, (double)a->eps);
    return sl_rw_binary(g, SL_OP_mul, sl_rw_binary(g, SL_OP_mul, x, inverse), gain);
}

bool sl_rewrite_rms_norm(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    if (!sl_rw_is_wide(g, in[0]) || !sl_rw_is_wide(g, in[1])) return false;
    out[0] = rms_normed(g, in[0], in[1], node->attrs);
    return true;
}

bool sl_rewrite_add_rms_norm(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    enum { GAIN = 2, SHIFT, BIAS };
    const sl_add_rms_norm_attrs *a = node->attrs;
    const sl_rms_norm_attrs norm = {.eps = a->eps, .offset = a->offset};
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = sl_rw_binary(g, SL_OP_add, in[0], in[1]);
    if (node->input_count > BIAS) out[0] = sl_rw_binary(g, SL_OP_add, out[0], in[BIAS]);
    if (sl_rw_is_double(g, in[0]))
        out[1] = rms_normed(g, out[0], in[GAIN], &norm);
    else
        out[1] = sl_build_rms_norm(g, (sl_rms_norm_in){.x = out[0], .gain = in[GAIN]}, norm).out;
    if (node->input_count > SHIFT) out[1] = sl_rw_binary(g, SL_OP_add, out[1], in[SHIFT]);
    return true;
}

bool sl_rewrite_rms_norm_axes(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_rms_norm_axes_attrs *a = node->attrs;
    const sl_dims x = sl_rw_type(g, in[0])->shape;
    const bool has_gain = node->input_count == 2;
    sl_dims along = x;
    if (!sl_rw_is_wide(g, in[0])) return false;
    if (sl_rw_type(g, in[0])->dtype == SL_DTYPE_f32 && a->axes.rank == 1 &&
        sl_axis(a->axes.dims[0], x.rank) == x.rank - 1) {
        const sl_rms_norm_attrs norm = {.eps = a->eps, .offset = has_gain ? a->offset : 0};
        const sl_type row = {SL_DTYPE_f32, {1, {x.dims[x.rank - 1]}}};
        const sl_value gain = has_gain ? in[1] : sl_rw_filled(g, &row, 1);
        out[0] = sl_build_rms_norm(g, (sl_rms_norm_in){.x = in[0], .gain = gain}, norm).out;
        return true;
    }
    const sl_value squares = sl_rw_binary(g, SL_OP_mul, in[0], in[0]);
    const sl_value mean = sl_rw_reduce(g, SL_OP_reduce_mean, squares, &a->axes);
    const sl_value root =
        sl_rw_unary(g, SL_OP_rsqrt, sl_rw_with(g, SL_OP_add, mean, (double)a->eps));
    out[0] = sl_rw_binary(g, SL_OP_mul, in[0], root);
    if (!has_gain) return true;
    for (uint32_t d = 0; d < x.rank; d++) along.dims[d] = 1;
    for (uint32_t i = 0; i < a->axes.rank; i++) {
        const uint32_t d = sl_axis(a->axes.dims[i], x.rank);
        along.dims[d] = x.dims[d];
    }
    sl_value gain = sl_rw_reshape(g, in[1], &along);
    if (a->offset != 0) gain = sl_rw_with(g, SL_OP_add, gain, (double)a->offset);
    out[0] = sl_rw_binary(g, SL_OP_mul, out[0], gain);
    return true;
}

bool sl_rewrite_gated_rms_norm(sl_graph *g, const sl_node *node, const sl_value *in,
                               sl_value *out) {
    const sl_gated_rms_norm_attrs *a = node->attrs;
    const sl_rms_norm_attrs norm = {.eps = a->eps};
    const sl_value gate = sl_rw_unary(g, SL_OP_silu, in[1]);
    const sl_value normed =
        sl_build_rms_norm(g, (sl_rms_norm_in){.x = in[0], .gain = in[2]}, norm).out;
    out[0] = sl_rw_binary(g, SL_OP_mul, normed, gate);
    return true;
}

bool sl_rewrite_l2_norm(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_l2_norm_attrs *a = node->attrs;
    const uint32_t rank = sl_rw_type(g, in[0])->shape.rank;
    const sl_dims axes = axes_from(rank - 1, rank);
    if (!sl_rw_is_wide(g, in[0])) return false;
    const sl_value sum =
        sl_rw_reduce(g, SL_OP_reduce_sum, sl_rw_binary(g, SL_OP_mul, in[0], in[0]), &axes);
    const sl_value root =
        sl_rw_unary(g, SL_OP_rsqrt, sl_rw_with(g, SL_OP_add, sum, (double)a->eps));
    out[0] = sl_rw_with(g, SL_OP_mul, sl_rw_binary(g, SL_OP_mul, in[0], root), (double)a->scale);
    return true;
}

/* ---- softmax ---- */

bool sl_rewrite_softmax_axis(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_softmax_attrs *a = node->attrs;
    const uint32_t rank = sl_rw_type(g, in[0])->shape.rank;
    sl_dims perm = {.rank = rank};
    const uint32_t axis = sl_axis(a->axis, rank);
    if (axis == rank - 1) return false;
    for (uint32_t i = 0; i < rank; i++) perm.dims[i] = i;
    perm.dims[axis] = rank - 1;
    perm.dims[rank - 1] = axis;
    const sl_value moved = sl_rw_transpose(g, in[0], &perm);
    const sl_value made =
        sl_build_softmax(g, (sl_softmax_in){.x = moved}, (sl_softmax_attrs){.axis = -1}).out;
    out[0] = sl_rw_transpose(g, made, &perm);
    return true;
}

/* x minus its maximum; *sum is the sum of the exponentials *exps. */
static sl_value shifted(sl_graph *g, sl_value x, int64_t axis, sl_value *exps, sl_value *sum) {
    const sl_dims axes = {.rank = 1, .dims = {axis}};
    const sl_value off = sl_rw_binary(g, SL_OP_sub, x, sl_rw_reduce(g, SL_OP_reduce_max, x, &axes));
    *exps = sl_rw_unary(g, SL_OP_exp, off);
    *sum = sl_rw_reduce(g, SL_OP_reduce_sum, *exps, &axes);
    return off;
}

bool sl_rewrite_softmax(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    sl_value exps, sum;
    if (!sl_rw_is_wide(g, in[0])) return false;
    (void)shifted(g, in[0], ((const sl_softmax_attrs *)node->attrs)->axis, &exps, &sum);
    out[0] = sl_rw_binary(g, SL_OP_div, exps, sum);
    return true;
}

bool sl_rewrite_log_softmax(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    sl_value exps, sum;
    if (!sl_rw_is_wide(g, in[0])) return false;
    const sl_value off =
        shifted(g, in[0], ((const sl_log_softmax_attrs *)node->attrs)->axis, &exps, &sum);
    out[0] = sl_rw_binary(g, SL_OP_sub, off, sl_rw_unary(g, SL_OP_log, sum));
    return true;
}

/* The sum over an axis, which is kept with one element. */
static sl_value sum_along(sl_graph *g, sl_value x, int64_t axis) {
    const sl_dims axes = {.rank = 1, .dims = {axis}};
    return sl_rw_reduce(g, SL_OP_reduce_sum, x, &axes);
}

bool sl_rewrite_softmax_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                 sl_value *out) {
    const int64_t axis = ((const sl_softmax_backward_attrs *)node->attrs)->axis;
    if (!sl_rw_is_wide(g, in[0])) return false;
    const sl_value sum = sum_along(g, sl_rw_binary(g, SL_OP_mul, in[0], in[1]), axis);
    out[0] = sl_rw_binary(g, SL_OP_mul, in[0], sl_rw_binary(g, SL_OP_sub, in[1], sum));
    return true;
}

bool sl_rewrite_log_softmax_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                     sl_value *out) {
    const int64_t axis = ((const sl_log_softmax_backward_attrs *)node->attrs)->axis;
    if (!sl_rw_is_wide(g, in[0])) return false;
    const sl_value sum = sum_along(g, in[1], axis), shares = sl_rw_unary(g, SL_OP_exp, in[0]);
    out[0] = sl_rw_binary(g, SL_OP_sub, in[1], sl_rw_binary(g, SL_OP_mul, shares, sum));
    return true;
}

/* ---- reductions ---- */

bool sl_rewrite_reduce_mean(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_reduce_mean_attrs *a = node->attrs;
    const sl_dims *shape = &sl_rw_type(g, in[0])->shape;
    double count = 1;
    if (!sl_rw_is_wide(g, in[0]) || sl_type_elements(sl_rw_type(g, in[0])) == 0) return false;
    for (uint32_t i = 0; i < a->axes.rank; i++)
        count *= (double)shape->dims[sl_axis(a->axes.dims[i], shape->rank)];
    const sl_value sum =
        sl_build_reduce_sum(g, (sl_reduce_sum_in){.x = in[0]},
                            (sl_reduce_sum_attrs){.axes = a->axes, .keep = a->keep})
            .out;
    out[0] = sl_rw_with(g, SL_OP_div, sum, count);
    return true;
}

static bool is_float(const sl_graph *g, sl_value value) {
    return sl_dtype_infos[sl_rw_type(g, value)->dtype].kind == SL_KIND_FLOAT;
}

bool sl_rewrite_reduce_min(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_reduce_min_attrs *a = node->attrs;
    if (!is_float(g, in[0])) return false;
    const sl_value most =
        sl_build_reduce_max(g, (sl_reduce_max_in){.x = sl_rw_unary(g, SL_OP_neg, in[0])},
                            (sl_reduce_max_attrs){.axes = a->axes, .keep = a->keep})
            .out;
    out[0] = sl_rw_unary(g, SL_OP_neg, most);
    return true;
}

bool sl_rewrite_argmin(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_argmin_attrs *a = node->attrs;
    const sl_argmax_attrs attrs = {.axis = a->axis, .keep = a->keep, .last = a->last, .to = a->to};
    if (!is_float(g, in[0])) return false;
    out[0] = sl_build_argmax(g, (sl_argmax_in){.x = sl_rw_unary(g, SL_OP_neg, in[0])}, attrs).out;
    return true;
}
