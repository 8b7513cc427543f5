#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/team.h"
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

typedef struct {
    sl_team *team;
    uint32_t calls[MAX_TEST_MEMBERS];
    uint64_t value[MAX_TEST_MEMBERS]; /* plain memory: the barrier alone orders it */
    uint64_t wrong[MAX_TEST_MEMBERS];
} shared_state;

static void count_call(void *ctx, uint32_t m) {
    ((shared_state *)ctx)->calls[m]++;
}

static void test_every_member_runs_once_per_job(void **unused) {
    (void)unused;
    for (uint32_t size = 1; size <= MAX_TEST_MEMBERS; size += 2) {
        sl_team *team = make_team(size);
        assert_int_equal(sl_team_size(team), size);
        shared_state state = {.team = team};
        for (int i = 0; i < 300; i++) sl_team_run(team, count_call, &state);
        for (uint32_t m = 0; m < MAX_TEST_MEMBERS; m++)
            assert_int_equal(state.calls[m], m < size ? 300 : 0);
        sl_team_destroy(team);
    }
}

/* Every round each member writes its cell, meets, and sums all cells. */
static void exchange(void *ctx, uint32_t m) {
    shared_state *state = ctx;
    const uint32_t size = sl_team_size(state->team);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        state->value[m] = round * (m + 1);
        sl_team_barrier(state->team);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < size; i++) sum += state->value[i];
        if (sum != round * size * (size + 1) / 2) state->wrong[m]++;
        sl_team_barrier(state->team);
    }
}

static void test_writes_before_a_barrier_are_seen_after(void **unused) {
    (void)unused;
    for (uint32_t size = 1; size <= 5; size++) {
        sl_team *team = make_team(size);
        shared_state state = {.team = team};
        sl_team_run(team, exchange, &state);
        sl_team_run(team, exchange, &state);
        for (uint32_t m = 0; m < size; m++) assert_int_equal(state.wrong[m], 0);
        sl_team_destroy(team);
    }
}

static void test_run_returns_after_all_members(void **unused) {
    (void)unused;
    sl_team *team = make_team(4);
    shared_state state = {.team = team};
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        sl_team_run(team, count_call, &state);
        for (uint32_t m = 0; m < 4; m++) assert_int_equal(state.calls[m], i);
    }
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
    assert_string_equal(err.message, "a team of 1048576 threads, at most 1024 are possible");
}

/* Fails the allocation number `*ctx` counts down to. */
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

static void meet_often(void *ctx, uint32_t m) {
    (void)m;
    for (int i = 0; i < 20000; i++) sl_team_barrier(ctx);
}

static void test_barrier_is_cheap(void **unused) {
    (void)unused;
    sl_team *team = make_team(2);
    const double begin = sl_clock_seconds();
    sl_team_run(team, meet_often, team);
    const double each = (sl_clock_seconds() - begin) / 20000;
    print_message("barrier of 2: %.2f us\n", each * 1e6);
    assert_true(each < 1e-3);
    sl_team_destroy(team);
}

typedef struct {
    cpu_set_t usable;
    int cores[MAX_TEST_MEMBERS]; /* how many each member may run on */
    int core[MAX_TEST_MEMBERS];
} places;

static void note_place(void *ctx, uint32_t m) {
    places *p = ctx;
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
    sl_team_run(team, note_place, &p);
    assert_int_equal(p.cores[0], CPU_COUNT(&p.usable)); /* the caller's thread is its own */
    for (int m = 1; m < 5; m++) {
        assert_int_equal(p.cores[m], 1);
        assert_true(CPU_ISSET(p.core[m], &p.usable));
    }
    if (CPU_COUNT(&p.usable) > 1) assert_int_not_equal(p.core[1], p.core[2]);
    sl_team_destroy(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_member_runs_once_per_job),
        cmocka_unit_test(test_writes_before_a_barrier_are_seen_after),
        cmocka_unit_test(test_run_returns_after_all_members),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_barrier_is_cheap),
        cmocka_unit_test(test_pinned_members_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
