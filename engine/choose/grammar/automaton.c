/* automaton.c - Builds automata. */
#include "engine/choose/grammar/automaton.h"
#include <string.h>

enum { ALIGN = 8, MAX_STATES = 1 << 20, MAX_EXPR_WORDS = 4 << 20 };

sl_status sl_automaton_init(sl_automaton *a, const sl_allocator *allocator, sl_error *err) {
    *a = (sl_automaton){.max_states = MAX_STATES, .free_target = UINT32_MAX};
    return sl_expr_pool_init(&a->pool, sl_allocator_or_default(allocator), MAX_EXPR_WORDS, err);
}

void sl_automaton_deinit(sl_automaton *a) {
    const sl_allocator *allocator = a->pool.allocator;
    sl_release(allocator, a->edges, a->edge_capacity * sizeof *a->edges, ALIGN);
    sl_release(allocator, a->states, a->state_capacity * sizeof *a->states, ALIGN);
    sl_release(allocator, a->rules, a->rule_capacity * sizeof *a->rules, ALIGN);
    sl_release(allocator, a->collections, a->collection_capacity * sizeof *a->collections, ALIGN);
    sl_release(allocator, a->members, a->member_capacity * sizeof *a->members, ALIGN);
    sl_expr_pool_deinit(&a->pool);
}

sl_status sl_automaton_check(const sl_automaton *a, sl_error *err) {
    SL_TRY(sl_expr_pool_check(&a->pool, err));
    if (a->status == SL_OK) return SL_OK;
    if (a->status == SL_NO_MEMORY) return sl_no_memory(err, "a grammar", a->state_count);
    return sl_fail(err, SL_UNSUPPORTED, "grammar: more than %zu states, the limit", a->max_states);
}

static bool fail(sl_automaton *a, sl_status status) {
    if (a->status == SL_OK) a->status = status;
    return false;
}

/* Makes room for one more item; *capacity grows. */
static bool reserve(sl_automaton *a, void **items, size_t count, size_t *capacity, size_t each) {
    if (a->status != SL_OK) return false;
    if (count < *capacity) return true;
    if (count >= 4 * a->max_states) return fail(a, SL_UNSUPPORTED);
    const size_t larger = *capacity ? *capacity * 2 : 64;
    void *moved = sl_resize(a->pool.allocator, *items, *capacity * each, larger * each, ALIGN);
    if (!moved) return fail(a, SL_NO_MEMORY);
    *items = moved;
    *capacity = larger;
    return true;
}

uint32_t sl_automaton_state(sl_automaton *a) {
    void *states = a->states;
    if (a->state_count >= a->max_states) (void)fail(a, SL_UNSUPPORTED);
    const bool fine = reserve(a, &states, a->state_count, &a->state_capacity, sizeof *a->states);
    a->states = states;
    if (!fine) return 0;
    a->states[a->state_count] = (sl_state){0};
    return (uint32_t)a->state_count++;
}

uint32_t sl_automaton_rule(sl_automaton *a) {
    void *rules = a->rules;
    const bool fine = reserve(a, &rules, a->rule_count, &a->rule_capacity, sizeof *a->rules);
    a->rules = rules;
    if (!fine) return 0;
    const sl_rule rule = {.start = sl_automaton_state(a), .end = sl_automaton_state(a)};
    if (a->status != SL_OK) return 0;
    a->states[rule.end].end = 1;
    a->rules[a->rule_count] = rule;
    return (uint32_t)a->rule_count++;
}

void sl_automaton_edge(sl_automaton *a, sl_edge_kind kind, uint32_t from, uint32_t what,
                       uint32_t to) {
    void *edges = a->edges;
    if (a->status != SL_OK) return;
    if (kind == SL_EDGE_TEXT || kind == SL_EDGE_STRING) {
        if (!sl_expr_alive(&a->pool, what)) return;
        if (kind == SL_EDGE_TEXT && what == SL_EXPR_EMPTY) kind = SL_EDGE_NONE;
    }
    const bool fine = reserve(a, &edges, a->edge_count, &a->edge_capacity, sizeof *a->edges);
    a->edges = edges;
    if (!fine) return;
    a->edges[a->edge_count++] = (sl_edge){kind, what, to, a->states[from].first};
    a->states[from].first = (uint32_t)a->edge_count & INT32_MAX;
}

uint32_t sl_automaton_collection(sl_automaton *a, const sl_collection *given, uint32_t from,
                                 uint32_t opened) {
    void *collections = a->collections;
    const bool fine = reserve(a, &collections, a->collection_count, &a->collection_capacity,
                              sizeof *a->collections);
    a->collections = collections;
    if (!fine) return 0;
    const uint32_t made = (uint32_t)a->collection_count++;
    a->collections[made] = *given;
    a->collections[made].first = (uint32_t)a->member_count;
    a->collections[made].count = 0;
    sl_automaton_edge(a, SL_EDGE_OPEN, from, made, opened);
    a->collections[made].open_edge = (uint32_t)a->edge_count;
    return made;
}

uint32_t sl_automaton_member(sl_automaton *a, bool required) {
    void *members = a->members;
    const bool fine =
        reserve(a, &members, a->member_count, &a->member_capacity, sizeof *a->members);
    a->members = members;
    if (!fine) return 0;
    const uint32_t collection = (uint32_t)a->collection_count - 1;
    a->collections[collection].count++;
    a->collections[collection].required += required;
    a->collections[collection].missing += required;
    a->members[a->member_count] = (sl_member){collection, required, false};
    return (uint32_t)a->member_count++;
}

static void add_words(sl_automaton *a, uint32_t from, const char *const *words, size_t count,
                      size_t at, uint32_t to) {
    for (size_t first = 0; first < count && a->status == SL_OK;) {
        const char c = words[first][at];
        size_t last = first + 1, end = at + 1;
        if (!c) {
            sl_automaton_skip(a, from, to);
            first++;
            continue;
        }
        while (last < count && words[last][at] == c) last++;
        while (words[first][end] && words[first][end] == words[last - 1][end]) end++;
        const uint32_t middle = sl_automaton_state(a);
        sl_automaton_text(a, from, sl_expr_literal(&a->pool, words[first] + at, end - at), middle);
        add_words(a, middle, words + first, last - first, end, to);
        first = last;
    }
}

void sl_automaton_words(sl_automaton *a, uint32_t from, const char *const *words, size_t count,
                        uint32_t to) {
    add_words(a, from, words, count, 0, to);
}
