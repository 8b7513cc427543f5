/* token_table.h - The tokens of a vocabulary: bytes by id, id by name.
 *
 * A byte-level vocabulary writes each byte as one printable character ("Ġ" is the space); here
 * names are the decoded bytes, and names that use other characters are kept unchanged.  Tokens of
 * other vocabularies are found by their names as written ("▁the", "<0x0A>"); their text is what the
 * decoder makes of the name. */
#ifndef SL_ENGINE_TEXT_TOKEN_TABLE_H
#define SL_ENGINE_TEXT_TOKEN_TABLE_H
#include "engine/text/decoder.h"
#include "engine/text/tokenizer_json.h"

typedef enum {
    SL_TOKEN_NONE,
    SL_TOKEN_BYTES, /* may result from plain text (byte-level: uses only the byte alphabet) */
    SL_TOKEN_NAME,  /* in the vocabulary, but with other characters */
    SL_TOKEN_ADDED,
} sl_token_kind;

/* Text and name may share their bytes; those of a byte-level vocabulary are the same. */
typedef struct {
    uint32_t text, name; /* offsets in the pool */
    uint32_t bytes;
    uint32_t name_bytes : 28;
    uint32_t kind : 2; /* sl_token_kind */
    uint32_t special : 1;
    uint32_t own_text : 1; /* text is an index of own_texts */
} sl_token_entry;

typedef struct {
    sl_token_entry *entries; /* by id */
    const char *pool;
    const char **own_texts;
    uint32_t *slots; /* open addressing by name: id + 1 and bits of the hash; 0: free */
    uint32_t slot_count;
    uint32_t own_count;
    uint32_t count; /* highest id + 1 */
    bool byte_level;
    size_t longest_name; /* length in bytes of the longest name, as written in the vocabulary */
} sl_token_table;

/* added: an array of objects with id, content and special, or NULL.  Everything is copied into
 * arena. */
SL_CHECKED sl_status sl_token_table_init(sl_token_table *table, const sl_tokenizer_json *json,
                                         json_t *added, const sl_decoder *decoder, sl_arena *arena,
                                         sl_error *err);
/* Of an id below count; empty where no token has it. */
sl_slice sl_token_table_text(const sl_token_table *table, uint32_t id);
sl_slice sl_token_table_name(const sl_token_table *table, uint32_t id);
/* Gives an added token another text, which lives as long as the table; at most once each. */
void sl_token_table_set_text(sl_token_table *table, uint32_t id, sl_slice text);
/* The id of this name, or -1.  Where two tokens have the same, byte-level ones come before others.
 */
int32_t sl_token_table_find(const sl_token_table *table, sl_slice token);
/* The same, but only among tokens that plain text may become: no added tokens, and none outside the
 * byte alphabet. */
int32_t sl_token_table_find_word(const sl_token_table *table, sl_slice word);
/* Writes the bytes of a name of a byte-level vocabulary (at most as many as it has) and returns
 * their number; *out_kind says which kind of name it is. */
size_t sl_token_name_decode(sl_slice name, char *out, sl_token_kind *out_kind);
#endif
