/* edges.c - The order of an executable's steps, with the edges of its graphs as read back from the
 * driver, for proofs. */
#include "runtime/cuda/executable.h"

/* Edges between nodes of all graphs of an executable, as read back from the driver. */
typedef struct {
    sl_cu_node *from, *to;
    size_t count;
} node_pairs;

static sl_status count_pairs(const sl_cuda_executable *exe, size_t *out, sl_error *err) {
    *out = 0;
    for (uint32_t i = 0; i < exe->base.segment_count; i++) {
        size_t count = 0;
        if (!exe->graphs[i].graph) continue;
        SL_TRY_CUDA(&sl_cuda_device_of(exe)->driver,
                    graph_edges(exe->graphs[i].graph, NULL, NULL, NULL, &count), "reading edges",
                    err);
        *out += count;
    }
    return SL_OK;
}

static sl_status read_pairs(const sl_cuda_executable *exe, sl_arena *arena, node_pairs *out,
                            sl_error *err) {
    size_t all;
    SL_TRY(count_pairs(exe, &all, err));
    *out = (node_pairs){.from = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, all + 1),
                        .to = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, all + 1)};
    sl_cu_edge *kinds = SL_ARENA_NEW_ARRAY(arena, sl_cu_edge, all + 1);
    if (!out->from || !out->to || !kinds) return sl_no_memory(err, "edges", all);
    for (uint32_t i = 0; i < exe->base.segment_count; i++) {
        size_t count = all - out->count;
        if (!exe->graphs[i].graph || !count) continue;
        SL_TRY_CUDA(&sl_cuda_device_of(exe)->driver,
                    graph_edges(exe->graphs[i].graph, out->from + out->count, out->to + out->count,
                                kinds, &count),
                    "reading edges", err);
        out->count += count;
    }
    return SL_OK;
}

/* Whether a segment launches a step.  Steps that share launches are on one level. */
static bool launches_step(const sl_cuda_executable *exe, uint32_t segment, uint32_t step) {
    const sl_gpu_segment *g = &exe->base.segments[segment];
    const sl_cuda_graph *graph = &exe->graphs[segment];
    const uint32_t leader = exe->tasks[step].leader;
    if (!graph->leveled) return step >= g->first && step < g->end;
    return g->alone ? leader == g->first : exe->tasks[leader].level == graph->level;
}
static uint32_t segment_of(const sl_cuda_executable *exe, uint32_t step) {
    uint32_t i = 0;
    while (!launches_step(exe, i, step)) i++;
    return i;
}
/* Segments run one after another; so do the steps of a segment that is not a graph. */
static bool segments_order(const sl_cuda_executable *exe, uint32_t a, uint32_t b) {
    const uint32_t x = segment_of(exe, a), y = segment_of(exe, b);
    return x < y || (x == y && !exe->graphs[x].graph);
}

/* The step that a node launches; step_count if there is none. */
static uint32_t leader_of(const sl_cuda_executable *exe, sl_cu_node node) {
    const uint32_t count = exe->base.binding.program->step_count;
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t i = 0; exe->tasks[s].leader == s && i < exe->base.steps[s].launch_count; i++)
            if (exe->nodes[exe->base.steps[s].first_launch + i] == node) return s;
    return count;
}

static bool is_first(const sl_cuda_executable *exe, uint32_t leader, sl_cu_node node) {
    return exe->nodes[exe->base.steps[leader].first_launch] == node;
}
static bool is_last(const sl_cuda_executable *exe, uint32_t leader, sl_cu_node node) {
    const sl_gpu_step *step = &exe->base.steps[leader];
    return exe->nodes[step->first_launch + step->launch_count - 1] == node;
}

/* Calls add(from, to) for each pair of steps that is ordered.  An edge of the driver orders all
 * steps of the leader whose last node it starts from before all steps of the leader whose first
 * node it ends at, or before the late steps if it ends at the last node.  Steps of one leader run
 * in program order.  Pairs against program order are not needed. */
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
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t a = 0; a < b; a++)
            if (segments_order(exe, a, b)) add(ctx, a, b);
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
static sl_status sort_pairs(const sl_cuda_executable *exe, const node_pairs *pairs, sl_arena *arena,
                            sl_edges *out, sl_error *err) {
    const uint32_t count = exe->base.binding.program->step_count;
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)count + 3);
    if (!out->first) return sl_no_memory(err, "edges", count);
    each_pair(exe, pairs, count_pair, out);
    for (uint32_t s = 2; s < count + 3; s++) out->first[s] += out->first[s - 1];
    out->targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)out->first[count + 2] + 1);
    if (!out->targets) return sl_no_memory(err, "edges", out->first[count + 2]);
    each_pair(exe, pairs, put_pair, out);
    return SL_OK;
}

static bool has_pair(const node_pairs *pairs, sl_cu_node from, sl_cu_node to) {
    for (size_t e = 0; e < pairs->count; e++)
        if (pairs->from[e] == from && pairs->to[e] == to) return true;
    return false;
}

/* Each launch of a leader follows the previous one. */
static sl_status check_launches(const sl_cuda_executable *exe, const node_pairs *pairs,
                                sl_device_proof *proof, sl_error *err) {
    const sl_program *program = exe->base.binding.program;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_gpu_step *step = &exe->base.steps[s];
        if (exe->tasks[s].leader != s) {
            proof->joined++;
            continue;
        }
        proof->launches += step->launch_count;
        if (!exe->graphs[segment_of(exe, s)].graph) continue;
        proof->nodes += step->launch_count;
        for (uint32_t i = 1; i < step->launch_count; i++) {
            const sl_cu_node *nodes = exe->nodes + step->first_launch;
            if (!has_pair(pairs, nodes[i - 1], nodes[i]))
                return sl_fail(err, SL_INVALID,
                               "step %u (%s): no edge orders launch %u and launch %u of it", s,
                               program->steps[s].label, i - 1, i);
        }
    }
    return SL_OK;
}

sl_status sl_cuda_read_order(const sl_gpu_executable *base, sl_arena *arena, sl_edges *order,
                             sl_device_proof *out, sl_error *err) {
    const sl_cuda_executable *exe = (const sl_cuda_executable *)base;
    node_pairs pairs;
    SL_TRY(read_pairs(exe, arena, &pairs, err));
    SL_TRY(check_launches(exe, &pairs, out, err));
    out->edges += (uint32_t)pairs.count;
    return sort_pairs(exe, &pairs, arena, order, err);
}
