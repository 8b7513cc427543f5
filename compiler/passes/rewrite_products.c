/* rewrite_products.c - dot_general and convolutions as matrix products. */
#include "compiler/passes/rewrite.h"
#include "core/window.h"

/* ---- dot_general ---- */

/* The dims of an operand, by their part in the product. */
typedef struct {
    sl_dims perm;                    /* batch, then free and contracted, or the reverse */
    int64_t batch, free, contracted; /* elements */
} order;

static bool has(const sl_integers *axes, uint32_t rank, uint32_t axis) {
    for (uint32_t i = 0; i < axes->count; i++)
        if (sl_axis(axes->items[i], rank) == axis) return true;
    return false;
}

static int64_t push(order *o, const sl_dims *shape, uint32_t axis) {
    o->perm.dims[o->perm.rank++] = axis;
    return shape->dims[axis];
}

static order order_of(const sl_dims *shape, const sl_integers *batch, const sl_integers *contract,
                      bool left) {
    order o = {.batch = 1, .free = 1, .contracted = 1};
    for (uint32_t i = 0; i < batch->count; i++)
        o.batch *= push(&o, shape, sl_axis(batch->items[i], shape->rank));
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; (turn == 0) == left && i < shape->rank; i++)
            if (!has(batch, shape->rank, i) && !has(contract, shape->rank, i))
                o.free *= push(&o, shape, i);
        for (uint32_t i = 0; (turn == 1) == left && i < contract->count; i++)
            o.contracted *= push(&o, shape, sl_axis(contract->items[i], shape->rank));
    }
    return o;
}

/* The dims of the result: batch, free ones of a, free ones of b. */
static sl_dims result_of(const sl_dims *a, const sl_dims *b, const sl_dot_general_attrs *attrs) {
    sl_dims out = {0};
    for (uint32_t i = 0; i < attrs->lhs_batch.count; i++)
        out.dims[out.rank++] = a->dims[sl_axis(attrs->lhs_batch.items[i], a->rank)];
    for (uint32_t i = 0; i < a->rank; i++)
        if (!has(&attrs->lhs_batch, a->rank, i) && !has(&attrs->lhs_contract, a->rank, i))
            out.dims[out.rank++] = a->dims[i];
    for (uint32_t i = 0; i < b->rank; i++)
        if (!has(&attrs->rhs_batch, b->rank, i) && !has(&attrs->rhs_contract, b->rank, i))
            out.dims[out.rank++] = b->dims[i];
    return out;
}

bool sl_rewrite_dot_general(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_dot_general_attrs *attrs = node->attrs;
    const sl_dims a = sl_rw_type(g, in[0])->shape, b = sl_rw_type(g, in[1])->shape;
    if (sl_dims_tail(&a, 0) == 0 || sl_dims_tail(&b, 0) == 0) return false;
    const order x = order_of(&a, &attrs->lhs_batch, &attrs->lhs_contract, true);
    const order y = order_of(&b, &attrs->rhs_batch, &attrs->rhs_contract, false);
    const sl_dims left = {3, {x.batch, x.free, x.contracted}},
                  right = {3, {y.batch, y.contracted, y.free}};
    const sl_value product =
        sl_rw_binary(g, SL_OP_matmul, sl_rw_reshape(g, sl_rw_transpose(g, in[0], &x.perm), &left),
                     sl_rw_reshape(g, sl_rw_transpose(g, in[1], &y.perm), &right));
    const sl_dims shape = result_of(&a, &b, attrs);
    out[0] = sl_rw_reshape(g, product, &shape);
    return true;
}

bool sl_rewrite_lora_matmul(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_lora_matmul_attrs *a = node->attrs;
    const sl_dims shape = sl_rw_type(g, in[0])->shape;
    const int64_t inner = shape.dims[shape.rank - 1];
    const sl_dims rows = {2, {inner ? sl_dims_tail(&shape, 0) / inner : 0, inner}};
    sl_dims result = shape;
    if (!sl_rw_is_wide(g, in[0]) || sl_dims_tail(&shape, 0) == 0) return false;
    const sl_value x = sl_rw_reshape(g, in[0], &rows);
    const sl_value plain = sl_rw_binary(g, SL_OP_matmul, x, in[1]);
    const sl_value low =
        sl_rw_binary(g, SL_OP_matmul, sl_rw_binary(g, SL_OP_matmul, x, in[2]), in[3]);
    const sl_value sum =
        sl_rw_binary(g, SL_OP_add, plain, sl_rw_with(g, SL_OP_mul, low, (double)a->scale));
    result.dims[result.rank - 1] = sl_rw_type(g, plain)->shape.dims[1];
    out[0] = sl_rw_reshape(g, sum, &result);
    return true;
}

/* ---- convolution ---- */

typedef struct {
    sl_window window;
    sl_dims x, w, out; /* shapes */
    int64_t groups;
} convolution;

enum { MOST_TAPS = 128 };

static convolution convolution_of(const sl_graph *g, const sl_node *node, const sl_value *in) {
    const sl_conv_attrs *a = node->attrs;
    const sl_window_lists lists = SL_WINDOW_LISTS(a);
    const sl_type *x = sl_rw_type(g, in[0]);
    convolution c = {
        .x = x->shape, .w = sl_rw_type(g, in[1])->shape, .groups = a->groups ? a->groups : 1};
    c.window = sl_window_over(&lists, c.w.dims + 2, x);
    c.out = (sl_dims){.rank = c.x.rank, .dims = {c.x.dims[0], c.w.dims[0]}};
    for (uint32_t i = 2; i < c.x.rank; i++)
        c.out.dims[i] = c.window.out[SL_MAX_SPATIAL + i - c.x.rank];
    return c;
}

/* The result in its own shape, from products of another shape. */
static sl_value finish(sl_graph *g, const convolution *c, const sl_node *node, const sl_value *in,
                       sl_value products) {
    const sl_value sum = sl_rw_reshape(g, products, &c->out);
    if (node->input_count == 2) return sum;
    return sl_rw_binary(g, SL_OP_add, sum, sl_rw_column(g, in[2], c->out.rank - 2));
}

/* The padded input shifted by one kernel tap: [N, groups, C/groups, positions]. */
static sl_value seen_by(sl_graph *g, const convolution *c, sl_value padded, int64_t tap) {
    const sl_window *w = &c->window;
    const uint32_t spatial = c->x.rank - 2, missing = SL_MAX_SPATIAL - spatial;
    int64_t starts[SL_MAX_RANK] = {0}, ends[SL_MAX_RANK], steps[SL_MAX_RANK];
    for (uint32_t i = 0; i < 2; i++) ends[i] = c->x.dims[i], steps[i] = 1;
    for (uint32_t i = spatial; i-- > 0; tap /= w->kernel[missing + i]) {
        const uint32_t axis = missing + i;
        starts[2 + i] = tap % w->kernel[axis] * w->dilation[axis];
        ends[2 + i] = starts[2 + i] + (w->out[axis] - 1) * w->stride[axis] + 1;
        steps[2 + i] = w->stride[axis];
    }
    const sl_strided_slice_attrs attrs = {
        .starts = {c->x.rank, starts}, .ends = {c->x.rank, ends}, .steps = {c->x.rank, steps}};
    const sl_value seen = sl_build_strided_slice(g, (sl_strided_slice_in){.x = padded}, attrs).out;
    const sl_dims shape = {4,
                           {c->x.dims[0], c->groups, c->x.dims[1] / c->groups, sl_window_outs(w)}};
    return sl_rw_reshape(g, seen, &shape);
}

static sl_value pad_places(sl_graph *g, const convolution *c, sl_value x) {
    const uint32_t missing = SL_MAX_SPATIAL - (c->x.rank - 2);
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0}, all = 0;
    for (uint32_t i = 2; i < c->x.rank; i++) {
        before[i] = c->window.before[missing + i - 2];
        after[i] = c->window.after[missing + i - 2];
        all += before[i] + after[i];
    }
    const sl_pad_attrs attrs = {.before = {c->x.rank, before}, .after = {c->x.rank, after}};
    if (!all) return x;
    const sl_value zero = sl_rw_number(g, sl_rw_type(g, x)->dtype, 0);
    return sl_build_pad(g, (sl_pad_in){.x = x, .value = zero}, attrs).out;
}

bool sl_rewrite_conv(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const convolution c = convolution_of(g, node, in);
    const int64_t taps = sl_window_taps(&c.window), group = c.w.dims[0] / c.groups;
    const sl_dims by_tap = {3, {c.w.dims[0], c.w.dims[1], taps}};
    const sl_dims of_tap = {3, {c.groups, group, c.w.dims[1]}};
    if (!sl_rw_is_wide(g, in[0]) || taps > MOST_TAPS) return false;
    const sl_value padded = pad_places(g, &c, in[0]), w = sl_rw_reshape(g, in[1], &by_tap);
    sl_value sum = {0};
    for (int64_t tap = 0; tap < taps; tap++) {
        const sl_value matrix = sl_rw_reshape(g, sl_rw_slice(g, w, 2, tap, 1), &of_tap);
        const sl_value part = sl_rw_binary(g, SL_OP_matmul, matrix, seen_by(g, &c, padded, tap));
        sum = tap ? sl_rw_binary(g, SL_OP_add, sum, part) : part;
    }
    out[0] = finish(g, &c, node, in, sum);
    return true;
}

/* ---- convolution by im2col ---- */

/* im2col of x[parts, channels, ..]: [parts * windows, channels * taps]. */
static sl_value columns_of(sl_graph *g, sl_value x, const sl_window_lists *lists,
                           sl_integers kernel) {
    const sl_im2col_attrs attrs = {.strides = lists->strides,
                                   .pads_before = lists->before,
                                   .pads_after = lists->after,
                                   .dilations = lists->dilations,
                                   .kernel = kernel};
    return sl_build_im2col(g, (sl_im2col_in){.x = x}, attrs).out;
}

/* In 16-bit floats the products would be rounded before the bias is added. */
bool sl_rewrite_conv_columns(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_conv_attrs *a = node->attrs;
    const sl_window_lists lists = SL_WINDOW_LISTS(a);
    const convolution c = convolution_of(g, node, in);
    const int64_t inner = sl_dims_tail(&c.w, 1), batch = c.x.dims[0];
    const sl_dims rows = {4, {batch, c.groups, sl_window_outs(&c.window), inner}};
    const sl_dims filters = {3, {c.groups, c.w.dims[0] / c.groups, inner}};
    sl_dims parts = c.x;
    if (sl_dtype_infos[sl_rw_type(g, in[0])->dtype].kind != SL_KIND_INT && !sl_rw_is_wide(g, in[0]))
        return false;
    parts.dims[0] *= c.groups;
    parts.dims[1] /= c.groups;
    const sl_value columns = columns_of(g, sl_rw_reshape(g, in[0], &parts), &lists,
                                        (sl_integers){c.w.rank - 2, c.w.dims + 2});
    const sl_value product = sl_rw_binary(g, SL_OP_matmul, sl_rw_reshape(g, columns, &rows),
                                          sl_rw_turned(g, sl_rw_reshape(g, in[1], &filters)));
    out[0] = finish(g, &c, node, in, sl_rw_turned(g, product));
    return true;
}

bool sl_rewrite_conv_bias_act(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_fused_conv_bias_act_attrs *a = node->attrs;
    const sl_conv_attrs attrs = SL_CONV_ATTRS(a);
    sl_value product = {0};
    if (!sl_rw_is_wide(g, in[0])) return false;
    sl_graph_append_list(g, SL_OP_conv, (sl_values){node->input_count, in}, &attrs,
                         (sl_value_slots){1, &product});
    out[0] = sl_rw_activate(g, a->act, product);
    return true;
}

/* Groups come first, so that one product per group sums over the windows of all samples. */
bool sl_rewrite_conv_backward_weight(sl_graph *g, const sl_node *node, const sl_value *in,
                                     sl_value *out) {
    const sl_conv_backward_weight_attrs *a = node->attrs;
    const sl_window_lists lists = SL_WINDOW_LISTS(a);
    const sl_dims x = sl_rw_type(g, in[0])->shape, dy = sl_rw_type(g, in[1])->shape;
    const int64_t groups = a->groups ? a->groups : 1, batch = x.dims[0];
    const int64_t channels = x.dims[1] / groups, filters = dy.dims[1] / groups;
    const int64_t windows = sl_dims_tail(&dy, 2);
    const sl_dims by_group = {4, {batch, groups, channels, sl_dims_tail(&x, 2)}};
    const sl_dims filtered = {4, {batch, groups, filters, windows}};
    sl_dims parts = x, shape = x;
    parts.dims[0] = groups * batch;
    parts.dims[1] = shape.dims[1] = channels;
    shape.dims[0] = dy.dims[1];
    for (uint32_t i = 2; i < x.rank; i++) shape.dims[i] = a->kernel.items[i - 2];
    const sl_value seen =
        sl_rw_transpose(g, sl_rw_reshape(g, in[0], &by_group), &(const sl_dims){4, {1, 0, 2, 3}});
    const sl_value columns = columns_of(g, sl_rw_reshape(g, seen, &parts), &lists, a->kernel);
    const sl_value left =
        sl_rw_transpose(g, sl_rw_reshape(g, in[1], &filtered), &(const sl_dims){4, {1, 2, 0, 3}});
    const sl_dims to_windows = {3, {groups, filters, batch * windows}};
    const sl_dims by_windows = {3, {groups, batch * windows, sl_dims_tail(&shape, 1)}};
    const sl_value product = sl_rw_binary(g, SL_OP_matmul, sl_rw_reshape(g, left, &to_windows),
                                          sl_rw_reshape(g, columns, &by_windows));
    out[0] = sl_rw_reshape(g, product, &shape);
    return true;
}
