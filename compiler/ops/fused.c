/* fused.c - Fused ops are defined by their parts in sequence. */
#include "compiler/ops/check.h"

/* An intermediate value. */
static sl_status make_temp(const sl_eval_args *a, const sl_type *type, sl_eval_tensor *out,
                           sl_error *err) {
    *out = (sl_eval_tensor){.type = *type};
    return sl_eval_scratch(a, sl_type_elements(type), &out->data, err);
}

/* One part with one result. */
static sl_status part(const sl_eval_args *a, sl_op op, const sl_eval_tensor *in, const void *attrs,
                      const sl_eval_tensor *out, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(op);
    const sl_eval_args args = {a->label,          in, attrs, out, a->scratch, info->input_count,
                               info->output_count};
    return sl_eval(op, &args, err);
}

sl_status infer_add_rms_norm(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "a f32[..,D], b f32[..,D], gain f32[D] -> f32[..,D], f32[..,D]", err);
}

sl_status eval_add_rms_norm(const sl_eval_args *a, sl_error *err) {
    const sl_add_rms_norm_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    SL_TRY(part(a, SL_OP_add, a->in, NULL, &a->out[0], err));
    return part(a, SL_OP_rms_norm, (sl_eval_tensor[]){a->out[0], a->in[2]}, &norm, &a->out[1], err);
}

sl_status infer_rms_norm_mul(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gain f32[D], y f32[..,D] -> f32[..,D]", err);
}

sl_status eval_rms_norm_mul(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_mul_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    SL_TRY(part(a, SL_OP_rms_norm, a->in, &norm, a->out, err));
    return part(a, SL_OP_mul, (sl_eval_tensor[]){a->out[0], a->in[2]}, NULL, a->out, err);
}

sl_status infer_linear_swiglu(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], w_gate weight[N,K], w_up weight[N,K] -> f32[T,N]",
                            err);
}

sl_status eval_linear_swiglu(const sl_eval_args *a, sl_error *err) {
    sl_eval_tensor both[2] = {a->out[0]};
    SL_TRY(make_temp(a, &a->out[0].type, &both[1], err));
    for (int i = 0; i < 2; i++)
        SL_TRY(
            part(a, SL_OP_linear, (sl_eval_tensor[]){a->in[0], a->in[1 + i]}, NULL, &both[i], err));
    return part(a, SL_OP_swiglu, both, NULL, a->out, err);
}

sl_status infer_linear_pair(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], wa weight[A,K], wb weight[B,K] -> f32[T,A], f32[T,B]",
                            err);
}

static sl_status eval_products(const sl_eval_args *a, int count, sl_error *err) {
    for (int i = 0; i < count; i++)
        SL_TRY(part(a, SL_OP_linear, (sl_eval_tensor[]){a->in[0], a->in[1 + i]}, NULL, &a->out[i],
                    err));
    return SL_OK;
}

sl_status eval_linear_pair(const sl_eval_args *a, sl_error *err) {
    return eval_products(a, 2, err);
}

sl_status infer_linear_triple(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a,
                            "x rows[T,K], wa weight[A,K], wb weight[B,K], wc weight[C,K] "
                            "-> f32[T,A], f32[T,B], f32[T,C]",
                            err);
}

sl_status eval_linear_triple(const sl_eval_args *a, sl_error *err) {
    return eval_products(a, 3, err);
}

/* By number of act. */
static const sl_op activations[] = {SL_OP_COUNT, SL_OP_relu,    SL_OP_silu,
                                    SL_OP_gelu,  SL_OP_sigmoid, SL_OP_tanh};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

sl_status infer_linear_bias_act(const sl_infer_args *a, sl_error *err) {
    const sl_linear_bias_act_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "act", attrs->act, 0, ACTIVATIONS - 1, err));
    return sl_match_product(a, "x rows[T,K], w weight[N,K], bias f32[N] -> f32[T,N]", err);
}

sl_status eval_linear_bias_act(const sl_eval_args *a, sl_error *err) {
    const sl_op act = activations[((const sl_linear_bias_act_attrs *)a->attrs)->act];
    SL_TRY(part(a, SL_OP_linear, a->in, NULL, a->out, err));
    SL_TRY(part(a, SL_OP_add, (sl_eval_tensor[]){a->out[0], a->in[2]}, NULL, a->out, err));
    return act == SL_OP_COUNT ? SL_OK : part(a, act, a->out, NULL, a->out, err);
}

sl_status infer_norm_rope(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x f32[T,heads,D], gain f32[D], table f32[T,R] -> f32[T,heads,D]", err));
    const sl_rope_attrs rope = {.interleaved = ((const sl_norm_rope_attrs *)a->attrs)->interleaved};
    return infer_rope(
        &(sl_infer_args){a->label, (sl_type[]){a->in[0], a->in[2]}, &rope, a->out, 2, 1}, err);
}

sl_status eval_norm_rope(const sl_eval_args *a, sl_error *err) {
    const sl_norm_rope_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    const sl_rope_attrs rope = {.interleaved = attrs->interleaved};
    SL_TRY(part(a, SL_OP_rms_norm, a->in, &norm, a->out, err));
    return part(a, SL_OP_rope, (sl_eval_tensor[]){a->out[0], a->in[2]}, &rope, a->out, err);
}

sl_status infer_norm_rope_append(const sl_infer_args *a, sl_error *err) {
    const sl_norm_rope_append_attrs *attrs = a->attrs;
    const sl_norm_rope_attrs norm = {.interleaved = attrs->interleaved};
    const sl_type *in = a->in;
    sl_type turned;
    SL_TRY(infer_norm_rope(&(sl_infer_args){a->label, in, &norm, &turned, 3, 1}, err));
    const sl_type appended[] = {turned, in[3], in[4], in[5], in[6], in[7]};
    return infer_kv_append(&(sl_infer_args){a->label, appended, NULL, a->out, 6, 2}, err);
}

sl_status eval_norm_rope_append(const sl_eval_args *a, sl_error *err) {
    const sl_norm_rope_append_attrs *attrs = a->attrs;
    const sl_norm_rope_attrs norm = {
        .eps = attrs->eps, .offset = attrs->offset, .interleaved = attrs->interleaved};
    const sl_eval_tensor *in = a->in;
    sl_eval_tensor k;
    SL_TRY(make_temp(a, &in[0].type, &k, err));
    SL_TRY(part(a, SL_OP_norm_rope, in, &norm, &k, err));
    return part(a, SL_OP_kv_append, (sl_eval_tensor[]){k, in[3], in[4], in[5], in[6], in[7]}, NULL,
                a->out, err);
}

sl_status infer_moe_join(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "y f32[T,k,H], weights f32[T,k], shared f32[T,H], gate f32[T,1], "
                    "residual f32[T,H] -> f32[T,H]",
                    err);
}

sl_status eval_moe_join(const sl_eval_args *a, sl_error *err) {
    const sl_eval_tensor *in = a->in, *out = a->out;
    SL_TRY(part(a, SL_OP_moe_combine, in, NULL, out, err));
    SL_TRY(part(a, SL_OP_shared_combine, (sl_eval_tensor[]){out[0], in[2], in[3]}, NULL, out, err));
    return part(a, SL_OP_add, (sl_eval_tensor[]){in[4], out[0]}, NULL, out, err);
}

sl_status infer_moe_add(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "y f32[T,k,H], weights f32[T,k], residual f32[T,H] -> f32[T,H]", err);
}

sl_status eval_moe_add(const sl_eval_args *a, sl_error *err) {
    const sl_eval_tensor *in = a->in, *out = a->out;
    SL_TRY(part(a, SL_OP_moe_combine, in, NULL, out, err));
    return part(a, SL_OP_add, (sl_eval_tensor[]){in[2], out[0]}, NULL, out, err);
}

sl_status infer_moe_add_shared(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "y f32[T,k,H], weights f32[T,k], shared f32[T,H], residual f32[T,H] "
                    "-> f32[T,H]",
                    err);
}

sl_status eval_moe_add_shared(const sl_eval_args *a, sl_error *err) {
    const sl_eval_tensor *in = a->in, *out = a->out;
    SL_TRY(part(a, SL_OP_moe_combine, in, NULL, out, err));
    SL_TRY(part(a, SL_OP_add, (sl_eval_tensor[]){out[0], in[2]}, NULL, out, err));
    return part(a, SL_OP_add, (sl_eval_tensor[]){in[3], out[0]}, NULL, out, err);
}

sl_status infer_add3(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "a f32[..], b f32[..], c f32[..] -> f32[..]", err);
}

sl_status eval_add3(const sl_eval_args *a, sl_error *err) {
    sl_eval_tensor sum;
    SL_TRY(make_temp(a, &a->out[0].type, &sum, err));
    SL_TRY(part(a, SL_OP_add, a->in, NULL, &sum, err));
    return part(a, SL_OP_add, (sl_eval_tensor[]){sum, a->in[2]}, NULL, a->out, err);
}
