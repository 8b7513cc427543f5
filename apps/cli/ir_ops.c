/* ir_ops.c - The table of ops. */
#include "apps/cli/ir.h"
#include <string.h>

/* Text within a cell: no bars, no line ends, no space at the end. */
static void print_cell(const char *text) {
    size_t bytes = strlen(text);
    while (bytes && text[bytes - 1] == ' ') bytes--;
    (void)printf(" ");
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '|') (void)putchar('\\');
        (void)putchar(text[i] == '\n' ? ' ' : text[i]);
    }
    (void)printf(" |");
}

static void print_words(const char *text) {
    print_cell(text[0] ? text : "none");
}

static void print_head(const sl_op_support *support) {
    (void)printf("| op | operands | results | attributes | element types | kind |");
    for (uint32_t d = 0; d < support->device_count; d++) print_cell(support->devices[d].device);
    (void)printf(" fused from | without a kernel | summary |\n|---|---|---|---|---|---|");
    for (uint32_t d = 0; d < support->device_count; d++) (void)printf("---|");
    (void)printf("---|---|---|\n");
}

static void print_op(const sl_op_row *row, const sl_op_support *support) {
    (void)printf("|");
    print_cell(row->name);
    print_words(row->inputs);
    print_words(row->outputs);
    print_words(row->attributes);
    print_cell(support->types);
    print_cell(support->predicates);
    for (uint32_t d = 0; d < support->device_count; d++) print_cell(support->devices[d].kernels);
    print_cell(support->made_from);
    print_cell(support->rewritten);
    print_cell(row->summary);
    (void)putchar('\n');
}

static int print_markdown(const sl_op_row *rows, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        sl_op_support support;
        sl_error err;
        if (sl_op_support_of(rows[i].name, &support, &err) != SL_OK) return cli_fail(&err);
        if (i == 0) print_head(&support);
        print_op(&rows[i], &support);
    }
    return CLI_OK;
}

static int print_json(const sl_op_row *rows, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", rows[i].name, "operands",
                            rows[i].inputs, "results", rows[i].outputs, "attributes",
                            rows[i].attributes, "summary", rows[i].summary));
    return cli_print_json(json_pack("{s:o}", "ops", list));
}

int cli_ir_ops(const cli_options *options) {
    const sl_op_row *rows;
    const uint32_t count = sl_op_rows(&rows);
    if (options->markdown) return print_markdown(rows, count);
    if (options->json) return print_json(rows, count);
    for (uint32_t i = 0; i < count; i++) (void)printf("%-18s %s\n", rows[i].name, rows[i].summary);
    return CLI_OK;
}
