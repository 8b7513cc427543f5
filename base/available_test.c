/* available_test.c - The available memory is positive and at most that of the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"

static void test_left(void **state) {
    (void)state;
    const sl_memory_left left = sl_memory_available();
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(left.machine > 1 << 20); /* this test runs in it */
    assert_true(left.machine <= all);
    assert_true(left.group > 1 << 20);
    assert_true(sl_memory_own() > 1 << 16);
    assert_true(sl_memory_own() <= all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
