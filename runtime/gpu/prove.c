/* prove.c - The proof that the order of what was recorded orders every conflict of steps on final
 * addresses (core/check.h), including kernel scratch and the bodies of steps. */
#include "core/check.h"
#include "runtime/gpu/executable.h"
#include <string.h>

/* Declares the scratch that steps write: `scratch` is an additional buffer. */
static sl_status declare_scratch(const sl_gpu_executable *exe, sl_arena *arena, sl_program *out,
                                 sl_error *err) {
    const sl_program *program = exe->binding.program;
    const sl_buffer_id scratch = {program->buffer_count};
    out->buffers = SL_ARENA_NEW_ARRAY(arena, sl_buffer, (size_t)program->buffer_count + 1);
    out->steps = SL_ARENA_NEW_ARRAY(arena, sl_step, (size_t)program->step_count + 1);
    if (!out->buffers || !out->steps) return sl_no_memory(err, "a proof", program->step_count);
    memcpy(out->buffers, program->buffers, program->buffer_count * sizeof *out->buffers);
    memcpy(out->steps, program->steps, program->step_count * sizeof *out->steps);
    out->buffers[out->buffer_count++] = (sl_buffer){
        .kind = SL_BUFFER_STATE, .name = "kernel scratch", .bytes = exe->gpu->scratch.bytes};
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_gpu_step *planned = &exe->steps[s];
        sl_step *step = &out->steps[s];
        if (!planned->scratch_bytes) continue;
        sl_access *writes = SL_ARENA_NEW_ARRAY(arena, sl_access, (size_t)step->write_count + 1);
        if (!writes) return sl_no_memory(err, "a proof", step->write_count);
        memcpy(writes, step->writes, step->write_count * sizeof *writes);
        writes[step->write_count++] = sl_access_range(
            scratch, planned->scratch_offset, planned->scratch_offset + planned->scratch_bytes);
        step->writes = writes;
    }
    return SL_OK;
}

static sl_status prove(const sl_gpu_executable *exe, sl_arena *arena, sl_device_proof *proof,
                       sl_error *err) {
    sl_program program = *exe->binding.program;
    program.model = SL_SCHEDULE_EDGES;
    SL_TRY(declare_scratch(exe, arena, &program, err));
    SL_TRY(exe->gpu->calls->read_order(exe, arena, &program.edges, proof, err));
    proof->steps += program.step_count;
    proof->segments += exe->segment_count;
    for (uint32_t s = 0; s < program.step_count; s++) proof->hosted += !exe->steps[s].kernel;
    return sl_check_program(&program, exe->gpu->allocator, err);
}

static sl_status prove_all(sl_gpu_executable *exe, sl_device_proof *proof, sl_error *err) {
    const sl_program *program = exe->binding.program;
    sl_arena arena;
    SL_TRY(sl_gpu_build(exe, err));
    sl_arena_init(&arena, exe->gpu->allocator);
    sl_status status = prove(exe, &arena, proof, err);
    sl_arena_deinit(&arena);
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t b = 0; exe->steps[s].bodies && b < program->steps[s].body_count; b++)
            if (status == SL_OK) status = prove_all(exe->steps[s].bodies[b], proof, err);
    return status;
}

sl_status sl_gpu_prove(sl_executable *base, sl_device_proof *out, sl_error *err) {
    sl_gpu_executable *exe = sl_gpu_executable_of(base);
    *out = (sl_device_proof){0};
    SL_TRY(exe->gpu->calls->enter(exe->gpu, err));
    const sl_status status = prove_all(exe, out, err);
    exe->gpu->calls->leave(exe->gpu);
    return status;
}
