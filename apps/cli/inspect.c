/* inspect.c - What the compiler made of a model's step, as text, JSON and pictures. */
#include "sluice/inspect.h"
#include "apps/cli/cli.h"
#include <string.h>

enum { PROFILE_RUNS = 16 };

static json_t *rows_json(const sl_inspect_row *rows, uint32_t count) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(array,
                                    json_pack("{s:o, s:I, s:f, s:f}", "name",
                                              cli_json_text(rows[i].name, strlen(rows[i].name)),
                                              "calls", (json_int_t)rows[i].calls, "seconds",
                                              rows[i].seconds, "share", rows[i].share));
    return array;
}

static json_t *to_json(const sl_inspect_report *r) {
    static const char *const sizes[9] = {"more", "1", "2", "3", "4", "5", "6", "7", "8"};
    json_t *object = json_object(), *histogram = json_object();
    for (int i = 1; i <= 9; i++)
        (void)json_object_set_new(histogram, sizes[i % 9],
                                  json_integer((json_int_t)r->histogram[i % 9]));
    (void)json_object_set_new(object, "schedule", json_string(r->schedule));
    (void)json_object_set_new(object, "histogram", histogram);
#define NUMBER(NAME) (void)json_object_set_new(object, #NAME, json_integer((json_int_t)r->NAME))
#define REAL(NAME)   (void)json_object_set_new(object, #NAME, json_real(r->NAME))
    NUMBER(tokens);
    NUMBER(wanted);
    NUMBER(nodes);
    NUMBER(steps);
    NUMBER(fused);
    NUMBER(moved);
    NUMBER(groups);
    NUMBER(barriers_naive);
    NUMBER(barriers);
    NUMBER(edges_naive);
    NUMBER(edges);
    NUMBER(unshared_bytes);
    NUMBER(arena_bytes);
    NUMBER(live_bytes);
    NUMBER(in_place);
    REAL(build_seconds);
    REAL(fuse_seconds);
    REAL(lower_seconds);
    REAL(schedule_seconds);
    REAL(plan_seconds);
    REAL(verify_seconds);
    REAL(run_seconds);
    REAL(busy_share);
    NUMBER(runs);
    NUMBER(threads);
    NUMBER(trace_events);
    NUMBER(trace_dropped);
    NUMBER(reads);
#undef NUMBER
#undef REAL
    (void)json_object_set_new(object, "ops", rows_json(r->ops, r->op_count));
    (void)json_object_set_new(object, "labels", rows_json(r->labels, r->label_count));
    return object;
}

static int print_report(const cli_options *options, const sl_inspect_report *report) {
    char *text;
    sl_error err;
    if (options->json) return cli_print_json(to_json(report));
    if (sl_inspect_text(report, &text, &err) != SL_OK) return cli_fail(&err);
    (void)fputs(text, stdout);
    sl_text_free(text);
    if (report->trace_dropped)
        (void)fprintf(stderr, "sluice: the trace was full: %llu of %llu events are missing\n",
                      (unsigned long long)report->trace_dropped,
                      (unsigned long long)(report->trace_events + report->trace_dropped));
    return CLI_OK;
}

int cli_run_inspect(const cli_options *options) {
    char words[CLI_COMPILE_TEXT];
    const sl_inspect_options how = {
        .struct_size = sizeof how,
        .shape = options->shape,
        .tokens = options->rows,
        .compile = cli_compile_words(options, words),
        .runs = options->profile ? PROFILE_RUNS : 0,
        .trace_path = options->trace,
        .memory_path = options->memory,
        .dot_path = options->dot,
        .verify = options->verify,
    };
    if (options->shape && options->model)
        return cli_misuse(CLI_inspect, "--shape and --model: one of them");
    cli_options opening = *options;
    opening.schedule = NULL; /* the model itself runs levels */
    sl_model *model = NULL;
    if (!options->shape && !cli_open_model(&opening, 0, &model)) return CLI_FAILED;
    sl_error err;
    sl_inspect_report report;
    const int result = sl_inspect(model, &how, &report, &err) == SL_OK
                           ? print_report(options, &report)
                           : cli_fail(&err);
    sl_model_close(model);
    return result;
}
