/* rebuild.h - Appending the nodes of a graph anew, one after another, some of them changed. */
#ifndef SL_COMPILER_PASSES_REBUILD_H
#define SL_COMPILER_PASSES_REBUILD_H
#include "compiler/graph.h"

typedef struct sl_rebuild sl_rebuild;
/* Appends what is to stand for the node, or nothing, and says by sl_rebuild_set what its results
 * have become.  Mistakes are the graph's. */
typedef void sl_rebuild_fn(sl_rebuild *r, const sl_node *node);

struct sl_rebuild {
    sl_graph *graph;
    sl_rebuild_fn *node;
    void *ctx;
    sl_value *now; /* [old value]: what it has become */
    sl_arena *scratch;
    bool changed; /* for the pass to set */
};

/* Calls r->node for each node.  graph, node and ctx are set by the caller, the rest here. */
SL_CHECKED sl_status sl_rebuild_graph(sl_rebuild *r, sl_error *err);

/* For sl_rebuild_fn: the node as it was, on what its operands have become. */
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
/* What is known of a value of the graph as it is now. */
static inline const sl_value_info *sl_rebuild_value(const sl_rebuild *r, sl_value value) {
    return &r->graph->values[value.v];
}
#endif
