/* prune.c - Dead code elimination: drops nodes whose results are not used and that change no state.
 */
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"

static bool is_used(const sl_graph *graph, const sl_node *node) {
    for (uint32_t o = 0; o < node->output_count; o++)
        if (graph->values[node->outputs[o].v].use_count) return true;
    return sl_node_changes_state(node);
}

/* From the last node back: dropping a node lowers the use counts of its operands. */
sl_status sl_pass_prune(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    (void)context;
    for (uint32_t n = graph->node_count; n-- > 0;) {
        sl_node *node = &graph->nodes[n];
        if (is_used(graph, node)) continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            graph->values[node->inputs[i].v].use_count--;
        node->op = SL_OP_COUNT;
        *changed = true;
    }
    return *changed ? sl_graph_compact(graph, err) : SL_OK;
}
