/* semantics.c - Collects sl_infer_* and sl_eval_* into one table. */
#include "compiler/ops/semantics.h"
#include "core/codec.h"

#define OP(NAME, ...)                                                                              \
    sl_infer_fn sl_infer_##NAME;                                                                   \
    sl_eval_fn sl_eval_##NAME;
#include "core/ops.def"

static const struct {
    sl_infer_fn *infer;
    sl_eval_fn *eval;
} semantics[SL_OP_COUNT] = {
#define OP(NAME, ...) [SL_OP_##NAME] = {sl_infer_##NAME, sl_eval_##NAME},
#include "core/ops.def"
};

sl_status sl_infer(sl_op op, const sl_infer_args *a, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(op);
    for (uint32_t o = 0; o < info->output_count; o++)
        if (info->output_state[o] >= 0) a->out[o] = a->in[info->output_state[o]];
    SL_TRY(semantics[op].infer(a, err));
    for (uint32_t o = 0; o < a->out_count; o++)
        SL_TRY(sl_type_check_shape(&a->out[o], a->label, err));
    return SL_OK;
}

sl_status sl_infer_plain(sl_op op, const char *label, const sl_type *in, const void *attrs,
                         sl_type *out, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(op);
    const sl_infer_args args = {label, in, attrs, out, info->input_count, info->output_count};
    return sl_infer(op, &args, err);
}

/* An op whose results are all empty computes nothing, as on devices. */
static bool is_empty(const sl_eval_args *args) {
    for (uint32_t o = 0; o < args->out_count; o++)
        if (sl_type_elements(&args->out[o].type)) return false;
    return args->out_count > 0;
}

sl_status sl_eval(sl_op op, const sl_eval_args *args, sl_error *err) {
    if (is_empty(args)) return SL_OK;
    return semantics[op].eval(args, err);
}

void sl_eval_row(const sl_eval_tensor *tensor, int64_t row, double *out) {
    const int64_t rows = tensor->type.shape.dims[0], cols = tensor->type.shape.dims[1];
    if (tensor->data) {
        for (int64_t c = 0; c < cols; c++) out[c] = tensor->data[row * cols + c];
        return;
    }
    /* Decode into the upper half of out, then widen in place from the front. */
    float *floats = (float *)(void *)out + cols;
    sl_decode_row(tensor->type.dtype, tensor->coded, rows, cols, row, floats);
    for (int64_t c = 0; c < cols; c++) {
        float value;
        __builtin_memcpy(&value, (const char *)floats + (size_t)c * sizeof value, sizeof value);
        out[c] = (double)value;
    }
}
