/* rounds.h - How many random cases a test draws.
 *
 * Kernels on the emulated GPU take about a hundred times as long as on the CPU: tests draw a third
 * of their cases there.  With SLUICE_LONG set (make test-long) they draw all, and four times as
 * many on the CPU. */
#ifndef SL_TESTS_SUPPORT_ROUNDS_H
#define SL_TESTS_SUPPORT_ROUNDS_H
#include <stdbool.h>
#include <stdlib.h>

static inline bool is_long_run(void) {
    return getenv("SLUICE_LONG") != NULL;
}
static inline int rounds(int usual) {
#ifdef SL_CASE_CUDA
    return is_long_run() ? usual : usual / 3;
#else
    return is_long_run() ? 4 * usual : usual;
#endif
}
#endif
