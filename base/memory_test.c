#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/memory.h"
#include <stdbool.h>
#include <string.h>

/* Counts the bytes that are allocated, and fails when the countdown reaches zero. */
typedef struct {
    size_t held_bytes;
    int left; /* allocations that still succeed; -1: all */
} meter;

static void *metered_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    meter *m = ctx;
    if (new_bytes && m->left == 0) return NULL;
    if (new_bytes && m->left > 0) m->left--;
    void *fresh = sl_resize(NULL, ptr, old_bytes, new_bytes, align);
    if (fresh || new_bytes == 0) m->held_bytes += new_bytes - old_bytes;
    return fresh;
}

static bool all_zero(const unsigned char *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (data[i]) return false;
    return true;
}

static void test_allocate_and_resize(void **unused) {
    (void)unused;
    meter m = {.left = -1};
    const sl_allocator allocator = {metered_resize, &m};
    for (size_t align = 1; align <= 65536; align *= 2) {
        unsigned char *block = sl_allocate(&allocator, 100, align);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % align, 0);
        assert_true(all_zero(block, 100));
        for (unsigned char i = 0; i < 100; i++) block[i] = i;
        block = sl_resize(&allocator, block, 100, 5000, align);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % align, 0);
        for (unsigned char i = 0; i < 100; i++) assert_int_equal(block[i], i);
        assert_int_equal(m.held_bytes, 5000);
        sl_release(&allocator, block, 5000, align);
        assert_int_equal(m.held_bytes, 0);
    }
    sl_release(&allocator, NULL, 7, 1);
    assert_int_equal(m.held_bytes, 0);
}

/* Large blocks are aligned to huge pages, and keep their contents when they grow or shrink. */
static void test_large_blocks(void **unused) {
    (void)unused;
    const size_t huge = 2 << 20, large = 5 * huge + 12345;
    unsigned char *block = sl_allocate(NULL, large, 8);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % huge, 0);
    assert_true(all_zero(block, large));
    for (size_t i = 0; i < large; i += 4096) block[i] = (unsigned char)(i >> 12);
    block = sl_resize(NULL, block, large, 2 * large, 8);
    assert_non_null(block);
    block = sl_resize(NULL, block, 2 * large, large / 2, 64);
    assert_non_null(block);
    for (size_t i = 0; i < large / 2; i += 4096)
        assert_int_equal(block[i], (unsigned char)(i >> 12));
    sl_release(NULL, block, large / 2, 64);
}

static void test_default_allocator(void **unused) {
    (void)unused;
    const sl_allocator none = {0};
    assert_ptr_equal(sl_allocator_or_default(NULL), sl_allocator_or_default(&none));
    meter m = {.left = -1};
    const sl_allocator allocator = {metered_resize, &m};
    assert_ptr_equal(sl_allocator_or_default(&allocator), &allocator);
}

static void test_arena_alignment(void **unused) {
    (void)unused;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    for (size_t align = 1; align <= 16384; align *= 2) {
        for (size_t bytes = 0; bytes < 200; bytes += 33) {
            unsigned char *block = sl_arena_alloc(&arena, bytes, align);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % align, 0);
            assert_true(all_zero(block, bytes));
            memset(block, 0xff, bytes); /* an overlapping block would not be zero */
        }
    }
    sl_arena_deinit(&arena);
}

static void test_arena_grows_and_releases_everything(void **unused) {
    (void)unused;
    meter m = {.left = -1};
    const sl_allocator allocator = {metered_resize, &m};
    sl_arena arena;
    sl_arena_init(&arena, &allocator);
    unsigned char *blocks[400];
    size_t total = 0;
    for (size_t i = 0; i < 400; i++) {
        const size_t bytes = 1 + i * 37;
        blocks[i] = sl_arena_alloc(&arena, bytes, 8);
        assert_non_null(blocks[i]);
        memset(blocks[i], (int)(i % 251), bytes);
        total += bytes;
    }
    unsigned char *large = sl_arena_alloc(&arena, 5 << 20, 64);
    assert_non_null(large);
    for (size_t i = 0; i < 400; i++) {
        assert_int_equal(blocks[i][0], i % 251);
        assert_int_equal(blocks[i][i * 37], i % 251);
    }
    total += 5 << 20;
    assert_true(arena.used_bytes >= total && arena.used_bytes <= total + 400 * 8 + 64);
    assert_true(m.held_bytes >= total);
    sl_arena_deinit(&arena);
    assert_int_equal(m.held_bytes, 0);
    assert_int_equal(arena.used_bytes, 0);
}

static void test_arena_overflow(void **unused) {
    (void)unused;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    assert_null(sl_arena_array(&arena, SIZE_MAX / 2, 3, 8));
    assert_null(sl_arena_array(&arena, SIZE_MAX, SIZE_MAX, 8));
    assert_null(sl_arena_alloc(&arena, SIZE_MAX, 8));
    assert_null(sl_arena_alloc(&arena, SIZE_MAX / 2 + 1, 8));
    assert_non_null(SL_ARENA_NEW_ARRAY(&arena, uint64_t, 0));
    uint64_t *numbers = SL_ARENA_NEW_ARRAY(&arena, uint64_t, 1000);
    assert_non_null(numbers);
    assert_true(all_zero((unsigned char *)numbers, 8000));
    sl_arena_deinit(&arena);
}

static void test_arena_text(void **unused) {
    (void)unused;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    assert_string_equal(sl_arena_copy_text(&arena, "expert and more", 6), "expert");
    assert_string_equal(sl_arena_copy_text(&arena, NULL, 0), "");
    assert_string_equal(sl_arena_format(&arena, "layer %d of %s", 3, "fable"), "layer 3 of fable");
    const char *wide = sl_arena_format(&arena, "%10000d", 7);
    assert_int_equal(strlen(wide), 10000);
    sl_arena_deinit(&arena);
}

static void test_arena_out_of_memory(void **unused) {
    (void)unused;
    meter m = {.left = 1};
    const sl_allocator allocator = {metered_resize, &m};
    sl_arena arena;
    sl_arena_init(&arena, &allocator);
    char *first = sl_arena_copy_text(&arena, "kept", 4);
    assert_non_null(first);
    assert_null(sl_arena_alloc(&arena, 100000, 8));
    assert_null(sl_arena_format(&arena, "%100000d", 1));
    assert_string_equal(first, "kept");
    assert_non_null(sl_arena_alloc(&arena, 16, 8)); /* the first block still has room */
    sl_arena_deinit(&arena);
    assert_int_equal(m.held_bytes, 0);
    m.left = 0;
    assert_null(sl_allocate(&allocator, 8, 8));
    sl_error err = {0};
    assert_int_equal(sl_no_memory(&err, "a plan", 12345), SL_NO_MEMORY);
    assert_string_equal(err.message, "no memory for a plan (12345 bytes)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocate_and_resize),
        cmocka_unit_test(test_large_blocks),
        cmocka_unit_test(test_default_allocator),
        cmocka_unit_test(test_arena_alignment),
        cmocka_unit_test(test_arena_grows_and_releases_everything),
        cmocka_unit_test(test_arena_overflow),
        cmocka_unit_test(test_arena_text),
        cmocka_unit_test(test_arena_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
