/* team.c - Members sleep at a gate between jobs and meet at a barrier within one. */
#include "base/team.h"
#include "base/clock.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CACHE_LINE = 64, MAX_MEMBERS = 1024 };
/* Longer than a small step takes on another member, much shorter than a turn of the scheduler. */
static const double spin_seconds = 10e-6;

/* A word that counts openings in steps of two.  The lowest bit says that someone sleeps on it, so
 * that opening is a single exchange and calls the kernel only when there is someone to wake. */
typedef struct {
    _Alignas(CACHE_LINE) _Atomic uint32_t word;
} gate;
enum { ASLEEP = 1u, OPENING = 2u };

typedef struct {
    sl_team *team;
    uint32_t index;
    pthread_t thread;
} member;

struct sl_team {
    const sl_allocator *allocator;
    uint32_t size, started; /* started: threads that run, the caller not counted */
    uint32_t spins;         /* pauses before a waiting member sleeps */
    member *members;        /* [size - 1] */
    sl_team_job *job;       /* NULL: leave */
    void *ctx;
    gate start;
    gate meeting; /* opens when all have arrived */
    _Alignas(CACHE_LINE) _Atomic uint32_t arrived;
};

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline uint32_t gate_state(gate *g) {
    return atomic_load_explicit(&g->word, memory_order_acquire) & ~ASLEEP;
}

/* Everything written before is visible to those who pass. */
static void gate_open(gate *g) {
    const uint32_t next = gate_state(g) + OPENING;
    const uint32_t before = atomic_exchange_explicit(&g->word, next, memory_order_acq_rel);
    if (before & ASLEEP)
        (void)syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until the gate has left the state that was seen. */
static void gate_wait(gate *g, uint32_t seen, uint32_t spins) {
    for (uint32_t i = 0; i < spins; i++) {
        if (gate_state(g) != seen) return;
        pause_briefly();
    }
    while (gate_state(g) == seen) {
        uint32_t expected = seen;
        if (atomic_compare_exchange_strong_explicit(&g->word, &expected, seen | ASLEEP,
                                                    memory_order_acq_rel, memory_order_acquire) ||
            expected == (seen | ASLEEP))
            (void)syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, seen | ASLEEP, NULL, NULL, 0);
    }
}

/* The last to arrive opens the meeting; true for it. */
static bool arrive(sl_team *team) {
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 < team->size)
        return false;
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    gate_open(&team->meeting);
    return true;
}

void sl_team_barrier(sl_team *team) {
    if (team->size == 1) return;
    const uint32_t seen = gate_state(&team->meeting);
    if (!arrive(team)) gate_wait(&team->meeting, seen, team->spins);
}

static void *serve(void *argument) {
    const member *self = argument;
    sl_team *team = self->team;
    for (uint32_t seen = 0;; seen += OPENING) {
        gate_wait(&team->start, seen, team->spins);
        if (!team->job) return NULL;
        team->job(team->ctx, self->index);
        (void)arrive(team);
    }
}

void sl_team_run(sl_team *team, sl_team_job *job, void *ctx) {
    if (team->size > 1) {
        team->job = job;
        team->ctx = ctx;
        gate_open(&team->start);
    }
    job(ctx, 0);
    sl_team_barrier(team);
}

static uint32_t usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

/* How many pauses take spin_seconds: a pause lasts from 10 to 140 cycles. */
static uint32_t measure_spins(void) {
    enum { PAUSES = 128, ATTEMPTS = 3 };
    double shortest = 1;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        const double begin = sl_clock_seconds();
        for (int i = 0; i < PAUSES; i++) pause_briefly();
        const double seconds = sl_clock_seconds() - begin;
        if (seconds < shortest) shortest = seconds;
    }
    const double spins = PAUSES * spin_seconds / (shortest + 1e-8);
    return spins < 1 ? 1 : (uint32_t)spins;
}

/* Signals stay with the threads of the program. */
static sl_status start_members(sl_team *team, sl_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    while (team->started < team->size - 1 && !failure) {
        member *m = &team->members[team->started];
        *m = (member){.team = team, .index = team->started + 1};
        failure = pthread_create(&m->thread, NULL, serve, m);
        if (!failure) team->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failure) return SL_OK;
    return sl_fail(err, SL_NO_MEMORY, "cannot start thread %u of a team of %u: %s",
                   team->started + 1, team->size, strerror(failure));
}

static size_t members_bytes(const sl_team *team) {
    return (team->size - 1) * sizeof(member);
}

sl_status sl_team_create(uint32_t members, const sl_allocator *allocator, sl_team **out,
                         sl_error *err) {
    *out = NULL;
    const uint32_t cores = usable_cores();
    const uint32_t size = members ? members : cores;
    if (size > MAX_MEMBERS)
        return sl_fail(err, SL_INVALID, "a team of %u threads, at most %d are possible", size,
                       MAX_MEMBERS);
    sl_team *team = sl_allocate(allocator, sizeof *team, CACHE_LINE);
    if (!team) return sl_no_memory(err, "a team of threads", sizeof *team);
    team->allocator = allocator;
    team->size = size;
    team->spins = size > 1 && size <= cores ? measure_spins() : 0;
    sl_status status = SL_OK;
    if (size > 1) {
        team->members = sl_allocate(allocator, members_bytes(team), _Alignof(member));
        status = team->members ? start_members(team, err)
                               : sl_no_memory(err, "the members of a team", members_bytes(team));
    }
    if (status != SL_OK) {
        sl_team_destroy(team);
        return status;
    }
    *out = team;
    return SL_OK;
}

void sl_team_destroy(sl_team *team) {
    if (!team) return;
    if (team->started) {
        team->job = NULL;
        gate_open(&team->start);
        for (uint32_t i = 0; i < team->started; i++) pthread_join(team->members[i].thread, NULL);
    }
    sl_release(team->allocator, team->members, members_bytes(team), _Alignof(member));
    sl_release(team->allocator, team, sizeof *team, CACHE_LINE);
}

uint32_t sl_team_size(const sl_team *team) {
    return team->size;
}

/* The n-th core of a set, counted around. */
static int core_of(const cpu_set_t *set, uint32_t n) {
    uint32_t left = n % (uint32_t)CPU_COUNT(set);
    int core = 0;
    while (!CPU_ISSET(core, set) || left-- > 0) core++;
    return core;
}

sl_status sl_team_pin(sl_team *team, sl_error *err) {
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        return sl_fail(err, SL_UNSUPPORTED, "the cores of this process cannot be asked for: %s",
                       strerror(errno));
    for (uint32_t i = 0; i < team->started; i++) {
        const int core = core_of(&usable, team->members[i].index);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        const int failure = pthread_setaffinity_np(team->members[i].thread, sizeof one, &one);
        if (failure)
            return sl_fail(err, SL_UNSUPPORTED, "thread %u cannot be pinned to core %d: %s",
                           team->members[i].index, core, strerror(failure));
    }
    return SL_OK;
}
