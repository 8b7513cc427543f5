/* run.c - Running an executable: inputs in, all steps, outputs out. */
#include "base/clock.h"
#include "runtime/gpu/executable.h"
#include "runtime/gpu/experts.h"
#include <string.h>

/* ---- steps ---- */

sl_status sl_gpu_submit_any(sl_gpu_executable *exe, uint32_t s, sl_error *err) {
    const sl_step *step = &exe->binding.program->steps[s];
    const uint32_t traits = sl_op_info_of(step->op)->traits;
    const bool split = !sl_gpu_experts_all_here(exe->gpu->experts);
    if (!exe->steps[s].kernel) return sl_gpu_hosted(step->op)(exe, s, err);
    if (split && (traits & SL_OP_STREAMS)) return sl_gpu_submit_streaming(exe, s, err);
    SL_TRY(exe->gpu->calls->submit_step(exe, s, err));
    return split && (traits & SL_OP_REQUESTS) ? sl_gpu_request_experts(exe, step, err) : SL_OK;
}

static sl_status submit_segment(sl_gpu_executable *exe, uint32_t index, sl_error *err) {
    const sl_gpu_segment *segment = &exe->segments[index];
    if (segment->as_whole) {
        SL_TRY(exe->gpu->calls->submit_segment(exe, index, err));
        const sl_step *last = &exe->binding.program->steps[segment->end - 1];
        return segment->requests ? sl_gpu_request_experts(exe, last, err) : SL_OK;
    }
    for (uint32_t s = segment->first; s < segment->end; s++) SL_TRY(sl_gpu_submit_any(exe, s, err));
    return SL_OK;
}

sl_status sl_gpu_submit(sl_gpu_executable *exe, sl_error *err) {
    for (uint32_t i = 0; i < exe->segment_count; i++) SL_TRY(submit_segment(exe, i, err));
    return SL_OK;
}

static sl_status mark(const sl_gpu_executable *exe, uint32_t index, sl_error *err) {
    return exe->gpu->calls->fence_record(exe->gpu, SL_GPU_WORK, exe->marks[index], err);
}

/* Traced steps run one after another. */
static sl_status run_traced(sl_gpu_executable *exe, sl_error *err) {
    SL_TRY(mark(exe, 0, err));
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        SL_TRY(sl_gpu_submit_any(exe, s, err));
        SL_TRY(mark(exe, s + 1, err));
    }
    return SL_OK;
}

/* Through pinned memory, which must stay unchanged until the copy is done. */
static sl_status copy_inputs(sl_gpu_executable *exe, char *pinned, sl_error *err) {
    const sl_program *program = exe->binding.program;
    if (!exe->inputs_bytes) return SL_OK;
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == SL_BUFFER_INPUT)
            memcpy(pinned + exe->local_offsets[b], exe->binding.data[b], program->buffers[b].bytes);
    return exe->gpu->calls->copy_in(exe->gpu, SL_GPU_WORK, exe->locals.address, pinned,
                                    exe->inputs_bytes, err);
}

/* Turns the fault that a kernel reported into an error, and clears it for the next run. */
static sl_status check_fault(const sl_gpu_executable *exe, sl_error *err) {
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
    SL_TRY(
        exe->gpu->calls->clear(exe->gpu, SL_GPU_WORK, exe->gpu->fault.address, sizeof *fault, err));
    const int kind = fault->kind < SL_FAULT_COUNT ? fault->kind : 0;
    if (!faults[kind].ranged)
        return sl_fail(err, SL_INVALID, "%s %d", faults[kind].what, fault->row);
    return sl_fail(err, SL_INVALID, "%s of row %d is %d, must be in [0, %d)", faults[kind].what,
                   fault->row, fault->value, fault->limit);
}

/* Whether kernels write the output to the host; traced steps do not. */
static bool is_direct(const sl_gpu_executable *exe, uint32_t output) {
    return !exe->trace && output < SL_GPU_DIRECT_OUTPUTS && (exe->direct_outputs >> output & 1);
}

static sl_status copy_output(sl_gpu_executable *exe, uint32_t index, char *to, sl_error *err) {
    const sl_operand *operand = &exe->binding.program->outputs[index].operand;
    return exe->gpu->calls->copy_out(exe->gpu, SL_GPU_WORK, to + exe->output_offsets[index],
                                     sl_gpu_resolve(exe, operand), sl_type_bytes(&operand->type),
                                     err);
}
static sl_status copy_fault(sl_gpu_executable *exe, char *to, sl_error *err) {
    return exe->gpu->calls->copy_out(exe->gpu, SL_GPU_WORK,
                                     to + exe->output_offsets[exe->binding.program->output_count],
                                     exe->gpu->fault.address, sizeof(sl_fault), err);
}

sl_status sl_gpu_drain(sl_gpu_executable *exe, sl_error *err) {
    SL_TRY(copy_fault(exe, exe->outputs, err));
    SL_TRY(exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, err));
    return check_fault(exe, err);
}

/* `submitted`: as a whole, so that direct outputs are there already. */
static sl_status copy_outputs(sl_gpu_executable *exe, bool submitted, sl_error *err) {
    for (uint32_t i = 0; i < exe->binding.program->output_count; i++)
        if (!submitted || !is_direct(exe, i)) SL_TRY(copy_output(exe, i, exe->outputs, err));
    return copy_fault(exe, exe->outputs, err);
}
static sl_status wait_for_outputs(sl_gpu_executable *exe, sl_error *err) {
    SL_TRY(exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, err));
    return check_fault(exe, err);
}

/* ---- traces ---- */

static void drop_marks(sl_gpu_executable *exe) {
    const size_t count = exe->binding.program->step_count + 1;
    for (size_t i = 0; exe->marks && i < count; i++) {
        if (exe->marks[i]) exe->gpu->calls->fence_destroy(exe->gpu, exe->marks[i]);
        exe->marks[i] = NULL;
    }
}

void sl_gpu_attach(sl_executable *base, sl_trace *trace) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    const sl_gpu_calls *calls = exe->gpu->calls;
    exe->trace = NULL;
    exe->run_number = 0;
    if (calls->enter(exe->gpu, NULL) != SL_OK) return;
    drop_marks(exe);
    const uint32_t count = exe->binding.program->step_count + 1;
    if (trace && !exe->marks) exe->marks = SL_ARENA_NEW_ARRAY(&exe->arena, sl_gpu_fence *, count);
    bool made = trace && exe->marks;
    for (uint32_t i = 0; made && i < count; i++)
        made = calls->fence_create(exe->gpu, true, &exe->marks[i], NULL) == SL_OK;
    if (made) exe->trace = trace;
    calls->leave(exe->gpu);
}

/* A traced step ends where the next begins. */
static void record_events(sl_gpu_executable *exe, double begin) {
    sl_trace *trace = exe->trace;
    double before = 0;
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        const double after =
            exe->gpu->calls->fence_seconds(exe->gpu, exe->marks[0], exe->marks[s + 1]);
        if (trace->count < trace->capacity)
            trace->events[trace->count++] = (sl_trace_event){
                .step = s, .begin = begin + before, .end = begin + after, .run = exe->run_number};
        else
            trace->dropped++;
        before = after;
    }
    exe->run_number++;
}

/* ---- runs ---- */

static sl_status launch_all(sl_gpu_executable *exe, char *inputs, sl_error *err) {
    SL_TRY(sl_gpu_build(exe, err));
    SL_TRY(copy_inputs(exe, inputs, err));
    const double begin = sl_clock_seconds();
    SL_TRY(exe->trace ? run_traced(exe, err) : sl_gpu_submit(exe, err));
    exe->gpu->launch_seconds += sl_clock_seconds() - begin;
    exe->gpu->runs++;
    return SL_OK;
}

static sl_status run_inside(sl_gpu_executable *exe, sl_error *err) {
    const double begin = sl_clock_seconds();
    SL_TRY(launch_all(exe, exe->inputs, err));
    SL_TRY(copy_outputs(exe, true, err));
    SL_TRY(wait_for_outputs(exe, err));
    if (exe->trace) record_events(exe, begin);
    return SL_OK;
}

/* A run that failed leaves nothing behind. */
static sl_status leave(const sl_gpu_executable *exe, sl_status status) {
    if (status != SL_OK && exe->gpu->experts) sl_gpu_experts_release_all(exe->gpu->experts);
    exe->gpu->calls->leave(exe->gpu);
    return status;
}

sl_status sl_gpu_run(sl_executable *base, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    return leave(exe, run_inside(exe, err));
}

/* ---- runs in two halves ---- */

void sl_gpu_drop_begun(sl_gpu_executable *exe) {
    if (exe->begun) (void)exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, NULL);
    exe->gpu->begun -= exe->begun;
    exe->begun = false;
    for (int i = 0; i < 2; i++)
        if (exe->clock[i]) exe->gpu->calls->fence_destroy(exe->gpu, exe->clock[i]);
}

/* Runs that are in flight have their faults copied already; this one begins without any. */
static sl_status begin_inside(sl_gpu_executable *exe, sl_error *err) {
    const sl_gpu_calls *calls = exe->gpu->calls;
    for (int i = 0; i < 2; i++)
        if (!exe->clock[i]) SL_TRY(calls->fence_create(exe->gpu, true, &exe->clock[i], err));
    SL_TRY(sl_gpu_build(exe, err));
    if (exe->gpu->begun)
        SL_TRY(calls->clear(exe->gpu, SL_GPU_WORK, exe->gpu->fault.address, sizeof(sl_fault), err));
    SL_TRY(calls->fence_record(exe->gpu, SL_GPU_WORK, exe->clock[0], err));
    SL_TRY(launch_all(exe, exe->inputs, err));
    SL_TRY(copy_outputs(exe, true, err));
    return calls->fence_record(exe->gpu, SL_GPU_WORK, exe->clock[1], err);
}

sl_status sl_gpu_begin(sl_executable *base, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    if (exe->begun) return sl_fail(err, SL_INVALID, "a run is in flight already");
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    exe->begin_seconds = sl_clock_seconds();
    const sl_status status = begin_inside(exe, err);
    if (status == SL_OK) {
        exe->encode_seconds = sl_clock_seconds() - exe->begin_seconds;
        exe->begun = true;
        exe->gpu->begun++;
    } else {
        (void)exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, NULL); /* part of it was submitted */
    }
    return leave(exe, status);
}

static sl_status end_inside(sl_gpu_executable *exe, sl_run_seconds *out, sl_error *err) {
    double since = sl_clock_seconds();
    exe->begun = false;
    exe->gpu->begun--;
    SL_TRY(exe->gpu->calls->fence_wait(exe->gpu, exe->clock[1], err));
    out->wait = sl_clock_lap(&since);
    out->encode = exe->encode_seconds;
    out->run = exe->gpu->calls->fence_seconds(exe->gpu, exe->clock[0], exe->clock[1]);
    SL_TRY(check_fault(exe, err));
    if (exe->trace) record_events(exe, exe->begin_seconds);
    return SL_OK;
}

sl_status sl_gpu_end(sl_executable *base, sl_run_seconds *out, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    if (!exe->begun) return sl_fail(err, SL_INVALID, "no run is in flight");
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    return leave(exe, end_inside(exe, out, err));
}

/* ---- asynchronous runs ---- */

/* Whether an asynchronous run copies the output. */
static bool is_small(const sl_gpu_executable *exe, uint32_t output) {
    const sl_type *type = &exe->binding.program->outputs[output].operand.type;
    return sl_type_bytes(type) <= SL_GPU_SMALL_OUTPUT && !is_direct(exe, output);
}

void sl_gpu_drop_in_flight(sl_gpu_executable *exe) {
    const sl_allocator *pinned = &exe->gpu->pinned;
    if (exe->started != exe->finished) (void)exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, NULL);
    for (uint32_t i = 0; i < SL_GPU_IN_FLIGHT; i++) {
        sl_gpu_run_state *f = &exe->in_flight[i];
        if (f->inputs) (void)sl_resize(pinned, f->inputs, exe->inputs_bytes, 0, 64);
        if (f->outputs) (void)sl_resize(pinned, f->outputs, exe->outputs_bytes, 0, 64);
        if (f->done) exe->gpu->calls->fence_destroy(exe->gpu, f->done);
        *f = (sl_gpu_run_state){0};
    }
}

static sl_status make_in_flight(sl_gpu_executable *exe, sl_gpu_run_state *f, sl_error *err) {
    const sl_allocator *pinned = &exe->gpu->pinned;
    if (!f->inputs && exe->inputs_bytes)
        f->inputs = sl_resize(pinned, NULL, 0, exe->inputs_bytes, 64);
    if (!f->outputs) f->outputs = sl_resize(pinned, NULL, 0, exe->outputs_bytes, 64);
    if (!f->outputs || (exe->inputs_bytes && !f->inputs))
        return sl_no_memory(err, "inputs and results", exe->inputs_bytes + exe->outputs_bytes);
    return f->done ? SL_OK : exe->gpu->calls->fence_create(exe->gpu, false, &f->done, err);
}

static sl_status start_inside(sl_gpu_executable *exe, sl_error *err) {
    sl_gpu_run_state *f = &exe->in_flight[exe->started % SL_GPU_IN_FLIGHT];
    SL_TRY(make_in_flight(exe, f, err));
    SL_TRY(launch_all(exe, f->inputs, err));
    for (uint32_t i = 0; i < exe->binding.program->output_count; i++)
        if (is_small(exe, i)) SL_TRY(copy_output(exe, i, f->outputs, err));
    SL_TRY(copy_fault(exe, f->outputs, err));
    SL_TRY(exe->gpu->calls->fence_record(exe->gpu, SL_GPU_WORK, f->done, err));
    exe->started++;
    return SL_OK;
}

sl_status sl_gpu_start(sl_executable *base, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    if (exe->started - exe->finished == SL_GPU_IN_FLIGHT)
        return sl_fail(err, SL_INVALID, "%d runs are in flight already", SL_GPU_IN_FLIGHT);
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    const sl_status status = start_inside(exe, err);
    if (status != SL_OK)
        (void)exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, NULL); /* part of it was submitted */
    return leave(exe, status);
}

static sl_status finish_inside(sl_gpu_executable *exe, sl_error *err) {
    const sl_gpu_run_state *f = &exe->in_flight[exe->finished++ % SL_GPU_IN_FLIGHT];
    const sl_program *program = exe->binding.program;
    SL_TRY(exe->gpu->calls->fence_wait(exe->gpu, f->done, err));
    for (uint32_t i = 0; i < program->output_count; i++)
        if (is_small(exe, i))
            memcpy(exe->outputs + exe->output_offsets[i], f->outputs + exe->output_offsets[i],
                   sl_type_bytes(&program->outputs[i].operand.type));
    const uint64_t fault = exe->output_offsets[program->output_count];
    memcpy(exe->outputs + fault, f->outputs + fault, sizeof(sl_fault));
    return check_fault(exe, err);
}

sl_status sl_gpu_finish(sl_executable *base, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    if (exe->started == exe->finished) return sl_fail(err, SL_INVALID, "no run is in flight");
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    return leave(exe, finish_inside(exe, err));
}

static sl_status fetch_inside(sl_gpu_executable *exe, uint32_t output, sl_error *err) {
    SL_TRY(copy_output(exe, output, exe->outputs, err));
    return exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, err);
}

sl_status sl_gpu_fetch(sl_executable *base, uint32_t output, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    if (is_small(exe, output) || is_direct(exe, output)) return SL_OK;
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    return leave(exe, fetch_inside(exe, output, err));
}

/* ---- one step after another ---- */

static sl_status run_in_order(sl_gpu_executable *exe, const uint32_t *order, sl_error *err) {
    SL_TRY(sl_gpu_build(exe, err));
    SL_TRY(copy_inputs(exe, exe->inputs, err));
    for (uint32_t i = 0; i < exe->binding.program->step_count; i++)
        SL_TRY(sl_gpu_submit_any(exe, order ? order[i] : i, err));
    SL_TRY(copy_outputs(exe, false, err));
    return wait_for_outputs(exe, err);
}

sl_status sl_gpu_run_serially(sl_executable *base, const uint32_t *order, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    const uint32_t count = exe->binding.program->step_count;
    for (uint32_t i = 0; order && i < count; i++)
        if (order[i] >= count)
            return sl_fail(err, SL_INVALID, "an order with step %u: the program has %u", order[i],
                           count);
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    return leave(exe, run_in_order(exe, order, err));
}

static sl_status step_inside(sl_gpu_executable *exe, uint32_t step, sl_error *err) {
    SL_TRY(sl_gpu_build(exe, err));
    if (step == 0) SL_TRY(copy_inputs(exe, exe->inputs, err));
    SL_TRY(sl_gpu_submit_any(exe, step, err));
    return exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, err);
}

sl_status sl_gpu_run_step(sl_executable *base, uint32_t step, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    const uint32_t count = exe->binding.program->step_count;
    if (step >= count) return sl_fail(err, SL_INVALID, "step %u: the program has %u", step, count);
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    return leave(exe, step_inside(exe, step, err));
}
