/* families.h - The functions of ops.def, and helpers that several families share. */
#ifndef SL_FRONTEND_ONNX_FAMILIES_H
#define SL_FRONTEND_ONNX_FAMILIES_H
#include "frontend/onnx/importer.h"

#define ONNX(NAME, SINCE, FUNCTION, OP) sl_onnx_fn sl_onnx_##FUNCTION;
#define TRAINING(NAME, SINCE, FUNCTION) sl_onnx_fn sl_onnx_##FUNCTION;
#include "frontend/onnx/ops.def"

/* product.c: a matrix product with NumPy's rules for vectors. */
sl_value sl_onnx_product(sl_onnx_call *c, sl_value a, sl_value b);
/* An input minus its zero point, in i32; a vector of zero points is per row, else per column. */
sl_value sl_onnx_centred(sl_onnx_call *c, uint32_t input, uint32_t zero, bool rows);
/* quant.c: x quantised with the scale and zero point of these inputs. */
sl_value sl_onnx_quantized(sl_onnx_call *c, sl_value x, uint32_t scale, uint32_t zero,
                           int64_t axis);
#endif
