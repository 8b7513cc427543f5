/* overlap_test.c - Overlap of strided accesses against marking every byte. */
#include "tests/support/overlap.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SPACE = 512 };

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void mark(const sl_access *access, bool *bytes) {
    memset(bytes, 0, SPACE);
    for (uint32_t run = 0; run < access->count; run++)
        for (uint64_t i = 0; i < access->bytes; i++)
            bytes[access->begin + run * access->stride + i] = true;
}

static bool overlap_by_bytes(const sl_access *a, const sl_access *b) {
    bool x[SPACE], y[SPACE];
    mark(a, x);
    mark(b, y);
    for (int i = 0; i < SPACE; i++)
        if (x[i] && y[i]) return true;
    return false;
}

static sl_access random_access(uint32_t *seed) {
    sl_access access = {.begin = next_random(seed) % 64,
                        .bytes = 1 + next_random(seed) % 8,
                        .count = 1 + next_random(seed) % 12};
    access.stride = access.bytes + next_random(seed) % 24;
    return access;
}

static void overlap_is_exact(void **state) {
    (void)state;
    uint32_t seed = 1, overlaps = 0;
    for (int i = 0; i < 50000; i++) {
        const sl_access a = random_access(&seed), b = random_access(&seed);
        const bool wanted = overlap_by_bytes(&a, &b);
        assert_int_equal(sl_access_overlap(&a, &b), wanted);
        assert_int_equal(sl_access_overlap(&b, &a), wanted);
        overlaps += wanted;
    }
    assert_in_range(overlaps, 5000, 45000);
}

static void touching_is_not_overlapping(void **state) {
    (void)state;
    const sl_access left = sl_access_range((sl_buffer_id){0}, 0, 64);
    const sl_access right = sl_access_range((sl_buffer_id){0}, 64, 128);
    const sl_access both = sl_access_range((sl_buffer_id){0}, 63, 65);
    assert_false(sl_access_overlap(&left, &right));
    assert_false(sl_access_overlap(&right, &left));
    assert_true(sl_access_overlap(&left, &both));
    assert_true(sl_access_overlap(&right, &both));
}

/* The left and the right half of every row of a matrix. */
static void column_blocks_interleave(void **state) {
    (void)state;
    const sl_access left = {.begin = 0, .bytes = 16, .stride = 32, .count = 1u << 20};
    sl_access right = left;
    right.begin = 16;
    assert_false(sl_access_overlap(&left, &right));
    right.begin = 15;
    assert_true(sl_access_overlap(&left, &right));
    right.begin = 16;
    right.stride = 33;
    assert_true(sl_access_overlap(&left, &right));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_is_exact),
        cmocka_unit_test(touching_is_not_overlapping),
        cmocka_unit_test(column_blocks_interleave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
