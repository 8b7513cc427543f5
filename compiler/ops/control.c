/* control.c - Ops that run bodies: if, while, scan, custom_fn. */
#include "compiler/ops/body.h"
#include "compiler/ops/control_scan.h"
#include <string.h>

/* ---- if ---- */

/* Both branches must have results of the same types as `then`. */
static sl_status infer_branch(const sl_infer_args *a, const char *name, const sl_graph *graph,
                              bool first, sl_error *err) {
    sl_body_check body;
    SL_TRY(sl_body_begin(&body, a, name, graph, err));
    for (uint32_t i = 1; i < a->in_count; i++)
        SL_TRY(sl_body_takes(&body, &a->in[i], "input", i - 1));
    SL_TRY(sl_body_ends(&body, a->out_count));
    for (uint32_t o = 0; o < a->out_count; o++)
        SL_TRY(first ? sl_body_output(&body, o, &a->out[o])
                     : sl_body_gives(&body, o, &a->out[o], "result", o));
    return SL_OK;
}

sl_status sl_infer_if(const sl_infer_args *a, sl_error *err) {
    const sl_if_attrs *attrs = a->attrs;
    SL_TRY(sl_check_inputs(a, err));
    if (!sl_is_one_bool(&a->in[0])) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: condition is %s, must be one bool", a->label,
                       sl_type_format(&a->in[0], text, sizeof text));
    }
    SL_TRY(infer_branch(a, "then", attrs->then, true, err));
    return infer_branch(a, "otherwise", attrs->otherwise, false, err);
}

/* Binds the inputs, runs the body once and copies the results. */
static sl_status eval_once(const sl_eval_args *a, const sl_graph *graph, uint32_t first,
                           sl_error *err) {
    sl_eval_tensor *in;
    sl_body_eval body = {0};
    sl_status status = SL_OK;
    SL_TRY(sl_eval_plain(a, &in, err));
    SL_TRY_ELSE(done, sl_body_open(a, graph, &body, err));
    for (uint32_t i = first; i < a->in_count; i++)
        SL_TRY_ELSE(done, sl_body_give(&body, i - first, &in[i], err));
    SL_TRY_ELSE(done, sl_body_run(&body, err));
    sl_body_take(&body, 0, a->out_count, a->out);
done:
    sl_body_close(&body);
    return status;
}

sl_status sl_eval_if(const sl_eval_args *a, sl_error *err) {
    const sl_if_attrs *attrs = a->attrs;
    const double *condition;
    SL_TRY(sl_eval_inputs(a, 1, &condition, err));
    return eval_once(a, condition[0] != 0 ? attrs->then : attrs->otherwise, 1, err);
}

/* ---- custom_fn ---- */

sl_status sl_infer_custom_fn(const sl_infer_args *a, sl_error *err) {
    const sl_custom_fn_attrs *attrs = a->attrs;
    sl_body_check body;
    SL_TRY(sl_check_inputs(a, err));
    SL_TRY(sl_body_begin(&body, a, "body", attrs->body, err));
    for (uint32_t i = 0; i < a->in_count; i++) SL_TRY(sl_body_takes(&body, &a->in[i], "input", i));
    SL_TRY(sl_body_ends(&body, a->out_count));
    for (uint32_t o = 0; o < a->out_count; o++) SL_TRY(sl_body_output(&body, o, &a->out[o]));
    return SL_OK;
}

sl_status sl_eval_custom_fn(const sl_eval_args *a, sl_error *err) {
    return eval_once(a, ((const sl_custom_fn_attrs *)a->attrs)->body, 0, err);
}

/* ---- while ---- */

sl_status sl_infer_while(const sl_infer_args *a, sl_error *err) {
    const sl_while_attrs *attrs = a->attrs;
    sl_body_check body;
    sl_type condition;
    SL_TRY(sl_check_inputs(a, err));
    SL_TRY(sl_check_attr(a->label, "most", attrs->most, 0, INT64_MAX, err));
    if (a->out_count != a->in_count)
        return sl_fail(err, SL_INVALID, "%s: %u results, must be %u as there are carries", a->label,
                       a->out_count, a->in_count);
    SL_TRY(sl_body_begin(&body, a, "condition", attrs->condition, err));
    for (uint32_t i = 0; i < a->in_count; i++) SL_TRY(sl_body_takes(&body, &a->in[i], "carry", i));
    SL_TRY(sl_body_ends(&body, 1));
    SL_TRY(sl_body_output(&body, 0, &condition));
    if (!sl_is_one_bool(&condition)) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: condition gives %s, must be one bool", a->label,
                       sl_type_format(&condition, text, sizeof text));
    }
    SL_TRY(sl_body_begin(&body, a, "body", attrs->body, err));
    for (uint32_t i = 0; i < a->in_count; i++) SL_TRY(sl_body_takes(&body, &a->in[i], "carry", i));
    SL_TRY(sl_body_ends(&body, a->in_count));
    for (uint32_t i = 0; i < a->in_count; i++) {
        SL_TRY(sl_body_gives(&body, i, &a->in[i], "carry", i));
        a->out[i] = a->in[i];
    }
    return SL_OK;
}

/* Binds the current carries, which are kept in the results. */
static sl_status give_carries(const sl_body_eval *body, const sl_eval_args *a, uint32_t count,
                              sl_error *err) {
    for (uint32_t i = 0; i < count; i++) SL_TRY(sl_body_give(body, i, &a->out[i], err));
    return SL_OK;
}

static void start_carries(const sl_eval_args *a, const sl_eval_tensor *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        memcpy(a->out[i].data, in[i].data, (size_t)sl_type_slots(&in[i].type) * sizeof *in[i].data);
}

sl_status sl_eval_while(const sl_eval_args *a, sl_error *err) {
    const sl_while_attrs *attrs = a->attrs;
    sl_eval_tensor *in;
    sl_body_eval condition = {0}, body = {0};
    sl_status status = SL_OK;
    SL_TRY(sl_eval_plain(a, &in, err));
    SL_TRY_ELSE(done, sl_body_open(a, attrs->condition, &condition, err));
    SL_TRY_ELSE(done, sl_body_open(a, attrs->body, &body, err));
    start_carries(a, in, a->in_count);
    for (int64_t done = 0; !attrs->most || done < attrs->most; done++) {
        SL_TRY_ELSE(done, give_carries(&condition, a, a->in_count, err));
        SL_TRY_ELSE(done, sl_body_run(&condition, err));
        if (sl_body_result(&condition, 0)[0] == 0) break;
        SL_TRY_ELSE(done, give_carries(&body, a, a->in_count, err));
        SL_TRY_ELSE(done, sl_body_run(&body, err));
        sl_body_take(&body, 0, a->in_count, a->out);
    }
done:
    sl_body_close(&condition);
    sl_body_close(&body);
    return status;
}

/* ---- scan ---- */

static sl_scan_form scan_form(const sl_scan_attrs *attrs) {
    return (sl_scan_form){.body = attrs->body,
                          .carries = attrs->carries,
                          .consts = attrs->consts,
                          .length = attrs->length,
                          .reverse = attrs->reverse};
}

sl_status sl_infer_scan(const sl_infer_args *a, sl_error *err) {
    sl_scan_form form = scan_form(a->attrs);
    sl_body_check body;
    SL_TRY(sl_scan_check(a, &form, a->in_count, &body, err));
    if (a->out_count != form.carries + form.ys)
        return sl_fail(err, SL_INVALID, "%s: %u results, must be %u carries and %u ys", a->label,
                       a->out_count, form.carries, form.ys);
    for (uint32_t c = 0; c < form.carries; c++) a->out[c] = a->in[c];
    for (uint32_t y = 0; y < form.ys; y++)
        SL_TRY(sl_scan_stacked(&body, &form, form.carries + y, &a->out[form.carries + y]));
    return SL_OK;
}

sl_status sl_eval_scan(const sl_eval_args *a, sl_error *err) {
    sl_scan_form form = scan_form(a->attrs);
    sl_eval_tensor *in;
    sl_body_eval body = {0};
    sl_status status = SL_OK;
    SL_TRY(sl_eval_plain(a, &in, err));
    sl_scan_count(&form, a->in_count, in);
    SL_TRY_ELSE(done, sl_body_open(a, form.body, &body, err));
    start_carries(a, in, form.carries);
    for (int64_t step = 0; step < form.length; step++) {
        const int64_t t = form.reverse ? form.length - 1 - step : step;
        SL_TRY_ELSE(done, give_carries(&body, a, form.carries, err));
        SL_TRY_ELSE(done, sl_scan_give_rest(&body, &form, in, t, err));
        SL_TRY_ELSE(done, sl_body_run(&body, err));
        sl_body_take(&body, 0, form.carries, a->out);
        for (uint32_t y = form.carries; y < a->out_count; y++)
            sl_scan_store(&body, y, t, &a->out[y]);
    }
done:
    sl_body_close(&body);
    return status;
}
