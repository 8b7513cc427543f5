/* gguf_text.h - Shared by the files that translate a GGUF tokenizer. */
#ifndef SL_ENGINE_FORMATS_GGUF_TEXT_H
#define SL_ENGINE_FORMATS_GGUF_TEXT_H
#include "engine/formats/gguf.h"

/* tokenizer.ggml.token_type */
enum {
    SL_GGUF_TOKEN_NORMAL = 1,
    SL_GGUF_TOKEN_UNKNOWN = 2,
    SL_GGUF_TOKEN_CONTROL = 3,
    SL_GGUF_TOKEN_USER = 4,
    SL_GGUF_TOKEN_UNUSED = 5,
    SL_GGUF_TOKEN_BYTE = 6,
};

/* gguf_pre.c: the stages before merging, in the form of tokenizer.json; the caller owns both. */
typedef struct {
    json_t *normalizer, *pre_tokenizer;
    bool ignore_merges;
    bool begins; /* adds the beginning-of-text token unless the file says otherwise */
} sl_gguf_pre;
SL_CHECKED sl_status sl_gguf_pre_find(const sl_gguf *gguf, sl_gguf_pre *out, sl_error *err);

/* gguf_vocab.c: a set of texts of an array, each of which is kept where it stands. */
typedef struct {
    const uint8_t **slots; /* as sl_gguf_next_text reads them; NULL: free */
    uint64_t slot_count;
    const sl_allocator *allocator;
} sl_gguf_names;
SL_CHECKED sl_status sl_gguf_names_init(sl_gguf_names *names, uint64_t count,
                                        const sl_allocator *allocator, sl_error *err);
void sl_gguf_names_deinit(sl_gguf_names *names);
/* Enters the text at this place unless the set has an equal one. */
void sl_gguf_names_enter(sl_gguf_names *names, const uint8_t *at);
/* The place of the text that equals this one, or NULL. */
const uint8_t *sl_gguf_names_find(const sl_gguf_names *names, sl_gguf_text text);

/* gguf_vocab.c: a JSON text that is written twice: first only to count its bytes. */
typedef struct {
    char *out; /* NULL: count */
    size_t bytes;
} sl_gguf_json;
void sl_gguf_json_put(sl_gguf_json *json, const char *text, size_t bytes); /* as it is */
void sl_gguf_json_string(sl_gguf_json *json, sl_gguf_text text); /* in quotes, with escapes */

/* gguf_pieces.c: the merges that make the pieces of a vocabulary with scores, best first: a piece
 * is made of any two others, and the one with the higher score is made first. */
typedef struct {
    sl_gguf_text piece;
    float score;
    uint32_t left; /* bytes of the first half */
} sl_gguf_merge;
typedef struct {
    sl_gguf_merge *items; /* to be freed, also after a failure */
    size_t count, capacity;
} sl_gguf_merges;
SL_CHECKED sl_status sl_gguf_merge_pieces(const sl_gguf *gguf, const sl_gguf_value *tokens,
                                          const sl_gguf_names *vocab, sl_gguf_merges *out,
                                          sl_error *err);
#endif
