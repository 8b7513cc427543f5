/* elementwise_gated.c - Elementwise ops of language models. */
#include "compiler/ops/check.h"

sl_status sl_infer_sigmoid_gate(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..], gate f32[..] -> f32[..]", err);
}

sl_status sl_eval_sigmoid_gate(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t count = sl_type_elements(&a->out[0].type);
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = in[0][i] * sl_sigmoid(in[1][i]);
    return SL_OK;
}

sl_status sl_infer_swiglu(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "gate f32[..], up f32[..] -> f32[..]", err);
}

sl_status sl_eval_swiglu(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t count = sl_type_elements(&a->out[0].type);
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = sl_silu(in[0][i]) * in[1][i];
    return SL_OK;
}

sl_status sl_infer_add3(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "a f32[..], b f32[..], c f32[..] -> f32[..]", err);
}

sl_status sl_eval_add3(const sl_eval_args *a, sl_error *err) {
    sl_eval_tensor sum;
    SL_TRY(sl_eval_temp(a, &a->out[0].type, &sum, err));
    SL_TRY(sl_eval_part(a, SL_OP_add, a->in, NULL, &sum, err));
    return sl_eval_part(a, SL_OP_add, (sl_eval_tensor[]){sum, a->in[2]}, NULL, a->out, err);
}
