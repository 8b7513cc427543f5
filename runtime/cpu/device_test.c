/* device_test.c - Parallel, serial and reordered execution give the same bytes; traces record what
 * ran. */
#include "compiler/build.h"
#include "compiler/compile.h"
#include "runtime/cpu/cpu.h"
#include "tests/support/held_threads.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 64, COLS = 300, BRANCHES = 5, ELEMENTS = ROWS * COLS };
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

typedef struct {
    sl_device *device;
    sl_program *program;
    sl_executable *executable;
    float *input, *gain;
} fixture;

/* Independent branches of a few steps each, then a sum of all of them. */
static sl_program *compile(void) {
    sl_graph *g = NULL;
    sl_program *program = NULL;
    must(sl_graph_create("test", NULL, &g, &err));
    const sl_value x = sl_graph_declare(
        g, SL_VALUE_INPUT, "x", sl_type_make(SL_DTYPE_f32, 2, (int64_t)ROWS, (int64_t)COLS));
    const sl_value gain =
        sl_graph_declare(g, SL_VALUE_WEIGHT, "gain", sl_type_make(SL_DTYPE_f32, 1, (int64_t)COLS));
    sl_value sum = x;
    for (int i = 0; i < BRANCHES; i++) {
        const sl_rms_norm_attrs attrs = {.eps = 1e-6f * (float)(i + 1), .offset = (float)i};
        const sl_value norm = sl_build_rms_norm(g, (sl_rms_norm_in){x, gain}, attrs).out;
        const sl_value bent = sl_build_silu(g, (sl_silu_in){norm}, (sl_silu_attrs){0}).out;
        sum = sl_build_add(g, (sl_add_in){sum, bent}, (sl_add_attrs){0}).out;
    }
    sl_graph_output(g, "y", sum);
    must(sl_compile_graph(g, &(sl_compiler_options){.no_fusion = true}, NULL, &program, &err));
    sl_graph_destroy(g);
    return program;
}

static void bind(fixture *f, const char *name, void *data) {
    sl_buffer_id id;
    assert_true(sl_program_find(f->program, name, &id));
    must(f->device->ops->bind(f->executable, id, data, &err));
}

static fixture start(sl_device_options options) {
    fixture f = {.program = compile()};
    must(sl_device_cpu_create(&options, NULL, &f.device, &err));
    must(f.device->ops->load(f.device, f.program, &f.executable, &err));
    f.input = malloc(ELEMENTS * sizeof(float));
    f.gain = malloc(COLS * sizeof(float));
    for (int i = 0; i < ELEMENTS; i++) f.input[i] = (float)((i * 7919) % 1013) / 500.0f - 1;
    for (int i = 0; i < COLS; i++) f.gain[i] = (float)(i % 17) / 16.0f;
    bind(&f, "x", f.input);
    bind(&f, "gain", f.gain);
    return f;
}

static void stop(fixture *f) {
    f->device->ops->unload(f->executable);
    f->device->ops->destroy(f->device);
    sl_program_destroy(f->program);
    free(f->input);
    free(f->gain);
}

static void keep_output(const fixture *f, float *out) {
    memcpy(out, f->device->ops->output(f->executable, 0), ELEMENTS * sizeof(float));
}

static void same_as(const fixture *f, const float *want) {
    assert_memory_equal(f->device->ops->output(f->executable, 0), want, ELEMENTS * sizeof(float));
}

/* The steps of each level in reverse order, which is as valid as the program's order. */
static uint32_t *backward_levels(const sl_program *program) {
    uint32_t *order = malloc(program->step_count * sizeof *order);
    for (uint32_t first = 0, end; first < program->step_count; first = end) {
        for (end = first;
             end < program->step_count && program->steps[end].level == program->steps[first].level;)
            end++;
        for (uint32_t s = first; s < end; s++) order[s] = first + end - 1 - s;
    }
    return order;
}

static void any_way_of_running_gives_the_same_bytes(void **state) {
    (void)state;
    static float want[ELEMENTS];
    for (uint32_t threads = 1; threads <= 4; threads++) {
        fixture f = start((sl_device_options){.threads = threads, .pin = threads == 3});
        const sl_device_ops *ops = f.device->ops;
        uint32_t *order = backward_levels(f.program);
        assert_true(f.program->level_count < f.program->step_count);
        must(ops->run(f.executable, &err));
        if (threads == 1) keep_output(&f, want);
        same_as(&f, want);
        must(ops->run_serially(f.executable, NULL, &err));
        same_as(&f, want);
        must(ops->run_serially(f.executable, order, &err));
        same_as(&f, want);
        must(ops->run(f.executable, &err));
        same_as(&f, want);
        free(order);
        stop(&f);
    }
}

/* Members that never get a core are not waited for. */
static void absent_members_hold_up_nobody(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* here every member must announce its share */
#endif
    static float want[ELEMENTS];
    fixture alone = start((sl_device_options){.threads = 1});
    must(alone.device->ops->run(alone.executable, &err));
    keep_output(&alone, want);
    stop(&alone);
    hold_threads = true;
    threads_let_go = false;
    fixture f = start((sl_device_options){.threads = 3});
    hold_threads = false;
    for (int run = 0; run < 10; run++) {
        must(f.device->ops->run(f.executable, &err));
        same_as(&f, want);
    }
    threads_let_go = true;
    for (int run = 0; run < 10; run++) {
        must(f.device->ops->run(f.executable, &err));
        same_as(&f, want);
    }
    stop(&f);
}

static void orders_with_foreign_steps_are_refused(void **state) {
    (void)state;
    fixture f = start((sl_device_options){.threads = 1});
    uint32_t *order = backward_levels(f.program);
    order[0] = f.program->step_count;
    assert_int_equal(f.device->ops->run_serially(f.executable, order, &err), SL_INVALID);
    free(order);
    stop(&f);
}

static void traces_hold_every_step_of_every_run(void **state) {
    (void)state;
    enum { CAPACITY = 4096, RUNS = 3 };
    static sl_trace_event events[CAPACITY];
    sl_trace trace = {.events = events, .capacity = CAPACITY};
    fixture f = start((sl_device_options){.threads = 2});
    f.device->ops->attach(f.executable, &trace);
    for (int run = 0; run < RUNS; run++) must(f.device->ops->run(f.executable, &err));
    f.device->ops->attach(f.executable, NULL);
    must(f.device->ops->run(f.executable, &err));
    bool seen[RUNS][64] = {{false}};
    assert_true(f.program->step_count <= 64);
    assert_true(trace.count >= RUNS * f.program->step_count);
    assert_int_equal(trace.dropped, 0);
    for (uint32_t i = 0; i < trace.count; i++) {
        assert_true(events[i].run < RUNS && events[i].step < f.program->step_count);
        assert_true(events[i].member < 2 && events[i].begin <= events[i].end);
        seen[events[i].run][events[i].step] = true;
    }
    for (int run = 0; run < RUNS; run++)
        for (uint32_t s = 0; s < f.program->step_count; s++) assert_true(seen[run][s]);
    stop(&f);
}

/* No step of a level starts before the previous level has ended. */
static void levels_do_not_overlap(void **state) {
    (void)state;
    enum { CAPACITY = 4096 };
    static sl_trace_event events[CAPACITY];
    sl_trace trace = {.events = events, .capacity = CAPACITY};
    fixture f = start((sl_device_options){.threads = 3});
    f.device->ops->attach(f.executable, &trace);
    must(f.device->ops->run(f.executable, &err));
    for (uint32_t a = 0; a < trace.count; a++)
        for (uint32_t b = 0; b < trace.count; b++)
            if (f.program->steps[events[a].step].level < f.program->steps[events[b].step].level)
                assert_true(events[a].end <= events[b].begin);
    stop(&f);
}

static void full_traces_count_what_they_drop(void **state) {
    (void)state;
    sl_trace_event events[5];
    sl_trace trace = {.events = events, .capacity = 5};
    fixture f = start((sl_device_options){.threads = 1});
    f.device->ops->attach(f.executable, &trace);
    must(f.device->ops->run_serially(f.executable, NULL, &err));
    must(f.device->ops->run_serially(f.executable, NULL, &err));
    assert_int_equal(trace.count, 5);
    assert_int_equal(trace.dropped, 2 * f.program->step_count - 5);
    stop(&f);
}

/* Shared work, then a step that fails at once on one member, repeatedly: a member that notices the
 * failure late must not leave the others waiting. */
static void failures_leave_nobody_waiting(void **state) {
    (void)state;
    enum { RUNS = 3000 };
    static float x[ELEMENTS];
    int32_t rows[2] = {0, ROWS};
    sl_graph *g = NULL;
    fixture f = {0};
    must(sl_graph_create("failing", NULL, &g, &err));
    const sl_value in = sl_graph_declare(
        g, SL_VALUE_INPUT, "x", sl_type_make(SL_DTYPE_f32, 2, (int64_t)ROWS, (int64_t)COLS));
    const sl_value indices =
        sl_graph_declare(g, SL_VALUE_INPUT, "rows", sl_type_make(SL_DTYPE_i32, 1, (int64_t)2));
    const sl_value bent = sl_build_silu(g, (sl_silu_in){in}, (sl_silu_attrs){0}).out;
    const sl_value some =
        sl_build_gather(g, (sl_gather_in){bent, indices}, (sl_gather_attrs){.axis = 0}).out;
    sl_graph_output(g, "y", sl_build_silu(g, (sl_silu_in){some}, (sl_silu_attrs){0}).out);
    must(sl_compile_graph(g, &(sl_compiler_options){.no_fusion = true}, NULL, &f.program, &err));
    must(sl_device_cpu_create(&(sl_device_options){.threads = 4}, NULL, &f.device, &err));
    must(f.device->ops->load(f.device, f.program, &f.executable, &err));
    bind(&f, "x", x);
    bind(&f, "rows", rows);
    for (int run = 0; run < RUNS; run++) {
        rows[1] = run % 2 ? 1 : ROWS;
        assert_int_equal(f.device->ops->run(f.executable, &err), run % 2 ? SL_OK : SL_INVALID);
    }
    f.device->ops->unload(f.executable);
    f.device->ops->destroy(f.device);
    sl_program_destroy(f.program);
    sl_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_leave_nobody_waiting),
        cmocka_unit_test(any_way_of_running_gives_the_same_bytes),
        cmocka_unit_test(absent_members_hold_up_nobody),
        cmocka_unit_test(orders_with_foreign_steps_are_refused),
        cmocka_unit_test(traces_hold_every_step_of_every_run),
        cmocka_unit_test(levels_do_not_overlap),
        cmocka_unit_test(full_traces_count_what_they_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
