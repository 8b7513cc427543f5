/* frames.c - What may follow in a collection. */
#include "engine/choose/grammar/frames.h"

enum { WORD_COLLECTION, WORD_NUMBER, WORD_BITS };

static uint32_t put(sl_frames *f) {
    return sl_word_table_put(f->allocator, &f->table, f->scratch.words, f->scratch.count);
}

sl_status sl_frames_init(sl_frames *f, const sl_automaton *automaton, const sl_allocator *allocator,
                         sl_error *err) {
    *f = (sl_frames){.automaton = automaton, .allocator = allocator};
    return put(f) == 0 ? SL_OK : sl_no_memory(err, "the states of a grammar", 0);
}

void sl_frames_deinit(sl_frames *f) {
    sl_word_table_free(f->allocator, &f->table);
    sl_word_list_free(f->allocator, &f->scratch);
}

static bool has_bit(const uint32_t *frame, uint32_t i) {
    return frame[WORD_BITS + i / 32] >> (i % 32) & 1;
}

/* Looks through a frame once for all edges of a state. */
static void look(sl_frames *f, uint32_t frame) {
    size_t count;
    if (f->seen.frame == frame) return;
    const uint32_t *words = sl_word_table_get(&f->table, frame, &count);
    const sl_collection *c = &f->automaton->collections[words[WORD_COLLECTION]];
    const sl_member *members = c->count ? f->automaton->members + c->first : NULL;
    const uint32_t number = words[WORD_NUMBER];
    f->seen.frame = frame;
    f->seen.number = number;
    f->seen.room = c->max == SL_EXPR_UNBOUNDED ? SL_EXPR_UNBOUNDED : c->max - number;
    f->seen.missing = f->seen.open = 0;
    f->seen.first_missing = UINT32_MAX;
    for (uint32_t i = 0; i < c->count; i++) {
        if (has_bit(words, i)) continue;
        f->seen.open += members[i].possible;
        if (!members[i].required) continue;
        if (!f->seen.missing++) f->seen.first_missing = i;
    }
}

/* Required members keep their room. */
static bool has_room(const sl_frames *f) {
    return f->seen.room == SL_EXPR_UNBOUNDED || f->seen.room > f->seen.missing;
}

static bool may_take(const sl_frames *f, const sl_collection *c, const uint32_t *words,
                     uint32_t i) {
    const sl_member *members = f->automaton->members + c->first;
    uint32_t left = f->seen.open - 1;
    if (has_bit(words, i) || !members[i].possible) return false;
    if (!members[i].required && !has_room(f)) return false;
    if (!c->ordered) return true; /* that there are enough is certain: none is lost */
    if (i > f->seen.first_missing) return false;
    for (uint32_t k = 0; k < i; k++) left -= !has_bit(words, k) && members[k].possible;
    return c->others || c->min <= f->seen.number + 1 || c->min - f->seen.number - 1 <= left;
}

static bool may_go_on(const sl_frames *f, const sl_collection *c, const uint32_t *words) {
    if (c->others && has_room(f)) return true;
    for (uint32_t i = 0; i < c->count; i++)
        if (may_take(f, c, words, i)) return true;
    return false;
}

static uint32_t open_frame(sl_frames *f, uint32_t collection) {
    const sl_collection *c = &f->automaton->collections[collection];
    const size_t words = WORD_BITS + ((size_t)c->count + 31) / 32;
    f->scratch.count = 0;
    for (size_t i = 0; i < words; i++)
        if (!sl_word_list_add(f->allocator, &f->scratch, i == WORD_COLLECTION ? collection : 0))
            return UINT32_MAX;
    return put(f);
}

/* The frame with one more, which is member i; UINT32_MAX: another. */
static uint32_t add_one(sl_frames *f, uint32_t frame, uint32_t i) {
    size_t count;
    f->scratch.count = 0;
    const uint32_t *words = sl_word_table_get(&f->table, frame, &count);
    const sl_collection *c = &f->automaton->collections[words[WORD_COLLECTION]];
    if (!sl_word_list_append(f->allocator, &f->scratch, words, count)) return UINT32_MAX;
    uint32_t *own = f->scratch.words;
    /* Numbers beyond what matters are not told apart. */
    if (own[WORD_NUMBER] < (c->max == SL_EXPR_UNBOUNDED ? c->min : c->max)) own[WORD_NUMBER]++;
    for (uint32_t k = c->ordered ? 0 : i; i != UINT32_MAX && k <= i; k++)
        own[WORD_BITS + k / 32] |= UINT32_C(1) << (k % 32);
    return put(f);
}

bool sl_frames_pass(sl_frames *f, const sl_edge *edge, uint32_t frame, uint32_t *out) {
    size_t count;
    *out = frame;
    if (edge->kind < SL_EDGE_OPEN) return true;
    if (edge->kind == SL_EDGE_OPEN) {
        *out = open_frame(f, edge->what);
        return true;
    }
    look(f, frame);
    const uint32_t *words = sl_word_table_get(&f->table, frame, &count);
    const sl_collection *c = &f->automaton->collections[words[WORD_COLLECTION]];
    switch (edge->kind) {
    case SL_EDGE_CLOSE:
        *out = 0;
        return !f->seen.missing && f->seen.number >= c->min;
    case SL_EDGE_MORE:
        return may_go_on(f, c, words);
    case SL_EDGE_OTHER:
        if (!has_room(f)) return false;
        *out = add_one(f, frame, UINT32_MAX);
        return true;
    case SL_EDGE_MEMBER:
        return may_take(f, c, words, edge->what - c->first);
    default:
        *out = add_one(f, frame, edge->what - c->first);
        return true;
    }
}
