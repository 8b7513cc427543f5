/* build.c - Plans the launches of all steps, and builds CUDA graphs with the program's edges. */
#include "runtime/cuda/executable.h"
#include "runtime/cuda/join.h"
#include "runtime/gpu/experts.h"
#include <string.h>

/* ---- planning launches ---- */

/* Steps of one op share scratch memory and are therefore ordered. */
typedef struct {
    uint64_t bytes[SL_OP_COUNT], offset[SL_OP_COUNT], total;
} scratch_plan;

/* Plans the launches of one step into planner->launches. */
static sl_status plan_step(const sl_cuda_executable *exe, uint32_t s, sl_gpu_planner *planner,
                           sl_error *err) {
    const sl_step *step = &exe->base.binding.program->steps[s];
    const sl_cuda_task *task = &exe->tasks[s];
    uint32_t at;
    sl_gpu_fill_addresses(&exe->base, s);
    if (!task->kernel) return SL_OK;
    planner->label = step->label;
    planner->multiprocessors = exe->device->multiprocessors;
    planner->shared_limit = exe->device->shared_limit;
    planner->fault = (sl_fault *)(uintptr_t)exe->device->gpu.fault.address;
    if (exe->device->gpu.experts && sl_gpu_uses_experts(step, &at))
        planner->places = sl_gpu_experts_places(exe->device->gpu.experts, sl_gpu_layer_of(step));
    SL_TRY(task->kernel->plan(exe->base.steps[s].args, planner, err));
    if (!planner->count)
        return sl_fail(err, SL_UNSUPPORTED, "%s: the plan of %s launches nothing", step->label,
                       task->kernel->name);
    return SL_OK;
}

static sl_status measure(sl_cuda_executable *exe, scratch_plan *plan, uint32_t *out_launches,
                         sl_error *err) {
    const sl_program *program = exe->base.binding.program;
    sl_gpu_launch launches[SL_GPU_MAX_LAUNCHES];
    *plan = (scratch_plan){0};
    *out_launches = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        sl_gpu_planner planner = {.launches = launches};
        SL_TRY(plan_step(exe, s, &planner, err));
        *out_launches += planner.count;
        uint64_t *bytes = &plan->bytes[program->steps[s].op];
        if (planner.scratch_bytes > *bytes) *bytes = planner.scratch_bytes;
    }
    for (int op = 0; op < SL_OP_COUNT; op++) {
        plan->offset[op] = plan->total;
        plan->total += plan->bytes[op];
    }
    return SL_OK;
}

static sl_status plan_launches(sl_cuda_executable *exe, const scratch_plan *scratch,
                               uint32_t launches, sl_error *err) {
    const sl_program *program = exe->base.binding.program;
    if (launches > exe->launch_count) {
        exe->launches = SL_ARENA_NEW_ARRAY(&exe->base.arena, sl_gpu_launch, launches);
        exe->functions = SL_ARENA_NEW_ARRAY(&exe->base.arena, sl_cu_function, launches);
        exe->nodes = SL_ARENA_NEW_ARRAY(&exe->base.arena, sl_cu_node, launches);
        if (!exe->launches || !exe->functions || !exe->nodes)
            return sl_no_memory(err, "launches", launches);
    }
    exe->launch_count = 0;
    for (uint32_t i = 0; i < launches; i++) exe->nodes[i] = NULL; /* from graphs built before */
    for (uint32_t s = 0; s < program->step_count; s++) {
        const uint64_t offset = scratch->offset[program->steps[s].op];
        /* as many as were measured */
        sl_gpu_planner planner = {
            .launches = exe->launches + exe->launch_count,
            .scratch = (char *)(uintptr_t)(exe->device->gpu.scratch.address + offset)};
        SL_TRY(plan_step(exe, s, &planner, err));
        exe->tasks[s].scratch_offset = offset;
        exe->tasks[s].scratch_bytes = planner.scratch_bytes;
        exe->tasks[s].first_launch = exe->launch_count;
        exe->tasks[s].launch_count = planner.count;
        for (uint32_t i = 0; i < planner.count; i++, exe->launch_count++)
            SL_TRY(sl_cuda_function_of(exe->device, &exe->launches[exe->launch_count],
                                       &exe->functions[exe->launch_count], err));
    }
    return SL_OK;
}

/* ---- segments ---- */

static void close_segment(sl_cuda_executable *exe, uint32_t end, bool alone) {
    const uint32_t first = exe->segment_count ? exe->segments[exe->segment_count - 1].end : 0;
    if (first == end) return;
    exe->segments[exe->segment_count++] =
        (sl_cuda_segment){.first = first, .end = end, .alone = alone};
}

/* If all experts are on the device, everything is one segment, except for steps that the host runs.
 * Otherwise a segment ends after each step that tells which experts are needed, and a step that
 * needs them is a segment of its own. */
static sl_status cut(sl_cuda_executable *exe, sl_error *err) {
    const sl_program *program = exe->base.binding.program;
    const bool split = !sl_gpu_experts_all_here(exe->device->gpu.experts);
    if (!exe->segments) {
        exe->segments = SL_ARENA_NEW_ARRAY(&exe->base.arena, sl_cuda_segment,
                                           3 * (size_t)program->step_count + 1);
        if (!exe->segments) return sl_no_memory(err, "segments", program->step_count);
    }
    exe->segment_count = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const uint32_t traits = sl_op_info_of(program->steps[s].op)->traits;
        if (split && (traits & SL_OP_REQUESTS)) close_segment(exe, s + 1, false);
        if (!exe->tasks[s].kernel || (split && (traits & SL_OP_STREAMS))) {
            close_segment(exe, s, false);
            close_segment(exe, s + 1, true);
        }
    }
    close_segment(exe, program->step_count, false);
    return SL_OK;
}

/* ---- graphs ---- */

static bool is_inside(const sl_cuda_executable *exe, const sl_cuda_segment *g, uint32_t step) {
    const uint32_t leader = exe->tasks[step].leader;
    return step >= g->first && step < g->end &&
           (!g->leveled || exe->tasks[leader].level == g->level);
}

/* Calls add(from, to) for each pair that must be ordered: the program's edges, steps that share
 * scratch, or each step and the next if the graph is chained. */
typedef struct {
    const sl_cuda_executable *exe;
    const sl_cuda_segment *segment;
    const scratch_plan *scratch;
} pair_source;
typedef void add_pair(void *ctx, uint32_t from, uint32_t to);

static void each_pair(const pair_source *p, add_pair *add, void *ctx) {
    const sl_program *program = p->exe->base.binding.program;
    const sl_cuda_segment *g = p->segment;
    uint32_t last_of[SL_OP_COUNT];
    memset(last_of, 0xff, sizeof last_of);
    if (p->exe->device->gpu.options.chained || program->model != SL_SCHEDULE_EDGES) {
        for (uint32_t s = g->first + 1; s < g->end; s++) add(ctx, s - 1, s);
        return;
    }
    for (uint32_t s = g->first; s < g->end; s++) {
        if (!is_inside(p->exe, g, s)) continue;
        for (uint32_t e = program->edges.first[s]; e < program->edges.first[s + 1]; e++)
            if (is_inside(p->exe, g, program->edges.targets[e]))
                add(ctx, s, program->edges.targets[e]);
        const sl_op op = program->steps[s].op;
        if (!p->scratch->bytes[op]) continue;
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
static sl_status find_needs(const pair_source *p, sl_arena *arena, sl_cuda_needs *out,
                            sl_error *err) {
    const uint32_t count = p->exe->base.binding.program->step_count;
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)count + 3);
    if (!out->first) return sl_no_memory(err, "the edges of a graph", count);
    each_pair(p, count_need, out);
    for (uint32_t s = 2; s < count + 3; s++) out->first[s] += out->first[s - 1];
    out->from = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)out->first[count + 2] + 1);
    if (!out->from) return sl_no_memory(err, "the edges of a graph", count);
    each_pair(p, put_need, out);
    return SL_OK;
}

/* Kernels wait for their predecessors themselves (follow() in kernels/cuda.cuh). */
static sl_status add_edges(const sl_cuda_executable *exe, sl_cu_graph graph,
                           const sl_cu_node *after, size_t after_count, sl_cu_node node,
                           sl_error *err) {
    static const sl_cu_edge edge = {.from_port = SL_CU_PORT_PROGRAMMATIC,
                                    .type = SL_CU_EDGE_PROGRAMMATIC};
    for (size_t i = 0; i < after_count; i++)
        SL_TRY_CUDA(&exe->device->driver, graph_add_edges(graph, &after[i], &node, &edge, 1),
                    "joining the nodes of a graph", err);
    return SL_OK;
}

static sl_status add_node(const sl_cuda_executable *exe, sl_cu_graph graph, uint32_t index,
                          sl_gpu_launch *launch, sl_cu_function function, sl_error *err) {
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
    SL_TRY_CUDA(&exe->device->driver, graph_add_kernel(&exe->nodes[index], graph, NULL, 0, &node),
                sl_cuda_fn_infos[launch->function].name, err);
    return SL_OK;
}

/* One node per launch of a leader, each after the previous one. */
static sl_status add_nodes(const sl_cuda_executable *exe, const sl_cuda_segment *g, sl_error *err) {
    for (uint32_t s = g->first; s < g->end; s++) {
        const sl_cuda_task *task = &exe->tasks[s];
        const uint32_t end = task->first_launch + task->launch_count;
        if (task->leader != s || !is_inside(exe, g, s)) continue;
        for (uint32_t i = task->first_launch; i < end; i++) {
            sl_cuda_joined *joined = task->joined ? &task->joined[i - task->first_launch] : NULL;
            SL_TRY(add_node(exe, g->graph, i, joined ? &joined->launch : &exe->launches[i],
                            joined ? joined->function : exe->functions[i], err));
            if (i > task->first_launch)
                SL_TRY(add_edges(exe, g->graph, &exe->nodes[i - 1], 1, exe->nodes[i], err));
        }
    }
    return SL_OK;
}

/* Adds the last node of a step that s depends on to `after`, unless it is there or s is part of it.
 */
static size_t add_need(const sl_cuda_executable *exe, uint32_t s, uint32_t need, sl_cu_node *after,
                       size_t count) {
    const uint32_t leader = exe->tasks[need].leader;
    const sl_cuda_task *before = &exe->tasks[leader];
    const sl_cu_node node = exe->nodes[before->first_launch + before->launch_count - 1];
    if (exe->tasks[s].leader == leader) return count;
    for (size_t i = 0; i < count; i++)
        if (after[i] == node) return count;
    after[count] = node;
    return count + 1;
}

/* The first node of a leader follows the last nodes of everything that its steps depend on; for
 * late steps it is the last node of the leader that follows them. */
static sl_status add_order(const sl_cuda_executable *exe, const sl_cuda_segment *g,
                           const sl_cuda_needs *n, sl_arena *arena, sl_error *err) {
    const uint32_t count = exe->base.binding.program->step_count;
    sl_cu_node *after = SL_ARENA_NEW_ARRAY(arena, sl_cu_node, (size_t)count + 1);
    if (!after) return sl_no_memory(err, "the nodes of a graph", count);
    for (uint32_t s = g->first; s < g->end; s++) {
        if (exe->tasks[s].leader != s || !is_inside(exe, g, s)) continue;
        for (int late = 0; late < 2; late++) {
            size_t after_count = 0;
            for (uint32_t m = s; m != UINT32_MAX; m = exe->tasks[m].next)
                for (uint32_t i = n->first[m]; i < n->first[m + 1]; i++)
                    if (exe->tasks[m].late == (late == 1))
                        after_count = add_need(exe, m, n->from[i], after, after_count);
            const sl_cuda_task *task = &exe->tasks[s];
            const uint32_t node = task->first_launch + (late ? task->launch_count - 1 : 0);
            SL_TRY(add_edges(exe, g->graph, after, after_count, exe->nodes[node], err));
        }
    }
    return SL_OK;
}

static sl_status make_graph(sl_cuda_executable *exe, sl_cuda_segment *g,
                            const scratch_plan *scratch, sl_error *err) {
    const sl_cuda_driver *driver = &exe->device->driver;
    const pair_source pairs = {exe, g, scratch};
    sl_cuda_needs n;
    sl_arena arena;
    sl_arena_init(&arena, exe->device->gpu.allocator);
    sl_status status = SL_OK;
    SL_TRY_ELSE(done, find_needs(&pairs, &arena, &n, err));
    const sl_cu_result created = driver->graph_create(&g->graph, 0);
    SL_TRY_ELSE(done, created ? sl_cuda_fail(driver, created, "making a graph", err) : SL_OK);
    if (!exe->device->gpu.options.apart && !g->leveled)
        SL_TRY_ELSE(done, sl_cuda_join(exe, g, &n, err));
    SL_TRY_ELSE(done, add_nodes(exe, g, err));
    SL_TRY_ELSE(done, add_order(exe, g, &n, &arena, err));
    const sl_cu_result ready = driver->graph_instantiate(&g->exec, g->graph, 0);
    SL_TRY_ELSE(done, ready ? sl_cuda_fail(driver, ready, "making a graph", err) : SL_OK);
done:
    sl_arena_deinit(&arena);
    return status;
}

/* The steps of one row, joined as far as possible while experts stream. */
static sl_status cut_levels(sl_cuda_executable *exe, const scratch_plan *scratch, sl_error *err) {
    const sl_cuda_segment whole = {.end = exe->base.binding.program->step_count};
    const pair_source pairs = {exe, &whole, scratch};
    sl_cuda_needs n;
    sl_arena arena;
    sl_arena_init(&arena, exe->device->gpu.allocator);
    sl_status status = find_needs(&pairs, &arena, &n, err);
    if (status == SL_OK) status = sl_cuda_join(exe, &whole, &n, err);
    if (status != SL_OK || !sl_cuda_level(exe, &n)) sl_cuda_unjoin(exe);
    sl_arena_deinit(&arena);
    return status;
}

/* Levels need joined steps and the edges schedule. */
static bool may_have_levels(const sl_cuda_executable *exe) {
    const sl_device_options *options = &exe->device->gpu.options;
    return exe->device->gpu.experts && exe->segment_count > 1 && !options->apart &&
           !options->eager && !options->chained &&
           exe->base.binding.program->model == SL_SCHEDULE_EDGES;
}

static sl_status make_graphs(sl_cuda_executable *exe, const scratch_plan *scratch, sl_error *err) {
    sl_cuda_unjoin(exe);
    if (may_have_levels(exe)) SL_TRY(cut_levels(exe, scratch, err));
    for (uint32_t i = 0; i < exe->segment_count; i++)
        if (!exe->segments[i].alone && !exe->device->gpu.options.eager)
            SL_TRY(make_graph(exe, &exe->segments[i], scratch, err));
    return SL_OK;
}

void sl_cuda_unbuild(sl_gpu_executable *base) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    const sl_cuda_driver *driver = &((sl_cuda_device *)base->gpu)->driver;
    for (uint32_t i = 0; i < exe->segment_count; i++) {
        if (exe->segments[i].exec) (void)driver->graph_exec_destroy(exe->segments[i].exec);
        if (exe->segments[i].graph) (void)driver->graph_destroy(exe->segments[i].graph);
    }
    exe->segment_count = 0;
}

static bool is_built(const sl_cuda_executable *exe) {
    return !exe->base.rebound && exe->built_arena == exe->base.activations->address &&
           exe->built_scratch == exe->device->gpu.scratch.address;
}

sl_status sl_cuda_build(sl_gpu_executable *base, sl_error *err) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    sl_gpu *gpu = base->gpu;
    if (is_built(exe)) return SL_OK;
    scratch_plan scratch;
    uint32_t launches = 0;
    sl_cuda_unbuild(base);
    base->rebound = true;
    SL_TRY(sl_binding_check(&base->binding, err));
    SL_TRY(sl_gpu_open_experts(base, err));
    SL_TRY(sl_gpu_build_hosted(base, err));
    SL_TRY(measure(exe, &scratch, &launches, err));
    SL_TRY(sl_gpu_ensure(gpu, &gpu->scratch, scratch.total, "kernel scratch", err));
    SL_TRY(plan_launches(exe, &scratch, launches, err));
    SL_TRY(cut(exe, err));
    SL_TRY(make_graphs(exe, &scratch, err));
    exe->built_arena = base->activations->address;
    exe->built_scratch = gpu->scratch.address;
    base->rebound = false;
    return SL_OK;
}
