/* fuse.h - Joining nodes into ops that do the same work in fewer passes over memory.
 *
 * Patterns are data (patterns.def): a producer and a consumer, a condition, a replacement, and how
 * to undo it.  A fusion is legal when the intermediate value has one use, is no output, and shapes
 * are exactly those of the fused op. */
#ifndef SL_COMPILER_PASSES_FUSE_H
#define SL_COMPILER_PASSES_FUSE_H
#include "compiler/graph.h"

typedef struct {
    const char *pattern, *label; /* of the consumer */
    const char *reason;          /* NULL: fused; else why not */
} sl_fusion_row;
typedef struct {
    sl_fusion_row *rows; /* in arena of the graph */
    uint32_t row_count;
    uint32_t fused_nodes; /* nodes that went into others */
} sl_fusion_report;

/* Rewrites the graph in place to a fixed point, deterministically.  report may be NULL. */
SL_CHECKED sl_status sl_fuse(sl_graph *graph, sl_fusion_report *report, sl_error *err);
/* The opposite: every fused op as what it was made of. */
SL_CHECKED sl_status sl_unfuse(sl_graph *graph, sl_error *err);
#endif
