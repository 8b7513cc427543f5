/* executable.h - A program made ready on the CPU; shared by loading (device.c) and running
 * (execute.c, announce.c). */
#ifndef SL_RUNTIME_CPU_EXECUTABLE_H
#define SL_RUNTIME_CPU_EXECUTABLE_H
#include "base/team.h"
#include "runtime/binding.h"
#include "runtime/cpu/kernel.h"
#include "runtime/device.h"
#include <stdatomic.h>

enum { SL_CPU_CACHE_LINE = 64 };

typedef struct {
    void *data;
    size_t bytes, alignment;
} sl_cpu_block;

typedef struct {
    sl_device base;
    const sl_allocator *allocator;
    sl_team *team;
    const sl_kernel_set *kernels;
    sl_cpu_block arena, scratch; /* shared by all executables: one runs at a time */
    size_t scratch_bytes_each;   /* of a member */
} sl_cpu_device;

/* A step with its kernel. */
typedef struct {
    const sl_kernel *kernel;
    void *args; /* sl_<op>_args */
    int64_t items, grain;
} sl_cpu_task;

/* Items [begin, end) of a task, for one member. */
typedef struct {
    uint32_t task;
    int64_t begin, end;
    double cost; /* beside that of the phase's other chunks */
} sl_cpu_chunk;

typedef struct {
    uint32_t first_task, task_count;
    uint32_t first_chunk, chunk_count; /* the largest first */
    bool serial;
} sl_cpu_phase;

struct sl_executable {
    sl_cpu_device *device;
    sl_arena arena;
    sl_binding binding;
    sl_cpu_task *tasks; /* one per step, in order */
    sl_cpu_phase *phases;
    sl_cpu_chunk *chunks;
    uint32_t phase_count, chunk_count;
    void *resolved_arena; /* the device arena that args point into */
    bool rebound;         /* bindings changed since args were resolved */
    uint32_t run_number;  /* since the trace was attached */
    sl_trace *trace;      /* NULL: none */
    /* of the run in progress */
    uint32_t phase;
    uint32_t turn_begin, turn_end;                      /* chunks of the phase that are given out */
    atomic_uint announced;                              /* shares of the phase's announcement */
    _Alignas(SL_CPU_CACHE_LINE) atomic_uint next_event; /* of the trace */
    _Alignas(SL_CPU_CACHE_LINE) atomic_bool failed;
    sl_error error; /* the first */
};

sl_status sl_cpu_run(sl_executable *exe, sl_error *err);
sl_status sl_cpu_run_serially(sl_executable *exe, const uint32_t *order, sl_error *err);
sl_status sl_cpu_run_step(sl_executable *exe, uint32_t step, sl_error *err);
void sl_cpu_attach(sl_executable *exe, sl_trace *trace);

#if defined(__SANITIZE_THREAD__)
#define SL_CPU_ANNOUNCES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SL_CPU_ANNOUNCES 1
#endif
#endif
#ifndef SL_CPU_ANNOUNCES
#define SL_CPU_ANNOUNCES 0
#endif
/* Tells ThreadSanitizer which bytes the steps of a phase declare to touch, before any of them runs:
 * steps of one level that touch common bytes are then reported as a race, whatever their kernels
 * do.  The first sl_cpu_announcers chunks of a shared phase do this, each on a member of its own;
 * none returns before all have announced, since a step's chunks touch what others announce. */
#if SL_CPU_ANNOUNCES
uint32_t sl_cpu_announcers(const sl_executable *exe);
void sl_cpu_announce(sl_executable *exe, const sl_cpu_phase *phase, uint32_t announcer);
#else
static inline uint32_t sl_cpu_announcers(const sl_executable *exe) {
    (void)exe;
    return 0;
}
static inline void sl_cpu_announce(sl_executable *exe, const sl_cpu_phase *phase,
                                   uint32_t announcer) {
    (void)exe, (void)phase, (void)announcer;
}
#endif
#endif
