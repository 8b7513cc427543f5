/* rebuild.h - Building a graph again node by node, with some nodes changed. */
#ifndef SL_COMPILER_PASSES_REBUILD_H
#define SL_COMPILER_PASSES_REBUILD_H
#include "compiler/graph.h"

typedef struct sl_rebuild sl_rebuild;
/* Appends the replacement of the node, if any, and sets its results by sl_rebuild_set.  Errors are
 * recorded in the graph. */
typedef void sl_rebuild_fn(sl_rebuild *r, const sl_node *node);

struct sl_rebuild {
    sl_graph *graph;
    sl_rebuild_fn *node;
    void *ctx;
    sl_value *now; /* [old value]: its replacement */
    sl_arena *scratch;
    bool changed; /* set by the pass */
};

/* Calls r->node for each node.  The caller sets graph, node and ctx; the rest is set here. */
SL_CHECKED sl_status sl_rebuild_graph(sl_rebuild *r, sl_error *err);

/* For sl_rebuild_fn: the node unchanged, on the replacements of its operands. */
void sl_rebuild_same(sl_rebuild *r, const sl_node *node);
/* A node in place of another, with its label. */
void sl_rebuild_append(sl_rebuild *r, const sl_node *old, sl_op op, sl_values inputs,
                       const void *attrs, sl_value_slots outputs);
static inline sl_value sl_rebuild_input(const sl_rebuild *r, const sl_node *node, uint32_t input) {
    return r->now[node->inputs[input].v];
}
static inline void sl_rebuild_set(sl_rebuild *r, const sl_node *node, uint32_t output,
                                  sl_value value) {
    r->now[node->outputs[output].v] = value;
}
/* Information about a value of the graph in its present form. */
static inline const sl_value_info *sl_rebuild_value(const sl_rebuild *r, sl_value value) {
    return &r->graph->values[value.v];
}
#endif
