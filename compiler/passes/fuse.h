/* fuse.h - Joining nodes into ops that do the same work in fewer passes over memory.
 *
 * Patterns are data (patterns.def): parts, and the node that replaces them; read backwards, how to
 * undo it.  A fusion is legal when only the parts use an intermediate value, which is no output;
 * shapes are exactly those of the fused op; and no read of a state passes its update.  What is left
 * of elementwise chains becomes regions (core/elementwise_region.h).
 *
 * Both rewrite the graph in place and give its values new ids: find them by name or among the
 * outputs.  After a failure the graph is only good for being destroyed. */
#ifndef SL_COMPILER_PASSES_FUSE_H
#define SL_COMPILER_PASSES_FUSE_H
#include "compiler/graph.h"
#include "core/target.h"

typedef struct {
    const char *pattern, *label; /* of the consumer */
    const char *reason;          /* NULL: fused; else why not */
} sl_fusion_row;
typedef struct {
    sl_fusion_row *rows; /* in arena of the graph */
    uint32_t row_count;
    uint32_t fused_nodes; /* nodes that went into others */
} sl_fusion_report;

/* The passes fuse, elementwise and batches for a device that runs every op: to a fixed point,
 * deterministically.  A fused node has the label of its last part.  report may be NULL. */
SL_CHECKED sl_status sl_fuse(sl_graph *graph, sl_fusion_report *report, sl_error *err);
/* quantise.c: before fusing, makes rows that are multiplied with panels a8.  Changes results, by
 * what eight bits per activation lose. */
SL_CHECKED sl_status sl_quantise_activations(sl_graph *graph, sl_error *err);
/* The opposite: every fused op as what it was made of. */
SL_CHECKED sl_status sl_unfuse(sl_graph *graph, sl_error *err);
#endif
