#include "engine/choose/text_matcher.h"
#include "base/sizes.h"
#include <string.h>

static sl_status measure(const char *what, const char *const *texts, uint32_t count, size_t *total,
                         sl_error *err) {
    *total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = texts[i] ? strlen(texts[i]) : 0;
        if (bytes == 0) return sl_fail(err, SL_INVALID, "%s %u is empty", what, i);
        if (bytes > SL_MATCHER_MOST_BYTES - *total)
            return sl_fail(err, SL_INVALID, "%ss have more than %d bytes", what,
                           SL_MATCHER_MOST_BYTES);
        *total += bytes;
    }
    return SL_OK;
}

/* Adds the path of a text; `begin` is where it is among the bytes.  While the table is built, 0
 * means that there is no such node yet. */
static void add_text(sl_text_matcher *m, uint32_t index, size_t begin, size_t bytes) {
    uint16_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint16_t *next = &m->nodes[at].next[(unsigned char)m->bytes[begin + i]];
        if (!*next) {
            *next = (uint16_t)m->count++;
            m->nodes[*next].depth = (uint16_t)(i + 1);
            m->nodes[*next].begin = (uint32_t)begin;
        }
        at = *next;
    }
    sl_text_matcher_node *last = &m->nodes[at];
    if (!last->found) {
        last->found = (uint16_t)(index + 1);
        last->found_bytes = (uint16_t)bytes;
    }
    if (bytes > m->deepest) m->deepest = (uint32_t)bytes;
}

/* Breadth first, so that what a node falls back to is complete: it is less deep. */
static void complete(sl_text_matcher *m, uint16_t *queue, uint16_t *falls) {
    uint32_t head = 0, tail = 0;
    for (int byte = 0; byte < 256; byte++)
        if (m->nodes[0].next[byte]) queue[tail++] = m->nodes[0].next[byte];
    while (head < tail) {
        sl_text_matcher_node *node = &m->nodes[queue[head]];
        const sl_text_matcher_node *fall = &m->nodes[falls[queue[head++]]];
        if (!node->found) {
            node->found = fall->found;
            node->found_bytes = fall->found_bytes;
        }
        for (int byte = 0; byte < 256; byte++) {
            const uint16_t child = node->next[byte];
            if (child) {
                falls[child] = fall->next[byte];
                queue[tail++] = child;
            } else {
                node->next[byte] = fall->next[byte];
            }
        }
    }
}

static sl_status build(sl_text_matcher *m, const char *const *texts, uint32_t count,
                       sl_error *err) {
    const size_t bytes = 2 * (size_t)m->room * sizeof(uint16_t);
    uint16_t *queue = sl_allocate(&m->allocator, bytes, _Alignof(uint16_t));
    m->nodes =
        sl_allocate(&m->allocator, m->room * sizeof *m->nodes, _Alignof(sl_text_matcher_node));
    m->bytes = sl_allocate(&m->allocator, m->total + 1, 1);
    if (!queue || !m->nodes || !m->bytes) {
        sl_release(&m->allocator, queue, bytes, _Alignof(uint16_t));
        return sl_no_memory(err, "texts to find", m->total);
    }
    size_t at = 0;
    m->count = 1;
    for (uint32_t i = 0; i < count; i++) {
        const size_t length = strlen(texts[i]);
        memcpy(m->bytes + at, texts[i], length);
        add_text(m, i, at, length);
        at += length;
    }
    complete(m, queue, queue + m->room);
    sl_release(&m->allocator, queue, bytes, _Alignof(uint16_t));
    return SL_OK;
}

sl_status sl_text_matcher_create(const char *what, const char *const *texts, uint32_t count,
                                 const sl_allocator *allocator, sl_text_matcher **out,
                                 sl_error *err) {
    size_t total;
    SL_TRY(measure(what, texts, count, &total, err));
    const sl_allocator *a = sl_allocator_or_default(allocator);
    sl_text_matcher *m = sl_allocate(a, sizeof *m, _Alignof(sl_text_matcher));
    if (!m) return sl_no_memory(err, "texts to find", sizeof *m);
    m->allocator = *a;
    m->total = total;
    m->room = (uint32_t)total + 1;
    const sl_status status = build(m, texts, count, err);
    if (status == SL_OK)
        *out = m;
    else
        sl_text_matcher_destroy(m);
    return status;
}

void sl_text_matcher_destroy(sl_text_matcher *m) {
    if (!m) return;
    const sl_allocator allocator = m->allocator;
    sl_release(&allocator, m->nodes, m->room * sizeof *m->nodes, _Alignof(sl_text_matcher_node));
    sl_release(&allocator, m->bytes, m->total + 1, 1);
    sl_release(&allocator, m, sizeof *m, _Alignof(sl_text_matcher));
}
