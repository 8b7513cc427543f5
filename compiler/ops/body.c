#include "compiler/ops/body.h"
#include "core/codec.h"
#include <string.h>

static bool is_plain(sl_dtype dtype) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    return kind == SL_KIND_FLOAT || kind == SL_KIND_INT || kind == SL_KIND_BOOL ||
           kind == SL_KIND_COMPLEX;
}

sl_status sl_check_inputs(const sl_infer_args *a, sl_error *err) {
    for (uint32_t i = 0; i < a->in_count; i++)
        SL_TRY(sl_type_check_shape(&a->in[i], a->label, err));
    return SL_OK;
}

sl_status sl_body_begin(sl_body_check *check, const sl_infer_args *args, const char *name,
                        const sl_graph *graph, sl_error *err) {
    *check = (sl_body_check){.args = args, .name = name, .graph = graph, .err = err};
    if (!graph)
        return sl_fail(err, SL_INVALID, "%s: %s is missing, must be a graph", args->label, name);
    if (graph->error.status != SL_OK)
        return sl_fail(err, graph->error.status, "%s: %s: %s", args->label, name,
                       graph->error.message);
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        if (value->kind == SL_VALUE_WEIGHT || value->kind == SL_VALUE_STATE ||
            value->kind == SL_VALUE_EXPERTS)
            return sl_fail(err, SL_INVALID,
                           "%s: '%s' of %s is a weight, state or experts: a body may only declare "
                           "inputs and constants",
                           args->label, value->name, name);
    }
    return SL_OK;
}

static const sl_value_info *next_input(const sl_graph *graph, uint32_t *value) {
    while (++*value <= graph->value_count)
        if (graph->values[*value].kind == SL_VALUE_INPUT) return &graph->values[*value];
    return NULL;
}

uint32_t sl_body_input_count(const sl_graph *graph) {
    uint32_t count = 0, value = 0;
    while (next_input(graph, &value)) count++;
    return count;
}

sl_status sl_body_takes(sl_body_check *check, const sl_type *type, const char *what,
                        uint32_t index) {
    char found[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
    const sl_value_info *input = next_input(check->graph, &check->value);
    if (!input)
        return sl_fail(check->err, SL_INVALID, "%s: %s has %u inputs, but takes %s %u too",
                       check->args->label, check->name, check->taken, what, index);
    check->taken++;
    if (sl_type_equal(&input->type, type)) return SL_OK;
    return sl_fail(check->err, SL_INVALID, "%s: input '%s' of %s is %s, must be %s as %s %u is",
                   check->args->label, input->name, check->name,
                   sl_type_format(&input->type, found, sizeof found),
                   sl_type_format(type, wanted, sizeof wanted), what, index);
}

sl_status sl_body_ends(const sl_body_check *check, uint32_t outputs) {
    const uint32_t inputs = sl_body_input_count(check->graph);
    if (inputs != check->taken)
        return sl_fail(check->err, SL_INVALID, "%s: %s has %u inputs, must have %u",
                       check->args->label, check->name, inputs, check->taken);
    if (check->graph->output_count != outputs)
        return sl_fail(check->err, SL_INVALID, "%s: %s has %u outputs, must have %u",
                       check->args->label, check->name, check->graph->output_count, outputs);
    return SL_OK;
}

sl_status sl_body_output(const sl_body_check *check, uint32_t output, sl_type *out) {
    const sl_graph *graph = check->graph;
    const sl_value_info *value =
        output < graph->output_count ? sl_graph_value(graph, graph->outputs[output].value) : NULL;
    if (!value)
        return sl_fail(check->err, SL_INVALID, "%s: %s has %u outputs, must have more",
                       check->args->label, check->name, graph->output_count);
    SL_TRY(sl_type_check_shape(&value->type, check->args->label, check->err));
    *out = value->type;
    if (is_plain(out->dtype)) return SL_OK;
    char text[SL_TYPE_TEXT];
    return sl_fail(check->err, SL_INVALID, "%s: output '%s' of %s is %s, must be of plain elements",
                   check->args->label, graph->outputs[output].name, check->name,
                   sl_type_format(out, text, sizeof text));
}

sl_status sl_body_gives(const sl_body_check *check, uint32_t output, const sl_type *type,
                        const char *what, uint32_t index) {
    sl_type found;
    char text[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
    SL_TRY(sl_body_output(check, output, &found));
    if (sl_type_equal(&found, type)) return SL_OK;
    return sl_fail(check->err, SL_INVALID, "%s: output '%s' of %s is %s, must be %s as %s %u is",
                   check->args->label, check->graph->outputs[output].name, check->name,
                   sl_type_format(&found, text, sizeof text),
                   sl_type_format(type, wanted, sizeof wanted), what, index);
}

bool sl_is_one_bool(const sl_type *type) {
    if (type->dtype != SL_DTYPE_bool || type->shape.rank > SL_MAX_RANK) return false;
    for (uint32_t d = 0; d < type->shape.rank; d++)
        if (type->shape.dims[d] != 1) return false;
    return true;
}

/* ---- evaluation ---- */

sl_status sl_body_open(const sl_eval_args *a, const sl_graph *graph, sl_body_eval *out,
                       sl_error *err) {
    *out = (sl_body_eval){.graph = graph};
    const uint32_t count = sl_body_input_count(graph);
    sl_value *inputs = SL_ARENA_NEW_ARRAY(a->scratch, sl_value, (size_t)count + 1);
    if (!inputs) return sl_no_memory(err, a->label, count * sizeof *inputs);
    for (uint32_t i = 0, value = 0; next_input(graph, &value);) inputs[i++].v = value;
    out->inputs = inputs;
    const sl_status status =
        sl_evaluator_create(graph, a->scratch->allocator, &out->evaluator, err);
    return status == SL_OK ? SL_OK : sl_fail_in(err, status, "%s", a->label);
}

void sl_body_close(sl_body_eval *body) {
    sl_evaluator_destroy(body->evaluator);
    body->evaluator = NULL;
}

sl_status sl_body_give(const sl_body_eval *body, uint32_t input, const sl_eval_tensor *tensor,
                       sl_error *err) {
    return sl_evaluator_give(body->evaluator, body->inputs[input], tensor, err);
}

sl_status sl_body_run(const sl_body_eval *body, sl_error *err) {
    return sl_evaluator_run(body->evaluator, err);
}

const double *sl_body_result(const sl_body_eval *body, uint32_t output) {
    return sl_evaluator_result(body->evaluator, body->graph->outputs[output].value);
}

void sl_body_take(const sl_body_eval *body, uint32_t first, uint32_t count,
                  const sl_eval_tensor *out) {
    for (uint32_t i = 0; i < count; i++)
        memcpy(out[i].data, sl_body_result(body, first + i),
               (size_t)sl_type_slots(&out[i].type) * sizeof *out[i].data);
}

sl_status sl_eval_plain(const sl_eval_args *a, sl_eval_tensor **out, sl_error *err) {
    sl_eval_tensor *plain = SL_ARENA_NEW_ARRAY(a->scratch, sl_eval_tensor, (size_t)a->in_count + 1);
    if (!plain) return sl_no_memory(err, a->label, a->in_count * sizeof *plain);
    for (uint32_t i = 0; i < a->in_count; i++) {
        plain[i] = a->in[i];
        if (plain[i].data || !plain[i].coded || !is_plain(plain[i].type.dtype)) continue;
        SL_TRY(sl_eval_scratch(a, sl_type_slots(&plain[i].type), &plain[i].data, err));
        sl_decode_tensor(&plain[i].type, plain[i].coded, plain[i].data);
    }
    *out = plain;
    return SL_OK;
}
