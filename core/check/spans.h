/* spans.h - A number for every byte of a space, kept as runs of equal numbers. */
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

/* Bytes [0, bytes) are 0.  Room for `sets` calls of sl_spans_set, and not for more. */
SL_CHECKED sl_status sl_spans_init(sl_spans *spans, uint64_t bytes, uint64_t sets, sl_arena *arena,
                                   sl_error *err);
/* All bytes are 0 again, and there is room again. */
void sl_spans_clear(sl_spans *spans);
void sl_spans_set(sl_spans *spans, uint64_t begin, uint64_t end, uint32_t value);
/* The span that holds the byte. */
uint32_t sl_spans_find(const sl_spans *spans, uint64_t at);
#endif
