/* The tensors of the bundled demo model, read from a simulated disk that holds its pack. */
#include "tests/support/folder.h"

#include "engine/formats/file.h"
#include "engine/models/load.h"
#include "io/simulated.h"
#include <stdlib.h>

static const char pack_path[] = "models/fable/fable.sluice";

typedef struct {
    sl_source *source;
    uint8_t *disk;
    uint64_t bytes;
    sl_reader *reader;
    sl_load load;
} world;

static world make_world(sl_simulated_options options) {
    world w = {0};
    sl_file pack;
    assert_int_equal(sl_source_open(pack_path, NULL, &w.source, NULL), SL_OK);
    assert_int_equal(sl_file_open(pack_path, &pack, NULL), SL_OK);
    w.bytes = pack.bytes;
    w.disk = malloc(pack.bytes);
    assert_non_null(w.disk);
    assert_int_equal(sl_file_read(&pack, 0, w.disk, w.bytes, NULL), SL_OK);
    sl_file_close(&pack);
    const sl_simulated_file file = {"fable", w.disk, w.bytes};
    assert_int_equal(sl_simulated_open(&file, 1, &options, NULL, &w.reader, NULL), SL_OK);
    w.load = (sl_load){.source = w.source, .reader = w.reader};
    return w;
}

static void free_world(world *w) {
    sl_reader_close(w->reader);
    sl_load_deinit(&w->load);
    sl_source_close(w->source);
    free(w->disk);
}

static const sl_tensor_entry *largest(const sl_source *source) {
    const sl_tensor_entry *found = sl_source_tensor(source, 0);
    for (uint32_t i = 1; i < sl_source_tensor_count(source); i++)
        if (sl_source_tensor(source, i)->at.bytes > found->at.bytes)
            found = sl_source_tensor(source, i);
    return found;
}

static void test_every_tensor_is_what_the_file_holds(void **unused) {
    (void)unused;
    world w = make_world((sl_simulated_options){.seed = 3, .reorder = 6, .short_share = 0.3});
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sl_source_tensor_count(w.source); i++) {
        const sl_tensor_entry *entry = sl_source_tensor(w.source, i);
        const void *data = NULL;
        assert_int_equal(sl_load_tensor(&w.load, entry, &data, NULL), SL_OK);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 64, entry->at.offset % 64);
        assert_memory_equal(data, w.disk + entry->at.offset, entry->at.bytes);
        bytes += entry->at.bytes;
    }
    assert_int_equal(w.load.loaded_bytes, bytes);
    free_world(&w);
}

static void test_damage_and_errors(void **unused) {
    (void)unused;
    sl_error err = {0};
    const void *data = NULL;
    world w = make_world((sl_simulated_options){.seed = 1});
    const sl_tensor_entry *entry = largest(w.source);
    w.disk[entry->at.offset + entry->at.bytes / 2] ^= 1;
    assert_int_equal(sl_load_tensor(&w.load, entry, &data, &err), SL_FORMAT);
    expect_message(&err, "is damaged");
    assert_null(data);
    free_world(&w);
    w = make_world((sl_simulated_options){.seed = 1});
    sl_simulated_fail(w.reader, 0, 0, w.bytes, 1);
    assert_int_equal(sl_load_tensor(&w.load, largest(w.source), &data, &err), SL_IO);
    assert_null(data);
    sl_tensor_entry beyond = *largest(w.source);
    beyond.at.bytes = w.bytes;
    assert_int_equal(sl_load_tensor(&w.load, &beyond, &data, &err), SL_IO);
    free_world(&w);
}

static int stop_at_second(void *ctx, const char *what, uint64_t done, uint64_t total) {
    int *calls = ctx;
    assert_string_equal(what, "loading");
    assert_true(done <= total);
    return ++*calls == 2;
}

static void test_progress_can_stop_it(void **unused) {
    (void)unused;
    int calls = 0;
    sl_error err = {0};
    const void *data = NULL;
    world w = make_world((sl_simulated_options){.seed = 1});
    w.load.progress = stop_at_second;
    w.load.progress_ctx = &calls;
    w.load.total_bytes = w.bytes;
    assert_int_equal(sl_load_tensor(&w.load, sl_source_tensor(w.source, 0), &data, &err), SL_OK);
    assert_int_equal(sl_load_tensor(&w.load, sl_source_tensor(w.source, 1), &data, &err),
                     SL_CANCELLED);
    expect_message(&err, "stopped while loading");
    free_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tensor_is_what_the_file_holds),
        cmocka_unit_test(test_damage_and_errors),
        cmocka_unit_test(test_progress_can_stop_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
