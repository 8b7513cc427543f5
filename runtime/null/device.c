/* device.c - The null device: runs nothing, but refuses programs that no device could run right.
 *
 * Each load checks, from the declared accesses and the final addresses alone, that steps which
 * conflict are in different levels, in order, and that no step touches bytes outside its buffers.
 * A run fills outputs with zeros.  It is also the shortest example of a device. */
#include "runtime/binding.h"
#include "runtime/null/null.h"

typedef struct {
    sl_device base;
    const sl_allocator *allocator;
} null_device;

struct sl_executable {
    null_device *device;
    sl_arena arena;
    sl_binding binding;
    void *memory;
};

typedef struct {
    uint32_t space; /* 0: the arena; otherwise 1 + the buffer */
    uint64_t begin, end;
} place;

static place place_of(const sl_program *program, const sl_access *access) {
    const sl_buffer *buffer = &program->buffers[access->buffer.v];
    const bool arena = buffer->kind == SL_BUFFER_TEMP || buffer->kind == SL_BUFFER_OUTPUT;
    const uint64_t base = arena ? buffer->arena_offset : 0;
    return (place){arena ? 0 : 1 + access->buffer.v, base + access->begin, base + access->end};
}

static bool collide(const sl_program *program, const sl_access *a, uint32_t a_count,
                    const sl_access *b, uint32_t b_count) {
    for (uint32_t i = 0; i < a_count; i++)
        for (uint32_t j = 0; j < b_count; j++) {
            const place x = place_of(program, &a[i]), y = place_of(program, &b[j]);
            if (x.space == y.space && x.begin < y.end && y.begin < x.end) return true;
        }
    return false;
}

static sl_status check_bounds(const sl_program *program, const sl_step *step, sl_error *err) {
    for (uint32_t a = 0; a < step->read_count + step->write_count; a++) {
        const sl_access *access =
            a < step->read_count ? &step->reads[a] : &step->writes[a - step->read_count];
        const sl_buffer *buffer = &program->buffers[access->buffer.v];
        const place at = place_of(program, access);
        if (access->end > buffer->bytes || (at.space == 0 && at.end > program->arena_bytes))
            return sl_fail(err, SL_INVALID,
                           "%s: touches bytes %llu to %llu of '%s', which has %llu", step->label,
                           (unsigned long long)access->begin, (unsigned long long)access->end,
                           buffer->name, (unsigned long long)buffer->bytes);
        const bool written = a >= step->read_count;
        if (written && buffer->kind != SL_BUFFER_STATE && at.space != 0)
            return sl_fail(err, SL_INVALID, "%s: writes '%s', which is read only", step->label,
                           buffer->name);
    }
    return SL_OK;
}

static sl_status check_order(const sl_program *program, sl_error *err) {
    for (uint32_t b = 0; b < program->step_count; b++) {
        const sl_step *later = &program->steps[b];
        SL_TRY(check_bounds(program, later, err));
        for (uint32_t a = 0; a < b; a++) {
            const sl_step *earlier = &program->steps[a];
            if (earlier->level > later->level)
                return sl_fail(err, SL_INVALID, "%s: level %u comes after level %u", later->label,
                               later->level, earlier->level);
            if (earlier->level < later->level) continue;
            if (collide(program, earlier->writes, earlier->write_count, later->reads,
                        later->read_count) ||
                collide(program, earlier->reads, earlier->read_count, later->writes,
                        later->write_count) ||
                collide(program, earlier->writes, earlier->write_count, later->writes,
                        later->write_count))
                return sl_fail(err, SL_INVALID, "%s and %s conflict in level %u", earlier->label,
                               later->label, later->level);
        }
    }
    return SL_OK;
}

static void null_unload(sl_executable *exe) {
    if (!exe) return;
    sl_arena arena = exe->arena;
    sl_arena_deinit(&arena);
}

static sl_status null_load(sl_device *base, const sl_program *program, sl_executable **out,
                           sl_error *err) {
    null_device *device = (null_device *)base;
    SL_TRY(check_order(program, err));
    sl_arena arena;
    sl_arena_init(&arena, device->allocator);
    sl_executable *exe = SL_ARENA_NEW(&arena, sl_executable);
    if (!exe) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "an executable", sizeof *exe);
    }
    exe->arena = arena;
    exe->device = device;
    exe->memory = sl_arena_alloc(&exe->arena, program->arena_bytes + 1, 64);
    sl_status status = exe->memory ? sl_binding_init(&exe->binding, program, &exe->arena, err)
                                   : sl_no_memory(err, "activations", program->arena_bytes);
    if (status == SL_OK)
        *out = exe;
    else
        null_unload(exe);
    return status;
}

static sl_status null_bind(sl_executable *exe, sl_buffer_id buffer, void *data, sl_error *err) {
    return sl_binding_set(&exe->binding, buffer, data, err);
}

static sl_status null_bind_experts(sl_executable *exe, sl_buffer_id buffer,
                                   sl_expert_source *source, sl_error *err) {
    return sl_binding_set_experts(&exe->binding, buffer, source, err);
}

static sl_status null_run(sl_executable *exe, sl_error *err) {
    return sl_binding_check(&exe->binding, err);
}

static const void *null_output(const sl_executable *exe, uint32_t index) {
    return sl_binding_resolve(&exe->binding, &exe->binding.program->outputs[index].operand,
                              exe->memory);
}

static void null_destroy(sl_device *base) {
    null_device *device = (null_device *)base;
    sl_release(device->allocator, device, sizeof *device, _Alignof(null_device));
}

static const sl_device_ops null_ops = {
    .name = "null",
    .destroy = null_destroy,
    .load = null_load,
    .unload = null_unload,
    .bind = null_bind,
    .bind_experts = null_bind_experts,
    .run = null_run,
    .output = null_output,
};

sl_status sl_device_null_create(const sl_allocator *allocator, sl_device **out, sl_error *err) {
    null_device *device = sl_allocate(allocator, sizeof *device, _Alignof(null_device));
    if (!device) return sl_no_memory(err, "the null device", sizeof *device);
    device->base.ops = &null_ops;
    device->allocator = allocator;
    *out = &device->base;
    return SL_OK;
}
