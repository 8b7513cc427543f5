#include "tests/support/folder.h"

#include "sluice/tensors.h"

static const float floats[6] = {0, 1, 2, 3, 4, 5};
static const int32_t ids[3] = {7, 8, 9};
static const uint8_t bytes[3] = {1, 2, 3};
static const sl_tensor_item items[] = {
    {.name = "bytes", .dtype = "u8", .rank = 1, .dims = {3}, .data = bytes, .bytes = 3},
    {.name = "logits", .dtype = "f32", .rank = 2, .dims = {2, 3}, .data = floats, .bytes = 24},
    {.name = "ids", .dtype = "i32", .rank = 1, .dims = {3}, .data = ids, .bytes = 12},
};
static sl_error err;

static sl_tensors *write_and_open(void) {
    sl_tensors *tensors = NULL;
    assert_int_equal(sl_tensors_write(test_path("t.safetensors"), items, 3, &err), SL_OK);
    assert_int_equal(sl_tensors_open(test_path("t.safetensors"), &tensors, &err), SL_OK);
    return tensors;
}

static void test_writes_and_reads_back(void **state) {
    (void)state;
    sl_tensors *tensors = write_and_open();
    assert_int_equal(count_test_files(), 1);
    assert_int_equal(sl_tensors_count(tensors), 3);
    for (int i = 0; i < 3; i++) {
        sl_tensor_item found;
        assert_int_equal(sl_tensors_find(tensors, items[i].name, &found, &err), SL_OK);
        assert_string_equal(found.dtype, items[i].dtype);
        assert_int_equal(found.rank, items[i].rank);
        assert_memory_equal(found.dims, items[i].dims, sizeof found.dims);
        assert_int_equal(found.bytes, items[i].bytes);
        assert_memory_equal(found.data, items[i].data, items[i].bytes);
    }
    sl_tensor_item item;
    assert_int_equal(sl_tensors_at(tensors, 2, &item, &err), SL_OK);
    assert_string_equal(item.name, "bytes");
    assert_int_equal(sl_tensors_at(tensors, 3, &item, &err), SL_INVALID);
    sl_tensors_close(tensors);
    sl_tensors_close(NULL);
}

static void test_absent_name_lists_those_that_exist(void **state) {
    (void)state;
    sl_tensors *tensors = write_and_open();
    sl_tensor_item found;
    assert_int_equal(sl_tensors_find(tensors, "tokens", &found, &err), SL_INVALID);
    assert_string_equal(err.message,
                        "t.safetensors: no tensor 'tokens'; it has: logits, ids, bytes");
    sl_tensors_close(tensors);
}

static void test_long_lists_are_cut(void **state) {
    (void)state;
    char names[100][32];
    sl_tensor_item many[100];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(names[i], sizeof names[i], "tensor-%d", i);
        many[i] = items[0];
        many[i].name = names[i];
    }
    sl_tensors *tensors = NULL;
    sl_tensor_item found;
    assert_int_equal(sl_tensors_write(test_path("t.safetensors"), many, 100, &err), SL_OK);
    assert_int_equal(sl_tensors_open(test_path("t.safetensors"), &tensors, &err), SL_OK);
    assert_int_equal(sl_tensors_find(tensors, "x", &found, &err), SL_INVALID);
    expect_message(&err, "tensor-0, tensor-1, ");
    assert_string_equal(err.message + strlen(err.message) - 3, "...");
    sl_tensors_close(tensors);
}

static void test_misaligned_data_is_copied(void **state) {
    (void)state;
    static const char json[] = "{\"x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[1,5]}}";
    uint8_t file[8 + sizeof json - 1 + 5] = {sizeof json - 1};
    memcpy(file + 8, json, sizeof json - 1);
    memcpy(file + sizeof file - 4, ids, 4);
    write_test_file("t.safetensors", file, sizeof file);
    sl_tensors *tensors = NULL;
    assert_int_equal(sl_tensors_open(test_path("t.safetensors"), &tensors, &err), SL_OK);
    sl_tensor_item item;
    assert_int_equal(sl_tensors_at(tensors, 0, &item, &err), SL_OK);
    assert_int_equal((uintptr_t)item.data % 4, 0);
    assert_int_equal(*(const int32_t *)item.data, 7);
    sl_tensors_close(tensors);
}

static void test_bad_files_and_items_fail(void **state) {
    (void)empty_test_folder(state);
    sl_tensors *tensors = NULL;
    const char *path = test_path("u.safetensors");
    assert_int_equal(sl_tensors_open(path, &tensors, &err), SL_IO);
    expect_message(&err, "u.safetensors: cannot open: No such file");
    sl_tensor_item item = items[1];
    item.bytes = 23;
    assert_int_equal(sl_tensors_write(path, &item, 1, &err), SL_INVALID);
    expect_message(&err, "tensor 'logits' has 23 bytes, f32[2,3] needs 24");
    item = items[1];
    item.dtype = "f64";
    assert_int_equal(sl_tensors_write(path, &item, 1, &err), SL_INVALID);
    item = items[1];
    item.rank = 7;
    assert_int_equal(sl_tensors_write(path, &item, 1, &err), SL_INVALID);
    assert_int_equal(count_test_files(), 0);
    write_test_file("u.safetensors", "garbage!garbage", 15);
    assert_int_equal(sl_tensors_open(path, &tensors, &err), SL_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_and_reads_back),
        cmocka_unit_test(test_absent_name_lists_those_that_exist),
        cmocka_unit_test(test_long_lists_are_cut),
        cmocka_unit_test(test_misaligned_data_is_copied),
        cmocka_unit_test(test_bad_files_and_items_fail),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
