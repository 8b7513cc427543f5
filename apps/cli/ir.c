/* ir.c - Import, format, check and run tensor programs. */
#include "apps/cli/ir.h"
#include "apps/cli/values.h"
#include "sluice/weights.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_VALUES = 8, TYPE_TEXT = 160, MAX_OUTPUTS = 256 };

static int format(const sl_graph *graph, const cli_options *options) {
    char *text;
    sl_error err;
    if (sl_graph_text(graph, &text, &err) != SL_OK) return cli_fail(&err);
    if (options->json)
        (void)cli_print_json(json_pack("{s:o}", "text", cli_json_text(text, strlen(text))));
    else
        (void)fputs(text, stdout);
    sl_free(text);
    return CLI_OK;
}

static bool ends_with(const char *path, const char *end) {
    const size_t bytes = strlen(path), wanted = strlen(end);
    return bytes > wanted && strcmp(path + bytes - wanted, end) == 0;
}

/* The text form, into a file or to standard output; the binary form into a file *.slir. */
static int import(const sl_graph *graph, const cli_options *options) {
    if (!options->output) return format(graph, options);
    char *text;
    sl_error err;
    if (ends_with(options->output, ".slir"))
        return sl_graph_save(graph, options->output, &err) == SL_OK ? CLI_OK : cli_fail(&err);
    if (sl_graph_text(graph, &text, &err) != SL_OK) return cli_fail(&err);
    FILE *file = fopen(options->output, "w");
    bool written = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0) written = false;
    sl_free(text);
    return written ? CLI_OK : cli_fail_text("%s: cannot be written", options->output);
}

static bool compile(const sl_graph *graph, const cli_options *options, const char *device,
                    sl_compiled **out) {
    char words[CLI_COMPILE_TEXT];
    const sl_compile_options given = {.struct_size = sizeof given,
                                      .device = device ? device : options->device,
                                      .isa = options->isa,
                                      .threads = options->threads,
                                      .compile = cli_compile_words(options, words)};
    sl_error err;
    if (sl_compile(graph, &given, out, &err) == SL_OK) return true;
    (void)cli_fail(&err);
    return false;
}

/* Ops have no public list; in the canonical text each stands on a line "  %name = op(...)". */
static unsigned count_ops(const char *text) {
    unsigned count = 0;
    for (; text; text = strchr(text, '\n')) {
        text += *text == '\n';
        count += strncmp(text, "  %", 3) == 0;
    }
    return count;
}

/* Before the program is compiled for a device that need not be there. */
static int check(const sl_graph *graph, const cli_options *options) {
    sl_legality *legality;
    char *text;
    sl_error err;
    if (sl_graph_text(graph, &text, &err) != SL_OK) return cli_fail(&err);
    const unsigned ops = count_ops(text);
    sl_free(text);
    if (sl_graph_legality(graph, options->device, &legality, &err) != SL_OK) return cli_fail(&err);
    const int legal = cli_ir_legality(legality, options);
    sl_legality_destroy(legality);
    if (legal != CLI_OK || options->json) return legal;
    unsigned inputs = 0, weights = 0, states = 0, outputs = 0;
    sl_graph_item item = {.struct_size = sizeof item};
    for (uint32_t i = 0; sl_graph_item_at(graph, i, &item, NULL) == SL_OK; i++) {
        inputs += strcmp(item.kind, "input") == 0;
        weights += strcmp(item.kind, "weight") == 0;
        states += strcmp(item.kind, "state") == 0;
        outputs += strcmp(item.kind, "output") == 0;
    }
    (void)printf("ok: %u ops, %u inputs, %u weights, %u states, %u outputs\n", ops, inputs, weights,
                 states, outputs);
    return CLI_OK;
}

/* ---- Running ---- */

typedef cli_runner runner;

static bool is_given(const runner *r, const char *name, sl_tensor_item *out) {
    for (uint32_t i = 0; r->data && i < sl_tensors_count(r->data); i++) {
        if (sl_tensors_at(r->data, i, out, NULL) == SL_OK && strcmp(out->name, name) == 0)
            return true;
    }
    return false;
}

static bool set(const runner *r, const char *name, const void *data, size_t bytes) {
    sl_error err;
    if (sl_compiled_set(r->compiled, name, data, bytes, &err) == SL_OK) return true;
    (void)cli_fail(&err);
    return false;
}

static bool set_given(const runner *r, const sl_graph_item *item, const sl_tensor_item *given) {
    char wanted[TYPE_TEXT], found[TYPE_TEXT];
    (void)cli_type_text(item->dtype, item->rank, item->dims, wanted, sizeof wanted);
    (void)cli_type_text(given->dtype, given->rank, given->dims, found, sizeof found);
    if (strcmp(wanted, found) == 0) return set(r, item->name, given->data, given->bytes);
    (void)cli_fail_text("%s '%s' is %s in the program, but %s in %s", item->kind, item->name,
                        wanted, found, r->options->data);
    return false;
}

/* For the note about them; names that do not fit are left out. */
static void remember_invented(runner *r, const char *name) {
    const size_t used = strlen(r->invented);
    (void)snprintf(r->invented + used, sizeof r->invented - used, "%s%s", used ? ", " : "", name);
}

/* Random numbers, quantised.  Not of the types of files, which the library does not make of
 * numbers. */
static bool set_packed(const runner *r, const sl_graph_item *item, const float *numbers,
                       size_t count) {
    if (item->rank < 2) {
        (void)cli_fail_text("%s '%s' is %s of %u dims, of which there are no random values",
                            item->kind, item->name, item->dtype, item->rank);
        return false;
    }
    const int64_t rows = item->dims[item->rank - 2], cols = item->dims[item->rank - 1];
    const sl_weight_source from = {.struct_size = sizeof from,
                                   .format = "f32",
                                   .dtype = item->dtype,
                                   .count = (uint32_t)(count / (size_t)(rows * cols)),
                                   .rows = rows,
                                   .cols = cols,
                                   .data = numbers,
                                   .data_bytes = count * sizeof *numbers};
    const char *dtype;
    size_t bytes = 0;
    sl_error err;
    void *packed = NULL;
    sl_status status = sl_weight_describe(&from, &dtype, &bytes, &err);
    if (status == SL_OK) packed = aligned_alloc(64, bytes + 64 - bytes % 64);
    if (packed) status = sl_weight_pack(&from, packed, bytes, &err);
    const bool done = packed && status == SL_OK && set(r, item->name, packed, bytes);
    if (status != SL_OK)
        (void)cli_fail_text("%s '%s' is %s, of which there are no random values: %s", item->kind,
                            item->name, item->dtype, err.message);
    free(packed);
    return done;
}

static bool set_invented(runner *r, const sl_graph_item *item) {
    const size_t count = cli_element_count(item->dtype, item->rank, item->dims);
    const size_t each = cli_element_bytes(item->dtype);
    const size_t bytes = count * (each ? each : sizeof(float));
    if (r->data && !r->options->random) {
        (void)cli_fail_text("%s has no %s '%s'; --random uses random values", r->options->data,
                            item->kind, item->name);
        return false;
    }
    remember_invented(r, item->name);
    if (bytes == 0) return true;
    void *data = malloc(bytes);
    if (!data) {
        (void)cli_fail_text("no memory for '%s' (%zu bytes)", item->name, bytes);
        return false;
    }
    cli_elements_invent(each ? item->dtype : "f32", data, count, item->name);
    const bool done = each ? set(r, item->name, data, bytes) : set_packed(r, item, data, count);
    free(data);
    return done;
}

/* States keep their zeros unless the data has them. */
static bool set_values(runner *r) {
    sl_graph_item item = {.struct_size = sizeof item};
    sl_tensor_item given;
    bool good = true;
    for (uint32_t i = 0; good && sl_graph_item_at(r->graph, i, &item, NULL) == SL_OK; i++) {
        const bool state = strcmp(item.kind, "state") == 0;
        if (!state && strcmp(item.kind, "input") != 0 && strcmp(item.kind, "weight") != 0) continue;
        if (is_given(r, item.name, &given))
            good = set_given(r, &item, &given);
        else if (!state)
            good = set_invented(r, &item);
    }
    if (good && r->invented[0]) cli_note("random values are used for %s", r->invented);
    return good;
}

/* ---- Outputs ---- */

static void print_output(const sl_tensor_item *output) {
    char type[TYPE_TEXT];
    const size_t count = cli_element_count(output->dtype, output->rank, output->dims);
    double least = (double)INFINITY, most = -(double)INFINITY, sum = 0;
    (void)printf("%s : %s =", output->name,
                 cli_type_text(output->dtype, output->rank, output->dims, type, sizeof type));
    for (size_t i = 0; i < count; i++) {
        const double value = cli_element_get(output->dtype, output->data, i);
        if (i < SHOWN_VALUES) (void)printf(" %.7g", value);
        least = fmin(least, value);
        most = fmax(most, value);
        sum += value;
    }
    (void)printf("%s", count > SHOWN_VALUES ? " ..." : "");
    if (count) (void)printf("  (min %.7g, max %.7g, mean %.7g)", least, most, sum / (double)count);
    (void)putchar('\n');
}

/* JSON has no NaN and no infinity: they are null. */
static json_t *output_json(const sl_tensor_item *output) {
    json_t *shape = json_array(), *values = json_array();
    for (uint32_t i = 0; i < output->rank; i++)
        cli_json_append(shape, json_integer((json_int_t)output->dims[i]));
    const size_t count = cli_element_count(output->dtype, output->rank, output->dims);
    for (size_t i = 0; i < count; i++) {
        const double value = cli_element_get(output->dtype, output->data, i);
        cli_json_append(values, isfinite(value) ? json_real(value) : json_null());
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", output->name, "dtype", output->dtype, "shape",
                     shape, "values", values);
}

static uint32_t collect_outputs(const runner *r, sl_tensor_item *outputs) {
    sl_graph_item item = {.struct_size = sizeof item};
    uint32_t count = 0;
    for (uint32_t i = 0; count < MAX_OUTPUTS && sl_graph_item_at(r->graph, i, &item, NULL) == SL_OK;
         i++) {
        if (strcmp(item.kind, "output") != 0) continue;
        sl_tensor_item *output = &outputs[count];
        *output = (sl_tensor_item){.name = item.name, .dtype = item.dtype, .rank = item.rank};
        memcpy(output->dims, item.dims, sizeof output->dims);
        output->data = sl_compiled_get(r->compiled, item.name, &output->bytes);
        count += output->data != NULL;
    }
    return count;
}

static int report(const runner *r) {
    static sl_tensor_item outputs[MAX_OUTPUTS];
    const uint32_t count = collect_outputs(r, outputs);
    sl_error err;
    if (r->options->output && sl_tensors_write(r->options->output, outputs, count, &err) != SL_OK)
        return cli_fail(&err);
    if (r->options->json) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < count; i++) cli_json_append(list, output_json(&outputs[i]));
        return cli_print_json(json_pack("{s:o}", "outputs", list));
    }
    for (uint32_t i = 0; i < count; i++) print_output(&outputs[i]);
    return CLI_OK;
}

bool cli_ir_start(cli_runner *r, const char *device) {
    sl_error err;
    if (r->options->data && sl_tensors_open(r->options->data, &r->data, &err) != SL_OK) {
        (void)cli_fail(&err);
        return false;
    }
    return compile(r->graph, r->options, device, &r->compiled) && set_values(r);
}

void cli_ir_stop(cli_runner *r) {
    sl_compiled_destroy(r->compiled);
    sl_tensors_close(r->data);
}

static int run(const sl_graph *graph, const cli_options *options) {
    runner r = {.graph = graph, .options = options};
    sl_error err;
    int result = CLI_FAILED;
    if (options->device && strcmp(options->device, "null") == 0)
        cli_note("the device null computes nothing: outputs are zero");
    if (cli_ir_start(&r, NULL))
        result = sl_compiled_run(r.compiled, &err) == SL_OK ? report(&r) : cli_fail(&err);
    cli_ir_stop(&r);
    return result;
}

/* ---- The command ---- */

static const struct {
    const char *name;
    int (*run)(const sl_graph *graph, const cli_options *options);
} verbs[] = {
    {"import", import},      {"fmt", format},       {"check", check},           {"run", run},
    {"bench", cli_ir_bench}, {"diff", cli_ir_diff}, {"inspect", cli_ir_inspect}};

sl_graph *cli_ir_read(const char *path, const cli_options *options) {
    size_t bytes;
    sl_graph *graph = NULL;
    sl_error err;
    const bool onnx = ends_with(path, ".onnx") || strcmp(options->arguments[0], "import") == 0;
    if (!onnx && ends_with(path, ".slir")) {
        if (sl_graph_load(path, &graph, &err) == SL_OK) return graph;
        (void)cli_fail_text("%s: %s", path, err.message);
        return NULL;
    }
    char *text = cli_read_all(path, &bytes);
    if (!text) return NULL;
    const sl_status status =
        onnx ? sl_graph_import_onnx(text, bytes, options->input_shapes, &graph, &err)
             : sl_graph_read(text, bytes, &graph, &err);
    free(text);
    if (status == SL_OK) return graph;
    (void)cli_fail_text("%s: %s", path, err.message);
    return NULL;
}

static int with_graph(int (*verb)(const sl_graph *, const cli_options *),
                      const cli_options *options) {
    sl_graph *graph = cli_ir_read(options->arguments[1], options);
    if (!graph) return CLI_FAILED;
    const int result = verb(graph, options);
    sl_graph_destroy(graph);
    return result;
}

int cli_run_ir(const cli_options *options) {
    const char *name = options->arguments[0];
    if (strcmp(name, "ops") == 0 && options->argument_count > 2)
        return cli_misuse(CLI_ir, "unexpected argument '%s'", options->arguments[2]);
    if (strcmp(name, "ops") == 0) return cli_ir_ops(options);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, name) != 0) continue;
        if (options->argument_count > 2 && verbs[i].run != cli_ir_diff)
            return cli_misuse(CLI_ir, "unexpected argument '%s'", options->arguments[2]);
        if (options->argument_count < 2) return cli_misuse(CLI_ir, "ir %s needs a FILE or -", name);
        return with_graph(verbs[i].run, options);
    }
    return cli_misuse(
        CLI_ir, "'%s' is not one of import, fmt, check, run, bench, diff, inspect, ops", name);
}
