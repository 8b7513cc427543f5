/* text_matcher.h - Finds texts in a stream of bytes (Aho-Corasick): one table lookup for each byte.
 *
 * A node stands for the longest suffix of the bytes so far that begins one of the texts; node 0 is
 * the empty one. */
#ifndef SL_ENGINE_CHOOSE_TEXT_MATCHER_H
#define SL_ENGINE_CHOOSE_TEXT_MATCHER_H
#include "base/memory.h"
#include <stdint.h>

enum { SL_MATCHER_MOST_BYTES = 16384 }; /* of all texts */

typedef struct {
    uint16_t next[256];
    uint16_t depth;       /* bytes of what it stands for */
    uint16_t found;       /* 1 + the longest text that ends here; 0: none does */
    uint16_t found_bytes; /* of that text */
    uint32_t begin;       /* where what it stands for is in `bytes` */
} sl_text_matcher_node;

typedef struct {
    sl_allocator allocator;
    sl_text_matcher_node *nodes;
    char *bytes; /* all texts, one after another */
    uint32_t count, room, deepest;
    size_t total;
} sl_text_matcher;

/* Texts are NUL-terminated and not empty; of equal ones the first is found.  what: what a text is,
 * for messages. */
SL_CHECKED sl_status sl_text_matcher_create(const char *what, const char *const *texts,
                                            uint32_t count, const sl_allocator *allocator,
                                            sl_text_matcher **out, sl_error *err);
void sl_text_matcher_destroy(sl_text_matcher *matcher);

static inline uint16_t sl_text_matcher_step(const sl_text_matcher *matcher, uint16_t node,
                                            char byte) {
    return matcher->nodes[node].next[(unsigned char)byte];
}
static inline uint64_t sl_text_matcher_bytes(const sl_text_matcher *matcher) {
    return sizeof *matcher + matcher->room * sizeof *matcher->nodes + matcher->total + 1;
}
#endif
