/* bench.c - Measure prefill and decode with tokens that mean nothing, the same ones every time.
 *
 * Several ways to compile are measured in turn, so that what disturbs one disturbs all.  One way
 * alone is set beside what the machine allows, measured in the same run. */
#include "apps/cli/cli.h"
#include "sluice/inspect.h"
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_REPEATS = 3,
    COMPARING_REPEATS = 11,
    MOST_REPEATS = 100,
    DEFAULT_PREFILL = 512,
    DEFAULT_DECODE = 64,
    MOST_WAYS = 4,
    PROFILE_RUNS = 32
};

typedef struct {
    const char *name;
    size_t tokens;
    uint32_t repeats;
    double seconds[MOST_REPEATS]; /* sorted at the end */
    uint64_t hits, misses, bytes_read;
} phase;

/* What the machine allows, and what a token asks of it. */
typedef struct {
    sl_floors machine;
    sl_token_cost cost;
    double decode, prefill; /* tokens per second by memory, by arithmetic */
} floors;

/* One way to compile the model. */
typedef struct {
    cli_options options;
    char compile[CLI_COMPILE_TEXT];
    sl_model *model;
    sl_session *session;
    const sl_token *ids;
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
static sl_status run_phase(bench *b, phase *p, const sl_token *ids, size_t step, uint32_t repeat,
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

static sl_status run_once(bench *b, uint32_t repeat, sl_error *err) {
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
    return p->tokens ? (double)p->tokens / p->seconds[0] : 0;
}
static double median(const phase *p) {
    return p->tokens ? (double)p->tokens / p->seconds[p->repeats / 2] : 0;
}
/* 0 to 1: the best of a phase beside what the machine would allow. */
static double share_of(const phase *p, double allowed) {
    return allowed > 0 ? best(p) / allowed : 0;
}
static double bytes_per_token(const phase *p) {
    return (double)p->bytes_read / (double)(p->tokens * p->repeats);
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

static void print_machine(const bench *b) {
    const sl_model_info info = sl_model_describe(b->model);
    (void)printf(
        "%s, %s experts, %s (%s), %u threads, %llu of %llu experts in memory, %u repeats\n",
        info.architecture, info.expert_dtype, info.device, info.isa, info.threads,
        (unsigned long long)info.slot_count, (unsigned long long)info.expert_count,
        b->decode.repeats);
}

static void print_split(const bench *b) {
    const sl_stats s = sl_session_stats(b->session);
    const double others = s.compile_seconds - s.build_seconds - s.fuse_seconds - s.lower_seconds -
                          s.schedule_seconds - s.plan_seconds - s.load_seconds;
    (void)printf("compile  %llu programs in %.2f ms: build %.2f, fuse %.2f, lower %.2f, schedule "
                 "%.2f, plan %.2f, load %.2f, others %.2f\n",
                 (unsigned long long)s.programs_compiled, s.compile_seconds * 1e3,
                 s.build_seconds * 1e3, s.fuse_seconds * 1e3, s.lower_seconds * 1e3,
                 s.schedule_seconds * 1e3, s.plan_seconds * 1e3, s.load_seconds * 1e3,
                 others * 1e3);
    (void)printf("run      prefill %.2f ms, decode %.2f ms; waited for experts %.2f ms\n",
                 s.prefill_seconds * 1e3, s.decode_seconds * 1e3, s.stall_seconds * 1e3);
}

static sl_status measure_floors(const bench *b, floors *out, sl_error *err) {
    const uint32_t threads = sl_model_describe(b->model).threads;
    const sl_status status = sl_measure_floors(threads, &out->machine, err);
    out->cost = sl_model_token_cost(b->model);
    if (status != SL_OK) return status;
    out->decode = out->machine.read_bytes_per_second[1] / (double)out->cost.weight_bytes;
    out->prefill = out->machine.f32_operations_per_second[1] / (double)out->cost.prefill_operations;
    return SL_OK;
}

static void print_floors(const bench *b, const floors *f) {
    const sl_floors *m = &f->machine;
    (void)printf("machine  reads %.1f GB/s on 1 thread, %.1f on %u; f32 %.0f and %.0f GFLOP/s\n",
                 m->read_bytes_per_second[0] * 1e-9, m->read_bytes_per_second[1] * 1e-9, m->threads,
                 m->f32_operations_per_second[0] * 1e-9, m->f32_operations_per_second[1] * 1e-9);
    if (b->prefill.tokens)
        (void)printf("prefill  %.3f G operations per token: arithmetic allows %.1f tok/s, %.0f %% "
                     "reached\n",
                     (double)f->cost.prefill_operations * 1e-9, f->prefill,
                     100 * share_of(&b->prefill, f->prefill));
    if (b->decode.tokens)
        (void)printf("decode   %.1f MB of weights, %.3f G operations per token: memory allows %.1f "
                     "tok/s, %.0f %% reached\n",
                     (double)f->cost.weight_bytes * 1e-6, (double)f->cost.decode_operations * 1e-9,
                     f->decode, 100 * share_of(&b->decode, f->decode));
}

static json_t *floors_json(const bench *b, const floors *f) {
    const sl_floors *m = &f->machine;
    return json_pack(
        "{s:[f, f], s:[f, f], s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "read_bytes_per_second",
        m->read_bytes_per_second[0], m->read_bytes_per_second[1], "f32_operations_per_second",
        m->f32_operations_per_second[0], m->f32_operations_per_second[1], "weight_bytes_per_token",
        (json_int_t)f->cost.weight_bytes, "decode_operations_per_token",
        (json_int_t)f->cost.decode_operations, "prefill_operations_per_token",
        (json_int_t)f->cost.prefill_operations, "decode_tokens_per_second", f->decode,
        "decode_share", share_of(&b->decode, f->decode), "prefill_tokens_per_second", f->prefill,
        "prefill_share", share_of(&b->prefill, f->prefill));
}

static void print_table(const bench *b, const floors *f) {
    print_machine(b);
    (void)printf("%-8s %7s %12s %12s %10s %10s %14s\n", "", "tokens", "best tok/s", "median tok/s",
                 "hits", "misses", "read per token");
    print_phase(&b->prefill);
    print_phase(&b->decode);
    print_floors(b, f);
    print_split(b);
}

static json_t *split_json(const bench *b) {
    const sl_stats s = sl_session_stats(b->session);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "programs",
                     (json_int_t)s.programs_compiled, "seconds", s.compile_seconds, "build_seconds",
                     s.build_seconds, "fuse_seconds", s.fuse_seconds, "lower_seconds",
                     s.lower_seconds, "schedule_seconds", s.schedule_seconds, "plan_seconds",
                     s.plan_seconds, "load_seconds", s.load_seconds);
}

static json_t *bench_json(const bench *b) {
    const sl_model_info info = sl_model_describe(b->model);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:i, s:s, s:o, s:o, s:o}", "architecture",
                     info.architecture, "expert_dtype", info.expert_dtype, "device", info.device,
                     "isa", info.isa, "threads", (int)info.threads, "slot_count",
                     (json_int_t)info.slot_count, "expert_count", (json_int_t)info.expert_count,
                     "repeats", (int)b->decode.repeats, "options", b->compile, "compile",
                     split_json(b), "prefill", phase_json(&b->prefill), "decode",
                     phase_json(&b->decode));
}

/* The decoding step as it was compiled, run some times when runs is not 0. */
static bool inspect(const bench *b, uint32_t runs, sl_inspect_report *out) {
    const sl_inspect_options how = {.struct_size = sizeof how, .compile = b->compile, .runs = runs};
    sl_error err;
    if (sl_inspect(b->model, &how, out, &err) == SL_OK) return true;
    (void)cli_fail(&err);
    return false;
}

static bool print_profile(const bench *b) {
    sl_inspect_report report;
    char *text;
    sl_error err;
    if (!inspect(b, PROFILE_RUNS, &report)) return false;
    if (sl_inspect_text(&report, &text, &err) != SL_OK) {
        (void)cli_fail(&err);
        return false;
    }
    (void)printf("\n%s", text);
    sl_text_free(text);
    return true;
}

/* One line for each way to compile. */
static bool print_comparison(const bench *ways, int count) {
    print_machine(&ways[0]);
    (void)printf("%-26s %6s %6s %8s %12s %12s %12s %12s\n", "", "steps", "fused", "barriers",
                 "prefill best", "median", "decode best", "median");
    for (int i = 0; i < count; i++) {
        const bench *b = &ways[i];
        sl_inspect_report r;
        if (!inspect(b, 0, &r)) return false;
        (void)printf("%-26.*s %6u %6u %8u %12.1f %12.1f %12.1f %12.1f\n",
                     b->compile[0] ? (int)strlen(b->compile) - 1 : 8,
                     b->compile[0] ? b->compile : "as it is", r.steps, r.fused, r.barriers,
                     best(&b->prefill), median(&b->prefill), best(&b->decode), median(&b->decode));
    }
    return true;
}

static int print_one(const cli_options *options, const bench *b) {
    floors f;
    sl_error err;
    if (measure_floors(b, &f, &err) != SL_OK) return cli_fail(&err);
    if (options->json) {
        json_t *value = bench_json(b);
        (void)json_object_set_new(value, "floors", floors_json(b, &f));
        return cli_print_json(value);
    }
    print_table(b, &f);
    return !options->profile || print_profile(b) ? CLI_OK : CLI_FAILED;
}

static int print_results(const cli_options *options, const bench *ways, int count) {
    if (count == 1) return print_one(options, ways);
    if (!options->json) return print_comparison(ways, count) ? CLI_OK : CLI_FAILED;
    json_t *array = json_array();
    for (int i = 0; i < count; i++) (void)json_array_append_new(array, bench_json(&ways[i]));
    return cli_print_json(array);
}

static int measure(const cli_options *options, bench *ways, int count) {
    sl_error err;
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++) status = warm_up(&ways[i], &err);
    const uint32_t repeats = ways[0].decode.repeats;
    for (uint32_t repeat = 0; repeat < repeats && status == SL_OK; repeat++)
        for (int i = 0; i < count && status == SL_OK; i++) {
            (void)cli_progress(NULL, "measuring", (uint64_t)repeat * (uint64_t)count + (uint64_t)i,
                               (uint64_t)repeats * (uint64_t)count);
            status = run_once(&ways[i], repeat, &err);
        }
    cli_progress_end();
    if (status != SL_OK) return cli_fail(&err);
    for (int i = 0; i < count; i++) {
        qsort(ways[i].prefill.seconds, repeats, sizeof(double), by_value);
        qsort(ways[i].decode.seconds, repeats, sizeof(double), by_value);
    }
    return print_results(options, ways, count);
}

static bool open_way(bench *b, uint32_t context) {
    return cli_open_model(&b->options, context, &b->model) &&
           cli_open_session(b->model, &b->options, &b->session);
}

static int measure_ways(const cli_options *options, bench *ways, int count) {
    const size_t tokens = ways[0].prefill.tokens + ways[0].decode.tokens;
    sl_token *ids = malloc(tokens * sizeof *ids);
    if (!ids) return cli_fail_text("no memory for %zu tokens", tokens);
    int result = CLI_OK;
    for (int i = 0; i < count && result == CLI_OK; i++) {
        ways[i].ids = ids;
        if (!open_way(&ways[i], (uint32_t)tokens)) result = CLI_FAILED;
    }
    if (result == CLI_OK) {
        fill_ids(ids, tokens, sl_model_describe(ways[0].model).vocab);
        result = measure(options, ways, count);
    }
    for (int i = 0; i < count; i++) {
        sl_session_destroy(ways[i].session);
        sl_model_close(ways[i].model);
    }
    free(ids);
    return result;
}

int cli_run_bench(const cli_options *options) {
    bench ways[MOST_WAYS] = {0};
    const int count = options->compare ? MOST_WAYS : 1;
    const uint32_t repeats = options->repeats_given ? options->repeats
                             : options->compare     ? COMPARING_REPEATS
                                                    : DEFAULT_REPEATS;
    if (repeats == 0 || repeats > MOST_REPEATS)
        return cli_misuse(CLI_bench, "--repeats %u: 1 to %d", repeats, MOST_REPEATS);
    for (int i = 0; i < count; i++) {
        bench *b = &ways[i];
        b->options = *options;
        b->options.no_fusion |= (i & 1) != 0;
        b->options.no_reorder |= (i & 2) != 0;
        (void)cli_compile_words(&b->options, b->compile);
        b->prefill = (phase){.name = "prefill",
                             .repeats = repeats,
                             .tokens = options->prefill_given ? options->prefill : DEFAULT_PREFILL};
        b->decode = (phase){.name = "decode",
                            .repeats = repeats,
                            .tokens = options->predict_given ? options->predict : DEFAULT_DECODE};
    }
    const size_t tokens = ways[0].prefill.tokens + ways[0].decode.tokens;
    if (tokens == 0 || tokens > UINT32_MAX)
        return cli_misuse(CLI_bench, "-p %zu and -n %zu: between 1 and 2^32 tokens together",
                          ways[0].prefill.tokens, ways[0].decode.tokens);
    return measure_ways(options, ways, count);
}
