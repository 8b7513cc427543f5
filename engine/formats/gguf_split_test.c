/* gguf_split_test.c - Split GGUF models: opened by any part or by their folder, and every way in
 * which parts do not belong together. */
#include "tests/support/folder.h"

#include "engine/formats/gguf.h"
#include "tests/support/gguf_maker.h"

enum { PARTS = 3 };

/* A part's own metadata; a negative number omits the key. */
typedef struct {
    int number, count, tensors;
} account;

static void write_part(const char *name, int part, account says) {
    gguf_maker m = {0};
    float values[8];
    for (int i = 0; i < 8; i++) values[i] = (float)(10 * part + i);
    if (part == 0) gguf_small_model(&m, 4);
    if (says.number >= 0) gguf_u16(&m, "split.no", (uint16_t)says.number);
    if (says.count >= 0) gguf_u16(&m, "split.count", (uint16_t)says.count);
    if (says.tensors >= 0) gguf_i32(&m, "split.tensors.count", says.tensors);
    static const char *const names[PARTS] = {"first", "second", "third"};
    gguf_tensor(&m, names[part], (const uint64_t[]){8, 0}, 0, values, sizeof values);
    gguf_write(&m, test_path(name));
    gguf_release(&m);
}

static const char *part_name(int part) {
    static char names[PARTS][64];
    (void)snprintf(names[part], sizeof names[0], "x-%05d-of-%05d.gguf", part + 1, PARTS);
    return names[part];
}

static void write_parts(void) {
    for (int i = 0; i < PARTS; i++) write_part(part_name(i), i, (account){i, PARTS, 4});
}

static void check_whole(const char *path) {
    sl_source *source = NULL;
    sl_error err = {0};
    if (sl_source_open(path, NULL, &source, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(sl_source_file_count(source), PARTS);
    static const char *const names[PARTS] = {"first", "second", "third"};
    for (uint32_t i = 0; i < PARTS; i++) {
        const sl_tensor_entry *entry = sl_source_find(source, names[i]);
        const void *data = NULL;
        assert_non_null(entry);
        assert_int_equal(entry->at.file, i);
        assert_int_equal(sl_source_map(source, entry, &data, &err), SL_OK);
        assert_true(((const float *)data)[3] == (float)(10 * i + 3));
    }
    assert_non_null(sl_source_find(source, "model.embed_tokens.weight"));
    sl_source_close(source);
}

static void any_part_opens_all(void **state) {
    (void)state;
    write_parts();
    for (int i = 0; i < PARTS; i++) check_whole(test_path(part_name(i)));
    check_whole(test_folder);
    write_test_file("mmproj-x.gguf", "GGUF", 4); /* not part of a language model */
    check_whole(test_folder);
}

static void refused(const char *path, const char *message) {
    sl_source *source = NULL;
    sl_error err = {0};
    if (sl_source_open(path, NULL, &source, &err) == SL_OK) fail_msg("wanted \"%s\"", message);
    expect_message(&err, message);
}

/* Each part in turn is written differently; the model is opened by its second part. */
static void parts_that_do_not_belong_together(void **state) {
    (void)state;
    static const struct {
        int part;
        account says;
        const char *message;
    } cases[] = {
        {2, {1, 3, 4}, "x-00003-of-00003.gguf: key 'split.no' is 1, 2 wanted"},
        {0, {2, 3, 4}, "x-00001-of-00003.gguf: key 'split.no' is 2, 0 wanted"},
        {2, {-1, 3, 4}, "x-00003-of-00003.gguf: key 'split.no' is missing"},
        {2, {2, 2, 4}, "x-00003-of-00003.gguf: key 'split.count' is 2, the other parts have 3"},
        {0, {0, -1, 4}, "x-00001-of-00003.gguf: key 'split.count' is 1, the other parts have 3"},
        {0, {0, 3, 5}, "x-00001-of-00003.gguf: key 'split.tensors.count' is 5, its 3 parts have 4"},
        {1, {1, 4, 4}, "x-00002-of-00003.gguf: one of 4 parts, which are looked for under names"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_parts();
        write_part(part_name(cases[i].part), cases[i].part, cases[i].says);
        refused(test_path(part_name(1)), cases[i].message);
    }
}

static void parts_that_are_not_there(void **state) {
    (void)state;
    write_parts();
    assert_int_equal(remove(test_path(part_name(1))), 0);
    refused(test_path(part_name(0)), "x-00002-of-00003.gguf: missing: part 2 of 3 of the model");
    refused(test_folder, "x-00002-of-00003.gguf: missing: part 2 of 3 of the model");
    write_parts();
    write_part("x-00002-of-00003.gguf", 2, (account){1, PARTS, 4});
    refused(test_folder, "tensor 'third' is defined twice");
    write_parts();
    write_test_file("x-00003-of-00003.gguf", "GGUF\3", 5);
    refused(test_folder, "x-00003-of-00003.gguf: truncated");
    write_parts();
    assert_int_equal(rename(test_path(part_name(0)), test_path("renamed.gguf")), 0);
    refused(test_path("renamed.gguf"), "renamed.gguf: one of 3 parts");
}

static void folders_with_several_models(void **state) {
    (void)state;
    write_parts();
    write_part("y-00001-of-00003.gguf", 0, (account){0, PARTS, 4});
    refused(test_folder, "holds 2 packs or GGUF files, name one of them");
}

static void names_of_parts(void **state) {
    (void)state;
    uint32_t part = 0, count = 0;
    assert_int_equal(sl_gguf_part_name("a/b-00002-of-00013.gguf", &part, &count), 3);
    assert_true(part == 2 && count == 13);
    static const char *const others[] = {"-00001-of-00002.gguf",
                                         "b-0001-of-00002.gguf",
                                         "b-00001-of-00002.ggu",
                                         "b-00001-in-00002.gguf",
                                         "b_00001-of-00002.gguf",
                                         "b-0000x-of-00002.gguf",
                                         ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(sl_gguf_part_name(others[i], &part, &count), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(any_part_opens_all, empty_test_folder),
        cmocka_unit_test_teardown(parts_that_do_not_belong_together, empty_test_folder),
        cmocka_unit_test_teardown(parts_that_are_not_there, empty_test_folder),
        cmocka_unit_test_teardown(folders_with_several_models, empty_test_folder),
        cmocka_unit_test(names_of_parts),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
