/* quant_a8.c - Activations in 8 bits, and the fused ops that end in them. */
#include "compiler/ops/check.h"
#include "core/codec.h"
#include <stdio.h>
#include <string.h>

/* Of the same length, so that one can be written over the other. */
static const char weight[] = "weight", panels[] = "panels";
_Static_assert(sizeof weight == sizeof panels, "class names of one length");

sl_status sl_match_product(const sl_infer_args *a, const char *signature, sl_error *err) {
    char text[128];
    if (a->in[0].dtype != SL_DTYPE_a8) return sl_match(a, signature, err);
    (void)snprintf(text, sizeof text, "%s", signature);
    for (char *at = strstr(text, weight); at; at = strstr(at, weight))
        memcpy(at, panels, sizeof panels - 1);
    return sl_match(a, text, err);
}

sl_status infer_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,K] -> a8[..,K]", err);
}

/* One group of values as floats; in place, since every group is read before it is written. */
static void quantise_group(const double *x, int64_t n, double *out) {
    const sl_type type = sl_type_make(SL_DTYPE_a8, 2, (int64_t)1, n);
    float values[SL_GROUP_COLS];
    _Alignas(64) uint8_t coded[SL_GROUP_COLS + 3 * sizeof(float)];
    for (int64_t i = 0; i < n; i++) values[i] = (float)x[i];
    sl_quantise_rows(&type, values, coded);
    sl_decode_tensor(&type, coded, out);
}

static void quantise_rows(const double *x, int64_t rows, int64_t cols, double *out) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += SL_GROUP_COLS)
            quantise_group(x + r * cols + c, cols - c < SL_GROUP_COLS ? cols - c : SL_GROUP_COLS,
                           out + r * cols + c);
}

void sl_eval_quantise(double *x, int64_t rows, int64_t cols) {
    quantise_rows(x, rows, cols, x);
}

sl_status eval_quantise(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t cols = sl_eval_last_dim(a, 0);
    quantise_rows(x, sl_type_elements(&a->in[0].type) / cols, cols, a->out[0].data);
    return SL_OK;
}

/* ---- fused: an op whose last result is quantised ---- */

/* The op on the same inputs, results but the last, and then what quantise makes of that one. */
static sl_status eval_quantised(const sl_eval_args *a, sl_op op, const void *attrs, uint32_t last,
                                sl_error *err) {
    const int64_t cols = sl_eval_last_dim(&(sl_eval_args){.in = &a->out[last]}, 0);
    const int64_t rows = sl_type_elements(&a->out[last].type) / cols;
    const sl_op_info *info = sl_op_info_of(op);
    const sl_eval_args args = {
        a->label, a->in, attrs, a->out, a->scratch, info->input_count, info->output_count};
    SL_TRY(sl_eval(op, &args, err));
    quantise_rows(a->out[last > 0 ? last - 1 : 0].data, rows, cols, a->out[last].data);
    return SL_OK;
}

sl_status infer_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gain f32[D] -> f32[..,D], a8[..,D]", err);
}
sl_status eval_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_quantise_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    return eval_quantised(a, SL_OP_rms_norm, &norm, 1, err);
}

sl_status infer_add_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "a f32[..,D], b f32[..,D], gain f32[D] -> f32[..,D], f32[..,D], a8[..,D]",
                    err);
}
sl_status eval_add_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_add_rms_norm_quantise_attrs *attrs = a->attrs;
    const sl_add_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    return eval_quantised(a, SL_OP_add_rms_norm, &norm, 2, err);
}

sl_status infer_gated_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], z f32[..,D], gain f32[D] -> a8[..,D]", err);
}
sl_status eval_gated_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_gated_rms_norm_quantise_attrs *attrs = a->attrs;
    return eval_quantised(a, SL_OP_gated_rms_norm, &(sl_gated_rms_norm_attrs){.eps = attrs->eps}, 0,
                          err);
}

sl_status infer_sigmoid_gate_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gate f32[..,D] -> a8[..,D]", err);
}
sl_status eval_sigmoid_gate_quantise(const sl_eval_args *a, sl_error *err) {
    return eval_quantised(a, SL_OP_sigmoid_gate, NULL, 0, err);
}

sl_status infer_linear_swiglu_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], w_gate weight[N,K], w_up weight[N,K] -> a8[T,N]", err);
}
sl_status eval_linear_swiglu_quantise(const sl_eval_args *a, sl_error *err) {
    return eval_quantised(a, SL_OP_linear_swiglu, NULL, 0, err);
}
