#include "engine/text/protect.h"
#include <stdlib.h>
#include <string.h>

#define MARKER "\xEF\xB7\x90"
enum { MARKER_BYTES = sizeof MARKER - 1 };

static char *find_marker(const char *text, size_t bytes) {
    return memmem(text, bytes, MARKER, MARKER_BYTES);
}

/* Those that the text has already would be taken for ours. */
static size_t remove_markers(char *text, size_t bytes) {
    char *at = text;
    while ((at = find_marker(at, bytes - (size_t)(at - text))) != NULL) {
        memmove(at, at + MARKER_BYTES, bytes - (size_t)(at - text) - MARKER_BYTES);
        bytes -= MARKER_BYTES;
    }
    return bytes;
}

static json_t *protect_text(const sl_tokenizer *tokenizer, const json_t *value) {
    size_t bytes = json_string_length(value), length = 0;
    char *text = malloc(bytes + 1), *marked = malloc((MARKER_BYTES + 1) * bytes + 1);
    json_t *result = NULL;
    if (text && marked) {
        memcpy(text, json_string_value(value), bytes);
        bytes = remove_markers(text, bytes);
        size_t next = sl_tokenizer_find_special(tokenizer, text, bytes, 0);
        for (size_t at = 0; at < bytes; at++) {
            if (at == next) {
                memcpy(marked + length, MARKER, MARKER_BYTES);
                length += MARKER_BYTES;
                next = sl_tokenizer_find_special(tokenizer, text, bytes, at + 1);
            }
            marked[length++] = text[at];
        }
        result = json_stringn(marked, length);
    }
    free(text);
    free(marked);
    return result;
}

/* Recursion ends where that of the JSON parser did. */
json_t *sl_protect_value(const sl_tokenizer *tokenizer, const json_t *value) {
    if (json_is_string(value)) return protect_text(tokenizer, value);
    json_t *copy = json_copy((json_t *)(uintptr_t)value), *each;
    const char *key;
    size_t index;
    int failed = !copy;
    json_object_foreach(copy, key, each) failed |=
        json_object_set_new(copy, key, sl_protect_value(tokenizer, each));
    for (index = 0; index < json_array_size(copy); index++)
        failed |= json_array_set_new(copy, index,
                                     sl_protect_value(tokenizer, json_array_get(copy, index)));
    if (!failed) return copy;
    json_decref(copy);
    return NULL;
}

sl_status sl_protect_strip(char *text, size_t *bytes, sl_arena *arena, sl_plain_text *out,
                           sl_error *err) {
    const size_t most = *bytes / MARKER_BYTES;
    *out = (sl_plain_text){0};
    if (!find_marker(text, *bytes)) return SL_OK;
    size_t *offsets = SL_ARENA_NEW_ARRAY(arena, size_t, most);
    if (!offsets) return sl_no_memory(err, "a protected chat", most * sizeof *offsets);
    size_t length = 0;
    for (size_t at = 0; at < *bytes;) {
        if (*bytes - at >= MARKER_BYTES && memcmp(text + at, MARKER, MARKER_BYTES) == 0) {
            offsets[out->count++] = length;
            at += MARKER_BYTES;
        } else {
            text[length++] = text[at++];
        }
    }
    out->offsets = offsets;
    text[length] = '\0';
    *bytes = length;
    return SL_OK;
}
