/* device.c - The CPU device: resolves kernels, divides steps into chunks and levels into phases. */
#include "base/sizes.h"
#include "runtime/arguments.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/executable.h"
#include "runtime/host.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = SL_CPU_CACHE_LINE };

static void release(const sl_cpu_device *device, const sl_cpu_block *block) {
    sl_release(device->allocator, block->data, block->bytes, block->alignment);
}

/* Only ever grows; what was in it is lost.  The old block goes first, so that both are never in
 * memory together. */
static sl_status ensure(const sl_cpu_device *device, sl_cpu_block *block, size_t bytes,
                        size_t alignment, const char *what, sl_error *err) {
    if (bytes <= block->bytes && alignment <= block->alignment) return SL_OK;
    sl_cpu_block fresh = {.bytes = bytes > block->bytes ? bytes : block->bytes,
                          .alignment = alignment > block->alignment ? alignment : block->alignment};
    release(device, block);
    *block = (sl_cpu_block){0};
    fresh.data = sl_allocate(device->allocator, fresh.bytes, fresh.alignment);
    if (!fresh.data) return sl_no_memory(err, what, fresh.bytes);
    *block = fresh;
    return SL_OK;
}

static void cpu_destroy(sl_device *base) {
    sl_cpu_device *device = (sl_cpu_device *)base;
    release(device, &device->arena);
    release(device, &device->scratch);
    sl_team_destroy(device->team);
    sl_release(device->allocator, device, sizeof *device, _Alignof(sl_cpu_device));
}

/* A step whose results are all empty has nothing to do. */
static bool is_empty(const sl_step *step) {
    for (uint32_t i = 0; i < step->write_count; i++)
        if (step->writes[i].bytes) return false;
    return step->write_count > 0;
}

static sl_status prepare(sl_cpu_executable *exe, sl_cpu_task *task, sl_error *err) {
    const size_t bytes = task->kernel->prepare(task->args, NULL);
    void *memory = sl_arena_alloc(&exe->arena, bytes, CACHE_LINE);
    if (!memory) return sl_no_memory(err, "a kernel's tables", bytes);
    (void)task->kernel->prepare(task->args, memory);
    task->prepared = memory;
    return SL_OK;
}

static sl_status make_task(sl_cpu_executable *exe, const sl_step *step, sl_cpu_task *out,
                           size_t *scratch, sl_error *err) {
    const sl_kernel *kernel;
    SL_TRY(sl_cpu_find(exe->device->kernels, step, &kernel, err));
    void *args = sl_arguments_create(step, &exe->arena);
    if (!args) return sl_no_memory(err, "kernel arguments", sl_op_info_of(step->op)->args_bytes);
    sl_split split = {.grain = 1};
    if (!is_empty(step)) split = kernel->split(args);
    *out = (sl_cpu_task){.kernel = kernel,
                         .args = args,
                         .items = split.items,
                         .grain = split.grain,
                         .label = step->label};
    if (step->body_count) return sl_cpu_add_bodies(exe, step, out, split.scratch_bytes, err);
    if (split.scratch_bytes > *scratch) *scratch = split.scratch_bytes;
    return kernel->prepare && split.items ? prepare(exe, out, err) : SL_OK;
}

/* ---- division into phases and chunks ---- */

/* Below this much work a barrier costs more than parallelism gains.  With ThreadSanitizer, all
 * levels of several steps are shared. */
#if SL_CPU_ANNOUNCES
static const double least_shared_grains = 0;
#else
static const double least_shared_grains = 2;
#endif

/* Each chunk is 1 / (CHUNKS_LEFT * members) of what is left of its task: large chunks first,
 * because each start costs cache misses; small ones last, so that all members finish together. */
enum { CHUNKS_LEFT = 2 };

static int64_t chunk_items(const sl_cpu_executable *exe, const sl_cpu_task *t, int64_t left) {
    const int64_t parts = CHUNKS_LEFT * (int64_t)sl_team_size(exe->device->team);
    const int64_t items = (left + parts - 1) / parts;
    return items < t->grain ? (t->grain < left ? t->grain : left) : items;
}

/* The relative cost of a step: the bytes that it accesses.  Experts are not included, and cost more
 * than anything else. */
static double cost_of(const sl_step *step) {
    double bytes = 1;
    for (uint32_t i = 0; i < step->read_count; i++)
        bytes += (double)step->reads[i].bytes * step->reads[i].count;
    return sl_op_info_of(step->op)->traits & SL_OP_STREAMS ? HUGE_VAL : bytes;
}

/* Descending cost; equal costs in order. */
static int by_cost(const void *a, const void *b) {
    const sl_cpu_chunk *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    if (x->task != y->task) return x->task < y->task ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Appends the chunks of a phase at exe->chunk_count; without an array they are only counted. */
static void cut_phase(sl_cpu_executable *exe, sl_cpu_phase *p) {
    p->first_chunk = exe->chunk_count;
    for (uint32_t s = p->first_task; s < p->first_task + p->task_count; s++) {
        const sl_cpu_task *t = &exe->tasks[s];
        const double cost = cost_of(&exe->binding.program->steps[s]) / (double)t->items;
        for (int64_t begin = 0, end; begin < t->items; begin = end) {
            end = begin + chunk_items(exe, t, t->items - begin);
            if (exe->chunks)
                exe->chunks[exe->chunk_count] =
                    (sl_cpu_chunk){s, begin, end, cost * (double)(end - begin)};
            exe->chunk_count++;
        }
    }
    p->chunk_count = exe->chunk_count - p->first_chunk;
    if (exe->chunks)
        qsort(exe->chunks + p->first_chunk, p->chunk_count, sizeof *exe->chunks, by_cost);
}

static void cut_phases(sl_cpu_executable *exe) {
    exe->chunk_count = 0;
    for (uint32_t i = 0; i < exe->phase_count; i++)
        if (!exe->phases[i].serial) cut_phase(exe, &exe->phases[i]);
}

/* The array only grows, by half at least. */
static sl_status make_chunks(sl_cpu_executable *exe, sl_error *err) {
    sl_cpu_chunk *const chunks = exe->chunks;
    exe->chunks = NULL;
    cut_phases(exe);
    exe->chunks = chunks;
    if (exe->chunk_count >= exe->chunk_capacity) {
        const size_t capacity = (size_t)exe->chunk_count + exe->chunk_capacity / 2 + 1;
        exe->chunks = SL_ARENA_NEW_ARRAY(&exe->arena, sl_cpu_chunk, capacity);
        exe->chunk_capacity = exe->chunks ? (uint32_t)capacity : 0;
        if (!exe->chunks) return sl_no_memory(err, "an executable", capacity * sizeof *exe->chunks);
    }
    cut_phases(exe);
    return SL_OK;
}

/* Divides the steps into phases: one level with enough work to share, or a run of levels
 * without. */
static sl_status make_phases(sl_cpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    if (!exe->phases)
        exe->phases = SL_ARENA_NEW_ARRAY(&exe->arena, sl_cpu_phase, program->step_count + 1);
    if (!exe->phases)
        return sl_no_memory(err, "an executable", program->step_count * sizeof *exe->phases);
    exe->phase_count = 0;
    for (uint32_t s = 0; s < program->step_count;) {
        const uint32_t level = program->steps[s].level;
        sl_cpu_phase p = {.first_task = s};
        double grains = 0;
        for (; s < program->step_count && program->steps[s].level == level; s++)
            grains += (double)exe->tasks[s].items / (double)exe->tasks[s].grain;
        p.task_count = s - p.first_task;
        p.serial =
            grains <= 1 || grains < least_shared_grains || sl_team_size(exe->device->team) == 1;
        sl_cpu_phase *last = exe->phase_count ? &exe->phases[exe->phase_count - 1] : NULL;
        if (last && last->serial && p.serial)
            last->task_count += p.task_count;
        else
            exe->phases[exe->phase_count++] = p;
    }
    return make_chunks(exe, err);
}

/* ---- smaller sizes ---- */

/* Divides a step again whose operands are those of other sizes now. */
static sl_status split_again(sl_cpu_executable *exe, uint32_t step, bool empty, sl_error *err) {
    sl_cpu_task *task = &exe->tasks[step];
    if (task->prepared || task->bodies)
        return sl_fail(err, SL_UNSUPPORTED, "step '%s' cannot run with other sizes", task->label);
    sl_split split = {.grain = 1};
    if (!empty) split = task->kernel->split(task->args);
    if (split.scratch_bytes > exe->scratch_bytes)
        return sl_fail(err, SL_UNSUPPORTED,
                       "step '%s' needs %zu bytes of scratch, %zu with the largest sizes",
                       task->label, split.scratch_bytes, exe->scratch_bytes);
    task->items = split.items;
    task->grain = split.grain;
    return SL_OK;
}

static sl_status resize_steps(sl_cpu_executable *exe, const sl_sizing *sizing, const int64_t *sizes,
                              sl_error *err) {
    const sl_step *steps = exe->binding.program->steps;
    for (uint32_t i = 0; i < sizing->count;) {
        const uint32_t step = sizing->items[i].step;
        bool empty = false;
        for (; i < sizing->count && sizing->items[i].step == step; i++) {
            const sl_sized_dim *e = &sizing->items[i];
            sl_view *view = sl_argument(&steps[step], exe->tasks[step].args, e->operand);
            view->type.shape.dims[e->dim] = e->each * sizes[e->size];
            empty |= sizes[e->size] == 0;
        }
        SL_TRY(split_again(exe, step, empty, err));
    }
    return SL_OK;
}

static sl_status cpu_resize(sl_executable *base, const sl_sizing *sizing, const int64_t *sizes,
                            sl_error *err) {
    sl_cpu_executable *exe = sl_cpu_executable_of(base);
    bool same = exe->resized;
    for (int i = 0; i < SL_MOST_SIZES; i++) {
        if (sizes[i] < 0 || sizes[i] > sizing->most[i])
            return sl_fail(err, SL_INVALID, "size %d is %lld, the program was compiled for %lld", i,
                           (long long)sizes[i], (long long)sizing->most[i]);
        same &= exe->sizes[i] == sizes[i];
    }
    if (same) return SL_OK;
    exe->resized = false; /* until it is whole */
    SL_TRY(resize_steps(exe, sizing, sizes, err));
    SL_TRY(make_phases(exe, err));
    memcpy(exe->sizes, sizes, sizeof exe->sizes);
    exe->resized = true;
    return SL_OK;
}

sl_status sl_cpu_make_room(sl_cpu_executable *exe, sl_error *err) {
    sl_cpu_device *device = exe->device;
    const sl_program *program = exe->binding.program;
    const size_t each = sl_round_up(exe->scratch_bytes, CACHE_LINE);
    const size_t alignment =
        program->arena_alignment > CACHE_LINE ? program->arena_alignment : CACHE_LINE;
    SL_TRY(ensure(device, &device->scratch, each * sl_team_size(device->team), CACHE_LINE,
                  "kernel scratch", err));
    if (each > device->scratch_bytes_each) device->scratch_bytes_each = each;
    return ensure(device, &device->arena, program->arena_bytes ? program->arena_bytes : 1,
                  alignment, "activations", err);
}

static sl_status fill_executable(sl_cpu_executable *exe, bool is_body, sl_error *err) {
    const sl_program *program = exe->binding.program;
    exe->tasks = SL_ARENA_NEW_ARRAY(&exe->arena, sl_cpu_task, program->step_count + 1);
    if (!exe->tasks)
        return sl_no_memory(err, "an executable", program->step_count * sizeof *exe->tasks);
    size_t scratch = CACHE_LINE;
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(make_task(exe, &program->steps[s], &exe->tasks[s], &scratch, err));
    if (is_body) return sl_cpu_prepare_body(exe, scratch, err);
    SL_TRY(make_phases(exe, err));
    exe->scratch_bytes = scratch;
    return sl_cpu_make_room(exe, err);
}

void sl_cpu_unload(sl_cpu_executable *exe) {
    if (!exe) return;
    for (uint32_t s = 0; exe->tasks && s < exe->binding.program->step_count; s++)
        sl_cpu_remove_bodies(&exe->binding.program->steps[s], &exe->tasks[s]);
    release(exe->device, &exe->own_arena);
    release(exe->device, &exe->own_scratch);
    sl_arena arena = exe->arena; /* the executable itself lives in it */
    sl_arena_deinit(&arena);
}

sl_status sl_cpu_load(sl_cpu_device *device, const sl_program *program, bool is_body,
                      sl_cpu_executable **out, sl_error *err) {
    if (program->model == SL_SCHEDULE_EDGES)
        return sl_fail(err, SL_UNSUPPORTED, "%s: the cpu runs levels or groups, not edges",
                       program->name);
    sl_arena arena;
    sl_arena_init(&arena, device->allocator);
    sl_cpu_executable *exe = SL_ARENA_NEW(&arena, sl_cpu_executable);
    if (!exe) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "an executable", sizeof *exe);
    }
    exe->base.ops = &sl_cpu_ops;
    exe->arena = arena;
    exe->device = device;
    exe->rebound = true;
    sl_status status = sl_binding_init(&exe->binding, program, &exe->arena, err);
    if (status == SL_OK) status = fill_executable(exe, is_body, err);
    if (status == SL_OK)
        *out = exe;
    else
        sl_cpu_unload(exe);
    return status;
}

/* ---- device interface ---- */

static sl_status cpu_load(sl_device *base, const sl_program *program, sl_executable **out,
                          sl_error *err) {
    sl_cpu_executable *exe;
    SL_TRY(sl_cpu_load((sl_cpu_device *)base, program, false, &exe, err));
    *out = &exe->base;
    return SL_OK;
}

static void cpu_unload(sl_executable *base) {
    sl_cpu_unload(sl_cpu_executable_of(base));
}

static sl_status cpu_bind(sl_executable *base, sl_buffer_id buffer, void *data, sl_error *err) {
    sl_cpu_executable *exe = sl_cpu_executable_of(base);
    exe->rebound = true;
    return sl_binding_set(&exe->binding, buffer, data, err);
}

static sl_status cpu_bind_experts(sl_executable *base, sl_buffer_id buffer,
                                  sl_expert_source *source, sl_error *err) {
    sl_cpu_executable *exe = sl_cpu_executable_of(base);
    exe->rebound = true;
    return sl_binding_set_experts(&exe->binding, buffer, source, err);
}

static sl_status cpu_run(sl_executable *base, sl_error *err) {
    return sl_cpu_run(sl_cpu_executable_of(base), err);
}
static sl_status cpu_run_serially(sl_executable *base, const uint32_t *order, sl_error *err) {
    return sl_cpu_run_serially(sl_cpu_executable_of(base), order, err);
}
static sl_status cpu_run_step(sl_executable *base, uint32_t step, sl_error *err) {
    return sl_cpu_run_step(sl_cpu_executable_of(base), step, err);
}
static void cpu_attach(sl_executable *base, sl_trace *trace) {
    sl_cpu_attach(sl_cpu_executable_of(base), trace);
}

static const void *cpu_output(const sl_executable *base, uint32_t index) {
    sl_executable_check(base, &sl_cpu_ops);
    const sl_cpu_executable *exe = (const sl_cpu_executable *)base;
    return sl_binding_resolve(&exe->binding, &exe->binding.program->outputs[index].operand,
                              exe->device->arena.data);
}

static void *cpu_allocate(sl_device *base, uint64_t bytes) {
    return sl_host_allocate(((sl_cpu_device *)base)->allocator, bytes);
}
static void cpu_release(sl_device *base, void *memory, uint64_t bytes) {
    sl_host_release(((sl_cpu_device *)base)->allocator, memory, bytes);
}
static sl_status cpu_read(sl_executable *base, const sl_operand *operand, void *to, sl_error *err) {
    const sl_cpu_executable *exe = sl_cpu_executable_of(base);
    return sl_host_read(&exe->binding, operand, exe->device->arena.data, to, err);
}
static sl_status cpu_write(sl_executable *base, const sl_operand *operand, const void *from,
                           sl_error *err) {
    sl_cpu_executable *exe = sl_cpu_executable_of(base);
    return sl_host_write(&exe->binding, operand, exe->device->arena.data, from, err);
}

static void cpu_describe(const sl_device *base, sl_device_info *out) {
    const sl_cpu_device *device = (const sl_cpu_device *)base;
    out->isa = device->kernels->isa;
    out->threads = sl_team_size(device->team);
    out->kv_dtypes[0] = SL_DTYPE_k16; /* faster than f16 on a CPU */
    out->kv_dtypes[1] = SL_DTYPE_f16;
    out->kv_dtypes[2] = SL_DTYPE_f32;
    out->kv_dtype_count = 3;
}
static void cpu_count(const sl_device *base, sl_device_stats *out) {
    const sl_cpu_device *device = (const sl_cpu_device *)base;
    out->workspace_bytes = device->arena.bytes + device->scratch.bytes;
}

const sl_device_ops sl_cpu_ops = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .describe = cpu_describe,
    .count = cpu_count,
    .load = cpu_load,
    .unload = cpu_unload,
    .resize = cpu_resize,
    .bind = cpu_bind,
    .bind_experts = cpu_bind_experts,
    .run = cpu_run,
    .run_serially = cpu_run_serially,
    .attach = cpu_attach,
    .output = cpu_output,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .copy_in = sl_host_copy,
    .copy_out = sl_host_copy,
    .copy_within = sl_host_copy,
    .weight_changed = sl_host_weight_changed,
    .run_step = cpu_run_step,
    .read = cpu_read,
    .write = cpu_write,
};

sl_status sl_device_cpu_create(const sl_device_options *options, const sl_allocator *allocator,
                               sl_device **out, sl_error *err) {
    const sl_kernel_set *kernels = sl_cpu_kernel_set(options->isa);
    if (!kernels)
        return sl_fail(
            err, SL_UNSUPPORTED,
            "instruction set '%s': this machine or build lacks it (`make ISA=all` builds "
            "all of baseline, avx2, avx512, neon)",
            options->isa);
    sl_cpu_device *device = sl_allocate(allocator, sizeof *device, _Alignof(sl_cpu_device));
    if (!device) return sl_no_memory(err, "the cpu device", sizeof *device);
    device->base.ops = &sl_cpu_ops;
    device->allocator = allocator;
    device->kernels = kernels;
    sl_status status = sl_team_create(options->threads, allocator, &device->team, err);
    if (status == SL_OK && options->pin) status = sl_team_pin(device->team, err);
    if (status == SL_OK)
        *out = &device->base;
    else
        cpu_destroy(&device->base);
    return status;
}
