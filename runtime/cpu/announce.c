/* announce.c - Announces the declared accesses of steps to ThreadSanitizer. */
#include "runtime/cpu/executable.h"
#include <sched.h>

#if SL_CPU_ANNOUNCES
void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes);

/* A race between two steps is only detected if different members announce them.  The member is one
 * base-`members` digit of the step's number, a different digit in each run, so that after a few
 * runs every pair of steps has had different members. */
enum { DIGITS = 6 };

static uint32_t announcer_of(const sl_cpu_executable *exe, uint32_t step) {
    const uint32_t members = sl_team_size(exe->device->team);
    for (uint32_t digit = exe->run_number % DIGITS; digit > 0; digit--) step /= members;
    return step % members;
}

typedef void announce_fn(void *address, unsigned long bytes);

/* Memory that is never written cannot race. */
static bool is_shared(const sl_buffer *buffer) {
    return buffer->kind == SL_BUFFER_INPUT || buffer->kind == SL_BUFFER_STATE ||
           buffer->kind == SL_BUFFER_OUTPUT || buffer->kind == SL_BUFFER_TEMP;
}

static void announce(const sl_cpu_executable *exe, const sl_access *access, announce_fn *tell) {
    if (!is_shared(&exe->binding.program->buffers[access->buffer.v])) return;
    const sl_operand start = {.buffer = access->buffer, .offset_bytes = access->begin};
    char *run = sl_binding_resolve(&exe->binding, &start, exe->device->arena.data);
    for (uint32_t i = 0; i < access->count; i++, run += access->stride) tell(run, access->bytes);
}

uint32_t sl_cpu_announcers(const sl_cpu_executable *exe) {
    return sl_team_size(exe->device->team);
}

/* A barrier.  A member that waits here claims no other share, so each member announces exactly
 * one. */
static void meet(sl_cpu_executable *exe) {
    atomic_fetch_add(&exe->announced, 1);
    while (atomic_load(&exe->announced) < sl_cpu_announcers(exe)) sched_yield();
}

void sl_cpu_announce(sl_cpu_executable *exe, const sl_cpu_phase *phase, uint32_t announcer) {
    for (uint32_t s = phase->first_task; s < phase->first_task + phase->task_count; s++) {
        const sl_step *step = &exe->binding.program->steps[s];
        if (announcer != (phase->serial ? 0 : announcer_of(exe, s))) continue;
        for (uint32_t i = 0; i < step->read_count; i++)
            announce(exe, &step->reads[i], __tsan_read_range);
        for (uint32_t i = 0; i < step->write_count; i++)
            announce(exe, &step->writes[i], __tsan_write_range);
    }
    if (!phase->serial) meet(exe);
}
#else
typedef int announces_nothing; /* ISO C does not allow an empty file */
#endif
