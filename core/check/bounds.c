/* bounds.c - Checks bounds, alignment, levels and edges, which the other checks rely on. */
#include "core/check.h"

static const char *name_of(const sl_buffer *buffer) {
    return buffer->name ? buffer->name : "?";
}

static sl_status check_buffers(const sl_program *program, sl_error *err) {
    const uint64_t alignment = program->arena_alignment ? program->arena_alignment : 1;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const sl_buffer *buffer = &program->buffers[b];
        if (!sl_buffer_in_arena(buffer)) continue;
        if (buffer->arena_offset > program->arena_bytes ||
            buffer->bytes > program->arena_bytes - buffer->arena_offset)
            return sl_fail(err, SL_INVALID, "'%s': %llu bytes at %llu do not fit the arena of %llu",
                           name_of(buffer), (unsigned long long)buffer->bytes,
                           (unsigned long long)buffer->arena_offset,
                           (unsigned long long)program->arena_bytes);
        if (buffer->arena_offset % alignment != 0)
            return sl_fail(err, SL_INVALID, "'%s' at %llu: a multiple of %llu wanted",
                           name_of(buffer), (unsigned long long)buffer->arena_offset,
                           (unsigned long long)alignment);
    }
    return SL_OK;
}

/* Computed in 128 bits, so that no sum wraps. */
static bool fits(const sl_buffer *buffer, const sl_access *access) {
    if (access->bytes == 0 || access->count == 0) return true;
    if (access->count > 1 && access->stride < access->bytes) return false;
    const unsigned __int128 last = (unsigned __int128)(access->count - 1) * access->stride;
    return last + access->begin + access->bytes <= buffer->bytes;
}

static sl_status check_access(const sl_program *program, const sl_step *step,
                              const sl_access *access, bool write, sl_error *err) {
    if (access->buffer.v >= program->buffer_count)
        return sl_fail(err, SL_INVALID, "%s: touches buffer %u, there are %u", step->label,
                       access->buffer.v, program->buffer_count);
    const sl_buffer *buffer = &program->buffers[access->buffer.v];
    if (!fits(buffer, access))
        return sl_fail(err, SL_INVALID,
                       "%s: %u runs of %llu bytes from %llu on, %llu apart, in '%s' of %llu bytes",
                       step->label, access->count, (unsigned long long)access->bytes,
                       (unsigned long long)access->begin, (unsigned long long)access->stride,
                       name_of(buffer), (unsigned long long)buffer->bytes);
    if (write && buffer->kind != SL_BUFFER_STATE && !sl_buffer_in_arena(buffer) &&
        access->bytes > 0)
        return sl_fail(err, SL_INVALID, "%s: writes '%s', which is read only", step->label,
                       name_of(buffer));
    return SL_OK;
}

static sl_status check_operand(const sl_program *program, const char *label,
                               const sl_operand *operand, sl_error *err) {
    if (operand->buffer.v >= program->buffer_count)
        return sl_fail(err, SL_INVALID, "%s: an operand in buffer %u, there are %u", label,
                       operand->buffer.v, program->buffer_count);
    const sl_buffer *buffer = &program->buffers[operand->buffer.v];
    if (buffer->kind == SL_BUFFER_EXPERTS) return SL_OK;
    const uint64_t bytes = sl_type_bytes(&operand->type);
    if (bytes > buffer->bytes || operand->offset_bytes > buffer->bytes - bytes)
        return sl_fail(err, SL_INVALID,
                       "%s: an operand of %llu bytes at %llu of '%s', which has %llu", label,
                       (unsigned long long)bytes, (unsigned long long)operand->offset_bytes,
                       name_of(buffer), (unsigned long long)buffer->bytes);
    return SL_OK;
}

static sl_status check_step(const sl_program *program, const sl_step *step, sl_error *err) {
    for (uint32_t i = 0; i < step->read_count; i++)
        SL_TRY(check_access(program, step, &step->reads[i], false, err));
    for (uint32_t i = 0; i < step->write_count; i++)
        SL_TRY(check_access(program, step, &step->writes[i], true, err));
    for (uint32_t i = 0; i < step->operand_count; i++)
        SL_TRY(check_operand(program, step->label, &step->operands[i], err));
    return SL_OK;
}

static sl_status check_levels(const sl_program *program, sl_error *err) {
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        if (step->level >= program->level_count)
            return sl_fail(err, SL_INVALID, "%s: level %u, there are %u", step->label, step->level,
                           program->level_count);
        if (s > 0 && step->level < program->steps[s - 1].level)
            return sl_fail(err, SL_INVALID, "%s: level %u comes after level %u", step->label,
                           step->level, program->steps[s - 1].level);
    }
    if (program->early_steps > program->step_count)
        return sl_fail(err, SL_INVALID, "%u steps submitted early, there are %u",
                       program->early_steps, program->step_count);
    return SL_OK;
}

/* All edges point forward, so the order of the program is a topological order. */
static sl_status check_edges(const sl_program *program, sl_error *err) {
    const sl_edges *edges = &program->edges;
    if (program->step_count > 0 && !edges->first)
        return sl_fail(err, SL_INVALID, "program '%s' has no edges", program->name);
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t e = edges->first[s]; e < edges->first[s + 1]; e++)
            if (edges->targets[e] <= s || edges->targets[e] >= program->step_count)
                return sl_fail(err, SL_INVALID, "%s: an edge from step %u to %u of %u",
                               program->steps[s].label, s, edges->targets[e], program->step_count);
    return SL_OK;
}

sl_status sl_check_bounds(const sl_program *program, sl_error *err) {
    SL_TRY(check_buffers(program, err));
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(check_step(program, &program->steps[s], err));
    for (uint32_t o = 0; o < program->output_count; o++)
        SL_TRY(check_operand(program, program->outputs[o].name, &program->outputs[o].operand, err));
    return program->model == SL_SCHEDULE_EDGES ? check_edges(program, err)
                                               : check_levels(program, err);
}

sl_status sl_check_program(const sl_program *program, const sl_allocator *allocator,
                           sl_error *err) {
    SL_TRY(sl_check_order(program, allocator, err));
    SL_TRY(sl_check_values(program, allocator, err));
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t b = 0; b < program->steps[s].body_count; b++)
            if (program->steps[s].bodies[b])
                SL_TRY(sl_check_program(program->steps[s].bodies[b], allocator, err));
    return SL_OK;
}
