#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "io/reader.h"
#include "io/simulated.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, FILE_BYTES = 1000 * 1000 + 123 };

static char folder[] = "/tmp/sluice_reader_XXXXXX";
static char path_a[64], path_b[64], path_memory[64];
static unsigned char *contents_a, *contents_b;

static unsigned char *make_contents(uint64_t bytes, uint32_t seed) {
    unsigned char *data = malloc(bytes);
    assert_non_null(data);
    for (uint64_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (unsigned char)(seed >> 24);
    }
    return data;
}

static void write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **unused) {
    (void)unused;
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(path_a, sizeof path_a, "%s/a", folder);
    (void)snprintf(path_b, sizeof path_b, "%s/b", folder);
    (void)snprintf(path_memory, sizeof path_memory, "/dev/shm/%s", strrchr(folder, '/') + 1);
    contents_a = make_contents(FILE_BYTES, 1);
    contents_b = make_contents(FILE_BYTES, 2);
    write_file(path_a, contents_a, FILE_BYTES);
    write_file(path_b, contents_b, FILE_BYTES);
    return 0;
}

static int tear_down(void **unused) {
    (void)unused;
    unlink(path_a);
    unlink(path_b);
    rmdir(folder);
    free(contents_a);
    free(contents_b);
    return 0;
}

static unsigned char *make_buffer(uint64_t bytes) {
    const size_t rounded = sl_round_up(bytes, BLOCK) + BLOCK;
    unsigned char *buffer = aligned_alloc(BLOCK, rounded);
    assert_non_null(buffer);
    return memset(buffer, 0, rounded);
}

static void free_buffer(unsigned char *buffer) {
    free(buffer);
}

static const sl_reader_kind kinds[] = {SL_READER_URING, SL_READER_THREADS, SL_READER_AUTO};
enum { KINDS = 3 };

/* NULL if the machine does not support this reader. */
static sl_reader *open_reader(const char *const *paths, uint32_t count, sl_reader_options options) {
    sl_reader *reader = NULL;
    sl_error err = {0};
    const sl_status status = sl_reader_open(paths, count, &options, NULL, &reader, &err);
    if (status == SL_UNSUPPORTED && options.kind == SL_READER_URING) {
        print_message("no io_uring here: %s\n", err.message);
        return NULL;
    }
    if (status != SL_OK) print_message("%s\n", err.message);
    assert_int_equal(status, SL_OK);
    return reader;
}

/* This file is also built without liburing. */
#ifdef SL_HAVE_URING
static const bool has_liburing = true;
#else
static const bool has_liburing = false;
#endif

static void test_without_liburing(void **unused) {
    (void)unused;
    if (has_liburing) skip();
    const char *const path = path_a;
    const sl_reader_options options = {.kind = SL_READER_URING};
    sl_reader *reader = NULL;
    sl_error err = {0};
    assert_int_equal(sl_reader_open(&path, 1, &options, NULL, &reader, &err), SL_UNSUPPORTED);
    assert_string_equal(err.message, "io_uring is not available: built without liburing");
    assert_null(reader);
    reader = open_reader(&path, 1, (sl_reader_options){.kind = SL_READER_AUTO});
    assert_string_equal(sl_reader_name(reader), "threads");
    sl_reader_close(reader);
}

static void submit(sl_reader *reader, sl_read read) {
    sl_error err = {0};
    const sl_status status = sl_reader_submit(reader, &read, &err);
    if (status != SL_OK) print_message("%s\n", err.message);
    assert_int_equal(status, SL_OK);
}

static sl_read_result next(sl_reader *reader) {
    sl_read_result result;
    sl_error err = {0};
    assert_int_equal(sl_reader_next(reader, &result, &err), SL_OK);
    if (result.status != SL_OK) print_message("%s\n", result.error.message);
    return result;
}

/* Read i has at most 1 + i % 7 blocks, from file i % 2. */
static sl_read plan_read(uint32_t i, unsigned char *buffer) {
    const uint64_t blocks = FILE_BYTES / BLOCK;
    const uint64_t offset = i * 37 % (blocks - 7) * BLOCK;
    return (sl_read){.file = i % 2,
                     .offset = offset,
                     .bytes = (1 + i % 7) * BLOCK - i % 5 * 100,
                     .into = buffer ? buffer + (uint64_t)i * 7 * BLOCK : NULL,
                     .tag = i};
}

static void assert_read_matches(const sl_read *read) {
    const unsigned char *wanted = read->file ? contents_b : contents_a;
    assert_memory_equal(read->into, wanted + read->offset, read->bytes);
}

/* The alignment that a direct reader needs in the file system of the test files. */
static uint32_t direct_alignment(void) {
    const int fd = open(path_a, O_RDONLY | O_DIRECT);
    if (fd < 0) return 1;
    close(fd);
    return BLOCK;
}

enum { CALLED_BYTES = 640 };
static sl_status fill_called(void *ctx, const sl_read *read, sl_error *err) {
    assert_ptr_equal(ctx, folder);
    if (read->tag == 7) return sl_fail(err, SL_CANCELLED, "not this one");
    if (read->tag == 8) return SL_IO;
    memset(read->into, (int)(read->file * 16 + read->offset / 64), read->bytes);
    return SL_OK;
}

static void test_calls(void **unused) {
    (void)unused;
    sl_reader *reader = NULL;
    sl_error err = {0};
    unsigned char *buffer = make_buffer(CALLED_BYTES);
    const sl_read_calls calls = {fill_called, folder, "a function", 2, CALLED_BYTES, 64, 3};
    assert_int_equal(sl_reader_open_calls(&calls, NULL, &reader, &err), SL_OK);
    assert_int_equal(sl_reader_alignment(reader), 64);
    for (uint32_t i = 0; i < 10; i++) {
        const sl_read read = {i % 2, i * 64, 64, buffer + i * 64, i};
        assert_int_equal(sl_reader_submit(reader, &read, &err), SL_OK);
    }
    for (uint32_t i = 0; i < 10; i++) {
        sl_read_result result;
        assert_int_equal(sl_reader_next(reader, &result, &err), SL_OK);
        const uint64_t tag = result.tag;
        assert_int_equal(result.status, tag == 7 ? SL_CANCELLED : tag == 8 ? SL_IO : SL_OK);
        assert_int_equal(result.error.status, result.status);
        if (tag == 7) assert_string_equal(result.error.message, "not this one");
        if (tag == 8)
            assert_string_equal(result.error.message, "a function: a read or write failed");
        if (result.status == SL_OK) assert_int_equal(buffer[tag * 64 + 63], tag % 2 * 16 + tag);
    }
    const sl_read beyond = {1, CALLED_BYTES, 64, buffer, 0}, crooked = {1, 0, 64, buffer + 8, 0};
    assert_int_equal(sl_reader_submit(reader, &beyond, &err), SL_IO);
    assert_int_equal(sl_reader_submit(reader, &crooked, &err), SL_INVALID);
    sl_reader_close(reader);
    free_buffer(buffer);
}

static void test_many_reads_beyond_the_depth(void **unused) {
    (void)unused;
    enum { READS = 300 };
    const char *const paths[] = {path_a, path_b};
    for (int k = 0; k < KINDS * 2; k++) {
        sl_reader *reader = open_reader(
            paths, 2,
            (sl_reader_options){.kind = kinds[k % KINDS], .depth = 5, .buffered = k >= 3});
        if (!reader) continue;
        assert_int_equal(sl_reader_alignment(reader), k >= KINDS ? 1 : direct_alignment());
        unsigned char *buffer = make_buffer((uint64_t)READS * 7 * BLOCK);
        bool seen[READS] = {0};
        for (uint32_t i = 0; i < READS; i++) submit(reader, plan_read(i, buffer));
        for (uint32_t i = 0; i < READS; i++) {
            const sl_read_result result = next(reader);
            assert_int_equal(result.status, SL_OK);
            assert_true(result.tag < READS && !seen[result.tag] && result.seconds >= 0);
            seen[result.tag] = true;
            const sl_read read = plan_read((uint32_t)result.tag, buffer);
            assert_read_matches(&read);
        }
        sl_read_result none;
        assert_int_equal(sl_reader_next(reader, &none, NULL), SL_INVALID);
        sl_reader_close(reader);
        free_buffer(buffer);
    }
}

typedef struct {
    sl_reader *reader;
    unsigned char *buffer;
    uint32_t count;
} submitter;

static void *submit_all(void *argument) {
    const submitter *job = argument;
    for (uint32_t i = 1; i < job->count; i++) {
        const sl_read read = plan_read(i, job->buffer);
        if (sl_reader_submit(job->reader, &read, NULL) != SL_OK) return argument;
    }
    return NULL;
}

static void test_submit_and_next_in_different_threads(void **unused) {
    (void)unused;
    const char *const paths[] = {path_a, path_b};
    for (int k = 0; k < KINDS; k++) {
        sl_reader *reader =
            open_reader(paths, 2, (sl_reader_options){.kind = kinds[k], .depth = 4});
        if (!reader) continue;
        submitter job = {reader, make_buffer(200 * 7 * BLOCK), 200};
        submit(reader, plan_read(0, job.buffer));
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, submit_all, &job), 0);
        for (uint32_t got = 0; got < job.count;) {
            sl_read_result result;
            const sl_status status = sl_reader_next(reader, &result, NULL);
            if (status == SL_INVALID) continue; /* faster than the submitter */
            assert_int_equal(status, SL_OK);
            assert_int_equal(result.status, SL_OK);
            const sl_read read = plan_read((uint32_t)result.tag, job.buffer);
            assert_read_matches(&read);
            got++;
        }
        void *failed = NULL;
        pthread_join(thread, &failed);
        assert_null(failed);
        sl_reader_close(reader);
        free_buffer(job.buffer);
    }
}

static void test_polling(void **unused) {
    (void)unused;
    const char *const paths[] = {path_a, path_b};
    for (int k = 0; k < KINDS; k++) {
        sl_reader *reader =
            open_reader(paths, 2, (sl_reader_options){.kind = kinds[k], .depth = 3});
        if (!reader) continue;
        unsigned char *buffer = make_buffer(50 * 7 * BLOCK);
        sl_read_result result;
        assert_false(sl_reader_poll(reader, &result));
        for (uint32_t i = 0; i < 50; i++) submit(reader, plan_read(i, buffer));
        for (uint32_t got = 0; got < 50;) {
            if (!sl_reader_poll(reader, &result)) continue;
            assert_int_equal(result.status, SL_OK);
            const sl_read read = plan_read((uint32_t)result.tag, buffer);
            assert_read_matches(&read);
            got++;
        }
        assert_false(sl_reader_poll(reader, &result));
        sl_reader_close(reader);
        free_buffer(buffer);
    }
}

static void test_tail_of_the_file(void **unused) {
    (void)unused;
    const char *const paths[] = {path_a};
    const uint64_t offset = FILE_BYTES / BLOCK * BLOCK;
    for (int k = 0; k < KINDS * 2; k++) {
        sl_reader *reader = open_reader(
            paths, 1, (sl_reader_options){.kind = kinds[k % KINDS], .buffered = k >= KINDS});
        if (!reader) continue;
        unsigned char *buffer = make_buffer(2 * BLOCK);
        submit(reader, (sl_read){.offset = offset - BLOCK,
                                 .bytes = FILE_BYTES - offset + BLOCK,
                                 .into = buffer});
        assert_int_equal(next(reader).status, SL_OK);
        assert_memory_equal(buffer, contents_a + offset - BLOCK, FILE_BYTES - offset + BLOCK);
        sl_reader_close(reader);
        free_buffer(buffer);
    }
}

static void test_refused_reads(void **unused) {
    (void)unused;
    const char *const paths[] = {path_a};
    sl_reader *reader = open_reader(paths, 1, (sl_reader_options){0});
    unsigned char *buffer = make_buffer(2 * BLOCK);
    const uint64_t offset = FILE_BYTES / BLOCK * BLOCK;
    char message[256];
    sl_error err = {0};
    const sl_read past = {.offset = offset, .bytes = FILE_BYTES - offset + 1, .into = buffer};
    assert_int_equal(sl_reader_submit(reader, &past, &err), SL_IO);
    (void)snprintf(message, sizeof message,
                   "%s: %d bytes wanted at offset %d, the file has %d bytes", path_a,
                   (int)past.bytes, (int)offset, FILE_BYTES);
    assert_string_equal(err.message, message);
    const sl_read wraps = {
        .offset = UINT64_MAX / BLOCK * BLOCK, .bytes = 2 * BLOCK, .into = buffer};
    assert_int_equal(sl_reader_submit(reader, &wraps, &err), SL_IO);
    const uint32_t alignment = sl_reader_alignment(reader);
    const sl_read askew = {.offset = 1, .bytes = 1, .into = buffer};
    assert_int_equal(sl_reader_submit(reader, &askew, &err), alignment > 1 ? SL_INVALID : SL_OK);
    const sl_read askew_into = {.bytes = 1, .into = buffer + 1};
    assert_int_equal(sl_reader_submit(reader, &askew_into, &err),
                     alignment > 1 ? SL_INVALID : SL_OK);
    const sl_read other_file = {.file = 1, .bytes = 1, .into = buffer};
    assert_int_equal(sl_reader_submit(reader, &other_file, &err), SL_INVALID);
    if (alignment > 1)
        assert_int_equal(sl_reader_next(reader, &(sl_read_result){0}, &err), SL_INVALID);
    sl_reader_close(reader);
    free_buffer(buffer);
}

/* The message has the size that the file has now, wherever the read stopped. */
static void expect_truncated(sl_reader_options options, const char *path, int left) {
    const char *const paths[] = {path};
    write_file(path, contents_a, 10 * BLOCK);
    sl_reader *reader = open_reader(paths, 1, options);
    if (!reader) return;
    assert_int_equal(truncate(path, left), 0);
    unsigned char *buffer = make_buffer(4 * BLOCK);
    submit(reader, (sl_read){.offset = 2 * BLOCK, .bytes = 4 * BLOCK, .into = buffer, .tag = 9});
    sl_read_result result;
    assert_int_equal(sl_reader_next(reader, &result, NULL), SL_OK);
    assert_int_equal(result.status, SL_IO);
    assert_int_equal(result.tag, 9);
    char message[256];
    (void)snprintf(message, sizeof message,
                   "%s: 16384 bytes wanted at offset 8192, the file has %d bytes", path, left);
    assert_string_equal(result.error.message, message);
    sl_reader_close(reader);
    free_buffer(buffer);
}

static void test_file_truncated_after_opening(void **unused) {
    (void)unused;
    static const int lefts[] = {3 * BLOCK + 5, 2 * BLOCK, BLOCK + 5, 0};
    char path[80];
    (void)snprintf(path, sizeof path, "%s/short", folder);
    for (int k = 0; k < KINDS * 2; k++)
        for (int i = 0; i < 4; i++)
            expect_truncated((sl_reader_options){.kind = kinds[k % KINDS], .buffered = k >= KINDS},
                             path, lefts[i]);
    unlink(path);
}

static void test_files_that_cannot_be_opened(void **unused) {
    (void)unused;
    char missing[80];
    (void)snprintf(missing, sizeof missing, "%s/missing", folder);
    for (int k = 0; k < KINDS; k++) {
        const sl_reader_options options = {.kind = kinds[k]};
        const char *const paths[] = {path_a, missing};
        sl_reader *reader = NULL;
        sl_error err = {0};
        assert_int_equal(sl_reader_open(paths, 2, &options, NULL, &reader, &err), SL_IO);
        assert_null(reader);
        assert_non_null(strstr(err.message, missing));
        assert_non_null(strstr(err.message, "No such file"));
        const char *const directory[] = {folder};
        assert_int_equal(sl_reader_open(directory, 1, &options, NULL, &reader, &err), SL_IO);
        assert_non_null(strstr(err.message, "not a regular file"));
    }
    const sl_reader_options deep = {.depth = 100000};
    sl_reader *reader = NULL;
    assert_int_equal(sl_reader_open(NULL, 0, &deep, NULL, &reader, NULL), SL_INVALID);
    sl_reader_close(NULL);
}

static void test_close_with_reads_in_flight(void **unused) {
    (void)unused;
    const char *const paths[] = {path_a, path_b};
    for (int k = 0; k < KINDS; k++) {
        for (int round = 0; round < 20; round++) {
            sl_reader *reader =
                open_reader(paths, 2, (sl_reader_options){.kind = kinds[k], .depth = 8});
            if (!reader) break;
            unsigned char *buffer = make_buffer(40 * 7 * BLOCK);
            for (uint32_t i = 0; i < 40; i++) submit(reader, plan_read(i, buffer));
            if (round % 2) assert_int_equal(next(reader).status, SL_OK);
            sl_reader_close(reader);
            free_buffer(buffer); /* the address sanitizer would detect a late read */
        }
    }
}

/* A file system in memory may not support direct reads; the bytes are the same. */
static void test_mixed_file_systems(void **unused) {
    (void)unused;
    if (access("/dev/shm", W_OK) != 0) {
        print_message("no /dev/shm\n");
        skip();
    }
    write_file(path_memory, contents_b, FILE_BYTES);
    const char *const paths[] = {path_a, path_memory};
    for (int k = 0; k < KINDS; k++) {
        sl_reader *reader = open_reader(paths, 2, (sl_reader_options){.kind = kinds[k]});
        if (!reader) continue;
        assert_true(sl_reader_alignment(reader) >= direct_alignment());
        unsigned char *buffer = make_buffer(50 * 7 * BLOCK);
        for (uint32_t i = 0; i < 50; i++) submit(reader, plan_read(i, buffer));
        for (uint32_t i = 0; i < 50; i++) assert_int_equal(next(reader).status, SL_OK);
        for (uint32_t i = 0; i < 50; i++) {
            const sl_read read = plan_read(i, buffer);
            assert_read_matches(&read);
        }
        sl_reader_close(reader);
        free_buffer(buffer);
    }
    unlink(path_memory);
}

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    int *left = ctx;
    if (new_bytes && (*left)-- <= 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_out_of_memory(void **unused) {
    (void)unused;
    const char *const paths[] = {path_a};
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k] == SL_READER_URING && !has_liburing) continue; /* allocates nothing */
        for (int allowed = 0; allowed < 2; allowed++) {
            int left = allowed;
            const sl_allocator allocator = {failing_resize, &left};
            sl_reader *reader = NULL;
            const sl_reader_options options = {.kind = kinds[k]};
            assert_int_equal(sl_reader_open(paths, 1, &options, &allocator, &reader, NULL),
                             SL_NO_MEMORY);
            assert_null(reader);
        }
    }
}

/* Reads everything through a simulated disk; returns the order of completion as a hash. */
static uint64_t read_simulated(sl_reader *reader, uint64_t *out_failed) {
    enum { READS = 60 };
    unsigned char *buffer = make_buffer(READS * 7 * BLOCK);
    uint64_t order = 0;
    *out_failed = 0;
    for (uint32_t i = 0; i < READS; i++) submit(reader, plan_read(i, buffer));
    for (uint32_t i = 0; i < READS; i++) {
        sl_read_result result;
        assert_int_equal(sl_reader_next(reader, &result, NULL), SL_OK);
        order = order * 31 + result.tag;
        const sl_read read = plan_read((uint32_t)result.tag, buffer);
        if (result.status == SL_OK)
            assert_read_matches(&read);
        else
            (*out_failed)++;
    }
    assert_int_equal(sl_reader_next(reader, &(sl_read_result){0}, NULL), SL_INVALID);
    free_buffer(buffer);
    return order;
}

static sl_reader *open_simulated(sl_simulated_options options) {
    const sl_simulated_file files[] = {{"disk/a", contents_a, FILE_BYTES},
                                       {"disk/b", contents_b, FILE_BYTES}};
    sl_reader *reader = NULL;
    assert_int_equal(sl_simulated_open(files, 2, &options, NULL, &reader, NULL), SL_OK);
    return reader;
}

static void test_simulated_short_and_repeated_reads(void **unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 20; seed++) {
        sl_reader *reader = open_simulated((sl_simulated_options){
            .seed = seed, .short_share = 0.7, .repeat_share = 0.3, .buffered = seed % 2});
        assert_int_equal(sl_reader_alignment(reader), seed % 2 ? 1 : BLOCK);
        uint64_t failed = 0;
        (void)read_simulated(reader, &failed);
        assert_int_equal(failed, 0);
        assert_true(sl_simulated_count(reader, 0, 0, UINT64_MAX).attempts > 90);
        sl_reader_close(reader);
    }
}

static void test_simulated_order_follows_the_seed(void **unused) {
    (void)unused;
    uint64_t order[3], failed = 0;
    for (int i = 0; i < 3; i++) {
        sl_reader *reader =
            open_simulated((sl_simulated_options){.seed = i == 2 ? 8 : 7, .reorder = 10});
        order[i] = read_simulated(reader, &failed);
        assert_true(sl_simulated_count(reader, 0, 0, UINT64_MAX).overtaken > 10);
        sl_reader_close(reader);
    }
    assert_true(order[0] == order[1] && order[0] != order[2]);
}

static void test_simulated_errors_and_counts(void **unused) {
    (void)unused;
    sl_reader *reader = open_simulated((sl_simulated_options){.seed = 3, .reorder = 4});
    const sl_read chosen = plan_read(8, NULL);
    sl_simulated_fail(reader, chosen.file, chosen.offset, 1, 1);
    uint64_t failed = 0;
    (void)read_simulated(reader, &failed);
    assert_int_equal(failed, 1);
    (void)read_simulated(reader, &failed);
    assert_int_equal(failed, 0);
    uint64_t reads = 0, bytes = 0;
    for (uint32_t i = 0; i < 60; i += 2) {
        reads += 2;
        bytes += 2 * plan_read(i, NULL).bytes;
    }
    const sl_simulated_counts all = sl_simulated_count(reader, 0, 0, UINT64_MAX);
    assert_int_equal(all.reads, reads);
    assert_int_equal(all.bytes, bytes);
    assert_true(sl_simulated_count(reader, 0, chosen.offset, 1).reads >= 2);

    unsigned char *buffer = make_buffer(BLOCK);
    sl_simulated_fail(reader, 1, 0, BLOCK, 1);
    submit(reader, (sl_read){.file = 1, .bytes = BLOCK, .into = buffer});
    sl_read_result result;
    assert_int_equal(sl_reader_next(reader, &result, NULL), SL_OK);
    assert_string_equal(result.error.message,
                        "disk/b: reading 4096 bytes at offset 0: Input/output error");
    sl_simulated_truncate(reader, 1, 100);
    submit(reader, (sl_read){.file = 1, .bytes = BLOCK, .into = buffer});
    assert_int_equal(sl_reader_next(reader, &result, NULL), SL_OK);
    assert_string_equal(result.error.message,
                        "disk/b: 4096 bytes wanted at offset 0, the file has 100 bytes");
    free_buffer(buffer);
    sl_reader_close(reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_liburing),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_many_reads_beyond_the_depth),
        cmocka_unit_test(test_submit_and_next_in_different_threads),
        cmocka_unit_test(test_polling),
        cmocka_unit_test(test_tail_of_the_file),
        cmocka_unit_test(test_refused_reads),
        cmocka_unit_test(test_file_truncated_after_opening),
        cmocka_unit_test(test_files_that_cannot_be_opened),
        cmocka_unit_test(test_close_with_reads_in_flight),
        cmocka_unit_test(test_mixed_file_systems),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_simulated_short_and_repeated_reads),
        cmocka_unit_test(test_simulated_order_follows_the_seed),
        cmocka_unit_test(test_simulated_errors_and_counts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
