/* history.h - The tokens of a sequence, and after each of them what samplers remember.  Going back
 * is cutting the end off. */
#ifndef SL_ENGINE_CHOOSE_HISTORY_H
#define SL_ENGINE_CHOOSE_HISTORY_H
#include "base/memory.h"
#include "sluice/sluice.h"
#include <stdbool.h>

/* SL_INVALID unless all tokens are of a vocabulary of that size. */
SL_CHECKED sl_status sl_tokens_check(const sl_token *tokens, size_t count, uint32_t vocab,
                                     sl_error *err);

typedef struct {
    float surprise;   /* mirostat's mu */
    int32_t thinking; /* tokens of the answer since a thought began; -1: not in a thought */
    uint32_t forced;  /* tokens of its forced end that were accepted */
    uint16_t breaker; /* node of the matcher of DRY's breakers */
    bool breaks;      /* a breaker ended in the token */
} sl_token_state;

typedef struct {
    sl_allocator allocator;
    sl_token *tokens;
    sl_token_state *states; /* after each token */
    sl_token_state before;  /* before the first */
    size_t length, room;
    size_t prompt; /* of these many tokens, the answer begins after them */
} sl_history;

void sl_history_init(sl_history *history, const sl_allocator *allocator, sl_token_state before);
void sl_history_deinit(sl_history *history);
SL_CHECKED sl_status sl_history_reserve(sl_history *history, size_t room, sl_error *err);
SL_CHECKED sl_status sl_history_copy(sl_history *to, const sl_history *from, sl_error *err);
/* There is room. */
static inline void sl_history_append(sl_history *history, sl_token token, sl_token_state state) {
    history->tokens[history->length] = token;
    history->states[history->length++] = state;
}
void sl_history_rewind(sl_history *history, size_t length);
static inline sl_token_state sl_history_state(const sl_history *history) {
    return history->length ? history->states[history->length - 1] : history->before;
}
/* The tokens end in these. */
bool sl_history_ends_in(const sl_history *history, const sl_token *tokens, uint32_t count);
#endif
