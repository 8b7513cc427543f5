/* execute.c - Running on the CPU: a level's work is cut into chunks that members claim from one
 * counter, so that who is slower does less.  Levels too small to share are run by member 0 alone;
 * consecutive ones form one phase, so that the others wait once. */
#include "base/clock.h"
#include "runtime/cpu/executable.h"

/* One member during a run. */
typedef struct {
    sl_executable *exe;
    uint32_t index;
    uint32_t phase;
    sl_worker worker;
    sl_error error;
} member;

static void member_init(member *m, sl_executable *exe, uint32_t index) {
    *m = (member){.exe = exe, .index = index};
    m->worker = (sl_worker){
        .scratch = (char *)exe->device->scratch.data + index * exe->device->scratch_bytes_each,
        .err = &m->error,
    };
}

static void record(const member *m, uint32_t step, double begin) {
    sl_executable *exe = m->exe;
    const uint32_t at = atomic_fetch_add_explicit(&exe->next_event, 1, memory_order_relaxed);
    if (at >= exe->trace->capacity) return;
    exe->trace->events[at] = (sl_trace_event){.step = step,
                                              .member = m->index,
                                              .begin = begin,
                                              .end = sl_clock_seconds(),
                                              .run = exe->run_number};
}

static void run_items(member *m, const sl_cpu_task *t, int64_t begin, int64_t end) {
    sl_executable *exe = m->exe;
    if (atomic_load_explicit(&exe->failed_phase, memory_order_relaxed) != SL_CPU_NO_PHASE) return;
    const double start = exe->trace ? sl_clock_seconds() : 0;
    const sl_status status = t->kernel->run(t->args, begin, end, &m->worker);
    if (exe->trace) record(m, (uint32_t)(t - exe->tasks), start);
    if (status == SL_OK) return;
    if (!atomic_flag_test_and_set(&exe->error_taken)) exe->error = m->error;
    atomic_store(&exe->failed_phase, m->phase);
}

static void run_shared(member *m, uint32_t index) {
    const sl_cpu_phase *p = &m->exe->phases[index];
    const sl_cpu_chunk *chunks = &m->exe->chunks[p->first_chunk];
    atomic_uint *next = &m->exe->next_chunk[index];
    for (;;) {
        const uint32_t chunk = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        if (chunk >= p->chunk_count) return;
        run_items(m, &m->exe->tasks[chunks[chunk].task], chunks[chunk].begin, chunks[chunk].end);
    }
}

static void run_alone(member *m, const sl_cpu_phase *p) {
    for (uint32_t t = p->first_task; t < p->first_task + p->task_count; t++)
        run_items(m, &m->exe->tasks[t], 0, m->exe->tasks[t].items);
}

static void run_member(void *ctx, uint32_t index) {
    sl_executable *exe = ctx;
    member m;
    member_init(&m, exe, index);
    sl_memory_forbid();
    for (uint32_t i = 0; i < exe->phase_count; i++) {
        const sl_cpu_phase *p = &exe->phases[i];
        m.phase = i;
        sl_cpu_announce(exe, p, index);
        if (!p->serial)
            run_shared(&m, i);
        else if (index == 0)
            run_alone(&m, p);
        if (exe->phase_count > 1) sl_team_barrier(exe->device->team);
        /* A later phase may have failed before this member looks: then all meet once more. */
        if (atomic_load(&exe->failed_phase) <= i) break;
    }
    sl_memory_allow();
}

static void fill_pointers(sl_executable *exe) {
    const sl_program *program = exe->binding.program;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        sl_view *views = exe->tasks[s].args;
        for (uint32_t i = 0; i < step->operand_count; i++)
            views[i].data =
                sl_binding_resolve(&exe->binding, &step->operands[i], exe->device->arena.data);
    }
    exe->resolved_arena = exe->device->arena.data;
    exe->rebound = false;
}

static sl_status begin_run(sl_executable *exe, sl_error *err) {
    if (exe->rebound) SL_TRY(sl_binding_check(&exe->binding, err));
    if (exe->rebound || exe->resolved_arena != exe->device->arena.data) fill_pointers(exe);
    atomic_store(&exe->failed_phase, SL_CPU_NO_PHASE);
    atomic_flag_clear(&exe->error_taken);
    return SL_OK;
}

static sl_status end_run(sl_executable *exe, sl_error *err) {
    exe->run_number++;
    if (exe->trace) {
        const uint32_t events = atomic_load(&exe->next_event);
        const uint32_t kept = events < exe->trace->capacity ? events : exe->trace->capacity;
        exe->trace->count = kept;
        exe->trace->dropped += events - kept;
        atomic_store(&exe->next_event, kept);
    }
    if (atomic_load(&exe->failed_phase) == SL_CPU_NO_PHASE) return SL_OK;
    if (err) *err = exe->error;
    return exe->error.status;
}

sl_status sl_cpu_run(sl_executable *exe, sl_error *err) {
    SL_TRY(begin_run(exe, err));
    for (uint32_t i = 0; i < exe->phase_count; i++)
        atomic_store_explicit(&exe->next_chunk[i], 0, memory_order_relaxed);
    sl_team_run(exe->device->team, run_member, exe);
    return end_run(exe, err);
}

sl_status sl_cpu_run_serially(sl_executable *exe, const uint32_t *order, sl_error *err) {
    const uint32_t count = exe->binding.program->step_count;
    for (uint32_t i = 0; order && i < count; i++)
        if (order[i] >= count)
            return sl_fail(err, SL_INVALID, "an order with step %u: the program has %u", order[i],
                           count);
    SL_TRY(begin_run(exe, err));
    member m;
    member_init(&m, exe, 0);
    sl_memory_forbid();
    for (uint32_t i = 0; i < count; i++) {
        const sl_cpu_task *t = &exe->tasks[order ? order[i] : i];
        run_items(&m, t, 0, t->items);
    }
    sl_memory_allow();
    return end_run(exe, err);
}

sl_status sl_cpu_run_step(sl_executable *exe, uint32_t step, sl_error *err) {
    if (step >= exe->binding.program->step_count)
        return sl_fail(err, SL_INVALID, "step %u: the program has %u", step,
                       exe->binding.program->step_count);
    SL_TRY(begin_run(exe, err));
    member m;
    member_init(&m, exe, 0);
    run_items(&m, &exe->tasks[step], 0, exe->tasks[step].items);
    return end_run(exe, err);
}

void sl_cpu_attach(sl_executable *exe, sl_trace *trace) {
    exe->trace = trace;
    exe->run_number = 0;
    atomic_store(&exe->next_event, trace ? trace->count : 0);
}
