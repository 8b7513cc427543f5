/* pipeline.h - The passes of passes.def. */
#ifndef SL_COMPILER_PASSES_PIPELINE_H
#define SL_COMPILER_PASSES_PIPELINE_H
#include "compiler/graph.h"

/* Each rewrites the graph in place and says whether it changed it; values get new ids. */
typedef sl_status sl_pass_fn(sl_graph *graph, bool *changed, sl_error *err);
#define PASS(NAME, SUMMARY) sl_pass_fn sl_pass_##NAME;
#include "compiler/passes/passes.def"

/* After them: several nodes that spell one op (idioms.def) become it. */
sl_pass_fn sl_pass_recognise;

typedef struct {
    const char *name, *summary;
    sl_pass_fn *run;
} sl_pass;
/* All of them; ends with a row without a name. */
extern const sl_pass sl_passes[];

/* Runs them all until nothing changes; in debugging builds the graph is verified after each. */
SL_CHECKED sl_status sl_simplify(sl_graph *graph, sl_error *err);
/* The same, with ops that are recognised. */
SL_CHECKED sl_status sl_simplify_known(sl_graph *graph, sl_error *err);
#endif
