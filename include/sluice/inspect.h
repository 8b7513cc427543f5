/* inspect.h - See what the compiler made of a model's step, and where the time of a step goes.
 *
 * Ways to compile are words separated by commas: no-fusion, no-reordering, no-sharing, no-in-place,
 * each to see what it gains; and levels (for the cpu), groups (queues with barriers; two-submits
 * sends the first tenth early) or edges (devices that take a graph; nothing here runs them). */
#ifndef SLUICE_INSPECT_H
#define SLUICE_INSPECT_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t struct_size;
    const char *shape;       /* without a model: as in sl_synth_write */
    uint32_t tokens;         /* rows of the step; default 1: decoding */
    uint32_t wanted;         /* rows with logits; default 1: the last one */
    const char *compile;     /* ways to compile; default: "" */
    uint32_t runs;           /* how often to run and time it; default 0, with a trace 4 */
    const char *trace_path;  /* a Chrome trace, JSON */
    const char *memory_path; /* a picture of the arena over levels, SVG */
    const char *dot_path;    /* steps and what they wait for, Graphviz */
    int verify;              /* prove order, bounds and values */
} sl_inspect_options;

enum { SL_INSPECT_ROWS = 24 };
typedef struct {
    char name[64];
    uint64_t calls;
    double seconds; /* of all threads together */
    double share;   /* of all rows', 0 to 1 */
} sl_inspect_row;

typedef struct {
    uint32_t tokens, wanted;
    char schedule[8];             /* "levels", "groups" or "edges" */
    uint32_t nodes, steps, fused; /* fused: nodes that went into others */
    uint32_t moved;               /* steps that left the order of the graph */
    uint32_t groups;              /* levels or groups */
    uint32_t histogram[9];        /* groups of 1, 2, ... 8 steps and of more, at [1] to [8], [0] */
    uint32_t barriers_naive, barriers;                /* one after every step, and what is left */
    uint32_t edges_naive, edges;                      /* conflicting pairs, and after reduction */
    uint64_t unshared_bytes, arena_bytes, live_bytes; /* live: the most at one time */
    uint32_t in_place;                                /* results over an operand's memory */
    double build_seconds, fuse_seconds, lower_seconds, schedule_seconds, plan_seconds;
    double verify_seconds; /* 0: not verified */
    uint32_t runs, threads;
    double run_seconds; /* the median */
    double busy_share;  /* of the threads' time during runs, 0 to 1 */
    uint64_t trace_events, trace_dropped, reads;
    uint32_t op_count, label_count;
    sl_inspect_row ops[SL_INSPECT_ROWS], labels[SL_INSPECT_ROWS]; /* most seconds first */
} sl_inspect_report;

/* Compiles the step of that shape, with the given toggles, apart from what the model's sessions
 * use; runs it on states of its own when that is asked for.  model is NULL when a shape is given:
 * then weights are imagined and nothing can be run.  Files are complete or absent. */
SL_CHECKED sl_status sl_inspect(sl_model *model, const sl_inspect_options *options,
                                sl_inspect_report *out, sl_error *err);
/* The report as a table to read.  *out_text is released with sl_text_free. */
SL_CHECKED sl_status sl_inspect_text(const sl_inspect_report *report, char **out_text,
                                     sl_error *err);

/* What the machine could do if nothing stood in the way, [0] on one thread and [1] on all: reading
 * memory that no cache holds, and multiplying and adding floats (two operations) in registers. */
typedef struct {
    uint32_t threads;
    double read_bytes_per_second[2];
    double f32_operations_per_second[2];
} sl_floors;
/* Measures them, in about a second.  threads 0: one per core. */
SL_CHECKED sl_status sl_measure_floors(uint32_t threads, sl_floors *out, sl_error *err);

/* What a token costs in matrices, each of its routed experts included.  In prefill the head works
 * on one token of a step only, and counts for none. */
typedef struct {
    uint64_t weight_bytes; /* read to decode one token */
    uint64_t decode_operations, prefill_operations;
} sl_token_cost;
SL_API sl_token_cost sl_model_token_cost(const sl_model *model);

#ifdef __cplusplus
}
#endif
#endif
