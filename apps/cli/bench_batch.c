/* bench_batch.c - `sluice bench --batch`: decode of several sequences at once.
 *
 * Sequences have different arbitrary tokens, so that they share experts by chance only.  The
 * numbers of sequences are measured in turn, so that what disturbs one disturbs all.  The limit is
 * the time in which the machine reads what a pass needs: resident weights, the experts that it
 * used, and the state of every sequence. */
#include "apps/cli/bench.h"
#include "sluice/batch.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNTS = 16, MOST_SEQUENCES = 256, DEFAULT_PREFILL = 64, DEFAULT_DECODE = 32 };

/* So many sequences at once. */
typedef struct {
    uint32_t sequences;
    double seconds[BENCH_MOST_REPEATS]; /* of `decode` passes; sorted at the end */
    sl_batch_stats used;                /* in all repeats */
} count_run;

typedef struct {
    const cli_options *options;
    const char *path;
    sl_model *model;
    sl_batch *batch;
    sl_session *sessions[MOST_SEQUENCES];
    uint32_t most, count, prefill, decode, repeats;
    count_run counts[MOST_COUNTS];
    sl_token_cost cost;
    sl_floors floors;
    uint64_t random;
    uint32_t vocab;
} batch_run;

static sl_token any_token(batch_run *run) {
    run->random = run->random * 6364136223846793005u + 1442695040888963407u;
    return (sl_token)((run->random >> 33) % run->vocab);
}

static sl_status make_sequence(batch_run *run, uint32_t index, sl_error *err) {
    sl_token *tokens = malloc((run->prefill + 1) * sizeof *tokens);
    if (!tokens) {
        err->status = SL_NO_MEMORY;
        (void)snprintf(err->message, sizeof err->message, "no memory for %u tokens", run->prefill);
        return SL_NO_MEMORY;
    }
    for (uint32_t i = 0; i < run->prefill; i++) tokens[i] = any_token(run);
    sl_status status = sl_session_create(run->model, NULL, &run->sessions[index], err);
    if (status == SL_OK)
        status = sl_session_extend(run->sessions[index], tokens, run->prefill, err);
    free(tokens);
    return status;
}

static sl_status run_passes(batch_run *run, uint32_t sequences, sl_error *err) {
    sl_status status = SL_OK;
    for (uint32_t pass = 0; pass < run->decode && status == SL_OK; pass++) {
        for (uint32_t i = 0; i < sequences && status == SL_OK; i++) {
            const sl_token token = any_token(run);
            status = sl_batch_add(run->batch, run->sessions[i], &token, 1, 0, NULL, err);
        }
        if (status == SL_OK) status = sl_batch_run(run->batch, err);
    }
    return status;
}

static sl_batch_stats stats_of(const batch_run *run) {
    sl_batch_stats stats = {.struct_size = sizeof stats};
    if (sl_batch_describe(run->batch, &stats, NULL) != SL_OK) stats = (sl_batch_stats){0};
    return stats;
}

static sl_status measure_count(batch_run *run, count_run *c, uint32_t repeat, sl_error *err) {
    const sl_batch_stats before = stats_of(run);
    const double start = cli_seconds();
    sl_status status = run_passes(run, c->sequences, err);
    c->seconds[repeat] = cli_seconds() - start;
    const sl_batch_stats after = stats_of(run);
    c->used.passes += after.passes - before.passes;
    c->used.expert_hits += after.expert_hits - before.expert_hits;
    c->used.expert_misses += after.expert_misses - before.expert_misses;
    c->used.bytes_read += after.bytes_read - before.bytes_read;
    for (uint32_t i = 0; i < c->sequences && status == SL_OK; i++)
        status = sl_session_rewind(run->sessions[i], run->prefill, err);
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Keeps the larger limits: they can only be underestimated. */
static sl_status measure_floors(batch_run *run, sl_error *err) {
    sl_floors found = {.struct_size = sizeof found};
    const sl_status status = sl_measure_floors(cli_model_info(run->model).threads, &found, err);
    if (status == SL_OK && found.read_bytes_per_second[1] > run->floors.read_bytes_per_second[1])
        run->floors = found;
    return status;
}

static sl_status measure_all(batch_run *run, sl_error *err) {
    cli_progress_stage("warming up");
    sl_status status = measure_floors(run, err);
    for (uint32_t i = 0; i < run->most && status == SL_OK; i++) status = make_sequence(run, i, err);
    for (uint32_t i = 0; i < run->count && status == SL_OK; i++) {
        const count_run cold = run->counts[i];
        status = measure_count(run, &run->counts[i], 0, err);
        run->counts[i] = cold;
    }
    for (uint32_t repeat = 0; repeat < run->repeats && status == SL_OK; repeat++)
        for (uint32_t i = 0; i < run->count && status == SL_OK; i++) {
            (void)cli_progress(NULL, "measuring", (uint64_t)repeat * run->count + i,
                               (uint64_t)run->repeats * run->count);
            status = measure_count(run, &run->counts[i], repeat, err);
        }
    for (uint32_t i = 0; i < run->count; i++)
        qsort(run->counts[i].seconds, run->repeats, sizeof(double), by_value);
    if (status == SL_OK) status = measure_floors(run, err);
    cli_progress_end();
    return status;
}

/* ---- results ---- */

typedef struct {
    double best, median; /* tokens per second of all sequences */
    double limit;        /* 0: not known */
    double experts;      /* that a pass uses, each once */
    double reads, bytes; /* experts and bytes read per token */
} count_result;

static count_result result_of(const batch_run *run, const count_run *c) {
    const sl_token_cost *cost = &run->cost;
    const double tokens = (double)c->sequences * run->decode;
    const double all = (double)c->used.passes * c->sequences;
    const double used = (double)(c->used.expert_hits + c->used.expert_misses);
    const double each_uses = cost->expert_share * (double)cli_model_info(run->model).expert_count;
    const double expert_bytes = each_uses > 0 ? (double)cost->expert_bytes / each_uses : 0;
    const double depth = run->prefill + run->decode / 2.0;
    const double state =
        (double)cost->recurrent_bytes + (double)cost->kv_bytes_per_position * depth;
    count_result r = {.best = tokens / c->seconds[0],
                      .median = tokens / c->seconds[run->repeats / 2],
                      .experts = used / (double)c->used.passes,
                      .reads = (double)c->used.expert_misses / all,
                      .bytes = (double)c->used.bytes_read / all};
    const double pass_bytes = (double)(cost->weight_bytes - cost->expert_bytes) +
                              r.experts * expert_bytes + c->sequences * state;
    r.limit = c->sequences * run->floors.read_bytes_per_second[1] / pass_bytes;
    return r;
}

static int print_text(const batch_run *run) {
    const sl_model_info info = cli_model_info(run->model);
    const double one = result_of(run, &run->counts[0]).best;
    (void)printf("%s: sluice %s\n%s, %s experts, %s (%s), %llu of %llu experts in memory, %u "
                 "threads, %u repeats\n",
                 run->path, sl_version(), info.architecture, info.expert_dtype, info.device,
                 info.isa, (unsigned long long)info.slot_count,
                 (unsigned long long)info.expert_count, info.threads, run->repeats);
    (void)printf("memory read %.1f GB/s, threads had %.0f %% of their cores\n\n",
                 run->floors.read_bytes_per_second[1] * 1e-9, 100 * run->floors.core_share);
    (void)printf("%9s %9s %9s %7s %9s %8s %13s %12s %9s\n", "sequences", "tok/s", "median",
                 "factor", "limit", "reached", "experts/pass", "reads/token", "MB/token");
    for (uint32_t i = 0; i < run->count; i++) {
        const count_result r = result_of(run, &run->counts[i]);
        (void)printf("%9u %9.1f %9.1f %7.2f %9.1f %6.0f %% %13.1f %12.2f %9.2f\n",
                     run->counts[i].sequences, r.best, r.median, r.best / one, r.limit,
                     100 * r.best / r.limit, r.experts, r.reads, r.bytes * 1e-6);
    }
    return CLI_OK;
}

static int print_json(const batch_run *run) {
    const sl_model_info info = cli_model_info(run->model);
    json_t *counts = json_array();
    for (uint32_t i = 0; i < run->count; i++) {
        const count_result r = result_of(run, &run->counts[i]);
        cli_json_append(counts,
                        json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "sequences",
                                  (int)run->counts[i].sequences, "tokens_per_second", r.best,
                                  "median_tokens_per_second", r.median, "limit_tokens_per_second",
                                  r.limit, "experts_per_pass", r.experts, "reads_per_token",
                                  r.reads, "bytes_read_per_token", r.bytes));
    }
    return cli_print_json(json_pack("{s:o, s:s, s:i, s:I, s:I, s:i, s:f, s:f, s:o}", "model",
                                    cli_json_text(run->path, strlen(run->path)), "device",
                                    info.device, "threads", (int)info.threads, "slot_count",
                                    (json_int_t)info.slot_count, "expert_count",
                                    (json_int_t)info.expert_count, "repeats", (int)run->repeats,
                                    "read_bytes_per_second", run->floors.read_bytes_per_second[1],
                                    "core_share", run->floors.core_share, "batch", counts));
}

/* ---- the whole ---- */

/* "1,2,8": false if the list is invalid. */
static bool read_counts(const char *list, batch_run *run) {
    for (const char *at = list;; at++) {
        char *end;
        const unsigned long count = strtoul(at, &end, 10);
        if (end == at || count == 0 || count > MOST_SEQUENCES || *at == '-' || *at == '+' ||
            (*end && *end != ',') || run->count == MOST_COUNTS)
            return false;
        run->counts[run->count++].sequences = (uint32_t)count;
        if (count > run->most) run->most = (uint32_t)count;
        at = end;
        if (*end == '\0') return true;
    }
}

static int check(const cli_options *options, batch_run *run) {
    if (!read_counts(options->batch, run))
        return cli_misuse(CLI_bench,
                          "--batch: expected at most %d numbers from 1 to %d, separated by commas, "
                          "got '%s'",
                          MOST_COUNTS, MOST_SEQUENCES, options->batch);
    if (options->compare || options->profile || options->trace || options->csv ||
        options->markdown || options->depth_given || options->temperature_given)
        return cli_misuse(CLI_bench, "--batch with --compare, --profile, --trace, --csv, "
                                     "--markdown, --depth or --temp");
    if (options->thread_list && strchr(options->thread_list, ','))
        return cli_misuse(CLI_bench, "--batch with --threads %s: give only one number of threads",
                          options->thread_list);
    if (run->repeats == 0 || run->repeats > BENCH_MOST_REPEATS)
        return cli_misuse(CLI_bench, "--repeats: expected 1 to %d, got '%u'", BENCH_MOST_REPEATS,
                          run->repeats);
    if (run->prefill == 0 || run->decode == 0 || run->prefill + run->decode > INT32_MAX)
        return cli_misuse(CLI_bench, "--batch with -p %u and -n %u: expected at least 1 of each",
                          run->prefill, run->decode);
    return CLI_OK;
}

static int measure(batch_run *run) {
    sl_error err;
    const cli_options *options = run->options;
    cli_options how = *options;
    how.sessions = run->most;
    if (options->thread_list) how.threads = (uint32_t)strtoul(options->thread_list, NULL, 10);
    if (!cli_open_model(&how, run->prefill + run->decode, &run->model)) return CLI_FAILED;
    run->vocab = cli_model_info(run->model).vocab;
    run->cost.struct_size = sizeof run->cost;
    sl_status status = sl_model_token_cost(run->model, &run->cost, &err);
    if (status == SL_OK) status = sl_batch_create(run->model, NULL, &run->batch, &err);
    if (status == SL_OK) status = measure_all(run, &err);
    if (status != SL_OK) return cli_fail(&err);
    return options->json ? print_json(run) : print_text(run);
}

int bench_run_batch(const cli_options *options) {
    batch_run *run = calloc(1, sizeof *run);
    if (!run) return cli_fail_text("no memory for measurements");
    run->options = options;
    run->repeats = options->repeats_given ? options->repeats : 5;
    run->prefill = options->prefill_given ? options->prefill : DEFAULT_PREFILL;
    run->decode = options->predict_given ? options->predict : DEFAULT_DECODE;
    run->random = 1;
    int result = check(options, run);
    if (result == CLI_OK) {
        run->path = cli_model_path(options);
        result = run->path ? measure(run) : CLI_FAILED;
    }
    sl_batch_destroy(run->batch);
    for (uint32_t i = 0; i < run->most; i++) sl_session_destroy(run->sessions[i]);
    sl_model_close(run->model);
    free(run);
    return result;
}
