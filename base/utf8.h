/* utf8.h - Slices of text, and UTF-8. */
#ifndef SL_BASE_UTF8_H
#define SL_BASE_UTF8_H
#include "sluice/sluice.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. */
typedef struct {
    const char *text;
    size_t bytes;
} sl_slice;

/* The byte range [start, end) of a slice. */
typedef struct {
    size_t start, end;
} sl_span;

/* The bytes [start, end) of a slice. */
static inline sl_slice sl_slice_part(sl_slice slice, size_t start, size_t end) {
    return (sl_slice){slice.text + start, end - start};
}

/* The length of the character at the front of the slice; 0 if there is no well-formed one. */
size_t sl_utf8_decode(sl_slice slice, uint32_t *out_character);
/* The length of the character at the end of the slice; 0 if there is no well-formed one. */
size_t sl_utf8_decode_last(sl_slice slice, uint32_t *out_character);
/* Writes a character and returns its length. */
size_t sl_utf8_encode(uint32_t character, char out[4]);
/* The number of well-formed bytes at the front of the slice. */
size_t sl_utf8_valid_bytes(sl_slice slice);
/* Unicode's White_Space. */
bool sl_utf8_is_space(uint32_t character);

/* Streaming output: holds back the bytes of an unfinished UTF-8 character. */
typedef sl_text_stream sl_utf8_stream;
/* Appends bytes; writes the complete characters to out (room for bytes + 4) and returns the number
 * of bytes written.  Invalid sequences become U+FFFD: room for 3 * (bytes + 4). */
size_t sl_utf8_stream_push(sl_utf8_stream *stream, const char *bytes, size_t count, char *out);
/* Writes the rest at the end of the output; out needs 12 bytes. */
size_t sl_utf8_stream_finish(sl_utf8_stream *stream, char *out);
#endif
