#include "runtime/binding.h"

sl_status sl_binding_init(sl_binding *binding, const sl_program *program, sl_arena *arena,
                          sl_error *err) {
    *binding = (sl_binding){
        .program = program,
        .data = SL_ARENA_NEW_ARRAY(arena, void *, program->buffer_count + 1),
        .sources = SL_ARENA_NEW_ARRAY(arena, sl_expert_source *, program->buffer_count + 1),
    };
    if (!binding->data || !binding->sources)
        return sl_no_memory(err, "the bindings of a program", program->buffer_count);
    return SL_OK;
}

sl_status sl_binding_set(sl_binding *binding, sl_buffer_id buffer, void *data, sl_error *err) {
    if (buffer.v >= binding->program->buffer_count)
        return sl_fail(err, SL_INVALID, "buffer %u of program '%s': it has %u", buffer.v,
                       binding->program->name, binding->program->buffer_count);
    const sl_buffer *b = &binding->program->buffers[buffer.v];
    if (b->kind == SL_BUFFER_TEMP || b->kind == SL_BUFFER_CONSTANT || b->kind == SL_BUFFER_EXPERTS)
        return sl_fail(err, SL_INVALID, "'%s' is not an input, weight, state or output", b->name);
    if (!data) return sl_fail(err, SL_INVALID, "'%s' is bound to NULL", b->name);
    binding->data[buffer.v] = data;
    return SL_OK;
}

sl_status sl_binding_set_experts(sl_binding *binding, sl_buffer_id buffer, sl_expert_source *source,
                                 sl_error *err) {
    if (buffer.v >= binding->program->buffer_count ||
        binding->program->buffers[buffer.v].kind != SL_BUFFER_EXPERTS)
        return sl_fail(err, SL_INVALID, "buffer %u of program '%s' holds no experts", buffer.v,
                       binding->program->name);
    binding->sources[buffer.v] = source;
    return SL_OK;
}

sl_status sl_binding_check(const sl_binding *binding, sl_error *err) {
    for (uint32_t b = 0; b < binding->program->buffer_count; b++) {
        const sl_buffer *buffer = &binding->program->buffers[b];
        if (sl_buffer_in_arena(buffer) || buffer->kind == SL_BUFFER_CONSTANT) continue;
        if (!binding->data[b] && !binding->sources[b])
            return sl_fail(err, SL_INVALID, "nothing is bound to '%s' of program '%s'",
                           buffer->name, binding->program->name);
    }
    return SL_OK;
}

void *sl_binding_resolve(const sl_binding *binding, const sl_operand *operand, void *arena) {
    const sl_buffer *buffer = &binding->program->buffers[operand->buffer.v];
    if (buffer->kind == SL_BUFFER_EXPERTS) return binding->sources[operand->buffer.v];
    if (sl_buffer_in_arena(buffer) && !binding->data[operand->buffer.v])
        return (char *)arena + buffer->arena_offset + operand->offset_bytes;
    /* Constants are read only by construction: no op takes one as a state. */
    char *data = buffer->kind == SL_BUFFER_CONSTANT ? (char *)(uintptr_t)buffer->data
                                                    : binding->data[operand->buffer.v];
    return data ? data + operand->offset_bytes : NULL;
}
