#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/experts/policy.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 5, EXPERTS = 16, KEYS = LAYERS * EXPERTS };

static float memory[KEYS + LAYERS];

static sl_expert_policy fresh_policy(void) {
    assert_true(sl_expert_policy_bytes(LAYERS, EXPERTS) <= sizeof memory);
    sl_expert_policy policy;
    sl_expert_policy_init(&policy, LAYERS, EXPERTS, memory);
    return policy;
}

static void use(sl_expert_policy *policy, uint32_t layer, uint32_t expert) {
    sl_expert_policy_begin(policy, layer);
    sl_expert_policy_use(policy, layer, expert);
}

static void test_distance_is_what_it_says(void **unused) {
    (void)unused;
    sl_expert_policy policy = fresh_policy();
    for (int request = 0; request < 5000; request++)
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            sl_expert_policy_begin(&policy, layer);
            sl_expert_policy_use(&policy, layer, 0);
            if (request % 4 == 0) sl_expert_policy_use(&policy, layer, 1);
        }
    /* Expert 0 in every request, expert 1 in every fourth; layer 2 comes three after layer 4. */
    const float always = sl_expert_policy_distance(&policy, 2 * EXPERTS, 4);
    const float sometimes = sl_expert_policy_distance(&policy, 2 * EXPERTS + 1, 4);
    assert_true(always > LAYERS * 0.97F + 3 && always < LAYERS * 1.03F + 3);
    assert_true(sometimes > LAYERS * 3.8F + 3 && sometimes < LAYERS * 4.2F + 3);
    const float never = sl_expert_policy_distance(&policy, 2 * EXPERTS + 2, 4);
    assert_true(never > 1e29F);
}

static void test_old_fame_fades(void **unused) {
    (void)unused;
    sl_expert_policy policy = fresh_policy();
    for (int i = 0; i < 200; i++) use(&policy, 1, 3);
    for (int i = 0; i < 20; i++) use(&policy, 1, 4);
    assert_true(sl_expert_policy_distance(&policy, EXPERTS + 3, 0) <
                sl_expert_policy_distance(&policy, EXPERTS + 4, 0));
    for (int i = 0; i < 200; i++) use(&policy, 1, 4);
    assert_true(sl_expert_policy_distance(&policy, EXPERTS + 3, 0) >
                sl_expert_policy_distance(&policy, EXPERTS + 4, 0));
}

static void test_the_layer_just_passed_is_farthest(void **unused) {
    (void)unused;
    sl_expert_policy policy = fresh_policy();
    for (uint32_t layer = 0; layer < LAYERS; layer++) use(&policy, layer, 7);
    for (uint32_t now = 0; now < LAYERS; now++)
        for (uint32_t ahead = 1; ahead < LAYERS; ahead++) {
            const uint32_t near = (now + ahead) % LAYERS, far = (now + ahead + 1) % LAYERS;
            assert_true(sl_expert_policy_distance(&policy, near * EXPERTS + 7, now) <
                        sl_expert_policy_distance(&policy, far * EXPERTS + 7, now));
        }
}

/* Every expert of every layer in turn, as in prefill: what was used last must go, or nothing of
 * what stays is ever used.  Returns hits in the last pass. */
static uint32_t scan(uint32_t slots) {
    sl_expert_policy policy = fresh_policy();
    bool in[KEYS] = {0};
    uint32_t count = 0, hits = 0;
    for (int pass = 0; pass < 4; pass++) {
        hits = 0;
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            sl_expert_policy_begin(&policy, layer);
            for (uint32_t e = 0; e < EXPERTS; e++) sl_expert_policy_use(&policy, layer, e);
            for (uint32_t e = 0; e < EXPERTS; e++) {
                uint32_t victim = KEYS;
                hits += in[layer * EXPERTS + e];
                count += !in[layer * EXPERTS + e];
                in[layer * EXPERTS + e] = true;
                for (uint32_t k = 0; k < KEYS && count > slots; k++)
                    if (in[k] && k != layer * EXPERTS + e &&
                        (victim == KEYS || sl_expert_policy_distance(&policy, k, layer) >
                                               sl_expert_policy_distance(&policy, victim, layer)))
                        victim = k;
                if (victim < KEYS) {
                    in[victim] = false;
                    count--;
                }
            }
        }
    }
    return hits;
}

static void test_scans_do_not_empty_the_cache(void **unused) {
    (void)unused;
    assert_true(scan(KEYS / 2) >= KEYS / 2 - EXPERTS);
    assert_int_equal(scan(KEYS), KEYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance_is_what_it_says),
        cmocka_unit_test(test_old_fame_fades),
        cmocka_unit_test(test_the_layer_just_passed_is_farthest),
        cmocka_unit_test(test_scans_do_not_empty_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
