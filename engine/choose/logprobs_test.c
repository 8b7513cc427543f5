/* logprobs_test.c - Log-probabilities against sums in long double, and of logits that are no
 * numbers. */
#include "engine/choose/logprobs.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { VOCAB = 3000, TOP = 40 };
static sl_error err;
static uint64_t random_state = 88172645463325252u;
static double uniform(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ((double)(random_state >> 11) + 1) * 0x1p-53;
}

static const float *compared; /* by likely_first */
static int likely_first(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    if (compared[x] != compared[y]) return compared[x] > compared[y] ? -1 : 1;
    return x - y;
}

static void they_are_those_of_exact_sums(void **state) {
    (void)state;
    static float logits[VOCAB];
    static int order[VOCAB];
    sl_logprob found[TOP + 1];
    for (int trial = 0; trial < 300; trial++) {
        const uint32_t vocab = 1 + (uint32_t)(uniform() * (VOCAB - 1));
        const double scale = trial % 3 ? 20 : 2000;
        long double sum = 0;
        for (uint32_t i = 0; i < vocab; i++) { /* some are equal */
            logits[i] = (float)(round(uniform() * scale * 8) / 8 - scale / 2);
            order[i] = (int)i;
            sum += expl((long double)logits[i] - (long double)scale);
        }
        compared = logits;
        qsort(order, vocab, sizeof *order, likely_first);
        const uint32_t top = (uint32_t)trial % (TOP + 1), kept = top < vocab ? top : vocab;
        const sl_token token = (sl_token)(uniform() * 0.99 * vocab);
        assert_int_equal(sl_logprobs_find(logits, vocab, token, top, found, &err), SL_OK);
        assert_int_equal(found[0].token, token);
        for (uint32_t i = 0; i <= kept; i++) {
            if (i) assert_int_equal(found[i].token, order[i - 1]);
            const long double wanted =
                (long double)logits[found[i].token] - (long double)scale - logl(sum);
            if (fabsl((long double)found[i].logprob - wanted) > 1e-12L * (1 + fabsl(wanted)))
                fail_msg("trial %d: %.17g, wanted %.17Lg", trial, found[i].logprob, wanted);
        }
    }
}

static void they_are_always_numbers(void **state) {
    (void)state;
    sl_logprob found[8];
    const float mixed[] = {NAN, -INFINITY, 0, 3e38f, -3e38f, 3e38f};
    assert_int_equal(sl_logprobs_find(mixed, 6, 0, 6, found, &err), SL_OK);
    for (int i = 0; i <= 6; i++)
        assert_true(isfinite(found[i].logprob) && found[i].logprob >= SL_LOGPROB_LEAST);
    assert_true(found[0].logprob == SL_LOGPROB_LEAST);
    assert_int_equal(found[1].token, 3);
    assert_int_equal(found[2].token, 5);
    assert_true(fabs(found[1].logprob - log(0.5)) < 1e-15);
    const float endless[] = {1, INFINITY, INFINITY, NAN, INFINITY, -INFINITY};
    assert_int_equal(sl_logprobs_find(endless, 6, 2, 6, found, &err), SL_OK);
    for (int i = 0; i <= 6; i++) assert_true(isfinite(found[i].logprob));
    assert_true(fabs(found[0].logprob - log(1.0 / 3)) < 1e-15);
    assert_true(found[4].logprob == SL_LOGPROB_LEAST);
    const float none[] = {NAN, -INFINITY};
    assert_int_equal(sl_logprobs_find(none, 2, 0, 1, found, &err), SL_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_exact_sums),
        cmocka_unit_test(they_are_always_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
