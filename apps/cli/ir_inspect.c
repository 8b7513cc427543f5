/* ir_inspect.c - Shows how a tensor program is compiled. */
#include "apps/cli/inspect.h"
#include "apps/cli/ir.h"
#include <string.h>

static int finish(const cli_options *options, sl_status status, sl_inspect_report *report,
                  const sl_error *err) {
    const int result = status == SL_OK ? cli_inspect_print(options, report) : cli_fail(err);
    sl_inspect_report_deinit(report);
    return result;
}

/* Runs it, with random values for what was not given. */
static int inspect_runs(const sl_graph *graph, const cli_options *options,
                        const sl_inspect_options *given) {
    cli_runner r = {.graph = graph, .options = options};
    sl_inspect_report report = {.struct_size = sizeof report};
    sl_error err;
    int result = CLI_FAILED;
    if (cli_ir_start(&r, NULL))
        result =
            finish(options, sl_compiled_report(r.compiled, given, &report, &err), &report, &err);
    cli_ir_stop(&r);
    return result;
}

/* A program can be compiled for a device that is not there; only its launches are not known then.
 */
int cli_ir_inspect(const sl_graph *graph, const cli_options *options) {
    char words[CLI_COMPILE_TEXT];
    sl_inspect_options given = cli_inspect_options(options);
    const sl_compile_options compile = {.struct_size = sizeof compile,
                                        .device = options->device,
                                        .isa = options->isa,
                                        .threads = options->threads,
                                        .compile = cli_compile_words(options, words)};
    if (given.runs || given.trace_path) return inspect_runs(graph, options, &given);
    sl_inspect_report report = {.struct_size = sizeof report};
    sl_error err, why;
    given.launches = options->device && strcmp(options->device, "cpu") != 0;
    sl_status status = sl_inspect_graph(graph, &compile, &given, &report, &err);
    if (status == SL_OK || !given.launches) return finish(options, status, &report, &err);
    why = err;
    given.launches = 0;
    status = sl_inspect_graph(graph, &compile, &given, &report, &err);
    if (status == SL_OK) cli_note("launches are not shown: %s", why.message);
    return finish(options, status, &report, &err);
}
