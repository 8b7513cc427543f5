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

/* gguf_pieces.c: derives the merges of a vocabulary with scores, best first: any two pieces whose
 * concatenation is a piece may merge, highest score first.  vocab maps names to ids.  Appends
 * ["left", "right"] to merges. */
SL_CHECKED sl_status sl_gguf_merge_pieces(const sl_gguf *gguf, const sl_gguf_value *tokens,
                                          json_t *vocab, json_t *merges, sl_error *err);
#endif
