/* clock.h - Monotonic time. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H
#include <time.h>

static inline double sl_clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
/* Seconds since *since, which is set to the current time. */
static inline double sl_clock_lap(double *since) {
    const double now = sl_clock_seconds(), seconds = now - *since;
    *since = now;
    return seconds;
}
#endif
