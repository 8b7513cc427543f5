/* executable.h - A program made ready on the CUDA device; shared by loading, building and running.
 */
#ifndef SL_RUNTIME_CUDA_EXECUTABLE_H
#define SL_RUNTIME_CUDA_EXECUTABLE_H
#include "runtime/binding.h"
#include "runtime/cuda/device.h"

typedef struct sl_cuda_executable sl_cuda_executable;

/* What is launched instead of a planned launch. */
typedef struct {
    sl_cuda_launch launch;
    sl_cu_function function;
} sl_cuda_joined;

typedef struct {
    const sl_cuda_kernel *kernel;
    void *args; /* sl_<op>_args, with addresses of the device */
    uint32_t first_launch, launch_count;
    uint64_t scratch_offset, scratch_bytes; /* of the device's scratch; 0 bytes: none */
    /* In a graph (join.h): the step whose launches this one is part of, itself where it has its
     * own; the next of the same, UINT32_MAX: none; whether only the last of those launches has to
     * do with it. */
    uint32_t leader, next;
    bool late;
    /* Of a leader: its first and last step, and its launches, NULL: as they were planned. */
    uint32_t lowest, highest;
    sl_cuda_joined *joined;
    uint32_t level; /* where segments are levels */
    /* Of a step that the host runs (hosted.c): its bodies, and its arguments in the host's memory
     * with the room that a call needs. */
    sl_cuda_executable **bodies;
    void *host_args, *host_room;
} sl_cuda_task;

/* Steps [first, end) that are launched together; of a level (join.h) those that are on it. */
typedef struct {
    uint32_t first, end;
    bool alone; /* one step that waits for experts or that the host runs: no graph */
    bool leveled;
    uint32_t level;
    sl_cu_graph graph;
    sl_cu_graph_exec exec;
} sl_cuda_segment;

/* A run that was started: its inputs, and its small results as it leaves them, pinned. */
enum { SL_CUDA_FLIGHTS = 2, SL_CUDA_SMALL_RESULT = 4096 };
typedef struct {
    char *inputs, *results; /* results: as in sl_cuda_executable.outputs, without the large ones */
    sl_cu_event done;
} sl_cuda_flight;

struct sl_cuda_executable {
    sl_executable base;
    sl_cuda_device *device;
    sl_arena arena;
    sl_binding binding; /* data: host memory of inputs, device memory of weights and states */
    sl_cuda_task *tasks;
    sl_cuda_launch *launches;  /* [step_count * SL_CUDA_MAX_LAUNCHES at most], packed */
    sl_cu_function *functions; /* [launch] */
    sl_cu_node *nodes;         /* [launch]: in the graph of its segment */
    uint32_t launch_count;
    sl_cuda_segment *segments;
    uint32_t segment_count;
    /* Inputs and constants: at offsets[buffer] of one block, inputs first. */
    sl_cuda_block locals;
    uint64_t *local_offsets, inputs_bytes;
    char *inputs;  /* pinned, inputs_bytes */
    char *outputs; /* pinned: all outputs, then the fault */
    uint64_t *output_offsets, outputs_bytes;
    sl_cuda_flight flights[SL_CUDA_FLIGHTS]; /* made when the first run is started */
    uint32_t started, finished;              /* runs; their numbers say which flight */
    uint32_t direct_outputs;                 /* bits: those that graphs write there themselves */
    int32_t *starts;                         /* pinned: what a moe_group says, [experts + 1] */
    uint64_t starts_bytes;
    bool is_body;                                /* of a step: nothing but inputs, on the device */
    sl_cuda_block own_activations, *activations; /* the device's arena, or a body's own */
    bool rebound;                                /* bindings changed since launches were planned */
    sl_cu_address built_arena, built_scratch;    /* what launches point into */
    /* of traces */
    sl_trace *trace;
    sl_cu_event *events; /* [step_count + 1] */
    uint32_t run_number;
};
static inline sl_cuda_executable *sl_cuda_executable_of(sl_executable *exe) {
    sl_executable_check(exe, &sl_cuda_ops);
    return (sl_cuda_executable *)exe;
}

/* build.c: plans launches, cuts segments, makes graphs; does nothing where nothing has changed. */
SL_CHECKED sl_status sl_cuda_build(sl_cuda_executable *exe, sl_error *err);
void sl_cuda_unbuild(sl_cuda_executable *exe);
/* Where an operand lies in device memory. */
sl_cu_address sl_cuda_resolve(const sl_cuda_executable *exe, const sl_operand *operand);

/* executable.c: `is_body` leaves inputs to who runs it. */
SL_CHECKED sl_status sl_cuda_load(sl_cuda_device *device, const sl_program *program, bool is_body,
                                  sl_cuda_executable **out, sl_error *err);
void sl_cuda_unload(sl_cuda_executable *exe);

/* hosted.c: steps that the host runs, NULL for ops that have kernels. */
typedef sl_status sl_cuda_hosted_fn(sl_cuda_executable *exe, uint32_t step, sl_error *err);
sl_cuda_hosted_fn *sl_cuda_hosted(sl_op op);
SL_CHECKED sl_status sl_cuda_load_hosted(sl_cuda_executable *exe, const sl_step *step,
                                         sl_cuda_task *task, sl_error *err);
void sl_cuda_unload_hosted(const sl_step *step, const sl_cuda_task *task);
/* Before the step's own program is: bodies share its scratch, which must not grow any more. */
SL_CHECKED sl_status sl_cuda_build_hosted(const sl_step *step, const sl_cuda_task *task,
                                          sl_error *err);

/* edges.c: pairs of steps that edges of the driver's graphs, or the order of segments, order;
 * successors that are other steps, in arena. */
SL_CHECKED sl_status sl_cuda_read_edges(const sl_cuda_executable *exe, sl_arena *arena,
                                        sl_edges *out, sl_error *err);
/* Proves that these order every conflict on final addresses (core/check.h), with kernel scratch and
 * the bodies of steps. */
SL_CHECKED sl_status sl_cuda_prove(sl_cuda_executable *exe, sl_device_proof *out, sl_error *err);

/* run.c */
SL_CHECKED sl_status sl_cuda_run(sl_cuda_executable *exe, sl_error *err);
/* All segments, with inputs where they are; and waiting for them, with an error for what a kernel
 * could not index with. */
SL_CHECKED sl_status sl_cuda_launch_segments(sl_cuda_executable *exe, sl_error *err);
SL_CHECKED sl_status sl_cuda_settle(sl_cuda_executable *exe, sl_error *err);
SL_CHECKED sl_status sl_cuda_start(sl_cuda_executable *exe, sl_error *err);
SL_CHECKED sl_status sl_cuda_finish(sl_cuda_executable *exe, sl_error *err);
SL_CHECKED sl_status sl_cuda_fetch(sl_cuda_executable *exe, uint32_t output, sl_error *err);
void sl_cuda_drop_flights(sl_cuda_executable *exe);
SL_CHECKED sl_status sl_cuda_run_serially(sl_cuda_executable *exe, const uint32_t *order,
                                          sl_error *err);
SL_CHECKED sl_status sl_cuda_run_step(sl_cuda_executable *exe, uint32_t step, sl_error *err);
void sl_cuda_attach(sl_cuda_executable *exe, sl_trace *trace);
/* target.c: the kernel of a step, NULL where the host runs it; SL_UNSUPPORTED, naming the step,
 * when there is none. */
SL_CHECKED sl_status sl_cuda_find(const sl_step *step, const sl_cuda_kernel **out, sl_error *err);
#endif
