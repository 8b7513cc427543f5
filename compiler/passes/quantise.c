/* quantise.c - Quantises activations that multiply panel weights to a8, once for all their users.
 *
 * A product whose result controls a decision keeps its f32 activations: one that chooses experts,
 * sets decays or gates the shared expert.  These products are small, and a wrong decision costs
 * more than rounding elsewhere.  So does a product that is an output of the graph: a seventh of the
 * error that quantisation leaves in the logits came from the last product alone. */
#include "compiler/ops/semantics.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"

/* What is known about a value of the old graph, and its replacement. */
typedef struct {
    bool exact;     /* the product that computes it keeps f32 activations */
    bool as_rows;   /* some product uses it as a8 */
    bool as_floats; /* some node uses it unquantised */
    sl_value now;   /* in the new graph */
    sl_value rows;  /* in the new graph, as a8; 0: none */
} fate;

typedef struct {
    sl_graph *graph;
    fate *fates; /* [old value] */
} rebuild;

static bool is_steering(sl_op op) {
    return op == SL_OP_route || op == SL_OP_route_groups || op == SL_OP_decay_beta ||
           op == SL_OP_shared_combine;
}

/* Whether the node's result is as exact as its input: it moves elements or adds a weight. */
static bool passes_exactness(const sl_graph *graph, const sl_node *node) {
    if (node->op == SL_OP_reshape || node->op == SL_OP_slice || node->op == SL_OP_transpose ||
        node->op == SL_OP_split)
        return true;
    if (node->op != SL_OP_add) return false;
    return graph->values[node->inputs[0].v].kind == SL_VALUE_WEIGHT ||
           graph->values[node->inputs[1].v].kind == SL_VALUE_WEIGHT;
}

/* Marks outputs and the operands of ops that control decisions; of shared_combine only the gate. */
static void mark_exact(const rebuild *b) {
    const sl_graph *graph = b->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_node *node = &graph->nodes[n];
        if (!is_steering(node->op)) continue;
        const uint32_t first = node->op == SL_OP_shared_combine ? 2 : 0;
        for (uint32_t i = first; i < node->input_count; i++)
            b->fates[node->inputs[i].v].exact = true;
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        fate *output = &b->fates[graph->outputs[o].value.v];
        output->as_floats = true;
        output->exact |= !graph->outputs[o].observed;
    }
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const sl_node *node = &graph->nodes[n];
        bool exact = false;
        for (uint32_t o = 0; o < node->output_count; o++)
            exact |= b->fates[node->outputs[o].v].exact;
        for (uint32_t i = 0; i < node->input_count; i++)
            b->fates[node->inputs[i].v].exact |= exact && passes_exactness(graph, node);
    }
}

/* Whether the node multiplies its first input with panel weights, and may do so in 8 bits. */
static bool takes_rows(const rebuild *b, const sl_node *node) {
    const uint32_t input = node->op == SL_OP_linear           ? 1
                           : node->op == SL_OP_moe_ffn        ? 3
                           : node->op == SL_OP_moe_ffn_biased ? 6
                                                              : 0;
    if (!input || b->fates[node->outputs[0].v].exact) return false;
    const sl_type *x = &b->graph->values[node->inputs[0].v].type;
    const sl_type *w = &b->graph->values[node->inputs[input].v].type;
    return x->dtype == SL_DTYPE_f32 && sl_dtype_infos[w->dtype].kind == SL_KIND_PANEL;
}

/* A reshape that also takes a8: the quantisation goes before it, where fusion can see the producer.
 */
static bool passes_rows(const rebuild *b, const sl_node *node) {
    if (node->op != SL_OP_reshape) return false;
    const sl_type rows = {SL_DTYPE_a8, b->graph->values[node->inputs[0].v].type.shape};
    sl_type out = {0};
    sl_error refusal;
    return sl_infer_plain(node->op, node->label, &rows, node->attrs, &out, &refusal) == SL_OK;
}

/* From the last node back, so that the users of a reshape's result are known. */
static void mark_uses(const rebuild *b) {
    for (uint32_t n = b->graph->node_count; n-- > 0;) {
        const sl_node *node = &b->graph->nodes[n];
        const bool passes = passes_rows(b, node), takes = takes_rows(b, node);
        const fate *result = passes ? &b->fates[node->outputs[0].v] : NULL;
        for (uint32_t i = 0; i < node->input_count; i++) {
            fate *operand = &b->fates[node->inputs[i].v];
            const bool first = i == 0;
            operand->as_rows |= first && (takes || (passes && result->as_rows));
            operand->as_floats |= !first || (!takes && (!passes || result->as_floats));
        }
    }
}

/* The value as a8, quantised now unless it has been. */
static sl_value rows_of(rebuild *b, sl_value x) {
    fate *f = &b->fates[x.v];
    const sl_quantise_attrs none = {0};
    if (!f->rows.v) sl_graph_append(b->graph, SL_OP_quantise, &f->now, &none, &f->rows);
    return f->rows;
}

static void append_node(rebuild *b, const sl_node *node) {
    sl_node copy = {0};
    if (!sl_node_make_room(&b->graph->arena, &copy, node->input_count, node->output_count)) {
        sl_graph_mistake(b->graph, SL_NO_MEMORY, "no memory for a node");
        return;
    }
    fate *result = node->output_count ? &b->fates[node->outputs[0].v] : NULL;
    if (result && passes_rows(b, node) && result->as_rows) {
        const sl_value rows = rows_of(b, node->inputs[0]);
        sl_graph_append(b->graph, node->op, &rows, node->attrs, &result->rows);
        if (!result->as_floats) return;
    }
    for (uint32_t i = 0; i < node->input_count; i++)
        copy.inputs[i] = b->fates[node->inputs[i].v].now;
    if (takes_rows(b, node)) copy.inputs[0] = rows_of(b, node->inputs[0]);
    b->graph->kept_label = node->label;
    sl_graph_append_list(b->graph, node->op, (sl_values){copy.input_count, copy.inputs},
                         node->attrs, (sl_value_slots){copy.output_count, copy.outputs});
    for (uint32_t o = 0; o < node->output_count; o++) {
        b->fates[node->outputs[o].v].now = copy.outputs[o];
        if (b->fates[node->outputs[o].v].as_rows) (void)rows_of(b, node->outputs[o]);
    }
}

/* Nodes that are added after a node have its scope and the name of their op. */
static const char *label_of(sl_graph *graph, const sl_node *node, sl_op op) {
    const char *label = op == node->op
                            ? node->label
                            : sl_label_rename(&graph->arena, node->label, sl_op_info_of(op)->name);
    if (!label) sl_graph_mistake(graph, SL_NO_MEMORY, "%s: no memory for a label", node->label);
    return label ? label : node->label;
}

static sl_status rebuild_graph(rebuild *b, sl_error *err) {
    sl_graph *graph = b->graph;
    const sl_node *nodes = graph->nodes;
    const uint32_t count = graph->node_count;
    for (uint32_t v = 0; v <= graph->value_count; v++) b->fates[v].now = (sl_value){v};
    mark_exact(b);
    mark_uses(b);
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t first = graph->node_count;
        append_node(b, &nodes[n]);
        for (uint32_t i = first; i < graph->node_count; i++)
            graph->nodes[i].label = label_of(graph, &nodes[n], graph->nodes[i].op);
    }
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t o = 0; o < graph->output_count; o++)
        graph->outputs[o].value = b->fates[graph->outputs[o].value.v].now;
    return sl_graph_compact(graph, err);
}

sl_status sl_quantise_activations(sl_graph *graph, sl_error *err) {
    const size_t count = (size_t)graph->value_count + 1;
    sl_arena scratch;
    sl_arena_init(&scratch, graph->arena.allocator);
    rebuild b = {.graph = graph, .fates = SL_ARENA_NEW_ARRAY(&scratch, fate, count)};
    const sl_status status =
        b.fates ? rebuild_graph(&b, err) : sl_no_memory(err, "quantising activations", count);
    sl_arena_deinit(&scratch);
    return status;
}

sl_status sl_pass_quantise(sl_graph *graph, sl_pass_context *context, bool *changed,
                           sl_error *err) {
    (void)context;
    *changed = true;
    return sl_quantise_activations(graph, err);
}
