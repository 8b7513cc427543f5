#include "base/names.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void names_are_found(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    static char texts[COUNT][16];
    sl_names names = {0};
    sl_arena arena;
    uint32_t found = 7;
    sl_arena_init(&arena, NULL);
    assert_false(sl_names_find(&names, "n0", &found));
    assert_true(sl_names_init(&names, COUNT, &arena));
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "n%u", i);
        assert_true(sl_names_add(&names, texts[i], i));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(sl_names_find(&names, texts[i], &found));
        assert_int_equal(found, i);
    }
    assert_false(sl_names_add(&names, "n17", 99));
    assert_false(sl_names_find(&names, "n", &found));
    assert_true(sl_names_find(&names, "n17", &found));
    assert_int_equal(found, 17);
    sl_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
