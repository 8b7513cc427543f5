/* device.c - The CPU device: kernels resolved once, levels run by a team of threads.
 *
 * A level's work is cut into chunks that members claim from one counter.  Levels too small to share
 * are run by member 0 alone; consecutive ones form one phase, so that the others wait once. */
#include "runtime/device.h"
#include "base/sizes.h"
#include "base/team.h"
#include "runtime/binding.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/kernel.h"
#include <stdatomic.h>
#include <string.h>

enum { CACHE_LINE = 64, CHUNKS_PER_MEMBER = 4 };

typedef struct {
    sl_device base;
    const sl_allocator *allocator;
    sl_team *team;
    const sl_kernel_set *kernels;
    void *arena, *scratch; /* shared by all executables: one runs at a time */
    size_t arena_bytes, scratch_bytes_each;
} cpu_device;

typedef struct {
    const sl_kernel *kernel;
    void *args; /* sl_<op>_args */
    int64_t items, chunk_items;
    uint32_t first_chunk; /* within its phase */
} task;

typedef struct {
    uint32_t first_task, task_count, chunk_count;
    bool serial;
} phase;

struct sl_executable {
    cpu_device *device;
    sl_arena arena;
    sl_binding binding;
    task *tasks; /* one per step, in order */
    phase *phases;
    uint32_t phase_count;
    void *resolved_arena; /* the device arena that args point into */
    bool rebound;         /* bindings changed since args were resolved */
    /* of the run in progress */
    _Alignas(CACHE_LINE) atomic_uint *next_chunk; /* [phase] */
    _Alignas(CACHE_LINE) atomic_bool failed;
    atomic_flag error_taken;
    sl_error error;
};

static void cpu_destroy(sl_device *base) {
    cpu_device *device = (cpu_device *)base;
    sl_release(device->allocator, device->arena, device->arena_bytes, CACHE_LINE);
    sl_release(device->allocator, device->scratch,
               device->scratch_bytes_each * sl_team_size(device->team), CACHE_LINE);
    sl_team_destroy(device->team);
    sl_release(device->allocator, device, sizeof *device, _Alignof(cpu_device));
}

/* The argument struct is an array of views followed by the attributes. */
static void fill_types(const sl_step *step, void *args) {
    const sl_op_info *info = sl_op_info_of(step->op);
    sl_view *views = args;
    for (uint32_t i = 0; i < step->operand_count; i++) views[i].type = step->operands[i].type;
    memcpy(views + step->operand_count, step->attrs, info->attrs_bytes);
}

static void fill_pointers(sl_executable *exe) {
    const sl_program *program = exe->binding.program;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        sl_view *views = exe->tasks[s].args;
        for (uint32_t i = 0; i < step->operand_count; i++)
            views[i].data =
                sl_binding_resolve(&exe->binding, &step->operands[i], exe->device->arena);
    }
    exe->resolved_arena = exe->device->arena;
    exe->rebound = false;
}

static sl_status make_task(sl_executable *exe, const sl_step *step, task *out, size_t *scratch,
                           sl_error *err) {
    sl_type types[SL_MAX_INPUTS + SL_MAX_OUTPUTS];
    for (uint32_t i = 0; i < step->operand_count; i++) types[i] = step->operands[i].type;
    const sl_kernel *kernel = sl_cpu_kernel_find(exe->device->kernels, step->op, types);
    if (!kernel) {
        char text[SL_TYPE_TEXT], second[SL_TYPE_TEXT];
        return sl_fail(err, SL_UNSUPPORTED, "%s: the cpu has no kernel for %s of %s and %s",
                       step->label, sl_op_info_of(step->op)->name,
                       sl_type_format(&types[0], text, sizeof text),
                       sl_type_format(&types[step->operand_count > 1], second, sizeof second));
    }
    void *args = sl_arena_alloc(&exe->arena, sl_op_info_of(step->op)->args_bytes, CACHE_LINE);
    if (!args) return sl_no_memory(err, "kernel arguments", sl_op_info_of(step->op)->args_bytes);
    fill_types(step, args);
    const sl_split split = kernel->split(args);
    const int64_t members = sl_team_size(exe->device->team);
    int64_t chunk = (split.items + members * CHUNKS_PER_MEMBER - 1) / (members * CHUNKS_PER_MEMBER);
    if (chunk < split.grain) chunk = split.grain;
    *out = (task){.kernel = kernel, .args = args, .items = split.items, .chunk_items = chunk};
    if (split.scratch_bytes > *scratch) *scratch = split.scratch_bytes;
    return SL_OK;
}

/* Cuts the steps into phases: a level with several chunks, or a run of levels without. */
static void make_phases(sl_executable *exe) {
    const sl_program *program = exe->binding.program;
    for (uint32_t s = 0; s < program->step_count;) {
        phase p = {.first_task = s};
        for (; s < program->step_count &&
               program->steps[s].level == program->steps[p.first_task].level;
             s++) {
            task *t = &exe->tasks[s];
            t->first_chunk = p.chunk_count;
            p.chunk_count += (uint32_t)((t->items + t->chunk_items - 1) / t->chunk_items);
        }
        p.task_count = s - p.first_task;
        p.serial = p.chunk_count <= 1 || sl_team_size(exe->device->team) == 1;
        const uint32_t n = exe->phase_count;
        if (n > 0 && p.serial && exe->phases[n - 1].serial)
            exe->phases[n - 1].task_count += p.task_count;
        else
            exe->phases[exe->phase_count++] = p;
    }
}

static sl_status ensure(cpu_device *device, void **block, size_t *bytes, size_t want,
                        uint32_t copies, const char *what, sl_error *err) {
    if (want <= *bytes) return SL_OK;
    void *fresh = sl_allocate(device->allocator, want * copies, CACHE_LINE);
    if (!fresh) return sl_no_memory(err, what, want * copies);
    sl_release(device->allocator, *block, *bytes * copies, CACHE_LINE);
    *block = fresh;
    *bytes = want;
    return SL_OK;
}

static sl_status fill_executable(sl_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    cpu_device *device = exe->device;
    exe->tasks = SL_ARENA_NEW_ARRAY(&exe->arena, task, program->step_count + 1);
    exe->phases = SL_ARENA_NEW_ARRAY(&exe->arena, phase, program->step_count + 1);
    exe->next_chunk = SL_ARENA_NEW_ARRAY(&exe->arena, atomic_uint, program->step_count + 1);
    if (!exe->tasks || !exe->phases || !exe->next_chunk)
        return sl_no_memory(err, "an executable", program->step_count * sizeof(task));
    size_t scratch = CACHE_LINE;
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(make_task(exe, &program->steps[s], &exe->tasks[s], &scratch, err));
    make_phases(exe);
    SL_TRY(ensure(device, &device->scratch, &device->scratch_bytes_each,
                  sl_round_up(scratch, CACHE_LINE), sl_team_size(device->team), "kernel scratch",
                  err));
    return ensure(device, &device->arena, &device->arena_bytes, program->arena_bytes, 1,
                  "activations", err);
}

static void cpu_unload(sl_executable *exe) {
    if (!exe) return;
    sl_arena arena = exe->arena; /* the executable itself lives in it */
    sl_arena_deinit(&arena);
}

static sl_status cpu_load(sl_device *base, const sl_program *program, sl_executable **out,
                          sl_error *err) {
    cpu_device *device = (cpu_device *)base;
    sl_arena arena;
    sl_arena_init(&arena, device->allocator);
    sl_executable *exe = SL_ARENA_NEW(&arena, sl_executable);
    if (!exe) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "an executable", sizeof *exe);
    }
    exe->arena = arena;
    exe->device = device;
    exe->rebound = true;
    sl_status status = sl_binding_init(&exe->binding, program, &exe->arena, err);
    if (status == SL_OK) status = fill_executable(exe, err);
    if (status == SL_OK)
        *out = exe;
    else
        cpu_unload(exe);
    return status;
}

static sl_status cpu_bind(sl_executable *exe, sl_buffer_id buffer, void *data, sl_error *err) {
    exe->rebound = true;
    return sl_binding_set(&exe->binding, buffer, data, err);
}

static sl_status cpu_bind_experts(sl_executable *exe, sl_buffer_id buffer, sl_expert_source *source,
                                  sl_error *err) {
    exe->rebound = true;
    return sl_binding_set_experts(&exe->binding, buffer, source, err);
}

static void run_items(sl_executable *exe, const task *t, int64_t begin, int64_t end,
                      sl_worker *worker) {
    if (atomic_load_explicit(&exe->failed, memory_order_relaxed)) return;
    if (t->kernel->run(t->args, begin, end, worker) == SL_OK) return;
    if (!atomic_flag_test_and_set(&exe->error_taken)) exe->error = *worker->err;
    atomic_store(&exe->failed, true);
}

static void run_shared(sl_executable *exe, uint32_t index, sl_worker *worker) {
    const phase *p = &exe->phases[index];
    const task *tasks = &exe->tasks[p->first_task];
    uint32_t t = 0;
    for (;;) {
        const uint32_t chunk =
            atomic_fetch_add_explicit(&exe->next_chunk[index], 1, memory_order_relaxed);
        if (chunk >= p->chunk_count) return;
        while (t + 1 < p->task_count && tasks[t + 1].first_chunk <= chunk) t++;
        const int64_t begin = (int64_t)(chunk - tasks[t].first_chunk) * tasks[t].chunk_items;
        int64_t end = begin + tasks[t].chunk_items;
        if (end > tasks[t].items) end = tasks[t].items;
        run_items(exe, &tasks[t], begin, end, worker);
    }
}

static void run_member(void *ctx, uint32_t member) {
    sl_executable *exe = ctx;
    sl_error error = {.status = SL_OK};
    sl_worker worker = {
        .scratch = (char *)exe->device->scratch + member * exe->device->scratch_bytes_each,
        .err = &error,
    };
    sl_memory_forbid();
    for (uint32_t i = 0; i < exe->phase_count; i++) {
        const phase *p = &exe->phases[i];
        if (!p->serial)
            run_shared(exe, i, &worker);
        else if (member == 0)
            for (uint32_t t = p->first_task; t < p->first_task + p->task_count; t++)
                run_items(exe, &exe->tasks[t], 0, exe->tasks[t].items, &worker);
        if (exe->phase_count > 1) sl_team_barrier(exe->device->team);
        if (atomic_load(&exe->failed)) break;
    }
    sl_memory_allow();
}

static sl_status cpu_run(sl_executable *exe, sl_error *err) {
    if (exe->rebound) SL_TRY(sl_binding_check(&exe->binding, err));
    if (exe->rebound || exe->resolved_arena != exe->device->arena) fill_pointers(exe);
    for (uint32_t i = 0; i < exe->phase_count; i++)
        atomic_store_explicit(&exe->next_chunk[i], 0, memory_order_relaxed);
    atomic_store(&exe->failed, false);
    atomic_flag_clear(&exe->error_taken);
    sl_team_run(exe->device->team, run_member, exe);
    if (!atomic_load(&exe->failed)) return SL_OK;
    if (err) *err = exe->error;
    return exe->error.status;
}

static const void *cpu_output(const sl_executable *exe, uint32_t index) {
    return sl_binding_resolve(&exe->binding, &exe->binding.program->outputs[index].operand,
                              exe->device->arena);
}

static const sl_device_ops cpu_ops = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .load = cpu_load,
    .unload = cpu_unload,
    .bind = cpu_bind,
    .bind_experts = cpu_bind_experts,
    .run = cpu_run,
    .output = cpu_output,
};

sl_status sl_device_cpu_create(const sl_cpu_options *options, const sl_allocator *allocator,
                               sl_device **out, sl_error *err) {
    const sl_kernel_set *kernels = sl_cpu_kernel_set(options->isa);
    if (!kernels)
        return sl_fail(err, SL_UNSUPPORTED,
                       "instruction set '%s': this machine or build lacks it; known: baseline, "
                       "avx2, avx512",
                       options->isa);
    cpu_device *device = sl_allocate(allocator, sizeof *device, _Alignof(cpu_device));
    if (!device) return sl_no_memory(err, "the cpu device", sizeof *device);
    device->base.ops = &cpu_ops;
    device->allocator = allocator;
    device->kernels = kernels;
    const sl_status status = sl_team_create(options->threads, allocator, &device->team, err);
    if (status != SL_OK) {
        sl_release(allocator, device, sizeof *device, _Alignof(cpu_device));
        return status;
    }
    *out = &device->base;
    return SL_OK;
}

sl_cpu_info sl_device_cpu_info(const sl_device *device) {
    const cpu_device *cpu = (const cpu_device *)device;
    return (sl_cpu_info){
        .isa = cpu->kernels->isa,
        .threads = sl_team_size(cpu->team),
        .workspace_bytes = cpu->arena_bytes + cpu->scratch_bytes_each * sl_team_size(cpu->team),
    };
}
