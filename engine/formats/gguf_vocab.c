/* gguf_vocab.c - The parts of a GGUF file's tokenizer that are too long for a tree of JSON values:
 * a set of names without copies of them, and JSON that is written as text. */
#include "engine/formats/gguf_text.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- names ---- */

sl_status sl_gguf_names_init(sl_gguf_names *names, uint64_t count, const sl_allocator *allocator,
                             sl_error *err) {
    const uint64_t most = SIZE_MAX / 4 / sizeof *names->slots;
    *names = (sl_gguf_names){.allocator = allocator};
    if (count < most)
        names->slots = sl_allocate(allocator, (count + count / 2 + 1) * sizeof *names->slots,
                                   _Alignof(const uint8_t *));
    if (!names->slots) return sl_no_memory(err, "names of tokens", count);
    names->slot_count = count + count / 2 + 1;
    return SL_OK;
}

void sl_gguf_names_deinit(sl_gguf_names *names) {
    sl_release(names->allocator, names->slots, names->slot_count * sizeof *names->slots,
               _Alignof(const uint8_t *));
}

/* The slot that holds this text, or the free one where it belongs. */
static const uint8_t **find_slot(const sl_gguf_names *names, sl_gguf_text text) {
    uint64_t at = XXH3_64bits(text.data, text.bytes) % names->slot_count;
    while (names->slots[at]) {
        const uint8_t *place = names->slots[at];
        const sl_gguf_text found = sl_gguf_next_text(&place);
        if (found.bytes == text.bytes && memcmp(found.data, text.data, text.bytes) == 0) break;
        at = at + 1 == names->slot_count ? 0 : at + 1;
    }
    return &names->slots[at];
}

void sl_gguf_names_enter(sl_gguf_names *names, const uint8_t *at) {
    const uint8_t *place = at;
    const uint8_t **slot = find_slot(names, sl_gguf_next_text(&place));
    if (!*slot) *slot = at;
}

const uint8_t *sl_gguf_names_find(const sl_gguf_names *names, sl_gguf_text text) {
    return *find_slot(names, text);
}

/* ---- JSON ---- */

void sl_gguf_json_put(sl_gguf_json *json, const char *text, size_t bytes) {
    if (json->out && bytes) memcpy(json->out + json->bytes, text, bytes);
    json->bytes += bytes;
}

void sl_gguf_json_string(sl_gguf_json *json, sl_gguf_text text) {
    uint64_t done = 0;
    sl_gguf_json_put(json, "\"", 1);
    for (uint64_t i = 0; i < text.bytes; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        char escape[8];
        if (byte >= ' ' && byte != '"' && byte != '\\') continue;
        sl_gguf_json_put(json, text.data + done, i - done);
        (void)snprintf(escape, sizeof escape, "\\u%04x", byte);
        sl_gguf_json_put(json, escape, 6);
        done = i + 1;
    }
    sl_gguf_json_put(json, text.data + done, text.bytes - done);
    sl_gguf_json_put(json, "\"", 1);
}
