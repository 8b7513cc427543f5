/* choose_test.c - resume and choose against the evaluator. */
#include "core/choose.h"
#include "tests/support/op_case.h"

typedef struct {
    double columns[SL_CHOOSE_COLUMNS];
} choice;
#define CHOICE(TEMPERATURE, TOP_K, TOP_P, MIN_P)                                                   \
    {                                                                                              \
        { TEMPERATURE, TOP_K, TOP_P, MIN_P, 0 }                                                    \
    }

/* Sampling parameters, used by the rows in turn. */
static const choice choices[] = {
    CHOICE(0, 0, 0, 0),        CHOICE(1, 0, 0, 0),      CHOICE(0.7, 0, 1, 0),
    CHOICE(1, 1, 0, 0),        CHOICE(1, 3, 0, 0),      CHOICE(0.5, 40, 0, 0),
    CHOICE(1.5, 1000, 0, 0),   CHOICE(1, 0, 0.9, 0),    CHOICE(3, 0, 0.999, 0),
    CHOICE(1, 0, 0.0001, 0),   CHOICE(1, 0, 0, 0.05),   CHOICE(2, 0, 0, 1),
    CHOICE(1, 20, 0.95, 0),    CHOICE(0.8, 20, 0, 0.1), CHOICE(1, 0, 0.8, 0.02),
    CHOICE(0.8, 20, 0.9, 0.1), CHOICE(1, 5000, 0.5, 0), CHOICE(-1, 3, 0.5, 0.1),
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

/* One row per set of parameters; each has its own slot. */
static op_case choose_case(int64_t vocab, double low, double high) {
    op_case c = case_of(SL_OP_choose, NULL, 0);
    (void)input(&c, f32(2, CHOICES, vocab, 0, 0), low, high);
    choice *chosen = input(&c, sl_type_make(SL_DTYPE_f64, 2, CHOICES, SL_CHOOSE_COLUMNS), 0, 1);
    int32_t *slots = input(&c, i32(CHOICES), 0, 1);
    (void)input(&c, i32(CHOICES + 2), 0, 100);
    for (int32_t t = 0; t < CHOICES; t++) {
        const double share = chosen[t].columns[SL_CHOOSE_SHARE];
        chosen[t] = choices[t];
        chosen[t].columns[SL_CHOOSE_SHARE] = share;
        slots[t] = CHOICES + 1 - t;
    }
    return c;
}

static const int64_t vocabularies[] = {1, 2, 31, 64, 1000, 2047, 2048, 2049, 9001};
enum { VOCABULARIES = sizeof vocabularies / sizeof vocabularies[0] };

static void test_choose(void **state) {
    (void)state;
    for (int v = 0; v < VOCABULARIES; v++) {
        op_case c = choose_case(vocabularies[v], -12, 0);
        check(&c);
    }
}

/* Many logits are equal: ties go to the lower id. */
static void test_choose_equals(void **state) {
    (void)state;
    for (int v = 0; v < VOCABULARIES; v++) {
        op_case c = choose_case(vocabularies[v], -3, 3);
        float *logits = c.data[0];
        for (int64_t i = 0; i < CHOICES * vocabularies[v]; i++) logits[i] = floorf(logits[i]) / 2;
        check(&c);
    }
}

/* So many logits are equal that no filter can narrow them down. */
static void test_choose_flat(void **state) {
    (void)state;
    op_case c = choose_case(9001, 0, 0.25);
    check(&c);
}

/* The ends of the range of `share`: the first token, and the last with a nonzero weight. */
static void test_choose_ends(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        op_case c = choose_case(3000, -6, 0);
        choice *chosen = c.data[1];
        for (int t = 0; t < CHOICES; t++)
            chosen[t].columns[SL_CHOOSE_SHARE] = last ? 1 - 0x1p-53 : 0;
        check(&c);
    }
}

static void test_choose_not_numbers(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        op_case c = choose_case(2500, -8, 0);
        float *logits = c.data[0];
        for (int64_t i = 0; i < CHOICES * 2500; i++) {
            const bool here = i % 3 == 0;
            if (kind == 0 && here) logits[i] = NAN;
            if (kind == 1 && here) logits[i] = -INFINITY;
            if (kind == 2 && (here || i % 2500 == 1300)) logits[i] = here ? NAN : INFINITY;
            if (kind == 3) logits[i] = here ? NAN : -INFINITY;
        }
        check(&c);
    }
}

static void test_choose_refuses(void **state) {
    (void)state;
    static const int32_t wrong[] = {-1, CHOICES + 2};
    for (int i = 0; i < 2; i++) {
        op_case c = choose_case(64, -8, 0);
        ((int32_t *)c.data[2])[3] = wrong[i];
        check_refused(&c);
    }
}

static op_case resume_case(void) {
    op_case c = case_of(SL_OP_resume, NULL, 0);
    int32_t *tokens = input(&c, i32(300), 0, 1000);
    for (int t = 0; t < 300; t += 1 + (int)(next() % 3)) tokens[t] = -1;
    (void)input(&c, i32(300), 0, 7);
    (void)input(&c, i32(7), 0, 1000);
    return c;
}

static void test_resume(void **state) {
    (void)state;
    op_case c = resume_case();
    check(&c);
    op_case wrong = resume_case();
    ((int32_t *)wrong.data[1])[299] = 7;
    check_refused(&wrong);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_choose_equals),
        cmocka_unit_test(test_choose_flat),
        cmocka_unit_test(test_choose_ends),
        cmocka_unit_test(test_choose_not_numbers),
        cmocka_unit_test(test_choose_refuses),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
