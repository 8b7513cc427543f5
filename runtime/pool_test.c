#include "runtime/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static sl_pool *new_pool(void) {
    sl_pool *pool = NULL;
    sl_error err = {0};
    assert_int_equal(sl_pool_create(NULL, &pool, &err), SL_OK);
    return pool;
}

static sl_buffer_id add(sl_pool *pool, const char *label, uint64_t bytes, uint64_t alignment,
                        bool persistent) {
    sl_buffer_id id = {UINT32_MAX};
    sl_error err = {0};
    const sl_pool_buffer what = {label, bytes, alignment, persistent, false};
    if (sl_pool_add(pool, &what, &id, &err)) fail_msg("%s", err.message);
    return id;
}

static void test_alignment(void **state) {
    (void)state;
    sl_pool *pool = new_pool();
    uint64_t bytes = 0;
    for (uint64_t alignment = 1; alignment <= 2 << 20; alignment *= 2) {
        const sl_buffer_id id = add(pool, "x", 100 + alignment % 7, alignment, false);
        const char *data = sl_pool_data(pool, id);
        bytes += 100 + alignment % 7;
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % alignment, 0);
        for (uint64_t i = 0; i < 100 + alignment % 7; i++) assert_int_equal(data[i], 0);
        assert_int_equal(sl_pool_info(pool, id)->alignment, alignment);
    }
    assert_int_equal(sl_pool_count(pool), 22);
    assert_int_equal(sl_pool_bytes(pool), bytes);
    static const uint64_t wrong[] = {0, 3, 96, 4 << 20};
    for (int i = 0; i < 4; i++) {
        const sl_pool_buffer what = {"odd", 8, wrong[i], false, false};
        sl_buffer_id id;
        sl_error err = {0};
        assert_int_equal(sl_pool_add(pool, &what, &id, &err), SL_INVALID);
        assert_non_null(strstr(err.message, "'odd': alignment"));
    }
    assert_int_equal(sl_pool_count(pool), 22);
    sl_pool_destroy(pool);
}

static void test_upload_and_download(void **state) {
    (void)state;
    sl_pool *pool = new_pool();
    sl_error err = {0};
    const sl_buffer_id id = add(pool, "cache", 8, 64, false);
    assert_int_equal(sl_pool_upload(pool, id, 0, "abc", 3, &err), SL_OK);
    assert_int_equal(sl_pool_upload(pool, id, 6, "yz", 2, &err), SL_OK);
    assert_int_equal(sl_pool_upload(pool, id, 8, NULL, 0, &err), SL_OK);
    char back[8] = "????????";
    assert_int_equal(sl_pool_download(pool, id, back, 2, &err), SL_OK);
    assert_memory_equal(back, "ab??????", 8); /* a prefix, and no more */
    assert_int_equal(sl_pool_download(pool, id, back, 8, &err), SL_OK);
    assert_memory_equal(back, "abc\0\0\0yz", 8);
    static const uint64_t wrong[][2] = {{0, 9}, {7, 2}, {9, 0}, {UINT64_MAX, 2}, {2, UINT64_MAX}};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sl_pool_upload(pool, id, wrong[i][0], "0123456789", wrong[i][1], &err),
                         SL_INVALID);
        char sizes[64];
        (void)snprintf(sizes, sizeof sizes, "%llu bytes at", (unsigned long long)wrong[i][1]);
        assert_non_null(strstr(err.message, "'cache'"));
        assert_non_null(strstr(err.message, sizes));
        assert_non_null(strstr(err.message, "it has 8"));
    }
    assert_int_equal(sl_pool_download(pool, id, back, 9, &err), SL_INVALID);
    assert_int_equal(sl_pool_download(pool, id, back, 8, &err), SL_OK);
    assert_memory_equal(back, "abc\0\0\0yz", 8); /* refused uploads changed nothing */
    assert_int_equal(sl_pool_upload(pool, (sl_buffer_id){99}, 0, "a", 1, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "99"));
    sl_pool_destroy(pool);
}

static void test_borrowed(void **state) {
    (void)state;
    sl_pool *pool = new_pool();
    sl_error err = {0};
    char mine[16] = "weights";
    sl_buffer_id id;
    assert_int_equal(sl_pool_borrow(pool, "mapped", mine, sizeof mine, &id, &err), SL_OK);
    assert_ptr_equal(sl_pool_data(pool, id), mine);
    assert_true(sl_pool_info(pool, id)->borrowed);
    assert_int_equal(sl_pool_bytes(pool), 0);
    assert_int_equal(sl_pool_count(pool), 1);
    assert_int_equal(sl_pool_upload(pool, id, 0, "W", 1, &err), SL_OK);
    sl_pool_reset(pool);
    assert_ptr_equal(sl_pool_data(pool, id), mine);
    assert_int_equal(sl_pool_borrow(pool, "nothing", NULL, 4, &id, &err), SL_INVALID);
    const sl_pool_buffer what = {"mapped", 4, 4, false, true};
    assert_int_equal(sl_pool_add(pool, &what, &id, &err), SL_INVALID);
    sl_pool_destroy(pool);
    assert_string_equal(mine, "Weights");
}

/* Resetting again and again: what persists stays, ids of the others never come back. */
static void test_reset(void **state) {
    (void)state;
    sl_pool *pool = new_pool();
    sl_error err = {0};
    char label[] = "kept";
    const sl_buffer_id kept = add(pool, label, 32, 16, true);
    label[0] = '?'; /* labels are copied */
    assert_int_equal(sl_pool_upload(pool, kept, 0, "stays", 6, &err), SL_OK);
    uint32_t last = kept.v;
    for (int round = 0; round < 50; round++) {
        sl_buffer_id ids[40];
        for (int i = 0; i < 40; i++) {
            ids[i] = add(pool, "passing", (uint64_t)i + 1, 64, false);
            assert_true(ids[i].v > last);
            last = ids[i].v;
        }
        assert_int_equal(sl_pool_count(pool), 41);
        sl_pool_reset(pool);
        for (int i = 0; i < 40; i++) {
            assert_null(sl_pool_data(pool, ids[i]));
            assert_null(sl_pool_info(pool, ids[i]));
        }
        assert_int_equal(sl_pool_count(pool), 1);
        assert_int_equal(sl_pool_bytes(pool), 32);
        assert_string_equal(sl_pool_data(pool, kept), "stays");
        assert_string_equal(sl_pool_info(pool, kept)->label, "kept");
    }
    sl_pool_destroy(pool);
    sl_pool_destroy(NULL);
}

typedef struct {
    int left;
    int64_t live;
} failing;

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    failing *f = ctx;
    if (new_bytes && f->left-- <= 0) return NULL;
    f->live += (int64_t)new_bytes - (int64_t)(ptr ? old_bytes : 0);
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

/* Each allocation fails in turn: an error, nothing leaks, the pool stays as it was. */
static void test_no_memory(void **state) {
    (void)state;
    bool complete = false;
    for (int n = 0; !complete; n++) {
        failing f = {.left = n};
        const sl_allocator allocator = {failing_resize, &f};
        sl_error err = {0};
        sl_pool *pool = NULL;
        sl_status status = sl_pool_create(&allocator, &pool, &err);
        for (uint32_t i = 0; i < 20 && status == SL_OK; i++) {
            const sl_pool_buffer what = {"x", 10, 128, i % 2, false};
            sl_buffer_id id;
            status = sl_pool_add(pool, &what, &id, &err);
            assert_int_equal(sl_pool_count(pool), i + (status == SL_OK));
            assert_int_equal(sl_pool_bytes(pool), 10 * (i + (status == SL_OK)));
        }
        complete = status == SL_OK;
        if (!complete) assert_int_equal(status, SL_NO_MEMORY);
        sl_pool_destroy(pool);
        assert_int_equal(f.live, 0);
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment), cmocka_unit_test(test_upload_and_download),
        cmocka_unit_test(test_borrowed),  cmocka_unit_test(test_reset),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
