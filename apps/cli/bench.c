/* bench.c - Measure prefill and decode with tokens that mean nothing, the same ones every time. */
#include "apps/cli/cli.h"
#include <stdlib.h>

enum { REPEATS = 3, DEFAULT_PREFILL = 512, DEFAULT_DECODE = 64 };

typedef struct {
    const char *name;
    size_t tokens;
    double seconds[REPEATS]; /* sorted at the end */
    uint64_t hits, misses, bytes_read;
} phase;

typedef struct {
    sl_session *session;
    sl_token *ids;
    phase prefill, decode;
} bench;

/* Any full-period generator would do: the ids only have to be spread and repeatable. */
static void fill_ids(sl_token *ids, size_t count, uint32_t vocab) {
    uint64_t x = 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (sl_token)((x >> 33) % vocab);
    }
}

/* Extends by the tokens of a phase, all at once or one by one, and notes what it took. */
static sl_status run_phase(bench *b, phase *p, const sl_token *ids, size_t step, int repeat,
                           sl_error *err) {
    const sl_stats before = sl_session_stats(b->session);
    const double start = cli_seconds();
    sl_status status = SL_OK;
    for (size_t at = 0; at < p->tokens && status == SL_OK; at += step)
        status = sl_session_extend(b->session, ids + at, step, err);
    p->seconds[repeat] = cli_seconds() - start;
    const sl_stats after = sl_session_stats(b->session);
    p->hits += after.expert_hits - before.expert_hits;
    p->misses += after.expert_misses - before.expert_misses;
    p->bytes_read += after.bytes_read - before.bytes_read;
    return status;
}

static sl_status run_once(bench *b, int repeat, sl_error *err) {
    sl_status status = sl_session_rewind(b->session, 0, err);
    if (status == SL_OK && b->prefill.tokens)
        status = run_phase(b, &b->prefill, b->ids, b->prefill.tokens, repeat, err);
    if (status == SL_OK)
        status = run_phase(b, &b->decode, b->ids + b->prefill.tokens, 1, repeat, err);
    return status;
}

/* Every program the measured runs use is compiled and has run once. */
static sl_status warm_up(bench *b, sl_error *err) {
    const bench cold = *b;
    if (b->decode.tokens) b->decode.tokens = 1;
    const sl_status status = run_once(b, 0, err);
    *b = cold;
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double best(const phase *p) {
    return (double)p->tokens / p->seconds[0];
}
static double median(const phase *p) {
    return (double)p->tokens / p->seconds[REPEATS / 2];
}
static double bytes_per_token(const phase *p) {
    return (double)p->bytes_read / (double)(p->tokens * REPEATS);
}

static void print_phase(const phase *p) {
    char read[32];
    if (p->tokens == 0) return;
    (void)printf("%-8s %7zu %12.1f %12.1f %10llu %10llu %14s\n", p->name, p->tokens, best(p),
                 median(p), (unsigned long long)p->hits, (unsigned long long)p->misses,
                 cli_bytes((uint64_t)bytes_per_token(p), read, sizeof read));
}

static json_t *phase_json(const phase *p) {
    if (p->tokens == 0) return json_null();
    return json_pack("{s:I, s:f, s:f, s:I, s:I, s:I, s:f}", "tokens", (json_int_t)p->tokens,
                     "best_tokens_per_second", best(p), "median_tokens_per_second", median(p),
                     "expert_hits", (json_int_t)p->hits, "expert_misses", (json_int_t)p->misses,
                     "bytes_read", (json_int_t)p->bytes_read, "bytes_read_per_token",
                     bytes_per_token(p));
}

static void print_table(const sl_model_info *info, const bench *b) {
    (void)printf(
        "%s, %s experts, %s (%s), %u threads, %llu of %llu experts in memory, %d repeats\n",
        info->architecture, info->expert_dtype, info->device, info->isa, info->threads,
        (unsigned long long)info->slot_count, (unsigned long long)info->expert_count, REPEATS);
    (void)printf("%-8s %7s %12s %12s %10s %10s %14s\n", "", "tokens", "best tok/s", "median tok/s",
                 "hits", "misses", "read per token");
    print_phase(&b->prefill);
    print_phase(&b->decode);
}

static void print_results(const cli_options *options, const sl_model *model, bench *b) {
    const sl_model_info info = sl_model_describe(model);
    qsort(b->prefill.seconds, REPEATS, sizeof(double), by_value);
    qsort(b->decode.seconds, REPEATS, sizeof(double), by_value);
    if (!options->json) {
        print_table(&info, b);
        return;
    }
    (void)cli_print_json(json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:i, s:o, s:o}", "architecture", info.architecture,
        "expert_dtype", info.expert_dtype, "device", info.device, "isa", info.isa, "threads",
        (int)info.threads, "slot_count", (json_int_t)info.slot_count, "expert_count",
        (json_int_t)info.expert_count, "repeats", REPEATS, "prefill", phase_json(&b->prefill),
        "decode", phase_json(&b->decode)));
}

static int measure(sl_model *model, const cli_options *options, bench *b) {
    const size_t count = b->prefill.tokens + b->decode.tokens;
    sl_error err;
    b->ids = malloc(count * sizeof *b->ids);
    if (!b->ids) return cli_fail_text("no memory for %zu tokens", count);
    fill_ids(b->ids, count, sl_model_describe(model).vocab);
    if (!cli_open_session(model, options, &b->session)) return CLI_FAILED;
    sl_status status = warm_up(b, &err);
    for (int repeat = 0; repeat < REPEATS && status == SL_OK; repeat++) {
        (void)cli_progress(NULL, "measuring", (uint64_t)repeat, REPEATS);
        status = run_once(b, repeat, &err);
    }
    cli_progress_end();
    if (status != SL_OK) return cli_fail(&err);
    print_results(options, model, b);
    return CLI_OK;
}

int cli_run_bench(const cli_options *options) {
    bench b = {
        .prefill = {.name = "prefill",
                    .tokens = options->prefill_given ? options->prefill : DEFAULT_PREFILL},
        .decode = {.name = "decode",
                   .tokens = options->predict_given ? options->predict : DEFAULT_DECODE},
    };
    const size_t count = b.prefill.tokens + b.decode.tokens;
    if (count == 0 || count > UINT32_MAX)
        return cli_misuse(CLI_bench, "-p %zu and -n %zu: between 1 and 2^32 tokens together",
                          b.prefill.tokens, b.decode.tokens);
    sl_model *model = NULL;
    if (!cli_open_model(options, (uint32_t)count, &model)) return CLI_FAILED;
    const int result = measure(model, options, &b);
    sl_session_destroy(b.session);
    sl_model_close(model);
    free(b.ids);
    return result;
}
