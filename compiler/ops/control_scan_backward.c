/* control_scan_backward.c - Gradients of scan by a given backward body. */
#include "compiler/ops/control_scan.h"
#include <string.h>

_Static_assert(sizeof(sl_scan_backward_attrs) == sizeof(sl_scan_backward_xs_attrs),
               "scan_backward and scan_backward_xs are read alike");

static sl_scan_form form_of(const sl_scan_backward_attrs *attrs) {
    return (sl_scan_form){.body = attrs->body,
                          .carries = attrs->carries,
                          .consts = attrs->consts,
                          .length = attrs->length,
                          .reverse = attrs->reverse};
}

/* The number of inputs of the scan itself; the others are gradients of its results. */
static sl_status count_inputs(const sl_infer_args *a, const sl_scan_form *form, uint32_t *out,
                              sl_error *err) {
    sl_body_check body;
    SL_TRY(sl_check_inputs(a, err));
    SL_TRY(sl_body_begin(&body, a, "body", form->body, err));
    const uint32_t results = form->body->output_count;
    *out = sl_body_input_count(form->body);
    if (a->in_count == (uint64_t)*out + results) return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%s: %u inputs, must be the %u of the scan and gradients of its %u results",
                   a->label, a->in_count, *out, results);
}

static sl_status check_gradient(const sl_infer_args *a, uint32_t result, const sl_type *found,
                                const sl_type *wanted, sl_error *err) {
    char text[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
    if (sl_type_equal(found, wanted)) return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%s: the gradient of result %u is %s, must be %s as the result is", a->label,
                   result, sl_type_format(found, text, sizeof text),
                   sl_type_format(wanted, other, sizeof other));
}

/* The backward body takes the inputs of the body, then a gradient for each of its results. */
static sl_status check_backward(const sl_infer_args *a, const sl_scan_form *form,
                                const sl_body_check *forward, sl_body_check *out, sl_error *err) {
    const sl_scan_backward_attrs *attrs = a->attrs;
    const uint32_t inputs = form->carries + form->consts + form->xs;
    SL_TRY(sl_body_begin(out, a, "backward", attrs->backward, err));
    for (uint32_t i = 0; i < inputs; i++) {
        const bool stacked = i >= form->carries + form->consts;
        const sl_type type = stacked ? sl_scan_slice(&a->in[i]) : a->in[i];
        SL_TRY(sl_body_takes(out, &type, "input", i));
    }
    for (uint32_t i = 0; i < form->carries + form->ys; i++) {
        sl_type type, stacked;
        SL_TRY(sl_body_output(forward, i, &type));
        SL_TRY(sl_body_takes(out, &type, "result", i));
        if (i >= form->carries) SL_TRY(sl_scan_stacked(forward, form, i, &stacked));
        SL_TRY(check_gradient(a, i, &a->in[inputs + i], i < form->carries ? &type : &stacked, err));
    }
    SL_TRY(sl_body_ends(out, inputs));
    for (uint32_t i = 0; i < inputs; i++) {
        const bool stacked = i >= form->carries + form->consts;
        const sl_type type = stacked ? sl_scan_slice(&a->in[i]) : a->in[i];
        SL_TRY(sl_body_gives(out, i, &type, "input", i));
    }
    return SL_OK;
}

/* The results are the gradients of all inputs of the scan, or only of the xs. */
static sl_status infer_from(const sl_infer_args *a, bool xs_alone, sl_error *err) {
    sl_scan_form form = form_of(a->attrs);
    sl_body_check forward, backward;
    uint32_t inputs;
    SL_TRY(count_inputs(a, &form, &inputs, err));
    SL_TRY(sl_scan_check(a, &form, inputs, &forward, err));
    SL_TRY(check_backward(a, &form, &forward, &backward, err));
    const uint32_t first = xs_alone ? form.carries + form.consts : 0;
    if (a->out_count != inputs - first)
        return sl_fail(err, SL_INVALID, "%s: %u results, must be %u, one for each %s of the scan",
                       a->label, a->out_count, inputs - first, xs_alone ? "x" : "input");
    for (uint32_t i = 0; i < a->out_count; i++) a->out[i] = a->in[first + i];
    return SL_OK;
}

sl_status sl_infer_scan_backward(const sl_infer_args *a, sl_error *err) {
    return infer_from(a, false, err);
}

sl_status sl_infer_scan_backward_xs(const sl_infer_args *a, sl_error *err) {
    return infer_from(a, true, err);
}

/* ---- evaluation: all carries are kept, without checkpointing ---- */

typedef struct {
    const sl_eval_args *a;
    sl_scan_form form;
    sl_eval_tensor *in;
    sl_eval_tensor *carries; /* [step][carry] */
    /* [input of the scan]: of the current carries, accumulated for consts, stacked for xs */
    sl_eval_tensor *gradients;
    sl_body_eval body, backward;
} sweep;

static sl_status new_tensor(const sweep *s, const sl_type *type, sl_eval_tensor *out,
                            sl_error *err) {
    out->type = *type;
    return sl_eval_scratch(s->a, sl_type_slots(type), &out->data, err);
}

static void copy_slots(const sl_eval_tensor *to, const double *from) {
    memcpy(to->data, from, (size_t)sl_type_slots(&to->type) * sizeof *from);
}

static int64_t place_of(const sl_scan_form *form, int64_t step) {
    return form->reverse ? form->length - 1 - step : step;
}

static sl_status make_room(sweep *s, uint32_t inputs, sl_error *err) {
    const sl_scan_form *form = &s->form;
    const size_t count = (size_t)form->carries * (size_t)(form->length + 1);
    s->carries = SL_ARENA_NEW_ARRAY(s->a->scratch, sl_eval_tensor, count + 1);
    s->gradients = SL_ARENA_NEW_ARRAY(s->a->scratch, sl_eval_tensor, (size_t)inputs + 1);
    if (!s->carries || !s->gradients) return sl_no_memory(err, s->a->label, count);
    for (size_t i = 0; i < count; i++)
        SL_TRY(new_tensor(s, &s->in[i % form->carries].type, &s->carries[i], err));
    for (uint32_t i = 0; i < inputs; i++)
        SL_TRY(new_tensor(s, &s->in[i].type, &s->gradients[i], err));
    for (uint32_t c = 0; c < form->carries; c++) {
        copy_slots(&s->carries[c], s->in[c].data);
        copy_slots(&s->gradients[c], s->in[inputs + c].data);
    }
    return SL_OK;
}

static sl_status go_forward(const sweep *s, sl_error *err) {
    const sl_scan_form *form = &s->form;
    for (int64_t step = 0; step < form->length; step++) {
        const sl_eval_tensor *now = &s->carries[step * form->carries];
        for (uint32_t c = 0; c < form->carries; c++)
            SL_TRY(sl_body_give(&s->body, c, &now[c], err));
        SL_TRY(sl_scan_give_rest(&s->body, form, s->in, place_of(form, step), err));
        SL_TRY(sl_body_run(&s->body, err));
        sl_body_take(&s->body, 0, form->carries, now + form->carries);
    }
    return SL_OK;
}

/* Integers are added as integers. */
static void add_slots(const sl_eval_tensor *to, const double *from) {
    for (int64_t i = 0; i < sl_type_slots(&to->type); i++) {
        const sl_dtype dtype = to->type.dtype;
        if (sl_is_wide(dtype))
            sl_slot_set_integer(dtype, &to->data[i],
                                (int64_t)((uint64_t)sl_slot_integer(dtype, &to->data[i]) +
                                          (uint64_t)sl_slot_integer(dtype, &from[i])));
        else
            to->data[i] += from[i];
    }
}

static sl_status step_back(const sweep *s, int64_t step, uint32_t inputs, sl_error *err) {
    const sl_scan_form *form = &s->form;
    const sl_body_eval *body = &s->backward;
    const int64_t t = place_of(form, step);
    for (uint32_t c = 0; c < form->carries; c++) {
        SL_TRY(sl_body_give(body, c, &s->carries[step * form->carries + c], err));
        SL_TRY(sl_body_give(body, inputs + c, &s->gradients[c], err));
    }
    SL_TRY(sl_scan_give_rest(body, form, s->in, t, err));
    for (uint32_t y = inputs + form->carries; y < inputs + form->carries + form->ys; y++) {
        const sl_eval_tensor part = sl_scan_part(&s->in[y], t);
        SL_TRY(sl_body_give(body, y, &part, err));
    }
    SL_TRY(sl_body_run(body, err));
    sl_body_take(body, 0, form->carries, s->gradients);
    for (uint32_t i = form->carries; i < form->carries + form->consts; i++)
        add_slots(&s->gradients[i], sl_body_result(body, i));
    for (uint32_t i = form->carries + form->consts; i < inputs; i++)
        sl_scan_store(body, i, t, &s->gradients[i]);
    return SL_OK;
}

static sl_status eval_from(const sl_eval_args *a, bool xs_alone, sl_error *err) {
    const sl_scan_backward_attrs *attrs = a->attrs;
    sweep s = {.a = a, .form = form_of(attrs)};
    const uint32_t inputs = sl_body_input_count(attrs->body);
    sl_status status = SL_OK;
    SL_TRY(sl_eval_plain(a, &s.in, err));
    sl_scan_count(&s.form, inputs, s.in);
    SL_TRY(make_room(&s, inputs, err));
    SL_TRY_ELSE(done, sl_body_open(a, attrs->body, &s.body, err));
    SL_TRY_ELSE(done, sl_body_open(a, attrs->backward, &s.backward, err));
    SL_TRY_ELSE(done, go_forward(&s, err));
    for (int64_t step = s.form.length; step-- > 0;)
        SL_TRY_ELSE(done, step_back(&s, step, inputs, err));
    const uint32_t first = xs_alone ? s.form.carries + s.form.consts : 0;
    for (uint32_t i = 0; i < a->out_count; i++) copy_slots(&a->out[i], s.gradients[first + i].data);
done:
    sl_body_close(&s.body);
    sl_body_close(&s.backward);
    return status;
}

sl_status sl_eval_scan_backward(const sl_eval_args *a, sl_error *err) {
    return eval_from(a, false, err);
}

sl_status sl_eval_scan_backward_xs(const sl_eval_args *a, sl_error *err) {
    return eval_from(a, true, err);
}
