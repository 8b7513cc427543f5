/* loss.c - Classification losses, and optimiser steps. */
#include "frontend/onnx/families.h"
#include <string.h>

typedef struct {
    sl_value loss, weights; /* per position; weights 0: all 1 */
} losses;

static sl_value sum_all(sl_onnx_call *c, sl_value x) {
    const sl_integers all = {0};
    const uint32_t rank = sl_onnx_type(c, x).shape.rank;
    const sl_dims axes = rank ? sl_onnx_axes(c, &all, rank) : (sl_dims){0};
    return sl_onnx_reduce(c, "sum", x, &axes, false);
}

/* -log_probs at the labels times the class weights; 0 where the label is ignored. */
static losses likelihood(sl_onnx_call *c, sl_value log_probs) {
    sl_value labels = sl_onnx_in(c, 1), ignored = {0};
    const sl_type type = sl_onnx_type(c, log_probs), places = sl_onnx_type(c, labels);
    losses l = {0};
    if (sl_onnx_attr_of(c, "ignore_index")) {
        const double ignore = (double)sl_onnx_int(c, "ignore_index", 0);
        ignored = sl_onnx_op_scalar(c, "equal", labels, ignore);
        labels = sl_onnx_op3(c, "where", ignored, sl_onnx_scalar(c, places.dtype, 0), labels);
    }
    sl_dims shape = {.rank = places.shape.rank + 1};
    if (shape.rank != type.shape.rank) {
        sl_onnx_wrong(c, "labels have %u dims, which do not fit scores of %u", places.shape.rank,
                      type.shape.rank);
        return l;
    }
    for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = i == 1 ? 1 : type.shape.dims[i];
    const sl_value two[] = {log_probs, sl_onnx_reshape(c, labels, &shape)};
    const sl_value chosen = sl_onnx_with2(c, "take_along", two, "axis=1");
    l.loss = sl_onnx_op1(c, "neg", sl_onnx_reshape(c, chosen, &places.shape));
    if (sl_onnx_has(c, 2)) {
        const sl_value of[] = {sl_onnx_in(c, 2), labels};
        l.weights = sl_onnx_with2(c, "gather", of, "axis=0");
    }
    if (ignored.v) {
        const sl_value one = l.weights.v ? l.weights : sl_onnx_scalar(c, type.dtype, 1);
        const sl_value zero = sl_onnx_scalar(c, type.dtype, 0);
        l.weights = sl_onnx_op3(c, "where", ignored, zero, one);
    }
    if (l.weights.v) l.loss = sl_onnx_op2(c, "mul", l.loss, l.weights);
    return l;
}

static sl_value reduced(sl_onnx_call *c, const losses *l) {
    const char *how = sl_onnx_text(c, "reduction", "mean");
    const sl_type type = sl_onnx_type(c, l->loss);
    if (strcmp(how, "none") == 0) return l->loss;
    const sl_value sum = sum_all(c, l->loss);
    if (strcmp(how, "sum") == 0) return sum;
    if (strcmp(how, "mean") != 0) sl_onnx_refuse(c, "reduction '%s' is not supported", how);
    if (l->weights.v) return sl_onnx_op2(c, "div", sum, sum_all(c, l->weights));
    return sl_onnx_op_scalar(c, "div", sum, (double)sl_type_elements(&type));
}

void sl_onnx_nll_loss(sl_onnx_call *c) {
    const losses l = likelihood(c, sl_onnx_in(c, 0));
    if (!sl_onnx_failed(c)) sl_onnx_set(c, 0, reduced(c, &l));
}

void sl_onnx_softmax_loss(sl_onnx_call *c) {
    const sl_value scores = sl_onnx_in(c, 0);
    const uint32_t rank = sl_onnx_type(c, scores).shape.rank;
    if (rank < 2) sl_onnx_wrong(c, "scores of %u dims, wanted [N,C,..]", rank);
    const sl_value log_probs = sl_onnx_with(c, "log_softmax", scores, "axis=%d", rank < 2 ? 0 : 1);
    const losses l = likelihood(c, log_probs);
    if (!sl_onnx_failed(c)) sl_onnx_set(c, 0, reduced(c, &l));
    if (sl_onnx_wants(c, 1)) sl_onnx_set(c, 1, log_probs);
}

/* ---- Optimisers: inputs R, T, then lists of tensors, gradients, and states ---- */

static sl_value times(sl_onnx_call *c, sl_value x, double factor) {
    return sl_onnx_op_scalar(c, "mul", x, factor);
}
static sl_value plus(sl_onnx_call *c, sl_value a, sl_value b) {
    return sl_onnx_op2(c, "add", a, b);
}
static sl_value scale_by(sl_onnx_call *c, sl_value a, sl_value b) {
    return sl_onnx_op2(c, "mul", a, b);
}

/* Number of trained tensors: the inputs after the first two, divided among the lists. */
static uint32_t trained(sl_onnx_call *c, uint32_t lists) {
    if (c->in_count > 2 && (c->in_count - 2) % lists == 0) return (c->in_count - 2) / lists;
    sl_onnx_wrong(c, "%u inputs", c->in_count);
    return 0;
}

void sl_onnx_adagrad(sl_onnx_call *c) {
    const uint32_t count = trained(c, 3);
    const double decay = (double)sl_onnx_float(c, "decay_factor", 0);
    const double norm = (double)sl_onnx_float(c, "norm_coefficient", 0);
    const double epsilon = (double)sl_onnx_float(c, "epsilon", 1e-6f);
    sl_value rate = sl_onnx_in(c, 0);
    if (decay != 0) {
        const sl_value t = sl_onnx_cast(c, sl_onnx_in(c, 1), sl_onnx_in_type(c, 0).dtype);
        rate = sl_onnx_op2(c, "div", rate, sl_onnx_op_scalar(c, "add", times(c, t, decay), 1));
    }
    for (uint32_t i = 0; i < count; i++) {
        const sl_value x = sl_onnx_in(c, 2 + i);
        const sl_value g = plus(c, times(c, x, norm), sl_onnx_in(c, 2 + count + i));
        const sl_value h = plus(c, sl_onnx_in(c, 2 + 2 * count + i), scale_by(c, g, g));
        const sl_value below = sl_onnx_op_scalar(c, "add", sl_onnx_op1(c, "sqrt", h), epsilon);
        const sl_value step = sl_onnx_op2(c, "div", scale_by(c, rate, g), below);
        sl_onnx_set(c, i, sl_onnx_op2(c, "sub", x, step));
        sl_onnx_set(c, count + i, h);
    }
}

/* The learning rate after T steps: if T > 0, times sqrt(1 - beta^T) / (1 - alpha^T). */
static sl_value adam_rate(sl_onnx_call *c, double alpha, double beta) {
    const sl_value rate = sl_onnx_in(c, 0);
    const sl_dtype dtype = sl_onnx_in_type(c, 0).dtype;
    const sl_value t = sl_onnx_cast(c, sl_onnx_in(c, 1), dtype);
    const sl_value one = sl_onnx_scalar(c, dtype, 1);
    const sl_value b = sl_onnx_op2(c, "pow", sl_onnx_scalar(c, dtype, beta), t);
    const sl_value a = sl_onnx_op2(c, "pow", sl_onnx_scalar(c, dtype, alpha), t);
    const sl_value top = sl_onnx_op1(c, "sqrt", sl_onnx_op2(c, "sub", one, b));
    const sl_value more =
        scale_by(c, rate, sl_onnx_op2(c, "div", top, sl_onnx_op2(c, "sub", one, a)));
    return sl_onnx_op3(c, "where", sl_onnx_op_scalar(c, "greater", t, 0), more, rate);
}

void sl_onnx_adam(sl_onnx_call *c) {
    const uint32_t count = trained(c, 4);
    const double alpha = (double)sl_onnx_float(c, "alpha", 0.9f);
    const double beta = (double)sl_onnx_float(c, "beta", 0.999f);
    const double norm = (double)sl_onnx_float(c, "norm_coefficient", 0);
    const double after = (double)sl_onnx_float(c, "norm_coefficient_post", 0);
    const double epsilon = (double)sl_onnx_float(c, "epsilon", 1e-6f);
    const sl_value rate = adam_rate(c, alpha, beta);
    for (uint32_t i = 0; i < count; i++) {
        const sl_value x = sl_onnx_in(c, 2 + i);
        const sl_value g = plus(c, times(c, x, norm), sl_onnx_in(c, 2 + count + i));
        const sl_value v =
            plus(c, times(c, sl_onnx_in(c, 2 + 2 * count + i), alpha), times(c, g, 1 - alpha));
        const sl_value h = plus(c, times(c, sl_onnx_in(c, 2 + 3 * count + i), beta),
                                times(c, scale_by(c, g, g), 1 - beta));
        const sl_value below = sl_onnx_op_scalar(c, "add", sl_onnx_op1(c, "sqrt", h), epsilon);
        const sl_value step = sl_onnx_op2(c, "div", scale_by(c, rate, v), below);
        sl_onnx_set(c, i, times(c, sl_onnx_op2(c, "sub", x, step), 1 - after));
        sl_onnx_set(c, count + i, v);
        sl_onnx_set(c, 2 * count + i, h);
    }
}

void sl_onnx_momentum(sl_onnx_call *c) {
    const uint32_t count = trained(c, 3);
    const double alpha = (double)sl_onnx_float(c, "alpha", 0);
    const double beta = (double)sl_onnx_float(c, "beta", 0);
    const double norm = (double)sl_onnx_float(c, "norm_coefficient", 0);
    const bool nesterov = strcmp(sl_onnx_text(c, "mode", ""), "nesterov") == 0;
    const sl_value rate = sl_onnx_in(c, 0);
    const sl_value t = sl_onnx_in(c, 1);
    const sl_dtype dtype = sl_onnx_in_type(c, 0).dtype;
    /* In the first step the gradient is not scaled by beta. */
    const sl_value share = sl_onnx_op3(c, "where", sl_onnx_op_scalar(c, "greater", t, 0),
                                       sl_onnx_scalar(c, dtype, beta), sl_onnx_scalar(c, dtype, 1));
    for (uint32_t i = 0; i < count; i++) {
        const sl_value x = sl_onnx_in(c, 2 + i);
        const sl_value g = plus(c, times(c, x, norm), sl_onnx_in(c, 2 + count + i));
        const sl_value v =
            plus(c, times(c, sl_onnx_in(c, 2 + 2 * count + i), alpha), scale_by(c, share, g));
        const sl_value along = nesterov ? plus(c, g, times(c, v, alpha)) : v;
        sl_onnx_set(c, i, sl_onnx_op2(c, "sub", x, scale_by(c, rate, along)));
        sl_onnx_set(c, count + i, v);
    }
}
