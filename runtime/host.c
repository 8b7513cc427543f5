#include "runtime/host.h"
#include <string.h>

enum { ALIGNMENT = 64 };

void *sl_host_allocate(const sl_allocator *allocator, uint64_t bytes) {
    return sl_resize(allocator, NULL, 0, bytes, ALIGNMENT);
}

void sl_host_release(const sl_allocator *allocator, void *memory, uint64_t bytes) {
    sl_release(allocator, memory, bytes, ALIGNMENT);
}

sl_status sl_host_copy(sl_device *device, void *to, const void *from, uint64_t bytes,
                       sl_error *err) {
    (void)device, (void)err;
    memcpy(to, from, bytes);
    return SL_OK;
}

sl_status sl_host_weight_changed(sl_device *device, const void *host, uint64_t offset,
                                 uint64_t bytes, sl_error *err) {
    (void)device, (void)host, (void)offset, (void)bytes, (void)err;
    return SL_OK;
}

static sl_status find(const sl_binding *binding, const sl_operand *operand, void *arena, void **out,
                      sl_error *err) {
    const sl_buffer *buffer = &binding->program->buffers[operand->buffer.v];
    *out = sl_binding_resolve(binding, operand, arena);
    if (*out && buffer->kind != SL_BUFFER_EXPERTS) return SL_OK;
    return sl_fail(err, SL_INVALID, "'%s' has no bytes to look at", buffer->name);
}

sl_status sl_host_read(const sl_binding *binding, const sl_operand *operand, void *arena, void *to,
                       sl_error *err) {
    void *at;
    SL_TRY(find(binding, operand, arena, &at, err));
    memcpy(to, at, sl_type_bytes(&operand->type));
    return SL_OK;
}

sl_status sl_host_write(const sl_binding *binding, const sl_operand *operand, void *arena,
                        const void *from, sl_error *err) {
    void *at;
    SL_TRY(find(binding, operand, arena, &at, err));
    memcpy(at, from, sl_type_bytes(&operand->type));
    return SL_OK;
}
