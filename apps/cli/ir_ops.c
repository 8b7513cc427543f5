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

static int print_markdown(const sl_op_row *rows, uint32_t count) {
    (void)printf("| op | operands | results | attributes | element types | kind | cpu | cuda "
                 "| fused from | without a kernel | summary |\n"
                 "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < count; i++) {
        sl_op_support support;
        sl_error err;
        if (sl_op_support_of(rows[i].name, &support, &err) != SL_OK) return cli_fail(&err);
        (void)printf("|");
        print_cell(rows[i].name);
        print_words(rows[i].inputs);
        print_words(rows[i].outputs);
        print_words(rows[i].attributes);
        print_cell(support.types);
        print_cell(support.predicates);
        print_cell(support.cpu);
        print_cell(support.cuda);
        print_cell(support.made_from);
        print_cell(support.rewritten);
        print_cell(rows[i].summary);
        (void)putchar('\n');
    }
    return CLI_OK;
}

int cli_ir_ops(const cli_options *options) {
    const sl_op_row *rows;
    const uint32_t count = sl_op_rows(&rows);
    if (options->markdown) return print_markdown(rows, count);
    for (uint32_t i = 0; i < count; i++) (void)printf("%-18s %s\n", rows[i].name, rows[i].summary);
    return CLI_OK;
}
