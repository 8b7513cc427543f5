/* token_table.h - The tokens of a vocabulary: bytes by id, id by bytes.
 *
 * A byte-level vocabulary writes each byte as one printable character ("Ġ" is the space); here
 * tokens hold the bytes themselves.  Names that use other characters are kept as they are. */
#ifndef SL_ENGINE_TEXT_TOKEN_TABLE_H
#define SL_ENGINE_TEXT_TOKEN_TABLE_H
#include "base/memory.h"
#include "engine/text/utf8.h"
#include <jansson.h>

typedef enum {
    SL_TOKEN_NONE,
    SL_TOKEN_BYTES, /* written in the byte alphabet */
    SL_TOKEN_NAME,  /* in the vocabulary, written otherwise */
    SL_TOKEN_ADDED,
} sl_token_kind;

typedef struct {
    const char *text;
    uint32_t bytes;
    uint8_t kind; /* sl_token_kind */
    bool special;
} sl_token_entry;

typedef struct {
    uint32_t hash;
    int32_t id; /* -1: free */
} sl_token_slot;

typedef struct {
    sl_token_entry *entries; /* by id */
    sl_token_slot *slots;
    uint32_t count; /* highest id + 1 */
    uint32_t slot_mask;
    size_t longest_name; /* bytes of the longest name in the vocabulary, as written there */
} sl_token_table;

/* vocab: an object of ids by name; added: an array of objects with id, content and special, or
 * NULL.  Everything is copied into arena. */
SL_CHECKED sl_status sl_token_table_init(sl_token_table *table, json_t *vocab, json_t *added,
                                         sl_arena *arena, sl_error *err);
/* The id, or -1.  Where two tokens have the same bytes, byte-level ones come before others. */
int32_t sl_token_table_find(const sl_token_table *table, sl_slice token);
/* The same among tokens that plain text may become: those written in the byte alphabet. */
int32_t sl_token_table_find_word(const sl_token_table *table, sl_slice word);
/* Writes the bytes that name stands for (at most as many as it has) and returns their number;
 * *out_kind says how they were found. */
size_t sl_token_name_decode(sl_slice name, char *out, sl_token_kind *out_kind);
#endif
