/* mask.c - Which tokens may come next: a walk through a trie of the vocabulary.
 *
 * In most states inside of strings, every character that needs no escape leads to the same state
 * again, or at least never to a dead one.  The tokens that consist of such characters are known
 * beforehand, and only the others are walked (trie.h). */
#include "engine/choose/grammar/matcher_internal.h"
#include <string.h>

enum { ALIGN = 8 };

/* What bodies do in a state. */
enum {
    REACH_NONE,     /* some die early */
    REACH_SHORT,    /* those of at most SL_SHORT_BODY characters live */
    REACH_ALL,      /* all live */
    REACH_SAME_ONE, /* all lead to the same state again */
};
enum { MAX_REACHED = 96 };

/* The states that one character of a body leads to: added to a list without duplicates. */
typedef struct {
    sl_engine *engine;
    uint32_t states[MAX_REACHED];
    unsigned count;
    bool dies, too_many;
} reached;

static void reach(reached *r, uint32_t state) {
    if (state == SL_STATE_DEAD) r->dies = true;
    for (unsigned i = 0; i < r->count; i++)
        if (r->states[i] == state) return;
    if (r->count < MAX_REACHED)
        r->states[r->count++] = state;
    else
        r->too_many = true;
}

/* One UTF-8 sequence: bytes first[i]..last[i], one of each class in these ranges. */
typedef struct {
    unsigned char length, first[4], last[4];
} sequence;
static const sequence sequences[] = {
    {1, {0x20}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

static void follow(reached *r, const sequence *s, unsigned at, uint32_t state) {
    const sl_automaton *a = r->engine->automaton;
    uint32_t last = UINT32_MAX;
    uint16_t last_class = UINT16_MAX;
    if (at == s->length) {
        reach(r, state);
        return;
    }
    for (unsigned b = s->first[at]; b <= s->last[at] && !r->dies && !r->too_many; b++) {
        if (at == 0 && (b == '"' || b == '\\')) continue;
        if (a->classes[b] == last_class) continue;
        last_class = a->classes[b];
        const uint32_t next = sl_engine_next(r->engine, state, last_class);
        if (next == SL_STATE_DEAD) r->dies = true;
        if (next == last || r->dies) continue;
        last = next;
        follow(r, s, at + 1, next);
    }
}

static void follow_character(reached *r, uint32_t state) {
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences && !r->dies && !r->too_many; i++)
        follow(r, &sequences[i], 0, state);
}

static uint32_t find_reach(sl_engine *engine, uint32_t state) {
    reached all = {.engine = engine};
    unsigned begin = 0;
    const bool spacious = sl_engine_is_spacious(engine, state);
    reach(&all, state);
    for (unsigned depth = 0; depth < SL_SHORT_BODY; depth++) {
        const unsigned end = all.count;
        for (unsigned i = begin; i < end; i++) follow_character(&all, all.states[i]);
        if (all.dies) return REACH_NONE;
        if (all.too_many || (spacious && depth)) return spacious ? REACH_ALL : REACH_NONE;
        if (all.count == end) return end == 1 ? REACH_SAME_ONE : REACH_ALL;
        begin = end;
    }
    return REACH_SHORT;
}

static uint32_t reach_of(sl_matcher_shared *shared, const sl_allocator *allocator, uint32_t state) {
    uint32_t known;
    if (sl_word_map_find(&shared->reach_of, (uint64_t)state + 1, &known)) return known;
    known = find_reach(&shared->engine, state);
    /* Without memory it is found again. */
    (void)sl_word_map_set(allocator, &shared->reach_of, (uint64_t)state + 1, known);
    return known;
}

static void walk(sl_matcher_shared *shared, const sl_trie *trie, uint32_t state, uint32_t *mask) {
    sl_engine *g = &shared->engine;
    const uint16_t *classes = g->automaton->classes;
    const sl_trie_node *nodes = trie->nodes;
    uint32_t *stack = shared->stack.words;
    stack[0] = state;
    for (uint32_t i = 0; i < trie->count;) {
        const sl_trie_node n = nodes[i];
        const uint32_t next = sl_engine_next(g, stack[n.depth - 1], classes[n.byte]);
        if (next == SL_STATE_DEAD) {
            i = n.next;
            continue;
        }
        stack[n.depth] = next;
        i++;
        for (uint32_t t = n.first; t < nodes[i].first; t++)
            mask[trie->tokens[t] / 32] |= UINT32_C(1) << (trie->tokens[t] % 32);
    }
}

static void add_bits(uint32_t *mask, const uint32_t *bits, size_t words) {
    for (size_t i = 0; i < words; i++) mask[i] |= bits[i];
}

static void compute(sl_matcher *m, uint32_t *mask) {
    sl_matcher_shared *shared = m->shared;
    const sl_token_tries *tries = shared->tries;
    const size_t words = shared->mask_bytes / sizeof *mask;
    memset(mask, 0, shared->mask_bytes);
    switch (reach_of(shared, m->allocator, m->state)) {
    case REACH_SAME_ONE:
        add_bits(mask, tries->bodies, words);
        walk(shared, &tries->tails, m->state, mask);
        break;
    case REACH_ALL:
        add_bits(mask, tries->bodies, words);
        walk(shared, &tries->no_body, m->state, mask);
        break;
    case REACH_SHORT:
        add_bits(mask, tries->short_bodies, words);
        walk(shared, &tries->no_short_body, m->state, mask);
        break;
    default:
        walk(shared, &tries->all, m->state, mask);
    }
    if (sl_engine_accepts(&shared->engine, m->state)) add_bits(mask, tries->ends, words);
    if (!sl_engine_is_free(&shared->engine, m->state)) return;
    for (size_t i = 0; i < words; i++) mask[i] |= tries->controls[i] & ~tries->ends[i];
}

/* A place for the mask of a state: the oldest is forgotten. */
static uint32_t *keep(sl_matcher *m) {
    sl_matcher_shared *shared = m->shared;
    const uint32_t slot = shared->next_mask;
    if (!shared->masks[slot])
        shared->masks[slot] = sl_allocate(m->allocator, shared->mask_bytes, ALIGN);
    if (!shared->masks[slot]) return NULL;
    if (!sl_word_map_set(m->allocator, &shared->mask_of, (uint64_t)m->state + 1, slot)) return NULL;
    shared->mask_states[slot] = m->state;
    shared->next_mask = (slot + 1) % SL_KEPT_MASKS;
    return shared->masks[slot];
}

sl_status sl_matcher_mask(sl_matcher *m, uint32_t *allowed, size_t words, sl_error *err) {
    sl_matcher_shared *shared = m->shared;
    const size_t own = shared->mask_bytes / sizeof *allowed;
    uint32_t slot;
    if (words < own)
        return sl_fail(err, SL_INVALID, "mask: %zu words, wanted at least %zu", words, own);
    memset(allowed, 0, words * sizeof *allowed);
    if (m->finished) return SL_OK;
    const bool known = sl_word_map_find(&shared->mask_of, (uint64_t)m->state + 1, &slot) &&
                       shared->mask_states[slot] == m->state;
    uint32_t *mask = known ? shared->masks[slot] : keep(m);
    if (!mask) return sl_no_memory(err, "a mask", shared->mask_bytes);
    if (!known) {
        compute(m, mask);
        const sl_status status = sl_engine_check(&shared->engine, err);
        if (status != SL_OK) {
            shared->mask_states[(shared->next_mask + SL_KEPT_MASKS - 1) % SL_KEPT_MASKS] =
                SL_STATE_UNKNOWN;
            return status;
        }
    }
    memcpy(allowed, mask, shared->mask_bytes);
    return SL_OK;
}
