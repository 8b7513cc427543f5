#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/meter.h"

static void test_meter(void **unused) {
    (void)unused;
    sl_meter counted;
    sl_meter_init(&counted, NULL);
    void *block = sl_allocate(&counted.allocator, 100, 8);
    assert_int_equal(counted.bytes, 100);
    block = sl_resize(&counted.allocator, block, 100, 9 << 20, 8);
    assert_int_equal(counted.bytes, 9 << 20);
    sl_release(&counted.allocator, block, 9 << 20, 8);
    assert_int_equal(counted.bytes, 0);
    assert_int_equal(counted.peak_bytes, 100 + (9 << 20)); /* both while it was copied */
    assert_null(sl_resize(&counted.allocator, NULL, 0, SIZE_MAX / 2, 8));
    assert_int_equal(counted.bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_meter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
