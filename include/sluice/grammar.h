/* grammar.h - Output that follows a grammar: a JSON schema, a regular expression, a grammar in the
 * GBNF syntax, a list of choices, or tool calls.  May still change.
 *
 *   sl_grammar_compile            text of a grammar to a grammar; or sl_grammar_cache_compile
 *   sl_grammar_vocabulary_*       the tokens of a model, prepared once
 *   sl_grammar_state_create       a text that follows the grammar, token by token
 *   sl_grammar_state_mask         which tokens may come next; sample one of them, then
 *   sl_grammar_state_accept       tell which one it was
 *
 * Whatever the masks allow can be continued to a text of the grammar.  What a grammar asks for and
 * cannot be kept exactly is SL_UNSUPPORTED, with a message that names it; for a JSON schema, the
 * JSON pointer of the keyword.
 *
 * JSON schemas: properties come in any order, each that the schema names once; others may repeat.
 * Objects are open where the schema does not say otherwise.  In strings with a
 * pattern, format or length, and in names, characters are written as they are, and escaped only
 * where JSON demands it or with a short escape.  Numbers with bounds other than 0 or multipleOf
 * have no exponent.  Formats of the standard are checked, others are ignored.  Not supported:
 * uniqueItems, contains, unevaluated*, references to other documents, and negations (not, oneOf,
 * if) of what cannot be negated. */
#ifndef SLUICE_GRAMMAR_H
#define SLUICE_GRAMMAR_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SL_GRAMMAR_JSON_SCHEMA = 0,
    SL_GRAMMAR_REGEX = 1,   /* the whole text matches; syntax of ECMAScript with the u flag, without
                             * backreferences, lookbehind and word boundaries */
    SL_GRAMMAR_GBNF = 2,    /* begins with rule "root"; no rule may begin with itself */
    SL_GRAMMAR_CHOICES = 3, /* one of several texts: a JSON array of strings */
} sl_grammar_kind;

typedef struct {
    size_t struct_size;
    uint32_t whitespace; /* JSON: after '{', '[', ',', ':' and before '}', ']' there may be a space,
                          * or a line break and at most so many spaces or tabs; default 40 */
    int compact;         /* JSON: nonzero: no whitespace */
    int closed;          /* JSON: nonzero: objects with properties have no others where the schema
                          * does not say so (additionalProperties) */
    int ordered;         /* JSON: nonzero: properties come in the order of the schema */
    sl_allocator allocator; /* default: the C library's; must outlive what is made from the grammar
                             */
} sl_grammar_options;

typedef struct sl_grammar sl_grammar; /* immutable, shared by threads */
/* Hostile texts are refused within bounded time and memory. */
SL_API SL_CHECKED sl_status sl_grammar_compile(sl_grammar_kind kind, const char *text, size_t bytes,
                                               const sl_grammar_options *options, sl_grammar **out,
                                               sl_error *err);
/* States keep what they need of a grammar, so it may be closed before them. */
SL_API void sl_grammar_close(sl_grammar *grammar); /* NULL is fine */

/* A part of the output between two texts, such as the arguments of a tool call. */
typedef struct {
    const char *begin;    /* must begin with the trigger */
    sl_grammar_kind kind; /* of body */
    const char *body;
    const char *end;
} sl_grammar_tag; /* closed */
/* Any text, until the trigger appears: then one of the tags follows, and any text again.  Tokens
 * that are no text (special tokens) are allowed outside of tags, and count as their text. */
SL_API SL_CHECKED sl_status sl_grammar_compile_tags(const sl_grammar_tag *tags, size_t count,
                                                    const char *trigger,
                                                    const sl_grammar_options *options,
                                                    sl_grammar **out, sl_error *err);

/* Compiled grammars by kind, text and options; the oldest are forgotten.  For one thread at a time.
 */
typedef struct sl_grammar_cache sl_grammar_cache;
SL_API SL_CHECKED sl_status sl_grammar_cache_create(uint32_t capacity, sl_grammar_cache **out,
                                                    sl_error *err);
SL_API void sl_grammar_cache_destroy(sl_grammar_cache *cache); /* NULL is fine */
/* As sl_grammar_compile; *out is closed as well. */
SL_API SL_CHECKED sl_status sl_grammar_cache_compile(sl_grammar_cache *cache, sl_grammar_kind kind,
                                                     const char *text, size_t bytes,
                                                     const sl_grammar_options *options,
                                                     sl_grammar **out, sl_error *err);

/* The tokens of a model or of a vocabulary, which must outlive it.  Shared by threads.  Special
 * tokens are never text; end tokens are allowed where the grammar is satisfied. */
typedef struct sl_grammar_vocabulary sl_grammar_vocabulary;
SL_API SL_CHECKED sl_status sl_grammar_vocabulary_of_model(const sl_model *model,
                                                           sl_grammar_vocabulary **out,
                                                           sl_error *err);
SL_API SL_CHECKED sl_status sl_grammar_vocabulary_create(const sl_vocabulary *vocabulary,
                                                         const sl_token *end_tokens,
                                                         size_t end_count,
                                                         sl_grammar_vocabulary **out,
                                                         sl_error *err);
SL_API void sl_grammar_vocabulary_close(sl_grammar_vocabulary *vocabulary); /* NULL is fine */
SL_API uint32_t sl_grammar_vocabulary_size(const sl_grammar_vocabulary *vocabulary);

/* A text that is being written.  States that were forked from one another are used by one thread at
 * a time. */
typedef struct sl_grammar_state sl_grammar_state;
SL_API SL_CHECKED sl_status sl_grammar_state_create(sl_grammar *grammar,
                                                    const sl_grammar_vocabulary *vocabulary,
                                                    sl_grammar_state **out, sl_error *err);
SL_API SL_CHECKED sl_status sl_grammar_state_fork(const sl_grammar_state *state,
                                                  sl_grammar_state **out, sl_error *err);
SL_API void sl_grammar_state_destroy(sl_grammar_state *state); /* NULL is fine */
/* Bit i % 32 of word i / 32 of allowed is 1 if token i may come next.  words: at least one bit per
 * token of the vocabulary; further bits, as of logits without a token, become 0.  After an end
 * token no token may come. */
SL_API SL_CHECKED sl_status sl_grammar_state_mask(sl_grammar_state *state, uint32_t *allowed,
                                                  size_t words, sl_error *err);
/* SL_INVALID if the token is not allowed; the state is unchanged then. */
SL_API SL_CHECKED sl_status sl_grammar_state_accept(sl_grammar_state *state, sl_token token,
                                                    sl_error *err);
/* Takes the last tokens back. */
SL_API SL_CHECKED sl_status sl_grammar_state_rollback(sl_grammar_state *state, size_t tokens,
                                                      sl_error *err);
SL_API size_t sl_grammar_state_length(const sl_grammar_state *state); /* tokens accepted */
/* 1 if the text satisfies the grammar as it is, else 0. */
SL_API int sl_grammar_state_satisfied(const sl_grammar_state *state);
/* 1 after an end token, else 0. */
SL_API int sl_grammar_state_ended(const sl_grammar_state *state);
/* Tokens that must come next because there is only one way to go on; none are accepted yet.  They
 * stop where a longer token could follow that reaches beyond what is certain.  *out_count may be 0.
 */
SL_API SL_CHECKED sl_status sl_grammar_state_forced(sl_grammar_state *state, sl_token *tokens,
                                                    size_t capacity, size_t *out_count,
                                                    sl_error *err);

/* Samples a token that may come next, from the logits after the last token of a session.  Neither
 * the state nor the session is changed. */
SL_API SL_CHECKED sl_status sl_grammar_state_sample(sl_grammar_state *state, sl_session *session,
                                                    const sl_sampling *sampling, sl_token *out,
                                                    sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
