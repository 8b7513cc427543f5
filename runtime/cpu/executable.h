/* executable.h - A program loaded on the CPU; shared by loading (device.c) and running (execute.c,
 * announce.c). */
#ifndef SL_RUNTIME_CPU_EXECUTABLE_H
#define SL_RUNTIME_CPU_EXECUTABLE_H
#include "base/team.h"
#include "runtime/binding.h"
#include "runtime/cpu/kernel_set.h"
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
    size_t scratch_bytes_each;   /* per member */
} sl_cpu_device;

/* A step with its kernel. */
typedef struct {
    const sl_kernel *kernel;
    void *args;           /* sl_<op>_args */
    const void *prepared; /* tables made by the kernel; NULL if it has none */
    int64_t items, grain;
    sl_body **bodies;  /* bodies of the step, owned */
    void *own_scratch; /* scratch of a step with bodies; NULL: it uses the member's */
    const char *label;
} sl_cpu_task;

/* In a body: a step argument that is bound to an input of the program. */
typedef struct {
    sl_view *view;
    uint64_t offset_bytes;
} sl_cpu_patch;

/* Items [begin, end) of a task, for one member. */
typedef struct {
    uint32_t task;
    int64_t begin, end;
    double cost; /* relative to the other chunks of the phase */
} sl_cpu_chunk;

typedef struct {
    uint32_t first_task, task_count;
    uint32_t first_chunk, chunk_count; /* in order of descending cost */
    bool serial;
} sl_cpu_phase;

typedef struct {
    sl_executable base;
    sl_cpu_device *device;
    sl_arena arena;
    sl_binding binding;
    sl_cpu_task *tasks; /* one per step, in order */
    sl_cpu_phase *phases;
    sl_cpu_chunk *chunks;
    uint32_t phase_count, chunk_count, chunk_capacity;
    bool resized; /* steps have these sizes, else those that they were compiled for */
    int64_t sizes[SL_MOST_SIZES];
    void *resolved_arena; /* the device arena that args point into */
    bool rebound;         /* bindings changed since args were resolved */
    uint32_t run_number;  /* since the trace was attached */
    sl_trace *trace;      /* NULL: none */
    /* State of the current run: */
    uint32_t phase;
    /* Chunks of the phase that the team currently claims from. */
    uint32_t turn_begin, turn_end;
    atomic_uint announced;                              /* members that have announced the phase */
    _Alignas(SL_CPU_CACHE_LINE) atomic_uint next_event; /* index of the next trace event */
    _Alignas(SL_CPU_CACHE_LINE) atomic_bool failed;
    sl_error error; /* the first error */
    /* Only of a body: */
    sl_body body;
    size_t scratch_bytes; /* per member */
    sl_cpu_block own_arena, own_scratch;
    uint32_t *inputs;      /* [input]: index of its buffer */
    uint32_t *first_patch; /* [input + 1]: start of its patches */
    sl_cpu_patch *patches;
} sl_cpu_executable;

extern const sl_device_ops sl_cpu_ops;
static inline sl_cpu_executable *sl_cpu_executable_of(sl_executable *exe) {
    sl_executable_check(exe, &sl_cpu_ops);
    return (sl_cpu_executable *)exe;
}

/* device.c: makes a program ready to run, by itself or as a body. */
sl_status sl_cpu_load(sl_cpu_device *device, const sl_program *program, bool is_body,
                      sl_cpu_executable **out, sl_error *err);
void sl_cpu_unload(sl_cpu_executable *exe); /* NULL is fine */
/* device.c: makes the memory that all executables share large enough; it is, unless an allocation
 * for another executable has failed. */
SL_CHECKED sl_status sl_cpu_make_room(sl_cpu_executable *exe, sl_error *err);
/* bodies.c: loads the bodies of a step, and takes scratch for it alone. */
sl_status sl_cpu_add_bodies(sl_cpu_executable *exe, const sl_step *step, sl_cpu_task *task,
                            size_t scratch_bytes, sl_error *err);
void sl_cpu_remove_bodies(const sl_step *step, const sl_cpu_task *task);
/* Allocates a body's own memory and resolves all its pointers except its inputs. */
sl_status sl_cpu_prepare_body(sl_cpu_executable *exe, size_t scratch_bytes, sl_error *err);
/* Resolves the operand pointers of all steps. */
void sl_cpu_fill_pointers(sl_cpu_executable *exe, void *arena);

sl_status sl_cpu_run(sl_cpu_executable *exe, sl_error *err);
sl_status sl_cpu_run_serially(sl_cpu_executable *exe, const uint32_t *order, sl_error *err);
sl_status sl_cpu_run_step(sl_cpu_executable *exe, uint32_t step, sl_error *err);
void sl_cpu_attach(sl_cpu_executable *exe, sl_trace *trace);

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
/* Tells ThreadSanitizer which bytes the steps of a phase declare to access, before any of them
 * runs: steps of one level that access common bytes are then reported as a race, whatever their
 * kernels do.  The first sl_cpu_announcers chunks of a shared phase do this, one per member; none
 * returns before all have announced, since the chunks of a step access what others announce. */
#if SL_CPU_ANNOUNCES
uint32_t sl_cpu_announcers(const sl_cpu_executable *exe);
void sl_cpu_announce(sl_cpu_executable *exe, const sl_cpu_phase *phase, uint32_t announcer);
#else
static inline uint32_t sl_cpu_announcers(const sl_cpu_executable *exe) {
    (void)exe;
    return 0;
}
static inline void sl_cpu_announce(sl_cpu_executable *exe, const sl_cpu_phase *phase,
                                   uint32_t announcer) {
    (void)exe, (void)phase, (void)announcer;
}
#endif
/* target.c: finds the kernel of a step; SL_UNSUPPORTED, naming the step, if there is none. */
SL_CHECKED sl_status sl_cpu_find(const sl_kernel_set *set, const sl_step *step,
                                 const sl_kernel **out, sl_error *err);
#endif
