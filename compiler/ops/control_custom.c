/* control_custom.c - Custom ops: type inference and evaluation through their callbacks. */
#include "compiler/ops/body.h"
#include "core/custom.h"
#include <string.h>

/* The inputs as callbacks see them; outputs are set by the caller. */
static bool make_call(const sl_infer_args *a, sl_arena *arena, sl_custom_call *out) {
    const sl_custom_attrs *attrs = a->attrs;
    sl_tensor_type *inputs = SL_ARENA_NEW_ARRAY(arena, sl_tensor_type, (size_t)a->in_count + 1);
    if (!inputs) return false;
    for (uint32_t i = 0; i < a->in_count; i++) inputs[i] = sl_tensor_type_of(&a->in[i]);
    *out = (sl_custom_call){.struct_size = sizeof *out,
                            .attrs = attrs->attrs,
                            .input_count = a->in_count,
                            .output_count = a->out_count,
                            .inputs = inputs};
    return true;
}

/* Checks the type of a result that a callback has set. */
static sl_status take_type(const sl_infer_args *a, const sl_tensor_type *given, uint32_t output,
                           sl_error *err) {
    const sl_custom_attrs *attrs = a->attrs;
    sl_type *out = &a->out[output];
    if (!given->dtype || !sl_dtype_find(given->dtype, strlen(given->dtype), &out->dtype))
        return sl_fail(err, SL_INVALID, "%s: custom op '%s' gives result %u the element type '%s'",
                       a->label, attrs->name, output, given->dtype ? given->dtype : "(none)");
    if (!sl_dtype_infos[out->dtype].bytes)
        return sl_fail(
            err, SL_INVALID,
            "%s: custom op '%s' gives result %u the element type %s, must be a plain one", a->label,
            attrs->name, output, given->dtype);
    out->shape = (sl_dims){.rank = given->rank};
    if (given->rank <= SL_MAX_RANK)
        memcpy(out->shape.dims, given->dims, given->rank * sizeof given->dims[0]);
    return sl_type_check_shape(out, a->label, err);
}

static sl_status ask_shape(const sl_infer_args *a, sl_arena *arena, sl_error *err) {
    const sl_custom_attrs *attrs = a->attrs;
    const sl_custom_op *op = attrs->handler;
    sl_custom_call call;
    sl_tensor_type *types = SL_ARENA_NEW_ARRAY(arena, sl_tensor_type, (size_t)a->out_count + 1);
    sl_error found = {0};
    if (!types || !make_call(a, arena, &call)) return sl_no_memory(err, a->label, a->in_count);
    const sl_status status =
        sl_custom_result(op, "shape", op->shape(op->ctx, &call, types, &found), &found);
    if (status != SL_OK) return sl_fail(err, status, "%s: %s", a->label, found.message);
    for (uint32_t o = 0; o < a->out_count; o++) SL_TRY(take_type(a, &types[o], o, err));
    return SL_OK;
}

sl_status sl_infer_custom(const sl_infer_args *a, sl_error *err) {
    const sl_custom_attrs *attrs = a->attrs;
    SL_TRY(sl_check_inputs(a, err));
    if (!attrs->handler)
        return sl_fail(err, SL_INVALID, "%s: no custom op '%s' is registered with the graph",
                       a->label, attrs->name);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const sl_status status = ask_shape(a, &arena, err);
    sl_arena_deinit(&arena);
    return status;
}

sl_status sl_eval_custom(const sl_eval_args *a, sl_error *err) {
    const sl_custom_attrs *attrs = a->attrs;
    const sl_custom_op *op = attrs->handler;
    const size_t count = (size_t)a->in_count + a->out_count + 1;
    sl_tensor_type *types = SL_ARENA_NEW_ARRAY(a->scratch, sl_tensor_type, count);
    const double **inputs = SL_ARENA_NEW_ARRAY(a->scratch, const double *, count);
    double **outputs = SL_ARENA_NEW_ARRAY(a->scratch, double *, count);
    sl_error found = {0};
    if (!op->eval)
        return sl_fail(err, SL_UNSUPPORTED, "%s: custom op '%s' has no eval", a->label, op->name);
    if (!types || !inputs || !outputs) return sl_no_memory(err, a->label, count);
    SL_TRY(sl_eval_inputs(a, a->in_count, inputs, err));
    for (uint32_t i = 0; i < a->in_count; i++) types[i] = sl_tensor_type_of(&a->in[i].type);
    for (uint32_t o = 0; o < a->out_count; o++) {
        types[a->in_count + o] = sl_tensor_type_of(&a->out[o].type);
        outputs[o] = a->out[o].data;
    }
    const sl_custom_call call = {sizeof call,  attrs->attrs, a->in_count,
                                 a->out_count, types,        types + a->in_count};
    const sl_status status =
        sl_custom_result(op, "eval", op->eval(op->ctx, &call, inputs, outputs, &found), &found);
    return status == SL_OK ? SL_OK : sl_fail(err, status, "%s: %s", a->label, found.message);
}
