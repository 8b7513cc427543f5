/* batches.c - Regions with the same code and equal input types whose results are concatenated along
 * the first axis become one batch_elementwise_region, which writes straight into the concatenation.
 */
#include "compiler/passes/legalise.h"
#include "compiler/passes/passes.h"
#include <string.h>

enum { MOST_INPUTS = 64 };

/* The region whose result is used by this part of the concat only; NULL if there is none. */
static const sl_node *region_of(const sl_graph *graph, sl_value part) {
    const sl_value_info *info = &graph->values[part.v];
    if (info->kind != SL_VALUE_RESULT || info->use_count != 1) return NULL;
    const sl_node *node = &graph->nodes[info->node];
    if (node->op != SL_OP_elementwise_region || node->input_count != 1) return NULL;
    const sl_type *x = &graph->values[node->inputs[0].v].type;
    return x->shape.rank > 1 && x->shape.dims[0] == 1 ? node : NULL;
}

static bool are_alike(const sl_graph *graph, const sl_node *a, const sl_node *b) {
    const sl_elementwise_region_attrs *x = a->attrs, *y = b->attrs;
    return x->prologue == y->prologue && x->code.count == y->code.count &&
           memcmp(x->code.items, y->code.items, x->code.count * sizeof *x->code.items) == 0 &&
           sl_type_equal(&graph->values[a->inputs[0].v].type, &graph->values[b->inputs[0].v].type);
}

static bool fits(const sl_graph *graph, const sl_node *concat) {
    if (concat->op != SL_OP_concat || concat->input_count < 2 || concat->input_count > MOST_INPUTS)
        return false;
    const uint32_t rank = graph->values[concat->outputs[0].v].type.shape.rank;
    const sl_node *first = region_of(graph, concat->inputs[0]);
    if (!first || sl_axis(((const sl_concat_attrs *)concat->attrs)->axis, rank) != 0) return false;
    if (((const sl_elementwise_region_attrs *)first->attrs)->prologue && rank < 3) return false;
    for (uint32_t i = 1; i < concat->input_count; i++) {
        const sl_node *other = region_of(graph, concat->inputs[i]);
        if (!other || !are_alike(graph, first, other)) return false;
    }
    return true;
}

static sl_status apply(sl_graph *graph, uint32_t at, sl_fusion_log *log, sl_error *err) {
    const sl_node *concat = &graph->nodes[at], *first = region_of(graph, concat->inputs[0]);
    const sl_elementwise_region_attrs *code = first->attrs;
    sl_batch_elementwise_region_attrs *attrs =
        SL_ARENA_NEW(&graph->arena, sl_batch_elementwise_region_attrs);
    const uint32_t parts[2] = {graph->values[concat->inputs[0].v].node, at};
    sl_node node = {.op = SL_OP_batch_elementwise_region, .attrs = attrs};
    node.label = sl_label_join(graph, parts, 2);
    if (!attrs || !node.label || !sl_node_make_room(&graph->arena, &node, concat->input_count, 1))
        return sl_no_memory(err, "a region", sizeof node);
    *attrs = (sl_batch_elementwise_region_attrs){.code = code->code, .prologue = code->prologue};
    node.outputs[0] = concat->outputs[0];
    for (uint32_t i = 0; i < concat->input_count; i++)
        node.inputs[i] = region_of(graph, concat->inputs[i])->inputs[0];
    sl_error why;
    if (sl_target_runs_node(log->target, graph, &node, &why) != SL_OK)
        return sl_fusion_note(log, "batch_elementwise_region", node.label, why.message, err);
    for (uint32_t i = 0; i < concat->input_count; i++)
        sl_graph_drop_node(graph, graph->values[concat->inputs[i].v].node);
    log->report.fused_nodes += concat->input_count;
    sl_graph_drop_node(graph, at);
    sl_graph_place_node(graph, at, &node);
    return sl_fusion_note(log, "batch_elementwise_region", node.label, NULL, err);
}

sl_status sl_fuse_batches(sl_graph *graph, sl_fusion_log *log, sl_error *err) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (fits(graph, &graph->nodes[n])) SL_TRY(apply(graph, n, log, err));
    return SL_OK;
}
