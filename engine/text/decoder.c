#include "engine/text/decoder.h"
#include <string.h>

/* ---- reading tokenizer.json ---- */

typedef struct {
    sl_decoder *decoder;
    sl_arena *arena;
    bool fused; /* Fuse was seen: later steps apply to the whole text */
} reader;

static sl_status add_replacement(reader *in, json_t *from, json_t *to, sl_error *err) {
    sl_decoder *decoder = in->decoder;
    if (!json_is_string(from) || !json_is_string(to) || json_string_length(from) == 0)
        return sl_fail(err, SL_FORMAT, "decoder Replace has no pattern String and content");
    if (json_string_length(to) > json_string_length(from) ||
        decoder->replacement_count == SL_DECODER_REPLACEMENTS)
        return sl_fail(err, SL_UNSUPPORTED,
                       "decoder Replace of '%.64s' by something longer, or more than %d of them",
                       json_string_value(from), SL_DECODER_REPLACEMENTS);
    char *copies[2] = {
        sl_arena_copy_text(in->arena, json_string_value(from), json_string_length(from)),
        sl_arena_copy_text(in->arena, json_string_value(to), json_string_length(to)),
    };
    if (!copies[0] || !copies[1]) return sl_no_memory(err, "decoder", json_string_length(from));
    decoder->replacements[decoder->replacement_count].from =
        (sl_slice){copies[0], json_string_length(from)};
    decoder->replacements[decoder->replacement_count++].to =
        (sl_slice){copies[1], json_string_length(to)};
    return SL_OK;
}

static sl_status read_strip(reader *in, json_t *json, sl_error *err) {
    const char *content = json_string_value(json_object_get(json, "content"));
    const json_int_t start = json_integer_value(json_object_get(json, "start"));
    const json_int_t stop = json_integer_value(json_object_get(json, "stop"));
    if (!in->fused || !content || strcmp(content, " ") != 0 || stop != 0 || start < 0 || start > 64)
        return sl_fail(err, SL_UNSUPPORTED,
                       "decoder Strip is only supported for spaces at the start of the fused text");
    in->decoder->strip_start = (uint32_t)start;
    return SL_OK;
}

static sl_status read_metaspace(reader *in, json_t *json, sl_error *err) {
    const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
    json_t *from = json_object_get(json, "replacement"), *space = json_string(" ");
    json_t *fallback = from ? NULL : json_string("\xE2\x96\x81");
    const sl_status status = add_replacement(in, from ? from : fallback, space, err);
    json_decref(space);
    json_decref(fallback);
    in->decoder->strip_start = !scheme || strcmp(scheme, "never") != 0;
    return status;
}

static sl_status read_steps(reader *in, json_t *json, sl_error *err) {
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type) return sl_fail(err, SL_FORMAT, "a decoder has no type");
    if (strcmp(type, "Sequence") == 0) {
        json_t *list = json_object_get(json, "decoders"), *each;
        size_t index;
        if (!json_is_array(list))
            return sl_fail(err, SL_FORMAT, "decoder Sequence has no array 'decoders'");
        json_array_foreach(list, index, each) SL_TRY(read_steps(in, each, err));
        return SL_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) return SL_OK; /* follows from the pre-tokenizer */
    if (strcmp(type, "Strip") == 0) return read_strip(in, json, err);
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(in, json, err);
    if (strcmp(type, "Replace") == 0)
        return add_replacement(in, json_object_get(json_object_get(json, "pattern"), "String"),
                               json_object_get(json, "content"), err);
    if (strcmp(type, "ByteFallback") == 0) {
        in->decoder->byte_names = true;
        return SL_OK;
    }
    if (strcmp(type, "Fuse") == 0) {
        in->fused = true;
        return SL_OK;
    }
    return sl_fail(err, SL_UNSUPPORTED,
                   "decoder type '%.64s' is not supported, only ByteLevel, Metaspace, Replace, "
                   "ByteFallback, Fuse, Strip and Sequence",
                   type);
}

sl_status sl_decoder_init(sl_decoder *decoder, json_t *json, bool byte_level, sl_arena *arena,
                          sl_error *err) {
    reader in = {decoder, arena, false};
    *decoder = (sl_decoder){.byte_level = byte_level};
    return json && !json_is_null(json) ? read_steps(&in, json, err) : SL_OK;
}

/* ---- decoding ---- */

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

int sl_byte_name_value(sl_slice name) {
    if (name.bytes != 6 || memcmp(name.text, "<0x", 3) != 0 || name.text[5] != '>') return -1;
    const int high = hex_value(name.text[3]), low = hex_value(name.text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static size_t replace(char *text, size_t bytes, sl_slice from, sl_slice to) {
    size_t read = 0, written = 0;
    while (read < bytes) {
        if (bytes - read >= from.bytes && memcmp(text + read, from.text, from.bytes) == 0) {
            if (to.bytes) memcpy(text + written, to.text, to.bytes);
            written += to.bytes;
            read += from.bytes;
        } else {
            text[written++] = text[read++];
        }
    }
    return written;
}

size_t sl_decoder_run(const sl_decoder *decoder, sl_slice name, char *out) {
    const int byte = decoder->byte_names ? sl_byte_name_value(name) : -1;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    size_t bytes = name.bytes;
    if (bytes) memcpy(out, name.text, bytes);
    for (uint32_t i = 0; i < decoder->replacement_count; i++)
        bytes = replace(out, bytes, decoder->replacements[i].from, decoder->replacements[i].to);
    return bytes;
}
