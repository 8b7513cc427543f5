/* relative_error.h - How far apart two lists of logits are. */
#ifndef SL_TESTS_SUPPORT_RELATIVE_ERROR_H
#define SL_TESTS_SUPPORT_RELATIVE_ERROR_H
#include <math.h>
#include <stddef.h>

/* |found - wanted| / |wanted|, by Euclidean norms. */
static inline double relative_error(const float *found, const float *wanted, size_t count) {
    double squares = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        const double off = (double)found[i] - (double)wanted[i];
        squares += off * off;
        all += (double)wanted[i] * (double)wanted[i];
    }
    return sqrt(squares / all);
}
#endif
