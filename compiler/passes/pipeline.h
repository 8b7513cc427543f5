/* pipeline.h - The passes of passes.def. */
#ifndef SL_COMPILER_PASSES_PIPELINE_H
#define SL_COMPILER_PASSES_PIPELINE_H
#include "compiler/compile.h"

typedef struct sl_pass_context sl_pass_context;
/* Each pass rewrites the graph in place and sets *changed if it changed it; values then have new
 * ids. */
typedef sl_status sl_pass_fn(sl_graph *graph, sl_pass_context *context, bool *changed,
                             sl_error *err);
#define PASS(NAME, KIND, CONDITION, SUMMARY) sl_pass_fn sl_pass_##NAME;
#include "compiler/passes/passes.def"

#define PASS(NAME, KIND, CONDITION, SUMMARY) SL_PASS_##NAME,
typedef enum {
#include "compiler/passes/passes.def"
    SL_PASS_COUNT
} sl_pass_id;

/* Options of the passes, and their statistics, with those of bodies. */
struct sl_pass_context {
    const sl_compiler_options *options;
    uint32_t fused;     /* nodes that were fused into others */
    uint32_t legalised; /* nodes that were rewritten for the target */
    double
        seconds[SL_PASS_COUNT]; /* of all runs of each pass; those of `bodies` are in the others */
    uint32_t row_capacity;      /* of the report of fusions */
};

/* Runs all passes before `end` in order (SL_PASS_COUNT: all of them); debug builds verify the graph
 * after each. */
SL_CHECKED sl_status sl_passes_run(sl_graph *graph, sl_pass_context *context, sl_pass_id end,
                                   sl_error *err);
/* Only the repeated passes. */
SL_CHECKED sl_status sl_simplify(sl_graph *graph, sl_error *err);
#endif
