/* utf8.c - Well-formed UTF-8 as defined by the Unicode standard: no overlong forms, no surrogates,
 * nothing above U+10FFFF. */
#include "base/utf8.h"
#include <string.h>

/* The length of the character that starts with this byte; 0 if it cannot start one. */
static size_t length_from_lead(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xC2) return 0;
    if (lead < 0xE0) return 2;
    if (lead < 0xF0) return 3;
    return lead < 0xF5 ? 4 : 0;
}

static bool second_is_valid(unsigned char lead, unsigned char second) {
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

/* How many bytes at the front of the slice belong to one character, possibly truncated by the end;
 * *out_needed is its full length. */
static size_t scan(sl_slice slice, size_t *out_needed) {
    const unsigned char *bytes = (const unsigned char *)slice.text;
    *out_needed = 1;
    if (slice.bytes == 0) return 0;
    const size_t needed = length_from_lead(bytes[0]);
    if (needed == 0) return 0;
    *out_needed = needed;
    size_t have = 1;
    while (have < needed && have < slice.bytes) {
        const bool valid =
            have == 1 ? second_is_valid(bytes[0], bytes[1]) : (bytes[have] & 0xC0) == 0x80;
        if (!valid) break;
        have++;
    }
    return have;
}

size_t sl_utf8_decode(sl_slice slice, uint32_t *out_character) {
    static const unsigned char lead_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    size_t needed;
    if (scan(slice, &needed) < needed) return 0;
    uint32_t character = (unsigned char)slice.text[0] & lead_mask[needed];
    for (size_t i = 1; i < needed; i++)
        character = character << 6 | ((unsigned char)slice.text[i] & 0x3F);
    *out_character = character;
    return needed;
}

size_t sl_utf8_decode_last(sl_slice slice, uint32_t *out_character) {
    for (size_t length = 1; length <= 4 && length <= slice.bytes; length++) {
        const sl_slice last = sl_slice_part(slice, slice.bytes - length, slice.bytes);
        if (sl_utf8_decode(last, out_character) == length) return length;
    }
    return 0;
}

size_t sl_utf8_encode(uint32_t character, char out[4]) {
    const size_t length = character < 0x80      ? 1
                          : character < 0x800   ? 2
                          : character < 0x10000 ? 3
                                                : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    out[0] = (char)(lead[length] | character);
    return length;
}

size_t sl_utf8_valid_bytes(sl_slice slice) {
    size_t at = 0;
    while (at < slice.bytes) {
        uint64_t eight;
        if (slice.bytes - at >= sizeof eight) {
            memcpy(&eight, slice.text + at, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        size_t needed;
        if (scan(sl_slice_part(slice, at, slice.bytes), &needed) < needed) break;
        at += needed;
    }
    return at;
}

bool sl_utf8_is_space(uint32_t character) {
    if (character < 0x1680)
        return (character >= '\t' && character <= '\r') || character == ' ' || character == 0x85 ||
               character == 0xA0;
    return character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
           character == 0x2028 || character == 0x2029 || character == 0x202F ||
           character == 0x205F || character == 0x3000;
}

static size_t write_replacement(char *out) {
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

/* Writes every character that is complete or known to be invalid. */
static size_t settle(sl_utf8_stream *stream, char *out) {
    size_t written = 0;
    while (stream->count > 0) {
        size_t needed;
        size_t used = scan((sl_slice){stream->pending, stream->count}, &needed);
        if (used == needed) {
            memcpy(out + written, stream->pending, used);
            written += used;
        } else if (used == stream->count) {
            break;
        } else {
            if (used == 0) used = 1;
            written += write_replacement(out + written);
        }
        stream->count -= (uint32_t)used;
        memmove(stream->pending, stream->pending + used, stream->count);
    }
    return written;
}

size_t sl_utf8_stream_push(sl_utf8_stream *stream, const char *bytes, size_t count, char *out) {
    size_t written = 0;
    for (size_t i = 0; i < count; i++) {
        stream->pending[stream->count++] = bytes[i];
        written += settle(stream, out + written);
    }
    return written;
}

size_t sl_utf8_stream_finish(sl_utf8_stream *stream, char *out) {
    const size_t written = stream->count > 0 ? write_replacement(out) : 0;
    stream->count = 0;
    return written;
}
