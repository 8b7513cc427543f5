/* stops.c - Stop texts in a stream of bytes (sluice/sampling.h).
 *
 * What is held back is the longest suffix that begins a stop text: exactly what the matcher's node
 * stands for, so a stream needs no buffer. */
#include "engine/choose/stops.h"
#include "base/utf8.h"
#include <string.h>

sl_status sl_stop_texts_create(const char *const *texts, uint32_t count,
                               const sl_allocator *allocator, sl_text_matcher **out,
                               sl_error *err) {
    for (uint32_t i = 0; i < count; i++)
        if (texts[i] &&
            sl_utf8_valid_bytes((sl_slice){texts[i], strlen(texts[i])}) != strlen(texts[i]))
            return sl_fail(err, SL_INVALID, "stop text %u is not valid UTF-8", i);
    return sl_text_matcher_create("stop text", texts, count, allocator, out, err);
}

size_t sl_stop_texts_push(const sl_text_matcher *m, sl_stop_stream *stream, const char *bytes,
                          size_t count, char *out) {
    size_t written = 0, taken = 0;
    if (stream->found) return 0;
    uint16_t node = (uint16_t)stream->node;
    /* What was held back and then the new bytes, of which `written` are given out. */
    const char *held = m->bytes + m->nodes[node].begin;
    const size_t held_bytes = m->nodes[node].depth;
    while (taken < count && !m->nodes[node].found)
        node = sl_text_matcher_step(m, node, bytes[taken++]);
    const sl_text_matcher_node *last = &m->nodes[node];
    stream->node = node;
    stream->found = last->found;
    const size_t given = held_bytes + taken - (last->found ? last->found_bytes : last->depth);
    written = given < held_bytes ? given : held_bytes;
    memcpy(out, held, written);
    if (given > written) memcpy(out + written, bytes, given - written);
    return given;
}

size_t sl_stop_texts_finish(const sl_text_matcher *m, sl_stop_stream *stream, char *out) {
    if (stream->found) return 0;
    const sl_text_matcher_node *node = &m->nodes[stream->node];
    memcpy(out, m->bytes + node->begin, node->depth);
    stream->node = 0;
    return node->depth;
}
