/* fuse.h - Fusing nodes into ops that do the same work with fewer passes over memory.
 *
 * Patterns are data (patterns.def): the parts, and the node that replaces them; read backwards they
 * unfuse.  A fusion is legal if only the parts use an intermediate value, which is not an output;
 * if the shapes are accepted by the fused op; and if no read of a state is moved across its update.
 * The remaining chains of elementwise ops become regions (core/elementwise_region.h).
 *
 * Fusing and unfusing rewrite the graph in place and give its values new ids: find them by name or
 * among the outputs.  After a failure the graph can only be destroyed. */
#ifndef SL_COMPILER_PASSES_FUSE_H
#define SL_COMPILER_PASSES_FUSE_H
#include "compiler/fusion.h"
#include "compiler/graph.h"
#include "core/target.h"

/* The passes fuse, elementwise and batches for a device that supports every op, until nothing
 * changes; deterministic.  The label of a fused node names its parts.  report may be NULL. */
SL_CHECKED sl_status sl_fuse(sl_graph *graph, sl_fusion_report *report, sl_error *err);
/* quantise.c: before fusion, converts activations that multiply panel weights to a8.  Changes
 * results by the rounding to eight bits. */
SL_CHECKED sl_status sl_quantise_activations(sl_graph *graph, sl_error *err);
/* The reverse: replaces every fused op by its parts. */
SL_CHECKED sl_status sl_unfuse(sl_graph *graph, sl_error *err);
#endif
