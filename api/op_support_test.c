#include "runtime/devices.h"
#include "sluice/experimental.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static sl_error err;

static void ops_are_listed_by_device(void **state) {
    (void)state;
    sl_op_support support = {.struct_size = sizeof support};
    assert_int_equal(sl_op_support_of("add", &support, &err), SL_OK);
    uint32_t found = 0;
    const sl_device_row *row;
    for (uint32_t i = 0; (row = sl_device_row_at(i)); i++) {
        if (!row->target) continue;
        assert_string_equal(support.devices[found].device, row->name);
        assert_non_null(strstr(support.devices[found].kernels, "f32"));
        found++;
    }
    assert_int_equal(support.device_count, found);
    assert_int_equal(sl_op_support_of("reshape", &support, &err), SL_OK);
    assert_non_null(strstr(support.devices[0].kernels, "view of the same memory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_are_listed_by_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
