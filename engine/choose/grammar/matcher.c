/* matcher.c - Accepts tokens, rolls back and forks. */
#include "engine/choose/grammar/matcher_internal.h"
#include <string.h>

enum { ALIGN = 8 };

static sl_status allocate(const sl_allocator *allocator, sl_matcher **out, sl_error *err) {
    sl_matcher *m = sl_allocate(allocator, sizeof *m, _Alignof(sl_matcher));
    if (!m) return sl_no_memory(err, "the state of a grammar", sizeof *m);
    m->allocator = allocator;
    *out = m;
    return SL_OK;
}

static void release_shared(sl_matcher *m) {
    sl_matcher_shared *shared = m->shared;
    if (!shared || --shared->users) return;
    for (unsigned i = 0; i < SL_KEPT_MASKS; i++)
        sl_release(m->allocator, shared->masks[i], shared->mask_bytes, ALIGN);
    sl_word_map_free(m->allocator, &shared->mask_of);
    sl_word_map_free(m->allocator, &shared->reach_of);
    sl_word_list_free(m->allocator, &shared->stack);
    if (shared->ready) sl_engine_deinit(&shared->engine);
    sl_release(m->allocator, shared, sizeof *shared, _Alignof(sl_matcher_shared));
}

void sl_matcher_destroy(sl_matcher *m) {
    if (!m) return;
    release_shared(m);
    sl_word_list_free(m->allocator, &m->history);
    sl_release(m->allocator, m, sizeof *m, _Alignof(sl_matcher));
}

static sl_status create_shared(sl_matcher *m, const sl_automaton *automaton,
                               const sl_token_tries *tries, sl_error *err) {
    sl_matcher_shared *shared =
        sl_allocate(m->allocator, sizeof *shared, _Alignof(sl_matcher_shared));
    if (!shared) return sl_no_memory(err, "the state of a grammar", sizeof *shared);
    m->shared = shared;
    shared->users = 1;
    shared->tries = tries;
    shared->mask_bytes = sl_mask_words(tries->vocab) * sizeof(uint32_t);
    SL_TRY(sl_engine_init(&shared->engine, automaton, m->allocator, err));
    shared->ready = true;
    for (uint32_t i = 0; i <= tries->max_bytes; i++)
        if (!sl_word_list_add(m->allocator, &shared->stack, 0))
            return sl_no_memory(err, "the state of a grammar", tries->max_bytes);
    return SL_OK;
}

sl_status sl_matcher_create(const sl_automaton *automaton, const sl_token_tries *tries,
                            const sl_allocator *allocator, sl_matcher **out, sl_error *err) {
    sl_matcher *m = NULL;
    SL_TRY(allocate(sl_allocator_or_default(allocator), &m, err));
    const sl_status status = create_shared(m, automaton, tries, err);
    if (status != SL_OK) {
        sl_matcher_destroy(m);
        return status;
    }
    m->state = m->shared->engine.initial;
    *out = m;
    return SL_OK;
}

sl_status sl_matcher_fork(const sl_matcher *matcher, sl_matcher **out, sl_error *err) {
    sl_matcher *m = NULL;
    SL_TRY(allocate(matcher->allocator, &m, err));
    m->shared = matcher->shared;
    m->shared->users++;
    m->state = matcher->state;
    m->finished = matcher->finished;
    if (!sl_word_list_copy(m->allocator, &matcher->history, &m->history)) {
        sl_matcher_destroy(m);
        return sl_no_memory(err, "the state of a grammar", matcher->history.count);
    }
    *out = m;
    return SL_OK;
}

static bool has_bit(const uint32_t *bits, uint32_t i) {
    return bits[i / 32] >> (i % 32) & 1;
}

/* The state after some bytes; dead if they cannot follow. */
static uint32_t run(sl_engine *g, uint32_t state, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes && state != SL_STATE_DEAD; i++)
        state = sl_engine_next(g, state, g->automaton->classes[(unsigned char)text[i]]);
    return state;
}

sl_status sl_matcher_accept(sl_matcher *m, sl_token token, const char *text, size_t bytes,
                            sl_error *err) {
    sl_engine *g = &m->shared->engine;
    const sl_token_tries *tries = m->shared->tries;
    const bool known = token >= 0 && (uint32_t)token < tries->vocab;
    uint32_t state = SL_STATE_DEAD;
    if (m->finished) return sl_fail(err, SL_INVALID, "token %d: the grammar has ended", (int)token);
    const bool ends = known && has_bit(tries->ends, (uint32_t)token);
    const bool control = known && has_bit(tries->controls, (uint32_t)token);
    if (ends)
        state = sl_engine_accepts(g, m->state) ? m->state : SL_STATE_DEAD;
    else if (known && (!control || sl_engine_is_free(g, m->state)) && (bytes || control))
        state = run(g, m->state, text, bytes);
    SL_TRY(sl_engine_check(g, err));
    if (state == SL_STATE_DEAD)
        return sl_fail(err, SL_INVALID, "token %d: the grammar does not allow it here", (int)token);
    if (!sl_word_list_add(m->allocator, &m->history, m->state))
        return sl_no_memory(err, "the state of a grammar", m->history.count);
    m->state = state;
    m->finished = ends;
    return SL_OK;
}

sl_status sl_matcher_rollback(sl_matcher *m, size_t tokens, sl_error *err) {
    if (tokens > m->history.count)
        return sl_fail(err, SL_INVALID, "grammar: %zu tokens to take back, %zu were accepted",
                       tokens, m->history.count);
    if (!tokens) return SL_OK;
    m->history.count -= tokens;
    m->state = m->history.words[m->history.count];
    m->finished = false;
    return SL_OK;
}

size_t sl_matcher_length(const sl_matcher *m) {
    return m->history.count;
}

bool sl_matcher_accepts(const sl_matcher *m) {
    return sl_engine_accepts(&m->shared->engine, m->state);
}

bool sl_matcher_finished(const sl_matcher *m) {
    return m->finished;
}

/* The only byte that can follow; -1: none or several. */
static int only_byte(sl_engine *g, uint32_t state) {
    int found = -1;
    if (sl_engine_accepts(g, state) || sl_engine_is_free(g, state)) return -1;
    for (unsigned b = 0; b < 256; b++) {
        if (sl_engine_next(g, state, g->automaton->classes[b]) == SL_STATE_DEAD) continue;
        if (found >= 0) return -1;
        found = (int)b;
    }
    return found;
}

sl_status sl_matcher_forced(sl_matcher *m, char *out, size_t capacity, size_t *out_bytes,
                            sl_error *err) {
    sl_engine *g = &m->shared->engine;
    uint32_t state = m->state;
    for (*out_bytes = 0; *out_bytes < capacity && !m->finished; ++*out_bytes) {
        const int byte = only_byte(g, state);
        if (byte < 0) break;
        out[*out_bytes] = (char)byte;
        state = sl_engine_next(g, state, g->automaton->classes[byte]);
    }
    return sl_engine_check(g, err);
}

/* Whether there is a token below node whose bytes can follow the state. */
static bool token_below(sl_matcher *m, uint32_t node, uint32_t state) {
    sl_engine *g = &m->shared->engine;
    const sl_trie *trie = &m->shared->tries->all;
    const uint32_t base = trie->nodes[node].depth, end = trie->nodes[node].next;
    uint32_t *stack = m->shared->stack.words;
    stack[0] = state;
    for (uint32_t i = node + 1; i < end;) {
        const sl_trie_node *n = &trie->nodes[i];
        const uint32_t depth = n->depth - base;
        stack[depth] = sl_engine_next(g, stack[depth - 1], g->automaton->classes[n->byte]);
        if (stack[depth] == SL_STATE_DEAD) {
            i = n->next;
            continue;
        }
        if (trie->nodes[i + 1].first > n->first) return true;
        i++;
    }
    return false;
}

sl_status sl_matcher_spans(sl_matcher *m, const char *forced, size_t bytes, size_t from, bool *out,
                           sl_error *err) {
    const sl_trie *trie = &m->shared->tries->all;
    uint32_t end = trie->count, i = 0, node = UINT32_MAX;
    *out = false;
    for (size_t at = from; at < bytes; at++) {
        while (i < end && trie->nodes[i].byte != (unsigned char)forced[at]) i = trie->nodes[i].next;
        if (i >= end) return SL_OK;
        node = i;
        end = trie->nodes[i].next;
        i++;
    }
    if (node == UINT32_MAX) return SL_OK;
    const uint32_t state = run(&m->shared->engine, m->state, forced, bytes);
    *out = state != SL_STATE_DEAD && token_below(m, node, state);
    return sl_engine_check(&m->shared->engine, err);
}
