/* structs_test.c - Structs of callers that are older, newer, or wrong about their size. */
#include "base/structs.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    size_t struct_size;
    uint64_t first, second;
} thing;
typedef struct {
    thing known;
    uint64_t third;
} later_thing;

static sl_error err;

static void sizes_are_checked(void **state) {
    (void)state;
    thing t = {0};
    assert_int_equal(SL_STRUCT_CHECK(thing, &t, &err), SL_INVALID);
    assert_string_equal(err.message,
                        "thing: struct_size is 0, must be the sizeof of the struct (24)");
    t.struct_size = sizeof(size_t) - 1;
    assert_int_equal(SL_STRUCT_CHECK(thing, &t, &err), SL_INVALID);
    t.struct_size = sizeof(size_t);
    assert_int_equal(SL_STRUCT_CHECK(thing, &t, &err), SL_OK);
    t.struct_size = (size_t)-1; /* never set */
    assert_int_equal(SL_STRUCT_CHECK(thing, &t, &err), SL_INVALID);
}

static void options_are_taken(void **state) {
    (void)state;
    thing out = {0};
    assert_int_equal(SL_STRUCT_TAKE(thing, &out, NULL, &err), SL_OK);
    assert_int_equal(SL_STRUCT_TAKE(thing, &out, &(thing){0}, &err), SL_INVALID);
    const thing older = {offsetof(thing, second), 1, 2};
    assert_int_equal(SL_STRUCT_TAKE(thing, &out, &older, &err), SL_OK);
    assert_true(out.first == 1 && out.second == 0);
    later_thing newer = {{sizeof newer, 3, 4}, 0};
    assert_int_equal(SL_STRUCT_TAKE(thing, &out, &newer.known, &err), SL_OK);
    assert_true(out.first == 3 && out.second == 4);
    newer.third = 1;
    assert_int_equal(SL_STRUCT_TAKE(thing, &out, &newer.known, &err), SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "thing: a field beyond its first 24 bytes is set"));
}

static void results_are_given(void **state) {
    (void)state;
    const thing found = {sizeof found, 5, 6};
    thing older = {offsetof(thing, second), 1, 2};
    SL_STRUCT_GIVE(thing, &older, &found);
    assert_true(older.struct_size == offsetof(thing, second) && older.first == 5);
    assert_int_equal(older.second, 2);
    later_thing newer = {{sizeof newer, 1, 2}, 3};
    SL_STRUCT_GIVE(thing, &newer.known, &found);
    assert_true(newer.known.struct_size == sizeof newer && newer.known.second == 6);
    assert_int_equal(newer.third, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(options_are_taken),
        cmocka_unit_test(results_are_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
