#include "compiler/eval.h"
#include "compiler/ops/numbers.h"
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include <string.h>

struct sl_evaluator {
    sl_arena arena; /* the evaluator itself and every result */
    const sl_graph *graph;
    sl_eval_tensor *tensors; /* [value_count + 1] */
    bool *given;             /* [value_count + 1]: inputs bound as slots */
};

static bool is_panel(const sl_type *type) {
    return sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL;
}

static bool is_output(const sl_graph *graph, uint32_t value) {
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i].value.v == value) return true;
    return false;
}

/* Whether the evaluator keeps the value as doubles of its own.  Weights stay coded, for there may
 * be many of them; versions of a state live in the memory bound to it. */
static bool holds_doubles(const sl_graph *graph, uint32_t value) {
    const sl_value_info *info = &graph->values[value];
    if (info->kind == SL_VALUE_EXPERTS || info->root.v || is_panel(&info->type)) return false;
    return info->kind != SL_VALUE_WEIGHT || is_output(graph, value);
}

static sl_status make_tensors(sl_evaluator *evaluator, sl_error *err) {
    const sl_graph *graph = evaluator->graph;
    evaluator->tensors =
        SL_ARENA_NEW_ARRAY(&evaluator->arena, sl_eval_tensor, (size_t)graph->value_count + 1);
    evaluator->given = SL_ARENA_NEW_ARRAY(&evaluator->arena, bool, (size_t)graph->value_count + 1);
    if (!evaluator->tensors || !evaluator->given)
        return sl_no_memory(err, "an evaluator", graph->value_count);
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        sl_eval_tensor *tensor = &evaluator->tensors[v];
        const int64_t elements = sl_type_slots(&graph->values[v].type);
        *tensor = (sl_eval_tensor){.type = graph->values[v].type, .coded = graph->values[v].data};
        if (!holds_doubles(graph, v)) continue;
        tensor->data = SL_ARENA_NEW_ARRAY(&evaluator->arena, double, elements);
        if (!tensor->data)
            return sl_no_memory(err, "values under evaluation",
                                (uint64_t)elements * sizeof(double));
    }
    return SL_OK;
}

sl_status sl_evaluator_create(const sl_graph *graph, const sl_allocator *allocator,
                              sl_evaluator **out, sl_error *err) {
    SL_TRY(sl_graph_verify(graph, err));
    sl_arena arena;
    sl_arena_init(&arena, allocator);
    sl_evaluator *evaluator = SL_ARENA_NEW(&arena, sl_evaluator);
    if (!evaluator) return sl_no_memory(err, "an evaluator", sizeof *evaluator);
    evaluator->arena = arena;
    evaluator->graph = graph;
    const sl_status status = make_tensors(evaluator, err);
    if (status != SL_OK)
        sl_evaluator_destroy(evaluator);
    else
        *out = evaluator;
    return status;
}

void sl_evaluator_destroy(sl_evaluator *evaluator) {
    if (!evaluator) return;
    sl_arena arena = evaluator->arena; /* the evaluator itself lives in it */
    sl_arena_deinit(&arena);
}

/* The tensor of a declared value of one of two kinds. */
static sl_status find_declared(sl_evaluator *evaluator, sl_value value, sl_value_kind kind,
                               sl_value_kind other, sl_eval_tensor **out, sl_error *err) {
    static const char *const kinds[] = {
        "an input or weight", "an input or weight", "a constant", "a state", "experts", "a result"};
    const sl_value_info *info = sl_graph_value(evaluator->graph, value);
    *out = &evaluator->tensors[info ? value.v : 0];
    if (info && (info->kind == kind || info->kind == other)) return SL_OK;
    return sl_fail(err, SL_INVALID, "evaluate: bound value '%s' is %s, must be %s",
                   info && info->name ? info->name : "?",
                   info ? kinds[info->kind] : "not in this graph", kinds[kind]);
}

sl_status sl_evaluator_bind(sl_evaluator *evaluator, sl_value value, const void *data,
                            sl_error *err) {
    sl_eval_tensor *tensor;
    SL_TRY(find_declared(evaluator, value, SL_VALUE_INPUT, SL_VALUE_WEIGHT, &tensor, err));
    tensor->coded = data;
    return SL_OK;
}

sl_status sl_evaluator_give(sl_evaluator *evaluator, sl_value value, const sl_eval_tensor *tensor,
                            sl_error *err) {
    sl_eval_tensor *own;
    SL_TRY(find_declared(evaluator, value, SL_VALUE_INPUT, SL_VALUE_INPUT, &own, err));
    const bool slots = tensor->data && own->data;
    evaluator->given[value.v] = slots;
    own->coded = slots ? NULL : tensor->coded;
    if (slots)
        memcpy(own->data, tensor->data, (size_t)sl_type_slots(&own->type) * sizeof *own->data);
    return SL_OK;
}

sl_status sl_evaluator_bind_state(sl_evaluator *evaluator, sl_value value, double *data,
                                  sl_error *err) {
    sl_eval_tensor *tensor;
    SL_TRY(find_declared(evaluator, value, SL_VALUE_STATE, SL_VALUE_STATE, &tensor, err));
    tensor->data = data;
    return SL_OK;
}

sl_status sl_evaluator_bind_experts(sl_evaluator *evaluator, sl_value value,
                                    sl_expert_source *source, sl_error *err) {
    sl_eval_tensor *tensor;
    SL_TRY(find_declared(evaluator, value, SL_VALUE_EXPERTS, SL_VALUE_EXPERTS, &tensor, err));
    tensor->source = source;
    return SL_OK;
}

/* Checks that what is used is bound, decodes it, and points state versions at their state. */
static sl_status prepare(sl_evaluator *evaluator, sl_error *err) {
    const sl_graph *graph = evaluator->graph;
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *info = &graph->values[v];
        sl_eval_tensor *tensor = &evaluator->tensors[v];
        if (info->root.v) tensor->data = evaluator->tensors[info->root.v].data;
        const bool bound = info->kind == SL_VALUE_RESULT || tensor->source || tensor->coded ||
                           (info->kind == SL_VALUE_STATE && tensor->data) || evaluator->given[v];
        if (!bound && info->use_count)
            return sl_fail(err, SL_INVALID, "evaluate: '%s' is not bound", info->name);
        if (tensor->coded && tensor->data)
            sl_decode_tensor(&tensor->type, tensor->coded, tensor->data);
    }
    return SL_OK;
}

/* 16-bit floats are rounded once by each op: what follows sees what the type holds. */
static void round_halves(const sl_value_info *info, const sl_eval_tensor *out) {
    const sl_dtype dtype = out->type.dtype;
    if (info->root.v || (dtype != SL_DTYPE_f16 && dtype != SL_DTYPE_bf16)) return;
    for (int64_t i = 0; i < sl_type_elements(&out->type); i++)
        out->data[i] = sl_round_to(dtype, out->data[i]);
}

static sl_status run_node(sl_evaluator *evaluator, const sl_node *node, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, evaluator->arena.allocator);
    sl_eval_tensor *in =
        SL_ARENA_NEW_ARRAY(&scratch, sl_eval_tensor, (size_t)node->input_count + 1);
    sl_eval_tensor *out =
        SL_ARENA_NEW_ARRAY(&scratch, sl_eval_tensor, (size_t)node->output_count + 1);
    sl_status status;
    if (in && out) {
        for (uint32_t i = 0; i < node->input_count; i++)
            in[i] = evaluator->tensors[node->inputs[i].v];
        for (uint32_t o = 0; o < node->output_count; o++)
            out[o] = evaluator->tensors[node->outputs[o].v];
        const sl_eval_args args = {
            node->label, in, node->attrs, out, &scratch, node->input_count, node->output_count};
        status = sl_eval(node->op, &args, err);
        for (uint32_t o = 0; o < node->output_count && status == SL_OK; o++)
            round_halves(&evaluator->graph->values[node->outputs[o].v], &out[o]);
    } else {
        status = sl_no_memory(err, node->label, node->input_count);
    }
    sl_arena_deinit(&scratch);
    return status;
}

sl_status sl_evaluator_run(sl_evaluator *evaluator, sl_error *err) {
    SL_TRY(prepare(evaluator, err));
    for (uint32_t n = 0; n < evaluator->graph->node_count; n++)
        SL_TRY(run_node(evaluator, &evaluator->graph->nodes[n], err));
    return SL_OK;
}

const double *sl_evaluator_result(const sl_evaluator *evaluator, sl_value value) {
    return sl_graph_value(evaluator->graph, value) ? evaluator->tensors[value.v].data : NULL;
}
