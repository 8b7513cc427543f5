/* values.h - Values of graphs as callers see them.
 *
 * Inside, a value is its index in the graph.  Callers get the index with a number of the graph in
 * the upper bits, so that a value that is given to another graph is recognised.  0 stays "none". */
#ifndef SL_API_VALUES_H
#define SL_API_VALUES_H
#include "compiler/graph.h"

enum { SL_VALUE_BITS = 22, SL_VALUE_MOST = (1 << SL_VALUE_BITS) - 1 };

/* 1 to 1023: graphs that are made one after another differ. */
static inline uint32_t sl_value_mark(const sl_graph *graph) {
    return graph->serial % ((1u << (32 - SL_VALUE_BITS)) - 1) + 1;
}

static inline sl_value sl_value_seal(const sl_graph *graph, sl_value value) {
    if (value.v) value.v |= sl_value_mark(graph) << SL_VALUE_BITS;
    return value;
}

/* False if the value is of another graph. */
static inline bool sl_value_open(const sl_graph *graph, sl_value value, sl_value *out) {
    *out = (sl_value){value.v & SL_VALUE_MOST};
    return !value.v || value.v >> SL_VALUE_BITS == sl_value_mark(graph);
}
#endif
