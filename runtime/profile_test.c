/* profile_test.c - Traces folded into totals by op and by label. */
#include "runtime/profile.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static sl_error err;

/* Two steps share a label and an op, one stands alone, one never runs. */
static sl_step steps[] = {{.op = SL_OP_add, .label = "a"},
                          {.op = SL_OP_mul, .label = "b"},
                          {.op = SL_OP_add, .label = "a"},
                          {.op = SL_OP_neg, .label = "c"}};
static const sl_program program = {.steps = steps, .step_count = 4};

static sl_profile profile_of(sl_trace_event *events, uint32_t count, sl_arena *arena) {
    const sl_trace trace = {.events = events, .capacity = count, .count = count};
    sl_profile profile;
    if (sl_profile_build(&program, &trace, arena, &profile, &err) != SL_OK)
        fail_msg("%s", err.message);
    return profile;
}

static void chunks_of_a_step_are_one_call(void **state) {
    (void)state;
    sl_trace_event events[] = {
        {.step = 0, .member = 0, .begin = 1, .end = 2, .run = 0},
        {.step = 0, .member = 1, .begin = 1, .end = 3, .run = 0},
        {.step = 1, .member = 0, .begin = 3, .end = 9, .run = 0},
        {.step = 2, .member = 0, .begin = 9, .end = 10, .run = 0},
        {.step = 0, .member = 1, .begin = 20, .end = 21, .run = 1},
        {.step = 1, .member = 0, .begin = 21, .end = 22, .run = 1},
    };
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const sl_profile p = profile_of(events, 6, &arena);
    assert_int_equal(p.runs, 2);
    assert_true(p.busy_seconds == 12 && p.wall_seconds == 9 + 2);
    assert_int_equal(p.op_count, 2);
    assert_string_equal(p.ops[0].name, "mul");
    assert_int_equal(p.ops[0].calls, 2);
    assert_true(p.ops[0].seconds == 7 && p.ops[0].share == 7.0 / 12);
    assert_string_equal(p.ops[1].name, "add");
    assert_int_equal(p.ops[1].calls, 3);
    assert_true(p.ops[1].seconds == 5);
    assert_int_equal(p.label_count, 2);
    assert_string_equal(p.labels[0].name, "b");
    assert_string_equal(p.labels[1].name, "a");
    assert_int_equal(p.labels[1].calls, 3);
    sl_arena_deinit(&arena);
}

static void an_empty_trace_has_no_rows(void **state) {
    (void)state;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const sl_profile p = profile_of(NULL, 0, &arena);
    assert_int_equal(p.op_count + p.label_count + p.runs, 0);
    assert_true(p.busy_seconds == 0 && p.wall_seconds == 0);
    sl_arena_deinit(&arena);
}

static void foreign_steps_are_refused(void **state) {
    (void)state;
    sl_trace_event event = {.step = 4};
    const sl_trace trace = {.events = &event, .capacity = 1, .count = 1};
    sl_arena arena;
    sl_profile profile;
    sl_arena_init(&arena, NULL);
    assert_int_equal(sl_profile_build(&program, &trace, &arena, &profile, &err), SL_INVALID);
    sl_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_a_step_are_one_call),
        cmocka_unit_test(an_empty_trace_has_no_rows),
        cmocka_unit_test(foreign_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
