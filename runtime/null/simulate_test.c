/* simulate_test.c - What is handed over in two submits runs as a queue may run it. */
#include "runtime/null/simulate.h"
#include "tests/support/program_maker.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 64, RUNS = 64 };

/* x -> a, a -> b in another group, b -> c in another. */
static sl_program *chain(sl_buffer_id made[4]) {
    sl_program *p = program_new(8, 8);
    made[0] = program_buffer(p, SL_BUFFER_INPUT, "x", N);
    for (uint32_t i = 1; i < 4; i++) {
        static const char *const names[] = {"", "a", "b", "c"};
        made[i] = program_buffer(p, SL_BUFFER_TEMP, names[i], N);
        p->buffers[made[i].v].arena_offset = (uint64_t)i * N * 4;
        program_step(p, SL_OP_neg, names[i], i - 1);
        step_takes(p, made[i - 1]), step_gives(p, made[i]);
    }
    program_output(p, made[3]);
    p->arena_bytes = 4 * (uint64_t)N * 4;
    p->model = SL_SCHEDULE_GROUPS;
    p->early_steps = 2;
    return p;
}

typedef struct {
    sl_arena arena;
    sl_simulation simulation;
} machine;

static void open_machine(machine *m, const sl_program *program) {
    sl_error err = {0};
    sl_arena_init(&m->arena, NULL);
    if (sl_simulation_init(&m->simulation, program, &m->arena, &err)) fail_msg("%s", err.message);
}

/* How many of some runs fail. */
static uint32_t failing_runs(const sl_program *program) {
    machine m;
    sl_error err = {0};
    uint32_t failed = 0;
    open_machine(&m, program);
    for (int run = 0; run < RUNS; run++) failed += sl_simulation_run(&m.simulation, &err) != SL_OK;
    sl_arena_deinit(&m.arena);
    return failed;
}

/* 1 + the step that wrote the buffer's first byte, as everybody sees it. */
static uint32_t writer_of(const sl_simulation *s, sl_buffer_id buffer) {
    const uint64_t at = s->touches.bases[buffer.v];
    return s->seen.items[sl_spans_find(&s->seen, at)].value;
}

static void the_first_part_runs_before_the_second_is_known(void **state) {
    (void)state;
    sl_buffer_id made[4];
    sl_program *program = chain(made);
    uint32_t complete = 0;
    machine m;
    sl_error err = {0};
    open_machine(&m, program);
    for (int run = 0; run < RUNS; run++) {
        const uint32_t level = program->steps[2].level;
        sl_simulation_begin(&m.simulation);
        assert_int_equal(writer_of(&m.simulation, made[1]), 0);
        program->steps[2].level = 0; /* nobody looks at what was not handed over */
        assert_int_equal(sl_simulation_submit(&m.simulation, 2, &err), SL_OK);
        assert_int_equal(writer_of(&m.simulation, made[1]), 1); /* it is before a barrier */
        assert_true(m.simulation.ran == 1 || m.simulation.ran == 2);
        complete += m.simulation.ran == 2;
        assert_int_equal(writer_of(&m.simulation, made[3]), 0);
        program->steps[2].level = level;
        assert_int_equal(sl_simulation_submit(&m.simulation, 3, &err), SL_OK);
        assert_int_equal(writer_of(&m.simulation, made[2]), 2);
        assert_int_equal(sl_simulation_finish(&m.simulation, &err), SL_OK);
        assert_int_equal(writer_of(&m.simulation, made[3]), 3);
    }
    assert_in_range(complete, RUNS / 4, RUNS * 3 / 4); /* what is after the barrier may wait */
    sl_arena_deinit(&m.arena);
    sl_program_destroy(program);
}

/* Two submits do what one does. */
static void submits_are_not_seen_in_results(void **state) {
    (void)state;
    sl_buffer_id made[4];
    sl_program *program = chain(made);
    for (program->early_steps = 0; program->early_steps <= 3; program->early_steps++)
        assert_int_equal(failing_runs(program), 0);
    sl_program_destroy(program);
}

/* A step of the second part that needs a barrier does not have it by being submitted later. */
static void the_end_of_a_submit_is_no_barrier(void **state) {
    (void)state;
    sl_buffer_id made[4];
    sl_program *program = chain(made);
    program->steps[2].level = 1; /* it reads what the last step of the first part writes */
    assert_in_range(failing_runs(program), 1, RUNS - 1);
    program->steps[2].level = 2;
    program->buffers[made[3].v].arena_offset = program->buffers[made[1].v].arena_offset;
    assert_int_equal(failing_runs(program), 0);
    sl_program_destroy(program);

    program = program_new(8, 8); /* it writes over what that step reads */
    const sl_buffer_id x = program_buffer(program, SL_BUFFER_STATE, "x", N);
    const sl_buffer_id y = program_buffer(program, SL_BUFFER_TEMP, "y", N);
    const sl_buffer_id z = program_buffer(program, SL_BUFFER_INPUT, "z", N);
    program_step(program, SL_OP_neg, "read", 0);
    step_takes(program, x), step_gives(program, y);
    program_step(program, SL_OP_neg, "write", 0);
    step_takes(program, z), step_gives(program, x);
    program_output(program, y);
    program->arena_bytes = (uint64_t)N * 4;
    program->model = SL_SCHEDULE_GROUPS;
    program->early_steps = 1;
    assert_in_range(failing_runs(program), 1, RUNS - 1);
    program->steps[1].level = 1;
    assert_int_equal(failing_runs(program), 0);
    sl_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_part_runs_before_the_second_is_known),
        cmocka_unit_test(submits_are_not_seen_in_results),
        cmocka_unit_test(the_end_of_a_submit_is_no_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
