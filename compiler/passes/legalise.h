/* legalise.h - Rewriting a graph for a device.
 *
 * A node is native if the device accepts it (core/target.h) or if it needs no kernel.  Other nodes
 * are rewritten by the rules of rewrites.def, repeatedly, until only native nodes are left; a node
 * for which no rule leads there is unsupported.  The results of a rewritten node differ by rounding
 * only. */
#ifndef SL_COMPILER_PASSES_LEGALISE_H
#define SL_COMPILER_PASSES_LEGALISE_H
#include "compiler/graph.h"
#include "core/target.h"

typedef enum { SL_LEGAL_NATIVE, SL_LEGAL_REWRITTEN, SL_LEGAL_UNSUPPORTED } sl_legality_kind;
typedef struct {
    const char *label, *op;
    sl_legality_kind kind;
    const char *detail; /* rewritten: the resulting ops; unsupported: the reason; else "" */
} sl_legality_row;
/* Filled in by sl_legalise; set arena before, and prefix (of labels) to NULL or a text. */
typedef struct {
    sl_arena *arena;
    const char *prefix;
    sl_legality_row *rows;
    uint32_t count, capacity;
} sl_legality_log;

/* One row per node, in order; *rewritten (or NULL) is the number of nodes that were rewritten.
 * Without a log the first unsupported node is an error that names it; with one, such nodes stay as
 * they are. target NULL: any device, so only ops without any kernel are rewritten.  Bodies are
 * graphs of their own and are not changed. */
SL_CHECKED sl_status sl_legalise(sl_graph *graph, const sl_target *target, sl_legality_log *log,
                                 uint32_t *rewritten, sl_error *err);
/* SL_OK if the device supports every node; otherwise the error names the first that it does not. */
SL_CHECKED sl_status sl_check_legal(const sl_graph *graph, const sl_target *target, sl_error *err);
/* The same for the graph and its bodies, on a copy that is simplified first; log is not NULL. */
SL_CHECKED sl_status sl_legality_report(const sl_graph *graph, const sl_target *target,
                                        sl_legality_log *log, sl_error *err);

/* A node of the graph, or one that a pass considers; outputs are those of the op's OUTs and NEXTs.
 */
typedef struct {
    sl_op op;
    const char *label;
    const void *attrs;
    const sl_type *in, *out;
    uint32_t in_count, out_count;
} sl_call;
/* SL_OK if the target supports it, or if there is no target. */
SL_CHECKED sl_status sl_target_runs(const sl_target *target, const sl_call *call, sl_error *err);
SL_CHECKED sl_status sl_target_runs_node(const sl_target *target, const sl_graph *graph,
                                         const sl_node *node, sl_error *err);
#endif
