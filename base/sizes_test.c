#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include <string.h>

static void test_format(void **unused) {
    (void)unused;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1.00 KB"},
        {1774592, "1.77 MB"},
        {9994, "9.99 KB"},
        {9996, "10.0 KB"},
        {99960, "100 KB"},
        {999499, "999 KB"},
        {999500, "1.00 MB"},
        {UINT64_C(123456789012), "123 GB"},
        {UINT64_MAX, "18.4 EB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[16];
        assert_ptr_equal(sl_size_format(cases[i].bytes, text, sizeof text), text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_checked_arithmetic(void **unused) {
    (void)unused;
    uint64_t out = 0;
    assert_int_equal(sl_round_up(0, 4096), 0);
    assert_int_equal(sl_round_up(1, 4096), 4096);
    assert_int_equal(sl_round_up(4096, 4096), 4096);
    assert_true(sl_multiply(UINT64_C(1) << 32, UINT32_MAX, &out));
    assert_int_equal(out, UINT64_C(0xffffffff00000000));
    assert_false(sl_multiply(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_true(sl_add(UINT64_MAX - 1, 1, &out));
    assert_int_equal(out, UINT64_MAX);
    assert_false(sl_add(UINT64_MAX, 1, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_checked_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
