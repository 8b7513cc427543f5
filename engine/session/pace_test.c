/* pace_test.c - How a scheduler chooses rows of prompts and admits sequences, on simulated times.
 */
#include "engine/session/pace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { UNIT = 64, MOST = 1024 };

/* A machine on which a row takes so long beside a step's fixed time. */
static double seconds_of(double fixed, double row, uint32_t decoded, uint32_t prefilled) {
    return fixed + row * (decoded + prefilled);
}

static void steps_stay_below_the_target(void **state) {
    (void)state;
    static const double rows[] = {1e-5, 3e-4, 1e-3, 3e-3, 1e-2};
    static const uint32_t units[] = {1, UNIT};
    sl_pace *pace = malloc(sizeof *pace);
    assert_non_null(pace);
    for (int i = 0; i < 10; i++) {
        const double row = rows[i / 2];
        sl_pace_init(pace, 0.25, units[i % 2], MOST, false);
        assert_int_equal(sl_pace_rows(pace, false), MOST);
        sl_pace_note(
            pace, &(sl_pace_step){.decoded = 4, .rows = 4, .seconds = seconds_of(0.02, row, 4, 0)});
        for (int step = 0; step < 20; step++) {
            const uint32_t prefilled = sl_pace_rows(pace, true);
            const double seconds = seconds_of(0.02, row, 4, prefilled);
            if (!prefilled) { /* the part before took longer */
                sl_pace_note(pace, &(sl_pace_step){.decoded = 4, .rows = 4, .seconds = seconds});
                step--;
                continue;
            }
            assert_int_equal(prefilled % units[i % 2], 0);
            if (step > 10 && prefilled > UNIT) assert_true(seconds <= 0.26);
            sl_pace_note(pace,
                         &(sl_pace_step){
                             .decoded = 4, .rows = 4, .prefilled = prefilled, .seconds = seconds});
        }
        /* And not far below it, where there is a choice. */
        const uint32_t last = pace->chunk;
        const double fits = (0.25 - 0.02 - 4 * row) / row;
        print_message("  %g s per row, unit %u: %u rows, %g fit\n", row, units[i % 2], last, fits);
        if (fits > UNIT) assert_true(last >= (fits < MOST ? fits : MOST) * 0.75 - UNIT);
        if (fits < UNIT) assert_true(last <= UNIT);
        assert_true(last >= 16);
    }
    free(pace);
}

/* The least part takes longer than the target: the mean of the steps does not, as far as steps
 * without prompts allow it, and prompts go on. */
static void long_parts_are_rare(void **state) {
    (void)state;
    static const struct {
        double decode, part;
        double most_mean;     /* seconds */
        uint32_t least_parts; /* of 900 steps */
    } cases[] = {
        {0.1, 0.4, 0.25, 440}, /* a step without prompts for each with a part */
        {0.1, 0.26, 0.25, 800}, {0.2, 0.5, 0.25, 145},
        {0.1, 3, 0.43, 98},    /* as rare as they get: one in nine */
        {0.3, 0.9, 0.61, 448}, /* the target cannot be met */
        {0.01, 0.2, 0.25, 890},
    };
    sl_pace *pace = malloc(sizeof *pace);
    assert_non_null(pace);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double sum = 0, longest = 0;
        uint32_t parts = 0, skipped = 0;
        sl_pace_init(pace, 0.25, UNIT, UNIT, false);
        for (int step = 0; step < 900; step++) {
            const uint32_t rows = sl_pace_rows(pace, true);
            const double seconds = rows ? cases[i].part : cases[i].decode;
            sl_pace_note(pace, &(sl_pace_step){
                                   .decoded = 2, .rows = 2, .prefilled = rows, .seconds = seconds});
            sum += seconds;
            parts += rows > 0;
            skipped = rows ? 0 : skipped + 1;
            if (skipped > longest) longest = skipped;
        }
        print_message("  steps of %g s, with a part %g s: mean %.3f s, %u parts of 900 steps\n",
                      cases[i].decode, cases[i].part, sum / 900, parts);
        assert_true(sum / 900 <= cases[i].most_mean);
        assert_true(parts >= cases[i].least_parts);
        assert_true(longest <= 8);
        assert_int_equal(sl_pace_rows(pace, false), UNIT); /* nobody waits for tokens */
    }
    free(pace);
}

/* A step that compiled is as long as one that did not. */
static void compiling_changes_nothing(void **state) {
    (void)state;
    uint32_t chosen[2];
    sl_pace *pace = malloc(sizeof *pace);
    assert_non_null(pace);
    for (int compiles = 0; compiles < 2; compiles++) {
        const double more = compiles * 3.0;
        sl_pace_init(pace, 0.25, 1, MOST, false);
        for (int i = 0; i < 6; i++) {
            const uint32_t rows = i % 2 ? sl_pace_rows(pace, true) : 0;
            sl_pace_note(pace, &(sl_pace_step){.decoded = 4,
                                               .rows = 4,
                                               .prefilled = rows,
                                               .seconds = seconds_of(0.02, 1e-3, 4, rows) + more,
                                               .compile_seconds = more});
        }
        chosen[compiles] = sl_pace_rows(pace, true);
    }
    assert_in_range(chosen[0], chosen[1] - 1, chosen[1] + 1); /* seconds are rounded */
    free(pace);
}

static void note_decode(sl_pace *pace, uint32_t decoded, double reads_per_token, int steps) {
    for (int i = 0; i < steps; i++)
        sl_pace_note(pace, &(sl_pace_step){.decoded = decoded,
                                           .rows = decoded,
                                           .seconds = 0.1,
                                           .read_again = (uint64_t)(reads_per_token * decoded)});
}

static void sequences_wait_while_experts_are_read_again(void **state) {
    (void)state;
    sl_pace *pace = malloc(sizeof *pace);
    assert_non_null(pace);
    sl_pace_init(pace, 0.25, 1, MOST, false);
    assert_true(sl_pace_admits(pace, 0));
    assert_true(sl_pace_admits(pace, 7)); /* everything is in memory */
    sl_pace_init(pace, 0.25, 1, MOST, true);
    assert_true(sl_pace_admits(pace, 0));
    assert_false(sl_pace_admits(pace, 1)); /* nothing is known yet */
    note_decode(pace, 1, 10, 4);
    assert_true(sl_pace_admits(pace, 1));
    note_decode(pace, 2, 9, 3);
    assert_false(sl_pace_admits(pace, 2));
    note_decode(pace, 2, 9, 1);
    assert_true(sl_pace_admits(pace, 2));
    note_decode(pace, 3, 20, 4); /* the working sets of three do not fit */
    assert_false(sl_pace_admits(pace, 3));
    assert_false(sl_pace_admits(pace, 2)); /* as is known from before */
    assert_true(sl_pace_admits(pace, 0));
    note_decode(pace, 2, 9, 600); /* tried again some time */
    assert_true(sl_pace_admits(pace, 2));
    free(pace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_stay_below_the_target),
        cmocka_unit_test(long_parts_are_rare),
        cmocka_unit_test(compiling_changes_nothing),
        cmocka_unit_test(sequences_wait_while_experts_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
