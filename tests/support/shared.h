/* shared.h - Finding the test data that lies beside the project. */
#ifndef SL_TESTS_SUPPORT_SHARED_H
#define SL_TESTS_SUPPORT_SHARED_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The path of `name` in the shared folder ($SLUICE_SHARED, or ../shared), in path; false and a
 * message when it is not there. */
static inline bool shared_path(const char *name, char *path, size_t capacity) {
    const char *root = getenv("SLUICE_SHARED");
    (void)snprintf(path, capacity, "%s/%s", root ? root : "../shared", name);
    if (access(path, R_OK) == 0) return true;
    (void)fprintf(stderr, "skipped: %s is not here\n", path);
    return false;
}
#endif
