#include "compiler/compile.h"
#include "base/clock.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/pipeline.h"
#include "core/check.h"

static sl_status fuse(sl_graph *graph, const sl_compile_how *how, uint32_t *out_fused,
                      sl_error *err) {
    sl_fusion_report report = {0};
    if (!how->no_fusion) SL_TRY(sl_fuse(graph, &report, err));
    *out_fused = report.fused_nodes;
    return SL_OK;
}

/* Brute force, so for debugging builds alone. */
static sl_status check(const sl_program *program, sl_error *err) {
#ifdef SL_DEBUG
    return sl_check_program(program, program->arena.allocator, err);
#else
    (void)program, (void)err;
    return SL_OK;
#endif
}

sl_status sl_compile_graph(sl_graph *graph, const sl_compile_how *how,
                           const sl_allocator *allocator, sl_program **out, sl_error *err) {
    const sl_compile_how plain = {0};
    sl_status status = SL_OK;
    sl_program *program = NULL;
    sl_program_report report = {0};
    if (!how) how = &plain;
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_verify(graph, err));
    double clock = sl_clock_seconds();
    if (!how->no_simplify) SL_TRY(sl_simplify(graph, err));
    if (how->int8_activations) SL_TRY(sl_quantise_activations(graph, err));
    report.nodes = graph->node_count;
    SL_TRY(fuse(graph, how, &report.fused, err));
    report.fuse_seconds = sl_clock_lap(&clock);
    SL_TRY(sl_lower(graph, allocator, &program, err));
    report.lower_seconds = sl_clock_lap(&clock);
    program->report = report;
    SL_TRY_ELSE(done, sl_schedule(program, how, err));
    program->report.schedule_seconds = sl_clock_lap(&clock);
    SL_TRY_ELSE(done, sl_plan(program, how, err));
    program->report.plan_seconds = sl_clock_lap(&clock);
    SL_TRY_ELSE(done, check(program, err));
    *out = program;
    program = NULL;
done:
    sl_program_destroy(program);
    return status;
}
