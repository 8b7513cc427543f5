/* team.c - Members claim chunks through one atomic word, which also tells them about new turns.
 *
 * The lower half of the word counts the claimed and the finished chunks of the turn, so that one
 * addition finishes a chunk and claims another.  The member that finishes the last chunk opens the
 * next turn by replacing the whole word.  So a claim always belongs to the current turn; and since
 * a turn cannot end before its claimed chunks are done, the data of the turn may be read after a
 * claim, and never before.  The upper half changes with every turn; members sleep on it (futex). */
#include "base/team.h"
#include "base/clock.h"
#include <assert.h>
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
/* Longer than a small step takes on another member, much shorter than a scheduler time slice. */
static const double spin_seconds = 10e-6;
/* If a job was awake for less than short_seconds and asleep for longer, member 0 has waited for a
 * member that was preempted while it held a chunk.  Such short jobs lose more by this than they
 * gain from other members, so member 0 runs the next ones alone: for the shortest of these times,
 * or for twice the previous time if it happens again soon. */
static const double short_seconds = 0.5e-3, least_alone_seconds = 20e-3, most_alone_seconds = 0.32;

/* The lower half.  Claims count up to CLAIM_LIMIT: a claim that started below it has got a chunk.
 * Each member fails to claim once or twice per turn, which is too rare to overflow into the count
 * of finished chunks. */
enum { CLAIM_LIMIT = SL_TEAM_MOST_CHUNKS, CLAIM = 1u, CLAIM_MASK = 0xffffu, DONE_SHIFT = 16 };
/* The upper half: flags, and above them the number of the turn. */
enum {
    ASLEEP = 1u, /* a member sleeps on the word and must be woken */
    OVER = 2u,   /* the job has ended */
    LEAVE = 4u,  /* the team is being destroyed */
    TURN = 8u,
};

typedef struct {
    sl_team *team;
    uint32_t index;
    pthread_t thread;
} member;

struct sl_team {
    const sl_allocator *allocator;
    uint32_t size, started;            /* started: running threads, without the caller */
    uint32_t spins;                    /* pause instructions before a waiting member sleeps */
    member *members;                   /* [size - 1] */
    double alone_until, alone_seconds; /* member 0 runs jobs alone until then; for how long */
    _Alignas(CACHE_LINE) _Atomic uint64_t word;
    /* Of the current turn; written by the member that opens it. */
    const sl_team_job *job;
    void *ctx;
    uint32_t chunks;
    uint32_t turn; /* a multiple of TURN */
};

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool has_chunk(uint64_t word) {
    return (word & CLAIM_MASK) < CLAIM_LIMIT;
}

static inline uint32_t upper(uint64_t word) {
    return (uint32_t)(word >> 32);
}

static inline uint32_t *upper_address(sl_team *team) {
    return (uint32_t *)&team->word + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
}

/* Release: everything written before is visible to members that claim or see the flags. */
static uint64_t open_turn(sl_team *team, uint32_t flags, uint32_t free_chunks) {
    team->turn += TURN;
    const uint64_t word = (uint64_t)(team->turn | flags) << 32 | (CLAIM_LIMIT - free_chunks);
    const uint64_t before = atomic_exchange_explicit(&team->word, word, memory_order_acq_rel);
    if (upper(before) & ASLEEP)
        (void)syscall(SYS_futex, upper_address(team), FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    return word;
}

/* Waits until the given turn is over and returns the word of a later one.  Adds to *slept. */
static uint64_t wait_for_turn(sl_team *team, uint64_t seen, double *slept) {
    const uint32_t turn = upper(seen) & ~ASLEEP;
    for (uint32_t i = 0; i < team->spins; i++) {
        const uint64_t word = atomic_load_explicit(&team->word, memory_order_acquire);
        if ((upper(word) & ~ASLEEP) != turn) return word;
        pause_briefly();
    }
    const double begin = sl_clock_seconds();
    for (;;) {
        const uint64_t asleep = (uint64_t)ASLEEP << 32;
        const uint64_t word = atomic_fetch_or_explicit(&team->word, asleep, memory_order_acquire);
        if ((upper(word) & ~ASLEEP) != turn) {
            *slept += sl_clock_seconds() - begin;
            return word;
        }
        (void)syscall(SYS_futex, upper_address(team), FUTEX_WAIT_PRIVATE, turn | ASLEEP, NULL, NULL,
                      0);
    }
}

/* Prepares the next turn; false at the end of the job. */
static bool prepare_turn(sl_team *team, uint32_t index) {
    team->chunks = team->job->next(team->ctx, index);
    assert(team->chunks <= SL_TEAM_MOST_CHUNKS);
    return team->chunks > 0;
}

/* Opens the prepared turn and claims its first chunk for the caller. */
static void open_prepared(sl_team *team) {
    open_turn(team, 0, team->chunks - 1);
}

/* Runs the claimed chunk and all chunks that can be claimed afterwards, including those of turns
 * that it opens itself.  Returns the word in which no chunk was left. */
static uint64_t do_chunks(sl_team *team, uint32_t index, uint32_t chunk) {
    for (;;) {
        const uint32_t chunks = team->chunks;
        team->job->chunk(team->ctx, index, chunk);
        const uint64_t word = atomic_fetch_add_explicit(&team->word, (1u << DONE_SHIFT) + CLAIM,
                                                        memory_order_acq_rel);
        if (has_chunk(word)) {
            chunk = chunks - (CLAIM_LIMIT - (uint32_t)(word & CLAIM_MASK));
        } else if (((uint32_t)word >> DONE_SHIFT) + 1 < chunks) {
            return word;
        } else if (prepare_turn(team, index)) {
            open_prepared(team);
            chunk = 0;
        } else {
            return open_turn(team, OVER, 0);
        }
    }
}

/* Works until one of the flags is set.  Returns the seconds spent asleep. */
static double serve(sl_team *team, uint32_t index, uint32_t until) {
    double slept = 0;
    uint64_t word = atomic_load_explicit(&team->word, memory_order_acquire);
    for (;;) {
        if (has_chunk(word))
            word = atomic_fetch_add_explicit(&team->word, CLAIM, memory_order_acquire);
        if (has_chunk(word))
            word = do_chunks(team, index,
                             team->chunks - (CLAIM_LIMIT - (uint32_t)(word & CLAIM_MASK)));
        if (upper(word) & until) return slept;
        word = wait_for_turn(team, word, &slept);
    }
}

static void *live(void *argument) {
    const member *self = argument;
    (void)serve(self->team, self->index, LEAVE);
    return NULL;
}

/* With one member no claims are needed. */
static void run_alone(const sl_team_job *job, void *ctx) {
    for (uint32_t chunks; (chunks = job->next(ctx, 0)) > 0;)
        for (uint32_t i = 0; i < chunks; i++) job->chunk(ctx, 0, i);
}

static void stay_alone(sl_team *team, double now) {
    const bool again = now < team->alone_until + 2 * team->alone_seconds;
    const double seconds = again ? 2 * team->alone_seconds : least_alone_seconds;
    team->alone_seconds = seconds < most_alone_seconds ? seconds : most_alone_seconds;
    team->alone_until = now + team->alone_seconds;
}

void sl_team_run(sl_team *team, const sl_team_job *job, void *ctx) {
    const double begin = team->size > 1 ? sl_clock_seconds() : 0;
    if (team->size == 1 || (begin < team->alone_until && !job->together)) {
        run_alone(job, ctx);
        return;
    }
    team->job = job;
    team->ctx = ctx;
    if (!prepare_turn(team, 0)) return;
    open_prepared(team);
    (void)do_chunks(team, 0, 0);
    const double slept = serve(team, 0, OVER);
    if (slept < short_seconds) return;
    const double end = sl_clock_seconds();
    if (end - begin - slept < short_seconds) stay_alone(team, end);
}

typedef struct {
    uint32_t chunks; /* not yet handed out */
    sl_team_chunk *chunk;
    void *ctx;
} sharing;

static uint32_t all_at_once(void *ctx, uint32_t index) {
    (void)index;
    sharing *s = ctx;
    const uint32_t chunks = s->chunks;
    s->chunks = 0;
    return chunks;
}

static void share_chunk(void *ctx, uint32_t index, uint32_t chunk) {
    const sharing *s = ctx;
    s->chunk(s->ctx, index, chunk);
}

void sl_team_share(sl_team *team, uint32_t chunks, sl_team_chunk *chunk, void *ctx) {
    static const sl_team_job job = {all_at_once, share_chunk, .together = true};
    sharing s = {chunks, chunk, ctx};
    sl_team_run(team, &job, &s);
}

static uint32_t usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

/* The number of pause instructions that take spin_seconds: one takes 10 to 140 cycles. */
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

/* Blocks signals, so that they are delivered to the threads of the program. */
static sl_status start_members(sl_team *team, sl_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    while (team->started < team->size - 1 && !failure) {
        member *m = &team->members[team->started];
        *m = (member){.team = team, .index = team->started + 1};
        failure = pthread_create(&m->thread, NULL, live, m);
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
        return sl_fail(err, SL_INVALID, "%u threads requested, at most %d are possible", size,
                       MAX_MEMBERS);
    sl_team *team = sl_allocate(allocator, sizeof *team, CACHE_LINE);
    if (!team) return sl_no_memory(err, "a team of threads", sizeof *team);
    team->allocator = allocator;
    team->size = size;
    atomic_init(&team->word, CLAIM_LIMIT);
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
        (void)open_turn(team, LEAVE, 0);
        for (uint32_t i = 0; i < team->started; i++) pthread_join(team->members[i].thread, NULL);
    }
    sl_release(team->allocator, team->members, members_bytes(team), _Alignof(member));
    sl_release(team->allocator, team, sizeof *team, CACHE_LINE);
}

uint32_t sl_team_size(const sl_team *team) {
    return team->size;
}

/* The n-th core of a set, wrapping around. */
static int core_of(const cpu_set_t *set, uint32_t n) {
    uint32_t left = n % (uint32_t)CPU_COUNT(set);
    int core = 0;
    while (!CPU_ISSET(core, set) || left-- > 0) core++;
    return core;
}

sl_status sl_team_pin(sl_team *team, sl_error *err) {
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        return sl_fail(err, SL_UNSUPPORTED, "cannot get the CPU affinity of this process: %s",
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
