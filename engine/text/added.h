/* added.h - Added tokens: texts that become one token wherever they occur, before the text is
 * split. */
#ifndef SL_ENGINE_TEXT_ADDED_H
#define SL_ENGINE_TEXT_ADDED_H
#include "base/error.h"
#include "base/utf8.h"

typedef struct {
    sl_slice content; /* never empty */
    int32_t id;
    bool single_word; /* matches only if no word character is adjacent */
    bool takes_spaces_before, takes_spaces_after;
} sl_added_token;

/* Immutable after sl_added_set_index. */
typedef struct {
    sl_added_token *tokens; /* sorted by content */
    size_t count;
    bool starts[256]; /* bytes with which some content starts */
} sl_added_set;

/* Sorts the tokens that were put into the set. */
void sl_added_set_index(sl_added_set *set);

typedef struct {
    sl_span span; /* including the spaces that it absorbs */
    int32_t id;   /* -1: not found; the span is then empty, at the end of the text */
} sl_added_match;

/* The steps that searches for the added tokens of a text may take together.  Those of published
 * tokenizers take less than one per byte. */
static inline uint64_t sl_added_steps(size_t text_bytes) {
    return (UINT64_C(1) << 20) + 256 * (uint64_t)text_bytes;
}
/* The first token at or after from; the longest where several start.  Takes the steps it needs from
 * *left and fails when there are no more. */
SL_CHECKED sl_status sl_added_set_find(const sl_added_set *set, sl_slice text, size_t from,
                                       uint64_t *left, sl_added_match *out, sl_error *err);
#endif
