/* inspect.h - See what the compiler made of a model's step, and where the time of a step goes.
 *
 * Ways to compile are words separated by commas: no-fusion, no-reordering, no-sharing, no-in-place,
 * each to see what it gains; and levels (for the cpu), groups (queues with barriers; two-submits
 * sends the first tenth early) or edges (devices that take a graph: cuda).  To
 * measure against: eager launches the steps of a GPU one by one, chained makes a graph in which
 * each follows the one before, apart one in which no steps share a launch. */
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
    uint32_t depth;          /* tokens in the context before the step, imagined; default 0 */
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

/* One step of a model on two devices, step by step of its program, each from the same bytes. */
typedef struct {
    size_t struct_size;
    uint32_t tokens;     /* rows of the step; default 1 */
    const char *compile; /* ways to compile; default: "" */
    double tolerance;    /* relative; default 2e-3 with int8 activations, 5e-5 with "exact" */
} sl_compare_options;

enum { SL_COMPARE_ROWS = 64 };
typedef struct {
    char name[32];
    uint64_t steps;
    double worst; /* relative difference of a result: |b - a| / |a|, by norms */
} sl_compare_row;

typedef struct {
    uint32_t steps;
    double tolerance;
    int differs; /* nonzero: some step does by more than the tolerance; of the first one: */
    char label[96], operand[32];
    uint64_t index;   /* of the element that is furthest off */
    double values[2]; /* there, on the first and on the second */
    uint32_t op_count;
    sl_compare_row ops[SL_COMPARE_ROWS];
} sl_compare_report;
/* Both models are the same one, opened on two devices; the first may be on "ref". */
SL_CHECKED sl_status sl_compare(sl_model *first, sl_model *second,
                                const sl_compare_options *options, sl_compare_report *out,
                                sl_error *err);

/* What the machine could do if nothing stood in the way, [0] on one thread and [1] on all: reading
 * memory that no cache holds, multiplying and adding floats in registers, and the same with bytes
 * (two operations each).  The best of several short passes, and their median. */
typedef struct {
    uint32_t threads;
    uint64_t block_bytes; /* that were read again and again; less than 1 GiB when memory is short */
    double core_share;    /* of their cores that the threads had, 0 to 1; well below 1: others work
                           * on this machine, and the floors are too low */
    double read_bytes_per_second[2], median_read_bytes_per_second[2];
    double f32_operations_per_second[2], median_f32_operations_per_second[2];
    double int8_operations_per_second[2], median_int8_operations_per_second[2];
} sl_floors;
/* Measures them, in about two seconds.  threads 0: one per core. */
SL_CHECKED sl_status sl_measure_floors(uint32_t threads, sl_floors *out, sl_error *err);

/* How fast the disk gives the model's experts, in no order, past the page cache. */
typedef struct {
    uint32_t reads_in_flight;
    uint64_t expert_bytes; /* of the largest, read in one to three parts */
    double read_bytes_per_second, median_read_bytes_per_second;
} sl_disk_floor;
/* Measures it with a reader of its own, of the model's kind, in about a second. */
SL_CHECKED sl_status sl_measure_disk(const sl_model *model, sl_disk_floor *out, sl_error *err);

/* What the model's GPU could do: copying its own memory (bytes read and written), multiplying tiles
 * of bf16, taking bytes from the host.  All 0 where the model runs elsewhere. */
typedef struct {
    double copy_bytes_per_second, bf16_operations_per_second, host_bytes_per_second;
} sl_gpu_floors;
SL_CHECKED sl_status sl_measure_gpu(sl_model *model, sl_gpu_floors *out, sl_error *err);

/* What a token costs.  Operations are those of matrices, each of its routed experts included; in
 * prefill the head works on one token of a step only, and counts for none. */
typedef struct {
    uint64_t weight_bytes; /* read to decode one token, */
    uint64_t expert_bytes; /* of which routed experts; a step of many tokens reads more of those: */
    double expert_share;   /* the part of them that one token uses; 0 where there are none */
    uint64_t decode_operations, prefill_operations;
    uint64_t recurrent_bytes;         /* of states read and written for each token: both counted */
    uint64_t kv_bytes_per_position;   /* read for each earlier token in the context */
    uint64_t operations_per_position; /* of attention, for each earlier token */
    int int8_activations; /* nonzero: matrices multiply int8; 0: f32, whatever weights are */
} sl_token_cost;
SL_API sl_token_cost sl_model_token_cost(const sl_model *model);

/* Continues as if the session had this many tokens: what attention would read of them is noise, the
 * recurrent state is that of the tokens so far, at least one.  For measuring at a depth without
 * computing all that comes before it. */
SL_CHECKED sl_status sl_session_imagine(sl_session *session, size_t length, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
