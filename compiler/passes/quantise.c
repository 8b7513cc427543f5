/* quantise.c - Rows that go into products with panels become a8, once for all their users.
 *
 * What steers the computation stays exact: a product whose result chooses experts, sets decays or
 * mixes in the shared expert keeps f32 rows.  These are small, and a wrong turn there costs more
 * than rounding elsewhere.  So does a product that is a result of the graph: of the error that
 * quantising leaves in the logits, a seventh came from the last product alone. */
#include "compiler/passes/passes.h"
#include "core/codec.h"

typedef struct {
    sl_graph *graph;
    sl_value *now;   /* [old value]: what it is in the new graph */
    sl_value *coded; /* [old value]: its rows as a8 in the new graph; 0 when not made yet */
    bool *exact;     /* [old value]: a product that gives it keeps f32 */
} rebuild;

static bool is_steering(sl_op op) {
    return op == SL_OP_route || op == SL_OP_decay_beta || op == SL_OP_shared_combine;
}

/* Marks outputs and the operands of steering ops; of the shared expert's mix only the gate. */
static void mark_exact(const sl_graph *graph, bool *exact) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_node *node = &graph->nodes[n];
        if (!is_steering(node->op)) continue;
        const uint32_t first = node->op == SL_OP_shared_combine ? 2 : 0;
        for (uint32_t i = first; i < sl_op_info_of(node->op)->input_count; i++)
            exact[node->inputs[i].v] = true;
    }
    for (uint32_t o = 0; o < graph->output_count; o++) exact[graph->outputs[o].value.v] = true;
}

/* Which input of the node is a panel matrix that its first input is multiplied with; 0: none. */
static uint32_t panels_of(const rebuild *b, const sl_node *node) {
    const uint32_t input = node->op == SL_OP_linear ? 1 : node->op == SL_OP_moe_ffn ? 3 : 0;
    if (!input || b->exact[node->outputs[0].v]) return 0;
    const sl_type *x = &b->graph->values[node->inputs[0].v].type;
    const sl_type *w = &b->graph->values[node->inputs[input].v].type;
    return x->dtype == SL_DTYPE_f32 && sl_dtype_infos[w->dtype].kind == SL_KIND_PANEL ? input : 0;
}

static bool whole_groups(const sl_type *type) {
    return type->shape.rank && type->shape.dims[type->shape.rank - 1] % SL_GROUP_COLS == 0;
}

/* The rows of old value x as a8.  Those of a reshape are made before it, where a fusion can see
 * what made them. */
static sl_value coded_rows(rebuild *b, const sl_node *nodes, sl_value x) {
    if (b->coded[x.v].v) return b->coded[x.v];
    const sl_value_info info = b->graph->values[x.v];
    const sl_node *maker = info.kind == SL_VALUE_RESULT ? &nodes[info.node] : NULL;
    const sl_quantise_attrs none = {0};
    if (maker && maker->op == SL_OP_reshape && whole_groups(&info.type) &&
        whole_groups(&b->graph->values[maker->inputs[0].v].type)) {
        const sl_value before = coded_rows(b, nodes, maker->inputs[0]);
        sl_graph_append(b->graph, SL_OP_reshape, &before, maker->attrs, &b->coded[x.v]);
    } else {
        sl_graph_append(b->graph, SL_OP_quantise, &b->now[x.v], &none, &b->coded[x.v]);
    }
    return b->coded[x.v];
}

static void append_node(rebuild *b, const sl_node *nodes, uint32_t n) {
    const sl_node *node = &nodes[n];
    const sl_op_info *info = sl_op_info_of(node->op);
    sl_value inputs[SL_MAX_INPUTS], outputs[SL_MAX_OUTPUTS];
    for (uint32_t i = 0; i < info->input_count; i++) inputs[i] = b->now[node->inputs[i].v];
    const uint32_t first = b->graph->node_count;
    if (panels_of(b, node)) inputs[0] = coded_rows(b, nodes, node->inputs[0]);
    sl_graph_append(b->graph, node->op, inputs, node->attrs, outputs);
    for (uint32_t i = first; i < b->graph->node_count; i++) b->graph->nodes[i].label = node->label;
    for (uint32_t o = 0; o < info->output_count; o++) b->now[node->outputs[o].v] = outputs[o];
}

static sl_status rebuild_graph(rebuild *b, sl_error *err) {
    sl_graph *graph = b->graph;
    const sl_node *nodes = graph->nodes;
    const uint32_t count = graph->node_count;
    mark_exact(graph, b->exact);
    for (uint32_t v = 0; v <= graph->value_count; v++) b->now[v] = (sl_value){v};
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    for (uint32_t n = 0; n < count; n++) append_node(b, nodes, n);
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t o = 0; o < graph->output_count; o++)
        graph->outputs[o].value = b->now[graph->outputs[o].value.v];
    return sl_graph_compact(graph, err);
}

sl_status sl_quantise_activations(sl_graph *graph, sl_error *err) {
    const size_t count = (size_t)graph->value_count + 1;
    sl_arena scratch;
    sl_arena_init(&scratch, graph->arena.allocator);
    rebuild b = {.graph = graph,
                 .now = SL_ARENA_NEW_ARRAY(&scratch, sl_value, count),
                 .coded = SL_ARENA_NEW_ARRAY(&scratch, sl_value, count),
                 .exact = SL_ARENA_NEW_ARRAY(&scratch, bool, count)};
    const sl_status status = b.now && b.coded && b.exact
                                 ? rebuild_graph(&b, err)
                                 : sl_no_memory(err, "quantising activations", count);
    sl_arena_deinit(&scratch);
    return status;
}
