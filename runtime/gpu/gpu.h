/* gpu.h - What GPUs share: the memory of a device, copies of weights, cached experts, and the calls
 * that each kind of GPU provides for them.
 *
 * A kind of GPU is a folder beside this one.  Its device struct begins with sl_gpu, its executables
 * with sl_gpu_executable (executable.h); it provides sl_gpu_calls and a table of kernels with
 * launch plans (plan.h), and its sl_device_ops are SL_GPU_DEVICE_OPS and what is its own. */
#ifndef SL_RUNTIME_GPU_GPU_H
#define SL_RUNTIME_GPU_GPU_H
#include "runtime/device.h"
#include "runtime/gpu/fault.h"

typedef uint64_t sl_gpu_address; /* in device memory; 0: none */
typedef struct {
    sl_gpu_address address;
    uint64_t bytes;
} sl_gpu_block;

/* Work is done in order within a queue; the queues run concurrently. */
typedef enum {
    SL_GPU_WORK,  /* steps, inputs and outputs */
    SL_GPU_COPIES /* experts on their way in */
} sl_gpu_queue;

typedef struct sl_gpu sl_gpu;
typedef struct sl_gpu_executable sl_gpu_executable;
typedef struct sl_gpu_experts sl_gpu_experts;
typedef struct sl_gpu_kernels sl_gpu_kernels; /* plan.h */
/* Reached when everything that was submitted to its queue before it is done. */
typedef struct sl_gpu_fence sl_gpu_fence;

typedef struct {
    /* Between these the device belongs to the calling thread; calls nest.  All others are made in
     * between. */
    sl_status (*enter)(const sl_gpu *gpu, sl_error *err);
    void (*leave)(const sl_gpu *gpu);

    sl_status (*memory)(const sl_gpu *gpu, uint64_t *out_free, uint64_t *out_total, sl_error *err);
    /* `what` names the memory in the error message if there is not enough. */
    sl_status (*allocate)(const sl_gpu *gpu, uint64_t bytes, const char *what, sl_gpu_block *out,
                          sl_error *err);
    void (*release)(const sl_gpu *gpu, sl_gpu_address address);

    /* Asynchronous: host memory must stay as it is until the queue has passed. */
    sl_status (*copy_in)(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to, const void *from,
                         uint64_t bytes, sl_error *err);
    sl_status (*copy_out)(const sl_gpu *gpu, sl_gpu_queue queue, void *to, sl_gpu_address from,
                          uint64_t bytes, sl_error *err);
    sl_status (*copy_within)(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to,
                             sl_gpu_address from, uint64_t bytes, sl_error *err);
    sl_status (*clear)(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to, uint64_t bytes,
                       sl_error *err);
    /* Waits for everything in the queue; an error of any of it is returned here. */
    sl_status (*wait)(const sl_gpu *gpu, sl_gpu_queue queue, sl_error *err);
    /* Puts the work of a custom op into the queue, by the callback that it has for this kind of
     * GPU. Called only where sl_gpu_takes_custom says so. */
    sl_status (*launch_custom)(const sl_gpu *gpu, sl_gpu_queue queue, const sl_custom_args *args,
                               const char *label, void *room, sl_error *err);

    sl_status (*fence_create)(const sl_gpu *gpu, bool timed, sl_gpu_fence **out, sl_error *err);
    void (*fence_destroy)(const sl_gpu *gpu, sl_gpu_fence *fence);
    sl_status (*fence_record)(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_fence *fence,
                              sl_error *err);
    sl_status (*fence_wait)(const sl_gpu *gpu, sl_gpu_fence *fence, sl_error *err);
    /* Seconds between two timed fences that were reached; 0 if that is not known. */
    double (*fence_seconds)(const sl_gpu *gpu, sl_gpu_fence *from, sl_gpu_fence *to);

    /* Executables (executable.h). */
    size_t executable_bytes;
    const sl_gpu_kernels *kernels;
    /* Sets scratch_offset of all steps, whose scratch_bytes are known, and returns the size of the
     * whole.  Steps that may run concurrently must not share scratch. */
    uint64_t (*place_scratch)(sl_gpu_executable *exe);
    /* Prepares the planned launches for submission: all of them one by one, and those of segments
     * as a whole (graphs, command buffers) where it sets as_whole.  It may replace the segments by
     * others, at most as many as steps. */
    sl_status (*record)(sl_gpu_executable *exe, sl_error *err);
    /* Drops what was recorded, also by a call that failed; nothing may be recorded yet. */
    void (*unrecord)(sl_gpu_executable *exe);
    /* Submits a segment as a whole; or one step that has a kernel. */
    sl_status (*submit_segment)(sl_gpu_executable *exe, uint32_t segment, sl_error *err);
    sl_status (*submit_step)(sl_gpu_executable *exe, uint32_t step, sl_error *err);
    /* For proofs: the pairs of steps that are ordered by what was recorded, as the driver has it,
     * as lists of successors in arena; adds its launches and edges to out. */
    sl_status (*read_order)(const sl_gpu_executable *exe, sl_arena *arena, sl_edges *order,
                            sl_device_proof *out, sl_error *err);
} sl_gpu_calls;

/* A weight on the device, known by its address on the host. */
typedef struct {
    const void *host;
    sl_gpu_block block;
    uint32_t holders;
} sl_gpu_upload;

struct sl_gpu {
    sl_device base;
    const sl_gpu_calls *calls;
    const sl_allocator *allocator;
    sl_allocator pinned; /* host memory with fast copies */
    sl_device_options options;
    uint32_t multiprocessors, shared_limit; /* for plans (plan.h) */
    sl_gpu_upload *uploads;
    uint32_t upload_count, upload_capacity;
    sl_gpu_block arena, scratch; /* shared by all executables: one runs at a time */
    sl_gpu_block fault;          /* sl_fault */
    sl_gpu_experts *experts;     /* of the one source that was bound; NULL: none */
    uint64_t experts_opened;     /* how often: what was built before uses a cache that is gone */
    uint64_t weight_bytes, state_bytes;
    uint32_t begun; /* runs that were begun and not ended */
    uint64_t runs;
    double launch_seconds; /* host time spent on submitting them */
};

/* device.c */
/* init and release_memory are called inside the device; deinit frees host memory and is called
 * last, also if the device was lost. */
SL_CHECKED sl_status sl_gpu_init(sl_gpu *gpu, sl_error *err);
void sl_gpu_release_memory(sl_gpu *gpu);
void sl_gpu_deinit(sl_gpu *gpu);
void sl_gpu_release(const sl_gpu *gpu, sl_gpu_block *block);
/* Grows the block if it is too small; its contents are lost then. */
SL_CHECKED sl_status sl_gpu_ensure(const sl_gpu *gpu, sl_gpu_block *block, uint64_t bytes,
                                   const char *what, sl_error *err);
/* The copy of a weight, made now unless there is one. */
SL_CHECKED sl_status sl_gpu_upload_weight(sl_gpu *gpu, const void *host, uint64_t bytes,
                                          const char *name, sl_gpu_address *out, sl_error *err);
/* Copies that are done when they return, entering the device. */
SL_CHECKED sl_status sl_gpu_copy_in(sl_gpu *gpu, sl_gpu_address to, const void *from,
                                    uint64_t bytes, sl_error *err);
SL_CHECKED sl_status sl_gpu_copy_out(sl_gpu *gpu, void *to, sl_gpu_address from, uint64_t bytes,
                                     sl_error *err);

/* Entries of sl_device_ops, all of device.c, executable.c, run.c and prove.c. */
void sl_gpu_count(const sl_device *base, sl_device_stats *out);
bool sl_gpu_can_start(const sl_device *base);
sl_status sl_gpu_load(sl_device *base, const sl_program *program, sl_executable **out,
                      sl_error *err);
void sl_gpu_unload(sl_executable *base);
sl_status sl_gpu_bind(sl_executable *base, sl_buffer_id id, void *data, sl_error *err);
sl_status sl_gpu_bind_experts(sl_executable *base, sl_buffer_id buffer, sl_expert_source *source,
                              sl_error *err);
sl_status sl_gpu_run(sl_executable *base, sl_error *err);
sl_status sl_gpu_begin(sl_executable *base, sl_error *err);
sl_status sl_gpu_end(sl_executable *base, sl_run_seconds *out, sl_error *err);
sl_status sl_gpu_start(sl_executable *base, sl_error *err);
sl_status sl_gpu_finish(sl_executable *base, sl_error *err);
sl_status sl_gpu_fetch(sl_executable *base, uint32_t output, sl_error *err);
sl_status sl_gpu_run_serially(sl_executable *base, const uint32_t *order, sl_error *err);
void sl_gpu_attach(sl_executable *base, sl_trace *trace);
const void *sl_gpu_output(const sl_executable *base, uint32_t index);
void *sl_gpu_device_allocate(sl_device *base, uint64_t bytes);
void sl_gpu_device_release(sl_device *base, void *memory, uint64_t bytes);
sl_status sl_gpu_device_copy_in(sl_device *base, void *to, const void *from, uint64_t bytes,
                                sl_error *err);
sl_status sl_gpu_device_copy_out(sl_device *base, void *to, const void *from, uint64_t bytes,
                                 sl_error *err);
sl_status sl_gpu_device_copy_within(sl_device *base, void *to, const void *from, uint64_t bytes,
                                    sl_error *err);
sl_status sl_gpu_weight_changed(sl_device *base, const void *host, uint64_t offset, uint64_t bytes,
                                sl_error *err);
void sl_gpu_hold_weight(sl_device *base, const void *host, uint64_t bytes, bool on);
sl_status sl_gpu_prove(sl_executable *base, sl_device_proof *out, sl_error *err);
sl_status sl_gpu_run_step(sl_executable *base, uint32_t step, sl_error *err);
sl_status sl_gpu_read(sl_executable *base, const sl_operand *operand, void *to, sl_error *err);
sl_status sl_gpu_write(sl_executable *base, const sl_operand *operand, const void *from,
                       sl_error *err);
#define SL_GPU_DEVICE_OPS                                                                          \
    .count = sl_gpu_count, .load = sl_gpu_load, .unload = sl_gpu_unload, .bind = sl_gpu_bind,      \
    .bind_experts = sl_gpu_bind_experts, .run = sl_gpu_run, .begin = sl_gpu_begin,                 \
    .end = sl_gpu_end, .hold_weight = sl_gpu_hold_weight, .can_start = sl_gpu_can_start,           \
    .start = sl_gpu_start, .finish = sl_gpu_finish, .fetch = sl_gpu_fetch,                         \
    .run_serially = sl_gpu_run_serially, .attach = sl_gpu_attach, .output = sl_gpu_output,         \
    .allocate = sl_gpu_device_allocate, .release = sl_gpu_device_release,                          \
    .copy_in = sl_gpu_device_copy_in, .copy_out = sl_gpu_device_copy_out,                          \
    .copy_within = sl_gpu_device_copy_within, .weight_changed = sl_gpu_weight_changed,             \
    .prove = sl_gpu_prove, .run_step = sl_gpu_run_step, .read = sl_gpu_read, .write = sl_gpu_write
#endif
