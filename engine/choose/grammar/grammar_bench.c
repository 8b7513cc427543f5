/* grammar_bench.c - Runs schemas with valid and invalid instances, and measures masks.
 *
 *   grammar_bench TOKENIZER SCHEMAS.jsonl [verbose]
 *   grammar_bench TOKENIZER SCHEMAS.jsonl sample    random texts for tools/check_grammar_output.py
 *
 * A line of SCHEMAS is {"name", "schema", "tests": [{"valid", "data"}]}.  Each instance is written
 * as Python's json.dumps does, tokenized, and followed token by token, with a mask at each step. An
 * instance is accepted if every token is in its mask and the end is allowed. */
#include "sluice/grammar.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_TOKENS = 1 << 20 };

/* Time of this thread, which other processes do not disturb. */
static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

typedef struct {
    double *items;
    size_t count, capacity;
} times;

static void add_time(times *t, double seconds) {
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 1 << 16;
        double *items = realloc(t->items, t->capacity * sizeof *items);
        if (!items) exit(1);
        t->items = items;
    }
    t->items[t->count++] = seconds * 1e6;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, times *t) {
    double sum = 0;
    if (!t->count) return;
    qsort(t->items, t->count, sizeof *t->items, by_size);
    for (size_t i = 0; i < t->count; i++) sum += t->items[i];
    const size_t last = t->count - 1;
    printf("%s: %zu, microseconds: average %.1f, p50 %.1f, p95 %.1f, p99 %.1f, max %.1f\n", name,
           t->count, sum / (double)t->count, t->items[last / 2], t->items[last * 95 / 100],
           t->items[last * 99 / 100], t->items[last]);
}

typedef struct {
    sl_vocabulary *vocabulary;
    sl_grammar_vocabulary *tokens;
    uint32_t *mask;
    size_t words;
    sl_token *ids;
    times masks, first_masks, compiles;
    size_t forced;
    size_t passing, refused, wrong;
    size_t wrong_accepts, wrong_rejects, failures;
    int verbose, samples;
} bench;

/* 1: accepted, 0: not, -1: an error. */
static int follow(bench *b, sl_grammar *grammar, const char *text, size_t *step) {
    sl_grammar_state *state = NULL;
    sl_error err = {0};
    size_t count = 0;
    int result = -1;
    if (sl_vocabulary_encode_plain(b->vocabulary, text, strlen(text), b->ids, MAX_TOKENS, &count,
                                   &err) != SL_OK ||
        sl_grammar_state_create(grammar, b->tokens, &state, &err) != SL_OK)
        goto done;
    result = 1;
    for (*step = 0; *step < count && result == 1; ++*step) {
        const sl_token id = b->ids[*step];
        const double start = seconds_now();
        if (sl_grammar_state_mask(state, b->mask, b->words, &err) != SL_OK) {
            result = -1;
            break;
        }
        const double took = seconds_now() - start;
        if (b->verbose && took > 3e-3)
            printf("slow %.1f ms, step %zu: %.60s\n", took * 1e3, *step, text);
        add_time(*step ? &b->masks : &b->first_masks, took);
        const int allowed = b->mask[id / 32] >> (id % 32) & 1;
        const sl_status status = sl_grammar_state_accept(state, id, &err);
        if ((status == SL_OK) != allowed) {
            printf("  mask and accept differ\n");
            result = -1;
        }
        if (!allowed) result = 0;
    }
    if (result == 1 && !sl_grammar_state_satisfied(state)) result = 0;
done:
    if (result < 0) printf("  error: %s\n", err.message);
    sl_grammar_state_destroy(state);
    return result;
}

static void run_tests(bench *b, const char *name, sl_grammar *grammar, const json_t *row) {
    const json_t *tests = json_object_get(row, "tests");
    size_t index, bad = 0;
    json_t *test;
    json_array_foreach(tests, index, test) {
        const int valid = json_is_true(json_object_get(test, "valid"));
        size_t step = 0;
        char *text =
            json_dumps(json_object_get(test, "data"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        const int accepted = follow(b, grammar, text, &step);
        if (accepted != valid) {
            bad++;
            if (accepted < 0)
                b->failures++;
            else if (accepted)
                b->wrong_accepts++;
            else
                b->wrong_rejects++;
            printf("%s %s, test %zu, step %zu: %.300s\n", name,
                   accepted < 0 ? "failed"
                   : accepted   ? "wrongly accepts"
                                : "wrongly rejects",
                   index, step, text);
        }
        free(text);
    }
    if (bad)
        b->wrong++;
    else
        b->passing++;
}

static uint32_t draw(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*seed >> 8) * below >> 24);
}

/* A random token of the mask; where the text may end it mostly does, and long texts prefer tokens
 * that close something. */
static sl_token draw_token(bench *b, sl_grammar_state *state, int steps, uint32_t *seed) {
    static const char *const closing[] = {"\"", "}", "]", "0", "e", "a", ":", ","};
    const uint32_t count = sl_grammar_vocabulary_size(b->tokens);
    if (sl_grammar_state_satisfied(state) && draw(seed, 4)) return -1;
    for (size_t i = 0; steps > 20 && draw(seed, 8) && i < sizeof closing / sizeof *closing; i++) {
        sl_token id = 0;
        size_t made = 0;
        if (sl_vocabulary_encode_plain(b->vocabulary, closing[i], 1, &id, 1, &made, NULL) ==
                SL_OK &&
            b->mask[id / 32] >> (id % 32) & 1)
            return id;
    }
    const uint32_t start = draw(seed, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = (start + i) % count;
        if (b->mask[id / 32] >> (id % 32) & 1) return (sl_token)id;
    }
    return -1;
}

static void sample(bench *b, const char *name, sl_grammar *grammar, uint32_t seed) {
    sl_grammar_state *state = NULL;
    sl_error err = {0};
    sl_status status = sl_grammar_state_create(grammar, b->tokens, &state, &err);
    size_t count = 0;
    for (; status == SL_OK && count < 300; count++) {
        status = sl_grammar_state_mask(state, b->mask, b->words, &err);
        if (status != SL_OK) break;
        b->ids[count] = draw_token(b, state, (int)count, &seed);
        if (b->ids[count] < 0) break;
        status = sl_grammar_state_accept(state, b->ids[count], &err);
    }
    if (status == SL_OK) {
        printf("sample\t%s\t%d\t", name, sl_grammar_state_satisfied(state));
        for (size_t i = 0; i < count; i++) {
            size_t bytes;
            const char *text = sl_vocabulary_text(b->vocabulary, b->ids[i], &bytes);
            for (size_t k = 0; k < bytes; k++) printf("%02x", (unsigned char)text[k]);
        }
        printf("\n");
    } else {
        printf("%s: %s\n", name, err.message);
    }
    sl_grammar_state_destroy(state);
}

static void run_line(bench *b, const char *line) {
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
    sl_error err = {0};
    sl_grammar *grammar = NULL;
    if (!row) {
        b->refused++;
        printf("a line that jansson does not read: %.80s\n", line);
        return;
    }
    const char *name = json_string_value(json_object_get(row, "name"));
    char *schema = json_dumps(json_object_get(row, "schema"), JSON_ENCODE_ANY);
    const double start = seconds_now();
    const sl_status status =
        sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), NULL, &grammar, &err);
    const double seconds = seconds_now() - start;
    add_time(&b->compiles, seconds);
    if (b->verbose) printf("%s: %.0f us\n", name, seconds * 1e6);
    if (status != SL_OK) {
        b->refused++;
        printf("%s refused: %s\n", name, err.message);
    } else {
        for (uint32_t i = 0; b->samples && i < 3; i++) sample(b, name, grammar, i);
        if (!b->samples) run_tests(b, name, grammar, row);
    }
    sl_grammar_close(grammar);
    free(schema);
    json_decref(row);
}

static int run(bench *b, FILE *file) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) run_line(b, line);
    free(line);
    printf("schemas: %zu passing, %zu refused, %zu wrong\n", b->passing, b->refused, b->wrong);
    printf("instances: %zu wrongly accepted, %zu wrongly rejected, %zu failed\n", b->wrong_accepts,
           b->wrong_rejects, b->failures);
    print_times("first masks", &b->first_masks);
    print_times("masks", &b->masks);
    print_times("compilations", &b->compiles);
    return b->wrong != 0;
}

int main(int count, char **words) {
    bench b = {.verbose = count > 3, .samples = count > 3 && strcmp(words[3], "sample") == 0};
    sl_error err = {0};
    FILE *file = count > 2 ? fopen(words[2], "r") : NULL;
    if (!file) {
        fprintf(stderr, "grammar_bench TOKENIZER SCHEMAS.jsonl [verbose]\n");
        return 2;
    }
    int result = 1;
    double start = seconds_now();
    if (sl_vocabulary_open(words[1], &b.vocabulary, &err) == SL_OK) {
        printf("tokenizer: %.3f s\n", seconds_now() - start);
        start = seconds_now();
        if (sl_grammar_vocabulary_create(b.vocabulary, NULL, 0, &b.tokens, &err) == SL_OK) {
            printf("tries: %.3f s\n", seconds_now() - start);
            b.words = (sl_grammar_vocabulary_size(b.tokens) + 31) / 32;
            b.mask = calloc(b.words, sizeof *b.mask);
            b.ids = calloc(MAX_TOKENS, sizeof *b.ids);
            if (b.mask && b.ids) result = run(&b, file);
        }
    }
    if (err.status != SL_OK) fprintf(stderr, "%s\n", err.message);
    fclose(file);
    free(b.mask);
    free(b.ids);
    free(b.masks.items);
    free(b.first_masks.items);
    free(b.compiles.items);
    sl_grammar_vocabulary_close(b.tokens);
    sl_vocabulary_close(b.vocabulary);
    return result;
}
