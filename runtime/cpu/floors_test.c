/* floors_test.c - The floors are plausible, and the loops do the work that they report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/cpu/floors.h"
#include "runtime/cpu/kernel_set.h"
#include "sluice/inspect.h"
#include <math.h>

static const char *const isas[] = {SL_ISA_NAMES};

static void test_floors(void **state) {
    (void)state;
    sl_floors floors = {.struct_size = sizeof floors};
    sl_error err;
    assert_int_equal(sl_measure_floors(2, &floors, &err), SL_OK);
    assert_int_equal(floors.threads, 2);
    for (int i = 0; i < 2; i++) {
        /* Limits that hold for any machine, also under a sanitizer. */
        assert_true(floors.read_bytes_per_second[i] > 1e7);
        assert_true(floors.read_bytes_per_second[i] < 1e13);
        assert_true(floors.f32_operations_per_second[i] > 1e7);
        assert_true(floors.f32_operations_per_second[i] < 1e13);
        assert_true(floors.int8_operations_per_second[i] > 1e7);
        assert_true(floors.int8_operations_per_second[i] < 1e14);
        assert_true(floors.median_read_bytes_per_second[i] <= floors.read_bytes_per_second[i]);
        assert_true(floors.median_f32_operations_per_second[i] > 1e7);
        assert_true(floors.median_int8_operations_per_second[i] > 1e7);
    }
    assert_true(floors.block_bytes >= 60 << 20 && floors.block_bytes <= (1 << 30) + (2 << 20));
    assert_true(floors.core_share > 0 && floors.core_share <= 1);
}

static void test_one_thread(void **state) {
    (void)state;
    sl_floors floors = {.struct_size = sizeof floors};
    sl_error err;
    assert_int_equal(sl_measure_floors(1, &floors, &err), SL_OK);
    assert_int_equal(floors.threads, 1);
    assert_true(floors.read_bytes_per_second[1] == floors.read_bytes_per_second[0]);
    assert_true(floors.int8_operations_per_second[1] == floors.int8_operations_per_second[0]);
}

/* Every cache line of the block is read once. */
static void test_read_loop(void **state) {
    (void)state;
    enum { WORDS = 4 * 64 };
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (!set) continue;
        _Alignas(64) uint32_t block[WORDS];
        for (int w = 0; w < WORDS; w++) block[w] = 1;
        for (int w = 0; w < WORDS; w += 16) {
            const float before = set->read(block, sizeof block);
            block[w] += 1000;
            assert_true(set->read(block, sizeof block) == before + 1000);
        }
    }
}

static void test_fma_loop(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        uint64_t one, many;
        if (!set) continue;
        /* Every accumulator converges to 1; there are operations / 2 elements. */
        (void)set->fma(1, &one);
        const float sum = set->fma(100000, &many);
        assert_int_equal(many, 100000 * one);
        assert_true(fabsf(sum - (float)one / 2) < 0.01f * (float)one);
    }
}

/* Every product is 1. */
static void test_dot_loop(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        uint64_t one, many;
        if (!set) continue;
        assert_true(set->dot(1, &one) == (float)one / 2);
        assert_true(set->dot(1000, &many) == (float)many / 2);
        assert_int_equal(many, 1000 * one);
    }
}

static void test_block_leaves_memory(void **state) {
    (void)state;
    for (uint64_t available = 1 << 20; available < UINT64_C(1) << 40; available += available / 7) {
        const uint64_t bytes = sl_floors_block_bytes(available);
        assert_true(bytes <= available / 2);
        if (available >= 32 << 20) assert_true(bytes >= 8 << 20);
    }
    assert_true(sl_floors_block_bytes(0) >= 64 << 20);
    assert_int_equal(sl_floors_block_bytes(1 << 20), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floors),    cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_read_loop), cmocka_unit_test(test_fma_loop),
        cmocka_unit_test(test_dot_loop),  cmocka_unit_test(test_block_leaves_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
