#include "engine/text/token_table.h"
#include <string.h>
#include <xxhash.h>

/* Ids index arrays, so a few huge ids must not allocate huge memory: so many ids are free, and so
 * many for each token. */
enum {
    MAX_TOKENS = 1 << 22,
    MAX_POOL_BYTES = (1 << 28) - 1,
    FREE_IDS = 1 << 16,
    IDS_PER_TOKEN = 16
};
/* A slot has id + 1 in its low bits, and bits of the hash above them. */
enum { ID_BITS = 23, ID_MASK = (1 << ID_BITS) - 1 };

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

/* ---- looking up ---- */

sl_slice sl_token_table_name(const sl_token_table *table, uint32_t id) {
    const sl_token_entry *entry = &table->entries[id];
    return (sl_slice){table->pool + entry->name, entry->name_bytes};
}

sl_slice sl_token_table_text(const sl_token_table *table, uint32_t id) {
    const sl_token_entry *entry = &table->entries[id];
    const char *text = entry->own_text ? table->own_texts[entry->text] : table->pool + entry->text;
    return (sl_slice){text, entry->bytes};
}

/* The slot that holds the name, or the free one where it belongs; *out_tag: its bits of the hash.
 */
static uint32_t *find_slot(const sl_token_table *table, sl_slice name, uint32_t *out_tag) {
    const uint64_t hash = XXH3_64bits(name.text, name.bytes);
    const uint32_t tag = (uint32_t)hash & ~(uint32_t)ID_MASK;
    uint32_t at = (uint32_t)((hash >> 32) * table->slot_count >> 32);
    *out_tag = tag;
    for (;; at = at + 1 == table->slot_count ? 0 : at + 1) {
        uint32_t *slot = &table->slots[at];
        if (*slot == 0) return slot;
        if ((*slot ^ tag) > ID_MASK) continue;
        const sl_slice found = sl_token_table_name(table, (*slot & ID_MASK) - 1);
        if (found.bytes == name.bytes && memcmp(found.text, name.text, name.bytes) == 0)
            return slot;
    }
}

int32_t sl_token_table_find(const sl_token_table *table, sl_slice token) {
    uint32_t tag;
    return (int32_t)(*find_slot(table, token, &tag) & ID_MASK) - 1;
}

int32_t sl_token_table_find_word(const sl_token_table *table, sl_slice word) {
    const int32_t id = sl_token_table_find(table, word);
    return id >= 0 && table->entries[id].kind == SL_TOKEN_BYTES ? id : -1;
}

void sl_token_table_set_text(sl_token_table *table, uint32_t id, sl_slice text) {
    sl_token_entry *entry = &table->entries[id];
    if (!entry->own_text) entry->text = table->own_count++;
    entry->own_text = true;
    entry->bytes = (uint32_t)text.bytes;
    table->own_texts[entry->text] = text.text;
}

/* ---- making a table ---- */

/* The tokens are read twice: to find out what they need, and into the memory for it. */
typedef struct {
    sl_token_table *table;
    const sl_tokenizer_json *json;
    const sl_decoder *decoder;
    char *pool; /* NULL the first time */
    size_t pool_bytes;
    bool replaced; /* a token has another name than the one it is indexed by */
    sl_error *err;
    uint64_t tokens; /* of both, read so far */
} builder;

static sl_status check_id(builder *b, bool there, uint64_t id, sl_slice name) {
    if (!there || id >= MAX_TOKENS)
        return sl_fail(b->err, SL_FORMAT, "token '%.*s' has no id from 0 to %d",
                       (int)(name.bytes < 64 ? name.bytes : 64), name.text, MAX_TOKENS - 1);
    if (id >= b->table->count) b->table->count = (uint32_t)id + 1;
    b->tokens++;
    return SL_OK;
}

static sl_status check_gaps(const builder *b) {
    if (b->table->count <= FREE_IDS + b->tokens * IDS_PER_TOKEN) return SL_OK;
    return sl_fail(b->err, SL_FORMAT, "a vocabulary of %llu tokens has ids up to %u",
                   (unsigned long long)b->tokens, b->table->count - 1);
}

/* Writes text and name of a token of the vocabulary to the pool. */
static sl_token_entry write_token(builder *b, sl_slice name) {
    sl_token_kind kind = SL_TOKEN_BYTES;
    char *text = b->pool ? b->pool + b->pool_bytes : b->json->scratch[1];
    const size_t bytes = b->decoder->byte_level ? sl_token_name_decode(name, text, &kind)
                                                : sl_decoder_run(b->decoder, name, text);
    sl_token_entry entry = {.text = (uint32_t)b->pool_bytes,
                            .name = (uint32_t)b->pool_bytes,
                            .bytes = (uint32_t)bytes,
                            .name_bytes = (uint32_t)bytes & MAX_POOL_BYTES,
                            .kind = kind};
    b->pool_bytes += bytes;
    const bool same = bytes == name.bytes && memcmp(text, name.text, bytes) == 0;
    if (b->decoder->byte_level || same) return entry;
    if (b->pool && name.bytes) memcpy(text + bytes, name.text, name.bytes);
    entry.name = (uint32_t)b->pool_bytes;
    entry.name_bytes = (uint32_t)name.bytes & MAX_POOL_BYTES;
    b->pool_bytes += name.bytes;
    return entry;
}

static sl_status add_token(builder *b, sl_slice name, uint64_t id) {
    const sl_token_entry made = write_token(b, name);
    if (!b->pool) {
        if (name.bytes > b->table->longest_name) b->table->longest_name = name.bytes;
        return SL_OK;
    }
    sl_token_entry *entry = &b->table->entries[id];
    if (entry->kind != SL_TOKEN_NONE && !b->json->unique_keys)
        return sl_fail(b->err, SL_FORMAT, "two tokens have the id %llu", (unsigned long long)id);
    *entry = made;
    return SL_OK;
}

static sl_status add_vocab(builder *b) {
    sl_json_scan scan = sl_json_scan_of(b->json->vocab);
    while (sl_json_scan_next(&scan)) {
        sl_slice name;
        uint64_t id = 0;
        if (!sl_json_scan_string(&scan, b->json->scratch[0], &name) ||
            !sl_json_scan_take(&scan, ':'))
            break;
        const bool there = sl_json_scan_count(&scan, &id);
        SL_TRY(check_id(b, there, id, name));
        SL_TRY(add_token(b, name, id));
    }
    return scan.failed ? sl_fail(b->err, SL_FORMAT, "the vocabulary is malformed") : SL_OK;
}

static sl_status add_added(builder *b, json_t *value, size_t index) {
    json_t *content = json_object_get(value, "content"), *number = json_object_get(value, "id");
    if (!json_is_string(content))
        return sl_fail(b->err, SL_FORMAT, "added token %zu has no content string", index);
    const sl_slice name = {json_string_value(content), json_string_length(content)};
    const json_int_t id = json_integer_value(number);
    SL_TRY(check_id(b, json_is_integer(number) && id >= 0, (uint64_t)id, name));
    b->pool_bytes += name.bytes;
    if (!b->pool) return SL_OK;
    const size_t start = b->pool_bytes - name.bytes;
    sl_token_entry *entry = &b->table->entries[id];
    memcpy(b->pool + start, name.text, name.bytes);
    const bool same = entry->kind != SL_TOKEN_NONE && entry->name_bytes == name.bytes &&
                      memcmp(b->pool + entry->name, name.text, name.bytes) == 0;
    if (!same && entry->kind != SL_TOKEN_NONE) b->replaced = true;
    if (!same)
        *entry = (sl_token_entry){.text = (uint32_t)start,
                                  .name = (uint32_t)start,
                                  .bytes = (uint32_t)name.bytes,
                                  .name_bytes = (uint32_t)name.bytes & MAX_POOL_BYTES,
                                  .kind = SL_TOKEN_ADDED};
    entry->special = json_is_true(json_object_get(value, "special"));
    return SL_OK;
}

/* Enters one token unless its name has a slot. */
static sl_status enter(builder *b, uint32_t id) {
    uint32_t tag;
    const sl_token_entry *entries = b->table->entries;
    uint32_t *slot = find_slot(b->table, sl_token_table_name(b->table, id), &tag);
    if (*slot == 0)
        *slot = tag | (id + 1);
    else if (!b->json->unique_keys && entries[id].kind != SL_TOKEN_ADDED &&
             entries[(*slot & ID_MASK) - 1].kind == entries[id].kind)
        return sl_fail(b->err, SL_FORMAT, "a token is in the vocabulary twice");
    return SL_OK;
}

/* Kinds from the first one on; the lowest kind that has a name gets its slot. */
static sl_status index_tokens(builder *b, uint32_t first_kind) {
    for (uint32_t kind = first_kind; kind <= SL_TOKEN_ADDED; kind++)
        for (uint32_t id = 0; id < b->table->count; id++)
            if (b->table->entries[id].kind == kind) SL_TRY(enter(b, id));
    return SL_OK;
}

/* Equal names are looked for before added tokens can replace one of them. */
static sl_status add_all(builder *b, json_t *added) {
    size_t index;
    json_t *value;
    b->pool_bytes = 0;
    SL_TRY(add_vocab(b));
    if (b->pool) SL_TRY(index_tokens(b, SL_TOKEN_BYTES));
    json_array_foreach(added, index, value) SL_TRY(add_added(b, value, index));
    if (b->pool_bytes <= MAX_POOL_BYTES) return SL_OK;
    return sl_fail(b->err, SL_FORMAT, "vocabulary has %zu bytes of names, most 256 MiB",
                   b->pool_bytes);
}

static sl_status make_room(builder *b, size_t added, sl_arena *arena) {
    sl_token_table *table = b->table;
    table->slot_count = 2 * table->count + 1;
    table->entries = SL_ARENA_NEW_ARRAY(arena, sl_token_entry, table->count);
    table->slots = SL_ARENA_NEW_ARRAY(arena, uint32_t, table->slot_count);
    table->own_texts = SL_ARENA_NEW_ARRAY(arena, const char *, table->byte_level ? 0 : added);
    table->pool = b->pool = sl_arena_alloc(arena, b->pool_bytes + 1, 1);
    if (table->entries && table->slots && table->own_texts && b->pool) return SL_OK;
    return sl_no_memory(b->err, "vocabulary",
                        table->count * sizeof *table->entries + b->pool_bytes);
}

sl_status sl_token_table_init(sl_token_table *table, const sl_tokenizer_json *json, json_t *added,
                              const sl_decoder *decoder, sl_arena *arena, sl_error *err) {
    builder b = {.table = table, .json = json, .decoder = decoder, .err = err};
    *table = (sl_token_table){.byte_level = decoder->byte_level};
    if (!json->vocab.text) return sl_fail(err, SL_FORMAT, "model has no object 'vocab'");
    if (added && !json_is_array(added) && !json_is_null(added))
        return sl_fail(err, SL_FORMAT, "added_tokens is not an array");
    SL_TRY(add_all(&b, added));
    SL_TRY(check_gaps(&b));
    SL_TRY(make_room(&b, json_array_size(added), arena));
    SL_TRY(add_all(&b, added));
    if (!b.replaced) return index_tokens(&b, SL_TOKEN_ADDED);
    memset(table->slots, 0, table->slot_count * sizeof *table->slots);
    return index_tokens(&b, SL_TOKEN_BYTES);
}
