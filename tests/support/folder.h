/* folder.h - For tests of files: a temporary folder, files in it, and
 * memory that fails on demand, ours and jansson's. */
#ifndef SL_TESTS_FOLDER_H
#define SL_TESTS_FOLDER_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char test_folder[64];

static inline int make_test_folder(void **state) {
    (void)state;
    (void)snprintf(test_folder, sizeof test_folder, "/tmp/sluice-test-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

/* A path in the folder; one of eight buffers in turn. */
static inline const char *test_path(const char *name) {
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

static inline int count_test_files(void) {
    DIR *directory = opendir(test_folder);
    int count = 0;
    for (const struct dirent *e; directory && (e = readdir(directory));)
        count += e->d_name[0] != '.';
    if (directory) (void)closedir(directory);
    return count;
}

static inline int empty_test_folder(void **state) {
    (void)state;
    DIR *directory = opendir(test_folder);
    for (const struct dirent *e; directory && (e = readdir(directory));)
        if (e->d_name[0] != '.') (void)remove(test_path(e->d_name));
    if (directory) (void)closedir(directory);
    return 0;
}

static inline int remove_test_folder(void **state) {
    (void)empty_test_folder(state);
    return rmdir(test_folder);
}

static inline void write_test_file(const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(test_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline uint8_t *read_test_file(const char *name, size_t *out_bytes) {
    FILE *file = fopen(test_path(name), "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *out_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*out_bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *out_bytes, file), *out_bytes);
    (void)fclose(file);
    return data;
}

/* The message must contain text. */
static inline void expect_message(const sl_error *err, const char *text) {
    if (!strstr(err->message, text)) fail_msg("\"%s\" lacks \"%s\"", err->message, text);
}

/* An allocator that fails for good once it has served `left` calls that take memory. */
typedef struct {
    long left;
} failing_memory;

static inline void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                                   size_t align) {
    failing_memory *memory = ctx;
    if (new_bytes && memory->left-- <= 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

/* Makes jansson fail for good after so many calls; a negative number: never. */
static long json_calls_left = -1;
static inline void *failing_json_malloc(size_t bytes) {
    if (json_calls_left == 0) return NULL;
    if (json_calls_left > 0) json_calls_left--;
    return malloc(bytes);
}
static inline void fail_json_after(long calls) {
    json_calls_left = calls;
    json_set_alloc_funcs(failing_json_malloc, free);
}
#endif
