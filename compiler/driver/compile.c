#include "compiler/compile.h"
#include "base/clock.h"
#include "compiler/passes/pipeline.h"
#include "core/check.h"

/* A stage of a program, after its bodies. */
typedef sl_status stage(sl_program *program, const sl_compiler_options *options, sl_error *err);

static sl_status run_stage(stage *run, sl_program *program, const sl_compiler_options *options,
                           sl_error *err) {
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t b = 0; b < program->steps[s].body_count; b++)
            if (program->steps[s].bodies[b])
                SL_TRY(run_stage(run, program->steps[s].bodies[b], options, err));
    return run(program, options, err);
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

sl_compiler_options sl_compiler_options_for(const sl_target *target) {
    return (sl_compiler_options){.model = target ? target->schedule : SL_SCHEDULE_LEVELS,
                                 .target = target};
}

/* Times by stage; `bodies` has none of its own. */
static void report_passes(const sl_pass_context *context, sl_program_report *out) {
    static const sl_pass_id simplify[] = {SL_PASS_prune, SL_PASS_fold,      SL_PASS_simplify,
                                          SL_PASS_share, SL_PASS_recognise, SL_PASS_attention};
    const double *seconds = context->seconds;
    out->fused = context->fused;
    out->legalised = context->legalised;
    out->check_seconds =
        seconds[SL_PASS_verify] + seconds[SL_PASS_sizes] + seconds[SL_PASS_check_legal];
    for (size_t i = 0; i < sizeof simplify / sizeof simplify[0]; i++)
        out->simplify_seconds += seconds[simplify[i]];
    out->legalise_seconds = seconds[SL_PASS_legalise];
    out->quantise_seconds = seconds[SL_PASS_quantise];
    out->fuse_seconds =
        seconds[SL_PASS_fuse] + seconds[SL_PASS_elementwise] + seconds[SL_PASS_batches];
}

sl_status sl_compile_graph(sl_graph *graph, const sl_compiler_options *options,
                           const sl_allocator *allocator, sl_program **out, sl_error *err) {
    const sl_compiler_options plain = {0};
    sl_status status = SL_OK;
    sl_program *program = NULL;
    sl_program_report report = {0};
    if (!options) options = &plain;
    sl_pass_context context = {.options = options};
    double clock = sl_clock_seconds();
    report.nodes = graph->node_count;
    SL_TRY(sl_passes_run(graph, &context, SL_PASS_COUNT, err));
    report_passes(&context, &report);
    (void)sl_clock_lap(&clock);
    SL_TRY(sl_lower(graph, allocator, &program, err));
    report.lower_seconds = sl_clock_lap(&clock);
    program->report = report;
    SL_TRY_ELSE(done, run_stage(sl_schedule, program, options, err));
    program->report.schedule_seconds = sl_clock_lap(&clock);
    SL_TRY_ELSE(done, run_stage(sl_plan, program, options, err));
    program->report.plan_seconds = sl_clock_lap(&clock);
    SL_TRY_ELSE(done, check(program, err));
    *out = program;
    program = NULL;
done:
    sl_program_destroy(program);
    return status;
}
