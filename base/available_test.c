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
    const uint64_t left = sl_memory_available();
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(left > 1 << 20); /* enough that this test can run */
    assert_true(left <= all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
