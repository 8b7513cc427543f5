/* run.c - Running on the CUDA device: inputs in, segments, outputs out. */
#include "base/clock.h"
#include "runtime/cuda/executable.h"
#include "runtime/cuda/experts.h"
#include <string.h>

/* ---- launches ---- */

static sl_status launch_one(const sl_cuda_executable *exe, sl_cuda_launch *l,
                            sl_cu_function function, sl_error *err) {
    void *arguments[] = {l->args};
    SL_TRY_CUDA(&exe->device->driver,
                launch(function, l->grid[0], l->grid[1], l->grid[2], l->threads, 1, 1,
                       l->shared_bytes, exe->device->stream, arguments, NULL),
                sl_cuda_fn_infos[l->function].name, err);
    return SL_OK;
}
static sl_status launch_step(sl_cuda_executable *exe, uint32_t s, sl_error *err) {
    const sl_cuda_task *task = &exe->tasks[s];
    for (uint32_t i = task->first_launch; i < task->first_launch + task->launch_count; i++)
        SL_TRY(launch_one(exe, &exe->launches[i], exe->functions[i], err));
    return SL_OK;
}
/* With the steps that joined it. */
static sl_status launch_joined(sl_cuda_executable *exe, uint32_t leader, sl_error *err) {
    const sl_cuda_task *task = &exe->tasks[leader];
    for (uint32_t i = 0; i < task->launch_count; i++)
        SL_TRY(launch_one(exe, &task->joined[i].launch, task->joined[i].function, err));
    return SL_OK;
}

static sl_status mark(const sl_cuda_executable *exe, uint32_t event, sl_error *err) {
    SL_TRY_CUDA(&exe->device->driver, event_record(exe->events[event], exe->device->stream),
                "tracing", err);
    return SL_OK;
}

/* ---- experts ---- */

/* The experts that a moe_group found in use, once it has run. */
static sl_status request_experts(sl_cuda_executable *exe, const sl_step *step, sl_error *err) {
    const sl_operand *starts = &step->operands[3];
    const uint32_t experts = (uint32_t)starts->type.shape.dims[0] - 1;
    SL_TRY_CUDA(&exe->device->driver,
                copy_out(exe->starts, sl_cuda_resolve(exe, starts), (experts + 1) * sizeof(int32_t),
                         exe->device->stream),
                "learning which experts are needed", err);
    SL_TRY(sl_cuda_wait(exe->device, err));
    uint32_t count = 0;
    int32_t *used = exe->starts; /* read ahead of where it is written */
    for (uint32_t e = 0; e < experts; e++) {
        const int32_t pairs = exe->starts[e + 1] - exe->starts[e];
        if (pairs > 0) used[count++] = (int32_t)e;
    }
    const uint32_t layer = ((const sl_moe_group_attrs *)step->attrs)->layer;
    return sl_cuda_experts_begin(exe->device->experts, layer, used, count, err);
}

static sl_status run_streaming(sl_cuda_executable *exe, uint32_t s, sl_error *err) {
    uint32_t left = 0;
    do {
        SL_TRY(sl_cuda_experts_round(exe->device->experts, &left, err));
        SL_TRY(launch_step(exe, s, err));
    } while (left > 0);
    return SL_OK;
}

/* A row's experts together with their routing, which is done once before for the host to see, and
 * their sum; or one by one where not all of them have room at once. */
static sl_status run_joined_streaming(sl_cuda_executable *exe, uint32_t ffn, sl_error *err) {
    const sl_step *steps = exe->binding.program->steps;
    uint32_t left = 0, sum = ffn;
    for (uint32_t m = ffn; m != UINT32_MAX; m = exe->tasks[m].next)
        if (steps[m].op == SL_OP_route) SL_TRY(launch_step(exe, m, err));
    for (uint32_t m = ffn; m != UINT32_MAX; m = exe->tasks[m].next) {
        if (exe->tasks[m].late) sum = m;
        if (steps[m].op != SL_OP_moe_group) continue;
        SL_TRY(launch_step(exe, m, err));
        SL_TRY(request_experts(exe, &steps[m], err));
    }
    SL_TRY(sl_cuda_experts_round(exe->device->experts, &left, err));
    if (!left) return launch_joined(exe, ffn, err);
    SL_TRY(launch_step(exe, ffn, err));
    SL_TRY(run_streaming(exe, ffn, err));
    return launch_step(exe, sum, err);
}

/* ---- segments ---- */

static sl_status run_one(sl_cuda_executable *exe, uint32_t s, sl_error *err) {
    const sl_step *step = &exe->binding.program->steps[s];
    const uint32_t traits = sl_op_info_of(step->op)->traits;
    const bool split = !sl_cuda_experts_all_here(exe->device->experts);
    if (!exe->tasks[s].kernel) return sl_cuda_hosted(step->op)(exe, s, err);
    if (split && (traits & SL_OP_STREAMS)) return run_streaming(exe, s, err);
    SL_TRY(launch_step(exe, s, err));
    return split && (traits & SL_OP_REQUESTS) ? request_experts(exe, step, err) : SL_OK;
}

static sl_status run_segment(sl_cuda_executable *exe, const sl_cuda_segment *g, sl_error *err) {
    if (g->alone && g->leveled) return run_joined_streaming(exe, g->first, err);
    if (!g->exec) {
        for (uint32_t s = g->first; s < g->end; s++) SL_TRY(run_one(exe, s, err));
        return SL_OK;
    }
    SL_TRY_CUDA(&exe->device->driver, graph_launch(g->exec, exe->device->stream),
                "launching a graph", err);
    const sl_step *last = &exe->binding.program->steps[g->end - 1];
    const bool requests = sl_op_info_of(last->op)->traits & SL_OP_REQUESTS;
    if (requests && !g->leveled && !sl_cuda_experts_all_here(exe->device->experts))
        return request_experts(exe, last, err);
    return SL_OK;
}

sl_status sl_cuda_launch_segments(sl_cuda_executable *exe, sl_error *err) {
    for (uint32_t i = 0; i < exe->segment_count; i++)
        SL_TRY(run_segment(exe, &exe->segments[i], err));
    return SL_OK;
}

/* Steps follow each other while they are traced. */
static sl_status run_traced(sl_cuda_executable *exe, sl_error *err) {
    SL_TRY(mark(exe, 0, err));
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        SL_TRY(run_one(exe, s, err));
        SL_TRY(mark(exe, s + 1, err));
    }
    return SL_OK;
}

/* By way of pinned memory, which must stay as it is until they are there. */
static sl_status copy_inputs(sl_cuda_executable *exe, char *pinned, sl_error *err) {
    const sl_program *program = exe->binding.program;
    if (!exe->inputs_bytes) return SL_OK;
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == SL_BUFFER_INPUT)
            memcpy(pinned + exe->local_offsets[b], exe->binding.data[b], program->buffers[b].bytes);
    SL_TRY_CUDA(&exe->device->driver,
                copy_in(exe->locals.address, pinned, exe->inputs_bytes, exe->device->stream),
                "copying inputs", err);
    return SL_OK;
}

/* What a kernel could not do; the report is cleared for the next run. */
static sl_status check_fault(const sl_cuda_executable *exe, sl_error *err) {
    static const struct {
        const char *what;
        bool ranged;
    } faults[] = {
#define FAULT(NAME, WHAT, RANGED) {WHAT, RANGED},
        SL_FAULTS(FAULT)
#undef FAULT
    };
    const sl_fault *fault =
        (const void *)(exe->outputs + exe->output_offsets[exe->binding.program->output_count]);
    if (fault->kind == SL_FAULT_NONE) return SL_OK;
    SL_TRY_CUDA(&exe->device->driver,
                fill(exe->device->fault.address, 0, sizeof *fault, exe->device->stream),
                "clearing a fault", err);
    const int kind = fault->kind < SL_FAULT_COUNT ? fault->kind : 0;
    if (!faults[kind].ranged)
        return sl_fail(err, SL_INVALID, "%s %d", faults[kind].what, fault->row);
    return sl_fail(err, SL_INVALID, "%s of row %d is %d, must be in [0, %d)", faults[kind].what,
                   fault->row, fault->value, fault->limit);
}

/* Graphs write it to the host themselves; they are not used while steps are traced. */
static bool is_direct(const sl_cuda_executable *exe, uint32_t output) {
    return !exe->trace && output < 32 && (exe->direct_outputs >> output & 1);
}

static sl_status copy_output(sl_cuda_executable *exe, uint32_t index, char *to, sl_error *err) {
    const sl_operand *operand = &exe->binding.program->outputs[index].operand;
    SL_TRY_CUDA(&exe->device->driver,
                copy_out(to + exe->output_offsets[index], sl_cuda_resolve(exe, operand),
                         sl_type_bytes(&operand->type), exe->device->stream),
                "copying results", err);
    return SL_OK;
}
static sl_status copy_fault(sl_cuda_executable *exe, char *to, sl_error *err) {
    SL_TRY_CUDA(&exe->device->driver,
                copy_out(to + exe->output_offsets[exe->binding.program->output_count],
                         exe->device->fault.address, sizeof(sl_fault), exe->device->stream),
                "copying results", err);
    return SL_OK;
}

sl_status sl_cuda_settle(sl_cuda_executable *exe, sl_error *err) {
    SL_TRY(copy_fault(exe, exe->outputs, err));
    SL_TRY(sl_cuda_wait(exe->device, err));
    return check_fault(exe, err);
}

/* `as_graph`: those that graphs write there themselves are there already. */
static sl_status copy_outputs(sl_cuda_executable *exe, bool as_graph, sl_error *err) {
    for (uint32_t i = 0; i < exe->binding.program->output_count; i++)
        if (!as_graph || !is_direct(exe, i)) SL_TRY(copy_output(exe, i, exe->outputs, err));
    return sl_cuda_settle(exe, err);
}

/* ---- traces ---- */

static void drop_events(sl_cuda_executable *exe) {
    for (uint32_t i = 0; exe->events && i <= exe->binding.program->step_count; i++)
        if (exe->events[i]) (void)exe->device->driver.event_destroy(exe->events[i]);
    if (exe->events)
        memset(exe->events, 0, (exe->binding.program->step_count + 1) * sizeof(sl_cu_event));
}

void sl_cuda_attach(sl_cuda_executable *exe, sl_trace *trace) {
    exe->trace = NULL;
    exe->run_number = 0;
    if (sl_cuda_enter(exe->device, NULL) != SL_OK) return;
    drop_events(exe);
    const uint32_t count = exe->binding.program->step_count + 1;
    if (trace && !exe->events) exe->events = SL_ARENA_NEW_ARRAY(&exe->arena, sl_cu_event, count);
    bool made = trace && exe->events;
    for (uint32_t i = 0; made && i < count; i++)
        made = !exe->device->driver.event_create(&exe->events[i], SL_CU_EVENT_DEFAULT);
    if (made) exe->trace = trace;
    sl_cuda_leave(exe->device);
}

/* Of steps one after another: one ends where the next begins. */
static void record_events(sl_cuda_executable *exe, double begin) {
    sl_trace *trace = exe->trace;
    float before = 0;
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        float after = before;
        (void)exe->device->driver.event_elapsed(&after, exe->events[0], exe->events[s + 1]);
        if (trace->count < trace->capacity)
            trace->events[trace->count++] = (sl_trace_event){.step = s,
                                                             .begin = begin + 1e-3 * before,
                                                             .end = begin + 1e-3 * after,
                                                             .run = exe->run_number};
        else
            trace->dropped++;
        before = after;
    }
    exe->run_number++;
}

/* ---- runs ---- */

static sl_status launch_all(sl_cuda_executable *exe, char *inputs, sl_error *err) {
    SL_TRY(sl_cuda_build(exe, err));
    SL_TRY(copy_inputs(exe, inputs, err));
    const double begin = sl_clock_seconds();
    SL_TRY(exe->trace ? run_traced(exe, err) : sl_cuda_launch_segments(exe, err));
    exe->device->launch_seconds += sl_clock_seconds() - begin;
    exe->device->runs++;
    return SL_OK;
}

static sl_status run_inside(sl_cuda_executable *exe, sl_error *err) {
    const double begin = sl_clock_seconds();
    SL_TRY(launch_all(exe, exe->inputs, err));
    SL_TRY(copy_outputs(exe, true, err));
    if (exe->trace) record_events(exe, begin);
    return SL_OK;
}

/* A run that failed leaves nothing behind. */
static sl_status leave(const sl_cuda_executable *exe, sl_status status) {
    if (status != SL_OK && exe->device->experts) sl_cuda_experts_settle(exe->device->experts);
    sl_cuda_leave(exe->device);
    return status;
}

sl_status sl_cuda_run(sl_cuda_executable *exe, sl_error *err) {
    SL_TRY(sl_cuda_enter(exe->device, err));
    return leave(exe, run_inside(exe, err));
}

/* ---- runs that nobody waits for ---- */

/* What every run that was started leaves behind, for its own sake. */
static bool is_small(const sl_cuda_executable *exe, uint32_t output) {
    const sl_type *type = &exe->binding.program->outputs[output].operand.type;
    return sl_type_bytes(type) <= SL_CUDA_SMALL_RESULT && !is_direct(exe, output);
}

void sl_cuda_drop_flights(sl_cuda_executable *exe) {
    const sl_allocator *pinned = &exe->device->pinned;
    if (exe->started != exe->finished)
        (void)exe->device->driver.stream_synchronise(exe->device->stream);
    for (uint32_t i = 0; i < SL_CUDA_FLIGHTS; i++) {
        sl_cuda_flight *f = &exe->flights[i];
        if (f->inputs) (void)sl_resize(pinned, f->inputs, exe->inputs_bytes, 0, 64);
        if (f->results) (void)sl_resize(pinned, f->results, exe->outputs_bytes, 0, 64);
        if (f->done) (void)exe->device->driver.event_destroy(f->done);
        *f = (sl_cuda_flight){0};
    }
}

static sl_status make_flight(sl_cuda_executable *exe, sl_cuda_flight *f, sl_error *err) {
    const sl_allocator *pinned = &exe->device->pinned;
    if (!f->inputs && exe->inputs_bytes)
        f->inputs = sl_resize(pinned, NULL, 0, exe->inputs_bytes, 64);
    if (!f->results) f->results = sl_resize(pinned, NULL, 0, exe->outputs_bytes, 64);
    if (!f->results || (exe->inputs_bytes && !f->inputs))
        return sl_no_memory(err, "inputs and results", exe->inputs_bytes + exe->outputs_bytes);
    if (!f->done)
        SL_TRY_CUDA(&exe->device->driver, event_create(&f->done, SL_CU_EVENT_NO_TIMING),
                    "starting a run", err);
    return SL_OK;
}

static sl_status start_inside(sl_cuda_executable *exe, sl_error *err) {
    sl_cuda_flight *f = &exe->flights[exe->started % SL_CUDA_FLIGHTS];
    SL_TRY(make_flight(exe, f, err));
    SL_TRY(launch_all(exe, f->inputs, err));
    for (uint32_t i = 0; i < exe->binding.program->output_count; i++)
        if (is_small(exe, i)) SL_TRY(copy_output(exe, i, f->results, err));
    SL_TRY(copy_fault(exe, f->results, err));
    SL_TRY_CUDA(&exe->device->driver, event_record(f->done, exe->device->stream), "starting a run",
                err);
    exe->started++;
    return SL_OK;
}

sl_status sl_cuda_start(sl_cuda_executable *exe, sl_error *err) {
    if (exe->started - exe->finished == SL_CUDA_FLIGHTS)
        return sl_fail(err, SL_INVALID, "%d runs are under way already", SL_CUDA_FLIGHTS);
    SL_TRY(sl_cuda_enter(exe->device, err));
    const sl_status status = start_inside(exe, err);
    if (status != SL_OK)
        (void)exe->device->driver.stream_synchronise(
            exe->device->stream); /* for what was launched of it */
    return leave(exe, status);
}

static sl_status finish_inside(sl_cuda_executable *exe, sl_error *err) {
    const sl_cuda_flight *f = &exe->flights[exe->finished++ % SL_CUDA_FLIGHTS];
    const sl_program *program = exe->binding.program;
    SL_TRY_CUDA(&exe->device->driver, event_synchronise(f->done), "running on the CUDA device",
                err);
    for (uint32_t i = 0; i < program->output_count; i++)
        if (is_small(exe, i))
            memcpy(exe->outputs + exe->output_offsets[i], f->results + exe->output_offsets[i],
                   sl_type_bytes(&program->outputs[i].operand.type));
    const uint64_t fault = exe->output_offsets[program->output_count];
    memcpy(exe->outputs + fault, f->results + fault, sizeof(sl_fault));
    return check_fault(exe, err);
}

sl_status sl_cuda_finish(sl_cuda_executable *exe, sl_error *err) {
    if (exe->started == exe->finished) return sl_fail(err, SL_INVALID, "no run is under way");
    SL_TRY(sl_cuda_enter(exe->device, err));
    return leave(exe, finish_inside(exe, err));
}

static sl_status fetch_inside(sl_cuda_executable *exe, uint32_t output, sl_error *err) {
    SL_TRY(copy_output(exe, output, exe->outputs, err));
    return sl_cuda_wait(exe->device, err);
}

sl_status sl_cuda_fetch(sl_cuda_executable *exe, uint32_t output, sl_error *err) {
    if (is_small(exe, output) || is_direct(exe, output)) return SL_OK;
    SL_TRY(sl_cuda_enter(exe->device, err));
    return leave(exe, fetch_inside(exe, output, err));
}

/* ---- one step after another ---- */

static sl_status run_in_order(sl_cuda_executable *exe, const uint32_t *order, sl_error *err) {
    SL_TRY(sl_cuda_build(exe, err));
    SL_TRY(copy_inputs(exe, exe->inputs, err));
    for (uint32_t i = 0; i < exe->binding.program->step_count; i++)
        SL_TRY(run_one(exe, order ? order[i] : i, err));
    return copy_outputs(exe, false, err);
}

sl_status sl_cuda_run_serially(sl_cuda_executable *exe, const uint32_t *order, sl_error *err) {
    const uint32_t count = exe->binding.program->step_count;
    for (uint32_t i = 0; order && i < count; i++)
        if (order[i] >= count)
            return sl_fail(err, SL_INVALID, "an order with step %u: the program has %u", order[i],
                           count);
    SL_TRY(sl_cuda_enter(exe->device, err));
    return leave(exe, run_in_order(exe, order, err));
}

static sl_status step_inside(sl_cuda_executable *exe, uint32_t step, sl_error *err) {
    SL_TRY(sl_cuda_build(exe, err));
    if (step == 0) SL_TRY(copy_inputs(exe, exe->inputs, err));
    SL_TRY(run_one(exe, step, err));
    return sl_cuda_wait(exe->device, err);
}

sl_status sl_cuda_run_step(sl_cuda_executable *exe, uint32_t step, sl_error *err) {
    const uint32_t count = exe->binding.program->step_count;
    if (step >= count) return sl_fail(err, SL_INVALID, "step %u: the program has %u", step, count);
    SL_TRY(sl_cuda_enter(exe->device, err));
    return leave(exe, step_inside(exe, step, err));
}
