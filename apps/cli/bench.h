/* bench.h - What `sluice bench` measures, between its running and its printing. */
#ifndef SL_APPS_BENCH_H
#define SL_APPS_BENCH_H
#include "apps/cli/cli.h"
#include "sluice/inspect.h"

enum { BENCH_MOST_REPEATS = 100, BENCH_MOST_WAYS = 16 };

typedef struct {
    const char *name;
    size_t tokens;
    uint32_t repeats;
    double seconds[BENCH_MOST_REPEATS]; /* sorted at the end */
    uint64_t hits, misses, bytes_read;
    uint64_t device_hits, device_misses, bytes_copied; /* of a GPU's memory */
    uint64_t device_runs;
    double launch_seconds; /* of them: the host's time for giving the GPU its work */
} bench_phase;

/* One way to run the model: so many threads, compiled in such a way. */
typedef struct {
    cli_options options;
    char compile[CLI_COMPILE_TEXT];
    sl_model *model;
    sl_session *session;
    const sl_token *ids;
    bench_phase prefill, decode;
    double read_rate, f32_rate, int8_rate; /* what this many threads could do, per second */
    sl_inspect_report program;             /* that of decode, if ways to compile are compared */
    sl_session_profile profile;            /* memory NULL: not profiled */
} bench_way;

typedef struct {
    const char *path; /* of the model */
    bench_way ways[BENCH_MOST_WAYS];
    int count;
    bool compares;  /* ways to compile: no limits */
    bool has_depth; /* decode starts at depth, else where prefill ended */
    size_t depth;
    uint32_t most_threads;
    sl_floors floors; /* on most_threads */
    sl_token_cost cost;
    sl_gpu_floors gpu;  /* all 0: everything runs on the cpu */
    sl_disk_floor disk; /* no reads in flight: not measured, everything is in memory */
} bench_run;

/* What a phase could reach at most, in tokens per second: by memory or arithmetic, by the disk for
 * the bytes that it read, and by the way to the GPU for those it copied.  0: no such limit. */
typedef struct {
    double machine, disk, copies;
} bench_limits;
bench_limits bench_limits_of(const bench_run *run, const bench_way *way, const bench_phase *phase);
double bench_prefill_bytes(const bench_run *run, const bench_way *way);
/* Tokens in the context of the average decoded token. */
double bench_mean_depth(const bench_run *run);

/* Tokens per second of the fastest repeat, and of the median one. */
double bench_best(const bench_phase *phase);
double bench_median(const bench_phase *phase);
double bench_hit_rate(const bench_phase *phase); /* 0 to 1 */
double bench_bytes_per_token(const bench_phase *phase);

double bench_share_of(const bench_phase *p, double allowed); /* best speed, 0 to 1 */
/* Microseconds of all threads, per token. */
double bench_row_cost(const sl_session_phase *phase, const sl_inspect_row *row);

/* bench_batch.c: several sequences at once. */
int bench_run_batch(const cli_options *options);

/* bench_report.c, bench_json.c, bench_table.c */
int bench_print(const bench_run *run);
int bench_print_json(const bench_run *run);
int bench_print_csv(const bench_run *run);
int bench_print_markdown(const bench_run *run);
#endif
