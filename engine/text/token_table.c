#include "engine/text/token_table.h"
#include <string.h>
#include <xxhash.h>

/* Ids index arrays, so a single huge id must not allocate huge memory. */
enum { MAX_TOKENS = 1 << 22 };

/* The byte of a character of the byte alphabet, or -1.  Printable Latin-1 characters represent
 * themselves; the 68 other bytes are U+0100 and following. */
static int alphabet_byte(uint32_t character) {
    if ((character >= 33 && character <= 126) || (character >= 161 && character <= 255))
        return character == 173 ? -1 : (int)character;
    if (character < 256 || character > 323) return -1;
    if (character <= 288) return (int)character - 256; /* 0..32 */
    if (character == 289) return 127;
    if (character == 323) return 173;
    return (int)character - 290 + 128; /* 128..160 */
}

size_t sl_token_name_decode(sl_slice name, char *out, sl_token_kind *out_kind) {
    size_t at = 0, count = 0;
    *out_kind = SL_TOKEN_BYTES;
    while (at < name.bytes) {
        uint32_t character = 0;
        const size_t length = sl_utf8_decode(sl_slice_part(name, at, name.bytes), &character);
        const int byte = length ? alphabet_byte(character) : -1;
        if (byte < 0) {
            memcpy(out, name.text, name.bytes);
            *out_kind = SL_TOKEN_NAME;
            return name.bytes;
        }
        out[count++] = (char)byte;
        at += length;
    }
    return count;
}

static uint32_t hash_slice(sl_slice slice) {
    return (uint32_t)XXH3_64bits(slice.text, slice.bytes);
}

int32_t sl_token_table_find(const sl_token_table *table, sl_slice token) {
    const uint32_t hash = hash_slice(token);
    for (uint32_t at = hash & table->slot_mask;; at = (at + 1) & table->slot_mask) {
        const sl_token_slot slot = table->slots[at];
        if (slot.id < 0) return -1;
        if (slot.hash != hash) continue;
        const sl_token_entry *entry = &table->entries[slot.id];
        if (entry->name_bytes == token.bytes && memcmp(entry->name, token.text, token.bytes) == 0)
            return slot.id;
    }
}

int32_t sl_token_table_find_word(const sl_token_table *table, sl_slice word) {
    const int32_t id = sl_token_table_find(table, word);
    return id >= 0 && table->entries[id].kind == SL_TOKEN_BYTES ? id : -1;
}

/* Adds a token to the hash table unless its bytes are already there. */
static void enter(sl_token_table *table, int32_t id) {
    const sl_slice token = {table->entries[id].name, table->entries[id].name_bytes};
    if (sl_token_table_find(table, token) >= 0) return;
    const uint32_t hash = hash_slice(token);
    uint32_t at = hash & table->slot_mask;
    while (table->slots[at].id >= 0) at = (at + 1) & table->slot_mask;
    table->slots[at] = (sl_token_slot){hash, id};
}

static sl_status check_id(json_t *id, const char *name, sl_token_table *table, sl_error *err) {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= MAX_TOKENS)
        return sl_fail(err, SL_FORMAT, "token '%.64s' has no id from 0 to %d", name,
                       MAX_TOKENS - 1);
    const uint32_t value = (uint32_t)json_integer_value(id);
    if (value >= table->count) table->count = value + 1;
    return SL_OK;
}

/* Checks every id and name, and sums up the memory for the copies. */
static sl_status measure(sl_token_table *table, json_t *vocab, json_t *added, size_t *out_bytes,
                         sl_error *err) {
    const char *name;
    size_t bytes, index;
    json_t *value;
    *out_bytes = 0;
    json_object_keylen_foreach(vocab, name, bytes, value) {
        SL_TRY(check_id(value, name, table, err));
        *out_bytes += bytes;
        if (bytes > table->longest_name) table->longest_name = bytes;
    }
    json_array_foreach(added, index, value) {
        json_t *content = json_object_get(value, "content");
        if (!json_is_string(content))
            return sl_fail(err, SL_FORMAT, "added token %zu has no content string", index);
        SL_TRY(check_id(json_object_get(value, "id"), json_string_value(content), table, err));
        *out_bytes += json_string_length(content);
    }
    if (*out_bytes > UINT32_MAX)
        return sl_fail(err, SL_FORMAT,
                       "vocabulary has %zu bytes of names, at most 4 GiB are supported",
                       *out_bytes);
    return SL_OK;
}

/* Makes the entry of one name of the vocabulary; advances *pool. */
static sl_token_entry make_entry(sl_slice name, const sl_decoder *decoder, char **pool) {
    sl_token_kind kind = SL_TOKEN_BYTES;
    char *text = *pool;
    if (decoder->byte_level) {
        const uint32_t bytes = (uint32_t)sl_token_name_decode(name, text, &kind);
        *pool += bytes;
        return (sl_token_entry){text, text, bytes, bytes, (uint8_t)kind, false};
    }
    const uint32_t bytes = (uint32_t)sl_decoder_run(decoder, name, text);
    char *copy = text + bytes;
    if (name.bytes) memcpy(copy, name.text, name.bytes);
    *pool = copy + name.bytes;
    return (sl_token_entry){text, copy, bytes, (uint32_t)name.bytes, (uint8_t)kind, false};
}

static void copy_tokens(sl_token_table *table, json_t *vocab, json_t *added,
                        const sl_decoder *decoder, char *pool) {
    const char *name;
    size_t bytes, index;
    json_t *value;
    json_object_keylen_foreach(vocab, name, bytes, value)
        table->entries[json_integer_value(value)] =
        make_entry((sl_slice){name, bytes}, decoder, &pool);
    json_array_foreach(added, index, value) {
        json_t *content = json_object_get(value, "content");
        const uint32_t length = (uint32_t)json_string_length(content);
        sl_token_entry *entry = &table->entries[json_integer_value(json_object_get(value, "id"))];
        memcpy(pool, json_string_value(content), length);
        const bool same = entry->kind != SL_TOKEN_NONE && entry->name_bytes == length &&
                          memcmp(entry->name, pool, length) == 0;
        if (!same) *entry = (sl_token_entry){pool, pool, length, length, SL_TOKEN_ADDED, false};
        entry->special = json_is_true(json_object_get(value, "special"));
        pool += length;
    }
}

static sl_status index_tokens(sl_token_table *table, sl_arena *arena, sl_error *err) {
    uint32_t slots = 16;
    while (slots / 2 < table->count) slots *= 2;
    table->slots = SL_ARENA_NEW_ARRAY(arena, sl_token_slot, slots);
    if (!table->slots) return sl_no_memory(err, "token index", slots * sizeof *table->slots);
    table->slot_mask = slots - 1;
    for (uint32_t i = 0; i < slots; i++) table->slots[i].id = -1;
    for (int kind = SL_TOKEN_BYTES; kind <= SL_TOKEN_ADDED; kind++)
        for (uint32_t id = 0; id < table->count; id++)
            if (table->entries[id].kind == kind) enter(table, (int32_t)id);
    return SL_OK;
}

sl_status sl_token_table_init(sl_token_table *table, json_t *vocab, json_t *added,
                              const sl_decoder *decoder, sl_arena *arena, sl_error *err) {
    size_t bytes;
    *table = (sl_token_table){.byte_level = decoder->byte_level};
    if (!json_is_object(vocab)) return sl_fail(err, SL_FORMAT, "model has no object 'vocab'");
    if (added && !json_is_array(added) && !json_is_null(added))
        return sl_fail(err, SL_FORMAT, "added_tokens is not an array");
    SL_TRY(measure(table, vocab, added, &bytes, err));
    table->entries = SL_ARENA_NEW_ARRAY(arena, sl_token_entry, table->count);
    char *pool = sl_arena_alloc(arena, 2 * bytes, 1); /* names and texts */
    if (!table->entries || !pool)
        return sl_no_memory(err, "vocabulary", table->count * sizeof *table->entries + bytes);
    copy_tokens(table, vocab, added, decoder, pool);
    return index_tokens(table, arena, err);
}
