/* batch_bits_bench.c - batch_bits_bench MODEL [DEVICE [COUNT,...]]: how far the logits of a
 * sequence alone are from those in the company of others, one to 63 of them, whose prompts come in
 * parts beside its single tokens; as the device usually sums, and deterministic; how many tokens
 * a second so many sequences decode; and what compiling the programs of all sizes took.  Tokens are
 * random.  Fails where deterministic logits differ. */
#include "base/clock.h"
#include "sluice/batch.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, PROMPT = 200, DECODED = 12, TIMED = 48, CONTEXT = 1024, PART = 64, WARM = 3 };

static sl_error err;

static void must(sl_status status) {
    if (status == SL_OK) return;
    (void)fprintf(stderr, "%s\n", err.message);
    exit(1);
}

typedef struct {
    sl_model *model;
    sl_batch *batch;
    sl_session *sessions[MOST];
    uint32_t vocab, differing; /* differing: rows of logits that were not the same bits */
    float *alone;              /* [DECODED][vocab] */
    double largest;            /* difference, as a share of the largest logit */
} bench;

/* Token `at` of a sequence. */
static sl_token token_of(const bench *b, uint32_t sequence, size_t at) {
    uint64_t x = (sequence + 1) * 6364136223846793005u + at * 1442695040888963407u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (sl_token)((x >> 33) % b->vocab);
}

static void open_bench(bench *b, const char *path, const char *device, int deterministic) {
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = device,
                                      .context_tokens = CONTEXT,
                                      .max_sessions = MOST,
                                      .deterministic = deterministic};
    sl_model_info info = {.struct_size = sizeof info};
    *b = (bench){0};
    must(sl_model_open(path, &options, &b->model, &err));
    must(sl_model_describe(b->model, &info, &err));
    must(sl_batch_create(b->model, NULL, &b->batch, &err));
    b->vocab = info.vocab;
    b->alone = calloc((size_t)DECODED * b->vocab, sizeof *b->alone);
    if (!b->alone) exit(1);
}

static void close_bench(bench *b) {
    sl_batch_destroy(b->batch);
    sl_model_close(b->model);
    free(b->alone);
}

static void begin(bench *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        must(sl_session_create(b->model, NULL, &b->sessions[i], &err));
}
static void end(bench *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) sl_session_destroy(b->sessions[i]);
}

static void note(bench *b, const float *logits, const float *wanted) {
    double size = 0, most = 0;
    for (uint32_t i = 0; i < b->vocab; i++) {
        size = fmax(size, fabs((double)wanted[i]));
        most = fmax(most, fabs((double)logits[i] - (double)wanted[i]));
    }
    b->largest = fmax(b->largest, most / size);
    b->differing += memcmp(logits, wanted, b->vocab * sizeof *logits) != 0;
}

static void run_alone(bench *b) {
    begin(b, 1);
    for (size_t step = 0; step < DECODED; step++) {
        const size_t from = step ? PROMPT + step - 1 : 0, count = step ? 1 : PROMPT;
        sl_token tokens[PROMPT];
        for (size_t i = 0; i < count; i++) tokens[i] = token_of(b, 0, from + i);
        must(sl_session_extend(b->sessions[0], tokens, count, &err));
        memcpy(b->alone + step * b->vocab, sl_session_logits(b->sessions[0], NULL),
               b->vocab * sizeof *b->alone);
    }
    end(b, 1);
}

/* Adds to a pass what a sequence needs next, if there is room; most tokens of it at once (0: any
 * number). */
static bool add(bench *b, uint32_t sequence, uint32_t most) {
    sl_session *session = b->sessions[sequence];
    sl_token tokens[PROMPT];
    const size_t length = sl_session_length(session);
    const size_t count = length ? sl_session_logits(session, NULL) != NULL : PROMPT - sequence;
    for (size_t i = 0; i < count; i++) tokens[i] = token_of(b, sequence, length + i);
    const sl_status status = sl_batch_add(b->batch, session, tokens, count, most, NULL, &err);
    if (status != SL_OK && !strstr(err.message, "no room for")) must(status);
    return status == SL_OK;
}

/* The place of the first sequence in the pass changes. */
static void run_together(bench *b, uint32_t count) {
    b->largest = 0;
    b->differing = 0;
    begin(b, count);
    for (uint32_t pass = 0, step = 0; step < DECODED; pass++) {
        bool first_took_part = false;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t sequence = (i + pass) % count;
            const bool waits = sequence > 0 && pass < sequence % 7;
            if (waits) continue;
            const bool added = add(b, sequence, sequence % 3 == 1 ? PART : 0);
            first_took_part |= added && sequence == 0;
        }
        must(sl_batch_run(b->batch, &err));
        const float *logits = sl_session_logits(b->sessions[0], NULL);
        if (logits && first_took_part) note(b, logits, b->alone + (size_t)step++ * b->vocab);
    }
    end(b, count);
}

/* Tokens per second of `count` sequences that decode. */
static double speed_of(bench *b, uint32_t count) {
    double start = 0;
    begin(b, count);
    for (uint32_t pass = 0; pass < WARM + TIMED; pass++) {
        if (pass == WARM) start = sl_clock_seconds();
        for (uint32_t i = 0; i < count; i++) {
            const sl_token token = token_of(b, i, pass);
            must(sl_batch_add(b->batch, b->sessions[i], &token, 1, 0, NULL, &err));
        }
        must(sl_batch_run(b->batch, &err));
    }
    const double seconds = sl_clock_seconds() - start;
    end(b, count);
    return (double)count * TIMED / seconds;
}

static uint32_t compare(const char *path, const char *device, const char *counts,
                        int deterministic) {
    bench b;
    uint32_t differing = 0;
    open_bench(&b, path, device, deterministic);
    run_alone(&b);
    (void)printf("%s%s\n%9s %10s %12s %9s\n", path, deterministic ? ", deterministic" : "",
                 "sequences", "differing", "difference", "tok/s");
    for (const char *at = counts; *at; at += *at == ',') {
        char *rest;
        const unsigned long count = strtoul(at, &rest, 10);
        if (rest == at || count == 0 || count > MOST) exit(2);
        at = rest;
        run_together(&b, (uint32_t)count);
        const uint32_t of_these = b.differing;
        differing += of_these;
        (void)printf("%9lu %7u/%-2d %12.3g %9.1f\n", count, of_these, DECODED, b.largest,
                     speed_of(&b, (uint32_t)count));
        (void)fflush(stdout);
    }
    begin(&b, 1);
    sl_stats stats = {.struct_size = sizeof stats};
    must(sl_session_stats(b.sessions[0], &stats, &err));
    end(&b, 1);
    (void)printf("%llu programs, %.1f ms to compile each\n\n",
                 (unsigned long long)stats.programs_compiled,
                 1e3 * stats.compile_seconds / (double)stats.programs_compiled);
    close_bench(&b);
    return differing;
}

int main(int count, char **words) {
    const char *device = count > 2 ? words[2] : "cuda";
    const char *counts = count > 3 ? words[3] : "1,2,3,5,8,9,16,17,32,64";
    if (count < 2 || count > 4) {
        (void)fprintf(stderr, "usage: batch_bits_bench MODEL [DEVICE [COUNT,...]]\n");
        return 2;
    }
    (void)compare(words[1], device, counts, 0);
    return compare(words[1], device, counts, 1) ? 1 : 0;
}
