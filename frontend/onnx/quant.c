/* quant.c - Quantisation. */
#include "frontend/onnx/families.h"

/* x quantised to the type of the zero point; scale and zero are inputs of the call. */
sl_value sl_onnx_quantized(sl_onnx_call *c, sl_value x, uint32_t scale, uint32_t zero,
                           int64_t axis) {
    sl_dtype to = SL_DTYPE_u8;
    const sl_value by = sl_onnx_in(c, scale);
    const sl_type type = sl_onnx_type(c, by);
    sl_value point;
    if (sl_onnx_has(c, zero)) {
        point = sl_onnx_in(c, zero);
        to = sl_onnx_type(c, point).dtype;
    } else {
        const int64_t wanted = sl_onnx_int(c, "output_dtype", 0);
        if (wanted && !sl_onnx_type_find((int32_t)wanted, &to))
            sl_onnx_refuse(c, "output type %s is not supported",
                           sl_onnx_type_name((int32_t)wanted));
        point = sl_onnx_expand(c, sl_onnx_scalar(c, to, 0), &type.shape);
    }
    const sl_value three[] = {x, by, point};
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"quantize", 3, 1, three, &out}, "axis=%lld, to=%s",
                   (long long)axis, sl_dtype_infos[to].name);
    return out;
}

/* The axis of the parameters; ignored, and possibly invalid, if there is only one. */
static int64_t parameter_axis(sl_onnx_call *c) {
    const sl_type scale = sl_onnx_in_type(c, 1);
    if (sl_onnx_int(c, "block_size", 0)) sl_onnx_refuse(c, "block_size is not supported");
    return sl_type_elements(&scale) == 1 ? 0 : sl_onnx_int(c, "axis", 1);
}

void sl_onnx_quantize(sl_onnx_call *c) {
    sl_value x = sl_onnx_in(c, 0);
    const sl_dtype real = sl_onnx_in_type(c, 1).dtype;
    if (sl_onnx_type(c, x).dtype != real) x = sl_onnx_cast(c, x, real);
    sl_onnx_set(c, 0, sl_onnx_quantized(c, x, 1, 2, parameter_axis(c)));
}

void sl_onnx_dequantize(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0), scale = sl_onnx_in(c, 1);
    const sl_type type = sl_onnx_type(c, scale);
    const int64_t axis = parameter_axis(c);
    const sl_value zero =
        sl_onnx_has(c, 2)
            ? sl_onnx_in(c, 2)
            : sl_onnx_expand(c, sl_onnx_scalar(c, sl_onnx_type(c, x).dtype, 0), &type.shape);
    const sl_value three[] = {x, scale, zero};
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"dequantize", 3, 1, three, &out}, "axis=%lld",
                   (long long)axis);
    sl_onnx_set(c, 0, out);
}

/* Inputs: a, its scale and zero point, b, its scale and zero point, those of y.  A vector of a's is
 * per row. */
void sl_onnx_qlinear_matmul(sl_onnx_call *c) {
    const sl_value a = sl_onnx_centred(c, 0, 2, true), b = sl_onnx_centred(c, 3, 5, false);
    sl_value left = sl_onnx_in(c, 1);
    const sl_dims rows = sl_onnx_type(c, left).shape;
    if (rows.rank == 1 && rows.dims[0] > 1)
        left = sl_onnx_reshape(c, left, &(sl_dims){2, {rows.dims[0], 1}});
    const sl_value scale = sl_onnx_op2(c, "mul", left, sl_onnx_in(c, 4));
    const sl_value sum = sl_onnx_product(c, a, b);
    const sl_value real =
        sl_onnx_op2(c, "mul", sl_onnx_cast(c, sum, sl_onnx_type(c, scale).dtype), scale);
    sl_onnx_set(c, 0, sl_onnx_quantized(c, real, 6, 7, 0));
}

/* The range of x, extended to include 0, in 256 steps of u8. */
void sl_onnx_dynamic_quantize(sl_onnx_call *c) {
    const sl_value x = sl_onnx_in(c, 0);
    const sl_integers all = {0};
    const sl_dims axes = sl_onnx_axes(c, &all, sl_onnx_type(c, x).shape.rank);
    const sl_value most =
        sl_onnx_op_scalar(c, "maximum", sl_onnx_reduce(c, "max", x, &axes, false), 0);
    const sl_value least =
        sl_onnx_op_scalar(c, "minimum", sl_onnx_reduce(c, "min", x, &axes, false), 0);
    const sl_value scale = sl_onnx_op_scalar(c, "div", sl_onnx_op2(c, "sub", most, least), 255);
    const sl_value start = sl_onnx_op1(c, "neg", sl_onnx_op2(c, "div", least, scale));
    const sl_value kept =
        sl_onnx_op_scalar(c, "minimum", sl_onnx_op_scalar(c, "maximum", start, 0), 255);
    const sl_value zero = sl_onnx_cast(c, sl_onnx_op1(c, "round", kept), SL_DTYPE_u8);
    const sl_value three[] = {x, scale, zero};
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"quantize", 3, 1, three, &out}, "axis=0, to=u8");
    sl_onnx_set(c, 0, out);
    sl_onnx_set(c, 1, scale);
    sl_onnx_set(c, 2, zero);
}
