/* token_table.h - The tokens of a vocabulary: bytes by id, id by name.
 *
 * A byte-level vocabulary writes each byte as one printable character ("Ġ" is the space); here
 * names are the bytes themselves, and names that use other characters are kept as they are.  Other
 * vocabularies are found by their names as written ("▁the", "<0x0A>"); their text is what the
 * decoder makes of those. */
#ifndef SL_ENGINE_TEXT_TOKEN_TABLE_H
#define SL_ENGINE_TEXT_TOKEN_TABLE_H
#include "engine/text/decoder.h"

typedef enum {
    SL_TOKEN_NONE,
    SL_TOKEN_BYTES, /* what plain text may become: of the byte alphabet where that is used */
    SL_TOKEN_NAME,  /* in the vocabulary, written otherwise */
    SL_TOKEN_ADDED,
} sl_token_kind;

typedef struct {
    const char *text, *name; /* the same in a byte-level vocabulary */
    uint32_t bytes, name_bytes;
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
    bool byte_level;
    size_t longest_name; /* bytes of the longest name in the vocabulary, as written there */
} sl_token_table;

/* vocab: an object of ids by name; added: an array of objects with id, content and special, or
 * NULL.  Everything is copied into arena. */
SL_CHECKED sl_status sl_token_table_init(sl_token_table *table, json_t *vocab, json_t *added,
                                         const sl_decoder *decoder, sl_arena *arena, sl_error *err);
/* The id of this name, or -1.  Where two tokens have the same, byte-level ones come before others.
 */
int32_t sl_token_table_find(const sl_token_table *table, sl_slice token);
/* The same among tokens that plain text may become: not added ones, nor those outside of the byte
 * alphabet. */
int32_t sl_token_table_find_word(const sl_token_table *table, sl_slice word);
/* Writes the bytes that a name of a byte-level vocabulary stands for (at most as many as it has)
 * and returns their number; *out_kind says how they were found. */
size_t sl_token_name_decode(sl_slice name, char *out, sl_token_kind *out_kind);
#endif
