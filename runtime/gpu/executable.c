/* executable.c - Loading a program on a GPU, and binding memory to it. */
#include "runtime/gpu/executable.h"
#include "base/sizes.h"
#include "runtime/arguments.h"
#include <string.h>

enum { LOCAL_ALIGNMENT = 256 };

/* ---- loading ---- */

sl_gpu_address sl_gpu_resolve(const sl_gpu_executable *exe, const sl_operand *operand) {
    const uint32_t id = operand->buffer.v;
    const sl_buffer *buffer = &exe->binding.program->buffers[id];
    if (sl_buffer_in_arena(buffer))
        return exe->activations->address + buffer->arena_offset + operand->offset_bytes;
    if (buffer->kind == SL_BUFFER_INPUT || buffer->kind == SL_BUFFER_CONSTANT)
        return exe->locals.address + exe->local_offsets[id] + operand->offset_bytes;
    return (sl_gpu_address)(uintptr_t)exe->binding.data[id] + operand->offset_bytes;
}

void sl_gpu_fill_addresses(const sl_gpu_executable *exe, uint32_t s) {
    const sl_step *step = &exe->binding.program->steps[s];
    for (uint32_t i = 0; i < step->operand_count; i++)
        sl_argument(step, exe->steps[s].args, i)->data =
            (void *)(uintptr_t)sl_gpu_resolve(exe, &step->operands[i]);
}

static sl_status make_step(sl_gpu_executable *exe, uint32_t s, sl_error *err) {
    const sl_step *step = &exe->binding.program->steps[s];
    sl_gpu_step *out = &exe->steps[s];
    out->args = sl_arguments_create(step, &exe->arena);
    if (!out->args)
        return sl_no_memory(err, "kernel arguments", sl_op_info_of(step->op)->args_bytes);
    return out->kernel ? SL_OK : sl_gpu_load_hosted(exe, s, err);
}

static sl_status place_locals(sl_gpu_executable *exe, sl_error *err) {
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
    return exe->gpu->calls->allocate(exe->gpu, at, "inputs and constants", &exe->locals, err);
}

static sl_status place_outputs(sl_gpu_executable *exe, sl_error *err) {
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
    const sl_allocator *pinned = &exe->gpu->pinned;
    exe->outputs = sl_resize(pinned, NULL, 0, exe->outputs_bytes, 64);
    if (!exe->outputs) return sl_no_memory(err, "results", exe->outputs_bytes);
    if (!exe->inputs_bytes || exe->is_body) return SL_OK;
    exe->inputs = sl_resize(pinned, NULL, 0, exe->inputs_bytes, 64);
    return exe->inputs ? SL_OK : sl_no_memory(err, "inputs", exe->inputs_bytes);
}

static sl_status copy_constants(const sl_gpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const sl_buffer *buffer = &program->buffers[b];
        if (buffer->kind != SL_BUFFER_CONSTANT || !buffer->bytes) continue;
        SL_TRY(exe->gpu->calls->copy_in(exe->gpu, SL_GPU_WORK,
                                        exe->locals.address + exe->local_offsets[b], buffer->data,
                                        buffer->bytes, err));
    }
    return exe->gpu->calls->wait(exe->gpu, SL_GPU_WORK, err);
}

static sl_status fill_executable(sl_gpu_executable *exe, const sl_program *program, sl_error *err) {
    SL_TRY(sl_binding_init(&exe->binding, program, &exe->arena, err));
    exe->steps = SL_ARENA_NEW_ARRAY(&exe->arena, sl_gpu_step, program->step_count + 1);
    if (!exe->steps) return sl_no_memory(err, "an executable", program->step_count);
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(
            sl_gpu_find(exe->gpu->calls->kernels, &program->steps[s], &exe->steps[s].kernel, err));
    for (uint32_t s = 0; s < program->step_count; s++) SL_TRY(make_step(exe, s, err));
    SL_TRY(place_locals(exe, err));
    SL_TRY(place_outputs(exe, err));
    SL_TRY(copy_constants(exe, err));
    for (uint32_t b = 0; b < program->buffer_count && exe->is_body; b++)
        if (program->buffers[b].kind == SL_BUFFER_INPUT)
            exe->binding.data[b] = (void *)(uintptr_t)exe->locals.address;
    return sl_gpu_ensure(exe->gpu, exe->activations, program->arena_bytes, "activations", err);
}

void sl_gpu_unload(sl_executable *base) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    if (!exe) return;
    const sl_gpu *gpu = exe->gpu;
    if (gpu->calls->enter(gpu, NULL) == SL_OK) {
        sl_gpu_attach(base, NULL);
        sl_gpu_drop_in_flight(exe);
        sl_gpu_drop_begun(exe);
        sl_gpu_unbuild(exe);
        for (uint32_t s = 0; exe->steps && s < exe->binding.program->step_count; s++)
            sl_gpu_unload_hosted(exe, s);
        sl_gpu_release(gpu, &exe->own_activations);
        sl_gpu_release(gpu, &exe->locals);
        if (exe->inputs) (void)sl_resize(&gpu->pinned, exe->inputs, exe->inputs_bytes, 0, 64);
        if (exe->outputs) (void)sl_resize(&gpu->pinned, exe->outputs, exe->outputs_bytes, 0, 64);
        if (exe->starts) (void)sl_resize(&gpu->pinned, exe->starts, exe->starts_bytes, 0, 64);
        gpu->calls->leave(gpu);
    }
    sl_arena arena = exe->arena; /* the executable itself lives in it */
    sl_arena_deinit(&arena);
}

static sl_status load_inside(sl_gpu *gpu, const sl_program *program, bool is_body,
                             sl_gpu_executable **out, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, gpu->allocator);
    sl_gpu_executable *exe =
        sl_arena_alloc(&arena, gpu->calls->executable_bytes, _Alignof(max_align_t));
    if (!exe) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "an executable", gpu->calls->executable_bytes);
    }
    memset(exe, 0, gpu->calls->executable_bytes);
    exe->base.ops = gpu->base.ops;
    exe->arena = arena;
    exe->gpu = gpu;
    exe->is_body = is_body;
    exe->activations = is_body ? &exe->own_activations : &gpu->arena;
    exe->rebound = true;
    const sl_status status = fill_executable(exe, program, err);
    if (status == SL_OK)
        *out = exe;
    else
        sl_gpu_unload(&exe->base);
    return status;
}

sl_status sl_gpu_load_program(sl_gpu *gpu, const sl_program *program, bool is_body,
                              sl_gpu_executable **out, sl_error *err) {
    SL_TRY(gpu->calls->enter(gpu, err));
    const sl_status status = load_inside(gpu, program, is_body, out, err);
    gpu->calls->leave(gpu);
    return status;
}

sl_status sl_gpu_load(sl_device *base, const sl_program *program, sl_executable **out,
                      sl_error *err) {
    sl_gpu_executable *exe;
    SL_TRY(sl_gpu_load_program((sl_gpu *)base, program, false, &exe, err));
    *out = &exe->base;
    return SL_OK;
}

/* ---- binding ---- */

sl_status sl_gpu_bind(sl_executable *base, sl_buffer_id id, void *data, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    SL_TRY(sl_binding_set(&exe->binding, id, data, err));
    const sl_buffer *buffer = &exe->binding.program->buffers[id.v];
    if (buffer->kind == SL_BUFFER_OUTPUT)
        return sl_fail(err, SL_UNSUPPORTED, "'%s': outputs of a GPU have memory of their own",
                       buffer->name);
    exe->rebound = true;
    if (buffer->kind != SL_BUFFER_WEIGHT) return SL_OK;
    sl_gpu_address address = 0;
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    const sl_status status =
        sl_gpu_upload_weight(exe->gpu, data, buffer->bytes, buffer->name, &address, err);
    exe->gpu->calls->leave(exe->gpu);
    exe->binding.data[id.v] = (void *)(uintptr_t)address;
    return status;
}

sl_status sl_gpu_bind_experts(sl_executable *base, sl_buffer_id buffer, sl_expert_source *source,
                              sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    exe->rebound = true;
    return sl_binding_set_experts(&exe->binding, buffer, source, err);
}

/* ---- operands ---- */

/* Inputs are in host memory; a run copies them. */
static char *host_bytes(const sl_gpu_executable *exe, const sl_operand *operand) {
    const uint32_t id = operand->buffer.v;
    return exe->binding.program->buffers[id].kind == SL_BUFFER_INPUT
               ? (char *)exe->binding.data[id] + operand->offset_bytes
               : NULL;
}

sl_status sl_gpu_read(sl_executable *base, const sl_operand *operand, void *to, sl_error *err) {
    const sl_gpu_executable *exe = sl_gpu_executable_of(base);
    const char *host = host_bytes(exe, operand);
    const uint64_t bytes = sl_type_bytes(&operand->type);
    if (!host) return sl_gpu_copy_out(exe->gpu, to, sl_gpu_resolve(exe, operand), bytes, err);
    memcpy(to, host, bytes);
    return SL_OK;
}

sl_status sl_gpu_write(sl_executable *base, const sl_operand *operand, const void *from,
                       sl_error *err) {
    const sl_gpu_executable *exe = sl_gpu_executable_of(base);
    char *host = host_bytes(exe, operand);
    const uint64_t bytes = sl_type_bytes(&operand->type);
    if (host) memcpy(host, from, bytes);
    return sl_gpu_copy_in(exe->gpu, sl_gpu_resolve(exe, operand), from, bytes, err);
}

const void *sl_gpu_output(const sl_executable *base, uint32_t index) {
    const sl_gpu_executable *exe = (const sl_gpu_executable *)base;
    return exe->outputs + exe->output_offsets[index];
}
