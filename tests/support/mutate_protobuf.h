/* mutate_protobuf.h - For fuzzers whose input is a protobuf message, such as an ONNX model: most
 * mutations change, remove or repeat one field at any depth and write the lengths around it right;
 * the others change bytes.  Texts are replaced by those that mutation_word gives. */
#ifndef SL_TESTS_SUPPORT_MUTATE_PROTOBUF_H
#define SL_TESTS_SUPPORT_MUTATE_PROTOBUF_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
/* Any text, chosen by a number. */
static const char *mutation_word(uint32_t pick);

enum { PROTO_MOST_FIELDS = 512, PROTO_MOST_DEPTH = 12, PROTO_MOST_BYTES = 1 << 16 };

typedef struct {
    const uint8_t *start, *body, *end; /* body: behind the tag, and the length if there is one */
    uint32_t number, wire;
} proto_field;

static uint32_t proto_state;
static uint32_t proto_draw(uint32_t below) {
    proto_state = proto_state * 1664525u + 1013904223u;
    return (proto_state >> 8) % below;
}

static const uint8_t *proto_varint(const uint8_t *at, const uint8_t *end, uint64_t *out) {
    *out = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        *out |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128)) return at;
    }
    return NULL;
}

static int proto_next(const uint8_t *at, const uint8_t *end, proto_field *out) {
    uint64_t tag, bytes = 0;
    out->start = at;
    if (!(at = proto_varint(at, end, &tag)) || tag >> 3 == 0 || tag >> 3 > 1000) return 0;
    out->number = (uint32_t)(tag >> 3);
    out->wire = (uint32_t)(tag & 7);
    out->body = at;
    if (out->wire == 0 && !(at = proto_varint(at, end, &bytes))) return 0;
    if (out->wire == 0) bytes = 0;
    if (out->wire == 1) bytes = 8;
    if (out->wire == 5) bytes = 4;
    if (out->wire == 2 && !(out->body = at = proto_varint(at, end, &bytes))) return 0;
    if ((out->wire > 2 && out->wire != 5) || bytes > (uint64_t)(end - at)) return 0;
    out->end = at + bytes;
    return 1;
}

/* The fields of a message; 0 if it is none. */
static uint32_t proto_fields(const uint8_t *data, size_t size, proto_field *out) {
    uint32_t count = 0;
    for (const uint8_t *at = data; at < data + size; at = out[count++].end)
        if (count == PROTO_MOST_FIELDS || !proto_next(at, data + size, &out[count])) return 0;
    return count;
}

typedef struct {
    uint8_t bytes[PROTO_MOST_BYTES];
    size_t count;
} proto_output;

static void proto_put(proto_output *out, const void *bytes, size_t count) {
    if (count > sizeof out->bytes - out->count) count = sizeof out->bytes - out->count;
    if (count) memcpy(out->bytes + out->count, bytes, count);
    out->count += count;
}
static void proto_put_varint(proto_output *out, uint64_t value) {
    for (;; value >>= 7) {
        const uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        proto_put(out, &byte, 1);
        if (value <= 127) return;
    }
}

static uint64_t proto_number(uint64_t old) {
    static const uint64_t extremes[] = {
        0,          1,         2,         3,     4,     5,           6,         7,   8,
        9,          10,        11,        13,    16,    21,          64,        255, 65536,
        1ull << 31, INT32_MAX, INT64_MAX, -1ull, -2ull, -1ull << 63, 1ull << 40};
    const uint32_t way = proto_draw(4);
    return way == 0   ? old + 1
           : way == 1 ? old - 1
                      : extremes[proto_draw(sizeof extremes / sizeof extremes[0])];
}

/* Writes a field with another value. */
static void proto_change(proto_output *out, const proto_field *f) {
    uint64_t value = 0;
    proto_put_varint(out, (uint64_t)f->number << 3 | f->wire);
    if (f->wire == 0) {
        (void)proto_varint(f->body, f->end, &value);
        proto_put_varint(out, proto_number(value));
    } else if (f->wire == 2 && proto_draw(2)) {
        const char *word = mutation_word(proto_draw(1u << 24));
        proto_put_varint(out, strlen(word));
        proto_put(out, word, strlen(word));
    } else {
        uint8_t bytes[256];
        size_t count = (size_t)(f->end - f->body);
        if (count > sizeof bytes) count = sizeof bytes;
        if (count) memcpy(bytes, f->body, count);
        if (count) bytes[proto_draw((uint32_t)count)] = (uint8_t)proto_number(0);
        if (f->wire == 2) proto_put_varint(out, count);
        proto_put(out, bytes, count);
    }
}

/* Writes the message with one change in it, or in a message inside it. */
static void proto_mutate(const uint8_t *data, size_t size, uint32_t depth, proto_output *out) {
    proto_field *fields = calloc(PROTO_MOST_FIELDS, sizeof *fields);
    proto_output *inner = calloc(1, sizeof *inner);
    const uint32_t count = fields && inner ? proto_fields(data, size, fields) : 0;
    const uint32_t pick = count ? proto_draw(count) : 0, other = count ? proto_draw(count) : 0;
    const uint32_t way = proto_draw(10);
    if (!count) proto_put(out, data, size);
    for (uint32_t i = 0; i < count; i++) {
        const proto_field *f = &fields[i];
        const size_t bytes = (size_t)(f->end - f->start), body = (size_t)(f->end - f->body);
        proto_field *probe = fields + count; /* room behind the fields, for one */
        const int nests = f->wire == 2 && body && depth < PROTO_MOST_DEPTH &&
                          count < PROTO_MOST_FIELDS && proto_next(f->body, f->end, probe);
        if (i != pick || way == 0) {
            if (i != pick) proto_put(out, f->start, bytes);
        } else if (nests && way < 7) {
            proto_mutate(f->body, body, depth + 1, inner);
            proto_put_varint(out, (uint64_t)f->number << 3 | 2);
            proto_put_varint(out, inner->count);
            proto_put(out, inner->bytes, inner->count);
        } else if (way == 7) {
            proto_put(out, f->start, bytes);
            proto_put(out, fields[other].start, (size_t)(fields[other].end - fields[other].start));
        } else {
            proto_change(out, f);
        }
    }
    free(inner);
    free(fields);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    static proto_output out;
    proto_state = seed;
    if (!size || size > most || size > PROTO_MOST_BYTES / 2 || proto_draw(4) == 0)
        return LLVMFuzzerMutate(data, size, most);
    out.count = 0;
    proto_mutate(data, size, 0, &out);
    if (!out.count || out.count > most || out.count == sizeof out.bytes)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(data, out.bytes, out.count);
    return out.count;
}
#endif
