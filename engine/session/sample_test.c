/* sample_test.c - Sampling: greedy, the filters, and draws that follow the probabilities. */
#include "engine/session/sample.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { VOCAB = 6, DRAWS = 20000 };
static sl_candidate candidates[VOCAB + 1];

/* Probabilities 0.4 0.3 0.15 0.1 0.04 0.01, out of order. */
static const float probabilities[VOCAB] = {0.1f, 0.4f, 0.01f, 0.3f, 0.04f, 0.15f};

static void fill_logits(float *logits) {
    for (int i = 0; i < VOCAB; i++) logits[i] = logf(probabilities[i]);
}

static void count_draws(const sl_sampling *sampling, double *shares) {
    float logits[VOCAB];
    int counts[VOCAB] = {0};
    fill_logits(logits);
    for (uint64_t position = 0; position < DRAWS; position++)
        counts[sl_sample(logits, VOCAB, sampling, position, candidates)]++;
    for (int i = 0; i < VOCAB; i++) shares[i] = (double)counts[i] / DRAWS;
}

static void near(double found, double wanted) {
    if (fabs(found - wanted) > 0.012) fail_msg("drawn with share %g, wanted %g", found, wanted);
}

static void greedy_takes_the_first_best(void **state) {
    (void)state;
    const float logits[VOCAB] = {1, 3, 2, 3, 0, -1};
    assert_int_equal(
        sl_sample(logits, VOCAB, &(sl_sampling){.struct_size = sizeof(sl_sampling)}, 0, candidates),
        1);
}

static void draws_follow_probabilities(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(&(sl_sampling){.struct_size = sizeof(sl_sampling), .temperature = 1, .seed = 7},
                shares);
    for (int i = 0; i < VOCAB; i++) near(shares[i], (double)probabilities[i]);
}

static void temperature_sharpens(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(&(sl_sampling){.struct_size = sizeof(sl_sampling), .temperature = 0.5f, .seed = 7},
                shares);
    near(shares[1], 0.16 / (0.01 + 0.16 + 0.0001 + 0.09 + 0.0016 + 0.0225));
}

static void top_k_keeps_k(void **state) {
    (void)state;
    for (uint32_t k = 1; k <= VOCAB + 1; k++) {
        double shares[VOCAB];
        count_draws(
            &(sl_sampling){
                .struct_size = sizeof(sl_sampling), .temperature = 1, .top_k = k, .seed = 3},
            shares);
        const double order[VOCAB] = {shares[1], shares[3], shares[5],
                                     shares[0], shares[4], shares[2]};
        for (uint32_t i = 0; i < VOCAB; i++) assert_true((order[i] > 0) == (i < k));
    }
}

static void top_p_keeps_the_nucleus(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(
        &(sl_sampling){
            .struct_size = sizeof(sl_sampling), .temperature = 1, .top_p = 0.69f, .seed = 3},
        shares);
    near(shares[1], 0.4 / 0.7);
    near(shares[3], 0.3 / 0.7);
    assert_true(shares[5] == 0 && shares[0] == 0);
}

static void min_p_drops_the_unlikely(void **state) {
    (void)state;
    double shares[VOCAB];
    count_draws(
        &(sl_sampling){
            .struct_size = sizeof(sl_sampling), .temperature = 1, .min_p = 0.24f, .seed = 3},
        shares);
    assert_true(shares[0] > 0 && shares[4] == 0 && shares[2] == 0);
}

static void the_same_seed_and_position_draw_the_same(void **state) {
    (void)state;
    float logits[VOCAB];
    int differing = 0;
    fill_logits(logits);
    for (uint64_t p = 0; p < 100; p++) {
        const sl_sampling a = {.struct_size = sizeof(sl_sampling), .temperature = 1, .seed = 1},
                          b = {.temperature = 1, .seed = 2};
        const sl_token first = sl_sample(logits, VOCAB, &a, p, candidates);
        assert_int_equal(first, sl_sample(logits, VOCAB, &a, p, candidates));
        differing += first != sl_sample(logits, VOCAB, &b, p, candidates);
    }
    assert_true(differing > 20);
}

/* ---- against the plain way: weigh and sort everything ---- */

enum { LARGE = 3000 };
static double random_share(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return ((double)(x >> 11) + 1) * 0x1p-53;
}

typedef struct {
    double weight;
    int token;
} weighed;
static int heavier_first(const void *a, const void *b) {
    const weighed *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->token < y->token ? -1 : 1;
}

/* Which tokens may be drawn. */
static void plain_filter(const float *logits, int vocab, const sl_sampling *sampling, bool *may) {
    static weighed all[LARGE];
    double sum = 0, mass = 0;
    int count = vocab;
    for (int i = 0; i < vocab; i++)
        all[i] = (weighed){exp((double)(logits[i] / sampling->temperature)), i};
    qsort(all, (size_t)vocab, sizeof *all, heavier_first);
    if (sampling->top_k && (int)sampling->top_k < count) count = (int)sampling->top_k;
    for (int i = 0; i < count; i++) sum += all[i].weight;
    for (int i = 0; i < vocab; i++) {
        const bool nucleus = sampling->top_p <= 0 || mass < (double)sampling->top_p * sum;
        may[all[i].token] =
            i < count && nucleus && all[i].weight >= (double)sampling->min_p * all[0].weight;
        mass += all[i].weight;
    }
}

/* Every draw is one that may be drawn, and all of those are drawn where there are few. */
static void large_vocabularies_are_filtered_alike(void **state) {
    (void)state;
    static float logits[LARGE];
    static bool may[LARGE], drawn[LARGE];
    static sl_candidate room[LARGE + LARGE / 64 + 1];
    assert_true(sl_choose_candidates(LARGE) <= LARGE + LARGE / 64 + 1);
    for (int trial = 0; trial < 200; trial++) {
        const int vocab = 1 + (int)(random_share() * (LARGE - 1));
        for (int i = 0; i < vocab; i++) { /* some equal, in steps that divide without rounding */
            logits[i] = roundf((float)(random_share() * random_share() * 1000)) / 64;
            drawn[i] = false;
        }
        const sl_sampling sampling = {.struct_size = sizeof(sl_sampling),
                                      .temperature = 0.5f,
                                      .top_k = trial % 2 ? (uint32_t)(random_share() * 90) : 0,
                                      .top_p = trial % 3 ? (float)random_share() : 0,
                                      .min_p = trial % 5 ? (float)random_share() * 0.5f : 0,
                                      .seed = (uint64_t)trial};
        plain_filter(logits, vocab, &sampling, may);
        int kept = 0, seen = 0;
        for (uint64_t p = 0; p < 2000; p++)
            drawn[sl_sample(logits, (uint32_t)vocab, &sampling, p, room)] = true;
        for (int i = 0; i < vocab; i++) {
            assert_true(may[i] || !drawn[i]);
            kept += may[i];
            seen += drawn[i];
        }
        if (sampling.min_p > 0.1f && kept < 20) assert_int_equal(seen, kept);
    }
}

static void what_is_no_number_is_not_drawn(void **state) {
    (void)state;
    enum { COUNT = 130 };
    float logits[COUNT];
    sl_candidate room[COUNT + 3];
    for (int i = 0; i < COUNT; i++) logits[i] = i % 3 ? NAN : -INFINITY;
    logits[77] = 1, logits[129] = 1;
    static const sl_sampling hows[] = {{.temperature = 1},
                                       {.temperature = 1, .top_k = 2},
                                       {.temperature = 1, .top_p = 0.9f},
                                       {.temperature = 1, .min_p = 0.1f}};
    for (int h = 0; h < 4; h++)
        for (uint64_t p = 0; p < 50; p++) {
            const sl_token token = sl_sample(logits, COUNT, &hows[h], p, room);
            assert_true(token == 77 || token == 129);
        }
    logits[0] = 0;
    assert_int_equal(
        sl_sample(logits, COUNT, &(sl_sampling){.struct_size = sizeof(sl_sampling)}, 0, room), 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_best),
        cmocka_unit_test(draws_follow_probabilities),
        cmocka_unit_test(temperature_sharpens),
        cmocka_unit_test(top_k_keeps_k),
        cmocka_unit_test(top_p_keeps_the_nucleus),
        cmocka_unit_test(min_p_drops_the_unlikely),
        cmocka_unit_test(large_vocabularies_are_filtered_alike),
        cmocka_unit_test(what_is_no_number_is_not_drawn),
        cmocka_unit_test(the_same_seed_and_position_draw_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
