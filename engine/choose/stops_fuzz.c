/* Input: stop texts, each ended by a zero byte, an empty one, and a stream.  What comes out is the
 * stream up to the first text, however it is cut. */
#include "engine/choose/stops.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 16, ROOM = 1 << 16 };

/* Where the stream ends by the plain way. */
static size_t plain_end(const char *const *texts, uint32_t count, const char *stream, size_t size) {
    for (size_t end = 1; end <= size; end++) {
        size_t most = 0;
        for (uint32_t i = 0; i < count; i++) {
            const size_t bytes = strlen(texts[i]);
            if (bytes <= end && bytes > most && memcmp(stream + end - bytes, texts[i], bytes) == 0)
                most = bytes;
        }
        if (most) return end - most;
    }
    return size;
}

static void run(const sl_text_matcher *m, const char *stream, size_t size, size_t piece,
                size_t wanted) {
    static char out[ROOM];
    sl_stop_stream s = {.node = 0};
    size_t length = 0;
    for (size_t at = 0; at < size; at += piece) {
        const size_t bytes = size - at < piece ? size - at : piece;
        length += sl_stop_texts_push(m, &s, stream + at, bytes, out + length);
        if (length > at + bytes) abort();
    }
    length += sl_stop_texts_finish(m, &s, out + length);
    if (length != wanted || memcmp(out, stream, wanted) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char text[ROOM];
    const char *texts[MOST];
    uint32_t count = 0;
    sl_error err;
    sl_text_matcher *m = NULL;
    if (size >= ROOM / 2) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *at = text;
    while (count < MOST && at < text + size && *at) {
        texts[count++] = at;
        at += strlen(at) + 1;
    }
    if (at < text + size && !*at) at++;
    const size_t left = at < text + size ? (size_t)(text + size - at) : 0;
    if (sl_stop_texts_create(texts, count, NULL, &m, &err) != SL_OK) return 0;
    const size_t wanted = plain_end(texts, count, at, left);
    for (size_t piece = 1; piece <= left + 1; piece = 2 * piece + 1)
        run(m, at, left, piece, wanted);
    sl_text_matcher_destroy(m);
    return 0;
}
