/* list.c - Lists the models on this machine. */
#include "apps/cli/catalog.h"
#include "apps/cli/cli.h"
#include "sluice/model_files.h"
#include <stdlib.h>
#include <string.h>

static const char *or_dash(const char *text) {
    return text[0] ? text : "-";
}

/* The reason without the path of the model, which stands beside it. */
static const char *problem_of(const cli_found *model, const sl_model_summary *s) {
    const size_t bytes = strlen(model->path);
    const bool repeats =
        strncmp(s->problem, model->path, bytes) == 0 && strncmp(s->problem + bytes, ": ", 2) == 0;
    return s->problem + (repeats ? bytes + 2 : 0);
}

static uint64_t least_memory(const sl_model_summary *s) {
    return s->resident_bytes + s->least_expert_bytes;
}

static void print_row(const cli_found *model, const sl_model_summary *s, int width) {
    char size[32] = "-", least[32] = "-";
    if (s->file_bytes) (void)cli_bytes(s->file_bytes, size, sizeof size);
    if (!s->problem[0]) (void)cli_bytes(least_memory(s), least, sizeof least);
    (void)printf("%-*s  %-11s  %-12s  %9s  %9s  %s\n", width, model->name, or_dash(s->format),
                 or_dash(s->architecture), size, least, model->place);
    if (s->problem[0]) (void)printf("  not supported: %s\n", problem_of(model, s));
    if (cli_is_verbose()) cli_note("%s: %s", model->name, model->path);
}

static json_t *to_json(const cli_found *model, const sl_model_summary *s) {
    json_t *row = json_object();
#define TEXT(KEY, VALUE) cli_json_set(row, KEY, cli_json_text(VALUE, strlen(VALUE)))
#define NUMBER(NAME)     cli_json_set(row, #NAME, json_integer((json_int_t)s->NAME))
    TEXT("name", model->name);
    TEXT("path", model->path);
    TEXT("place", model->place);
    TEXT("format", s->format);
    TEXT("architecture", s->architecture);
    cli_json_set(row, "supported", json_boolean(!s->problem[0]));
    if (s->problem[0]) TEXT("problem", problem_of(model, s));
    NUMBER(file_bytes);
    if (!s->problem[0]) {
        NUMBER(parameters);
        NUMBER(layers);
        NUMBER(experts);
        NUMBER(experts_used);
        NUMBER(max_context_tokens);
        NUMBER(resident_bytes);
        NUMBER(expert_bytes);
        cli_json_set(row, "least_bytes", json_integer((json_int_t)least_memory(s)));
    }
#undef TEXT
#undef NUMBER
    return row;
}

static int print_names(const cli_catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++) (void)puts(catalog->items[i].name);
    return CLI_OK;
}

static int width_of_names(const cli_catalog *catalog) {
    size_t width = 4;
    for (size_t i = 0; i < catalog->count; i++)
        if (strlen(catalog->items[i].name) > width) width = strlen(catalog->items[i].name);
    return width < 60 ? (int)width : 60;
}

static int print_models(const cli_catalog *catalog, bool json) {
    const int width = width_of_names(catalog);
    json_t *rows = json ? json_array() : NULL;
    if (!json && catalog->count)
        (void)printf("%-*s  %-11s  %-12s  %9s  %9s  %s\n", width, "NAME", "FORMAT", "ARCHITECTURE",
                     "SIZE", "MEMORY", "PLACE");
    for (size_t i = 0; i < catalog->count; i++) {
        sl_model_summary summary = {.struct_size = sizeof summary};
        sl_error err;
        if (sl_model_files_summary(catalog->items[i].path, &summary, &err) != SL_OK) {
            json_decref(rows);
            return cli_fail(&err);
        }
        if (json)
            cli_json_append(rows, to_json(&catalog->items[i], &summary));
        else
            print_row(&catalog->items[i], &summary, width);
    }
    if (!json && !catalog->count) cli_note("no models were found");
    return json ? cli_print_json(rows) : CLI_OK;
}

int cli_run_list(const cli_options *options) {
    cli_catalog catalog;
    int result = CLI_FAILED;
    if (cli_catalog_read(options->arguments[0], &catalog))
        result = options->names ? print_names(&catalog) : print_models(&catalog, options->json);
    cli_catalog_free(&catalog);
    return result;
}
