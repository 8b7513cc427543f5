/* added.h - Added tokens: texts that become one token wherever they occur, before the text is
 * split. */
#ifndef SL_ENGINE_TEXT_ADDED_H
#define SL_ENGINE_TEXT_ADDED_H
#include "base/error.h"
#include "base/utf8.h"

typedef struct {
    sl_slice content; /* never empty */
    sl_slice name;    /* the same before it was normalised */
    int32_t id;
    bool special;
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

/* Where special tokens are ordinary text. */
typedef struct {
    bool everywhere;
    const size_t *offsets; /* of their first bytes, ascending */
    size_t count;
} sl_plain_text;

/* The steps that searches for the added tokens of a text may take together.  Those of published
 * tokenizers take less than one per byte. */
static inline uint64_t sl_added_steps(size_t text_bytes) {
    return (UINT64_C(1) << 20) + 256 * (uint64_t)text_bytes;
}
typedef struct {
    uint64_t left; /* steps */
    sl_added_match match;
} sl_added_search;
/* Finds the first token at or after `from`, the longest if several start there.  Takes the steps
 * that it needs from search->left and fails when there are no more. */
SL_CHECKED sl_status sl_added_set_find(const sl_added_set *set, sl_slice text, size_t from,
                                       const sl_plain_text *plain, sl_added_search *search,
                                       sl_error *err);
/* The first offset at or after from where the text of a special token starts; text.bytes: none. */
size_t sl_added_set_find_special(const sl_added_set *set, sl_slice text, size_t from);
#endif
