/* spans.h - A map from byte addresses to numbers, stored as runs of equal numbers. */
#ifndef SL_CORE_CHECK_SPANS_H
#define SL_CORE_CHECK_SPANS_H
#include "base/memory.h"

typedef struct {
    uint64_t begin, end;
    uint32_t value;
} sl_spans_item;
typedef struct {
    sl_spans_item *items; /* ascending, without gaps; neighbours differ */
    uint32_t count, capacity;
} sl_spans;

/* All bytes in [0, bytes) start as 0.  Reserves room for `sets` calls of sl_spans_set. */
SL_CHECKED sl_status sl_spans_init(sl_spans *spans, uint64_t bytes, uint64_t sets, sl_arena *arena,
                                   sl_error *err);
/* Sets all bytes to 0 and makes room for `sets` calls again. */
void sl_spans_clear(sl_spans *spans);
void sl_spans_set(sl_spans *spans, uint64_t begin, uint64_t end, uint32_t value);
/* The index of the span that contains the byte. */
uint32_t sl_spans_find(const sl_spans *spans, uint64_t at);
#endif
