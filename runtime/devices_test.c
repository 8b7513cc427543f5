#include "runtime/devices.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static sl_error err;

/* What a row says of a device is what the device says of itself. */
static void rows_agree_with_their_devices(void **state) {
    (void)state;
    const sl_device_options options = {.threads = 1};
    const sl_device_row *row;
    for (uint32_t i = 0; (row = sl_device_row_at(i)); i++) {
        sl_device *device = NULL;
        assert_true(row->name[0] && row->summary[0]);
        if (row->target) assert_string_equal(row->target->name, row->name);
        if (!row->create || row->create(&options, NULL, &device, &err) != SL_OK) continue;
        assert_string_equal(device->ops->name, row->name);
        const sl_device_info info = sl_device_describe(device);
        assert_true(info.isa && info.threads > 0 && info.chunk_tokens > 0);
        assert_true(info.kv_dtype_count <= SL_DEVICE_KV_DTYPES);
        device->ops->destroy(device);
    }
}

/* An entry that is called without asking is there; those that go together come together. */
static void required_entries_are_there(void **state) {
    (void)state;
    const sl_device_options options = {.threads = 1};
    const sl_device_row *row;
    for (uint32_t i = 0; (row = sl_device_row_at(i)); i++) {
        sl_device *device = NULL;
        if (!row->create || row->create(&options, NULL, &device, &err) != SL_OK) continue;
        const sl_device_ops *ops = device->ops;
        assert_true(ops->destroy && ops->describe && ops->load && ops->unload);
        assert_true(ops->bind && ops->bind_experts && ops->run && ops->run_serially);
        assert_true(ops->attach && ops->output && ops->allocate && ops->release);
        assert_true(ops->copy_in && ops->copy_out && ops->copy_within && ops->weight_changed);
        assert_true(ops->run_step && ops->read && ops->write);
        assert_true(!ops->start == !ops->finish && !ops->start == !ops->fetch);
        assert_true(!ops->start == !ops->can_start);
        assert_true(!ops->begin == !ops->end);
        ops->destroy(device);
    }
}

static void names_are_found(void **state) {
    (void)state;
    const sl_device_row *row = NULL, *wanted, *first = sl_device_row_at(0);
    for (uint32_t i = 0; (wanted = sl_device_row_at(i)); i++) {
        assert_int_equal(sl_device_find(wanted->name, &row, &err), SL_OK);
        assert_ptr_equal(row, wanted);
    }
    assert_int_equal(sl_device_find(NULL, &row, &err), SL_OK);
    assert_ptr_equal(row, first);
    assert_int_equal(sl_device_find("abacus", &row, &err), SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'abacus'"));
    assert_non_null(strstr(err.message, first->name));
}

static void reference_has_defaults(void **state) {
    (void)state;
    const sl_device_info info = sl_device_describe(NULL);
    const sl_device_stats stats = sl_device_stats_of(NULL);
    assert_string_equal(info.isa, "none");
    assert_int_equal(info.threads, 1);
    assert_false(info.holds_experts || info.own_outputs || info.unshared_single_row);
    assert_null(info.host_memory);
    assert_int_equal(stats.taken_bytes + stats.workspace_bytes + stats.runs, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree_with_their_devices),
        cmocka_unit_test(required_entries_are_there),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(reference_has_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
