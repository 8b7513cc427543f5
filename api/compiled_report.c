/* compiled_report.c - How a graph was compiled, and where the time of its runs goes
 * (sluice/inspect.h). */
#include "api/compiled.h"
#include "api/inspect_options.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/session/compile_options.h"

static sl_status complete(const sl_inspect_options *given, sl_inspect_options *out, sl_error *err) {
    SL_TRY(sl_inspect_complete(given, out, err));
    if (out->shape || out->tokens || out->wanted || out->depth)
        return sl_fail(err, SL_INVALID,
                       "shape, tokens, wanted and depth are for models, not for graphs");
    if (out->compile)
        return sl_fail(err, SL_INVALID,
                       "'%.64s': compile options of a graph belong into sl_compile_options",
                       out->compile);
    return SL_OK;
}

static sl_status run_once(void *ctx, uint32_t run, sl_error *err) {
    (void)run;
    return sl_compiled_run(ctx, err);
}

/* Binds all memory: a proof needs final addresses, also before the first run. */
static sl_status bind_all(sl_compiled *compiled, sl_error *err) {
    sl_queue_enter(compiled->executor->queue);
    const sl_status status = sl_compiled_bind_all(compiled, err);
    sl_queue_leave(compiled->executor->queue);
    return status;
}

sl_status sl_compiled_report(sl_compiled *compiled, const sl_inspect_options *given,
                             sl_inspect_report *out, sl_error *err) {
    SL_NEED(compiled && out);
    sl_inspect_options options;
    SL_TRY(sl_inspect_check_size(out, err));
    SL_TRY(complete(given, &options, err));
    SL_TRY(sl_compiled_check_idle(compiled, err));
    if (!compiled->program)
        return sl_fail(err, SL_UNSUPPORTED, "the device '%s' evaluates graphs without compiling",
                       compiled->executor->row->name);
    if (compiled->window.is_open)
        return sl_fail(err, SL_INVALID, "graph '%s': a profile is open", compiled->graph->name);
    SL_TRY(bind_all(compiled, err));
    const sl_runnable loaded = {.device = compiled->executor->device,
                                .executable = compiled->executable,
                                .program = compiled->program,
                                .run = run_once,
                                .ctx = compiled};
    const sl_graph_subject subject = {compiled->graph, &compiled->compile, &loaded};
    sl_inspect_report report;
    SL_TRY(sl_report_init(&report, err));
    const sl_status status = sl_inspect_any_graph(&subject, &options, &report, err);
    return sl_inspect_hand_out(status, &report, out);
}

/* Without the device. */
static sl_status inspect_only(const sl_graph *graph, const sl_compile_options *given,
                              const sl_inspect_options *options, sl_inspect_report *out,
                              sl_error *err) {
    const sl_device_row *row;
    sl_executor *executor = given->executor;
    if (!executor && given->share) executor = given->share->executor;
    SL_TRY(sl_device_find(executor ? executor->row->name : given->device, &row, err));
    if (!row->create)
        return sl_fail(err, SL_UNSUPPORTED, "the device '%s' evaluates graphs without compiling",
                       row->name);
    sl_compiler_options compile = sl_compiler_options_for(row->target);
    SL_TRY(sl_compiler_options_parse(given->compile, &compile, err));
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_check_sizes(graph, err));
    const sl_graph_subject subject = {graph, &compile, NULL};
    sl_inspect_report report;
    SL_TRY(sl_report_init(&report, err));
    const sl_status status = sl_inspect_any_graph(&subject, options, &report, err);
    return sl_inspect_hand_out(status, &report, out);
}

sl_status sl_inspect_graph(const sl_graph *graph, const sl_compile_options *given,
                           const sl_inspect_options *inspected, sl_inspect_report *out,
                           sl_error *err) {
    SL_NEED(graph && out);
    sl_inspect_options options;
    sl_compile_options compile = {0};
    sl_compiled *compiled = NULL;
    SL_TRY(SL_STRUCT_TAKE(sl_compile_options, &compile, given, err));
    SL_TRY(sl_inspect_check_size(out, err));
    SL_TRY(complete(inspected, &options, err));
    if (!options.runs && !options.launches)
        return inspect_only(graph, &compile, &options, out, err);
    compile.struct_size = sizeof compile;
    SL_TRY(sl_compile(graph, &compile, &compiled, err));
    const sl_status status = sl_compiled_report(compiled, &options, out, err);
    sl_compiled_destroy(compiled);
    return status;
}
