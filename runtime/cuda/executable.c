/* executable.c - Loading a program on the CUDA device, and binding memory to it. */
#include "runtime/cuda/executable.h"
#include "base/sizes.h"
#include "runtime/arguments.h"
#include "runtime/cuda/experts.h"
#include <string.h>

enum { LOCAL_ALIGNMENT = 256 };

/* ---- loading ---- */

static sl_status make_task(sl_cuda_executable *exe, const sl_step *step, sl_cuda_task *out,
                           sl_error *err) {
    SL_TRY(sl_cuda_find(step, &out->kernel, err));
    out->args = sl_arguments_create(step, &exe->arena);
    if (!out->args)
        return sl_no_memory(err, "kernel arguments", sl_op_info_of(step->op)->args_bytes);
    return out->kernel ? SL_OK : sl_cuda_load_hosted(exe, step, out, err);
}

static sl_status place_locals(sl_cuda_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    exe->local_offsets = SL_ARENA_NEW_ARRAY(&exe->arena, uint64_t, program->buffer_count + 1);
    if (!exe->local_offsets) return sl_no_memory(err, "an executable", program->buffer_count);
    uint64_t at = 0;
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t b = 0; b < program->buffer_count; b++) {
            const sl_buffer *buffer = &program->buffers[b];
            if (buffer->kind != (kind ? SL_BUFFER_CONSTANT : SL_BUFFER_INPUT)) continue;
            exe->local_offsets[b] = at;
            at += sl_round_up(buffer->bytes, LOCAL_ALIGNMENT);
        }
        if (!kind) exe->inputs_bytes = at;
    }
    return sl_cuda_take(exe->device, at, "inputs and constants", &exe->locals, err);
}

static sl_status place_outputs(sl_cuda_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    exe->output_offsets = SL_ARENA_NEW_ARRAY(&exe->arena, uint64_t, program->output_count + 1);
    if (!exe->output_offsets) return sl_no_memory(err, "an executable", program->output_count);
    uint64_t at = 0;
    for (uint32_t i = 0; i < program->output_count && !exe->is_body; i++) {
        exe->output_offsets[i] = at;
        at += sl_round_up(sl_type_bytes(&program->outputs[i].operand.type), LOCAL_ALIGNMENT);
    }
    exe->output_offsets[program->output_count] = at; /* the fault's */
    exe->outputs_bytes = at + sizeof(sl_fault);
    const sl_allocator *pinned = &exe->device->pinned;
    exe->outputs = sl_resize(pinned, NULL, 0, exe->outputs_bytes, 64);
    if (!exe->outputs) return sl_no_memory(err, "results", exe->outputs_bytes);
    if (!exe->inputs_bytes || exe->is_body) return SL_OK;
    exe->inputs = sl_resize(pinned, NULL, 0, exe->inputs_bytes, 64);
    return exe->inputs ? SL_OK : sl_no_memory(err, "inputs", exe->inputs_bytes);
}

static sl_status copy_constants(const sl_cuda_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const sl_buffer *buffer = &program->buffers[b];
        if (buffer->kind != SL_BUFFER_CONSTANT || !buffer->bytes) continue;
        SL_TRY_CUDA(&exe->device->driver,
                    copy_in(exe->locals.address + exe->local_offsets[b], buffer->data,
                            buffer->bytes, exe->device->stream),
                    "copying constants", err);
    }
    return sl_cuda_wait(exe->device, err);
}

static sl_status fill_executable(sl_cuda_executable *exe, const sl_program *program,
                                 sl_error *err) {
    SL_TRY(sl_binding_init(&exe->binding, program, &exe->arena, err));
    exe->tasks = SL_ARENA_NEW_ARRAY(&exe->arena, sl_cuda_task, program->step_count + 1);
    if (!exe->tasks) return sl_no_memory(err, "an executable", program->step_count);
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(make_task(exe, &program->steps[s], &exe->tasks[s], err));
    SL_TRY(place_locals(exe, err));
    SL_TRY(place_outputs(exe, err));
    SL_TRY(copy_constants(exe, err));
    for (uint32_t b = 0; b < program->buffer_count && exe->is_body; b++)
        if (program->buffers[b].kind == SL_BUFFER_INPUT)
            exe->binding.data[b] = (void *)(uintptr_t)exe->locals.address;
    return sl_cuda_ensure(exe->device, exe->activations, program->arena_bytes, "activations", err);
}

void sl_cuda_unload(sl_cuda_executable *exe) {
    if (!exe) return;
    const sl_allocator *pinned = &exe->device->pinned;
    if (sl_cuda_enter(exe->device, NULL) == SL_OK) {
        sl_cuda_attach(exe, NULL);
        sl_cuda_drop_flights(exe);
        sl_cuda_unbuild(exe);
        const sl_program *program = exe->binding.program;
        for (uint32_t s = 0; exe->tasks && s < program->step_count; s++)
            sl_cuda_unload_hosted(&program->steps[s], &exe->tasks[s]);
        sl_cuda_give(exe->device, &exe->own_activations);
        sl_cuda_give(exe->device, &exe->locals);
        if (exe->inputs) (void)sl_resize(pinned, exe->inputs, exe->inputs_bytes, 0, 64);
        if (exe->outputs) (void)sl_resize(pinned, exe->outputs, exe->outputs_bytes, 0, 64);
        if (exe->starts) (void)sl_resize(pinned, exe->starts, exe->starts_bytes, 0, 64);
        sl_cuda_leave(exe->device);
    }
    sl_arena arena = exe->arena; /* the executable itself lives in it */
    sl_arena_deinit(&arena);
}

sl_status sl_cuda_load(sl_cuda_device *device, const sl_program *program, bool is_body,
                       sl_cuda_executable **out, sl_error *err) {
    SL_TRY(sl_cuda_enter(device, err));
    sl_arena arena;
    sl_arena_init(&arena, device->allocator);
    sl_cuda_executable *exe = SL_ARENA_NEW(&arena, sl_cuda_executable);
    if (!exe) {
        sl_arena_deinit(&arena);
        sl_cuda_leave(device);
        return sl_no_memory(err, "an executable", sizeof *exe);
    }
    exe->base.ops = &sl_cuda_ops;
    exe->arena = arena;
    exe->device = device;
    exe->is_body = is_body;
    exe->activations = is_body ? &exe->own_activations : &device->arena;
    exe->rebound = true;
    const sl_status status = fill_executable(exe, program, err);
    if (status == SL_OK)
        *out = exe;
    else
        sl_cuda_unload(exe);
    sl_cuda_leave(device);
    return status;
}

static sl_status cuda_load(sl_device *base, const sl_program *program, sl_executable **out,
                           sl_error *err) {
    sl_cuda_executable *exe;
    SL_TRY(sl_cuda_load((sl_cuda_device *)base, program, false, &exe, err));
    *out = &exe->base;
    return SL_OK;
}

/* ---- binding ---- */

static sl_status cuda_bind(sl_executable *base, sl_buffer_id id, void *data, sl_error *err) {
    sl_cuda_executable *exe = sl_cuda_executable_of(base);
    SL_TRY(sl_binding_set(&exe->binding, id, data, err));
    const sl_buffer *buffer = &exe->binding.program->buffers[id.v];
    exe->rebound = true;
    if (buffer->kind != SL_BUFFER_WEIGHT) return SL_OK;
    sl_cu_address address = 0;
    SL_TRY(sl_cuda_enter(exe->device, err));
    const sl_status status =
        sl_cuda_upload_weight(exe->device, data, buffer->bytes, buffer->name, &address, err);
    sl_cuda_leave(exe->device);
    exe->binding.data[id.v] = (void *)(uintptr_t)address;
    return status;
}

static sl_status cuda_bind_experts(sl_executable *base, sl_buffer_id buffer,
                                   sl_expert_source *source, sl_error *err) {
    sl_cuda_executable *exe = sl_cuda_executable_of(base);
    exe->rebound = true;
    return sl_binding_set_experts(&exe->binding, buffer, source, err);
}

/* ---- memory ---- */

/* Zeros: states are loaded ahead, and copied, before anything was written to them. */
static sl_status take_states(sl_cuda_device *device, uint64_t bytes, sl_cuda_block *out) {
    SL_TRY(sl_cuda_take(device, bytes, "states", out, NULL));
    const sl_cu_result result = device->driver.fill(out->address, 0, bytes, device->stream);
    if (result) {
        sl_cuda_give(device, out);
        return sl_cuda_fail(&device->driver, result, "clearing states", NULL);
    }
    device->state_bytes += bytes;
    return SL_OK;
}
static void *cuda_allocate(sl_device *base, uint64_t bytes) {
    sl_cuda_device *device = (sl_cuda_device *)base;
    sl_cuda_block block = {0};
    if (sl_cuda_enter(device, NULL) != SL_OK) return NULL;
    const sl_status status = take_states(device, bytes, &block);
    sl_cuda_leave(device);
    return status == SL_OK ? (void *)(uintptr_t)block.address : NULL;
}

static void cuda_release(sl_device *base, void *memory, uint64_t bytes) {
    sl_cuda_device *device = (sl_cuda_device *)base;
    sl_cuda_block block = {(sl_cu_address)(uintptr_t)memory, bytes};
    if (!memory || sl_cuda_enter(device, NULL) != SL_OK) return;
    sl_cuda_give(device, &block);
    device->state_bytes -= bytes;
    sl_cuda_leave(device);
}

static sl_status copy(sl_cuda_device *device, bool in, void *host, sl_cu_address address,
                      uint64_t bytes, sl_error *err) {
    SL_TRY(sl_cuda_enter(device, err));
    const sl_cu_result result = in ? device->driver.copy_in(address, host, bytes, device->stream)
                                   : device->driver.copy_out(host, address, bytes, device->stream);
    const sl_status status =
        result ? sl_cuda_fail(&device->driver, result, "copying", err) : sl_cuda_wait(device, err);
    sl_cuda_leave(device);
    return status;
}

static sl_status cuda_copy_in(sl_device *base, void *to, const void *from, uint64_t bytes,
                              sl_error *err) {
    return copy((sl_cuda_device *)base, true, (void *)(uintptr_t)from, (sl_cu_address)(uintptr_t)to,
                bytes, err);
}

static sl_status cuda_copy_out(sl_device *base, void *to, const void *from, uint64_t bytes,
                               sl_error *err) {
    return copy((sl_cuda_device *)base, false, to, (sl_cu_address)(uintptr_t)from, bytes, err);
}

/* Follows what was launched before and comes before what is launched next: no need to wait. */
static sl_status cuda_copy_within(sl_device *base, void *to, const void *from, uint64_t bytes,
                                  sl_error *err) {
    sl_cuda_device *device = (sl_cuda_device *)base;
    SL_TRY(sl_cuda_enter(device, err));
    const sl_cu_result result = device->driver.copy_within(
        (sl_cu_address)(uintptr_t)to, (sl_cu_address)(uintptr_t)from, bytes, device->stream);
    sl_cuda_leave(device);
    return result ? sl_cuda_fail(&device->driver, result, "copying", err) : SL_OK;
}

static sl_status cuda_weight_changed(sl_device *base, const void *host, sl_error *err) {
    sl_cuda_device *device = (sl_cuda_device *)base;
    for (uint32_t i = 0; i < device->upload_count; i++)
        if (device->uploads[i].host == host)
            return copy(device, true, (void *)(uintptr_t)host, device->uploads[i].block.address,
                        device->uploads[i].block.bytes, err);
    return SL_OK; /* not bound yet */
}

/* An input's bytes are the host's; a run copies them. */
static char *host_bytes(const sl_cuda_executable *exe, const sl_operand *operand) {
    const uint32_t id = operand->buffer.v;
    return exe->binding.program->buffers[id].kind == SL_BUFFER_INPUT
               ? (char *)exe->binding.data[id] + operand->offset_bytes
               : NULL;
}

static sl_status cuda_read(sl_executable *base, const sl_operand *operand, void *to,
                           sl_error *err) {
    sl_cuda_executable *exe = sl_cuda_executable_of(base);
    const char *host = host_bytes(exe, operand);
    if (host) {
        memcpy(to, host, sl_type_bytes(&operand->type));
        return SL_OK;
    }
    return copy(exe->device, false, to, sl_cuda_resolve(exe, operand),
                sl_type_bytes(&operand->type), err);
}

static sl_status cuda_write(sl_executable *base, const sl_operand *operand, const void *from,
                            sl_error *err) {
    sl_cuda_executable *exe = sl_cuda_executable_of(base);
    char *host = host_bytes(exe, operand);
    if (host) memcpy(host, from, sl_type_bytes(&operand->type));
    return copy(exe->device, true, (void *)(uintptr_t)from, sl_cuda_resolve(exe, operand),
                sl_type_bytes(&operand->type), err);
}

static const void *cuda_output(const sl_executable *base, uint32_t index) {
    sl_executable_check(base, &sl_cuda_ops);
    const sl_cuda_executable *exe = (const sl_cuda_executable *)base;
    return exe->outputs + exe->output_offsets[index];
}

/* ---- entries of other files ---- */

static void cuda_unload(sl_executable *exe) {
    sl_cuda_unload(sl_cuda_executable_of(exe));
}
static sl_status cuda_run(sl_executable *exe, sl_error *err) {
    return sl_cuda_run(sl_cuda_executable_of(exe), err);
}
static sl_status cuda_start(sl_executable *exe, sl_error *err) {
    return sl_cuda_start(sl_cuda_executable_of(exe), err);
}
static sl_status cuda_finish(sl_executable *exe, sl_error *err) {
    return sl_cuda_finish(sl_cuda_executable_of(exe), err);
}
static sl_status cuda_fetch(sl_executable *exe, uint32_t output, sl_error *err) {
    return sl_cuda_fetch(sl_cuda_executable_of(exe), output, err);
}
static sl_status cuda_run_serially(sl_executable *exe, const uint32_t *order, sl_error *err) {
    return sl_cuda_run_serially(sl_cuda_executable_of(exe), order, err);
}
static sl_status cuda_run_step(sl_executable *exe, uint32_t step, sl_error *err) {
    return sl_cuda_run_step(sl_cuda_executable_of(exe), step, err);
}
static sl_status cuda_prove(sl_executable *exe, sl_device_proof *out, sl_error *err) {
    return sl_cuda_prove(sl_cuda_executable_of(exe), out, err);
}
static void cuda_attach(sl_executable *exe, sl_trace *trace) {
    sl_cuda_attach(sl_cuda_executable_of(exe), trace);
}

const sl_device_ops sl_cuda_ops = {
    .name = "cuda",
    .destroy = sl_cuda_destroy,
    .describe = sl_cuda_describe,
    .count = sl_cuda_count,
    .measure = sl_cuda_measure,
    .load = cuda_load,
    .unload = cuda_unload,
    .bind = cuda_bind,
    .bind_experts = cuda_bind_experts,
    .run = cuda_run,
    .can_start = sl_cuda_can_start,
    .start = cuda_start,
    .finish = cuda_finish,
    .fetch = cuda_fetch,
    .run_serially = cuda_run_serially,
    .prove = cuda_prove,
    .attach = cuda_attach,
    .output = cuda_output,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy_within = cuda_copy_within,
    .weight_changed = cuda_weight_changed,
    .run_step = cuda_run_step,
    .read = cuda_read,
    .write = cuda_write,
};
