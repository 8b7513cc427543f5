/* matcher.h - A grammar followed token by token: which tokens may come next.
 *
 * Forks share what was found out about the grammar, so a matcher and its forks are used by one
 * thread at a time.  A grammar and the tries of a vocabulary may be shared by threads. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_MATCHER_H
#define SL_ENGINE_CHOOSE_GRAMMAR_MATCHER_H
#include "engine/choose/grammar/engine.h"
#include "engine/choose/grammar/trie.h"
#include "sluice/sluice.h"

typedef struct sl_matcher sl_matcher;
/* automaton and tries are borrowed. */
SL_CHECKED sl_status sl_matcher_create(const sl_automaton *automaton, const sl_token_tries *tries,
                                       const sl_allocator *allocator, sl_matcher **out,
                                       sl_error *err);
void sl_matcher_destroy(sl_matcher *matcher);
SL_CHECKED sl_status sl_matcher_fork(const sl_matcher *matcher, sl_matcher **out, sl_error *err);

/* allowed: sl_mask_words(vocab) words, of which those beyond the tries' vocabulary become 0. */
SL_CHECKED sl_status sl_matcher_mask(sl_matcher *matcher, uint32_t *allowed, size_t words,
                                     sl_error *err);
/* SL_INVALID if the token is not allowed; the matcher is unchanged then. */
SL_CHECKED sl_status sl_matcher_accept(sl_matcher *matcher, sl_token token, const char *text,
                                       size_t bytes, sl_error *err);
SL_CHECKED sl_status sl_matcher_rollback(sl_matcher *matcher, size_t tokens, sl_error *err);
size_t sl_matcher_length(const sl_matcher *matcher); /* tokens accepted */
bool sl_matcher_accepts(const sl_matcher *matcher);  /* the text may end here */
bool sl_matcher_finished(const sl_matcher *matcher); /* an end token was accepted */

/* The bytes that must come next, at most capacity of them: those to which there is no alternative.
 */
SL_CHECKED sl_status sl_matcher_forced(sl_matcher *matcher, char *out, size_t capacity,
                                       size_t *out_bytes, sl_error *err);
/* Whether a token that begins with the given bytes and is longer may follow: text is a part of the
 * forced bytes from some offset to their end, `before` the forced bytes before it. */
SL_CHECKED sl_status sl_matcher_spans(sl_matcher *matcher, const char *forced, size_t bytes,
                                      size_t from, bool *out, sl_error *err);
#endif
