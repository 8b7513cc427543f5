/* sample_test.c - Sampling: greedy, the filters, and draws that follow the probabilities. */
#include "engine/session/sample.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { VOCAB = 6, DRAWS = 20000 };
static sl_candidate candidates[VOCAB];

/* Probabilities 0.4 0.3 0.15 0.1 0.04 0.01, out of order. */
static const float probabilities[VOCAB] = {0.1f, 0.4f, 0.01f, 0.3f, 0.04f, 0.15f};

static void fill_logits(float *logits) {
    for (int i = 0; i < VOCAB; i++) logits[i] = logf(probabilities[i]);
}

static void count_draws(const sl_sampling *how, double *shares) {
    float logits[VOCAB];
    int counts[VOCAB] = {0};
    fill_logits(logits);
    for (uint64_t position = 0; position < DRAWS; position++)
        counts[sl_sample(logits, VOCAB, how, position, candidates)]++;
    for (int i = 0; i < VOCAB; i++) shares[i] = (double)counts[i] / DRAWS;
}

static void near(double found, double wanted) {
    if (fabs(found - wanted) > 0.012) fail_msg("drawn with share %g, wanted %g", found, wanted);
}

static void greedy_takes_the_first_best(void **state) {
    (void)state;
    const float logits[VOCAB] = {1, 3, 2, 3, 0, -1};
    assert_int_equal(sl_sample(logits, VOCAB, &(sl_sampling){0}, 0, candidates), 1);
}

static void draws_follow_probabilities(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(&(sl_sampling){.temperature = 1, .seed = 7}, shares);
    for (int i = 0; i < VOCAB; i++) near(shares[i], (double)probabilities[i]);
}

static void temperature_sharpens(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(&(sl_sampling){.temperature = 0.5f, .seed = 7}, shares);
    near(shares[1], 0.16 / (0.01 + 0.16 + 0.0001 + 0.09 + 0.0016 + 0.0225));
}

static void top_k_keeps_k(void **state) {
    (void)state;
    for (uint32_t k = 1; k <= VOCAB + 1; k++) {
        double shares[VOCAB];
        count_draws(&(sl_sampling){.temperature = 1, .top_k = k, .seed = 3}, shares);
        const double order[VOCAB] = {shares[1], shares[3], shares[5],
                                     shares[0], shares[4], shares[2]};
        for (uint32_t i = 0; i < VOCAB; i++) assert_true((order[i] > 0) == (i < k));
    }
}

static void top_p_keeps_the_nucleus(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(&(sl_sampling){.temperature = 1, .top_p = 0.69f, .seed = 3}, shares);
    near(shares[1], 0.4 / 0.7);
    near(shares[3], 0.3 / 0.7);
    assert_true(shares[5] == 0 && shares[0] == 0);
}

static void min_p_drops_the_unlikely(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(&(sl_sampling){.temperature = 1, .min_p = 0.24f, .seed = 3}, shares);
    assert_true(shares[0] > 0 && shares[4] == 0 && shares[2] == 0);
}

static void the_same_seed_and_position_draw_the_same(void **state) {
    (void)state;
    float logits[VOCAB];
    int differing = 0;
    fill_logits(logits);
    for (uint64_t p = 0; p < 100; p++) {
        const sl_sampling a = {.temperature = 1, .seed = 1}, b = {.temperature = 1, .seed = 2};
        const sl_token first = sl_sample(logits, VOCAB, &a, p, candidates);
        assert_int_equal(first, sl_sample(logits, VOCAB, &a, p, candidates));
        differing += first != sl_sample(logits, VOCAB, &b, p, candidates);
    }
    assert_true(differing > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_best),
        cmocka_unit_test(draws_follow_probabilities),
        cmocka_unit_test(temperature_sharpens),
        cmocka_unit_test(top_k_keeps_k),
        cmocka_unit_test(top_p_keeps_the_nucleus),
        cmocka_unit_test(min_p_drops_the_unlikely),
        cmocka_unit_test(the_same_seed_and_position_draw_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
