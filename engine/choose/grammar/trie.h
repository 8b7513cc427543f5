/* trie.h - The tokens of a vocabulary as byte tries, in the order of a depth-first walk.
 *
 * A token is a "body" if it consists of whole characters that a JSON string may contain as they
 * are: neither quotes nor backslashes nor control characters.  In a state in which such a character
 * leads to such a state again, all bodies are allowed at once, and only other tokens are walked. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_TRIE_H
#define SL_ENGINE_CHOOSE_GRAMMAR_TRIE_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct {
    uint32_t byte : 8, depth : 24; /* depth of the root's children: 1 */
    uint32_t next;                 /* the node after its subtree */
    uint32_t first; /* its tokens in sl_trie.tokens, up to `first` of the node that follows */
} sl_trie_node;

typedef struct {
    sl_trie_node *nodes; /* one more than count */
    uint32_t *tokens;
    uint32_t count, token_count;
} sl_trie;

enum { SL_SHORT_BODY = 16 }; /* characters */
typedef struct {
    sl_arena arena;
    uint32_t vocab; /* tokens, of which ids are less */
    uint32_t max_bytes;
    sl_trie all;
    sl_trie no_body, no_short_body; /* without bodies, without those of at most SL_SHORT_BODY */
    sl_trie tails; /* from the first character on that is no body; not those that begin so */
    uint32_t *bodies, *short_bodies; /* bit sets of vocab bits */
    uint32_t *controls;              /* tokens that are no text */
    uint32_t *ends;                  /* tokens that end an answer */
} sl_token_tries;

/* The text of a token, borrowed while the tries are used; empty: never allowed.  control: it is no
 * text.  ends: it ends an answer. */
typedef struct {
    const char *text;
    size_t bytes;
    bool control, ends;
} sl_trie_token;
typedef sl_trie_token sl_trie_token_fn(const void *ctx, uint32_t token);
SL_CHECKED sl_status sl_token_tries_create(uint32_t vocab, sl_trie_token_fn *token, const void *ctx,
                                           const sl_allocator *allocator, sl_token_tries **out,
                                           sl_error *err);
void sl_token_tries_destroy(sl_token_tries *tries);
static inline size_t sl_mask_words(uint32_t vocab) {
    return ((size_t)vocab + 31) / 32;
}
#endif
