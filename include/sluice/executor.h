/* executor.h - One device, many compiled graphs: shared weights and states, memory of the caller,
 * runs that are started, and timing.  It may still change, as experimental.h.
 *
 *   sl_executor_create(NULL, &executor, err);
 *   sl_compile(prefill, &(sl_compile_options){.struct_size = .., .executor = executor}, &p, err);
 *   sl_compile(decode, &(sl_compile_options){.struct_size = .., .share = p}, &d, err);
 *   sl_compiled_set(p, "w", data, bytes, err);     also the weight of d
 *   sl_compiled_run(p, err);                       writes the KV cache that d reads
 *   sl_compiled_start(d, err);
 *   sl_compiled_finish(d, err);
 *
 * Threads: different graphs of one executor may be used by different threads at the same time; one
 * graph by one thread at a time.  Runs, and all access to weights and states, are done one after
 * another in the order in which they were called, so that a weight that is set after a run was
 * started does not change that run.  Callbacks of custom ops must not use graphs of the executor
 * that runs them. */
#ifndef SLUICE_EXECUTOR_H
#define SLUICE_EXECUTOR_H
#include "sluice/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Executors ---- */

typedef struct {
    size_t struct_size;
    const char *device; /* a name of sl_device_at (sluice.h); NULL: "cpu" */
    const char *isa;    /* NULL: the best available */
    uint32_t threads;   /* 0: one per core */
    /* Of the executor and of all graphs that are compiled for it, copied; NULL: the C library's. It
     * is called by several threads at the same time. */
    const sl_allocator *allocator;
} sl_executor_options;
/* Opens the device: its threads or its GPU context are shared by all graphs that are compiled with
 * sl_compile_options.executor.  A graph that is compiled without one opens a device of its own. */
SL_API SL_CHECKED sl_status sl_executor_create(const sl_executor_options *options,
                                               sl_executor **out, sl_error *err);
/* Graphs that were compiled for it keep it open until the last of them is destroyed.  NULL is fine.
 */
SL_API void sl_executor_destroy(sl_executor *executor);

/* ---- Sharing: sl_compile_options.share ----
 *
 * The new graph belongs to the executor of `share`, and the weights and states of both are one set:
 * what has the same name is the same memory, whoever sets, binds, runs or reads it.  Names that
 * only one of them has are added to the set, so that a third graph may share either.  A weight or
 * state of the same name must have the same kind and the same type, dims included; everything else
 * (inputs, outputs, symbols) may differ.  Memory lives as long as any graph of the set. */

/* ---- Memory ----
 *
 * All of these are SL_INVALID while a run of the graph itself is in flight (sl_compiled_start).  In
 * runs of other graphs of the same executor, they take their turn. */

enum { SL_BIND_ALIGNMENT = 64 };
/* Uses the caller's memory for a value in place of the library's own, without a copy: from the next
 * run on, inputs, weights and states are read there, states are updated there, and outputs are
 * written there.  data is aligned to SL_BIND_ALIGNMENT and has exactly `bytes` bytes, the size of
 * the value; it is borrowed until the value is bound again or all graphs that share it are
 * destroyed.  sl_compiled_set writes to it.  data NULL and bytes 0: memory of the library again, as
 * if it was never set.
 *
 * Devices with memory of their own copy: an input in each run, a weight when it is bound (bind it
 * again after changing it), an output at the end of each run.  They refuse states with
 * SL_UNSUPPORTED, and so does "ref", which keeps them as doubles.  An output that is a part of
 * another buffer, or an input, weight or state itself, is copied too. */
SL_API SL_CHECKED sl_status sl_compiled_bind(sl_compiled *compiled, const char *name, void *data,
                                             size_t bytes, sl_error *err);
/* Sets `bytes` bytes of an input, weight or state, beginning at byte `offset`.  The others stay as
 * they are, zero at first, and the whole value counts as set.  On "ref" offset and bytes of a state
 * are whole elements. */
SL_API SL_CHECKED sl_status sl_compiled_set_at(sl_compiled *compiled, const char *name,
                                               size_t offset, const void *data, size_t bytes,
                                               sl_error *err);
/* Copies bytes of an input, weight, state or output; of an output, those of the last run. */
SL_API SL_CHECKED sl_status sl_compiled_get_at(sl_compiled *compiled, const char *name,
                                               size_t offset, void *out, size_t bytes,
                                               sl_error *err);

/* ---- Asynchronous runs ---- */

/* Starts a run and returns: a GPU has been given all of its work, elsewhere a thread of the
 * executor runs it, after the runs that were started before.  One run of a graph may be in flight;
 * until it is finished, the graph can neither be run nor set.  Errors of the run itself are
 * returned by sl_compiled_finish; sl_compiled_destroy waits. */
SL_API SL_CHECKED sl_status sl_compiled_start(sl_compiled *compiled, sl_error *err);
/* Waits for the run; outputs are valid from now until the next run.  SL_INVALID if none was
 * started. */
SL_API SL_CHECKED sl_status sl_compiled_finish(sl_compiled *compiled, sl_error *err);

/* ---- Timing ---- */

/* Seconds of the last run that has ended, and of all of them.  encode: host time to bind memory and
 * to hand the work over (on a GPU: inputs, launches); run: from the first step to the last result,
 * on the device's own clock if it has one; wait: how long the caller was blocked in sl_compiled_run
 * or sl_compiled_finish without encoding. */
typedef struct {
    double encode_seconds, wait_seconds, run_seconds;
} sl_run_timing; /* closed */
typedef struct {
    size_t struct_size; /* set by the caller */
    uint64_t runs;      /* that have ended without an error */
    sl_run_timing last, total;
} sl_compiled_timing;
SL_API SL_CHECKED sl_status sl_compiled_timing_of(const sl_compiled *compiled,
                                                  sl_compiled_timing *out, sl_error *err);

typedef struct {
    const char *name; /* of an op, or a label */
    uint64_t calls;   /* in all runs */
    double seconds;   /* sum over all threads */
    double share;     /* of the time of all rows, 0 to 1 */
} sl_time_row;        /* closed */
typedef struct {
    size_t struct_size;  /* set by the caller */
    void *memory;        /* of everything below; released with sl_profile_report_deinit */
    uint32_t runs;       /* that were recorded */
    uint64_t dropped;    /* events for which there was no room */
    double busy_seconds; /* sum over all threads */
    double wall_seconds; /* sum over runs, from the first recorded step to the last */
    /* All ops and labels that were run, longest time first. */
    uint32_t op_count, label_count;
    const sl_time_row *ops, *labels;
} sl_profile_report;
SL_API void sl_profile_report_deinit(sl_profile_report *report); /* NULL is fine */

typedef struct {
    size_t struct_size;
    uint32_t runs;          /* how many runs are recorded; 0: 1 */
    const char *labels;     /* only steps whose label begins with this: "layer 3"; NULL: all */
    const char *trace_path; /* Chrome trace to write (JSON); NULL: none */
} sl_profile_options;
/* Runs the graph options.runs times and reports where the time went.  A GPU runs recorded steps one
 * by one.  Not supported on the device "ref". */
SL_API SL_CHECKED sl_status sl_compiled_profile(sl_compiled *compiled,
                                                const sl_profile_options *options,
                                                sl_profile_report *out, sl_error *err);
/* The same for the next runs that are made anyway, by sl_compiled_run or _start: a window, opened
 * here and closed by sl_compiled_profile_end, which writes the trace and reports the runs so far.
 * options are copied. */
SL_API SL_CHECKED sl_status sl_compiled_profile_begin(sl_compiled *compiled,
                                                      const sl_profile_options *options,
                                                      sl_error *err);
SL_API SL_CHECKED sl_status sl_compiled_profile_end(sl_compiled *compiled, sl_profile_report *out,
                                                    sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
