/* norm.c - Batch, instance, layer and group norms, and local response normalisation. */
#include "frontend/onnx/families.h"

/* A vector of channels, reshaped to broadcast to [N,C,..]. */
static sl_value along_channels(sl_onnx_call *c, sl_value x, uint32_t rank) {
    const sl_dims from = sl_onnx_type(c, x).shape;
    sl_dims shape = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) shape.dims[i] = i == 1 ? from.dims[0] : 1;
    return sl_onnx_reshape(c, x, &shape);
}

/* old * momentum + fresh * (1 - momentum) */
static sl_value running(sl_onnx_call *c, sl_value old, sl_value fresh, double momentum) {
    return sl_onnx_op2(c, "add", sl_onnx_op_scalar(c, "mul", old, momentum),
                       sl_onnx_op_scalar(c, "mul", fresh, 1 - momentum));
}

static void train_batch_norm(sl_onnx_call *c, const sl_value *in, float eps) {
    const uint32_t rank = sl_onnx_type(c, in[0]).shape.rank;
    const double momentum = (double)sl_onnx_float(c, "momentum", 0.9f);
    sl_dims axes = {0};
    for (uint32_t i = 0; i < rank; i++)
        if (i != 1) axes.dims[axes.rank++] = i;
    const sl_value mean = sl_onnx_reduce(c, "mean", in[0], &axes, false);
    const sl_value centred = sl_onnx_op2(c, "sub", in[0], along_channels(c, mean, rank));
    const sl_value variance =
        sl_onnx_reduce(c, "mean", sl_onnx_op2(c, "mul", centred, centred), &axes, false);
    const sl_value five[] = {in[0], in[1], in[2], mean, variance};
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"batch_norm_inference", 5, 1, five, &out}, "axis=1, eps=%.9g",
                   (double)eps);
    sl_onnx_set(c, 0, out);
    sl_onnx_set(c, 1, running(c, in[3], mean, momentum));
    sl_onnx_set(c, 2, running(c, in[4], variance, momentum));
}

void sl_onnx_batch_norm(sl_onnx_call *c) {
    const float eps = sl_onnx_float(c, "epsilon", 1e-5f);
    sl_value in[5], out;
    const sl_dtype dtype = sl_onnx_in_type(c, 0).dtype;
    for (uint32_t i = 0; i < 5; i++) in[i] = sl_onnx_cast(c, sl_onnx_in(c, i), dtype);
    const bool old_training = c->opset < 7 && !sl_onnx_int(c, "is_test", 0);
    if (old_training || (c->opset < 9 && !sl_onnx_int(c, "spatial", 1))) {
        sl_onnx_refuse(c, old_training ? "is_test = 0 is not supported"
                                       : "spatial = 0 is not supported");
    } else if (sl_onnx_int(c, "training_mode", 0)) {
        train_batch_norm(c, in, eps);
    } else {
        sl_onnx_append(c, &(sl_onnx_step){"batch_norm_inference", 5, 1, in, &out},
                       "axis=1, eps=%.9g", (double)eps);
        sl_onnx_set(c, 0, out);
    }
}

static sl_value group_norm(sl_onnx_call *c, const sl_value *in, int64_t groups) {
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"group_norm", 3, 1, in, &out}, "groups=%lld, eps=%.9g",
                   (long long)groups, (double)sl_onnx_float(c, "epsilon", 1e-5f));
    return out;
}

void sl_onnx_instance_norm(sl_onnx_call *c) {
    const sl_value in[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1), sl_onnx_in(c, 2)};
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    if (shape.rank < 2) sl_onnx_wrong(c, "%u dims, wanted [N,C,..]", shape.rank);
    sl_onnx_set(c, 0, group_norm(c, in, shape.rank < 2 ? 1 : shape.dims[1]));
}

/* Repeats a value per group for each of its channels. */
static sl_value spread_groups(sl_onnx_call *c, sl_value x, int64_t channels) {
    const int64_t groups = sl_onnx_type(c, x).shape.dims[0];
    if (groups < 1 || channels % groups) {
        sl_onnx_wrong(c, "%lld groups do not divide %lld channels", (long long)groups,
                      (long long)channels);
        return x;
    }
    x = sl_onnx_reshape(c, x, &(sl_dims){2, {groups, 1}});
    x = sl_onnx_expand(c, x, &(sl_dims){2, {groups, channels / groups}});
    return sl_onnx_reshape(c, x, &(sl_dims){1, {channels}});
}

/* Before opset 21 scale and bias are per group. */
void sl_onnx_group_norm(sl_onnx_call *c) {
    sl_value in[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1), sl_onnx_in(c, 2)};
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    for (uint32_t i = 1; i < 3 && c->opset < 21; i++)
        in[i] = spread_groups(c, in[i], shape.dims[1]);
    sl_onnx_set(c, 0, group_norm(c, in, sl_onnx_int(c, "num_groups", 1)));
}

/* The statistics that LayerNormalization returns besides its result. */
static void set_moments(sl_onnx_call *c, sl_value x, uint32_t axis, float eps) {
    const sl_value wide = sl_onnx_cast(c, x, SL_DTYPE_f32);
    const uint32_t rank = sl_onnx_type(c, x).shape.rank;
    sl_dims axes = {0};
    for (uint32_t i = axis; i < rank; i++) axes.dims[axes.rank++] = i;
    const sl_value mean = sl_onnx_reduce(c, "mean", wide, &axes, true);
    const sl_value centred = sl_onnx_op2(c, "sub", wide, mean);
    const sl_value variance =
        sl_onnx_reduce(c, "mean", sl_onnx_op2(c, "mul", centred, centred), &axes, true);
    sl_onnx_set(c, 1, mean);
    sl_onnx_set(c, 2, sl_onnx_op1(c, "rsqrt", sl_onnx_op_scalar(c, "add", variance, (double)eps)));
}

/* Expands a tensor that broadcasts to the dims from axis on to exactly these. */
static sl_value fit_tail(sl_onnx_call *c, sl_value x, const sl_dims *tail) {
    const sl_type type = sl_onnx_type(c, x);
    sl_dims shape = *tail;
    if (sl_type_elements(&type) != sl_dims_tail(tail, 0)) return sl_onnx_expand(c, x, &shape);
    return sl_dims_equal(&type.shape, tail) ? x : sl_onnx_reshape(c, x, &shape);
}

void sl_onnx_layer_norm(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    const uint32_t axis = sl_onnx_axis(c, sl_onnx_int(c, "axis", -1), type.shape.rank);
    const float eps = sl_onnx_float(c, "epsilon", 1e-5f);
    sl_dims tail = {0};
    for (uint32_t i = axis; i < type.shape.rank; i++) tail.dims[tail.rank++] = type.shape.dims[i];
    const sl_value bias = sl_onnx_has(c, 2) ? sl_onnx_in(c, 2) : sl_onnx_scalar(c, type.dtype, 0);
    const sl_value in[] = {sl_onnx_in(c, 0), fit_tail(c, sl_onnx_in(c, 1), &tail),
                           fit_tail(c, bias, &tail)};
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"layer_norm", 3, 1, in, &out}, "axis=%u, eps=%.9g", axis,
                   (double)eps);
    sl_onnx_set(c, 0, out);
    if (sl_onnx_wants(c, 1) || sl_onnx_wants(c, 2)) set_moments(c, in[0], axis, eps);
}

/* x / (bias + alpha * mean of the squares of neighbouring channels)^beta; missing neighbours count
 * as 0. */
void sl_onnx_lrn(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const sl_dims shape = sl_onnx_type(c, x).shape;
    const int64_t size = sl_onnx_int(c, "size", 0);
    if (shape.rank < 2 || size < 1 || size > INT32_MAX) {
        sl_onnx_wrong(
            c, "an input of %u dims with size %lld, wanted at least 2 dims and a positive size",
            shape.rank, (long long)size);
        return;
    }
    const sl_dims rows = {4, {shape.dims[0], 1, shape.dims[1], sl_dims_tail(&shape, 2)}};
    sl_value sum = sl_onnx_reshape(c, sl_onnx_op2(c, "mul", x, x), &rows);
    sum = sl_onnx_with(c, "pool_sum", sum,
                       "kernel=[%lld, 1], strides=[1, 1], pads_before=[%lld, 0], "
                       "pads_after=[%lld, 0], dilations=[1, 1]",
                       (long long)size, (long long)((size - 1) / 2), (long long)(size / 2));
    const double alpha = (double)sl_onnx_float(c, "alpha", 1e-4f) / (double)size;
    sum = sl_onnx_op_scalar(c, "mul", sl_onnx_reshape(c, sum, &shape), alpha);
    sum = sl_onnx_op_scalar(c, "add", sum, (double)sl_onnx_float(c, "bias", 1));
    sum = sl_onnx_op_scalar(c, "pow", sum, (double)sl_onnx_float(c, "beta", 0.75f));
    sl_onnx_set(c, 0, sl_onnx_op2(c, "div", x, sum));
}
