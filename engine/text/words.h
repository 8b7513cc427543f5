/* words.h - Hand-written matchers for the split patterns of published tokenizers.  Each matches
 * exactly what its expression does in the dialect of pattern.h, with the classes of Unicode 16. */
#ifndef SL_ENGINE_TEXT_WORDS_H
#define SL_ENGINE_TEXT_WORDS_H
#include "base/utf8.h"

/* The number of bytes that the pattern matches at the start of well-formed, nonempty text; 0: no
 * match. */
typedef size_t sl_word_match(const unsigned char *text, const unsigned char *end);

/* The matcher of this regular expression; NULL if there is none. */
sl_word_match *sl_word_match_find(sl_slice pattern);
#endif
