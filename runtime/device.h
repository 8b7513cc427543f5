/* device.h - The interface of a device (backend): loads a program, binds memory, runs it. */
#ifndef SL_RUNTIME_DEVICE_H
#define SL_RUNTIME_DEVICE_H
#include "core/sizing.h"
#include "runtime/trace.h"
#include <assert.h>

typedef struct sl_device sl_device;
typedef struct sl_executable sl_executable; /* a program that is loaded on a device */

/* Options for opening a device.  Each device uses those that concern it and ignores the others; 0
 * and NULL are defaults. */
typedef struct {
    /* For kernels on the CPU. */
    uint32_t threads; /* 0: one per core */
    const char *isa;  /* NULL: the best that this machine supports */
    bool pin;         /* pin each thread to a core, see sl_team_pin */
    /* For accelerators. */
    const char *driver; /* the driver library to load; NULL: the default */
    uint32_t index;     /* index of the device if there are several */
    uint64_t
        expert_budget_bytes; /* device memory for experts; 0: all experts, or the free memory */
    /* Slower ways to submit work, as baselines for the default. */
    bool eager;   /* single launches instead of a graph */
    bool chained; /* a graph without concurrency */
    bool apart;   /* a graph in which no steps share a launch */
    /* The bits of a row's results depend neither on how many rows a program has nor on the row's
     * place among them.  Devices whose kernels are always so ignore it. */
    bool deterministic;
} sl_device_options;

/* Description and capabilities of a device; constant while it is open. */
enum { SL_DEVICE_KV_DTYPES = 4 };
typedef struct {
    char hardware[128]; /* name of the hardware; "": the CPU */
    const char *isa;    /* instruction set of CPU kernels, else "none" */
    uint32_t threads;   /* CPU threads that run steps concurrently */
    uint32_t
        chunk_tokens; /* tokens per forward pass in prefill, unless a session sets another number */
    /* The supported element types of the KV cache, the most compact first, which is the default if
     * weights are quantised. */
    sl_dtype kv_dtypes[SL_DEVICE_KV_DTYPES];
    uint32_t kv_dtype_count; /* 0: any */
    /* Plan one-row programs without sharing memory between buffers: more steps can then run
     * concurrently, and the memory of one row is small. */
    bool unshared_single_row;
    /* States are in memory that the host can neither give nor look into. */
    bool own_memory;
    /* Outputs have memory of their own, valid until the next run, instead of being in the arena. */
    bool own_outputs;
    /* Experts are cached in device memory, as many as expert_budget_bytes allows. */
    bool holds_experts;
    /* sl_device_options.eager, chained and apart have an effect. */
    bool launch_modes;
    /* The order of sums depends on the number of rows, unless sl_device_options.deterministic. */
    bool orders_by_rows;
    const sl_allocator
        *host_memory; /* allocator of host memory with fast copies (pinned); NULL: any memory */
} sl_device_info;

/* Counters since the device was opened: memory in use, work done. */
typedef struct {
    uint64_t free_bytes, total_bytes; /* device memory; 0: it uses host memory */
    uint64_t taken_bytes;     /* device memory in use: weights, states, workspace and experts */
    uint64_t workspace_bytes; /* activations and scratch */
    uint64_t expert_slots, expert_bytes;
    uint64_t expert_hits, expert_misses, expert_bytes_copied;
    uint64_t runs;         /* number of runs */
    double launch_seconds; /* host time spent on submitting them */
} sl_device_stats;

/* What one run took. */
typedef struct {
    double encode; /* host time until everything was submitted */
    double wait;   /* host time spent on waiting for it */
    double run;    /* from the first step to the last result, on the device's clock if it has one */
} sl_run_seconds;

/* Hardware limits, the best of several passes: copies within device memory (bytes read and
 * written), bf16 matrix tiles, copies from host_memory. */
typedef struct {
    double copy_bytes_per_second, bf16_operations_per_second, host_bytes_per_second;
} sl_device_floors;

/* What a proof was about, with the bodies of steps. */
typedef struct {
    uint32_t steps;
    uint32_t launches; /* of kernels */
    uint32_t segments; /* which run one after another: graphs, and steps that need the host */
    uint32_t edges;    /* between launches of one graph, as the driver has them */
    uint32_t nodes;    /* of graphs */
    uint32_t joined;   /* steps that share the launches of another step */
    uint32_t hosted;   /* steps that the host runs */
} sl_device_proof;

/* Entries marked optional may be NULL. */
typedef struct {
    const char *name;
    void (*destroy)(sl_device *device);
    /* out has the defaults of runtime/devices.c; the device overrides what differs. */
    void (*describe)(const sl_device *device, sl_device_info *out);
    /* Optional.  out is zeroed. */
    void (*count)(const sl_device *device, sl_device_stats *out);
    /* Optional: measures the limits of the hardware. */
    sl_status (*measure)(sl_device *device, sl_device_floors *out, sl_error *err);
    /* Resolves every step to a kernel; fails and names the step if there is none for its op, shape
     * or types. The program is borrowed and must outlive the executable. */
    sl_status (*load)(sl_device *device, const sl_program *program, sl_executable **out,
                      sl_error *err);
    void (*unload)(sl_executable *executable);
    /* Optional: runs from now on have these sizes, each from 0 to its most; a step whose operand is
     * empty does nothing.  The sizing is that of the executable's program; results of one size
     * are those of a program that was compiled for it.  After a failure nothing may run before the
     * sizes were set again. */
    sl_status (*resize)(sl_executable *executable, const sl_sizing *sizing, const int64_t *sizes,
                        sl_error *err);
    /* INPUT, WEIGHT and STATE buffers: at least buffer.bytes, borrowed.  States are in device
     * memory (allocate), the others in host memory: inputs are read in each run, weights may be
     * copied once, when they are first bound.  OUTPUT buffers, unless outputs have memory of their
     * own: results are written there instead of into the arena. */
    sl_status (*bind)(sl_executable *executable, sl_buffer_id buffer, void *data, sl_error *err);
    sl_status (*bind_experts)(sl_executable *executable, sl_buffer_id buffer,
                              sl_expert_source *source, sl_error *err);
    /* Runs all steps; allocates nothing. */
    sl_status (*run)(sl_executable *executable, sl_error *err);
    /* Optional, both or neither: a run in two halves.  begin returns when everything is submitted;
     * end waits, and all outputs are valid until the next run.  One run of an executable may be in
     * flight like this, and runs of several executables, which are done in order. */
    sl_status (*begin)(sl_executable *executable, sl_error *err);
    sl_status (*end)(sl_executable *executable, sl_run_seconds *out, sl_error *err);
    /* Optional, all four or none: asynchronous runs.  Two runs of an executable may be in flight;
     * finish waits for the earlier one.  Its small outputs are valid then; a large output is valid
     * from a call of fetch, when nothing is in flight, until the next run.  can_start: whether runs
     * need nothing from the host, which is known after the first one; runs that fetch experts do.
     */
    bool (*can_start)(const sl_device *device);
    sl_status (*start)(sl_executable *executable, sl_error *err);
    sl_status (*finish)(sl_executable *executable, sl_error *err);
    sl_status (*fetch)(sl_executable *executable, uint32_t output, sl_error *err);
    /* Runs the steps sequentially on the calling thread, in the given order (NULL: program order):
     * for debugging and for checking that any legal order gives the same bytes. */
    sl_status (*run_serially)(sl_executable *executable, const uint32_t *order, sl_error *err);
    /* Optional: proves that what the device was given, as its driver has it, orders every conflict
     * of steps on final addresses.  The message names two steps that nothing orders. */
    sl_status (*prove)(sl_executable *executable, sl_device_proof *out, sl_error *err);
    /* Records the execution of steps from now on; NULL stops recording.  The trace is borrowed. */
    void (*attach)(sl_executable *executable, sl_trace *trace);
    /* The address of an output in host memory after a run. */
    const void *(*output)(const sl_executable *executable, uint32_t index);

    /* Device memory, uninitialised; NULL if there is none left.  Copies are synchronous. */
    void *(*allocate)(sl_device *device, uint64_t bytes);
    void (*release)(sl_device *device, void *memory, uint64_t bytes);
    sl_status (*copy_in)(sl_device *device, void *to, const void *from, uint64_t bytes,
                         sl_error *err);
    sl_status (*copy_out)(sl_device *device, void *to, const void *from, uint64_t bytes,
                          sl_error *err);
    sl_status (*copy_within)(sl_device *device, void *to, const void *from, uint64_t bytes,
                             sl_error *err);
    /* Call this after changing bytes of the host copy of a bound weight. */
    sl_status (*weight_changed)(sl_device *device, const void *host, uint64_t offset,
                                uint64_t bytes, sl_error *err);
    /* Optional: the copy of a bound weight is dropped when its last holder lets it go; executables
     * that are bound to it must not run any more.  Copies that nobody ever held stay. */
    void (*hold_weight)(sl_device *device, const void *host, uint64_t bytes, bool on);

    /* For inspection step by step: runs one step, and accesses the bytes of an operand (not of
     * experts) before or after it. */
    sl_status (*run_step)(sl_executable *executable, uint32_t step, sl_error *err);
    sl_status (*read)(sl_executable *executable, const sl_operand *operand, void *to,
                      sl_error *err);
    sl_status (*write)(sl_executable *executable, const sl_operand *operand, const void *from,
                       sl_error *err);
} sl_device_ops;

/* The first member of the struct of every device. */
struct sl_device {
    const sl_device_ops *ops;
};
struct sl_executable {
    const sl_device_ops *ops; /* of the device that loaded it */
};

/* Asserts that an executable belongs to a device before it is cast; NULL is allowed. */
static inline void sl_executable_check(const sl_executable *executable, const sl_device_ops *ops) {
    assert(!executable || executable->ops == ops);
    (void)executable, (void)ops;
}

#endif
