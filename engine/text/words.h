/* words.h - Matchers for the split patterns that published tokenizers use, written out by hand.
 *
 * Each does exactly what its expression says in the dialect of pattern.h, alternatives in order,
 * over the classes of Unicode 16. */
#ifndef SL_ENGINE_TEXT_WORDS_H
#define SL_ENGINE_TEXT_WORDS_H
#include "base/utf8.h"

/* How many bytes the pattern matches at the front of well-formed text, which is not empty; 0: it
 * does not. */
typedef size_t sl_word_match(const unsigned char *text, const unsigned char *end);

/* The matcher of this regular expression, NULL when there is none. */
sl_word_match *sl_word_match_find(sl_slice pattern);
#endif
