/* overlap.h - Whether two accesses meet: what conflicts are in brute force. */
#ifndef SL_TESTS_OVERLAP_H
#define SL_TESTS_OVERLAP_H
#include "core/access.h"
#include <stdbool.h>

/* Exact for any strides; assumes that both accesses are of the same buffer. */
bool sl_access_overlap(const sl_access *a, const sl_access *b);
#endif
