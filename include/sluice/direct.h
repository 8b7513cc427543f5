/* direct.h - Direct mode: the nodes of a graph run one by one, as they are added, to debug a model.
 *
 *   sl_graph_create("mlp", NULL, &g, err);
 *   sl_direct_create(g, NULL, &d, err);
 *   sl_direct_set(d, "x", data, bytes, err);
 *   sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4});
 *   sl_value y = sl_graph_apply(g, "softmax", &x, 1, NULL);     the node runs here
 *   sl_direct_get(d, y, &result, &result_bytes, err);
 *
 * The code that builds the graph is the code that builds it for sl_compile.  Each node is compiled
 * and run as a graph of its own, so its results have the bits that they have in the compiled graph.
 * Two passes over larger graphs change bits, which "no-simplify" turns off: recognised ops are
 * computed with fewer roundings, and constants are folded across nodes. */
#ifndef SLUICE_DIRECT_H
#define SLUICE_DIRECT_H
#include "sluice/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_direct sl_direct;

/* From now on a node that is added to the graph runs before the function that adds it returns.  If
 * it cannot run, that is a mistake of the graph (sl_graph_check), whose message begins with the
 * label of the node.  Nodes that the graph has already run with sl_direct_run.  The graph must
 * outlive the result.  A graph has one of these at a time. */
SL_API SL_CHECKED sl_status sl_direct_create(sl_graph *graph, const sl_compile_options *options,
                                             sl_direct **out, sl_error *err);
SL_API void sl_direct_destroy(sl_direct *direct); /* NULL is fine */
/* Sets an input, weight or state by name, also before it is declared; it must be set before the
 * first node that uses it is added.  The data is copied.  States are zero until they are set. */
SL_API SL_CHECKED sl_status sl_direct_set(sl_direct *direct, const char *name, const void *data,
                                          size_t bytes, sl_error *err);
/* The data of any value of the graph, in its own type, valid until it is computed again; out_bytes
 * may be NULL.  Fails for a value that was not computed, for experts, and for a state that was
 * updated since: the version that a node returned is the one to read. */
SL_API SL_CHECKED sl_status sl_direct_get(sl_direct *direct, sl_value value, const void **out,
                                          size_t *out_bytes, sl_error *err);
/* Runs all nodes of the graph from the first to the last: of a graph that was read from a file, or
 * again with other inputs.  States keep what they hold. */
SL_API SL_CHECKED sl_status sl_direct_run(sl_direct *direct, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
