/* limits_test.c - What is left is no more than the machine has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/memory.h"

static void test_left(void **state) {
    (void)state;
    const uint64_t left = sl_memory_left(), available = sl_memory_available();
    assert_true(left > 1 << 20); /* this test runs in it */
    if (available) assert_true(left < available + (1u << 30));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
