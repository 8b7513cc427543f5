/* quant_a8.c - int8 activations, alone and fused with other ops. */
#include "compiler/ops/check.h"
#include "core/codec.h"

sl_status sl_infer_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,K] -> a8[..,K]", err);
}

/* Rounds one group of values to a8; may be in place, since a group is read before it is written. */
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

void sl_eval_round_a8(double *x, int64_t rows, int64_t cols) {
    quantise_rows(x, rows, cols, x);
}

sl_status sl_eval_quantise(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t cols = sl_eval_last_dim(a, 0);
    quantise_rows(x, sl_type_elements(&a->in[0].type) / cols, cols, a->out[0].data);
    return SL_OK;
}

/* ---- fused: an op whose last result is quantised ---- */

sl_status sl_eval_quantised(const sl_eval_args *a, sl_op op, const void *attrs, uint32_t last,
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

sl_status sl_infer_sigmoid_gate_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gate f32[..,D] -> a8[..,D]", err);
}
sl_status sl_eval_sigmoid_gate_quantise(const sl_eval_args *a, sl_error *err) {
    return sl_eval_quantised(a, SL_OP_sigmoid_gate, NULL, 0, err);
}
