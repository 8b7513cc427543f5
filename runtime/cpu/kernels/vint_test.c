/* vint_test.c - vdot_* and vdot_s16 against plain C: all pairs of extreme bytes, and random
 * values. */
#include "runtime/cpu/kernel_set.h"
#include "runtime/cpu/kernels/vint.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

static uint64_t seed = 0x2545f4914f6cdd1d;
static uint32_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}

typedef enum { U8, U7, S8 } kind;

/* A random weight of the kind, often at an end of its range. */
static uint8_t weight_byte(kind k) {
    static const uint8_t ends[] = {0, 1, 127, 128, 129, 254, 255, 255};
    const uint8_t byte = next() % 2 ? (uint8_t)next() : ends[next() % sizeof ends];
    return k == U7 ? byte & 127 : byte;
}
static int8_t activation_byte(void) {
    static const int8_t ends[] = {-127, -126, -1, 0, 1, 126, 127, 127};
    return next() % 2 ? (int8_t)((int)(next() % 255) - 127) : ends[next() % sizeof ends];
}

static vi dot(kind k, vi acc, vu weights, int32_t activations) {
    return k == U8   ? vdot_u8(acc, weights, activations)
           : k == U7 ? vdot_u7(acc, weights, activations)
                     : vdot_s8(acc, weights, activations);
}

static void compare(kind k, const uint8_t weights[LANES * 4], const int8_t activations[4]) {
    int32_t before[LANES], after[LANES];
    for (int i = 0; i < LANES; i++) before[i] = (int32_t)next() / 2;
    int32_t word;
    memcpy(&word, activations, sizeof word);
    vi acc;
    memcpy(&acc, before, sizeof acc);
    acc = dot(k, acc, vload_u32(weights), word);
    memcpy(after, &acc, sizeof after);
    for (int lane = 0; lane < LANES; lane++) {
        int sum = 0;
        for (int i = 0; i < 4; i++) {
            const uint8_t byte = weights[lane * 4 + i];
            sum += (k == S8 ? (int8_t)byte : byte) * activations[i];
        }
        if (after[lane] != before[lane] + sum)
            fail_msg("kind %d, lane %d: weights %d %d %d %d, activations %d %d %d %d give %d, "
                     "wanted %d",
                     (int)k, lane, weights[lane * 4], weights[lane * 4 + 1], weights[lane * 4 + 2],
                     weights[lane * 4 + 3], activations[0], activations[1], activations[2],
                     activations[3], after[lane] - before[lane], sum);
    }
}

/* Every pair of bytes, repeated in all four positions: nothing may saturate. */
static void test_all_pairs(void **state) {
    (void)state;
    for (int k = U8; k <= S8; k++)
        for (int w = 0; w < (k == U7 ? 128 : 256); w++)
            for (int a = -127; a <= 127; a++) {
                uint8_t weights[LANES * 4];
                const int8_t activations[4] = {(int8_t)a, (int8_t)a, (int8_t)a, (int8_t)a};
                memset(weights, w, sizeof weights);
                compare((kind)k, weights, activations);
            }
}

static void test_mixed(void **state) {
    (void)state;
    for (int n = 0; n < 60000; n++) {
        const kind k = (kind)(n % 3);
        uint8_t weights[LANES * 4];
        int8_t activations[4];
        for (int i = 0; i < LANES * 4; i++) weights[i] = weight_byte(k);
        for (int i = 0; i < 4; i++) activations[i] = activation_byte();
        compare(k, weights, activations);
    }
}

/* A random 16-bit value except -32768, often at an end of the range. */
static int16_t half_word(void) {
    static const int16_t ends[] = {-32767, -32766, -1, 0, 1, 32766, 32767, 32767};
    return next() % 2 ? (int16_t)((int)(next() % 65535) - 32767) : ends[next() % 8];
}

static void test_halves(void **state) {
    (void)state;
    for (int n = 0; n < 60000; n++) {
        int16_t pairs[LANES * 2], stored[LANES];
        const int16_t pair[2] = {half_word(), half_word()};
        int32_t before[LANES], after[LANES], word, large[LANES];
        for (int i = 0; i < LANES * 2; i++) pairs[i] = half_word();
        for (int i = 0; i < LANES; i++) before[i] = half_word(), large[i] = half_word() * 3;
        memcpy(&word, pair, sizeof word);
        vi acc, wide;
        memcpy(&acc, before, sizeof acc), memcpy(&wide, large, sizeof wide);
        acc = vdot_s16(acc, vload_u32(pairs), word);
        memcpy(after, &acc, sizeof after);
        vstore_i16(stored, wide);
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t sum = before[lane] + pairs[lane * 2] * (int64_t)pair[0] +
                                pairs[lane * 2 + 1] * (int64_t)pair[1];
            if (sum >= INT32_MIN && sum <= INT32_MAX) assert_int_equal(after[lane], sum);
            const int32_t wanted = large[lane] > INT16_MAX   ? INT16_MAX
                                   : large[lane] < INT16_MIN ? INT16_MIN
                                                             : large[lane];
            assert_int_equal(stored[lane], wanted);
        }
    }
}

static void test_lookup(void **state) {
    (void)state;
    for (int n = 0; n < 1000; n++) {
        int8_t table[16];
        uint8_t indices[LANES * 4], found[LANES * 4];
        for (int i = 0; i < 16; i++) table[i] = (int8_t)next();
        for (int i = 0; i < LANES * 4; i++) indices[i] = (uint8_t)(next() % 16);
        const vu all = vlookup(table, vload_u32(indices));
        memcpy(found, &all, sizeof found);
        for (int i = 0; i < LANES * 4; i++) assert_int_equal(found[i], (uint8_t)table[indices[i]]);
    }
}

/* `plain` is portable C and runs anywhere. */
static bool runs_here(const char *isa) {
    return strcmp(isa, "plain") == 0 || sl_cpu_kernel_set(isa);
}

int main(void) {
    if (!runs_here(TEXT(SL_ISA))) {
        print_message("this machine has no %s\n", TEXT(SL_ISA));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pairs),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
