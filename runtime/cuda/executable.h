/* executable.h - A program that is loaded on the CUDA device. */
#ifndef SL_RUNTIME_CUDA_EXECUTABLE_H
#define SL_RUNTIME_CUDA_EXECUTABLE_H
#include "runtime/cuda/device.h"
#include "runtime/gpu/executable.h"

typedef struct sl_cuda_executable sl_cuda_executable;
typedef struct sl_join_rule sl_join_rule; /* join.h */

/* A launch that replaces a planned one. */
typedef struct {
    sl_gpu_launch launch;
    sl_cu_function function;
} sl_cuda_joined;

typedef struct {
    const sl_gpu_kernel *kernel; /* NULL: the host runs it */
    uint32_t first_launch, launch_count;
    uint64_t scratch_offset, scratch_bytes; /* of the device's scratch; 0 bytes: none */
    /* In a graph (join.h): the step whose launches include this step, itself if it has its own; the
     * next step with the same leader, UINT32_MAX: none; late: depends on the leader's last launch
     * only. */
    uint32_t leader, next;
    bool late;
    /* Of a leader: its first and last step, and its launches; NULL: the planned ones. */
    uint32_t lowest, highest;
    sl_cuda_joined *joined;
    const sl_join_rule *rule; /* that made `joined` */
    uint32_t level;           /* if segments are levels */
} sl_cuda_task;

/* Steps [first, end) that are submitted together; for a level (join.h) only those on it. */
typedef struct {
    uint32_t first, end;
    bool alone; /* one step that waits for experts or is run by the host: no graph */
    bool leveled;
    uint32_t level;
    sl_cu_graph graph;
    sl_cu_graph_exec exec;
} sl_cuda_segment;

struct sl_cuda_executable {
    sl_gpu_executable base;
    sl_cuda_device *device;
    sl_cuda_task *tasks;
    sl_gpu_launch *launches;   /* packed; at most SL_GPU_MAX_LAUNCHES per step */
    sl_cu_function *functions; /* [launch] */
    sl_cu_node *nodes;         /* [launch]: its node in the graph of its segment */
    uint32_t launch_count;
    sl_cuda_segment *segments;
    uint32_t segment_count;
    sl_gpu_address built_arena, built_scratch; /* the addresses that launches use */
};
static inline sl_cuda_executable *sl_cuda_executable_of(sl_executable *exe) {
    sl_executable_check(exe, &sl_cuda_ops);
    return (sl_cuda_executable *)exe;
}

/* build.c: plans launches, cuts segments, makes graphs (sl_gpu_calls.build and unbuild). */
sl_status sl_cuda_build(sl_gpu_executable *base, sl_error *err);
void sl_cuda_unbuild(sl_gpu_executable *base);
/* submit.c */
sl_status sl_cuda_submit(sl_gpu_executable *base, sl_error *err);
sl_status sl_cuda_submit_step(sl_gpu_executable *base, uint32_t step, sl_error *err);

/* edges.c: the pairs of steps that are ordered by edges of the driver's graphs or by segments, as
 * lists of successors in arena. */
SL_CHECKED sl_status sl_cuda_read_edges(const sl_cuda_executable *exe, sl_arena *arena,
                                        sl_edges *out, sl_error *err);
/* Proves that they order every conflict on final addresses (core/check.h), including kernel scratch
 * and the bodies of steps. */
SL_CHECKED sl_status sl_cuda_prove(sl_cuda_executable *exe, sl_device_proof *out, sl_error *err);

/* target.c: the kernel of a step, NULL if the host runs it; SL_UNSUPPORTED, naming the step, if
 * there is none. */
sl_status sl_cuda_find_kernels(sl_gpu_executable *base, sl_error *err);
SL_CHECKED sl_status sl_cuda_find(const sl_step *step, const sl_gpu_kernel **out, sl_error *err);
#endif
