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

/* A step in a graph (join.h). */
typedef struct {
    /* The step whose launches include this step, itself if it has its own; the next step with the
     * same leader, UINT32_MAX: none; late: depends on the leader's last launch only. */
    uint32_t leader, next;
    bool late;
    /* Of a leader: its first and last step, and its launches; NULL: the planned ones. */
    uint32_t lowest, highest;
    sl_cuda_joined *joined;
    const sl_join_rule *rule; /* that made `joined` */
    uint32_t level;           /* if segments are levels */
} sl_cuda_task;

/* The graph of a segment; of a level (levels.c) it has only the segment's steps on that level. */
typedef struct {
    bool leveled;
    uint32_t level;
    sl_cu_graph graph; /* NULL: none */
    sl_cu_graph_exec exec;
} sl_cuda_graph;

struct sl_cuda_executable {
    sl_gpu_executable base;
    sl_cuda_task *tasks;       /* [step] */
    sl_cuda_graph *graphs;     /* [segment] */
    sl_cu_function *functions; /* [launch] */
    sl_cu_node *nodes;         /* [launch]: its node in the graph of its segment */
    uint32_t node_count;
    uint64_t scratch_bytes[SL_OP_COUNT]; /* that the steps of an op share */
};
static inline sl_cuda_executable *sl_cuda_executable_of(sl_executable *exe) {
    sl_executable_check(exe, &sl_cuda_ops);
    return (sl_cuda_executable *)exe;
}

static inline sl_cuda_device *sl_cuda_device_of(const sl_cuda_executable *exe) {
    return (sl_cuda_device *)exe->base.gpu;
}

/* Entries of sl_gpu_calls: graphs.c, submit.c and edges.c. */
uint64_t sl_cuda_place_scratch(sl_gpu_executable *base);
sl_status sl_cuda_record(sl_gpu_executable *base, sl_error *err);
void sl_cuda_unrecord(sl_gpu_executable *base);
sl_status sl_cuda_submit_segment(sl_gpu_executable *base, uint32_t segment, sl_error *err);
sl_status sl_cuda_submit_step(sl_gpu_executable *base, uint32_t step, sl_error *err);
/* The pairs of steps that are ordered by edges of the driver's graphs or by segments. */
sl_status sl_cuda_read_order(const sl_gpu_executable *base, sl_arena *arena, sl_edges *order,
                             sl_device_proof *out, sl_error *err);
#endif
