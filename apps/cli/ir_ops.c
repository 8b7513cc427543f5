/* ir_ops.c - The table of ops, and the description of one. */
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

/* Both parts of what is known of an op. */
typedef struct {
    sl_op_row row;
    sl_op_support support;
} op;

static sl_status op_at(uint32_t index, op *out, sl_error *err) {
    out->row.struct_size = sizeof out->row;
    out->support.struct_size = sizeof out->support;
    const sl_status status = sl_op_at(index, &out->row, err);
    return status == SL_OK ? sl_op_support_of(out->row.name, &out->support, err) : status;
}

static int print_markdown(void) {
    for (uint32_t i = 0; i < sl_op_count(); i++) {
        op o;
        sl_error err;
        if (op_at(i, &o, &err) != SL_OK) return cli_fail(&err);
        if (i == 0) print_head(&o.support);
        print_op(&o.row, &o.support);
    }
    return CLI_OK;
}

/* A program that uses the op; NULL: no page has one. */
static const cli_op_example *example_of(const char *name) {
    char call[96];
    (void)snprintf(call, sizeof call, "= %s(", name);
    for (const cli_op_example *e = cli_op_examples; e->text; e++)
        if (strstr(e->text, call)) return e;
    return NULL;
}

static json_t *op_json(const sl_op_row *row, const sl_op_support *support) {
    json_t *devices = json_object();
    for (uint32_t d = 0; d < support->device_count; d++)
        cli_json_set(devices, support->devices[d].device, json_string(support->devices[d].kernels));
    const cli_op_example *example = example_of(row->name);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "name", row->name,
                     "operands", row->inputs, "results", row->outputs, "attributes",
                     row->attributes, "summary", row->summary, "types", support->types, "kind",
                     support->predicates, "fused_from", support->made_from, "without_a_kernel",
                     support->rewritten, "example", example ? example->text : "", "devices",
                     devices);
}

static int print_json(void) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < sl_op_count(); i++) {
        op o;
        sl_error err;
        if (op_at(i, &o, &err) != SL_OK) {
            json_decref(list);
            return cli_fail(&err);
        }
        cli_json_append(list, op_json(&o.row, &o.support));
    }
    return cli_print_json(json_pack("{s:o}", "ops", list));
}

/* ---- one op ---- */

/* The length of the first word of a list; spaces in parentheses are part of a word. */
static size_t word_bytes(const char *list) {
    size_t bytes = 0;
    for (int depth = 0; list[bytes] && (depth || list[bytes] != ' '); bytes++)
        depth += (list[bytes] == '(') - (list[bytes] == ')');
    return bytes;
}

/* Operands or results; "x.." stands for any number of them. */
static void print_values(const char *list) {
    for (size_t bytes = word_bytes(list); bytes; bytes = word_bytes(list)) {
        list += bytes;
        (void)printf("%%%.*s", (int)bytes, list - bytes);
        if (*list == ' ') list++;
        if (*list) (void)printf(", ");
    }
}

/* "name = default", or "name = <type>" for those that are required. */
static void print_attributes(const char *list) {
    for (size_t bytes = word_bytes(list); bytes; bytes = word_bytes(list)) {
        const char *colon = memchr(list, ':', bytes), *initial = memchr(list, '=', bytes);
        const int type = (int)(list + bytes - colon - 1);
        (void)printf("%.*s = ", (int)(colon - list), list);
        if (initial)
            (void)printf("%.*s", (int)(list + bytes - initial - 1), initial + 1);
        else
            (void)printf("<%.*s>", type, colon + 1);
        list += bytes;
        if (*list == ' ') list++;
        if (*list) (void)printf(", ");
    }
}

/* As it is written in the text form, with the defaults of attributes. */
static void print_usage(const sl_op_row *row) {
    (void)printf("%-12s ", "text form");
    print_values(row->outputs);
    (void)printf("%s%s(", row->outputs[0] ? " = " : "", row->name);
    print_values(row->inputs);
    (void)putchar(')');
    if (row->attributes[0]) {
        (void)printf(" {");
        print_attributes(row->attributes);
        (void)putchar('}');
    }
    (void)putchar('\n');
}

static void print_line(const char *name, const char *text) {
    (void)printf("%-12s %s\n", name, text[0] ? text : "none");
}

static void print_one(const sl_op_row *row, const sl_op_support *support) {
    (void)printf("%s: %s\n\n", row->name, row->summary);
    print_usage(row);
    print_line("operands", row->inputs);
    print_line("results", row->outputs);
    print_line("attributes", row->attributes);
    print_line("types", support->types);
    print_line("kind", support->predicates);
    for (uint32_t d = 0; d < support->device_count; d++)
        print_line(support->devices[d].device, support->devices[d].kernels);
    print_line("fused from", support->made_from);
    print_line("no kernel", support->rewritten);
    const cli_op_example *example = example_of(row->name);
    print_line("example", example ? example->page : "");
    if (example) (void)printf("\n%s", example->text);
}

static int print_names(void) {
    for (uint32_t i = 0; i < sl_op_count(); i++) {
        sl_op_row row = {.struct_size = sizeof row};
        sl_error err;
        if (sl_op_at(i, &row, &err) != SL_OK) return cli_fail(&err);
        (void)printf("%-18s %s\n", row.name, row.summary);
    }
    return CLI_OK;
}

static int describe_op(const char *name, const cli_options *options) {
    for (uint32_t i = 0; i < sl_op_count(); i++) {
        op o = {.row.struct_size = sizeof o.row};
        sl_error err;
        sl_status status = sl_op_at(i, &o.row, &err);
        if (status == SL_OK && strcmp(o.row.name, name) != 0) continue;
        if (status == SL_OK) status = op_at(i, &o, &err);
        if (status != SL_OK) return cli_fail(&err);
        if (options->json) return cli_print_json(op_json(&o.row, &o.support));
        print_one(&o.row, &o.support);
        return CLI_OK;
    }
    return cli_fail_text("unknown op '%s'; `sluice ir ops` lists all", name);
}

int cli_ir_ops(const cli_options *options) {
    if (options->argument_count > 1) return describe_op(options->arguments[1], options);
    if (options->markdown) return print_markdown();
    return options->json ? print_json() : print_names();
}
