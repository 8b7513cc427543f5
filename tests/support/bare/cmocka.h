/* cmocka.h - As much of cmocka as the tests of a build without libraries use (SLUICE_BARE).
 *
 * A test ends at its first failure, which is printed; the program returns how many failed. */
#ifndef SL_TESTS_SUPPORT_BARE_CMOCKA_H
#define SL_TESTS_SUPPORT_BARE_CMOCKA_H
#include <inttypes.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

/* One for all files of a program. */
__attribute__((weak)) jmp_buf bare_test_end;
enum { BARE_TEST_FAILED = 1, BARE_TEST_SKIPPED };

#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        printf("%s:%d: ", __FILE__, __LINE__);                                                     \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        longjmp(bare_test_end, BARE_TEST_FAILED);                                                  \
    } while (0)
#define skip() longjmp(bare_test_end, BARE_TEST_SKIPPED)

#define assert_true(c)                                                                             \
    do {                                                                                           \
        if (!(c)) fail_msg("not so: %s", #c);                                                      \
    } while (0)
#define assert_false(c)        assert_true(!(c))
#define assert_non_null(p)     assert_true((p) != NULL)
#define assert_null(p)         assert_true((p) == NULL)
#define assert_ptr_equal(a, b) assert_true((const volatile void *)(a) == (const volatile void *)(b))
#define assert_int_compared(a, op, b)                                                              \
    do {                                                                                           \
        const intmax_t bare_a = (intmax_t)(a), bare_b = (intmax_t)(b);                             \
        if (!(bare_a op bare_b))                                                                   \
            fail_msg("not so: %s %s %s (%" PRIdMAX ", %" PRIdMAX ")", #a, #op, #b, bare_a,         \
                     bare_b);                                                                      \
    } while (0)
#define assert_int_equal(a, b)     assert_int_compared(a, ==, b)
#define assert_int_not_equal(a, b) assert_int_compared(a, !=, b)
#define assert_in_range(v, low, high)                                                              \
    do {                                                                                           \
        assert_int_compared(v, >=, low);                                                           \
        assert_int_compared(v, <=, high);                                                          \
    } while (0)
#define assert_string_equal(a, b)                                                                  \
    do {                                                                                           \
        const char *bare_a = (a), *bare_b = (b);                                                   \
        if (strcmp(bare_a, bare_b) != 0) fail_msg("'%s' is not '%s'", bare_a, bare_b);             \
    } while (0)
#define assert_memory_equal(a, b, bytes)     assert_true(memcmp((a), (b), (bytes)) == 0)
#define assert_memory_not_equal(a, b, bytes) assert_true(memcmp((a), (b), (bytes)) != 0)

#define cmocka_unit_test(f)                                                                        \
    { #f, f }
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    bare_run_tests(tests, sizeof(tests) / sizeof(tests)[0])

static inline int bare_run_tests(const struct CMUnitTest *tests, size_t count) {
    volatile int failed = 0;
    for (volatile size_t i = 0; i < count; i++) {
        void *state = NULL;
        const int end = setjmp(bare_test_end);
        if (!end) tests[i].run(&state);
        failed += end == BARE_TEST_FAILED;
        printf("%s %s\n",
               end == BARE_TEST_FAILED    ? "FAILED "
               : end == BARE_TEST_SKIPPED ? "skipped"
                                          : "passed ",
               tests[i].name);
    }
    printf("%zu tests, %d failed\n", count, failed);
    return failed;
}
#endif
