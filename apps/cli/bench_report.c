/* bench_report.c - The measurements as text, in at most 100 columns. */
#include "apps/cli/bench.h"
#include <string.h>

double bench_best(const bench_phase *p) {
    return p->tokens ? (double)p->tokens / p->seconds[0] : 0;
}
double bench_median(const bench_phase *p) {
    return p->tokens ? (double)p->tokens / p->seconds[p->repeats / 2] : 0;
}
/* The best speed of a phase as a share of its limit, 0 to 1. */
double bench_share_of(const bench_phase *p, double allowed) {
    return allowed > 0 ? bench_best(p) / allowed : 0;
}
double bench_bytes_per_token(const bench_phase *p) {
    return (double)p->bytes_read / (double)(p->tokens * p->repeats);
}
double bench_hit_rate(const bench_phase *p) {
    return p->hits + p->misses ? (double)p->hits / (double)(p->hits + p->misses) : 1;
}

static void print_model(const bench_run *run) {
    const sl_model_info info = cli_model_info(run->ways[0].model);
    char size[32], count[32];
    (void)printf("%s: %s, %s parameters, sluice %s\n", run->path,
                 cli_bytes(info.file_bytes, size, sizeof size),
                 cli_count(info.parameters, count, sizeof count), sl_version());
    (void)printf("%s, %s experts, %s (%s), %llu of %llu experts in memory, %u repeats\n",
                 info.architecture, info.expert_dtype, info.device, info.isa,
                 (unsigned long long)info.slot_count, (unsigned long long)info.expert_count,
                 run->ways[0].decode.repeats);
}

static void print_rate(const char *what, const double best_rates[2], const double medians[2],
                       const char *unit) {
    (void)printf("  %-14s %8.1f (%7.1f) %12.1f (%7.1f)  %s\n", what, best_rates[0] * 1e-9,
                 medians[0] * 1e-9, best_rates[1] * 1e-9, medians[1] * 1e-9, unit);
}

static void print_gpu(const bench_run *run) {
    const sl_gpu_floors *f = &run->gpu;
    (void)printf("\n%s\n", cli_model_info(run->ways[0].model).device_name);
    (void)printf("  %-14s %8.1f  GB/s, read and written\n", "memory copy",
                 f->copy_bytes_per_second * 1e-9);
    (void)printf("  %-14s %8.1f  Top/s\n", "bf16 tiles", f->bf16_operations_per_second * 1e-12);
    (void)printf("  %-14s %8.1f  GB/s\n", "from the host", f->host_bytes_per_second * 1e-9);
}

static void print_disk(const bench_run *run) {
    if (run->disk.reads_in_flight)
        (void)printf("  %-14s %8.2f (%7.2f)  GB/s, random reads of %.2f MB, %u in flight\n", "disk",
                     run->disk.read_bytes_per_second * 1e-9,
                     run->disk.median_read_bytes_per_second * 1e-9,
                     (double)run->disk.expert_bytes * 1e-6, run->disk.reads_in_flight);
}

static void print_machine(const bench_run *run) {
    const sl_floors *f = &run->floors;
    (void)printf("\n%-16s %18s %14u thread%s  best (median)\n", "machine", "1 thread", f->threads,
                 f->threads == 1 ? " " : "s");
    print_rate("memory read", f->read_bytes_per_second, f->median_read_bytes_per_second, "GB/s");
    print_rate("int8 dot", f->int8_operations_per_second, f->median_int8_operations_per_second,
               "Gop/s");
    print_rate("f32 fma", f->f32_operations_per_second, f->median_f32_operations_per_second,
               "Gop/s");
    print_disk(run);
    if (f->core_share < 0.95)
        (void)printf(
            "  warning: other processes are busy: threads had %.0f %% of their cores, limits are "
            "too low\n",
            100 * f->core_share);
}

static void print_token(const bench_run *run) {
    const sl_token_cost *c = &run->cost;
    const double depth = bench_mean_depth(run), kv = (double)c->kv_bytes_per_position * depth;
    const double weights = (double)c->weight_bytes, state = (double)c->recurrent_bytes;
    (void)printf("\nper token\n");
    if (run->ways[0].decode.tokens)
        (void)printf(
            "  %-8s %8.1f MB = weights %.1f + recurrent state %.1f + KV %.1f (depth %.0f); %.3f "
            "Gop\n",
            "decode", (weights + state + kv) * 1e-6, weights * 1e-6, state * 1e-6, kv * 1e-6, depth,
            ((double)c->decode_operations + (double)c->operations_per_position * depth) * 1e-9);
    if (run->ways[0].prefill.tokens)
        (void)printf(
            "  %-8s %8.3f Gop of matrix products with %s activations; %u tokens read %.3f GB\n",
            "prefill", (double)c->prefill_operations * 1e-9, c->int8_activations ? "int8" : "f32",
            (unsigned)run->ways[0].prefill.tokens, bench_prefill_bytes(run, &run->ways[0]) * 1e-9);
}

/* What a GPU adds, on a line of its own. */
static void print_gpu_phase(const bench_phase *p, const bench_limits *limits) {
    if (p->device_runs)
        (void)printf("    launch overhead: %.0f us per pass\n",
                     1e6 * p->launch_seconds / (double)p->device_runs);
    if (p->device_misses)
        (void)printf(
            "    on the GPU: %.1f %% hits, %.2f MB/token, limit of copies %.1f tok/s, %.0f "
            "%% reached\n",
            100.0 * (double)p->device_hits / (double)(p->device_hits + p->device_misses),
            (double)p->bytes_copied * 1e-6 / (double)(p->tokens * p->repeats), limits->copies,
            100 * bench_share_of(p, limits->copies));
}

static void print_phase(const bench_run *run, const bench_way *w, const bench_phase *p) {
    if (p->tokens == 0) return;
    const bench_limits limits = bench_limits_of(run, w, p);
    (void)printf("  %-8s %7u %7zu %9.1f %9.1f %9.1f %6.0f %%", p->name,
                 cli_model_info(w->model).threads, p->tokens, bench_best(p), bench_median(p),
                 limits.machine, 100 * bench_share_of(p, limits.machine));
    if (run->disk.reads_in_flight) {
        (void)printf(" %6.1f %% %8.2f", 100 * bench_hit_rate(p), bench_bytes_per_token(p) * 1e-6);
        if (limits.disk > 0)
            (void)printf(" %8.1f %5.0f %%", limits.disk, 100 * bench_share_of(p, limits.disk));
    }
    (void)printf("\n");
    print_gpu_phase(p, &limits);
}

static void print_phases(const bench_run *run) {
    (void)printf("\n%-10s %7s %7s %9s %9s %9s %8s", "tok/s", "threads", "tokens", "best", "median",
                 "limit", "reached");
    if (run->disk.reads_in_flight)
        (void)printf(" %8s %8s %8s %7s", "hits", "MB/token", "disk", "reached");
    (void)printf("\n");
    for (int i = 0; i < run->count; i++) print_phase(run, &run->ways[i], &run->ways[i].prefill);
    for (int i = 0; i < run->count; i++) print_phase(run, &run->ways[i], &run->ways[i].decode);
}

static void print_split(const bench_way *w) {
    const sl_stats s = cli_session_stats(w->session);
    const double others = s.compile_seconds - s.build_seconds - s.fuse_seconds - s.lower_seconds -
                          s.schedule_seconds - s.plan_seconds - s.load_seconds;
    (void)printf("\ncompile  %llu programs in %.2f ms: build %.2f, fuse %.2f, lower %.2f,\n"
                 "         schedule %.2f, plan %.2f, load %.2f, other %.2f\n",
                 (unsigned long long)s.programs_compiled, s.compile_seconds * 1e3,
                 s.build_seconds * 1e3, s.fuse_seconds * 1e3, s.lower_seconds * 1e3,
                 s.schedule_seconds * 1e3, s.plan_seconds * 1e3, s.load_seconds * 1e3,
                 others * 1e3);
    (void)printf("run      prefill %.2f ms, decode %.2f ms; waited for experts %.2f ms\n",
                 s.prefill_seconds * 1e3, s.decode_seconds * 1e3, s.stall_seconds * 1e3);
}

/* Microseconds of all threads, per token. */
double bench_row_cost(const sl_session_phase *p, const sl_inspect_row *row) {
    return row->seconds * 1e6 / (double)p->tokens;
}

/* Rows of both phases: ops, or labels. */
typedef struct {
    const sl_session_phase *phase;
    const sl_inspect_row *rows;
    uint32_t count;
} column;

static const sl_inspect_row *find_row(const column *c, const char *name) {
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->rows[i].name, name) == 0) return &c->rows[i];
    return NULL;
}

static void print_cell(const column *c, const sl_inspect_row *row) {
    if (!c->phase->passes) return;
    if (row)
        (void)printf(" %13.1f %9.1f %%", bench_row_cost(c->phase, row), 100 * row->share);
    else
        (void)printf(" %13s %11s", "", "");
}

/* The rows of decode, then those that only prefill has. */
static void print_rows(const char *what, int width, const column *decode, const column *prefill) {
    (void)printf("\n%-*s", width, what);
    if (decode->phase->passes) (void)printf(" %13s %11s", "decode", "share");
    if (prefill->phase->passes) (void)printf(" %13s %11s", "prefill", "share");
    (void)printf("\n");
    for (uint32_t i = 0; i < decode->count; i++) {
        (void)printf("  %-*s", width - 2, decode->rows[i].name);
        print_cell(decode, &decode->rows[i]);
        print_cell(prefill, find_row(prefill, decode->rows[i].name));
        (void)printf("\n");
    }
    for (uint32_t i = 0; i < prefill->count; i++) {
        if (find_row(decode, prefill->rows[i].name)) continue;
        (void)printf("  %-*s", width - 2, prefill->rows[i].name);
        print_cell(decode, NULL);
        print_cell(prefill, &prefill->rows[i]);
        (void)printf("\n");
    }
}

static void print_profile(const bench_way *w) {
    enum { OP_WIDTH = 20, LABEL_WIDTH = 56 };
    if (!w->profile.memory || !w->options.profile) return;
    const sl_session_phase *d = w->profile.decode, *p = w->profile.prefill;
    const column ops[2] = {{d, d->ops, d->op_count}, {p, p->ops, p->op_count}};
    const column labels[2] = {{d, d->labels, d->label_count}, {p, p->labels, p->label_count}};
    print_rows("op, us per token", OP_WIDTH, &ops[0], &ops[1]);
    (void)printf("  %-18s", "threads busy");
    if (d->passes) (void)printf(" %13s %9.1f %%", "", 100 * d->busy_share);
    if (p->passes) (void)printf(" %13s %9.1f %%", "", 100 * p->busy_share);
    (void)printf("   threads: %u\n", cli_model_info(w->model).threads);
    print_rows("label, us per token", LABEL_WIDTH, &labels[0], &labels[1]);
}

/* One line for each set of compile options. */
static void print_comparison(const bench_run *run) {
    (void)printf("%-26s %6s %6s %8s %12s %9s %12s %9s\n", "tok/s", "steps", "fused", "barriers",
                 "prefill best", "median", "decode best", "median");
    for (int i = 0; i < run->count; i++) {
        const bench_way *w = &run->ways[i];
        const sl_inspect_report *r = &w->program;
        (void)printf("%-26.*s %6u %6u %8u %12.1f %9.1f %12.1f %9.1f\n",
                     w->compile[0] ? (int)strlen(w->compile) - 1 : 8,
                     w->compile[0] ? w->compile : "default", r->steps, r->fused, r->barriers,
                     bench_best(&w->prefill), bench_median(&w->prefill), bench_best(&w->decode),
                     bench_median(&w->decode));
    }
}

int bench_print(const bench_run *run) {
    print_model(run);
    if (run->compares) {
        print_comparison(run);
        return CLI_OK;
    }
    if (run->gpu.copy_bytes_per_second > 0) {
        print_gpu(run);
        print_disk(run);
    } else {
        print_machine(run);
    }
    print_token(run);
    print_phases(run);
    print_split(&run->ways[run->count - 1]);
    for (int i = 0; i < run->count; i++) print_profile(&run->ways[i]);
    return CLI_OK;
}
