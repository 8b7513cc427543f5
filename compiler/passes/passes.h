/* passes.h - Helpers of the passes. */
#ifndef SL_COMPILER_PASSES_PASSES_H
#define SL_COMPILER_PASSES_PASSES_H
#include "compiler/passes/fuse.h"

/* A fusion report under construction. */
typedef struct {
    sl_arena *arena;
    bool wanted; /* rows, or only their count */
    uint32_t capacity;
    sl_fusion_report report;
    const sl_target *target; /* the device that will run the graph; NULL: not checked */
} sl_fusion_log;
/* label and why are copied; pattern is borrowed. */
SL_CHECKED sl_status sl_fusion_note(sl_fusion_log *log, const char *pattern, const char *label,
                                    const char *why, sl_error *err);

struct sl_pass_context;
/* For a pass: the report that the options ask for, to go on with, and back again. */
sl_fusion_log sl_fusion_begin(sl_graph *graph, const struct sl_pass_context *context);
void sl_fusion_end(const sl_fusion_log *log, struct sl_pass_context *context);

/* labels.c: the label of a node made of these nodes; NULL: no memory. */
const char *sl_label_join(sl_graph *graph, const uint32_t *nodes, uint32_t count);
/* A label with the same scope and another name; NULL: no memory. */
const char *sl_label_rename(sl_arena *arena, const char *label, const char *name);

/* Whether nodes of the op only take and return values: no state, no experts, no bodies. */
bool sl_op_is_pure(const sl_op_info *info);
/* Whether the value is an output of the graph. */
bool sl_graph_gives(const sl_graph *graph, sl_value value);
/* How many operands of node n are this value; 0 for a dropped node. */
uint32_t sl_node_uses(const sl_graph *graph, uint32_t n, sl_value value);

/* elementwise.c: fuses elementwise ops whose results are used only by each other into one
 * elementwise_region (core/elementwise_region.h).  Leaves dropped nodes for sl_graph_compact. */
SL_CHECKED sl_status sl_fuse_elementwise(sl_graph *graph, sl_fusion_log *log, sl_error *err);
/* batches.c: runs after it; fuses equal regions whose results are concatenated into one
 * batch_elementwise_region.  Leaves dropped nodes, too. */
SL_CHECKED sl_status sl_fuse_batches(sl_graph *graph, sl_fusion_log *log, sl_error *err);
#endif
