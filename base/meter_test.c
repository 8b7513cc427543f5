#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/meter.h"

static void *refuse(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    (void)ctx, (void)ptr, (void)old_bytes, (void)new_bytes, (void)align;
    return NULL;
}

static void test_what_fails_is_not_counted(void **unused) {
    (void)unused;
    const sl_allocator none = {refuse, NULL};
    sl_meter counted;
    sl_meter_init(&counted, &none);
    assert_null(sl_allocate(&counted.allocator, 100, 8));
    assert_int_equal(counted.bytes, 0);
    assert_int_equal(counted.peak_bytes, 0);
}

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
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_meter),
                                       cmocka_unit_test(test_what_fails_is_not_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
