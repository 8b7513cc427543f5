/* added.h - Added tokens: texts that become one token wherever they stand, before splitting. */
#ifndef SL_ENGINE_TEXT_ADDED_H
#define SL_ENGINE_TEXT_ADDED_H
#include "base/utf8.h"

typedef struct {
    sl_slice content; /* never empty */
    sl_slice name;    /* the same before it was normalised */
    int32_t id;
    bool special;
    bool single_word; /* only where no letter or digit touches it */
    bool takes_spaces_before, takes_spaces_after;
} sl_added_token;

/* Immutable once indexed. */
typedef struct {
    sl_added_token *tokens; /* by content */
    size_t count;
    bool starts[256]; /* the first bytes of contents */
} sl_added_set;

/* Orders the tokens that were put into set. */
void sl_added_set_index(sl_added_set *set);

typedef struct {
    sl_span span; /* with the spaces it takes */
    int32_t id;   /* -1: none was found, the span is empty at the end of the text */
} sl_added_match;

/* Where special tokens are ordinary text. */
typedef struct {
    bool everywhere;
    const size_t *offsets; /* of their first bytes, ascending */
    size_t count;
} sl_plain_text;

/* The first token at or after from; the longest where several start. */
sl_added_match sl_added_set_find(const sl_added_set *set, sl_slice text, size_t from,
                                 const sl_plain_text *plain);
/* The first offset at or after from where the text of a special token starts; text.bytes: none. */
size_t sl_added_set_find_special(const sl_added_set *set, sl_slice text, size_t from);
#endif
