/* inspect.h - Show how a graph or a model's forward pass is compiled, where its time goes, and the
 * limits of the hardware.  Experimental as a whole: see experimental.h.
 *
 * Compile options are words separated by commas:
 *
 *   no-simplify, no-fusion, no-reordering, no-sharing, no-in-place   turn an optimisation off
 *   exact                    activations and KV cache in 32 bits
 *   levels, groups, edges    the schedule: levels for the CPU, groups for queues with barriers,
 *                            edges for devices that take a graph (CUDA)
 *   two-submits              with groups: the first tenth is submitted early
 *   lookahead=N              with groups: how many steps ahead are considered; default 64
 *   eager, chained, apart    GPU baselines for comparison: launches without a CUDA graph, a graph
 *                            without concurrency, a graph in which no steps share a launch */
#ifndef SLUICE_INSPECT_H
#define SLUICE_INSPECT_H
#include "sluice/graph.h"
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t struct_size;
    /* Of models only: */
    const char *shape; /* model dimensions, if there is no model: as in sl_synth_write */
    uint32_t tokens;   /* tokens in the forward pass; default 1: decode */
    uint32_t wanted;   /* tokens with logits; default 1: the last one */
    const char
        *compile; /* compile options; default: "".  Graphs have them in sl_compile_options. */
    /* Of models and graphs: */
    uint32_t runs;           /* number of timed runs; default 0, with a trace 4 */
    const char *trace_path;  /* Chrome trace to write (JSON) */
    const char *memory_path; /* picture of the arena over levels to write (SVG) */
    const char *dot_path;    /* graph of the steps and their dependencies to write (Graphviz) */
    int verify;              /* nonzero: verify order, bounds and values; on a GPU also the order
                              * of what its driver was given */
    uint32_t depth;          /* simulated tokens in the context before the pass; default 0 */
    int list_steps;          /* 1: list the steps as text, 2: as a JSON array (step_list) */
    int list_fusions;        /* nonzero: list fusions, and why others were not possible */
    int list_waits;          /* nonzero: list why barriers or edges are kept */
    int launches;            /* nonzero: load it on its device and count what a GPU runs */
} sl_inspect_options;

typedef struct {
    const char *name;
    uint64_t calls;
    double seconds; /* sum over all threads */
    double share;   /* of the time of all rows, 0 to 1 */
} sl_inspect_row;   /* closed */

typedef struct {
    const char *rule, *label; /* the rule of fusion, and the last node that it matched */
    const char *reason;       /* why it was not applied; NULL: it was */
} sl_inspect_fusion;          /* closed */

/* One step waits for another: an edge, or a reason for the barrier before its level. */
typedef struct {
    uint32_t level;    /* of the step that waits */
    uint32_t from, to; /* steps: `to` waits for `from` */
    const char *from_label, *to_label;
    const char *kind;   /* "RAW", "WAR", "WAW", or "any" if accesses are not declared */
    const char *buffer; /* that `from` accesses */
    const char *over;   /* if memory is shared: the other buffer, which `to` accesses; else "" */
    uint64_t bytes;     /* that both access */
} sl_inspect_wait;      /* closed */

typedef struct {
    size_t struct_size;           /* set by the caller */
    void *memory;                 /* of everything below; released with sl_inspect_report_deinit */
    uint32_t tokens, wanted;      /* 0: a graph, not a forward pass */
    char schedule[8];             /* "levels", "groups" or "edges" */
    uint32_t nodes, steps, fused; /* fused: nodes that were fused into others */
    uint32_t legalised;           /* nodes that were rewritten for the device */
    uint32_t undeclared;          /* steps that conflict with all others: accesses are not known */
    uint32_t moved;               /* steps that are not in graph order */
    uint32_t groups;              /* number of levels or groups */
    uint32_t histogram[9];        /* [1] to [8]: groups of that many steps; [0]: larger groups */
    uint32_t barriers_naive, barriers;    /* one after every step; after optimisation */
    uint32_t early_steps, early_barriers; /* two submits: steps and barriers of the first one */
    uint32_t edges_naive, edges;          /* conflicting pairs; after transitive reduction */
    uint64_t unshared_bytes, arena_bytes, live_bytes; /* live: the most bytes at one time */
    uint32_t in_place;                                /* results written over an operand */
    /* Times of stages; check: that the graph is valid and the device supports it. */
    double build_seconds, check_seconds, simplify_seconds, legalise_seconds, quantise_seconds;
    double fuse_seconds, lower_seconds, schedule_seconds, plan_seconds;
    double verify_seconds; /* 0: not verified */
    /* What the GPU was given, with the bodies of loops: kernel launches; segments, which run one
     * after another (one graph, or several and steps that need the host); edges in graphs. */
    uint32_t proved_steps, proved_launches, proved_segments, proved_edges;
    double prove_seconds; /* 0: nothing was proved */
    /* Nodes of graphs; steps that share the launches of another one; steps that the host runs. */
    uint32_t graph_nodes, joined_steps, hosted_steps;
    uint32_t runs, threads;
    double run_seconds; /* the median */
    double busy_share;  /* share of the runs in which threads were busy, 0 to 1 */
    uint64_t trace_events, trace_dropped, reads;
    uint32_t op_count, label_count;
    const sl_inspect_row *ops, *labels; /* all of them, longest time first */
    uint32_t fusion_count, wait_count;
    const sl_inspect_fusion *fusions;
    const sl_inspect_wait *waits; /* by the step that waits */
    const char *step_list;        /* NULL: not listed */
} sl_inspect_report;
SL_API void sl_inspect_report_deinit(sl_inspect_report *report); /* NULL is fine */

/* Compiles a forward pass with the given options, independently of the model's sessions, and runs
 * it on states of its own if requested.  model is NULL if a shape is given; there are no weights
 * then and nothing can be run.  Output files are either complete or absent.
 *
 * The list of steps has them in the order in which they run: index, level, op, label, attributes,
 * and for each operand its use (in, out, or state: updated in place), name, type, buffer and bytes;
 * those of temporaries and outputs are offsets in the arena.
 *
 * If it fails there is nothing to release. */
SL_API SL_CHECKED sl_status sl_inspect(sl_model *model, const sl_inspect_options *options,
                                       sl_inspect_report *out, sl_error *err);
/* The same for a graph: compiles it for the device of `compile`, which need not be there unless it
 * is run, traced or asked for its launches. */
SL_API SL_CHECKED sl_status sl_inspect_graph(const sl_graph *graph,
                                             const sl_compile_options *compile,
                                             const sl_inspect_options *options,
                                             sl_inspect_report *out, sl_error *err);
/* The same for a graph that was compiled.  If it is run, its inputs and weights must have been set;
 * its states change as in other runs.  Not supported on the device "ref". */
SL_API SL_CHECKED sl_status sl_compiled_report(sl_compiled *compiled,
                                               const sl_inspect_options *options,
                                               sl_inspect_report *out, sl_error *err);
/* The report as readable text.  *out_text is released with sl_free. */
SL_API SL_CHECKED sl_status sl_inspect_text(const sl_inspect_report *report, char **out_text,
                                            sl_error *err);

/* ---- What the layers compute ----
 *
 * Appends tokens to a session as sl_session_extend does, and gives the values of every layer to a
 * callback: the residual stream before and after attention (or the delta net) and after the
 * experts, and the router's choice.  They are further outputs of the same forward pass; logits are
 * those of any other call.  Memory for them comes on top of sl_memory_use. */
typedef struct {
    size_t struct_size; /* set by the library */
    const char *name; /* "layers.N." and "input", "after_attention", "output" (f32), of layers with
                       * experts "experts" (i32) and "expert_weights" (f32) */
    const char *dtype;
    size_t first_token;     /* the position in the sequence of the first row */
    uint32_t rows, columns; /* columns: hidden size, or experts per token */
    const void *data;       /* [rows, columns]; borrowed until the callback returns */
} sl_layer_item;
/* Called for each value of each forward pass, layer by layer.  Another status than SL_OK ends the
 * call with it; err, which is never NULL, may say why. */
typedef sl_status sl_layer_fn(void *ctx, const sl_layer_item *item, sl_error *err);
typedef struct {
    size_t struct_size;
    sl_layer_fn *layers; /* required */
    void *ctx;
    float *logits,
        *hidden; /* as in sl_session_extend_all; NULL: not wanted.  hidden needs logits */
} sl_layer_options;
SL_API SL_CHECKED sl_status sl_session_extend_layers(sl_session *session, const sl_token *tokens,
                                                     size_t count, const sl_layer_options *options,
                                                     sl_error *err);

/* ---- The time of a conversation ----
 *
 * From sl_session_profile_begin to sl_session_profile_end, the forward passes of a session are
 * recorded: prefill in chunks and decode token by token, as they are run for the caller.  Memory is
 * that for the events of one pass; results of the session do not change.  While it is recorded, a
 * GPU runs recorded passes step by step, and no pass is started ahead. */
typedef struct {
    size_t struct_size;
    const char *labels; /* only steps whose labels match this pattern of the shell, "layer 3 *";
                         * NULL: all */
    uint64_t first_pass, passes; /* the passes to record, counted from 0 at the start; passes 0:
                                  * all from first_pass on */
    const char *trace_path;      /* Chrome trace to write (JSON); NULL: none */
} sl_session_profile_options;

typedef struct {
    uint32_t layer;
    double seconds, share;      /* of its steps, over all threads */
    uint64_t reads, bytes_read; /* of its experts */
    double read_seconds;        /* sum over reads, which overlap */
    double wait_seconds;        /* in which a thread could only wait for its experts */
} sl_inspect_layer;             /* closed */

/* Passes of several tokens are prefill, of one token decode. */
typedef struct {
    uint64_t passes, tokens;
    double seconds;             /* of the passes */
    double compile_seconds;     /* before them, of their programs */
    double step_seconds;        /* of their steps, over all threads */
    double busy_share;          /* share of the passes in which threads were busy, 0 to 1 */
    uint64_t reads, bytes_read; /* of experts */
    double read_seconds, wait_seconds;
    uint32_t op_count, label_count, layer_count;
    const sl_inspect_row *ops, *labels; /* all of them, longest time first */
    const sl_inspect_layer *layers;     /* in order */
} sl_session_phase;                     /* closed */

typedef struct {
    size_t struct_size;      /* set by the caller */
    void *memory;            /* of everything below; released with sl_session_profile_deinit */
    uint64_t passes;         /* seen since the start, recorded or not */
    uint64_t events_dropped; /* for lack of room */
    const sl_session_phase *prefill, *decode;
} sl_session_profile;

/* Not supported on the device "ref".  options may be NULL.  A session is recorded once at a time.
 */
SL_API SL_CHECKED sl_status sl_session_profile_begin(sl_session *session,
                                                     const sl_session_profile_options *options,
                                                     sl_error *err);
/* Ends the recording, also if it fails; the trace is complete then.  out may be NULL: only the
 * trace is wanted.  A session that is destroyed while it is recorded leaves no trace. */
SL_API SL_CHECKED sl_status sl_session_profile_end(sl_session *session, sl_session_profile *out,
                                                   sl_error *err);
SL_API void sl_session_profile_deinit(sl_session_profile *profile); /* NULL is fine */
/* The profile as readable text.  *out_text is released with sl_free. */
SL_API SL_CHECKED sl_status sl_session_profile_text(const sl_session_profile *profile,
                                                    char **out_text, sl_error *err);

/* ---- Experts ---- */

/* Of one expert of one layer, since the model was opened. */
typedef struct {
    uint32_t uses;      /* forward passes of any session in which a token was routed to it */
    uint32_t misses;    /* those for which it had to be read, the first time included */
    uint32_t in_memory; /* 1: it is there now, in host memory */
} sl_expert_use;        /* closed */

/* The totals of all experts, since the model was opened. */
typedef struct {
    size_t struct_size; /* set by the caller */
    uint32_t layers, experts;
    uint64_t hits, misses;
    uint64_t first_reads; /* those of the misses that were never in memory before */
    uint64_t bytes_read;
    double read_seconds, stall_seconds; /* sum over reads, which overlap; only waiting for them */
} sl_expert_totals;
/* What the sessions of a model used so far.  Does not wait for a forward pass that runs.  uses is
 * [layers * experts], layer by layer, zero in layers without experts; fails if capacity is less,
 * unless uses is NULL: then only the totals are wanted.  Totals may be a little older than uses.
 * On a GPU, what it finds in its own memory is not counted. */
SL_API SL_CHECKED sl_status sl_model_expert_uses(const sl_model *model, sl_expert_use *uses,
                                                 size_t capacity, sl_expert_totals *totals,
                                                 sl_error *err);

/* Runs a forward pass on two devices and compares each step of the program, with the same inputs
 * for both. */
typedef struct {
    size_t struct_size;
    uint32_t tokens;     /* tokens in the forward pass; default 1 */
    const char *compile; /* compile options; default: "" */
    double tolerance;    /* relative; default 2e-3 with int8 activations, 5e-5 with "exact" */
} sl_compare_options;

enum { SL_COMPARE_ROWS = 64 };
typedef struct {
    char name[32];
    uint64_t steps;
    double worst; /* largest relative difference of a result: ||b - a|| / ||a|| */
} sl_compare_row; /* closed */

typedef struct {
    size_t struct_size; /* set by the caller */
    uint32_t steps;
    double tolerance;
    int differs; /* nonzero: a step differs by more than the tolerance; the first such step: */
    char label[96], operand[32];
    uint64_t index;   /* of the element with the largest difference */
    double values[2]; /* its values on the first and on the second device */
    uint32_t op_count;
    sl_compare_row ops[SL_COMPARE_ROWS];
} sl_compare_report;
/* Both must be the same model, opened on two devices; the first may be on "ref". */
SL_API SL_CHECKED sl_status sl_compare(sl_model *first, sl_model *second,
                                       const sl_compare_options *options, sl_compare_report *out,
                                       sl_error *err);

/* Hardware limits ("floors"), [0] on one thread and [1] on all threads: memory bandwidth beyond the
 * caches, f32 multiply-adds in registers, and int8 multiply-adds in registers (two operations
 * each). The best of several short passes, and their median. */
typedef struct {
    size_t struct_size; /* set by the caller */
    uint32_t threads;
    uint64_t block_bytes; /* size of the memory that was read; less than 1 GiB if memory is short */
    double core_share;    /* share of core time that the threads got, 0 to 1; well below 1 means
                           * that other processes were busy and the limits are underestimated */
    double read_bytes_per_second[2], median_read_bytes_per_second[2];
    double f32_operations_per_second[2], median_f32_operations_per_second[2];
    double int8_operations_per_second[2], median_int8_operations_per_second[2];
} sl_floors;
/* Measures the limits in about two seconds.  threads 0: one per core. */
SL_API SL_CHECKED sl_status sl_measure_floors(uint32_t threads, sl_floors *out, sl_error *err);

/* Disk bandwidth for random direct reads of the model's experts. */
typedef struct {
    size_t struct_size; /* set by the caller */
    uint32_t reads_in_flight;
    uint64_t expert_bytes; /* size of the largest expert, which is read in one to three parts */
    double read_bytes_per_second, median_read_bytes_per_second;
} sl_disk_floor;
/* Measures it in about a second, with a separate reader of the same kind as the model's. */
SL_API SL_CHECKED sl_status sl_measure_disk(const sl_model *model, sl_disk_floor *out,
                                            sl_error *err);

/* Limits of the model's GPU: copies within its memory (bytes read and written), bf16 matrix tiles,
 * copies from the host.  All 0 if the model does not run on a GPU. */
typedef struct {
    size_t struct_size; /* set by the caller */
    double copy_bytes_per_second, bf16_operations_per_second, host_bytes_per_second;
} sl_gpu_floors;
SL_API SL_CHECKED sl_status sl_measure_gpu(sl_model *model, sl_gpu_floors *out, sl_error *err);

/* The cost of one token.  Operations are those of matrix products, including its routed experts. In
 * prefill the output head is computed for one token of a forward pass only and is not counted. */
typedef struct {
    size_t struct_size;    /* set by the caller */
    uint64_t weight_bytes; /* read to decode one token */
    uint64_t expert_bytes; /* the part of it that is routed experts */
    double expert_share;   /* share of all experts that one token uses; 0 if there are none */
    uint64_t decode_operations, prefill_operations;
    uint64_t recurrent_bytes;         /* recurrent state per token: bytes read plus bytes written */
    uint64_t kv_bytes_per_position;   /* read per earlier token in the context */
    uint64_t operations_per_position; /* of attention, per earlier token */
    int int8_activations;             /* nonzero: products use int8 activations; 0: f32 */
} sl_token_cost;
SL_API SL_CHECKED sl_status sl_model_token_cost(const sl_model *model, sl_token_cost *out,
                                                sl_error *err);

/* Simulates a context of `length` tokens: the KV cache is filled with noise, and the recurrent
 * state is that of the tokens so far, of which there must be at least one.  For benchmarks at a
 * context depth without computing the context. */
SL_API SL_CHECKED sl_status sl_session_fake_context(sl_session *session, size_t length,
                                                    sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
