/* reduce.c - Reductions, softmax, and p-norms. */
#include "frontend/onnx/families.h"
#include <string.h>

typedef struct {
    sl_value x;
    sl_dims axes;
    bool keep;
} reduction;

/* Axes are an attribute before opset 13 (sums) or 18 (the others), an input later.  An empty list
 * means all axes, or none if noop_with_empty_axes is set. */
static reduction read_reduction(sl_onnx_call *c) {
    const uint32_t rank = sl_onnx_in_type(c, 0).shape.rank;
    sl_integers list;
    reduction r = {.x = sl_onnx_in(c, 0), .keep = sl_onnx_int(c, "keepdims", 1) != 0};
    (void)sl_onnx_ints_either(c, 1, "axes", &list);
    const bool none = list.count == 0 && sl_onnx_int(c, "noop_with_empty_axes", 0);
    if (!none) r.axes = sl_onnx_axes(c, &list, rank);
    return r;
}

static sl_value reduce(sl_onnx_call *c, const reduction *r, const char *how, sl_value x) {
    return sl_onnx_reduce(c, how, x, &r->axes, r->keep);
}

void sl_onnx_reduce_op(sl_onnx_call *c) {
    const reduction r = read_reduction(c);
    sl_onnx_set(c, 0, reduce(c, &r, c->op, r.x));
}

void sl_onnx_reduce_l1(sl_onnx_call *c) {
    const reduction r = read_reduction(c);
    sl_onnx_set(c, 0, reduce(c, &r, "sum", sl_onnx_op1(c, "abs", r.x)));
}

void sl_onnx_reduce_sum_square(sl_onnx_call *c) {
    const reduction r = read_reduction(c);
    sl_onnx_set(c, 0, reduce(c, &r, "sum", sl_onnx_op2(c, "mul", r.x, r.x)));
}

void sl_onnx_reduce_l2(sl_onnx_call *c) {
    const reduction r = read_reduction(c);
    const sl_value sum = reduce(c, &r, "sum", sl_onnx_op2(c, "mul", r.x, r.x));
    sl_onnx_set(c, 0, sl_onnx_op1(c, "sqrt", sum));
}

void sl_onnx_reduce_log_sum(sl_onnx_call *c) {
    const reduction r = read_reduction(c);
    sl_onnx_set(c, 0, sl_onnx_op1(c, "log", reduce(c, &r, "sum", r.x)));
}

/* Subtracts the maximum, unless it is infinite, to avoid overflow. */
void sl_onnx_reduce_log_sum_exp(sl_onnx_call *c) {
    const reduction r = read_reduction(c);
    const sl_dtype dtype = sl_onnx_type(c, r.x).dtype;
    sl_value most = sl_onnx_reduce(c, "max", r.x, &r.axes, true);
    const sl_value infinite = sl_onnx_with(c, "is_inf", most, "which=3");
    most = sl_onnx_op3(c, "where", infinite, sl_onnx_scalar(c, dtype, 0), most);
    const sl_value powers = sl_onnx_op1(c, "exp", sl_onnx_op2(c, "sub", r.x, most));
    const sl_value sum = sl_onnx_op1(c, "log", reduce(c, &r, "sum", powers));
    const sl_dims shape = sl_onnx_type(c, sum).shape;
    sl_onnx_set(c, 0, sl_onnx_op2(c, "add", sum, sl_onnx_reshape(c, most, &shape)));
}

void sl_onnx_cumsum(sl_onnx_call *c) {
    sl_onnx_set(c, 0,
                sl_onnx_with(c, "cumsum", sl_onnx_in(c, 0), "axis=%lld, exclusive=%d, reverse=%d",
                             (long long)sl_onnx_integer_in(c, 1, 0),
                             sl_onnx_int(c, "exclusive", 0) != 0,
                             sl_onnx_int(c, "reverse", 0) != 0));
}

/* Before opset 13, softmax is over all dims from axis on: x becomes a matrix. */
static sl_value as_matrix(sl_onnx_call *c, sl_value x, int64_t axis) {
    const sl_dims shape = sl_onnx_type(c, x).shape;
    const uint32_t at = sl_onnx_axis(c, axis, shape.rank);
    sl_dims two = {2, {1, sl_dims_tail(&shape, at)}};
    for (uint32_t i = 0; i < at; i++) two.dims[0] *= shape.dims[i];
    return sl_onnx_reshape(c, x, &two);
}

void sl_onnx_softmax(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const sl_dims shape = sl_onnx_type(c, x).shape;
    const int64_t axis = sl_onnx_int(c, "axis", c->opset < 13 ? 1 : -1);
    if (c->opset < 13) {
        const sl_value y = sl_onnx_with(c, c->op, as_matrix(c, x, axis), "axis=-1");
        sl_onnx_set(c, 0, sl_onnx_reshape(c, y, &shape));
    } else {
        const uint32_t at = sl_onnx_axis(c, axis, shape.rank);
        sl_onnx_set(c, 0, sl_onnx_with(c, c->op, x, "axis=%u", at));
    }
}

/* One at the first maximum, else zero. */
void sl_onnx_hardmax(sl_onnx_call *c) {
    sl_value x = sl_onnx_in(c, 0);
    const sl_type type = sl_onnx_type(c, x);
    int64_t axis = sl_onnx_int(c, "axis", c->opset < 13 ? 1 : -1);
    if (c->opset < 13) {
        x = as_matrix(c, x, axis);
        axis = 1;
    }
    const sl_dims shape = sl_onnx_type(c, x).shape;
    const uint32_t at = sl_onnx_axis(c, axis, shape.rank);
    sl_dims along = {.rank = shape.rank};
    for (uint32_t i = 0; i < shape.rank; i++) along.dims[i] = i == at ? shape.dims[i] : 1;
    sl_value index;
    sl_onnx_append(c, &(sl_onnx_step){"iota", 0, 1, NULL, &index}, "shape=%s, axis=%u, dtype=i64",
                   sl_onnx_dims(c, &along), at);
    const sl_value first = sl_onnx_with(c, "argmax", x, "axis=%u, keep=1, last=0, to=i64", at);
    const sl_value hot = sl_onnx_cast(c, sl_onnx_op2(c, "equal", index, first), type.dtype);
    sl_onnx_set(c, 0, sl_onnx_reshape(c, hot, &type.shape));
}

void sl_onnx_lp_normalization(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const uint32_t rank = sl_onnx_type(c, x).shape.rank;
    const sl_dims axis = {1, {sl_onnx_axis(c, sl_onnx_int(c, "axis", -1), rank)}};
    const bool absolute = sl_onnx_int(c, "p", 2) == 1;
    const sl_value parts = absolute ? sl_onnx_op1(c, "abs", x) : sl_onnx_op2(c, "mul", x, x);
    sl_value norm = sl_onnx_reduce(c, "sum", parts, &axis, true);
    if (!absolute) norm = sl_onnx_op1(c, "sqrt", norm);
    sl_onnx_set(c, 0, sl_onnx_op2(c, "div", x, norm));
}

void sl_onnx_mean_variance(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    sl_integers list;
    static const int64_t usual[] = {0, 2, 3};
    if (!sl_onnx_ints(c, "axes", &list)) list = (sl_integers){3, usual};
    const sl_dims axes = sl_onnx_axes(c, &list, sl_onnx_type(c, x).shape.rank);
    const sl_value centred = sl_onnx_op2(c, "sub", x, sl_onnx_reduce(c, "mean", x, &axes, true));
    const sl_value squares = sl_onnx_op2(c, "mul", centred, centred);
    const sl_value deviation =
        sl_onnx_op1(c, "sqrt", sl_onnx_reduce(c, "mean", squares, &axes, true));
    sl_onnx_set(c, 0, sl_onnx_op2(c, "div", centred, sl_onnx_op_scalar(c, "add", deviation, 1e-9)));
}
