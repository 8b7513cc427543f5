/* tokenizer.h - Byte pair encoding as described by a tokenizer.json: byte-level, or over characters
 * as in SentencePiece. */
#ifndef SL_ENGINE_TEXT_TOKENIZER_H
#define SL_ENGINE_TEXT_TOKENIZER_H
#include "base/memory.h"
#include "engine/text/added.h"
#include "sluice/sluice.h"
#include <stdbool.h>

typedef struct sl_tokenizer sl_tokenizer; /* immutable once created; shared by threads */

/* json: the text of tokenizer.json.  Unknown model types, options, normalizers, pre-tokenizers,
 * decoders or post-processors are an error that names them. */
SL_CHECKED sl_status sl_tokenizer_create(const char *json, size_t bytes,
                                         const sl_allocator *allocator, sl_tokenizer **out,
                                         sl_error *err);
void sl_tokenizer_destroy(sl_tokenizer *tokenizer);

uint32_t sl_tokenizer_vocab(const sl_tokenizer *tokenizer); /* highest id + 1 */
/* Encodes text, recognising added tokens; no special tokens are added.  *out_count is the number of
 * ids that the text needs, even if it exceeds capacity (then only the first `capacity` are
 * written).  text may contain any bytes. */
SL_CHECKED sl_status sl_tokenizer_encode(const sl_tokenizer *tokenizer, const char *text,
                                         size_t bytes, int32_t *ids, size_t capacity,
                                         size_t *out_count, sl_error *err);
/* The same of a text in which special tokens may be ordinary text. */
typedef struct {
    const char *text;
    size_t bytes;
    sl_plain_text plain;
} sl_tokenizer_input;
SL_CHECKED sl_status sl_tokenizer_encode_input(const sl_tokenizer *tokenizer,
                                               const sl_tokenizer_input *input, int32_t *ids,
                                               size_t capacity, size_t *out_count, sl_error *err);
/* The first offset at or after from where the text of a special token starts; bytes: none. */
size_t sl_tokenizer_find_special(const sl_tokenizer *tokenizer, const char *text, size_t bytes,
                                 size_t from);
/* Number of leading spaces to remove from decoded text, because encoding adds them. */
size_t sl_tokenizer_strip_start(const sl_tokenizer *tokenizer);
/* The special tokens before and after a text that is used without a chat template. */
size_t sl_tokenizer_before(const sl_tokenizer *tokenizer, const int32_t **out);
size_t sl_tokenizer_after(const sl_tokenizer *tokenizer, const int32_t **out);
/* The bytes of one token, borrowed; "" if the id is unused. */
const char *sl_tokenizer_text(const sl_tokenizer *tokenizer, int32_t id, size_t *out_bytes);
bool sl_tokenizer_is_special(const sl_tokenizer *tokenizer, int32_t id);
/* The id of exactly this token, or -1. */
int32_t sl_tokenizer_find(const sl_tokenizer *tokenizer, const char *text, size_t bytes);
#endif
