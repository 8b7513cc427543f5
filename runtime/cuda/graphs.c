/* graphs.c - Records CUDA graphs: a node per launch, the program's edges, and edges between steps
 * that share scratch. */
#include "runtime/cuda/executable.h"
#include "runtime/cuda/join.h"
#include <string.h>

/* ---- scratch ---- */

/* Steps of one op share scratch memory and are therefore ordered (each_pair). */
uint64_t sl_cuda_place_scratch(sl_gpu_executable *base) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    const sl_program *program = base->binding.program;
    uint64_t offsets[SL_OP_COUNT], total = 0;
    memset(exe->scratch_bytes, 0, sizeof exe->scratch_bytes);
    for (uint32_t s = 0; s < program->step_count; s++) {
        uint64_t *bytes = &exe->scratch_bytes[program->steps[s].op];
        if (base->steps[s].scratch_bytes > *bytes) *bytes = base->steps[s].scratch_bytes;
    }
    for (int op = 0; op < SL_OP_COUNT; op++) {
        offsets[op] = total;
        total += exe->scratch_bytes[op];
    }
    for (uint32_t s = 0; s < program->step_count; s++)
        base->steps[s].scratch_offset = offsets[program->steps[s].op];
    return total;
}

/* ---- what must be ordered ---- */

/* A segment, and its graph. */
typedef struct {
    sl_cuda_executable *exe;
    const sl_gpu_segment *segment;
    sl_cuda_graph *graph;
} recording;

static bool is_inside(const recording *r, uint32_t step) {
    const sl_cuda_task *tasks = r->exe->tasks;
    return step >= r->segment->first && step < r->segment->end &&
           (!r->graph->leveled || tasks[tasks[step].leader].level == r->graph->level);
}

/* Calls add(from, to) for each pair that must be ordered: the program's edges, steps that share
 * scratch, or each step and the next if the graph is chained. */
typedef void add_pair(void *ctx, uint32_t from, uint32_t to);

static void each_pair(const recording *r, add_pair *add, void *ctx) {
    const sl_program *program = r->exe->base.binding.program;
    const sl_gpu_segment *segment = r->segment;
    uint32_t last_of[SL_OP_COUNT];
    memset(last_of, 0xff, sizeof last_of);
    if (r->exe->base.gpu->options.chained || program->model != SL_SCHEDULE_EDGES) {
        for (uint32_t s = segment->first + 1; s < segment->end; s++) add(ctx, s - 1, s);
        return;
    }
    for (uint32_t s = segment->first; s < segment->end; s++) {
        if (!is_inside(r, s)) continue;
        for (uint32_t e = program->edges.first[s]; e < program->edges.first[s + 1]; e++)
            if (is_inside(r, program->edges.targets[e])) add(ctx, s, program->edges.targets[e]);
        const sl_op op = program->steps[s].op;
        if (!r->exe->scratch_bytes[op]) continue;
        if (last_of[op] != UINT32_MAX) add(ctx, last_of[op], s);
        last_of[op] = s;
    }
}

static void count_need(void *ctx, uint32_t from, uint32_t to) {
    sl_cuda_needs *n = ctx;
    (void)from;
    n->first[to + 2]++;
}
static void put_need(void *ctx, uint32_t from, uint32_t to) {
    sl_cuda_needs *n = ctx;
    n->from[n->first[to + 1]++] = from;
}

/* Counting sort by `to`: first[] is two ahead while counting and one ahead while filling. */
static sl_status find_needs(const recording *r, sl_arena *arena, sl_cuda_needs *out,
                            sl_error *err) {
    const uint32_t count = r->exe->base.binding.program->step_count;
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)count + 3);
    if (!out->first) return sl_no_memory(err, "the edges of a graph", count);
    each_pair(r, count_need, out);
    for (uint32_t s = 2; s < count + 3; s++) out->first[s] += out->first[s - 1];
    out->from = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)out->first[count + 2] + 1);
    if (!out->from) return sl_no_memory(err, "the edges of a graph", count);
    each_pair(r, put_need, out);
    return SL_OK;
}

/* ---- nodes and edges ---- */

/* Kernels wait for their predecessors themselves (follow() in kernels/cuda.cuh). */
static sl_status add_edges(const recording *r, const sl_cu_node *after, size_t after_count,
                           sl_cu_node node, sl_error *err) {
    static const sl_cu_edge edge = {.from_port = SL_CU_PORT_PROGRAMMATIC,
                                    .type = SL_CU_EDGE_PROGRAMMATIC};
    for (size_t i = 0; i < after_count; i++)
        SL_TRY_CUDA(&sl_cuda_device_of(r->exe)->driver,
                    graph_add_edges(r->graph->graph, &after[i], &node, &edge, 1),
                    "joining the nodes of a graph", err);
    return SL_OK;
}

static sl_status add_node(const recording *r, uint32_t index, sl_gpu_launch *launch,
                          sl_cu_function function, sl_error *err) {
    void *arguments[] = {launch->args};
    const sl_cu_kernel_node node = {.function = function,
                                    .grid_x = launch->grid[0],
                                    .grid_y = launch->grid[1],
                                    .grid_z = launch->grid[2],
                                    .block_x = launch->threads,
                                    .block_y = 1,
                                    .block_z = 1,
                                    .shared_bytes = launch->shared_bytes,
                                    .arguments = arguments};
    SL_TRY_CUDA(&sl_cuda_device_of(r->exe)->driver,
                graph_add_kernel(&r->exe->nodes[index], r->graph->graph, NULL, 0, &node),
                sl_cuda_fn_infos[launch->function].name, err);
    return SL_OK;
}

/* One node per launch of a leader, each after the previous one. */
static sl_status add_nodes(const recording *r, sl_error *err) {
    const sl_cuda_executable *exe = r->exe;
    for (uint32_t s = r->segment->first; s < r->segment->end; s++) {
        const sl_gpu_step *step = &exe->base.steps[s];
        sl_cuda_joined *joined = exe->tasks[s].joined;
        if (exe->tasks[s].leader != s || !is_inside(r, s)) continue;
        for (uint32_t i = 0; i < step->launch_count; i++) {
            const uint32_t at = step->first_launch + i;
            SL_TRY(add_node(r, at, joined ? &joined[i].launch : &exe->base.launches[at],
                            joined ? joined[i].function : exe->functions[at], err));
            if (i > 0) SL_TRY(add_edges(r, &exe->nodes[at - 1], 1, exe->nodes[at], err));
        }
    }
    return SL_OK;
}

/* Adds the last node of a step that s depends on to `after`, unless it is there or s is part of it.
 */
static size_t add_need(const sl_cuda_executable *exe, uint32_t s, uint32_t need, sl_cu_node *after,
                       size_t count) {
    const uint32_t leader = exe->tasks[need].leader;
    const sl_gpu_step *before = &exe->base.steps[leader];
    const sl_cu_node node = exe->nodes[before->first_launch + before->launch_count - 1];
    if (exe->tasks[s].leader == leader) return count;
    for (size_t i = 0; i < count; i++)
        if (after[i] == node) return count;
    after[count] = node;
    return count + 1;
}

/* The first node of a leader follows the last nodes of everything that its steps depend on; for
 * late steps it is the last node of the leader that follows them. */
static sl_status add_order(const recording *r, const sl_cuda_needs *n, sl_arena *arena,
                           sl_error *err) {
    const sl_cuda_executable *exe = r->exe;
    const uint32_t count = exe->base.binding.program->step_count;
    sl_cu_node *after = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, (size_t)count + 1);
    if (!after) return sl_no_memory(err, "the nodes of a graph", count);
    for (uint32_t s = r->segment->first; s < r->segment->end; s++) {
        if (exe->tasks[s].leader != s || !is_inside(r, s)) continue;
        for (int late = 0; late < 2; late++) {
            size_t after_count = 0;
            for (uint32_t m = s; m != UINT32_MAX; m = exe->tasks[m].next)
                for (uint32_t i = n->first[m]; i < n->first[m + 1]; i++)
                    if (exe->tasks[m].late == (late == 1))
                        after_count = add_need(exe, m, n->from[i], after, after_count);
            const sl_gpu_step *step = &exe->base.steps[s];
            const uint32_t node = step->first_launch + (late ? step->launch_count - 1 : 0);
            SL_TRY(add_edges(r, after, after_count, exe->nodes[node], err));
        }
    }
    return SL_OK;
}

/* ---- graphs ---- */

static sl_status make_graph(const recording *r, sl_error *err) {
    const sl_cuda_driver *driver = &sl_cuda_device_of(r->exe)->driver;
    const sl_gpu *gpu = r->exe->base.gpu;
    sl_cuda_graph *g = r->graph;
    sl_cuda_needs n;
    sl_arena arena;
    sl_arena_init(&arena, gpu->allocator);
    sl_status status = SL_OK;
    SL_TRY_ELSE(done, find_needs(r, &arena, &n, err));
    const sl_cu_result created = driver->graph_create(&g->graph, 0);
    SL_TRY_ELSE(done, created ? sl_cuda_fail(driver, created, "making a graph", err) : SL_OK);
    if (!gpu->options.apart && !g->leveled)
        SL_TRY_ELSE(done, sl_cuda_join(r->exe, r->segment, &n, err));
    SL_TRY_ELSE(done, add_nodes(r, err));
    SL_TRY_ELSE(done, add_order(r, &n, &arena, err));
    const sl_cu_result ready = driver->graph_instantiate(&g->exec, g->graph, 0);
    SL_TRY_ELSE(done, ready ? sl_cuda_fail(driver, ready, "making a graph", err) : SL_OK);
done:
    sl_arena_deinit(&arena);
    return status;
}

/* The steps of one row, joined as far as possible while experts stream. */
static sl_status cut_levels(sl_cuda_executable *exe, sl_error *err) {
    const sl_gpu_segment whole = {.end = exe->base.binding.program->step_count};
    sl_cuda_graph no_graph = {0};
    const recording r = {exe, &whole, &no_graph};
    sl_cuda_needs n;
    sl_arena arena;
    sl_arena_init(&arena, exe->base.gpu->allocator);
    sl_status status = find_needs(&r, &arena, &n, err);
    if (status == SL_OK) status = sl_cuda_join(exe, &whole, &n, err);
    if (status != SL_OK || !sl_cuda_level(exe, &n)) sl_cuda_unjoin(exe);
    sl_arena_deinit(&arena);
    return status;
}

/* Levels need joined steps and the edges schedule. */
static bool may_have_levels(const sl_cuda_executable *exe) {
    const sl_device_options *options = &exe->base.gpu->options;
    return exe->base.gpu->experts && exe->base.segment_count > 1 && !options->apart &&
           !options->eager && !options->chained &&
           exe->base.binding.program->model == SL_SCHEDULE_EDGES;
}

/* ---- recording ---- */

static sl_status make_room(sl_cuda_executable *exe, sl_error *err) {
    const uint32_t steps = exe->base.binding.program->step_count;
    const uint32_t launches = exe->base.launch_count;
    sl_arena *arena = &exe->base.arena;
    if (!exe->tasks) exe->tasks = SL_ARENA_NEW_ARRAY(arena, sl_cuda_task, (size_t)steps + 1);
    if (!exe->graphs) exe->graphs = SL_ARENA_NEW_ARRAY(arena, sl_cuda_graph, (size_t)steps + 1);
    if (!exe->tasks || !exe->graphs) return sl_no_memory(err, "graphs", steps);
    if (launches > exe->node_count) {
        exe->functions = SL_ARENA_NEW_ARRAY(arena, sl_cu_function, launches);
        exe->nodes = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, launches);
        if (!exe->functions || !exe->nodes) return sl_no_memory(err, "launches", launches);
        exe->node_count = launches;
    }
    for (uint32_t i = 0; i < launches; i++) exe->nodes[i] = NULL; /* from graphs built before */
    return SL_OK;
}

sl_status sl_cuda_record(sl_gpu_executable *base, sl_error *err) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    SL_TRY(make_room(exe, err));
    for (uint32_t i = 0; i < base->launch_count; i++)
        SL_TRY(sl_cuda_function_of(sl_cuda_device_of(exe), &base->launches[i], &exe->functions[i],
                                   err));
    sl_cuda_unjoin(exe);
    if (may_have_levels(exe)) SL_TRY(cut_levels(exe, err));
    for (uint32_t i = 0; i < base->segment_count; i++) {
        const recording r = {exe, &base->segments[i], &exe->graphs[i]};
        if (base->segments[i].alone || base->gpu->options.eager) continue;
        SL_TRY(make_graph(&r, err));
        base->segments[i].as_whole = true;
    }
    return SL_OK;
}

void sl_cuda_unrecord(sl_gpu_executable *base) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    const sl_cuda_driver *driver = &sl_cuda_device_of(exe)->driver;
    for (uint32_t i = 0; exe->graphs && i < base->segment_count; i++) {
        sl_cuda_graph *g = &exe->graphs[i];
        if (g->exec) (void)driver->graph_exec_destroy(g->exec);
        if (g->graph) (void)driver->graph_destroy(g->graph);
        *g = (sl_cuda_graph){0};
    }
}
