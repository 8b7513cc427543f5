/* orders_test.c - Whatever order the conflicts of steps allow, whatever the number of threads and
 * whatever the compiler was asked to do: the same bits. */
#include "compiler/compile.h"
#include "runtime/cpu/cpu.h"
#include "runtime/null/null.h"
#include "tests/support/bound_program.h"
#include "tests/support/fable.h"
#include "tests/support/program_maker.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#ifdef SL_DEBUG
enum { GRAPHS = 12, ORDERS = 3 };
#else
enum { GRAPHS = 40, ORDERS = 10 };
#endif
enum { MOST_THREADS = 4 };

static sl_device *cpus[MOST_THREADS + 1]; /* by number of threads */
static sl_device *null_device;

static int open_devices(void **state) {
    (void)state;
    sl_error err = {0};
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++)
        assert_int_equal(sl_device_cpu_create(&(sl_device_options){.threads = threads}, NULL,
                                              &cpus[threads], &err),
                         SL_OK);
    assert_int_equal(sl_device_null_create(&(sl_device_options){0}, NULL, &null_device, &err),
                     SL_OK);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++)
        cpus[threads]->ops->destroy(cpus[threads]);
    null_device->ops->destroy(null_device);
    return 0;
}

static uint64_t run_once(const sl_program *program, sl_device *device, sl_model *model,
                         const uint32_t *order) {
    bound_program bound;
    bound_program_init(&bound, program, device, model);
    const uint64_t digest = bound_program_run(&bound, order);
    bound_program_deinit(&bound);
    return digest;
}

/* What must come before what: conflicting steps, or for a device that takes a graph, its edges. */
static uint8_t *order_wanted(const sl_program *program) {
    if (program->model != SL_SCHEDULE_EDGES) return program_conflicts(program);
    const size_t steps = program->step_count;
    uint8_t *wanted = calloc(steps * steps + 1, 1);
    assert_non_null(wanted);
    for (uint32_t s = 0; s < steps; s++)
        for (uint32_t e = program->edges.first[s]; e < program->edges.first[s + 1]; e++)
            wanted[program->edges.targets[e] * steps + s] = 1;
    return wanted;
}

/* The cpu takes no edges, but any program one step after the other. */
static sl_program *one_by_one(const sl_program *program) {
    sl_program *copy = program_copy(program);
    copy->model = SL_SCHEDULE_LEVELS;
    copy->level_count = copy->step_count;
    for (uint32_t s = 0; s < copy->step_count; s++) copy->steps[s].level = s;
    return copy;
}

static void check_orders(const sl_program *program, sl_model *model, uint64_t want) {
    const uint32_t steps = program->step_count;
    uint8_t *wanted = order_wanted(program);
    sl_program *serial = one_by_one(program);
    uint32_t *order = calloc(steps + 1, sizeof *order);
    assert_non_null(order);
    test_random random = test_random_of(steps);
    bound_program bound, simulated;
    bound_program_init(&bound, serial, cpus[1], model);
    bound_program_init(&simulated, program, null_device, model);
    for (int i = 0; i < ORDERS; i++) {
        random_order(wanted, steps, &random, order);
        assert_int_equal(bound_program_run(&bound, order), want);
        (void)bound_program_run(&simulated, order);
        (void)bound_program_run(&simulated, NULL);
    }
    bound_program_deinit(&bound);
    bound_program_deinit(&simulated);
    sl_program_destroy(serial);
    free(order);
    free(wanted);
}

static sl_program *compile(sl_graph *graph, const sl_compiler_options *options) {
    sl_program *program = NULL;
    sl_error err = {0};
    if (sl_compile_graph(graph, options, NULL, &program, &err)) fail_msg("%s", err.message);
    sl_graph_destroy(graph);
    return program;
}

/* Levels and groups by any number of threads; any model in any legal order. */
static void check_program(const sl_program *program, sl_model *model, uint64_t want) {
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++)
        if (program->model != SL_SCHEDULE_EDGES)
            assert_int_equal(run_once(program, cpus[threads], model, NULL), want);
    check_orders(program, model, want);
}

static const sl_compiler_options hows[] = {
    {0},
    {.no_fusion = true},
    {.no_in_place = true},
    {.no_sharing = true, .no_reordering = true},
    {.model = SL_SCHEDULE_GROUPS, .two_submits = true},
    {.model = SL_SCHEDULE_EDGES},
    {.model = SL_SCHEDULE_EDGES, .arena_alignment = 4096, .no_fusion = true},
};
enum { HOWS = sizeof hows / sizeof hows[0] };

static void test_random_graphs(void **state) {
    (void)state;
    const sl_compiler_options plain = {
        .no_fusion = true, .no_sharing = true, .no_reordering = true};
    uint32_t steps = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        const uint32_t nodes = 10 + (uint32_t)seed * 4;
        sl_program *program = compile(random_graph(seed, nodes), &plain);
        steps += program->step_count;
        const uint64_t want = run_once(program, cpus[1], NULL, NULL);
        sl_program_destroy(program);
        for (int h = (int)seed % 2; h < HOWS; h += 2) {
            program = compile(random_graph(seed, nodes), &hows[h]);
            check_program(program, NULL, want);
            sl_program_destroy(program);
        }
    }
    print_message("%d graphs, %u steps: the same bits in every order\n", GRAPHS, steps);
}

static void test_fable(void **state) {
    (void)state;
    sl_model *model = fable_open();
    const sl_compiler_options plain = {
        .no_fusion = true, .no_sharing = true, .no_reordering = true};
    for (uint32_t rows = 1; rows <= 9; rows += 8) {
        sl_program *program = compile(fable_graph(model, rows, 1), &plain);
        const uint64_t want = run_once(program, cpus[1], model, NULL);
        sl_program_destroy(program);
        for (int h = 0; h < HOWS; h++) {
            program = compile(fable_graph(model, rows, 1), &hows[h]);
            check_program(program, model, want);
            sl_program_destroy(program);
        }
    }
    sl_model_close(model);
}

/* The test can fail: an order that breaks a conflict gives other bits, or is refused. */
static void test_illegal_order(void **state) {
    (void)state;
    sl_program *program = compile(random_graph(3, 40), &hows[0]);
    sl_error err = {0};
    uint32_t *order = calloc(program->step_count + 1, sizeof *order);
    assert_non_null(order);
    for (uint32_t s = 0; s < program->step_count; s++) order[s] = program->step_count - 1 - s;
    const uint64_t want = run_once(program, cpus[1], NULL, NULL);
    assert_int_not_equal(run_once(program, cpus[1], NULL, order), want);
    bound_program bound;
    bound_program_init(&bound, program, null_device, NULL);
    assert_int_equal(null_device->ops->run_serially(bound.executable, order, &err), SL_DEVICE);
    bound_program_deinit(&bound);
    free(order);
    sl_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_fable),
        cmocka_unit_test(test_illegal_order),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
