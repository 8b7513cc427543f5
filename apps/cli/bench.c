/* bench.c - Measures prefill and decode with arbitrary but fixed tokens, or decode with sampled
 * tokens if a temperature is given.
 *
 * Several ways (numbers of threads, ways to compile) are measured in turn, so that what disturbs
 * one disturbs all.  Beside them stands what the machine allows, measured in the same run. */
#include "apps/cli/bench.h"
#include "apps/cli/profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_REPEATS = 3,
    COMPARING_REPEATS = 11,
    DEFAULT_PREFILL = 512,
    DEFAULT_DECODE = 64,
    COMPARED_WAYS = 4
};

/* Any full-period generator works: the ids only have to be spread out and repeatable. */
static void fill_ids(sl_token *ids, size_t count, uint32_t vocab) {
    uint64_t x = 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (sl_token)((x >> 33) % vocab);
    }
}

/* The first token is given, the others are sampled; the forward pass of the last one is only
 * started. */
static sl_status choose_tokens(bench_way *w, size_t count, const sl_token *ids, sl_error *err) {
    const sl_sampling sampling = cli_sampling(w->model, &w->options);
    sl_status status = sl_session_extend(w->session, ids, 1, err);
    for (size_t i = 0; i < count && status == SL_OK; i++) {
        sl_token token;
        status = sl_session_next(w->session, &sampling, &token, err);
    }
    return status;
}

/* Extends by the tokens of a phase, all at once or one by one, and records the time. */
static sl_status run_phase(bench_way *w, bench_phase *p, const sl_token *ids, size_t step,
                           uint32_t repeat, sl_error *err) {
    const sl_stats before = cli_session_stats(w->session);
    const double start = cli_seconds();
    sl_status status = SL_OK;
    if (p == &w->decode && p->tokens && w->options.temperature_given)
        status = choose_tokens(w, p->tokens, ids, err);
    else
        for (size_t at = 0; at < p->tokens && status == SL_OK; at += step)
            status = sl_session_extend(w->session, ids + at, step, err);
    p->seconds[repeat] = cli_seconds() - start;
    const sl_stats after = cli_session_stats(w->session);
    p->hits += after.expert_hits - before.expert_hits;
    p->misses += after.expert_misses - before.expert_misses;
    p->bytes_read += after.bytes_read - before.bytes_read;
    p->device_hits += after.device_hits - before.device_hits;
    p->device_misses += after.device_misses - before.device_misses;
    p->bytes_copied += after.device_bytes_copied - before.device_bytes_copied;
    p->device_runs += after.device_runs - before.device_runs;
    p->launch_seconds += after.launch_seconds - before.launch_seconds;
    return status;
}

/* Creates a context of `depth` tokens: one is computed, the others are simulated. */
static sl_status go_to_depth(bench_way *w, size_t depth, sl_error *err) {
    sl_status status = sl_session_rewind(w->session, 0, err);
    if (status != SL_OK || depth == 0) return status;
    status = sl_session_extend(w->session, w->ids, 1, err);
    return status == SL_OK ? sl_session_fake_context(w->session, depth, err) : status;
}

static sl_status run_once(const bench_run *run, bench_way *w, uint32_t repeat, sl_error *err) {
    sl_status status = sl_session_rewind(w->session, 0, err);
    if (status == SL_OK && w->prefill.tokens)
        status = run_phase(w, &w->prefill, w->ids, w->prefill.tokens, repeat, err);
    if (status == SL_OK && w->decode.tokens && run->has_depth)
        status = go_to_depth(w, run->depth, err);
    if (status == SL_OK)
        status = run_phase(w, &w->decode, w->ids + w->prefill.tokens, 1, repeat, err);
    return status;
}

/* Every program the measured runs use is compiled and has run once; where all experts fit, those
 * that are used are there. */
static sl_status warm_up(const bench_run *run, bench_way *w, sl_error *err) {
    const bench_way cold = *w;
    const sl_model_info info = cli_model_info(w->model);
    if (w->decode.tokens && info.slot_count < info.expert_count) w->decode.tokens = 1;
    const sl_status status = run_once(run, w, 0, err);
    *w = cold;
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- Limits of the machine ---- */

static void keep_larger(double *to, const double *from, int count) {
    for (int i = 0; i < count; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

/* Merges another measurement by taking the maximum: a limit can only be underestimated. */
static void join_floors(sl_floors *to, const sl_floors *from) {
    keep_larger(to->read_bytes_per_second, from->read_bytes_per_second, 2);
    keep_larger(to->median_read_bytes_per_second, from->median_read_bytes_per_second, 2);
    keep_larger(to->f32_operations_per_second, from->f32_operations_per_second, 2);
    keep_larger(to->median_f32_operations_per_second, from->median_f32_operations_per_second, 2);
    keep_larger(to->int8_operations_per_second, from->int8_operations_per_second, 2);
    keep_larger(to->median_int8_operations_per_second, from->median_int8_operations_per_second, 2);
    keep_larger(&to->core_share, &from->core_share, 1);
}

static void keep_rates(bench_way *w, const sl_floors *floors, int which) {
    keep_larger(&w->read_rate, &floors->read_bytes_per_second[which], 1);
    keep_larger(&w->f32_rate, &floors->f32_operations_per_second[which], 1);
    keep_larger(&w->int8_rate, &floors->int8_operations_per_second[which], 1);
}

/* For the largest number of threads, which includes one, and for those between. */
static sl_status measure_floors(bench_run *run, sl_error *err) {
    sl_floors floors = {.struct_size = sizeof floors};
    if (run->compares || run->gpu.copy_bytes_per_second > 0) return SL_OK;
    cli_progress_stage("measuring memory and cores");
    sl_status status = sl_measure_floors(run->most_threads, &floors, err);
    if (status != SL_OK) return status;
    if (run->floors.threads)
        join_floors(&run->floors, &floors);
    else
        run->floors = floors;
    for (int i = 0; i < run->count && status == SL_OK; i++) {
        bench_way *w = &run->ways[i];
        const uint32_t threads = w->options.threads ? w->options.threads : floors.threads;
        if (threads == 1 || threads == floors.threads) {
            keep_rates(w, &run->floors, threads != 1);
            continue;
        }
        sl_floors between = {.struct_size = sizeof between};
        status = sl_measure_floors(threads, &between, err);
        if (status == SL_OK) keep_rates(w, &between, 1);
    }
    return status;
}

/* On a GPU its rates are used instead of those of the cores. */
static sl_status measure_gpu(bench_run *run, sl_error *err) {
    run->gpu.struct_size = sizeof run->gpu;
    const sl_status status = sl_measure_gpu(run->ways[0].model, &run->gpu, err);
    for (int i = 0; i < run->count && run->gpu.copy_bytes_per_second > 0; i++) {
        run->ways[i].read_rate = run->gpu.copy_bytes_per_second;
        run->ways[i].int8_rate = run->ways[i].f32_rate = run->gpu.bf16_operations_per_second;
    }
    return status;
}

double bench_mean_depth(const bench_run *run) {
    const bench_way *w = &run->ways[0];
    const size_t start = run->has_depth ? run->depth : w->prefill.tokens;
    return (double)start + (double)w->decode.tokens / 2;
}

static uint32_t chunk_of(const bench_way *w) {
    return w->options.chunk ? w->options.chunk : cli_model_info(w->model).chunk_tokens;
}

/* Weights that prefill reads: of the experts those that tokens of a chunk use, chosen evenly. */
double bench_prefill_bytes(const bench_run *run, const bench_way *way) {
    const sl_token_cost *cost = &run->cost;
    const uint32_t most = chunk_of(way);
    const double resident = (double)(cost->weight_bytes - cost->expert_bytes);
    double bytes = 0;
    for (size_t left = way->prefill.tokens; left > 0;) {
        const size_t rows = left < most ? left : most;
        bytes += resident;
        if (cost->expert_share > 0)
            bytes += (double)cost->expert_bytes / cost->expert_share *
                     (1 - pow(1 - cost->expert_share, (double)rows));
        left -= rows;
    }
    return bytes;
}

bench_limits bench_limits_of(const bench_run *run, const bench_way *way, const bench_phase *phase) {
    const sl_token_cost *cost = &run->cost;
    bench_limits limits = {0};
    double seconds;
    if (phase == &way->decode) {
        const double kv = (double)cost->kv_bytes_per_position * bench_mean_depth(run);
        seconds = ((double)(cost->weight_bytes + cost->recurrent_bytes) + kv) / way->read_rate;
    } else {
        const double rate = cost->int8_activations ? way->int8_rate : way->f32_rate;
        const double positions = (double)phase->tokens / 2; /* before the average token */
        const double reading =
            bench_prefill_bytes(run, way) / (double)phase->tokens / way->read_rate;
        seconds = (double)cost->prefill_operations / rate +
                  (double)cost->operations_per_position * positions / way->f32_rate;
        if (seconds < reading) seconds = reading;
    }
    limits.machine = 1 / seconds;
    if (run->disk.reads_in_flight && phase->bytes_read)
        limits.disk = run->disk.read_bytes_per_second * (double)(phase->tokens * phase->repeats) /
                      (double)phase->bytes_read;
    if (phase->bytes_copied)
        limits.copies = run->gpu.host_bytes_per_second * (double)(phase->tokens * phase->repeats) /
                        (double)phase->bytes_copied;
    return limits;
}

/* ---- Where time goes ---- */

/* When compile options are compared, the report of the compiled program is enough. */
static sl_status describe_program(bench_way *w, sl_error *err) {
    const sl_inspect_options options = {.struct_size = sizeof options, .compile = w->compile};
    w->program.struct_size = sizeof w->program;
    return sl_inspect(w->model, &options, &w->program, err);
}

/* One more run, which is not measured. */
static sl_status profile(const bench_run *run, bench_way *w, sl_error *err) {
    const bench_way measured = *w;
    sl_session_profile found = {.struct_size = sizeof found};
    sl_status status = cli_profile_start(&w->options, w->session, err);
    if (status == SL_OK) status = run_once(run, w, 0, err);
    if (status == SL_OK) status = sl_session_profile_end(w->session, &found, err);
    *w = measured;
    w->profile = found;
    return status;
}

/* ---- The whole ---- */

static bool reads_experts(const bench_run *run) {
    for (int i = 0; i < run->count; i++) {
        const sl_model_info info = cli_model_info(run->ways[i].model);
        if (info.slot_count < info.expert_count) return true;
    }
    return false;
}

static sl_status run_all(bench_run *run, sl_error *err) {
    const uint32_t repeats = run->ways[0].decode.repeats;
    sl_status status = SL_OK;
    cli_progress_stage("warming up");
    for (int i = 0; i < run->count && status == SL_OK; i++)
        status = warm_up(run, &run->ways[i], err);
    for (uint32_t repeat = 0; repeat < repeats && status == SL_OK; repeat++)
        for (int i = 0; i < run->count && status == SL_OK; i++) {
            (void)cli_progress(NULL, "measuring",
                               (uint64_t)repeat * (uint64_t)run->count + (uint64_t)i,
                               (uint64_t)repeats * (uint64_t)run->count);
            status = run_once(run, &run->ways[i], repeat, err);
        }
    cli_progress_end();
    for (int i = 0; i < run->count; i++) {
        qsort(run->ways[i].prefill.seconds, repeats, sizeof(double), by_value);
        qsort(run->ways[i].decode.seconds, repeats, sizeof(double), by_value);
    }
    return status;
}

static sl_status measure_disk(bench_run *run, sl_error *err) {
    cli_progress_stage("measuring the disk");
    run->disk.struct_size = sizeof run->disk;
    return sl_measure_disk(run->ways[0].model, &run->disk, err);
}

static int measure(const cli_options *options, bench_run *run) {
    sl_error err;
    run->cost.struct_size = sizeof run->cost;
    sl_status status = sl_model_token_cost(run->ways[0].model, &run->cost, &err);
    if (status == SL_OK) status = measure_gpu(run, &err);
    /* Before the runs take the memory that the model was promised. */
    if (status == SL_OK) status = measure_floors(run, &err);
    if (status == SL_OK && !run->compares && reads_experts(run)) status = measure_disk(run, &err);
    if (status == SL_OK) status = run_all(run, &err);
    /* Measured again, because a disturbance of the first time may be gone. */
    if (status == SL_OK && run->ways[0].decode.repeats > 1) status = measure_floors(run, &err);
    const bool profiles = cli_profile_is_wanted(options);
    if (profiles) cli_progress_stage("profiling");
    for (int i = 0; i < run->count && status == SL_OK; i++) {
        if (run->compares) status = describe_program(&run->ways[i], &err);
        if (status == SL_OK && profiles) status = profile(run, &run->ways[i], &err);
    }
    cli_progress_end();
    if (status != SL_OK) return cli_fail(&err);
    return options->json       ? bench_print_json(run)
           : options->csv      ? bench_print_csv(run)
           : options->markdown ? bench_print_markdown(run)
                               : bench_print(run);
}

static bool open_ways(bench_run *run, uint32_t context) {
    for (int i = 0; i < run->count; i++) {
        bench_way *w = &run->ways[i];
        if (!cli_open_model(&w->options, context, &w->model) ||
            !cli_open_session(w->model, &w->options, &w->session))
            return false;
        const uint64_t slots = cli_model_info(w->model).slot_count;
        const uint64_t wanted = cli_model_info(run->ways[0].model).slot_count;
        if (slots != wanted) {
            (void)cli_fail_text("only %llu of %llu experts fit in memory beside the first model: "
                                "give a --budget for each of the %d models",
                                (unsigned long long)slots, (unsigned long long)wanted, run->count);
            return false;
        }
    }
    return true;
}

static int measure_ways(const cli_options *options, bench_run *run) {
    const size_t decoded =
        run->ways[0].decode.tokens + options->temperature_given; /* chosen: one more */
    const size_t tokens = run->ways[0].prefill.tokens + decoded;
    const size_t depth = run->has_depth ? run->depth + decoded : 0;
    sl_token *ids = malloc(tokens * sizeof *ids);
    if (!ids) return cli_fail_text("no memory for %zu tokens", tokens);
    int result = CLI_FAILED;
    for (int i = 0; i < run->count; i++) run->ways[i].ids = ids;
    if (open_ways(run, (uint32_t)(depth > tokens ? depth : tokens))) {
        fill_ids(ids, tokens, cli_model_info(run->ways[0].model).vocab);
        result = measure(options, run);
    }
    for (int i = 0; i < run->count; i++) {
        sl_inspect_report_deinit(&run->ways[i].program);
        sl_session_profile_deinit(&run->ways[i].profile);
        sl_session_destroy(run->ways[i].session);
        sl_model_close(run->ways[i].model);
    }
    free(ids);
    return result;
}

/* "1,2,8": one configuration for each number; false if the list is invalid. */
static bool read_threads(const char *list, bench_run *run) {
    for (const char *at = list;; at++) {
        char *end;
        const unsigned long threads = strtoul(at, &end, 10);
        if (end == at || threads > 4096 || *at == '-' || *at == '+' || (*end && *end != ',') ||
            run->count == BENCH_MOST_WAYS)
            return false;
        run->ways[run->count++].options.threads = (uint32_t)threads;
        if (threads > run->most_threads) run->most_threads = (uint32_t)threads;
        if (threads == 0) run->most_threads = 0; /* as many as there are cores */
        if (*end == '\0') return run->count == 1 || run->most_threads > 0;
        at = end;
    }
}

static void prepare_ways(const cli_options *options, uint32_t repeats, bench_run *run) {
    for (int i = 0; i < run->count; i++) {
        bench_way *w = &run->ways[i];
        const uint32_t threads = run->compares ? run->ways[0].options.threads : w->options.threads;
        w->options = *options;
        w->options.threads = threads;
        w->options.no_fusion |= run->compares && (i & 1) != 0;
        w->options.no_reorder |= run->compares && (i & 2) != 0;
        (void)cli_compile_words(&w->options, w->compile);
        w->prefill =
            (bench_phase){.name = "prefill",
                          .repeats = repeats,
                          .tokens = options->prefill_given ? options->prefill : DEFAULT_PREFILL};
        w->decode =
            (bench_phase){.name = "decode",
                          .repeats = repeats,
                          .tokens = options->predict_given ? options->predict : DEFAULT_DECODE};
    }
}

static int check_and_measure(const cli_options *options, bench_run *run) {
    run->compares = options->compare;
    run->path = cli_model_path(options);
    if (!run->path) return CLI_FAILED;
    if (options->json + options->csv + options->markdown > 1)
        return cli_misuse(CLI_bench, "--json, --csv and --markdown: give only one of them");
    run->has_depth = options->depth_given;
    run->depth = options->depth;
    const uint32_t repeats = options->repeats_given ? options->repeats
                             : options->compare     ? COMPARING_REPEATS
                                                    : DEFAULT_REPEATS;
    if (repeats == 0 || repeats > BENCH_MOST_REPEATS)
        return cli_misuse(CLI_bench, "--repeats: expected 1 to %d, got '%u'", BENCH_MOST_REPEATS,
                          repeats);
    if (!read_threads(options->thread_list ? options->thread_list : "0", run))
        return cli_misuse(CLI_bench,
                          "--threads: expected at most %d numbers separated by commas, got '%s'",
                          BENCH_MOST_WAYS, options->thread_list);
    if (run->compares && run->count > 1)
        return cli_misuse(CLI_bench, "--compare with --threads %s: give only one number of threads",
                          options->thread_list);
    if (run->compares) run->count = COMPARED_WAYS;
    if (options->trace && run->count > 1)
        return cli_misuse(CLI_bench,
                          "--trace of %d ways: give only one number of threads, and no "
                          "--compare",
                          run->count);
    if (cli_profile_check(CLI_bench, options) != CLI_OK) return CLI_USAGE;
    prepare_ways(options, repeats, run);
    const size_t prefill = run->ways[0].prefill.tokens, decode = run->ways[0].decode.tokens;
    if (prefill + decode == 0 || prefill + decode + run->depth >= UINT32_MAX)
        return cli_misuse(CLI_bench,
                          "-p %zu, -n %zu and --depth %zu: expected 1 to 2^32 tokens in total",
                          prefill, decode, run->depth);
    return measure_ways(options, run);
}

int cli_run_bench(const cli_options *options) {
    if (options->batch) return bench_run_batch(options);
    bench_run *run = calloc(1, sizeof *run);
    if (!run) return cli_fail_text("no memory for measurements");
    const int result = check_and_measure(options, run);
    free(run);
    return result;
}
