#include "engine/choose/history.h"
#include "base/sizes.h"
#include <string.h>

enum { FIRST_ROOM = 1024 };

sl_status sl_tokens_check(const sl_token *tokens, size_t count, uint32_t vocab, sl_error *err) {
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= vocab)
            return sl_fail(err, SL_INVALID, "token %zu is %d, the vocabulary has %u", i, tokens[i],
                           vocab);
    return SL_OK;
}

void sl_history_init(sl_history *h, const sl_allocator *allocator, sl_token_state before) {
    *h = (sl_history){.allocator = *sl_allocator_or_default(allocator), .before = before};
}

void sl_history_deinit(sl_history *h) {
    sl_release(&h->allocator, h->tokens, h->room * sizeof *h->tokens, _Alignof(sl_token));
    sl_release(&h->allocator, h->states, h->room * sizeof *h->states, _Alignof(sl_token_state));
    h->tokens = NULL;
    h->states = NULL;
    h->length = h->room = 0;
}

sl_status sl_history_reserve(sl_history *h, size_t room, sl_error *err) {
    if (room <= h->room) return SL_OK;
    if (room < 2 * h->room) room = 2 * h->room;
    if (room < FIRST_ROOM) room = FIRST_ROOM;
    uint64_t bytes;
    if (!sl_multiply(room, sizeof(sl_token_state), &bytes) || bytes > SIZE_MAX / 2)
        return sl_no_memory(err, "the tokens of a sampler", room);
    sl_history larger = {.allocator = h->allocator, .room = room};
    larger.tokens = sl_allocate(&h->allocator, room * sizeof *h->tokens, _Alignof(sl_token));
    larger.states = sl_allocate(&h->allocator, bytes, _Alignof(sl_token_state));
    if (!larger.tokens || !larger.states) {
        sl_history_deinit(&larger);
        return sl_no_memory(err, "the tokens of a sampler", room);
    }
    if (h->length) {
        memcpy(larger.tokens, h->tokens, h->length * sizeof *h->tokens);
        memcpy(larger.states, h->states, h->length * sizeof *h->states);
    }
    larger.length = h->length;
    larger.prompt = h->prompt;
    larger.before = h->before;
    sl_history_deinit(h);
    *h = larger;
    return SL_OK;
}

sl_status sl_history_copy(sl_history *to, const sl_history *from, sl_error *err) {
    SL_TRY(sl_history_reserve(to, from->length, err));
    if (from->length) {
        memcpy(to->tokens, from->tokens, from->length * sizeof *from->tokens);
        memcpy(to->states, from->states, from->length * sizeof *from->states);
    }
    to->length = from->length;
    to->prompt = from->prompt;
    to->before = from->before;
    return SL_OK;
}

void sl_history_rewind(sl_history *h, size_t length) {
    h->length = length;
    if (h->prompt > length) h->prompt = length;
}

bool sl_history_ends_in(const sl_history *h, const sl_token *tokens, uint32_t count) {
    return count && count <= h->length &&
           memcmp(h->tokens + h->length - count, tokens, count * sizeof *tokens) == 0;
}
