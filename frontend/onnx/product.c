/* product.c - Matrix products. */
#include "frontend/onnx/families.h"
#include <string.h>

/* As in NumPy: vectors become matrices of one row or column, and that dim is removed from the
 * result. */
sl_value sl_onnx_product(sl_onnx_call *c, sl_value a, sl_value b) {
    sl_dims left = sl_onnx_type(c, a).shape, right = sl_onnx_type(c, b).shape;
    if (left.rank == 1) a = sl_onnx_reshape(c, a, &(sl_dims){2, {1, left.dims[0]}});
    if (right.rank == 1) b = sl_onnx_reshape(c, b, &(sl_dims){2, {right.dims[0], 1}});
    sl_value out = sl_onnx_op2(c, "matmul", a, b);
    if (left.rank > 1 && right.rank > 1) return out;
    sl_dims shape = sl_onnx_type(c, out).shape, kept = {0};
    for (uint32_t i = 0; i < shape.rank; i++) {
        const bool row = left.rank == 1 && i + 2 == shape.rank;
        const bool column = right.rank == 1 && i + 1 == shape.rank;
        if (!row && !column) kept.dims[kept.rank++] = shape.dims[i];
    }
    return sl_onnx_reshape(c, out, &kept);
}

void sl_onnx_matmul(sl_onnx_call *c) {
    sl_onnx_set(c, 0, sl_onnx_product(c, sl_onnx_in(c, 0), sl_onnx_in(c, 1)));
}

static sl_value maybe_turned(sl_onnx_call *c, uint32_t input, const char *attr) {
    const sl_value x = sl_onnx_in(c, input);
    return sl_onnx_int(c, attr, 0) ? sl_onnx_transpose(c, x, &(sl_dims){2, {1, 0}}) : x;
}

static sl_value scaled(sl_onnx_call *c, sl_value x, const char *attr) {
    const float factor = sl_onnx_float(c, attr, 1);
    return factor == 1 ? x : sl_onnx_op_scalar(c, "mul", x, (double)factor);
}

void sl_onnx_gemm(sl_onnx_call *c) {
    const sl_value a = maybe_turned(c, 0, "transA"), b = maybe_turned(c, 1, "transB");
    sl_value out = scaled(c, sl_onnx_op2(c, "matmul", a, b), "alpha");
    if (sl_onnx_has(c, 2)) out = sl_onnx_op2(c, "add", out, scaled(c, sl_onnx_in(c, 2), "beta"));
    sl_onnx_set(c, 0, out);
}

/* x - zero in i32; a vector has an entry per row (or column) of x. */
sl_value sl_onnx_centred(sl_onnx_call *c, uint32_t input, uint32_t zero, bool rows) {
    const sl_value x = sl_onnx_cast(c, sl_onnx_in(c, input), SL_DTYPE_i32);
    if (!sl_onnx_has(c, zero)) return x;
    sl_value point = sl_onnx_cast(c, sl_onnx_in(c, zero), SL_DTYPE_i32);
    const sl_dims shape = sl_onnx_type(c, point).shape;
    if (rows && shape.rank == 1 && shape.dims[0] > 1)
        point = sl_onnx_reshape(c, point, &(sl_dims){2, {shape.dims[0], 1}});
    return sl_onnx_op2(c, "sub", x, point);
}

void sl_onnx_matmul_integer(sl_onnx_call *c) {
    const sl_value a = sl_onnx_centred(c, 0, 2, true), b = sl_onnx_centred(c, 1, 3, false);
    sl_onnx_set(c, 0, sl_onnx_product(c, a, b));
}
