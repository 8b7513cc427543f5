/* legalise.h - Making a graph one that a device runs.
 *
 * A node is native where the device accepts it (core/target.h) or where it needs no kernel.  One
 * that is not is rewritten by the rules of rewrites.def, again and again, into nodes that are;
 * where that does not end well it is unsupported.  What a rewritten node computes differs by
 * rounding alone. */
#ifndef SL_COMPILER_PASSES_LEGALISE_H
#define SL_COMPILER_PASSES_LEGALISE_H
#include "compiler/graph.h"
#include "core/target.h"

typedef enum { SL_LEGAL_NATIVE, SL_LEGAL_REWRITTEN, SL_LEGAL_UNSUPPORTED } sl_legality_kind;
typedef struct {
    const char *label, *op;
    sl_legality_kind kind;
    const char *detail; /* rewritten: the ops it became; unsupported: why; else "" */
} sl_legality_row;
/* Being written: set arena, and prefix (of labels) to NULL or a text. */
typedef struct {
    sl_arena *arena;
    const char *prefix;
    sl_legality_row *rows;
    uint32_t count, capacity;
} sl_legality_log;

/* One row per node, in order; *changed (or NULL) says whether nodes were rewritten.  Without a log
 * the first unsupported node is an error that names it; with one, such nodes stay as they are.
 * target NULL: every device that is not asked; only what none has a kernel for is rewritten. Bodies
 * are left alone: they are graphs of their own. */
SL_CHECKED sl_status sl_legalise(sl_graph *graph, const sl_target *target, sl_legality_log *log,
                                 bool *changed, sl_error *err);
/* Whether the device runs every node, or which it does not. */
SL_CHECKED sl_status sl_check_legal(const sl_graph *graph, const sl_target *target, sl_error *err);
/* The same for the graph and its bodies, on a copy that is simplified before; log is not NULL. */
SL_CHECKED sl_status sl_legality_report(const sl_graph *graph, const sl_target *target,
                                        sl_legality_log *log, sl_error *err);

/* A node that is or might be; outputs are those of the op's OUTs and NEXTs. */
typedef struct {
    sl_op op;
    const char *label;
    const void *attrs;
    const sl_type *in, *out;
    uint32_t in_count, out_count;
} sl_call;
/* SL_OK where the target runs it, or where there is no target. */
SL_CHECKED sl_status sl_target_runs(const sl_target *target, const sl_call *call, sl_error *err);
SL_CHECKED sl_status sl_target_runs_node(const sl_target *target, const sl_graph *graph,
                                         const sl_node *node, sl_error *err);
#endif
