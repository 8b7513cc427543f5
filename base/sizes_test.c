#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include <string.h>

static void test_parse(void **unused) {
    (void)unused;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"17B", 17},
        {"64K", 65536},
        {"64k", 65536},
        {"64KiB", 65536},
        {"64KB", 64000},
        {"1.5GiB", UINT64_C(1610612736)},
        {"1.5 GiB", UINT64_C(1610612736)},
        {"2GB", UINT64_C(2000000000)},
        {"0.1GB", UINT64_C(100000000)},
        {"0.3M", 314573},
        {"3mib", 3145728},
        {"1T", UINT64_C(1099511627776)},
        {"1TB", UINT64_C(1000000000000)},
        {"1.000000000001TB", UINT64_C(1000000000001)},
        {"1.00000000000000000000000000000001K", 1024},
        {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        sl_error err = {0};
        assert_int_equal(sl_size_parse(cases[i].text, &bytes, &err), SL_OK);
        if (bytes != cases[i].bytes) print_message("case %s\n", cases[i].text);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void test_parse_refuses(void **unused) {
    (void)unused;
    static const char *const bad[] = {"",      "K",    "-1",  "+1",  "1.",   ".5",
                                      "1.K",   "0x10", "1e3", "nan", "inf",  "1X",
                                      "1KBB",  "1K B", "1 2", "1iB", " 1",   "18446744073709551616",
                                      "1.2.3", "1K ",  "१",   "1E",  "1KiBB"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 7;
        sl_error err = {0};
        if (sl_size_parse(bad[i], &bytes, &err) != SL_INVALID) print_message("case %s\n", bad[i]);
        assert_int_equal(err.status, SL_INVALID);
        assert_int_equal(bytes, 7);
        assert_non_null(strstr(err.message, bad[i]));
    }
    uint64_t bytes = 7;
    sl_error err = {0};
    assert_int_equal(sl_size_parse("18446744073709551615K", &bytes, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "64 bits"));
    assert_int_equal(sl_size_parse("16777216T", &bytes, NULL), SL_INVALID);
    assert_int_equal(sl_size_parse("16777215.9T", &bytes, NULL), SL_OK);
}

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
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_checked_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
