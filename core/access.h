/* access.h - The bytes that a step accesses: runs of equal length at a fixed stride.
 *
 * A range is one run.  A column block of a matrix is one run per row.  Two accesses of one buffer
 * overlap if they share a byte; adjacent ranges do not overlap. */
#ifndef SL_CORE_ACCESS_H
#define SL_CORE_ACCESS_H
#include "core/ids.h"
#include <stdint.h>

typedef struct {
    sl_buffer_id buffer;
    uint64_t begin;  /* first byte of the first run */
    uint64_t bytes;  /* of a run */
    uint64_t stride; /* from run to run; at least bytes; unused when count is 1 */
    uint32_t count;  /* of runs */
} sl_access;

static inline sl_access sl_access_range(sl_buffer_id buffer, uint64_t begin, uint64_t end) {
    return (sl_access){buffer, begin, end - begin, 0, 1};
}
/* One past the last byte. */
static inline uint64_t sl_access_end(const sl_access *access) {
    return access->begin + (uint64_t)(access->count - 1) * access->stride + access->bytes;
}
#endif
