#include "compiler/ops/control_scan.h"
#include <string.h>

sl_type sl_scan_slice(const sl_type *stack) {
    sl_type slice = {.dtype = stack->dtype, .shape = {.rank = stack->shape.rank - 1}};
    memcpy(slice.shape.dims, stack->shape.dims + 1, slice.shape.rank * sizeof slice.shape.dims[0]);
    return slice;
}

/* All xs must have the same length, which is the scan's. */
static sl_status check_xs(const sl_infer_args *a, sl_scan_form *form, sl_error *err) {
    for (uint32_t x = 0; x < form->xs; x++) {
        const sl_type *type = &a->in[form->carries + form->consts + x];
        char text[SL_TYPE_TEXT];
        if (type->shape.rank == 0 || !sl_dtype_infos[type->dtype].bytes)
            return sl_fail(err, SL_INVALID,
                           "%s: x %u is %s, must have plain elements and a first dim", a->label, x,
                           sl_type_format(type, text, sizeof text));
        if (x == 0 && form->length == 0) form->length = type->shape.dims[0];
        if (type->shape.dims[0] != form->length)
            return sl_fail(err, SL_INVALID, "%s: x %u is %s, its first dim must be %lld", a->label,
                           x, sl_type_format(type, text, sizeof text), (long long)form->length);
    }
    return SL_OK;
}

sl_status sl_scan_check(const sl_infer_args *a, sl_scan_form *form, uint32_t inputs,
                        sl_body_check *body, sl_error *err) {
    SL_TRY(sl_check_inputs(a, err));
    SL_TRY(sl_check_attr(a->label, "reverse", form->reverse, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "length", form->length, 0, INT64_C(1) << 48, err));
    SL_TRY(sl_check_attr(a->label, "carries", form->carries, 0, inputs, err));
    SL_TRY(sl_check_attr(a->label, "consts", form->consts, 0, inputs - form->carries, err));
    form->xs = inputs - form->carries - form->consts;
    if (!form->xs && form->length == 0)
        return sl_fail(err, SL_INVALID, "%s: length is 0, must be given as there are no xs",
                       a->label);
    SL_TRY(check_xs(a, form, err));
    SL_TRY(sl_body_begin(body, a, "body", form->body, err));
    for (uint32_t i = 0; i < form->carries; i++) SL_TRY(sl_body_takes(body, &a->in[i], "carry", i));
    for (uint32_t i = 0; i < form->consts; i++)
        SL_TRY(sl_body_takes(body, &a->in[form->carries + i], "const", i));
    for (uint32_t i = 0; i < form->xs; i++) {
        const sl_type slice = sl_scan_slice(&a->in[form->carries + form->consts + i]);
        SL_TRY(sl_body_takes(body, &slice, "an element of x", i));
    }
    if (form->body->output_count < form->carries)
        return sl_fail(err, SL_INVALID, "%s: body has %u outputs, must have %u carries", a->label,
                       form->body->output_count, form->carries);
    form->ys = form->body->output_count - form->carries;
    SL_TRY(sl_body_ends(body, form->body->output_count));
    for (uint32_t c = 0; c < form->carries; c++)
        SL_TRY(sl_body_gives(body, c, &a->in[c], "carry", c));
    return SL_OK;
}

sl_status sl_scan_stacked(const sl_body_check *body, const sl_scan_form *form, uint32_t output,
                          sl_type *out) {
    sl_type one;
    SL_TRY(sl_body_output(body, output, &one));
    if (one.shape.rank == SL_MAX_RANK)
        return sl_fail(body->err, SL_INVALID, "%s: output %u of body has %d dims, must have fewer",
                       body->args->label, output, SL_MAX_RANK);
    *out = (sl_type){.dtype = one.dtype, .shape = {.rank = one.shape.rank + 1}};
    out->shape.dims[0] = form->length;
    memcpy(out->shape.dims + 1, one.shape.dims, one.shape.rank * sizeof one.shape.dims[0]);
    return SL_OK;
}

void sl_scan_count(sl_scan_form *form, uint32_t inputs, const sl_eval_tensor *in) {
    form->xs = inputs - form->carries - form->consts;
    form->ys = form->body->output_count - form->carries;
    if (form->xs) form->length = in[form->carries + form->consts].type.shape.dims[0];
}

sl_eval_tensor sl_scan_part(const sl_eval_tensor *stack, int64_t t) {
    sl_eval_tensor part = {.type = sl_scan_slice(&stack->type)};
    part.data = stack->data + t * sl_type_slots(&part.type);
    return part;
}

sl_status sl_scan_give_rest(const sl_body_eval *body, const sl_scan_form *form,
                            const sl_eval_tensor *in, int64_t t, sl_error *err) {
    const uint32_t first = form->carries + form->consts;
    for (uint32_t i = form->carries; i < first; i++) SL_TRY(sl_body_give(body, i, &in[i], err));
    for (uint32_t i = first; i < first + form->xs; i++) {
        const sl_eval_tensor part = sl_scan_part(&in[i], t);
        SL_TRY(sl_body_give(body, i, &part, err));
    }
    return SL_OK;
}

void sl_scan_store(const sl_body_eval *body, uint32_t output, int64_t t,
                   const sl_eval_tensor *stack) {
    const sl_eval_tensor part = sl_scan_part(stack, t);
    sl_body_take(body, output, 1, &part);
}
