/* edges.c - What a graph on the device really waits for, read back from the driver. */
#include "core/check.h"
#include "runtime/cuda/executable.h"

/* Nodes of a graph by pairs, as the driver tells. */
typedef struct {
    sl_cu_node *from, *to;
    size_t count;
} node_pairs;

static sl_status read_pairs(const sl_executable *exe, const sl_cuda_segment *g, sl_arena *arena,
                            node_pairs *out, sl_error *err) {
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

/* The step that a node belongs to; step_count when there is none. */
static uint32_t step_of(const sl_executable *exe, sl_cu_node node) {
    const uint32_t count = exe->binding.program->step_count;
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t i = 0; i < exe->tasks[s].launch_count; i++)
            if (exe->nodes[exe->tasks[s].first_launch + i] == node) return s;
    return count;
}

sl_status sl_cuda_read_edges(const sl_executable *exe, sl_arena *arena, sl_edges *out,
                             sl_error *err) {
    const uint32_t count = exe->binding.program->step_count;
    const sl_cuda_segment *g = &exe->segments[0];
    node_pairs pairs;
    if (exe->segment_count != 1 || !g->graph)
        return sl_fail(err, SL_INVALID, "%s is no single graph", exe->binding.program->name);
    SL_TRY(read_pairs(exe, g, arena, &pairs, err));
    uint32_t *from = SL_ARENA_NEW_ARRAY(arena, uint32_t, pairs.count + 1);
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)count + 3);
    out->targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, pairs.count + 1);
    if (!from || !out->first || !out->targets) return sl_no_memory(err, "edges", pairs.count);
    /* Counting sort: first[] is two ahead while counting and one ahead while filling. */
    for (size_t e = 0; e < pairs.count; e++) {
        from[e] = step_of(exe, pairs.from[e]);
        if (from[e] < count && step_of(exe, pairs.to[e]) != from[e]) out->first[from[e] + 2]++;
    }
    for (uint32_t s = 2; s < count + 3; s++) out->first[s] += out->first[s - 1];
    for (size_t e = 0; e < pairs.count; e++) {
        const uint32_t to = step_of(exe, pairs.to[e]);
        if (from[e] < count && to != from[e]) out->targets[out->first[from[e] + 1]++] = to;
    }
    return SL_OK;
}

static sl_status prove(const sl_executable *exe, sl_arena *arena, sl_error *err) {
    sl_program program = *exe->binding.program;
    program.model = SL_SCHEDULE_EDGES;
    SL_TRY(sl_cuda_read_edges(exe, arena, &program.edges, err));
    return sl_check_program(&program, exe->device->allocator, err);
}

sl_status sl_device_cuda_prove(sl_executable *exe, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, exe->device->allocator);
    sl_status status = sl_cuda_enter(exe->device, err);
    if (status == SL_OK) {
        status = sl_cuda_build(exe, err);
        if (status == SL_OK) status = prove(exe, &arena, err);
        sl_cuda_leave(exe->device);
    }
    sl_arena_deinit(&arena);
    return status;
}
