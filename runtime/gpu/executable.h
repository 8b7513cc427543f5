/* executable.h - A program that is loaded on a GPU: the part that all kinds of GPU share. */
#ifndef SL_RUNTIME_GPU_EXECUTABLE_H
#define SL_RUNTIME_GPU_EXECUTABLE_H
#include "runtime/binding.h"
#include "runtime/gpu/plan.h"

typedef struct {
    void *args;                  /* sl_<op>_args, with device addresses */
    const sl_gpu_kernel *kernel; /* NULL: the host runs it */
    uint32_t first_launch, launch_count;
    uint64_t scratch_offset, scratch_bytes; /* of the device's scratch; 0 bytes: none */
    /* Of a step that the host runs (hosted.c): its bodies, and for a custom op its arguments in
     * host memory with the room that a call needs. */
    sl_gpu_executable **bodies;
    void *host_args, *host_room;
} sl_gpu_step;

/* Steps [first, end) that are submitted together. */
typedef struct {
    uint32_t first, end;
    bool alone;    /* one step that waits for experts or is run by the host */
    bool requests; /* its last step tells which experts are needed; the host reads them */
    bool as_whole; /* submit_segment submits it; otherwise step by step */
} sl_gpu_segment;

/* A run that was started: its inputs, and its small outputs, in pinned memory. */
enum { SL_GPU_IN_FLIGHT = 2, SL_GPU_SMALL_OUTPUT = 4096, SL_GPU_DIRECT_OUTPUTS = 32 };
typedef struct {
    char *inputs, *outputs; /* outputs: laid out as those of the executable */
    sl_gpu_fence *done;
} sl_gpu_run_state;

struct sl_gpu_executable {
    sl_executable base;
    sl_gpu *gpu;
    sl_arena arena;
    sl_binding binding; /* data: host memory of inputs, device memory of weights and states */
    sl_gpu_step *steps; /* [step] */
    /* Inputs and constants: at offsets[buffer] of one block, inputs first. */
    sl_gpu_block locals;
    uint64_t *local_offsets, inputs_bytes;
    char *inputs;  /* pinned, inputs_bytes */
    char *outputs; /* pinned: all outputs, then the fault */
    uint64_t *output_offsets, outputs_bytes;
    sl_gpu_run_state in_flight[SL_GPU_IN_FLIGHT]; /* made when the first run is started */
    uint32_t started, finished;                   /* runs; their numbers say which of in_flight */
    bool begun;                                   /* a run was begun and not ended */
    sl_gpu_fence *clock[2]; /* its first and last moment; made when the first run is begun */
    double begin_seconds, encode_seconds;
    uint32_t direct_outputs; /* a bit for each output, of the first SL_GPU_DIRECT_OUTPUTS, that
                                is written to `outputs` by kernels */
    int32_t *starts;         /* pinned: `starts` of a moe_group */
    uint64_t starts_bytes;
    bool is_body; /* its inputs are on the device, nothing else is bound */
    sl_gpu_block own_activations, *activations; /* the device's arena, or a body's own */
    bool rebound;                               /* bindings changed since it was built */
    /* What was built (build.c). */
    sl_gpu_launch *launches; /* packed; at most SL_GPU_MAX_LAUNCHES per step */
    uint32_t launch_count, launch_capacity;
    sl_gpu_segment *segments; /* in the order in which they are submitted */
    uint32_t segment_count;
    sl_gpu_address built_arena, built_scratch; /* the addresses that launches use */
    uint64_t built_experts;                    /* the cache that they use: experts_opened */
    /* Tracing. */
    sl_trace *trace;
    sl_gpu_fence **marks; /* [step_count + 1] */
    uint32_t run_number;
};

static inline sl_gpu_executable *sl_gpu_executable_of(sl_executable *base) {
    assert(!base || base->ops->run == sl_gpu_run);
    return (sl_gpu_executable *)base;
}

/* The address of an operand in device memory. */
sl_gpu_address sl_gpu_resolve(const sl_gpu_executable *exe, const sl_operand *operand);
/* Sets the addresses in the arguments of a step. */
void sl_gpu_fill_addresses(const sl_gpu_executable *exe, uint32_t step);
/* A program of its own, or the body of a step, whose inputs the step copies. */
SL_CHECKED sl_status sl_gpu_load_program(sl_gpu *gpu, const sl_program *program, bool is_body,
                                         sl_gpu_executable **out, sl_error *err);

/* ---- building: build.c ---- */

/* Plans the launches of all steps, cuts the program into segments and records them.  Does nothing
 * if bindings and memory are as they were. */
SL_CHECKED sl_status sl_gpu_build(sl_gpu_executable *exe, sl_error *err);
void sl_gpu_unbuild(sl_gpu_executable *exe);

/* ---- experts: experts.c has the cache ---- */

/* Whether a step uses experts; *out_operand is their operand. */
bool sl_gpu_uses_experts(const sl_step *step, uint32_t *out_operand);
uint32_t sl_gpu_layer_of(const sl_step *step); /* of a step that uses experts */
/* Opens the cache for the experts that the program uses.  Part of building. */
SL_CHECKED sl_status sl_gpu_open_experts(sl_gpu_executable *exe, sl_error *err);
/* Reads from the device which experts a moe_group step found in use, and requests them. */
SL_CHECKED sl_status sl_gpu_request_experts(sl_gpu_executable *exe, const sl_step *step,
                                            sl_error *err);
/* Submits a step that streams in as many rounds as its experts need. */
SL_CHECKED sl_status sl_gpu_submit_streaming(sl_gpu_executable *exe, uint32_t step, sl_error *err);

/* ---- steps that the host runs: hosted.c ---- */

/* Loops and branches, whose bodies are programs on the device, and custom ops. */
#define SL_GPU_HOSTED(ROW) ROW(if) ROW(while) ROW(scan) ROW(custom)
typedef sl_status sl_gpu_hosted_fn(sl_gpu_executable *exe, uint32_t step, sl_error *err);
sl_gpu_hosted_fn *sl_gpu_hosted(sl_op op); /* NULL: the op has kernels */
SL_CHECKED sl_status sl_gpu_load_hosted(sl_gpu_executable *exe, uint32_t step, sl_error *err);
void sl_gpu_unload_hosted(sl_gpu_executable *exe, uint32_t step);
/* Before the program itself is built: bodies share its scratch, which must not grow afterwards. */
SL_CHECKED sl_status sl_gpu_build_hosted(sl_gpu_executable *exe, sl_error *err);

/* ---- running: run.c ---- */

/* All steps, of an executable that was built. */
SL_CHECKED sl_status sl_gpu_submit(sl_gpu_executable *exe, sl_error *err);
/* Any step: by its kernel, in rounds, or by the host. */
SL_CHECKED sl_status sl_gpu_submit_any(sl_gpu_executable *exe, uint32_t step, sl_error *err);
/* Waits for what was submitted; an error if a kernel reported a fault. */
SL_CHECKED sl_status sl_gpu_drain(sl_gpu_executable *exe, sl_error *err);
void sl_gpu_drop_in_flight(sl_gpu_executable *exe);
void sl_gpu_drop_begun(sl_gpu_executable *exe);
#endif
