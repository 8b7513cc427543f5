/* random_graph.h - Graphs at random that the CPU can run: to compare their results bit by bit. */
#ifndef SL_TESTS_SUPPORT_RANDOM_GRAPH_H
#define SL_TESTS_SUPPORT_RANDOM_GRAPH_H
#include "compiler/graph.h"

/* Elementwise ops, products, norms, softmax, slices and joins, reshapes, transposes, states (a
 * causal convolution, attention with a cache), and weights that are written.  Every value has a few
 * rows.  The same seed and number of nodes give the same graph; released with sl_graph_destroy. */
sl_graph *random_graph(uint64_t seed, uint32_t nodes);
#endif
