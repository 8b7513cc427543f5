#include "tests/support/overlap.h"

/* Whether a run of `access` meets bytes [begin, end).  Of the runs that start before end, the last
 * one reaches furthest. */
static bool meets(const sl_access *access, uint64_t begin, uint64_t end) {
    if (end <= access->begin) return false;
    uint64_t run = 0;
    if (access->count > 1) run = (end - 1 - access->begin) / access->stride;
    if (run >= access->count) run = access->count - 1;
    return access->begin + run * access->stride + access->bytes > begin;
}

/* Each run of the access with fewer runs against the other as a whole. */
bool sl_access_overlap(const sl_access *a, const sl_access *b) {
    if (a->count > b->count) {
        const sl_access *fewer = b;
        b = a;
        a = fewer;
    }
    if (a->count == 0 || a->bytes == 0 || b->bytes == 0) return false;
    if (sl_access_end(a) <= b->begin || sl_access_end(b) <= a->begin) return false;
    for (uint32_t run = 0; run < a->count; run++) {
        const uint64_t begin = a->begin + run * a->stride;
        if (meets(b, begin, begin + a->bytes)) return true;
    }
    return false;
}
