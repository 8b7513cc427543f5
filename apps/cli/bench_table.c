/* bench_table.c - The measurements as a table of comma-separated values or in Markdown. */
#include "apps/cli/bench.h"
#include <string.h>

enum { COLUMNS = 13, CELL = 512 };

static const char *const names[COLUMNS] = {
    "model",  "version", "bytes",  "device", "options",     "phase",          "threads",
    "tokens", "best",    "median", "limit",  "expert_hits", "bytes_per_token"};

typedef struct {
    char text[COLUMNS][CELL];
} row;

static row make_row(const bench_run *run, const bench_way *w, const bench_phase *p) {
    const sl_model_info info = cli_model_info(w->model);
    row r;
#define PUT(...) (void)snprintf(r.text[column++], CELL, __VA_ARGS__)
    int column = 0;
    PUT("%s", run->path);
    PUT("%s", sl_version());
    PUT("%llu", (unsigned long long)info.file_bytes);
    PUT("%s", info.device);
    PUT("%.*s", w->compile[0] ? (int)strlen(w->compile) - 1 : 0, w->compile);
    PUT("%s", p->name);
    PUT("%u", info.threads);
    PUT("%zu", p->tokens);
    PUT("%.2f", bench_best(p));
    PUT("%.2f", bench_median(p));
    PUT("%.2f", run->compares ? 0 : bench_limits_of(run, w, p).machine);
    PUT("%.4f", bench_hit_rate(p));
    PUT("%.0f", bench_bytes_per_token(p));
#undef PUT
    return r;
}

/* Quotes what a comma or a quote in it would split. */
static void print_csv_cell(const char *text) {
    if (!strpbrk(text, ",\"\n")) {
        (void)fputs(text, stdout);
        return;
    }
    (void)putchar('"');
    for (; *text; text++) {
        if (*text == '"') (void)putchar('"');
        (void)putchar(*text);
    }
    (void)putchar('"');
}

static void print_csv_row(const row *r) {
    for (int i = 0; i < COLUMNS; i++) {
        if (i) (void)putchar(',');
        print_csv_cell(r->text[i]);
    }
    (void)putchar('\n');
}

static void print_markdown_row(const row *r) {
    (void)putchar('|');
    for (int i = 0; i < COLUMNS; i++) (void)printf(" %s |", r->text[i]);
    (void)putchar('\n');
}

static void print_rows(const bench_run *run, void (*print)(const row *)) {
    for (int i = 0; i < run->count; i++) {
        const bench_way *w = &run->ways[i];
        const bench_phase *const phases[] = {&w->prefill, &w->decode};
        for (int k = 0; k < 2; k++) {
            if (phases[k]->tokens == 0) continue;
            const row r = make_row(run, w, phases[k]);
            print(&r);
        }
    }
}

int bench_print_csv(const bench_run *run) {
    for (int i = 0; i < COLUMNS; i++) (void)printf("%s%s", i ? "," : "", names[i]);
    (void)putchar('\n');
    print_rows(run, print_csv_row);
    return CLI_OK;
}

int bench_print_markdown(const bench_run *run) {
    (void)putchar('|');
    for (int i = 0; i < COLUMNS; i++) (void)printf(" %s |", names[i]);
    (void)printf("\n|");
    for (int i = 0; i < COLUMNS; i++) (void)printf("---|");
    (void)putchar('\n');
    print_rows(run, print_markdown_row);
    return CLI_OK;
}
