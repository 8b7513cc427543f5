/* inspect.c - Shows how a model's forward pass or a graph is compiled, as text, JSON and pictures.
 */
#include "apps/cli/inspect.h"
#include <string.h>

enum { PROFILE_RUNS = 16 };

json_t *cli_rows_json(const sl_inspect_row *rows, uint32_t count) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        cli_json_append(array, json_pack("{s:o, s:I, s:f, s:f}", "name",
                                         cli_json_text(rows[i].name, strlen(rows[i].name)), "calls",
                                         (json_int_t)rows[i].calls, "seconds", rows[i].seconds,
                                         "share", rows[i].share));
    return array;
}

static json_t *fusions_json(const sl_inspect_report *r) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < r->fusion_count; i++) {
        const sl_inspect_fusion *row = &r->fusions[i];
        json_t *reason =
            row->reason ? cli_json_text(row->reason, strlen(row->reason)) : json_null();
        cli_json_append(array, json_pack("{s:s, s:o, s:o}", "rule", row->rule, "label",
                                         cli_json_text(row->label, strlen(row->label)),
                                         "not_fused_because", reason));
    }
    return array;
}

static json_t *waits_json(const sl_inspect_report *r) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < r->wait_count; i++) {
        const sl_inspect_wait *w = &r->waits[i];
        cli_json_append(
            array,
            json_pack("{s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:I}", "level", (int)w->level,
                      "from", (int)w->from, "to", (int)w->to, "kind", w->kind, "from_label",
                      cli_json_text(w->from_label, strlen(w->from_label)), "to_label",
                      cli_json_text(w->to_label, strlen(w->to_label)), "buffer",
                      cli_json_text(w->buffer, strlen(w->buffer)), "over",
                      cli_json_text(w->over, strlen(w->over)), "bytes", (json_int_t)w->bytes));
    }
    return array;
}

static json_t *to_json(const sl_inspect_report *r) {
    static const char *const sizes[9] = {"more", "1", "2", "3", "4", "5", "6", "7", "8"};
    json_t *object = json_object(), *histogram = json_object();
    for (int i = 1; i <= 9; i++)
        cli_json_set(histogram, sizes[i % 9], json_integer((json_int_t)r->histogram[i % 9]));
    cli_json_set(object, "schedule", json_string(r->schedule));
    cli_json_set(object, "histogram", histogram);
#define NUMBER(NAME) cli_json_set(object, #NAME, json_integer((json_int_t)r->NAME))
#define REAL(NAME)   cli_json_set(object, #NAME, json_real(r->NAME))
    NUMBER(tokens);
    NUMBER(wanted);
    NUMBER(nodes);
    NUMBER(steps);
    NUMBER(fused);
    NUMBER(legalised);
    NUMBER(undeclared);
    NUMBER(moved);
    NUMBER(groups);
    cli_json_set(object, "steps_per_group",
                 json_real(r->groups ? (double)r->steps / r->groups : 0));
    NUMBER(barriers_naive);
    NUMBER(barriers);
    NUMBER(early_steps);
    NUMBER(early_barriers);
    NUMBER(edges_naive);
    NUMBER(edges);
    NUMBER(unshared_bytes);
    NUMBER(arena_bytes);
    NUMBER(live_bytes);
    NUMBER(in_place);
    REAL(build_seconds);
    REAL(check_seconds);
    REAL(simplify_seconds);
    REAL(legalise_seconds);
    REAL(quantise_seconds);
    REAL(fuse_seconds);
    REAL(lower_seconds);
    REAL(schedule_seconds);
    REAL(plan_seconds);
    REAL(verify_seconds);
    NUMBER(proved_steps);
    NUMBER(proved_launches);
    NUMBER(proved_segments);
    NUMBER(proved_edges);
    NUMBER(graph_nodes);
    NUMBER(joined_steps);
    NUMBER(hosted_steps);
    REAL(prove_seconds);
    REAL(run_seconds);
    REAL(busy_share);
    NUMBER(runs);
    NUMBER(threads);
    NUMBER(trace_events);
    NUMBER(trace_dropped);
    NUMBER(reads);
#undef NUMBER
#undef REAL
    cli_json_set(object, "ops", cli_rows_json(r->ops, r->op_count));
    cli_json_set(object, "labels", cli_rows_json(r->labels, r->label_count));
    return object;
}

static int print_json(const cli_options *options, const sl_inspect_report *report) {
    json_t *object = to_json(report);
    if (options->fusion) cli_json_set(object, "fusions", fusions_json(report));
    if (options->barriers) cli_json_set(object, "waits", waits_json(report));
    return cli_print_json(object);
}

int cli_inspect_print(const cli_options *options, const sl_inspect_report *report) {
    char *text;
    sl_error err;
    if (report->step_list) return fputs(report->step_list, stdout) < 0 ? CLI_FAILED : CLI_OK;
    if (options->json) return print_json(options, report);
    if (sl_inspect_text(report, &text, &err) != SL_OK) return cli_fail(&err);
    (void)fputs(text, stdout);
    sl_free(text);
    if (report->trace_dropped)
        cli_note("the trace buffer was full: %llu of %llu events are missing",
                 (unsigned long long)report->trace_dropped,
                 (unsigned long long)(report->trace_events + report->trace_dropped));
    return CLI_OK;
}

sl_inspect_options cli_inspect_options(const cli_options *options) {
    const bool has_groups = options->schedule && strcmp(options->schedule, "groups") == 0;
    if ((options->two_submits || options->lookahead_given) && !has_groups)
        cli_note("--%s has an effect with --schedule groups only",
                 options->two_submits ? "two-submits" : "lookahead");
    return (sl_inspect_options){
        .struct_size = sizeof(sl_inspect_options),
        .runs = options->profile ? PROFILE_RUNS : 0,
        .trace_path = options->trace,
        .memory_path = options->memory,
        .dot_path = options->dot,
        .verify = options->verify,
        .list_steps = !options->steps ? 0
                      : options->json ? 2
                                      : 1,
        .list_fusions = options->fusion,
        .list_waits = options->barriers,
    };
}

/* ---- two devices side by side ---- */

static json_t *comparison_json(const sl_compare_report *r) {
    json_t *rows = json_array();
    for (uint32_t i = 0; i < r->op_count; i++)
        cli_json_append(rows, json_pack("{s:s, s:I, s:f}", "name", r->ops[i].name, "steps",
                                        (json_int_t)r->ops[i].steps, "worst", r->ops[i].worst));
    json_t *object = json_pack("{s:I, s:f, s:b, s:o}", "steps", (json_int_t)r->steps, "tolerance",
                               r->tolerance, "differs", r->differs, "ops", rows);
    if (r->differs)
        cli_json_set(object, "first",
                     json_pack("{s:o, s:s, s:I, s:[f, f]}", "label",
                               cli_json_text(r->label, strlen(r->label)), "operand", r->operand,
                               "index", (json_int_t)r->index, "values", r->values[0],
                               r->values[1]));
    return object;
}

static int print_comparison(const cli_options *options, const sl_compare_report *r) {
    if (options->json) {
        const int result = cli_print_json(comparison_json(r));
        return r->differs ? CLI_FAILED : result;
    }
    (void)printf("%-26s %7s %12s\n", "op", "results", "max error");
    for (uint32_t i = 0; i < r->op_count; i++)
        (void)printf("%-26s %7llu %12.3g\n", r->ops[i].name, (unsigned long long)r->ops[i].steps,
                     r->ops[i].worst);
    if (!r->differs) {
        (void)printf("%u steps agree within %g on %s\n", r->steps, r->tolerance,
                     options->compare_devices);
        return CLI_OK;
    }
    return cli_fail_text("first difference beyond %g: %s, %s[%llu] is %.9g and %.9g on %s",
                         r->tolerance, r->label, r->operand, (unsigned long long)r->index,
                         r->values[0], r->values[1], options->compare_devices);
}

static int compare_devices(const cli_options *options) {
    char words[CLI_COMPILE_TEXT], names[2][16] = {"", ""};
    sl_model *models[2] = {NULL, NULL};
    sl_error err;
    int result = CLI_FAILED;
    sl_compare_report report = {.struct_size = sizeof report};
    const sl_compare_options given = {.struct_size = sizeof given,
                                      .tokens = options->rows,
                                      .compile = cli_compile_words(options, words)};
    if (sscanf(options->compare_devices, "%15[a-z],%15[a-z]", names[0], names[1]) != 2)
        return cli_misuse(CLI_inspect, "--compare '%s': expected two devices, as in ref,cpu",
                          options->compare_devices);
    bool open = true;
    for (int i = 0; i < 2 && open; i++) {
        cli_options side = *options;
        side.device = names[i];
        side.schedule = NULL;
        open = cli_open_model(&side, 0, &models[i]);
    }
    if (open)
        result = sl_compare(models[0], models[1], &given, &report, &err) == SL_OK
                     ? print_comparison(options, &report)
                     : cli_fail(&err);
    sl_model_close(models[0]);
    sl_model_close(models[1]);
    return result;
}

int cli_run_inspect(const cli_options *options) {
    char words[CLI_COMPILE_TEXT];
    if (options->compare_devices) return compare_devices(options);
    sl_inspect_options given = cli_inspect_options(options);
    given.shape = options->shape;
    given.tokens = options->rows;
    given.depth = options->depth;
    given.compile = cli_compile_words(options, words);
    given.launches = 1;
    if (options->shape && options->model_given)
        return cli_misuse(CLI_inspect, "--shape and --model: give only one of them");
    cli_options opening = *options;
    opening.schedule = NULL; /* the model itself runs levels */
    sl_model *model = NULL;
    if (!options->shape && !cli_open_model(&opening, 0, &model)) return CLI_FAILED;
    sl_error err;
    sl_inspect_report report = {.struct_size = sizeof report};
    const int result = sl_inspect(model, &given, &report, &err) == SL_OK
                           ? cli_inspect_print(options, &report)
                           : cli_fail(&err);
    sl_inspect_report_deinit(&report);
    sl_model_close(model);
    return result;
}
