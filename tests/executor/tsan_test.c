/* tsan_test.c - Random graphs on four threads, again and again.
 *
 * Under ThreadSanitizer the device announces the bytes that the steps of a level declare, so that
 * two steps which must not be in one level are a reported race.  Without it, results are compared.
 */
#include "compiler/compile.h"
#include "runtime/cpu/cpu.h"
#include "tests/support/bound_program.h"
#include "tests/support/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { GRAPHS = 8, RUNS = 6, THREADS = 4 };

static void test_threads(void **state) {
    (void)state;
    sl_device *device = NULL;
    sl_error err = {0};
    assert_int_equal(
        sl_device_cpu_create(&(sl_device_options){.threads = THREADS}, NULL, &device, &err), SL_OK);
    for (uint64_t seed = 100; seed < 100 + GRAPHS; seed++) {
        const sl_compiler_options options = {.model =
                                                 seed % 2 ? SL_SCHEDULE_LEVELS : SL_SCHEDULE_GROUPS,
                                             .no_fusion = seed % 4 >= 2};
        sl_graph *graph = random_graph(seed, 60);
        sl_program *program = NULL;
        if (sl_compile_graph(graph, &options, NULL, &program, &err)) fail_msg("%s", err.message);
        bound_program bound;
        bound_program_init(&bound, program, device, NULL);
        const uint64_t want = bound_program_run(&bound, NULL);
        for (int run = 1; run < RUNS; run++)
            assert_int_equal(bound_program_run(&bound, NULL), want);
        bound_program_deinit(&bound);
        sl_program_destroy(program);
        sl_graph_destroy(graph);
    }
    device->ops->destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
