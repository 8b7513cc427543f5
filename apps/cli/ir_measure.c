/* ir_measure.c - Benchmarks a tensor program, and compares two of them. */
#include "apps/cli/ir.h"
#include "apps/cli/values.h"
#include "sluice/inspect.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 11, MOST_REPEATS = 100000, TYPE_TEXT = 160 };

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static json_t *profile_json(const sl_inspect_report *r) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->op_count; i++)
        cli_json_append(list, json_pack("{s:s, s:I, s:f, s:f}", "op", r->ops[i].name, "calls",
                                        (json_int_t)r->ops[i].calls, "seconds", r->ops[i].seconds,
                                        "share", r->ops[i].share));
    return list;
}

static void print_profile(const sl_inspect_report *r) {
    (void)printf("%-28s %8s %12s %8s\n", "op", "steps", "ms, threads", "share");
    for (uint32_t i = 0; i < r->op_count; i++)
        (void)printf("%-28s %8.0f %12.3f %6.1f %%\n", r->ops[i].name,
                     (double)r->ops[i].calls / r->runs, r->ops[i].seconds * 1e3 / r->runs,
                     r->ops[i].share * 100);
}

/* In microseconds if milliseconds would have few digits. */
static void print_times(const double *times, uint32_t count) {
    const bool small = times[0] < 1e-3;
    const double scale = small ? 1e6 : 1e3;
    const char *unit = small ? "us" : "ms";
    (void)printf("median %.3f %s, minimum %.3f %s, %u repeats\n", times[count / 2] * scale, unit,
                 times[0] * scale, unit, count);
}

static int report(cli_runner *r, const double *times, uint32_t count) {
    const sl_inspect_options given = {.struct_size = sizeof given, .runs = count};
    sl_inspect_report profile = {.struct_size = sizeof profile};
    sl_error err;
    if (r->options->profile && sl_compiled_report(r->compiled, &given, &profile, &err) != SL_OK)
        return cli_fail(&err);
    int result = CLI_OK;
    if (r->options->json) {
        json_t *json = json_pack("{s:f, s:f, s:i}", "median_seconds", times[count / 2],
                                 "least_seconds", times[0], "repeats", (int)count);
        if (r->options->profile) cli_json_set(json, "profile", profile_json(&profile));
        result = cli_print_json(json);
    } else {
        print_times(times, count);
        if (r->options->profile) print_profile(&profile);
    }
    sl_inspect_report_deinit(&profile);
    return result;
}

static int measure(cli_runner *r, double *times, uint32_t count) {
    sl_error err;
    for (uint32_t i = 0; i < count + 1; i++) { /* the first one warms up */
        const double start = cli_seconds();
        if (sl_compiled_run(r->compiled, &err) != SL_OK) return cli_fail(&err);
        times[i ? i - 1 : 0] = cli_seconds() - start;
    }
    qsort(times, count, sizeof *times, by_value);
    return report(r, times, count);
}

int cli_ir_bench(const sl_graph *graph, const cli_options *options) {
    cli_runner r = {.graph = graph, .options = options};
    const uint32_t count = options->repeats_given && options->repeats ? options->repeats : REPEATS;
    if (count > MOST_REPEATS) return cli_fail_text("at most %d repeats", MOST_REPEATS);
    double *times = calloc(count + 1, sizeof *times);
    if (!times) return cli_fail_text("no memory for %u measurements", count);
    const int result = cli_ir_start(&r, NULL) ? measure(&r, times, count) : CLI_FAILED;
    cli_ir_stop(&r);
    free(times);
    return result;
}

/* ---- Comparing ---- */

/* Within rounding of the largest element; integers and bools exactly. */
static bool is_near(const char *dtype, double difference, double largest) {
    if (dtype[0] == 'f' || dtype[0] == 'c') return difference <= 1e-5 * largest;
    if (strcmp(dtype, "bf16") == 0) return difference <= 1e-2 * largest;
    return difference == 0;
}

typedef struct {
    double error, largest; /* difference, and value to compare it with */
    bool both, same;       /* an output of both programs; within the tolerance */
} difference;

static difference compare_output(const cli_runner *a, const cli_runner *b,
                                 const sl_graph_item *item) {
    size_t bytes_a, bytes_b;
    const void *x = sl_compiled_get(a->compiled, item->name, &bytes_a);
    const void *y = sl_compiled_get(b->compiled, item->name, &bytes_b);
    difference d = {.both = x && y && bytes_a == bytes_b};
    if (!d.both) return d;
    const size_t count = cli_element_count(item->dtype, item->rank, item->dims);
    bool odd = false; /* NaN or infinity on one side only */
    for (size_t i = 0; i < count; i++) {
        const double u = cli_element_get(item->dtype, x, i), v = cli_element_get(item->dtype, y, i);
        if (isfinite(v)) d.largest = fmax(d.largest, fabs(v));
        if (u == v || (isnan(u) && isnan(v))) continue;
        odd |= !isfinite(u) || !isfinite(v);
        d.error = fmax(d.error, fabs(u - v));
    }
    d.same = !odd && is_near(item->dtype, d.error, d.largest);
    return d;
}

static void print_difference(const sl_graph_item *item, const difference *d) {
    char type[TYPE_TEXT];
    (void)printf("%s : %s  ", item->name,
                 cli_type_text(item->dtype, item->rank, item->dims, type, sizeof type));
    if (d->both)
        (void)printf("max error %.3g, largest value %.3g: %s\n", d->error, d->largest,
                     d->same ? "same" : "DIFFERENT");
    else
        (void)printf("is not an output of both programs\n");
}

/* JSON has no infinity: an error that is not finite is null. */
static json_t *difference_json(const sl_graph_item *item, const difference *d) {
    return json_pack("{s:s, s:b, s:b, s:o, s:f}", "name", item->name, "same", d->same, "in_both",
                     d->both, "max_error", isfinite(d->error) ? json_real(d->error) : json_null(),
                     "largest", d->largest);
}

static int compare_outputs(const cli_runner *a, const cli_runner *b) {
    sl_graph_item item = {.struct_size = sizeof item};
    bool same = true;
    json_t *list = json_array();
    for (uint32_t i = 0; sl_graph_item_at(a->graph, i, &item, NULL) == SL_OK; i++) {
        if (strcmp(item.kind, "output") != 0) continue;
        const difference d = compare_output(a, b, &item);
        same &= d.same;
        if (a->options->json)
            (void)json_array_append_new(list, difference_json(&item, &d));
        else
            print_difference(&item, &d);
    }
    if (a->options->json)
        (void)cli_print_json(json_pack("{s:b, s:O}", "same", same, "outputs", list));
    json_decref(list);
    return same ? CLI_OK : CLI_FAILED;
}

/* One program on its device and in double precision; or two programs on one device. */
int cli_ir_diff(const sl_graph *graph, const cli_options *options) {
    const bool two = options->argument_count > 2;
    sl_graph *other = two ? cli_ir_read(options->arguments[2], options) : NULL;
    if (two && !other) return CLI_FAILED;
    cli_runner a = {.graph = graph, .options = options};
    cli_runner b = {.graph = two ? other : graph, .options = options};
    int result = CLI_FAILED;
    sl_error err;
    if (cli_ir_start(&a, NULL) && cli_ir_start(&b, two ? NULL : "ref")) {
        if (sl_compiled_run(a.compiled, &err) != SL_OK ||
            sl_compiled_run(b.compiled, &err) != SL_OK)
            result = cli_fail(&err);
        else
            result = compare_outputs(&a, &b);
    }
    cli_ir_stop(&a);
    cli_ir_stop(&b);
    sl_graph_destroy(other);
    return result;
}
