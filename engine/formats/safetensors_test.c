#include "tests/support/folder.h"

#include "engine/formats/safetensors.h"

static sl_error err;
static sl_arena arena;
static sl_safetensors_header header;

/* Parses json as the header of a file with data_bytes bytes of data. */
static sl_status parse(const char *json, uint64_t data_bytes) {
    static uint8_t start[4096];
    const uint64_t length = strlen(json);
    assert_true(length + 8 <= sizeof start);
    memcpy(start, &length, 8);
    memcpy(start + 8, json, length);
    header = (sl_safetensors_header){0};
    return sl_safetensors_parse("x.safetensors", start, 8 + length, 8 + length + data_bytes, &arena,
                                &header, &err);
}

static void expect_failure(const char *json, uint64_t data_bytes, const char *message) {
    assert_int_equal(parse(json, data_bytes), SL_FORMAT);
    expect_message(&err, "x.safetensors: ");
    expect_message(&err, message);
}

static int setup(void **state) {
    (void)state;
    sl_arena_init(&arena, NULL);
    return 0;
}
static int teardown(void **state) {
    sl_arena_deinit(&arena);
    return empty_test_folder(state);
}

static void test_parses_in_order_of_offset(void **state) {
    (void)state;
    assert_int_equal(parse("{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                           "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ",
                           16),
                     SL_OK);
    assert_int_equal(header.count, 2);
    assert_int_equal(header.skipped_count, 0);
    assert_string_equal(header.tensors[0].name, "a");
    assert_int_equal(header.tensors[0].type.shape.rank, 0);
    assert_string_equal(header.tensors[1].name, "b");
    const sl_type wanted = sl_type_make(SL_DTYPE_bf16, 2, (int64_t)2, (int64_t)3);
    assert_true(sl_type_equal(&header.tensors[1].type, &wanted));
    assert_int_equal(header.tensors[1].offset - header.tensors[0].offset, 4);
    assert_int_equal(header.tensors[1].bytes, 12);
}

static void test_skips_what_it_has_no_type_for(void **state) {
    (void)state;
    assert_int_equal(
        parse("{\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
              "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[8,8]},"
              "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[8,9]},"
              "\"x\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[9,12]}}",
              12),
        SL_OK);
    assert_int_equal(header.count, 1);
    assert_string_equal(header.tensors[0].name, "x");
    assert_int_equal(header.skipped_count, 3);
    assert_string_equal(header.skipped[0].name, "ids");
    assert_string_equal(header.skipped[0].why,
                        "dtype I64 is not supported, wanted F32, F16 or BF16");
}

static void test_refuses_malformed_headers(void **state) {
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{\"x\":\n", "not valid JSON"},
        {"[]", "not an object"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         "duplicate"},
        {"{\"x\":1}", "tensor 'x'"},
        {"{\"x\":{\"shape\":[1],\"data_offsets\":[0,1]}}", "dtype"},
        {"{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", "shape"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1]}}", "data_offsets"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", "tensor 'x'"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", "tensor 'x'"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}",
         "data_offsets [-1, 0]"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}", "data_offsets [2, 1]"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,1]}}", "shape is not an array"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", "not an integer"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "dim 0 is -1"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
         "2^48"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
         "has 4 bytes, f32[2] needs 8"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,99999999999999999999]}}",
         "not valid JSON"},
        {"{\"a\\nb\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "control"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
         "'a' and 'b' overlap"},
        {"{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         "overlap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_failure(cases[i].json, 16, cases[i].message);
}

static void test_refuses_truncated_files(void **state) {
    (void)state;
    expect_failure("{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 3,
                   "truncated: tensor 'x' ends at byte 65, the file has 64");
    const uint8_t length_only[8] = {100};
    assert_int_equal(
        sl_safetensors_parse("x.safetensors", length_only, 8, 8, &arena, &header, &err), SL_FORMAT);
    expect_message(&err, "truncated: the header ends at byte 108, the file has 8");
    assert_int_equal(
        sl_safetensors_parse("x.safetensors", length_only, 3, 3, &arena, &header, &err), SL_FORMAT);
    expect_message(&err, "the file has 3 bytes");
    assert_int_equal(
        sl_safetensors_parse("x.safetensors", length_only, 8, 200, &arena, &header, &err),
        SL_INVALID);
    const uint8_t huge[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    assert_int_equal(sl_safetensors_parse("x.safetensors", huge, 8, 8, &arena, &header, &err),
                     SL_FORMAT);
    expect_message(&err, "not a safetensors file");
}

static void test_survives_lack_of_memory(void **state) {
    (void)state;
    static const char json[] = "{\"x\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
    uint8_t start[8 + sizeof json] = {sizeof json - 1};
    memcpy(start + 8, json, sizeof json - 1);
    long limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        failing_memory memory = {++limit};
        const sl_allocator allocator = {failing_resize, &memory};
        sl_arena small;
        sl_arena_init(&small, &allocator);
        status =
            sl_safetensors_parse("x", start, sizeof start, sizeof start + 8, &small, &header, &err);
        assert_true(status == SL_OK || status == SL_NO_MEMORY);
        sl_arena_deinit(&small);
    }
    assert_true(limit > 0);
}

static void test_written_files_parse_back(void **state) {
    (void)state;
    const uint8_t bytes[3] = {1, 2, 3};
    const float floats[2] = {1.5f, -2};
    const sl_safetensors_item items[] = {
        {"bytes \"quoted\"", sl_type_make(SL_DTYPE_u8, 1, (int64_t)3), bytes},
        {"floats", sl_type_make(SL_DTYPE_f32, 2, (int64_t)1, (int64_t)2), floats},
    };
    assert_int_equal(sl_safetensors_write(test_path("a.safetensors"), items, 2, &err), SL_OK);
    assert_int_equal(count_test_files(), 1);
    size_t size;
    uint8_t *file = read_test_file("a.safetensors", &size);
    assert_int_equal(sl_safetensors_parse("a", file, size, size, &arena, &header, &err), SL_OK);
    assert_int_equal(header.count, 2);
    assert_string_equal(header.tensors[0].name, "floats");
    assert_int_equal(header.tensors[0].offset % 8, 0);
    assert_memory_equal(file + header.tensors[0].offset, floats, sizeof floats);
    assert_true(sl_type_equal(&header.tensors[0].type, &items[1].type));
    assert_string_equal(header.tensors[1].name, items[0].name);
    assert_memory_equal(file + header.tensors[1].offset, bytes, sizeof bytes);
    free(file);
}

static void test_write_refuses_bad_items(void **state) {
    (void)state;
    const uint8_t data[1024] = {0};
    const sl_type byte = sl_type_make(SL_DTYPE_u8, 1, (int64_t)1);
    const sl_safetensors_item twice[] = {{"x", byte, data}, {"x", byte, data}};
    const sl_safetensors_item panel = {"x", sl_type_make(SL_DTYPE_q8, 2, (int64_t)1, (int64_t)1),
                                       data};
    const sl_safetensors_item meta = {"__metadata__", byte, data};
    const sl_safetensors_item wild = {"x", {.dtype = (sl_dtype)99}, data};
    const char *path = test_path("b.safetensors");
    assert_int_equal(sl_safetensors_write(path, twice, 2, &err), SL_INVALID);
    assert_int_equal(sl_safetensors_write(path, &panel, 1, &err), SL_UNSUPPORTED);
    assert_int_equal(sl_safetensors_write(path, &meta, 1, &err), SL_INVALID);
    assert_int_equal(sl_safetensors_write(path, &wild, 1, &err), SL_INVALID);
    assert_int_equal(sl_safetensors_write("/nonexistent/b.safetensors", twice, 1, &err), SL_IO);
    expect_message(&err, "/nonexistent/b.safetensors: cannot create: its folder does not exist");
    assert_int_equal(count_test_files(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parses_in_order_of_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_skips_what_it_has_no_type_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_malformed_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_truncated_files, setup, teardown),
        cmocka_unit_test(test_survives_lack_of_memory),
        cmocka_unit_test_setup_teardown(test_written_files_parse_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_refuses_bad_items, setup, teardown),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
