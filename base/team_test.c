#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/team.h"
#include "tests/support/held_threads.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_TEST_MEMBERS = 9, ROUNDS = 2000 };

static sl_team *make_team(uint32_t members) {
    sl_team *team = NULL;
    sl_error err = {0};
    const sl_status status = sl_team_create(members, NULL, &team, &err);
    if (status != SL_OK) print_message("%s\n", err.message);
    assert_int_equal(status, SL_OK);
    return team;
}

/* A job with turns of 1, 2, ... chunks.  Each chunk writes its cell, and the next turn sums
 * them. */
enum { TURNS = 60 };
typedef struct {
    uint32_t turn, members, turns;
    uint64_t cells[TURNS]; /* not atomic: only the order of turns protects them */
    uint32_t calls[TURNS + 1][TURNS];
    uint32_t wrong, nexts[MAX_TEST_MEMBERS];
    atomic_uint foreign;
} summing;

static uint32_t next_sum(void *ctx, uint32_t m) {
    summing *s = ctx;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->turn; i++) sum += s->cells[i];
    if (sum != (uint64_t)s->turn * s->turn * (s->turn + 1) / 2) s->wrong++;
    s->nexts[m]++;
    return s->turn < s->turns ? ++s->turn : 0;
}

static void write_cell(void *ctx, uint32_t m, uint32_t chunk) {
    summing *s = ctx;
    if (m >= s->members || chunk >= s->turn) {
        s->foreign++;
        return;
    }
    s->calls[s->turn][chunk]++;
    s->cells[chunk] = (uint64_t)s->turn * (chunk + 1);
}

static const sl_team_job sums = {next_sum, write_cell, false};

/* The job is on this function's stack, which is gone after it returns. */
static void sum_once(sl_team *team, uint32_t turns) {
    summing s = {.members = sl_team_size(team), .turns = turns};
    sl_team_run(team, &sums, &s);
    assert_int_equal(s.turn, turns);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(s.foreign, 0);
    uint32_t nexts = 0;
    for (uint32_t m = 0; m < MAX_TEST_MEMBERS; m++) nexts += s.nexts[m];
    assert_int_equal(nexts, turns + 1);
    for (uint32_t turn = 1; turn <= turns; turn++)
        for (uint32_t i = 0; i < TURNS; i++) assert_int_equal(s.calls[turn][i], i < turn);
}

static void test_chunks_are_done_once_and_turns_in_order(void **unused) {
    (void)unused;
    for (uint32_t size = 1; size <= MAX_TEST_MEMBERS; size += 2) {
        sl_team *team = make_team(size);
        assert_int_equal(sl_team_size(team), size);
        for (uint32_t i = 0; i < 200; i++) sum_once(team, i % TURNS);
        sl_team_destroy(team);
    }
}

/* Short jobs in sequence: a member that is late for one must not take part in it later. */
static void test_jobs_follow_each_other(void **unused) {
    (void)unused;
    sl_team *team = make_team(4);
    for (uint32_t i = 0; i < ROUNDS; i++) sum_once(team, 1 + i % 3);
    sl_team_destroy(team);
}

typedef struct {
    uint32_t count;
    atomic_uint arrived;
    atomic_uint of[MAX_TEST_MEMBERS];
} meeting;

/* Returns when all chunks have been claimed, so each must be claimed by another member. */
static void meet(void *ctx, uint32_t m, uint32_t chunk) {
    meeting *g = ctx;
    (void)chunk;
    g->of[m]++;
    g->arrived++;
    while (g->arrived < g->count) sched_yield();
}

static void everyone_takes_part(sl_team *team) {
    const uint32_t size = sl_team_size(team);
    meeting g = {.count = size};
    sl_team_share(team, size, meet, &g);
    for (uint32_t m = 0; m < MAX_TEST_MEMBERS; m++) assert_int_equal(g.of[m], m < size);
}

static void test_everyone_takes_part(void **unused) {
    (void)unused;
    sl_team *team = make_team(5);
    for (int i = 0; i < 100; i++) everyone_takes_part(team);
    sl_team_destroy(team);
}

/* The other members do not run at all: nobody waits for them, and they join later. */
static void test_absent_members_hold_up_nobody(void **unused) {
    (void)unused;
    hold_threads = true;
    threads_let_go = false;
    sl_team *team = make_team(4);
    hold_threads = false;
    for (uint32_t i = 0; i < 100; i++) sum_once(team, i % TURNS);
    threads_let_go = true;
    everyone_takes_part(team);
    sum_once(team, TURNS);
    sl_team_destroy(team);
}

typedef struct {
    uint32_t turns;
    atomic_uint chunks;
} slow_job;

static uint32_t next_slow(void *ctx, uint32_t m) {
    (void)m;
    slow_job *s = ctx;
    return s->turns++ < 3 ? 4 : 0;
}

static void be_slow(void *ctx, uint32_t m, uint32_t chunk) {
    (void)chunk;
    ((slow_job *)ctx)->chunks++;
    if (m > 0) (void)usleep(1500);
}

/* After jobs in which member 0 had to wait, it may run whole jobs alone, but never those that need
 * all members. */
static void test_slow_members_are_left_out_only_where_they_may(void **unused) {
    (void)unused;
    static const sl_team_job job = {next_slow, be_slow, false};
    sl_team *team = make_team(3);
    for (int i = 0; i < 30; i++) {
        slow_job s = {0};
        sl_team_run(team, &job, &s);
        assert_int_equal(s.chunks, 12);
        everyone_takes_part(team);
        sum_once(team, 7);
    }
    sl_team_destroy(team);
}

static void count_chunk(void *ctx, uint32_t m, uint32_t chunk) {
    (void)m;
    ((atomic_uint *)ctx)[chunk]++;
}

static void test_most_chunks(void **unused) {
    (void)unused;
    static atomic_uint calls[SL_TEAM_MOST_CHUNKS];
    sl_team *team = make_team(3);
    sl_team_share(team, SL_TEAM_MOST_CHUNKS, count_chunk, calls);
    for (uint32_t i = 0; i < SL_TEAM_MOST_CHUNKS; i++) assert_int_equal(calls[i], 1);
    sl_team_share(team, 0, count_chunk, calls);
    assert_int_equal(calls[0], 1);
    sl_team_destroy(team);
}

static void test_sizes(void **unused) {
    (void)unused;
    sl_team *team = make_team(0);
    assert_true(sl_team_size(team) >= 1);
    sl_team_destroy(team);
    sl_team_destroy(NULL);
    sl_error err = {0};
    assert_int_equal(sl_team_create(1u << 20, NULL, &team, &err), SL_INVALID);
    assert_null(team);
    assert_string_equal(err.message, "1048576 threads requested, at most 1024 are possible");
}

/* Fails the allocation that `*ctx` counts down to. */
static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    int *left = ctx;
    if (new_bytes && (*left)-- == 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_out_of_memory(void **unused) {
    (void)unused;
    for (int allowed = 0; allowed < 2; allowed++) {
        int left = allowed;
        const sl_allocator allocator = {failing_resize, &left};
        sl_team *team = NULL;
        sl_error err = {0};
        assert_int_equal(sl_team_create(3, &allocator, &team, &err), SL_NO_MEMORY);
        assert_null(team);
    }
}

enum { SHORT_TURNS = 20000 };

static uint32_t next_short(void *ctx, uint32_t m) {
    (void)m;
    uint32_t *turns = ctx;
    return (*turns)++ < SHORT_TURNS ? 4 : 0;
}

static void do_nothing(void *ctx, uint32_t m, uint32_t chunk) {
    (void)ctx, (void)m, (void)chunk;
}

static void test_turns_are_cheap(void **unused) {
    (void)unused;
    static const sl_team_job job = {next_short, do_nothing, false};
    sl_team *team = make_team(2);
    uint32_t turns = 0;
    const double begin = sl_clock_seconds();
    sl_team_run(team, &job, &turns);
    const double each = (sl_clock_seconds() - begin) / SHORT_TURNS;
    print_message("turn of 4 chunks on 2: %.2f us\n", each * 1e6);
    assert_true(each < 1e-3);
    sl_team_destroy(team);
}

typedef struct {
    cpu_set_t usable;
    int cores[MAX_TEST_MEMBERS]; /* number of cores that each member may use */
    int core[MAX_TEST_MEMBERS];
    meeting all;
} places;

static void note_place(void *ctx, uint32_t m, uint32_t chunk) {
    places *p = ctx;
    meet(&p->all, m, chunk);
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
    p->cores[m] = CPU_COUNT(&mine);
    p->core[m] = sched_getcpu();
}

static void test_pinned_members_stay(void **unused) {
    (void)unused;
    places p = {0};
    sl_error err = {0};
    assert_int_equal(sched_getaffinity(0, sizeof p.usable, &p.usable), 0);
    sl_team *team = make_team(5);
    assert_int_equal(sl_team_pin(team, &err), SL_OK);
    p.all.count = 5;
    sl_team_share(team, 5, note_place, &p);
    assert_int_equal(p.cores[0], CPU_COUNT(&p.usable)); /* the caller's thread is not pinned */
    for (int m = 1; m < 5; m++) {
        assert_int_equal(p.cores[m], 1);
        assert_true(CPU_ISSET(p.core[m], &p.usable));
    }
    if (CPU_COUNT(&p.usable) > 1) assert_int_not_equal(p.core[1], p.core[2]);
    sl_team_destroy(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_are_done_once_and_turns_in_order),
        cmocka_unit_test(test_jobs_follow_each_other),
        cmocka_unit_test(test_everyone_takes_part),
        cmocka_unit_test(test_absent_members_hold_up_nobody),
        cmocka_unit_test(test_slow_members_are_left_out_only_where_they_may),
        cmocka_unit_test(test_most_chunks),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_turns_are_cheap),
        cmocka_unit_test(test_pinned_members_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
