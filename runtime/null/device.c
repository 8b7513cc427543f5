/* device.c - The null device: computes nothing, but refuses programs that no device could run
 * right.
 *
 * Each load proves the program (core/check.h); each run goes through its steps as the most
 * unfriendly machine of its model would (simulate.h).  Outputs are zeros.  It is also the shortest
 * example of a device. */
#include "core/check.h"
#include "runtime/host.h"
#include "runtime/null/null.h"
#include "runtime/null/simulate.h"

typedef struct {
    sl_device base;
    const sl_allocator *allocator;
} null_device;

typedef struct {
    sl_executable base;
    null_device *device;
    sl_arena arena;
    sl_binding binding;
    sl_simulation simulation;
    void *memory;
} null_executable;

static const sl_device_ops null_ops;
static null_executable *executable_of(sl_executable *exe) {
    sl_executable_check(exe, &null_ops);
    return (null_executable *)exe;
}

static void null_unload(sl_executable *base) {
    null_executable *exe = executable_of(base);
    if (!exe) return;
    sl_arena arena = exe->arena; /* the executable itself lives in it */
    sl_arena_deinit(&arena);
}

static sl_status fill_executable(null_executable *exe, const sl_program *program, sl_error *err) {
    exe->memory = sl_arena_alloc(&exe->arena, program->arena_bytes + 1, 64);
    if (!exe->memory) return sl_no_memory(err, "activations", program->arena_bytes);
    SL_TRY(sl_binding_init(&exe->binding, program, &exe->arena, err));
    return sl_simulation_init(&exe->simulation, program, &exe->arena, err);
}

static sl_status null_load(sl_device *base, const sl_program *program, sl_executable **out,
                           sl_error *err) {
    null_device *device = (null_device *)base;
    SL_TRY(sl_check_program(program, device->allocator, err));
    sl_arena arena;
    sl_arena_init(&arena, device->allocator);
    null_executable *exe = SL_ARENA_NEW(&arena, null_executable);
    if (!exe) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "an executable", sizeof *exe);
    }
    exe->base.ops = &null_ops;
    exe->arena = arena;
    exe->device = device;
    const sl_status status = fill_executable(exe, program, err);
    if (status == SL_OK)
        *out = &exe->base;
    else
        null_unload(&exe->base);
    return status;
}

static sl_status null_bind(sl_executable *base, sl_buffer_id buffer, void *data, sl_error *err) {
    null_executable *exe = executable_of(base);
    return sl_binding_set(&exe->binding, buffer, data, err);
}

static sl_status null_bind_experts(sl_executable *base, sl_buffer_id buffer,
                                   sl_expert_source *source, sl_error *err) {
    null_executable *exe = executable_of(base);
    return sl_binding_set_experts(&exe->binding, buffer, source, err);
}

static sl_status null_run(sl_executable *base, sl_error *err) {
    null_executable *exe = executable_of(base);
    SL_TRY(sl_binding_check(&exe->binding, err));
    return sl_simulation_run(&exe->simulation, err);
}

static sl_status null_run_serially(sl_executable *base, const uint32_t *order, sl_error *err) {
    null_executable *exe = executable_of(base);
    SL_TRY(sl_binding_check(&exe->binding, err));
    return sl_simulation_run_serially(&exe->simulation, order, err);
}

static void null_attach(sl_executable *exe, sl_trace *trace) {
    (void)exe;
    (void)trace; /* nothing takes time here */
}

static const void *null_output(const sl_executable *base, uint32_t index) {
    sl_executable_check(base, &null_ops);
    const null_executable *exe = (const null_executable *)base;
    return sl_binding_resolve(&exe->binding, &exe->binding.program->outputs[index].operand,
                              exe->memory);
}

static void *null_allocate(sl_device *base, uint64_t bytes) {
    return sl_host_allocate(((null_device *)base)->allocator, bytes);
}
static void null_release(sl_device *base, void *memory, uint64_t bytes) {
    sl_host_release(((null_device *)base)->allocator, memory, bytes);
}

/* One step of a simulation means nothing. */
static sl_status null_run_step(sl_executable *exe, uint32_t step, sl_error *err) {
    (void)exe;
    return sl_fail(err, SL_UNSUPPORTED, "the null device does not run step %u alone", step);
}
static sl_status null_read(sl_executable *base, const sl_operand *operand, void *to,
                           sl_error *err) {
    null_executable *exe = executable_of(base);
    return sl_host_read(&exe->binding, operand, exe->memory, to, err);
}
static sl_status null_write(sl_executable *base, const sl_operand *operand, const void *from,
                            sl_error *err) {
    null_executable *exe = executable_of(base);
    return sl_host_write(&exe->binding, operand, exe->memory, from, err);
}

static void null_destroy(sl_device *base) {
    null_device *device = (null_device *)base;
    sl_release(device->allocator, device, sizeof *device, _Alignof(null_device));
}

static void null_describe(const sl_device *base, sl_device_info *out) {
    (void)base, (void)out; /* the defaults */
}

static const sl_device_ops null_ops = {
    .name = "null",
    .destroy = null_destroy,
    .describe = null_describe,
    .load = null_load,
    .unload = null_unload,
    .bind = null_bind,
    .bind_experts = null_bind_experts,
    .run = null_run,
    .run_serially = null_run_serially,
    .attach = null_attach,
    .output = null_output,
    .allocate = null_allocate,
    .release = null_release,
    .copy_in = sl_host_copy,
    .copy_out = sl_host_copy,
    .copy_within = sl_host_copy,
    .weight_changed = sl_host_weight_changed,
    .run_step = null_run_step,
    .read = null_read,
    .write = null_write,
};

sl_status sl_device_null_create(const sl_device_options *options, const sl_allocator *allocator,
                                sl_device **out, sl_error *err) {
    (void)options;
    null_device *device = sl_allocate(allocator, sizeof *device, _Alignof(null_device));
    if (!device) return sl_no_memory(err, "the null device", sizeof *device);
    device->base.ops = &null_ops;
    device->allocator = allocator;
    *out = &device->base;
    return SL_OK;
}
