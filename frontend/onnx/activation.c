/* activation.c - Activations, built from basic ops. */
#include "frontend/onnx/families.h"
#include <string.h>

/* x if it is not negative, else the other value. */
static sl_value keep_positive(sl_onnx_call *c, sl_value x, sl_value otherwise) {
    return sl_onnx_op3(c, "where", sl_onnx_op_scalar(c, "less", x, 0), otherwise, x);
}

static sl_value within_0_1(sl_onnx_call *c, sl_value x) {
    return sl_onnx_op_scalar(c, "minimum", sl_onnx_op_scalar(c, "maximum", x, 0), 1);
}

void sl_onnx_elu(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const float alpha = sl_onnx_float(c, "alpha", 1);
    sl_onnx_set(c, 0,
                keep_positive(
                    c, x, sl_onnx_op_scalar(c, "mul", sl_onnx_op1(c, "expm1", x), (double)alpha)));
}

void sl_onnx_celu(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const double alpha = (double)sl_onnx_float(c, "alpha", 1);
    const sl_value e = sl_onnx_op1(c, "expm1", sl_onnx_op_scalar(c, "div", x, alpha));
    sl_onnx_set(c, 0, keep_positive(c, x, sl_onnx_op_scalar(c, "mul", e, alpha)));
}

void sl_onnx_selu(sl_onnx_call *c) {
    const bool old = c->opset < 6;
    const double alpha =
        (double)sl_onnx_float(c, "alpha", old ? 1.6732f : 1.67326319217681884765625f);
    const double gamma =
        (double)sl_onnx_float(c, "gamma", old ? 1.0507f : 1.05070102214813232421875f);
    const sl_value x = sl_onnx_in(c, 0);
    const sl_value e = sl_onnx_op_scalar(c, "mul", sl_onnx_op1(c, "expm1", x), alpha);
    sl_onnx_set(c, 0, sl_onnx_op_scalar(c, "mul", keep_positive(c, x, e), gamma));
}

void sl_onnx_leaky_relu(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const double alpha = (double)sl_onnx_float(c, "alpha", 0.01f);
    sl_onnx_set(c, 0, keep_positive(c, x, sl_onnx_op_scalar(c, "mul", x, alpha)));
}

/* Before opset 7 the slopes of channels are one-dimensional. */
void sl_onnx_prelu(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    sl_value slope = sl_onnx_in(c, 1);
    const sl_dims to = sl_onnx_type(c, x).shape;
    sl_dims shape = sl_onnx_type(c, slope).shape;
    if (c->opset < 7 && shape.rank == 1 && shape.dims[0] != 1) {
        while (shape.rank + 1 < to.rank) shape.dims[shape.rank++] = 1;
        slope = sl_onnx_reshape(c, slope, &shape);
    }
    sl_onnx_set(c, 0, keep_positive(c, x, sl_onnx_op2(c, "mul", x, slope)));
}

void sl_onnx_thresholded_relu(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const sl_value above = sl_onnx_op_scalar(c, "greater", x, (double)sl_onnx_float(c, "alpha", 1));
    const sl_value zero = sl_onnx_scalar(c, sl_onnx_type(c, x).dtype, 0);
    sl_onnx_set(c, 0, sl_onnx_op3(c, "where", above, x, zero));
}

void sl_onnx_hard_sigmoid(sl_onnx_call *c) {
    const double alpha = (double)sl_onnx_float(c, "alpha", 0.2f);
    const double beta = (double)sl_onnx_float(c, "beta", 0.5f);
    const sl_value x = sl_onnx_op_scalar(c, "mul", sl_onnx_in(c, 0), alpha);
    sl_onnx_set(c, 0, within_0_1(c, sl_onnx_op_scalar(c, "add", x, beta)));
}

void sl_onnx_hard_swish(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    sl_value gate = sl_onnx_op_scalar(c, "mul", x, 1.0 / 6);
    gate = within_0_1(c, sl_onnx_op_scalar(c, "add", gate, 0.5));
    sl_onnx_set(c, 0, sl_onnx_op2(c, "mul", x, gate));
}

void sl_onnx_softsign(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const sl_value below = sl_onnx_op_scalar(c, "add", sl_onnx_op1(c, "abs", x), 1);
    sl_onnx_set(c, 0, sl_onnx_op2(c, "div", x, below));
}

void sl_onnx_shrink(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const double bias = (double)sl_onnx_float(c, "bias", 0);
    const double limit = (double)sl_onnx_float(c, "lambd", 0.5f);
    const sl_value zero = sl_onnx_scalar(c, sl_onnx_type(c, x).dtype, 0);
    const sl_value low = sl_onnx_op3(c, "where", sl_onnx_op_scalar(c, "less", x, -limit),
                                     sl_onnx_op_scalar(c, "add", x, bias), zero);
    sl_onnx_set(c, 0,
                sl_onnx_op3(c, "where", sl_onnx_op_scalar(c, "greater", x, limit),
                            sl_onnx_op_scalar(c, "sub", x, bias), low));
}

void sl_onnx_gelu(sl_onnx_call *c) {
    const bool tanh = strcmp(sl_onnx_text(c, "approximate", "none"), "tanh") == 0;
    sl_onnx_set(c, 0, sl_onnx_op1(c, tanh ? "gelu_approx" : "gelu", sl_onnx_in(c, 0)));
}

void sl_onnx_mish(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const sl_value gate = sl_onnx_op1(c, "tanh", sl_onnx_op1(c, "softplus", x));
    sl_onnx_set(c, 0, sl_onnx_op2(c, "mul", x, gate));
}
