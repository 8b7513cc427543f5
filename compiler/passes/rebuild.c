#include "compiler/passes/rebuild.h"

void sl_rebuild_append(sl_rebuild *r, const sl_node *old, sl_op op, sl_values inputs,
                       const void *attrs, sl_value_slots outputs) {
    r->graph->kept_label = old->label;
    sl_graph_append_list(r->graph, op, inputs, attrs, outputs);
}

void sl_rebuild_same(sl_rebuild *r, const sl_node *node) {
    sl_node fresh = {0};
    if (!sl_node_make_room(r->scratch, &fresh, node->input_count, node->output_count)) {
        sl_graph_mistake(r->graph, SL_NO_MEMORY, "no memory for a node");
        return;
    }
    for (uint32_t i = 0; i < node->input_count; i++) fresh.inputs[i] = sl_rebuild_input(r, node, i);
    sl_rebuild_append(r, node, node->op, (sl_values){fresh.input_count, fresh.inputs}, node->attrs,
                      (sl_value_slots){fresh.output_count, fresh.outputs});
    for (uint32_t o = 0; o < node->output_count; o++) sl_rebuild_set(r, node, o, fresh.outputs[o]);
}

static sl_status rebuild(sl_rebuild *r, sl_error *err) {
    sl_graph *graph = r->graph;
    const sl_node *nodes = graph->nodes;
    const uint32_t count = graph->node_count;
    for (uint32_t v = 0; v <= graph->value_count; v++) r->now[v] = (sl_value){v};
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    for (uint32_t n = 0; n < count && graph->error.status == SL_OK; n++) r->node(r, &nodes[n]);
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t o = 0; o < graph->output_count; o++)
        graph->outputs[o].value = r->now[graph->outputs[o].value.v];
    return sl_graph_compact(graph, err);
}

sl_status sl_rebuild_graph(sl_rebuild *r, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, r->graph->arena.allocator);
    r->scratch = &scratch;
    r->changed = false;
    r->now = SL_ARENA_NEW_ARRAY(&scratch, sl_value, (size_t)r->graph->value_count + 1);
    const sl_status status =
        r->now ? rebuild(r, err) : sl_no_memory(err, "rebuilding a graph", r->graph->value_count);
    sl_arena_deinit(&scratch);
    r->now = NULL;
    r->scratch = NULL;
    return status;
}
