/* token_table.h - The tokens of a vocabulary: bytes by id, id by name.
 *
 * A byte-level vocabulary writes each byte as one printable character ("Ġ" is the space); here
 * names are the decoded bytes, and names that use other characters are kept unchanged.  Tokens of
 * other vocabularies are found by their names as written ("▁the", "<0x0A>"); their text is what the
 * decoder makes of the name. */
#ifndef SL_ENGINE_TEXT_TOKEN_TABLE_H
#define SL_ENGINE_TEXT_TOKEN_TABLE_H
#include "engine/text/decoder.h"

typedef enum {
    SL_TOKEN_NONE,
    SL_TOKEN_BYTES, /* may result from plain text (byte-level: uses only the byte alphabet) */
    SL_TOKEN_NAME,  /* in the vocabulary, but with other characters */
    SL_TOKEN_ADDED,
} sl_token_kind;

typedef struct {
    const char *text, *name; /* equal in a byte-level vocabulary */
    uint32_t bytes, name_bytes;
    uint8_t kind; /* sl_token_kind */
    bool special;
} sl_token_entry;

typedef struct {
    uint32_t hash;
    int32_t id; /* -1: free */
} sl_token_slot;

typedef struct {
    sl_token_entry *entries; /* indexed by id */
    sl_token_slot *slots;
    uint32_t count; /* highest id + 1 */
    uint32_t slot_mask;
    bool byte_level;
    size_t longest_name; /* length in bytes of the longest name, as written in the vocabulary */
} sl_token_table;

/* vocab: an object that maps names to ids; added: an array of objects with id, content and special,
 * or NULL.  Everything is copied into the arena. */
SL_CHECKED sl_status sl_token_table_init(sl_token_table *table, json_t *vocab, json_t *added,
                                         const sl_decoder *decoder, sl_arena *arena, sl_error *err);
/* The id of this name, or -1.  If two tokens have the same name, byte-level ones take
 * precedence. */
int32_t sl_token_table_find(const sl_token_table *table, sl_slice token);
/* The same, but only among tokens that plain text may become: no added tokens, and none outside the
 * byte alphabet. */
int32_t sl_token_table_find_word(const sl_token_table *table, sl_slice word);
/* Writes the bytes of a name of a byte-level vocabulary (at most as many as it has) and returns
 * their number; *out_kind says which kind of name it is. */
size_t sl_token_name_decode(sl_slice name, char *out, sl_token_kind *out_kind);
#endif
