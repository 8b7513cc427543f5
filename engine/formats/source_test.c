#include "tests/support/folder.h"

#include "engine/formats/safetensors.h"
#include "engine/formats/source.h"

static const char first_name[] = "model-00001-of-00002.safetensors";
static const char second_name[] = "model-00002-of-00002.safetensors";
static const char index_name[] = "model.safetensors.index.json";
static const float a_data[4] = {1, 2, 3, 4};
static const uint16_t b_data[6] = {1, 2, 3, 4, 5, 6};
static sl_error err;

static void write_text(const char *name, const char *text) {
    write_test_file(name, text, strlen(text));
}

static int write_checkpoint(void **state) {
    (void)empty_test_folder(state);
    const sl_safetensors_item a = {"a", sl_type_make(SL_DTYPE_f32, 1, (int64_t)4), a_data};
    const sl_safetensors_item b = {"b", sl_type_make(SL_DTYPE_bf16, 2, (int64_t)2, (int64_t)3),
                                   b_data};
    write_text("config.json", "{}");
    write_text(index_name, "{\"metadata\":{},\"weight_map\":{"
                           "\"a\":\"model-00001-of-00002.safetensors\","
                           "\"b\":\"model-00002-of-00002.safetensors\"}}");
    return sl_safetensors_write(test_path(first_name), &a, 1, &err) ||
           sl_safetensors_write(test_path(second_name), &b, 1, &err);
}

static sl_status try_open(void) {
    sl_source *source = NULL;
    const sl_status status = sl_source_open(test_folder, NULL, &source, &err);
    sl_source_close(source);
    return status;
}

static void expect_failure(sl_status status, const char *message, const char *also) {
    assert_int_equal(try_open(), status);
    expect_message(&err, message);
    expect_message(&err, also);
}

/* Writes a safetensors file with this JSON and data bytes of 0, 1, 2... */
static void write_raw(const char *name, const char *json, size_t data_bytes) {
    uint8_t file[1024];
    const uint64_t length = strlen(json);
    memcpy(file, &length, 8);
    memcpy(file + 8, json, length);
    for (size_t i = 0; i < data_bytes; i++) file[8 + length + i] = (uint8_t)i;
    write_test_file(name, file, 8 + length + data_bytes);
}

static void *counting_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                             size_t align) {
    void *fresh = sl_resize(NULL, ptr, old_bytes, new_bytes, align);
    if (fresh || new_bytes == 0) *(size_t *)ctx += new_bytes - old_bytes;
    return fresh;
}

static void test_releases_the_tokenizer(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    size_t used = 0, bytes;
    const sl_allocator allocator = {counting_resize, &used};
    sl_source *source = NULL;
    char *text = calloc(1, BYTES);
    assert_non_null(text);
    write_test_file("tokenizer.json", text, BYTES);
    free(text);
    assert_int_equal(sl_source_open(test_folder, &allocator, &source, &err), SL_OK);
    assert_non_null(sl_source_text(source, "tokenizer.json", &bytes));
    assert_int_equal(bytes, BYTES);
    const size_t before = used;
    for (int i = 0; i < 2; i++) {
        sl_source_release_tokenizer(source);
        assert_true(before - used >= BYTES);
        assert_null(sl_source_text(source, "tokenizer.json", &bytes));
        assert_non_null(sl_source_text(source, "config.json", &bytes));
    }
    sl_source_close(source);
    assert_int_equal(used, 0);
}

static void test_reads_a_sharded_checkpoint(void **state) {
    (void)state;
    sl_source *source = NULL;
    write_text("tokenizer.json", "tokens");
    assert_int_equal(sl_source_open(test_folder, NULL, &source, &err), SL_OK);
    assert_string_equal(sl_source_format(source), "safetensors");
    assert_int_equal(sl_source_file_count(source), 2);
    assert_string_equal(sl_source_file_path(source, 1), test_path(second_name));
    assert_null(sl_source_file_path(source, 2));
    assert_int_equal(sl_source_tensor_count(source), 2);
    assert_null(sl_source_tensor(source, 2));
    assert_null(sl_source_find(source, "c"));
    assert_null(sl_source_expert_blocks(source, 0));
    size_t bytes;
    assert_string_equal(sl_source_text(source, "tokenizer.json", &bytes), "tokens");
    assert_int_equal(bytes, 6);
    assert_null(sl_source_text(source, "chat_template.jinja", &bytes));
    const sl_tensor_entry *b = sl_source_find(source, "b");
    assert_int_equal(b->at.file, 1);
    assert_int_equal(b->at.offset + b->at.bytes, sl_source_file_bytes(source, 1));
    const void *data;
    assert_int_equal(sl_source_load(source, b, &data, &err), SL_OK);
    assert_memory_equal(data, b_data, sizeof b_data);
    assert_int_equal(sl_source_load(source, sl_source_find(source, "a"), &data, &err), SL_OK);
    assert_memory_equal(data, a_data, sizeof a_data);
    sl_source_close(source);
    sl_source_close(NULL);
}

static void test_single_file_needs_no_index(void **state) {
    (void)state;
    assert_int_equal(rename(test_path(first_name), test_path("model.safetensors")), 0);
    (void)remove(test_path(index_name));
    sl_source *source = NULL;
    assert_int_equal(sl_source_open(test_folder, NULL, &source, &err), SL_OK);
    assert_int_equal(sl_source_tensor_count(source), 1);
    assert_non_null(sl_source_find(source, "a"));
    sl_source_close(source);
}

static void test_missing_tensor_is_named(void **state) {
    (void)state;
    write_text(index_name, "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                           "\"lost\":\"model-00002-of-00002.safetensors\"}}");
    expect_failure(SL_FORMAT, "model-00002-of-00002.safetensors: has no tensor 'lost'", index_name);
    write_text(index_name, "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                           "\"b\":\"model-00001-of-00002.safetensors\"}}");
    expect_failure(SL_FORMAT, "model-00001-of-00002.safetensors: has no tensor 'b'", index_name);
    write_text(index_name, "{\"weight_map\":{\"a\":\"model-00002-of-00002.safetensors\","
                           "\"b\":\"model-00001-of-00002.safetensors\"}}");
    expect_failure(SL_FORMAT, "model-00002-of-00002.safetensors: has no tensor 'a'", index_name);
}

static void test_truncated_shard_is_named(void **state) {
    (void)state;
    size_t size;
    uint8_t *file = read_test_file(second_name, &size);
    write_test_file(second_name, file, size - 5);
    expect_failure(SL_FORMAT, "model-00002-of-00002.safetensors: truncated: tensor 'b' ends",
                   "the file has");
    write_test_file(second_name, file, 20);
    expect_failure(SL_FORMAT, "model-00002-of-00002.safetensors: truncated: the header", "20");
    write_test_file(second_name, file, 0);
    expect_failure(SL_FORMAT, "model-00002-of-00002.safetensors: truncated: the file has 0", "8");
    free(file);
}

/* Nothing is mapped: what is gone is an error that names the file, not a signal. */
static void test_shard_that_shrinks_is_named(void **state) {
    (void)state;
    sl_source *source = NULL;
    const void *data = NULL;
    assert_int_equal(sl_source_open(test_folder, NULL, &source, &err), SL_OK);
    assert_int_equal(truncate(test_path(second_name), 20), 0);
    assert_int_not_equal(sl_source_load(source, sl_source_find(source, "b"), &data, &err), SL_OK);
    assert_non_null(strstr(err.message, second_name));
    assert_non_null(strstr(err.message, "bytes and has 20"));
    sl_source_close(source);
}

static void test_missing_shard_is_named(void **state) {
    (void)state;
    (void)remove(test_path(second_name));
    expect_failure(SL_IO, "model-00002-of-00002.safetensors: missing", index_name);
}

static void test_unsupported_dtype_is_explained(void **state) {
    (void)state;
    write_raw(second_name, "{\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8);
    sl_source *source = NULL;
    assert_int_equal(sl_source_open(test_folder, NULL, &source, &err), SL_OK);
    assert_null(sl_source_find(source, "b"));
    assert_string_equal(sl_source_skipped(source, "b"),
                        "dtype F64 is not supported, wanted F32, F16 or BF16");
    assert_null(sl_source_skipped(source, "a"));
    assert_null(sl_source_skipped(source, "c"));
    sl_source_close(source);
    write_raw(second_name, "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,12]}}",
              12);
    expect_failure(SL_FORMAT, "tensor 'b' has 12 bytes", "f32[2,3] needs 24");
}

static void test_misaligned_tensor_is_copied(void **state) {
    (void)state;
    write_raw(second_name, "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5);
    sl_source *source = NULL;
    assert_int_equal(sl_source_open(test_folder, NULL, &source, &err), SL_OK);
    const void *data, *again;
    assert_int_equal(sl_source_load(source, sl_source_find(source, "b"), &data, &err), SL_OK);
    assert_int_equal((uintptr_t)data % 4, 0);
    assert_memory_equal(data, ((const uint8_t[]){1, 2, 3, 4}), 4);
    assert_int_equal(sl_source_load(source, sl_source_find(source, "b"), &again, &err), SL_OK);
    assert_ptr_equal(data, again);
    sl_source_close(source);
}

static void test_tensor_in_two_shards_is_refused(void **state) {
    (void)state;
    write_raw(second_name,
              "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
              "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
              2);
    expect_failure(SL_FORMAT, "tensor 'a' is defined twice", test_folder);
}

static void test_bad_index_is_refused(void **state) {
    (void)state;
    write_text(index_name, "{\"weight_map\":");
    expect_failure(SL_FORMAT, index_name, "not valid JSON");
    write_text(index_name, "{}");
    expect_failure(SL_FORMAT, index_name, "no weight_map");
    write_text(index_name, "{\"weight_map\":{\"a\":\"../x.safetensors\"}}");
    expect_failure(SL_FORMAT, index_name, "tensor 'a' has an invalid file name");
    write_text(index_name, "{\"weight_map\":{\"a\":7}}");
    expect_failure(SL_FORMAT, index_name, "tensor 'a' has an invalid file name");
}

static void test_unknown_places_say_what_was_looked_for(void **state) {
    sl_source *source = NULL;
    (void)remove(test_path(index_name));
    expect_failure(SL_FORMAT, "no weights", "model.safetensors.index.json");
    (void)empty_test_folder(state);
    expect_failure(SL_FORMAT, "looked for config.json", "*.sluice");
    write_text("a.sluice", "garbage");
    expect_failure(SL_FORMAT, "a.sluice: not a sluice pack", "SLUICEPK");
    write_text("b.sluice", "garbage");
    expect_failure(SL_FORMAT, "holds 2 packs", "name one");
    assert_int_equal(sl_source_open("/nonexistent", NULL, &source, &err), SL_IO);
    expect_message(&err, "/nonexistent: No such file");
    assert_int_equal(sl_source_open("/dev/null", NULL, &source, &err), SL_IO);
    expect_message(&err, "not a regular file");
}

static void test_parts_of_a_model_say_what_to_do(void **state) {
    sl_source *source = NULL;
    (void)empty_test_folder(state);
    write_text("config.json", "{}");
    write_text("model.safetensors",
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    expect_failure(SL_FORMAT, "model.safetensors: a git-lfs pointer", "git lfs pull");
    write_text("model.gguf", "GGUF");
    assert_int_equal(sl_source_open(test_path("config.json"), NULL, &source, &err), SL_FORMAT);
    expect_message(&err, "config.json: one file of a model");
    expect_message(&err, "give the folder");
    assert_int_equal(sl_source_open(test_path("model.safetensors"), NULL, &source, &err),
                     SL_FORMAT);
    expect_message(&err, "give the folder");
    write_text("other", "garbage");
    assert_int_equal(sl_source_open(test_path("other"), NULL, &source, &err), SL_FORMAT);
    expect_message(&err, test_path("other")); /* with its folder */
}

static void test_survives_lack_of_memory(void **state) {
    (void)state;
    long limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        failing_memory memory = {++limit};
        const sl_allocator allocator = {failing_resize, &memory};
        sl_source *source = NULL;
        status = sl_source_open(test_folder, &allocator, &source, &err);
        assert_true(status == SL_OK || status == SL_NO_MEMORY);
        sl_source_close(source);
    }
    assert_true(limit > 2);
}

static void test_survives_lack_of_json_memory(void **state) {
    (void)state;
    long limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        fail_json_after(++limit);
        status = try_open();
    }
    assert_true(limit > 20);
    limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        const sl_safetensors_item a = {"a", sl_type_make(SL_DTYPE_f32, 1, (int64_t)4), a_data};
        fail_json_after(++limit);
        status = sl_safetensors_write(test_path(first_name), &a, 1, &err);
    }
    assert_true(limit > 5);
    assert_int_equal(count_test_files(), 4);
    fail_json_after(-1);
}

static void test_reads_the_fable_checkpoint(void **state) {
    (void)state;
    const char *shared = getenv("SLUICE_SHARED");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/models/fable", shared ? shared : "../shared");
    if (access(path, R_OK) != 0) {
        print_message("%s is absent\n", path);
        skip();
    }
    sl_source *source = NULL;
    assert_int_equal(sl_source_open(path, NULL, &source, &err), SL_OK);
    assert_int_equal(sl_source_file_count(source), 3);
    int64_t parameters = 0;
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const sl_tensor_entry *entry = sl_source_tensor(source, i);
        assert_ptr_equal(sl_source_find(source, entry->name), entry);
        parameters += sl_type_elements(&entry->type);
    }
    assert_int_equal(parameters, 16219056);
    assert_non_null(sl_source_text(source, "chat_template.jinja", NULL));
    sl_source_close(source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_releases_the_tokenizer, write_checkpoint),
        cmocka_unit_test_setup(test_reads_a_sharded_checkpoint, write_checkpoint),
        cmocka_unit_test_setup(test_single_file_needs_no_index, write_checkpoint),
        cmocka_unit_test_setup(test_missing_tensor_is_named, write_checkpoint),
        cmocka_unit_test_setup(test_truncated_shard_is_named, write_checkpoint),
        cmocka_unit_test_setup(test_shard_that_shrinks_is_named, write_checkpoint),
        cmocka_unit_test_setup(test_missing_shard_is_named, write_checkpoint),
        cmocka_unit_test_setup(test_unsupported_dtype_is_explained, write_checkpoint),
        cmocka_unit_test_setup(test_misaligned_tensor_is_copied, write_checkpoint),
        cmocka_unit_test_setup(test_tensor_in_two_shards_is_refused, write_checkpoint),
        cmocka_unit_test_setup(test_bad_index_is_refused, write_checkpoint),
        cmocka_unit_test_setup(test_unknown_places_say_what_was_looked_for, write_checkpoint),
        cmocka_unit_test_setup(test_parts_of_a_model_say_what_to_do, write_checkpoint),
        cmocka_unit_test_setup(test_survives_lack_of_memory, write_checkpoint),
        cmocka_unit_test_setup(test_survives_lack_of_json_memory, write_checkpoint),
        cmocka_unit_test(test_reads_the_fable_checkpoint),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
