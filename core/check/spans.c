#include "core/check/spans.h"
#include <assert.h>
#include <string.h>

sl_status sl_spans_init(sl_spans *spans, uint64_t bytes, uint64_t sets, sl_arena *arena,
                        sl_error *err) {
    /* Each set turns at most one span into three. */
    const uint64_t capacity = 2 * sets + 4;
    *spans = (sl_spans){.capacity = (uint32_t)capacity};
    if (capacity <= UINT32_MAX) spans->items = SL_ARENA_NEW_ARRAY(arena, sl_spans_item, capacity);
    if (!spans->items) return sl_no_memory(err, "a map of bytes", capacity * sizeof(sl_spans_item));
    spans->items[0].end = bytes;
    spans->count = 1;
    return SL_OK;
}

void sl_spans_clear(sl_spans *spans) {
    spans->items[0] = (sl_spans_item){0, spans->items[spans->count - 1].end, 0};
    spans->count = 1;
}

uint32_t sl_spans_find(const sl_spans *spans, uint64_t at) {
    uint32_t low = 0, high = spans->count - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (spans->items[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replaces items [first, last] by `with`. */
static void replace(sl_spans *spans, uint32_t first, uint32_t last, const sl_spans_item *with,
                    uint32_t count) {
    const uint32_t fresh = spans->count - (last - first + 1) + count;
    assert(fresh <= spans->capacity);
    memmove(spans->items + first + count, spans->items + last + 1,
            (spans->count - last - 1) * sizeof(sl_spans_item));
    memcpy(spans->items + first, with, count * sizeof(sl_spans_item));
    spans->count = fresh;
}

void sl_spans_set(sl_spans *spans, uint64_t begin, uint64_t end, uint32_t value) {
    if (begin >= end) return;
    uint32_t first = sl_spans_find(spans, begin), last = first;
    while (spans->items[last].end < end) last++;
    /* Merge neighbours with equal values. */
    if (first > 0 && spans->items[first].begin == begin && spans->items[first - 1].value == value)
        first--;
    if (last + 1 < spans->count && spans->items[last].end == end &&
        spans->items[last + 1].value == value)
        last++;
    const sl_spans_item head = spans->items[first], tail = spans->items[last];
    sl_spans_item middle = {begin, end, value}, with[3];
    uint32_t count = 0;
    if (head.value == value)
        middle.begin = head.begin;
    else if (head.begin < begin)
        with[count++] = (sl_spans_item){head.begin, begin, head.value};
    if (tail.value == value) middle.end = tail.end;
    with[count++] = middle;
    if (tail.value != value && end < tail.end)
        with[count++] = (sl_spans_item){end, tail.end, tail.value};
    replace(spans, first, last, with, count);
}
