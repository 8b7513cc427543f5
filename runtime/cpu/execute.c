/* execute.c - Execution on the CPU: the work of a level is divided into chunks that threads claim,
 * so that slower threads do less.  A level that is too small to share is run by the thread that
 * finished the previous one, while the others wait. */
#include "base/clock.h"
#include "runtime/arguments.h"
#include "runtime/cpu/executable.h"

static void record(sl_cpu_executable *exe, uint32_t step, uint32_t member, double begin) {
    const uint32_t at = atomic_fetch_add_explicit(&exe->next_event, 1, memory_order_relaxed);
    if (at >= exe->trace->capacity) return;
    exe->trace->events[at] = (sl_trace_event){.step = step,
                                              .member = member,
                                              .begin = begin,
                                              .end = sl_clock_seconds(),
                                              .run = exe->run_number};
}

static bool has_failed(const sl_cpu_executable *exe) {
    return atomic_load_explicit(&exe->failed, memory_order_relaxed);
}

static void run_items(sl_cpu_executable *exe, uint32_t member, const sl_cpu_task *t, int64_t begin,
                      int64_t end) {
    if (has_failed(exe) || begin == end) return;
    const sl_cpu_device *device = exe->device;
    sl_error error;
    sl_worker worker = {
        .scratch = t->own_scratch
                       ? t->own_scratch
                       : (char *)device->scratch.data + member * device->scratch_bytes_each,
        .err = &error,
        .prepared = t->prepared,
        .bodies = t->bodies,
        .label = t->label,
    };
    const double start = exe->trace ? sl_clock_seconds() : 0;
    sl_memory_forbid();
    const sl_status status = t->kernel->run(t->args, begin, end, &worker);
    sl_memory_allow();
    if (exe->trace) record(exe, (uint32_t)(t - exe->tasks), member, start);
    /* cppcheck-suppress uninitvar ; a kernel that fails says why */
    if (status != SL_OK && !atomic_exchange(&exe->failed, true)) exe->error = error;
}

static void run_chunk(void *ctx, uint32_t member, uint32_t chunk) {
    sl_cpu_executable *exe = ctx;
    const sl_cpu_phase *p = &exe->phases[exe->phase];
    const uint32_t announcers = sl_cpu_announcers(exe), at = exe->turn_begin + chunk;
    if (at < announcers) {
        sl_cpu_announce(exe, p, at);
        return;
    }
    const sl_cpu_chunk *c = &exe->chunks[p->first_chunk + at - announcers];
    run_items(exe, member, &exe->tasks[c->task], c->begin, c->end);
}

static void run_alone(sl_cpu_executable *exe, uint32_t member, const sl_cpu_phase *p) {
    sl_cpu_announce(exe, p, 0);
    for (uint32_t t = p->first_task; t < p->first_task + p->task_count; t++)
        run_items(exe, member, &exe->tasks[t], 0, exe->tasks[t].items);
}

/* The next chunks of a phase, as many as one team loop can hold. */
static uint32_t next_turn(sl_cpu_executable *exe, const sl_cpu_phase *p) {
    const uint32_t left = p->chunk_count + sl_cpu_announcers(exe) - exe->turn_end;
    exe->turn_begin = exe->turn_end;
    exe->turn_end += left < SL_TEAM_MOST_CHUNKS ? left : SL_TEAM_MOST_CHUNKS;
    return exe->turn_end - exe->turn_begin;
}

/* Advances to the next phase with work to share, running serial phases on the way.  After a failure
 * the run ends. */
static uint32_t next_chunks(void *ctx, uint32_t member) {
    sl_cpu_executable *exe = ctx;
    for (; exe->phase < exe->phase_count && !has_failed(exe); exe->phase++) {
        const sl_cpu_phase *p = &exe->phases[exe->phase];
        if (p->serial) {
            run_alone(exe, member, p);
            continue;
        }
        const uint32_t chunks = next_turn(exe, p);
        if (chunks) return chunks;
        exe->turn_end = 0;
        atomic_store_explicit(&exe->announced, 0, memory_order_relaxed);
    }
    return 0;
}

void sl_cpu_fill_pointers(sl_cpu_executable *exe, void *arena) {
    const sl_program *program = exe->binding.program;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        for (uint32_t i = 0; i < step->operand_count; i++)
            sl_argument(step, exe->tasks[s].args, i)->data =
                sl_binding_resolve(&exe->binding, &step->operands[i], arena);
    }
    exe->resolved_arena = arena;
    exe->rebound = false;
}

static sl_status begin_run(sl_cpu_executable *exe, sl_error *err) {
    if (exe->rebound) SL_TRY(sl_binding_check(&exe->binding, err));
    if (exe->rebound || exe->resolved_arena != exe->device->arena.data)
        sl_cpu_fill_pointers(exe, exe->device->arena.data);
    atomic_store(&exe->failed, false);
    return SL_OK;
}

static sl_status end_run(sl_cpu_executable *exe, sl_error *err) {
    exe->run_number++;
    if (exe->trace) {
        const uint32_t events = atomic_load(&exe->next_event);
        const uint32_t kept = events < exe->trace->capacity ? events : exe->trace->capacity;
        exe->trace->count = kept;
        exe->trace->dropped += events - kept;
        atomic_store(&exe->next_event, kept);
    }
    if (!has_failed(exe)) return SL_OK;
    if (err) *err = exe->error;
    return exe->error.status;
}

sl_status sl_cpu_run(sl_cpu_executable *exe, sl_error *err) {
    SL_TRY(begin_run(exe, err));
    static const sl_team_job phases = {next_chunks, run_chunk, SL_CPU_ANNOUNCES};
    exe->phase = exe->turn_end = 0;
    atomic_store(&exe->announced, 0);
    sl_team_run(exe->device->team, &phases, exe);
    return end_run(exe, err);
}

sl_status sl_cpu_run_serially(sl_cpu_executable *exe, const uint32_t *order, sl_error *err) {
    const uint32_t count = exe->binding.program->step_count;
    for (uint32_t i = 0; order && i < count; i++)
        if (order[i] >= count)
            return sl_fail(err, SL_INVALID, "an order with step %u, but the program has %u steps",
                           order[i], count);
    SL_TRY(begin_run(exe, err));
    for (uint32_t i = 0; i < count; i++) {
        const sl_cpu_task *t = &exe->tasks[order ? order[i] : i];
        run_items(exe, 0, t, 0, t->items);
    }
    return end_run(exe, err);
}

sl_status sl_cpu_run_step(sl_cpu_executable *exe, uint32_t step, sl_error *err) {
    if (step >= exe->binding.program->step_count)
        return sl_fail(err, SL_INVALID, "step %u: the program has %u", step,
                       exe->binding.program->step_count);
    SL_TRY(begin_run(exe, err));
    run_items(exe, 0, &exe->tasks[step], 0, exe->tasks[step].items);
    return end_run(exe, err);
}

void sl_cpu_attach(sl_cpu_executable *exe, sl_trace *trace) {
    exe->trace = trace;
    exe->run_number = 0;
    atomic_store(&exe->next_event, trace ? trace->count : 0);
}
