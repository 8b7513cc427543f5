/* vocabulary_memory_test.c - The memory that published tokenizers take, while they are opened and
 * afterwards.  Limits are a tenth above what was measured. */
#include "engine/text/tokenizer.h"
#include "tests/support/folder.h"
#include "tests/support/peak.h"
#include "tests/support/shared.h"

static const struct {
    const char *folder;
    long peak_kib;     /* of the process, with the text of the file */
    size_t kept_bytes; /* of the tokenizer */
} tokenizers[] = {
    {"gpt2", 6000, 4400000},    {"gpt4o", 23000, 13200000},      {"llama3", 22200, 13100000},
    {"qwen3", 21500, 10300000}, {"deepseek_v3", 17700, 9100000},
};
enum {
    TOKENIZERS = sizeof tokenizers / sizeof tokenizers[0],
    CODE_KIB = 1024 /* of the program's pages that opening uses first */
};

static bool find(const char *folder, char *path, size_t capacity) {
    char name[128];
    (void)snprintf(name, sizeof name, "tokenizers/%s/tokenizer.json", folder);
    return shared_path(name, path, capacity);
}

static void peak_of_opening(void **state) {
    (void)state;
    if (!memory_is_measured()) skip();
    for (int t = 0; t < TOKENIZERS; t++) {
        char path[512];
        long peak = 0, kept = 0;
        if (!find(tokenizers[t].folder, path, sizeof path)) skip();
        if (!measure_opening(path, &peak, &kept)) fail_msg("%s was not measured", path);
        print_message("  %s: peak %ld KiB, kept %ld KiB\n", tokenizers[t].folder, peak, kept);
        if (peak > tokenizers[t].peak_kib)
            fail_msg("%s: peak %ld KiB, at most %ld wanted", path, peak, tokenizers[t].peak_kib);
        if (kept > (long)(tokenizers[t].kept_bytes / 1024) + CODE_KIB)
            fail_msg("%s: %ld KiB kept, at most %zu and %d wanted", path, kept,
                     tokenizers[t].kept_bytes / 1024, CODE_KIB);
    }
}

static void *counting_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                             size_t align) {
    void *fresh = sl_resize(NULL, ptr, old_bytes, new_bytes, align);
    if (fresh || new_bytes == 0) *(size_t *)ctx += new_bytes - old_bytes;
    return fresh;
}

static void kept_memory(void **state) {
    (void)state;
    for (int t = 0; t < TOKENIZERS; t++) {
        char path[512];
        if (!find(tokenizers[t].folder, path, sizeof path)) skip();
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        enum { ROOM = 16 << 20 };
        char *text = malloc(ROOM);
        assert_non_null(text);
        const size_t bytes = fread(text, 1, ROOM, file);
        (void)fclose(file);
        size_t used = 0;
        const sl_allocator allocator = {counting_resize, &used};
        sl_tokenizer *tokenizer;
        sl_error err;
        if (sl_tokenizer_create(text, bytes, &allocator, &tokenizer, &err) != SL_OK)
            fail_msg("%s: %s", path, err.message);
        free(text);
        print_message("  %s: %zu bytes\n", tokenizers[t].folder, used);
        if (used > tokenizers[t].kept_bytes)
            fail_msg("%s: %zu bytes, at most %zu wanted", path, used, tokenizers[t].kept_bytes);
        sl_tokenizer_destroy(tokenizer);
        assert_int_equal(used, 0);
    }
}

int main(int count, char **words) {
    if (measure_for_parent(count, words)) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_of_opening),
        cmocka_unit_test(kept_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
