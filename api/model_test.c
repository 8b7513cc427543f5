/* model_test.c - The list of devices. */
#include "runtime/devices.h"
#include "sluice/sluice.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void devices_are_listed(void **state) {
    (void)state;
    sl_error err;
    sl_device_item item;
    uint32_t count = 0;
    for (; sl_device_at(count, &item); count++) {
        const sl_device_row *row = NULL;
        assert_int_equal(sl_device_find(item.name, &row, &err), SL_OK);
        assert_ptr_equal(row, sl_device_row_at(count));
        assert_int_equal(item.runs_models, !row->checks_only);
    }
    assert_non_null(sl_device_row_at(0));
    assert_null(sl_device_row_at(count));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_are_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
