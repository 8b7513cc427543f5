/* regex.h - Regular expressions as text.
 *
 * The syntax is that of ECMAScript with the u flag: characters are Unicode characters, \d and \w
 * are ASCII, '.' is everything but line terminators.  Groups of all kinds, lazy quantifiers (they
 * match the same texts), anchors, and lookahead at the end of a branch or before all of its rest
 * are known.  Backreferences, lookbehind, \b and \B, and \p of what is not listed in regex.c are
 * refused. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_REGEX_H
#define SL_ENGINE_CHOOSE_GRAMMAR_REGEX_H
#include "engine/choose/grammar/expr.h"

typedef enum {
    SL_REGEX_WHOLE,  /* the whole text matches */
    SL_REGEX_SEARCH, /* some part of the text matches, as in JSON schemas */
} sl_regex_mode;
SL_CHECKED sl_status sl_regex_parse(sl_expr_pool *pool, const char *text, size_t bytes,
                                    sl_regex_mode mode, sl_expr *out, sl_error *err);
#endif
