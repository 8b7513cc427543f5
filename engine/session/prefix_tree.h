/* prefix_tree.h - Prefixes of conversations in memory, under a budget of pages and bytes.
 *
 * A radix tree over token ids.  A node has some tokens and references to the pages of the KV cache
 * that have their keys and values (kv_pages.h), so that neither adding nor loading copies any; it
 * begins at the beginning of a page, and one with children ends at the end of one.  Children of a
 * node differ in their first page.  Of models with recurrent state, nodes also have copies of it
 * after some of their tokens: only there a session can continue.
 *
 * When the budget is used up, that part is dropped whose loss costs least: the tokens that would be
 * computed again, for each byte, the less the longer it was not used. */
#ifndef SL_ENGINE_SESSION_PREFIX_TREE_H
#define SL_ENGINE_SESSION_PREFIX_TREE_H
#include "engine/session/state_file.h"

typedef struct sl_prefix_tree sl_prefix_tree;

/* Is given what is about to be dropped; `from` is where its node begins. */
typedef void sl_prefix_dropped_fn(void *ctx, const sl_state_content *content);

typedef struct {
    sl_forward *forward;
    const sl_fingerprint *fingerprint;
    uint32_t vocab;
    uint64_t most_pages, most_bytes; /* bytes: of tokens and recurrent states */
    const sl_allocator *allocator;
    sl_prefix_dropped_fn *dropped; /* may be NULL */
    void *dropped_ctx;
} sl_prefix_tree_options;
SL_CHECKED sl_status sl_prefix_tree_create(const sl_prefix_tree_options *options,
                                           sl_prefix_tree **out, sl_error *err);
void sl_prefix_tree_destroy(sl_prefix_tree *tree); /* NULL is allowed; nothing is reported */

typedef struct {
    size_t same;   /* tokens that are the same as somewhere in the tree */
    size_t usable; /* tokens that a session can continue after, at most the limit */
} sl_prefix_match;
sl_prefix_match sl_prefix_tree_find(sl_prefix_tree *tree, const sl_token *tokens, size_t count,
                                    size_t limit);
/* Adds what the tree lacks of content [0, to), which has pages, as far as the budget allows;
 * without memory, less. */
void sl_prefix_tree_add(sl_prefix_tree *tree, const sl_state_content *content);

/* Gives up pages, perhaps the last references to them; false: it has none. */
bool sl_prefix_tree_give_up(sl_prefix_tree *tree);

/* The state after `length` tokens, which a find said to be usable.  Load makes a slot consist of
 * their pages; the recurrent state is borrowed until the next add, and NULL if it is not there. */
SL_CHECKED sl_status sl_prefix_tree_load(sl_prefix_tree *tree, const sl_token *tokens,
                                         size_t length, uint32_t slot, sl_error *err);
const void *sl_prefix_tree_recurrent(sl_prefix_tree *tree, const sl_token *tokens, size_t length);

typedef struct {
    uint64_t bytes, pages;
} sl_prefix_tree_use;
sl_prefix_tree_use sl_prefix_tree_describe(const sl_prefix_tree *tree);
/* For tests: whether links and counts are right, and bytes and pages those that are counted, within
 * the budget. */
bool sl_prefix_tree_verify(const sl_prefix_tree *tree);
#endif
