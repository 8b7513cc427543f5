#include "compiler/passes/pipeline.h"

const sl_pass sl_passes[] = {
#define PASS(NAME, SUMMARY) {#NAME, SUMMARY, sl_pass_##NAME},
#include "compiler/passes/passes.def"
    {0}};

static sl_status verify(const sl_graph *graph, sl_error *err) {
#ifdef SL_DEBUG
    return sl_graph_verify(graph, err);
#else
    (void)graph, (void)err;
    return SL_OK;
#endif
}

sl_status sl_simplify(sl_graph *graph, sl_error *err) {
    enum { MOST_ROUNDS = 16 }; /* each makes the graph smaller; few need three */
    bool changed = true;
    SL_TRY(sl_graph_check(graph, err));
    for (int round = 0; changed && round < MOST_ROUNDS; round++) {
        changed = false;
        for (const sl_pass *pass = sl_passes; pass->name; pass++) {
            bool once = false;
            SL_TRY(pass->run(graph, &once, err));
            SL_TRY(verify(graph, err));
            changed |= once;
        }
    }
    return SL_OK;
}

sl_status sl_simplify_known(sl_graph *graph, sl_error *err) {
    bool recognised = false;
    SL_TRY(sl_simplify(graph, err));
    SL_TRY(sl_pass_recognise(graph, &recognised, err));
    return recognised ? sl_simplify(graph, err) : SL_OK;
}
