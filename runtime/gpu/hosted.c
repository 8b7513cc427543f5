/* hosted.c - Steps that the host runs: branches and loops, whose bodies are programs on the device
 * with memory of their own, and custom ops, whose kernels use host memory unless they have a
 * callback that puts work into a queue of the device. */
#include "runtime/arguments.h"
#include "runtime/custom.h"
#include "runtime/gpu/executable.h"

/* ---- bodies ---- */

static sl_gpu_address address_of(const void *data) {
    return (sl_gpu_address)(uintptr_t)data;
}

static sl_status copy(const sl_gpu_executable *exe, sl_gpu_address to, sl_gpu_address from,
                      uint64_t bytes, sl_error *err) {
    if (!bytes || to == from) return SL_OK;
    return exe->gpu->calls->copy_within(exe->gpu, SL_GPU_WORK, to, from, bytes, err);
}

/* Gives the body its next input. */
static sl_status give(const sl_gpu_executable *body, uint32_t input, sl_gpu_address from,
                      sl_error *err) {
    const sl_buffer *buffers = body->binding.program->buffers;
    uint32_t b = 0;
    for (uint32_t before = 0;; b++)
        if (buffers[b].kind == SL_BUFFER_INPUT && before++ == input) break;
    return copy(body, body->locals.address + body->local_offsets[b], from, buffers[b].bytes, err);
}
static sl_status take(const sl_gpu_executable *body, uint32_t output, sl_gpu_address to,
                      sl_error *err) {
    const sl_operand *operand = &body->binding.program->outputs[output].operand;
    return copy(body, to, sl_gpu_resolve(body, operand), sl_type_bytes(&operand->type), err);
}

static sl_status run_body(sl_gpu_executable *body, sl_error *err) {
    SL_TRY(sl_gpu_build(body, err));
    return sl_gpu_submit(body, err);
}

/* Reads a bool after everything before it is done. */
static sl_status ask(sl_gpu_executable *exe, sl_gpu_address address, bool *out, sl_error *err) {
    uint8_t byte = 0;
    SL_TRY(exe->gpu->calls->copy_out(exe->gpu, SL_GPU_WORK, &byte, address, sizeof byte, err));
    SL_TRY(sl_gpu_drain(exe, err));
    *out = byte != 0;
    return SL_OK;
}

/* ---- if ---- */

static sl_status run_if(sl_gpu_executable *exe, uint32_t step, sl_error *err) {
    const sl_gpu_step *task = &exe->steps[step];
    const sl_if_args *a = task->args;
    bool chosen = false;
    SL_TRY(ask(exe, address_of(a->condition.data), &chosen, err));
    sl_gpu_executable *body = task->bodies[chosen ? 0 : 1];
    for (uint32_t i = 0; i < SL_LIST_COUNT(a->inputs); i++)
        SL_TRY(give(body, i, address_of(a->inputs.items[i].data), err));
    SL_TRY(run_body(body, err));
    for (uint32_t o = 0; o < SL_LIST_COUNT(a->results); o++)
        SL_TRY(take(body, o, address_of(a->results.items[o].data), err));
    return SL_OK;
}

/* ---- loops: carries are kept in the step's own results ---- */

static sl_status start_carries(const sl_gpu_executable *exe, const sl_cview *inits,
                               const sl_view *results, uint32_t count, sl_error *err) {
    for (uint32_t i = 0; i < count; i++)
        SL_TRY(copy(exe, address_of(results[i].data), address_of(inits[i].data),
                    sl_type_bytes(&inits[i].type), err));
    return SL_OK;
}
static sl_status run_on(sl_gpu_executable *body, const sl_view *carries, uint32_t count,
                        sl_error *err) {
    for (uint32_t i = 0; i < count; i++) SL_TRY(give(body, i, address_of(carries[i].data), err));
    return run_body(body, err);
}
static sl_status advance(const sl_gpu_executable *body, const sl_view *carries, uint32_t count,
                         sl_error *err) {
    for (uint32_t i = 0; i < count; i++) SL_TRY(take(body, i, address_of(carries[i].data), err));
    return SL_OK;
}

static sl_status run_while(sl_gpu_executable *exe, uint32_t step, sl_error *err) {
    const sl_gpu_step *task = &exe->steps[step];
    const sl_while_args *a = task->args;
    const uint32_t count = SL_LIST_COUNT(a->carries);
    const sl_view *carries = a->results.items;
    sl_gpu_executable *condition = task->bodies[0], *body = task->bodies[1];
    SL_TRY(start_carries(exe, a->carries.items, carries, count, err));
    for (int64_t done = 0; !a->attrs.most || done < a->attrs.most; done++) {
        bool more = false;
        SL_TRY(run_on(condition, carries, count, err));
        const sl_operand *answer = &condition->binding.program->outputs[0].operand;
        SL_TRY(ask(exe, sl_gpu_resolve(condition, answer), &more, err));
        if (!more) break;
        SL_TRY(run_on(body, carries, count, err));
        SL_TRY(advance(body, carries, count, err));
    }
    return SL_OK;
}

/* The address of element t of a stacked tensor. */
static sl_gpu_address part_of(const void *data, const sl_type *stack, int64_t t) {
    const uint64_t bytes = sl_type_bytes(stack) / (uint64_t)stack->shape.dims[0];
    return address_of(data) + (uint64_t)t * bytes;
}

static sl_status run_scan(sl_gpu_executable *exe, uint32_t step, sl_error *err) {
    const sl_gpu_step *task = &exe->steps[step];
    const sl_scan_args *a = task->args;
    const uint32_t count = a->attrs.carries, first_x = count + a->attrs.consts;
    const uint32_t inputs = SL_LIST_COUNT(a->inputs), results = SL_LIST_COUNT(a->results);
    const sl_cview *in = a->inputs.items;
    const sl_view *out = a->results.items;
    const int64_t length = first_x < inputs ? in[first_x].type.shape.dims[0] : a->attrs.length;
    sl_gpu_executable *body = task->bodies[0];
    SL_TRY(start_carries(exe, in, out, count, err));
    for (uint32_t i = count; i < first_x; i++) SL_TRY(give(body, i, address_of(in[i].data), err));
    for (int64_t done = 0; done < length; done++) {
        const int64_t t = a->attrs.reverse ? length - 1 - done : done;
        for (uint32_t i = first_x; i < inputs; i++)
            SL_TRY(give(body, i, part_of(in[i].data, &in[i].type, t), err));
        SL_TRY(run_on(body, out, count, err));
        for (uint32_t y = count; y < results; y++)
            SL_TRY(take(body, y, part_of(out[y].data, &out[y].type, t), err));
        SL_TRY(advance(body, out, count, err));
    }
    return SL_OK;
}

/* ---- custom ops ---- */

static sl_status run_custom(sl_gpu_executable *exe, uint32_t s, sl_error *err) {
    const sl_step *step = &exe->binding.program->steps[s];
    const sl_gpu_step *task = &exe->steps[s];
    const sl_gpu_calls *calls = exe->gpu->calls;
    if (!task->host_args)
        return calls->launch_custom(exe->gpu, SL_GPU_WORK, task->args, step->label, task->host_room,
                                    err);
    for (uint32_t i = 0; i < step->input_count; i++) {
        const sl_view *view = sl_argument(step, task->host_args, i);
        SL_TRY(calls->copy_out(exe->gpu, SL_GPU_WORK, view->data,
                               sl_gpu_resolve(exe, &step->operands[i]), sl_type_bytes(&view->type),
                               err));
    }
    SL_TRY(sl_gpu_drain(exe, err));
    SL_TRY(sl_custom_run(task->host_args, step->label, task->host_room, err));
    for (uint32_t i = step->input_count; i < step->operand_count; i++) {
        const sl_view *view = sl_argument(step, task->host_args, i);
        SL_TRY(calls->copy_in(exe->gpu, SL_GPU_WORK, sl_gpu_resolve(exe, &step->operands[i]),
                              view->data, sl_type_bytes(&view->type), err));
    }
    return SL_OK;
}

/* The device has all that a launch needs, but for the room of the call. */
static sl_status make_launch_room(sl_gpu_executable *exe, const sl_step *step, sl_gpu_step *task,
                                  sl_error *err) {
    task->host_room =
        sl_arena_alloc(&exe->arena, sl_custom_room_bytes(task->args) + 1, _Alignof(max_align_t));
    return task->host_room ? SL_OK : sl_no_memory(err, step->label, step->operand_count);
}

static sl_status make_host_args(sl_gpu_executable *exe, const sl_step *step, sl_gpu_step *task,
                                sl_error *err) {
    enum { ALIGNMENT = 64 };
    bool fine = (task->host_args = sl_arguments_create(step, &exe->arena)) != NULL;
    if (fine)
        task->host_room = sl_arena_alloc(&exe->arena, sl_custom_room_bytes(task->host_args) + 1,
                                         _Alignof(max_align_t));
    for (uint32_t i = 0; fine && i < step->operand_count; i++) {
        const size_t bytes = sl_type_bytes(&step->operands[i].type);
        void *data = sl_arena_alloc(&exe->arena, bytes + 1, ALIGNMENT);
        sl_argument(step, task->host_args, i)->data = data;
        fine = data != NULL;
    }
    return fine && task->host_room ? SL_OK : sl_no_memory(err, step->label, step->operand_count);
}

/* ---- which steps ---- */

sl_gpu_hosted_fn *sl_gpu_hosted(sl_op op) {
#define ROW(OP) [SL_OP_##OP] = run_##OP,
    static sl_gpu_hosted_fn *const hosted[SL_OP_COUNT] = {SL_GPU_HOSTED(ROW)};
#undef ROW
    return hosted[op];
}

sl_status sl_gpu_load_hosted(sl_gpu_executable *exe, uint32_t s, sl_error *err) {
    const sl_step *step = &exe->binding.program->steps[s];
    sl_gpu_step *task = &exe->steps[s];
    if (step->op == SL_OP_custom)
        return sl_gpu_takes_custom(exe->gpu->calls->kernels, step->attrs)
                   ? make_launch_room(exe, step, task, err)
                   : make_host_args(exe, step, task, err);
    task->bodies = SL_ARENA_NEW_ARRAY(&exe->arena, sl_gpu_executable *, step->body_count + 1);
    if (!task->bodies) return sl_no_memory(err, step->label, step->body_count);
    for (uint32_t b = 0; b < step->body_count; b++) {
        const sl_status status =
            sl_gpu_load_program(exe->gpu, step->bodies[b], true, &task->bodies[b], err);
        if (status != SL_OK) return sl_fail_in(err, status, "%s", step->label);
    }
    return SL_OK;
}

void sl_gpu_unload_hosted(sl_gpu_executable *exe, uint32_t s) {
    const sl_gpu_step *task = &exe->steps[s];
    for (uint32_t b = 0; task->bodies && b < exe->binding.program->steps[s].body_count; b++)
        if (task->bodies[b]) sl_gpu_unload(&task->bodies[b]->base);
}

sl_status sl_gpu_build_hosted(sl_gpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t b = 0; exe->steps[s].bodies && b < program->steps[s].body_count; b++)
            SL_TRY(sl_gpu_build(exe->steps[s].bodies[b], err));
    return SL_OK;
}
