/* suite_test.c - ONNX's own test suite (Debian: libonnx-testdata), every case of it.
 *
 * A case passes, fails, or is not applicable: the importer refuses it.  How many of those each op
 * has is written down in not_applicable.txt, and another number is a failure.  Cases whose own data
 * are wrong are named there too.
 *
 *   tests_onnx_suite_test             all of it
 *   tests_onnx_suite_test PART...     cases whose path contains a PART, with what went wrong
 *   tests_onnx_suite_test --list      all of it, and what not_applicable.txt should say
 *
 * Before it some cases of later opsets (tools/make_onnx_cases.py) and transformers
 * (tools/make_onnx_transformers.py), which are here: all of them pass.  $SLUICE_ONNX_DATA names
 * another folder of such cases, as the package onnx has in backend/test/data, of a later opset:
 * then only what fails counts. */
#include "tests/onnx/case.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEBIAN  "/usr/share/libonnx-testdata/data"
#define OURS    "tests/data/onnx"
#define LISTING "tests/onnx/not_applicable.txt"

enum { MAX_OPS = 128, MAX_CASES = 4096, FEWEST_PASSED = 700 };

typedef struct {
    char op[64];
    char why[160];
    uint32_t count, expected;
} refused;

typedef struct {
    uint32_t passed, failed, not_applicable, bound, folded, wrong;
    refused ops[MAX_OPS];
    uint32_t op_count;
} tally;

static const char *data_folder = OURS;

static refused *find_op(tally *all, const char *op) {
    for (uint32_t i = 0; i < all->op_count; i++)
        if (strcmp(all->ops[i].op, op) == 0) return &all->ops[i];
    if (all->op_count == MAX_OPS) return &all->ops[MAX_OPS - 1];
    refused *row = &all->ops[all->op_count++];
    (void)snprintf(row->op, sizeof row->op, "%s", op);
    return row;
}

/* Whether the listing says that the case's own data are wrong. */
static bool is_wrong(const char *group, const char *name) {
    FILE *file = fopen(LISTING, "r");
    char line[300], wrong[200], path[200];
    bool found = false;
    (void)snprintf(path, sizeof path, "%.80s/%.100s", group, name);
    while (file && fgets(line, sizeof line, file))
        found |= sscanf(line, "wrong %199s", wrong) == 1 && strcmp(wrong, path) == 0;
    if (file) (void)fclose(file);
    return found;
}

static void run_case(tally *all, const char *group, const char *name, bool loud) {
    char folder[700];
    sl_onnx_result result;
    (void)snprintf(folder, sizeof folder, "%s/%s/%s", data_folder, group, name);
    if (is_wrong(group, name)) {
        all->wrong++;
        return;
    }
    sl_onnx_case_run(folder, &result);
    if (result.outcome == SL_ONNX_PASSED) {
        all->passed++;
        all->bound += result.bound_count > 0;
        all->folded += result.folded;
    } else if (result.outcome == SL_ONNX_NOT_APPLICABLE) {
        refused *row = find_op(all, result.op);
        all->not_applicable++;
        if (row->count++ == 0) (void)snprintf(row->why, sizeof row->why, "%.159s", result.why);
    } else {
        all->failed++;
        (void)printf("FAILED %s/%s: %s\n", group, name, result.why);
    }
    if (!loud) return;
    (void)printf("%s/%s: %s %s%s\n", group, name,
                 result.outcome == SL_ONNX_PASSED ? "passed" : "not passed", result.why,
                 result.folded ? " (nothing left to compute)" : "");
    for (uint32_t i = 0; i < result.bound_count; i++)
        (void)printf("  input '%s' became a constant\n", result.bound[i]);
}

static bool is_case(const char *group, const char *name) {
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s/%s/model.onnx", data_folder, group, name);
    FILE *file = fopen(path, "rb");
    if (file) (void)fclose(file);
    return file != NULL;
}

static bool is_asked_for(const char *name, int count, char **parts) {
    for (int i = 0; i < count; i++)
        if (strstr(name, parts[i])) return true;
    return count == 0;
}

/* False when the folder is not there. */
static bool run_group(tally *all, const char *group, int count, char **parts) {
    char folder[300];
    struct dirent **entries;
    (void)snprintf(folder, sizeof folder, "%s/%s", data_folder, group);
    const int found = scandir(folder, &entries, NULL, alphasort);
    if (found < 0) return false;
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.' && is_asked_for(name, count, parts) && is_case(group, name))
            run_case(all, group, name, count > 0);
        free(entries[i]);
    }
    free(entries);
    return true;
}

static void read_listing(tally *all) {
    FILE *file = fopen(LISTING, "r");
    char line[200], op[64];
    unsigned count;
    while (file && fgets(line, sizeof line, file))
        if (line[0] != '#' && strncmp(line, "wrong ", 6) != 0 &&
            sscanf(line, "%63s %u", op, &count) == 2)
            find_op(all, op)->expected = count;
    if (file) (void)fclose(file);
}

/* Whether what was refused is what the listing says. */
static bool compare_listing(const tally *all) {
    bool same = true;
    for (uint32_t i = 0; i < all->op_count; i++) {
        const refused *row = &all->ops[i];
        if (row->count == row->expected) continue;
        same = false;
        (void)printf("%s: %u cases not applicable, %s says %u\n", row->op, row->count, LISTING,
                     row->expected);
    }
    return same;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const refused *)a)->op, ((const refused *)b)->op);
}

static void report(tally *all, bool list) {
    qsort(all->ops, all->op_count, sizeof all->ops[0], by_name);
    for (uint32_t i = 0; i < all->op_count; i++) {
        const refused *row = &all->ops[i];
        if (!row->count) continue;
        if (list)
            (void)printf("%s %u\n", row->op, row->count);
        else
            (void)printf("not applicable: %-26s %3u  %s\n", row->op, row->count, row->why);
    }
    (void)printf("passed %u (%u with inputs as constants, %u with nothing left to compute), not "
                 "applicable %u, wrong themselves %u, failed %u\n",
                 all->passed, all->bound, all->folded, all->not_applicable, all->wrong,
                 all->failed);
}

/* The cases that are here: of single nodes, and whole transformers as PyTorch exports them. */
static bool run_ours(void) {
    static tally ours;
    const bool there =
        run_group(&ours, "node", 0, NULL) && run_group(&ours, "transformer", 0, NULL);
    (void)printf("%s: passed %u, not applicable %u, failed %u\n", data_folder, ours.passed,
                 ours.not_applicable, ours.failed);
    return there && ours.passed && !ours.failed && !ours.not_applicable;
}

int main(int argc, char **argv) {
    static const char *const groups[] = {"node", "simple", "pytorch-converted", "pytorch-operator"};
    static tally all;
    const bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    const int parts = list ? 0 : argc - 1;
    const char *other = getenv("SLUICE_ONNX_DATA");
    if (!parts && !run_ours()) return 1;
    data_folder = other ? other : DEBIAN;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (run_group(&all, groups[i], parts, argv + 1)) continue;
        (void)printf("skipped: %s/%s is not there (apt: libonnx-testdata)\n", data_folder,
                     groups[i]);
        return 0;
    }
    const bool counted = parts == 0 && !other;
    if (counted) read_listing(&all);
    report(&all, list);
    if (list || !counted) return all.failed > 0;
    const bool same = compare_listing(&all);
    if (all.passed < FEWEST_PASSED) (void)printf("fewer than %d passed\n", FEWEST_PASSED);
    return all.failed || !same || all.passed < FEWEST_PASSED;
}
