/* edges.c - What a graph on the device really waits for, read back from the driver. */
#include "core/check.h"
#include "runtime/cuda/executable.h"

/* Nodes of a graph by pairs, as the driver tells. */
typedef struct {
    sl_cu_node *from, *to;
    size_t count;
} node_pairs;

static sl_status read_pairs(const sl_cuda_executable *exe, const sl_cuda_segment *g,
                            sl_arena *arena, node_pairs *out, sl_error *err) {
    const sl_cuda_driver *driver = &exe->device->driver;
    SL_TRY_CUDA(driver, graph_edges(g->graph, NULL, NULL, NULL, &out->count), "reading edges", err);
    out->from = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, out->count + 1);
    out->to = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, out->count + 1);
    sl_cu_edge *edges = SL_ARENA_NEW_ARRAY(arena, sl_cu_edge, out->count + 1);
    if (!out->from || !out->to || !edges) return sl_no_memory(err, "edges", out->count);
    if (out->count)
        SL_TRY_CUDA(driver, graph_edges(g->graph, out->from, out->to, edges, &out->count),
                    "reading edges", err);
    return SL_OK;
}

/* The step whose launch a node is; step_count when there is none. */
static uint32_t leader_of(const sl_cuda_executable *exe, sl_cu_node node) {
    const uint32_t count = exe->base.binding.program->step_count;
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t i = 0; exe->tasks[s].leader == s && i < exe->tasks[s].launch_count; i++)
            if (exe->nodes[exe->tasks[s].first_launch + i] == node) return s;
    return count;
}

static bool is_first(const sl_cuda_executable *exe, uint32_t leader, sl_cu_node node) {
    return exe->nodes[exe->tasks[leader].first_launch] == node;
}
static bool is_last(const sl_cuda_executable *exe, uint32_t leader, sl_cu_node node) {
    const sl_cuda_task *task = &exe->tasks[leader];
    return exe->nodes[task->first_launch + task->launch_count - 1] == node;
}

/* Calls add(from, to) for each pair of steps that the driver's edges order: all of one leader whose
 * last node it is, and all of another whose first it is, or those that only the last has to do
 * with.  Those of one leader follow each other in the order of the program. */
typedef void add_pair(void *ctx, uint32_t from, uint32_t to);
static void each_pair(const sl_cuda_executable *exe, const node_pairs *pairs, add_pair *add,
                      void *ctx) {
    const uint32_t count = exe->base.binding.program->step_count;
    const sl_cuda_task *tasks = exe->tasks;
    for (size_t e = 0; e < pairs->count; e++) {
        const uint32_t from = leader_of(exe, pairs->from[e]), to = leader_of(exe, pairs->to[e]);
        if (from == count || to == count || from == to || !is_last(exe, from, pairs->from[e]))
            continue;
        const bool first = is_first(exe, to, pairs->to[e]), last = is_last(exe, to, pairs->to[e]);
        for (uint32_t a = from; a != UINT32_MAX; a = tasks[a].next)
            for (uint32_t b = to; b != UINT32_MAX; b = tasks[b].next)
                if (a < b && (first || (last && tasks[b].late))) add(ctx, a, b);
    }
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t a = tasks[s].leader; a != UINT32_MAX; a = tasks[a].next)
            if (a < s) add(ctx, a, s);
}

static void count_pair(void *ctx, uint32_t from, uint32_t to) {
    sl_edges *edges = ctx;
    (void)to;
    edges->first[from + 2]++;
}
static void put_pair(void *ctx, uint32_t from, uint32_t to) {
    sl_edges *edges = ctx;
    edges->targets[edges->first[from + 1]++] = to;
}

/* Counting sort: first[] is two ahead while counting and one ahead while filling. */
sl_status sl_cuda_read_edges(const sl_cuda_executable *exe, sl_arena *arena, sl_edges *out,
                             sl_error *err) {
    const uint32_t count = exe->base.binding.program->step_count;
    const sl_cuda_segment *g = &exe->segments[0];
    node_pairs pairs;
    if (exe->segment_count != 1 || !g->graph)
        return sl_fail(err, SL_INVALID, "%s is no single graph", exe->base.binding.program->name);
    SL_TRY(read_pairs(exe, g, arena, &pairs, err));
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)count + 3);
    if (!out->first) return sl_no_memory(err, "edges", count);
    each_pair(exe, &pairs, count_pair, out);
    for (uint32_t s = 2; s < count + 3; s++) out->first[s] += out->first[s - 1];
    out->targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)out->first[count + 2] + 1);
    if (!out->targets) return sl_no_memory(err, "edges", out->first[count + 2]);
    each_pair(exe, &pairs, put_pair, out);
    return SL_OK;
}

static sl_status prove(const sl_cuda_executable *exe, sl_arena *arena, sl_error *err) {
    sl_program program = *exe->base.binding.program;
    program.model = SL_SCHEDULE_EDGES;
    SL_TRY(sl_cuda_read_edges(exe, arena, &program.edges, err));
    return sl_check_program(&program, exe->device->gpu.allocator, err);
}

sl_status sl_device_cuda_prove(sl_executable *base, sl_error *err) {
    sl_cuda_executable *exe = sl_cuda_executable_of(base);
    sl_arena arena;
    sl_arena_init(&arena, exe->device->gpu.allocator);
    sl_status status = sl_cuda_calls.enter(&exe->device->gpu, err);
    if (status == SL_OK) {
        status = sl_cuda_calls.build(&exe->base, err);
        if (status == SL_OK) status = prove(exe, &arena, err);
        sl_cuda_calls.leave(&exe->device->gpu);
    }
    sl_arena_deinit(&arena);
    return status;
}
