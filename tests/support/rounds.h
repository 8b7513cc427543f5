/* rounds.h - How many random cases a test draws.
 *
 * On the emulated GPU, under a sanitizer and on an emulated CPU, kernels take ten to a hundred
 * times as long: tests draw a third of their cases there.  With SLUICE_LONG set (make test-long)
 * they draw all, and four times as many on the CPU. */
#ifndef SL_TESTS_SUPPORT_ROUNDS_H
#define SL_TESTS_SUPPORT_ROUNDS_H
#include <stdbool.h>
#include <stdlib.h>

static inline bool is_long_run(void) {
    return getenv("SLUICE_LONG") != NULL;
}
static inline bool is_slow_run(void) {
#ifdef SL_CASE_CUDA
    return true;
#else
    return getenv("SLUICE_SANITIZED") || getenv("SLUICE_EMULATED");
#endif
}
static inline int rounds(int usual) {
    if (is_long_run()) return is_slow_run() ? usual : 4 * usual;
    return is_slow_run() ? usual / 3 : usual;
}
/* The number of the round chooses one of `kinds` kinds of cases: each is drawn at least once. */
static inline int rounds_of_kinds(int usual, int kinds) {
    const int drawn = rounds(usual);
    return drawn > kinds ? drawn : kinds;
}
#endif
