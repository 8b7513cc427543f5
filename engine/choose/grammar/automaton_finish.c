/* automaton_finish.c - What is done once all edges of an automaton are known. */
#include "engine/choose/grammar/automaton.h"
#include <string.h>

enum { ALIGN = 8 };

/* Edges by their target, for walking backwards. */
typedef struct {
    uint32_t *first, *next; /* of a state, of an edge: edge + 1 */
    uint32_t *source;       /* of an edge: state */
    uint8_t *alive;         /* of a state: the end of its rule can be reached */
    uint32_t *queue;
    uint32_t *callers; /* of a rule: first call edge + 1 */
    uint32_t *call_next;
    uint32_t *rule_of_start; /* of a state: the rule that it begins, + 1 */
} backwards;

typedef struct {
    sl_automaton *a;
    backwards b;
    sl_arena arena;
} finish;

static bool prepare(finish *f) {
    const sl_automaton *a = f->a;
    backwards *b = &f->b;
    const size_t states = a->state_count, edges = a->edge_count + 1;
    b->first = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, states);
    b->next = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, edges);
    b->source = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, edges);
    b->alive = SL_ARENA_NEW_ARRAY(&f->arena, uint8_t, states);
    b->queue = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, states);
    b->callers = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, a->rule_count);
    b->call_next = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, edges);
    b->rule_of_start = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, states);
    if (!b->first || !b->next || !b->source || !b->alive || !b->queue || !b->callers ||
        !b->call_next || !b->rule_of_start)
        return false;
    for (uint32_t s = 0; s < states; s++) {
        for (uint32_t e = a->states[s].first; e; e = a->edges[e - 1].next) {
            const sl_edge *edge = &a->edges[e - 1];
            b->source[e - 1] = s;
            b->next[e - 1] = b->first[edge->target];
            b->first[edge->target] = e;
            if (edge->kind != SL_EDGE_CALL) continue;
            b->call_next[e - 1] = b->callers[edge->what];
            b->callers[edge->what] = e;
        }
    }
    for (uint32_t r = 0; r < a->rule_count; r++) b->rule_of_start[a->rules[r].start] = r + 1;
    return true;
}

/* Whether a text of the collection can be completed with the members that are possible. */
static bool is_feasible(const sl_collection *c) {
    return !c->missing && c->required <= c->max && c->min <= c->max &&
           (c->others || c->possible >= c->min);
}

/* Something of a collection has become possible; its beginning may have become so by that. */
static void mark_collection(finish *f, sl_collection *c, size_t *tail) {
    backwards *b = &f->b;
    const uint32_t source = b->source[c->open_edge - 1];
    const uint32_t opened = f->a->edges[c->open_edge - 1].target;
    if (b->alive[source] || !b->alive[opened] || !is_feasible(c)) return;
    b->alive[source] = 1;
    b->queue[(*tail)++] = source;
}

/* Notes that the target of an edge can be completed; true: so can its source. */
static bool passes_collection(finish *f, const sl_edge *edge, size_t *tail) {
    sl_automaton *a = f->a;
    if (edge->kind == SL_EDGE_MEMBER) {
        sl_member *member = &a->members[edge->what];
        sl_collection *own = &a->collections[member->collection];
        if (member->possible) return true;
        member->possible = true;
        own->possible++;
        own->missing -= member->required;
        mark_collection(f, own, tail);
    } else if (edge->kind == SL_EDGE_OTHER) {
        a->collections[edge->what].others = true;
        mark_collection(f, &a->collections[edge->what], tail);
    } else if (edge->kind == SL_EDGE_OPEN) {
        return is_feasible(&a->collections[edge->what]);
    }
    return true;
}

/* Marks the states from which the end of their rule can be reached; `nullable`: without reading
 * anything.  The flag of a rule is set when its start is marked. */
static void mark(finish *f, bool nullable) {
    sl_automaton *a = f->a;
    backwards *b = &f->b;
    size_t head = 0, tail = 0;
    memset(b->alive, 0, a->state_count);
    for (uint32_t r = 0; r < a->rule_count; r++) {
        b->alive[a->rules[r].end] = 1;
        b->queue[tail++] = a->rules[r].end;
    }
    while (head < tail) {
        const uint32_t state = b->queue[head++];
        const uint32_t rule = b->rule_of_start[state];
        if (rule) {
            if (nullable)
                a->rules[rule - 1].nullable = 1;
            else
                a->rules[rule - 1].productive = 1;
            for (uint32_t e = b->callers[rule - 1]; e; e = b->call_next[e - 1]) {
                const uint32_t source = b->source[e - 1];
                if (!b->alive[a->edges[e - 1].target] || b->alive[source]) continue;
                b->alive[source] = 1;
                b->queue[tail++] = source;
            }
        }
        for (uint32_t e = b->first[state]; e; e = b->next[e - 1]) {
            const sl_edge *edge = &a->edges[e - 1];
            const uint32_t source = b->source[e - 1];
            bool passes = edge->kind == SL_EDGE_NONE || !nullable;
            if (edge->kind == SL_EDGE_TEXT && nullable)
                passes = sl_expr_nullable(&a->pool, edge->what);
            if (edge->kind == SL_EDGE_CALL)
                passes = nullable ? a->rules[edge->what].nullable : a->rules[edge->what].productive;
            if (edge->kind >= SL_EDGE_OPEN && !nullable) passes = passes_collection(f, edge, &tail);
            if (!passes || b->alive[source]) continue;
            b->alive[source] = 1;
            b->queue[tail++] = source;
        }
    }
}

/* Removes edges to states that are not alive, and calls of rules without texts. */
static void trim(finish *f) {
    sl_automaton *a = f->a;
    for (uint32_t s = 0; s < a->state_count; s++) {
        uint32_t kept = 0, next;
        for (uint32_t e = a->states[s].first; e; e = next) {
            sl_edge *edge = &a->edges[e - 1];
            const bool dead = !f->b.alive[edge->target] ||
                              (edge->kind == SL_EDGE_CALL && !a->rules[edge->what].productive);
            next = edge->next;
            if (dead) continue;
            edge->next = kept;
            kept = e;
        }
        a->states[s].first = kept & INT32_MAX;
    }
}

/* A walk through the states that a rule can be in before it has read anything. */
typedef struct {
    uint32_t *stack, *seen, *order; /* seen: rule + 1 that last visited a state */
    uint8_t *color;                 /* of a rule: 0 new, 1 being visited, 2 done */
    uint32_t next_order, depth;
} walk;

enum { MAX_DEPTH = 10000 };

static bool add_first(const sl_automaton *a, walk *w, uint32_t state, uint32_t tag, size_t *top) {
    if (w->seen[state] == tag) return true;
    w->seen[state] = tag;
    w->stack[(*top)++] = state;
    return *top <= a->state_count;
}

/* The rules that rule can begin with, as a list in out. */
static bool first_calls(const sl_automaton *a, walk *w, uint32_t rule, sl_word_list *out) {
    size_t top = 0;
    (void)add_first(a, w, a->rules[rule].start, rule + 1, &top);
    while (top) {
        const uint32_t state = w->stack[--top];
        for (uint32_t e = a->states[state].first; e; e = a->edges[e - 1].next) {
            const sl_edge *edge = &a->edges[e - 1];
            bool passes = edge->kind == SL_EDGE_NONE;
            if (edge->kind == SL_EDGE_TEXT) passes = sl_expr_nullable(&a->pool, edge->what);
            if (edge->kind == SL_EDGE_CALL) {
                passes = a->rules[edge->what].nullable;
                if (!sl_word_list_add(a->pool.allocator, out, edge->what)) return false;
            }
            if (passes) (void)add_first(a, w, edge->target, rule + 1, &top);
        }
    }
    return true;
}

typedef struct {
    sl_rule_name_fn *name;
    const void *ctx;
} naming;

static sl_status refuse_recursion(const naming *names, uint32_t rule, sl_error *err) {
    if (names->name)
        return sl_fail(err, SL_UNSUPPORTED, "grammar: rule '%s' can begin with itself",
                       names->name(names->ctx, rule));
    return sl_fail(err, SL_UNSUPPORTED, "grammar: a rule can begin with itself");
}

static sl_status visit(sl_automaton *a, walk *w, uint32_t rule, const naming *names,
                       sl_error *err) {
    sl_word_list calls = {0};
    sl_status status = SL_OK;
    if (w->color[rule] == 2) return SL_OK;
    if (w->color[rule] == 1) return refuse_recursion(names, rule, err);
    if (++w->depth > MAX_DEPTH)
        return sl_fail(err, SL_UNSUPPORTED, "grammar: rules that begin with rules, over %d deep",
                       MAX_DEPTH);
    w->color[rule] = 1;
    if (!first_calls(a, w, rule, &calls)) status = sl_no_memory(err, "a grammar", calls.count);
    for (size_t i = 0; status == SL_OK && i < calls.count; i++)
        status = visit(a, w, calls.words[i], names, err);
    sl_word_list_free(a->pool.allocator, &calls);
    w->color[rule] = 2;
    w->depth--;
    a->rules[rule].order = --w->next_order;
    return status;
}

static sl_status order_rules(finish *f, const naming *names, sl_error *err) {
    sl_automaton *a = f->a;
    walk w = {.next_order = (uint32_t)a->rule_count};
    w.stack = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, a->state_count + 1);
    w.seen = SL_ARENA_NEW_ARRAY(&f->arena, uint32_t, a->state_count);
    w.color = SL_ARENA_NEW_ARRAY(&f->arena, uint8_t, a->rule_count);
    if (!w.stack || !w.seen || !w.color) return sl_no_memory(err, "a grammar", a->state_count);
    for (uint32_t r = 0; r < a->rule_count; r++) SL_TRY(visit(a, &w, r, names, err));
    return SL_OK;
}

/* Bytes that JSON strings tell apart, and those of UTF-8. */
static void split_fixed(sl_automaton *a, bool strings) {
    static const unsigned char utf8[][2] = {{0, 0x1F},    {0x20, 0x7F}, {0x80, 0x8F}, {0x90, 0x9F},
                                            {0xA0, 0xBF}, {0xC2, 0xDF}, {0xE0, 0xE0}, {0xE1, 0xEC},
                                            {0xED, 0xED}, {0xEE, 0xEF}, {0xF0, 0xF0}, {0xF1, 0xF3},
                                            {0xF4, 0xF4}, {'"', '"'},   {'\\', '\\'}};
    static const char escapes[] = "/bfnrtu0123456789abcdefABCDEF";
    for (size_t i = 0; i < sizeof utf8 / sizeof *utf8; i++) {
        sl_byte_set set = {0};
        sl_byte_set_add(&set, utf8[i][0], utf8[i][1]);
        sl_byte_set_split(&set, a->classes, &a->class_count);
    }
    for (size_t i = 0; strings && escapes[i]; i++) {
        sl_byte_set set = {0};
        sl_byte_set_add(&set, (unsigned char)escapes[i], (unsigned char)escapes[i]);
        sl_byte_set_split(&set, a->classes, &a->class_count);
    }
}

static void classify(sl_automaton *a, uint8_t *seen) {
    bool strings = false;
    a->class_count = 1;
    for (size_t i = 0; i < a->edge_count; i++) {
        const sl_edge *edge = &a->edges[i];
        strings |= edge->kind == SL_EDGE_STRING;
        if (edge->kind != SL_EDGE_TEXT && edge->kind != SL_EDGE_STRING) continue;
        if (seen[edge->what]) continue;
        seen[edge->what] = 1;
        sl_expr_split(&a->pool, edge->what, true, a->classes, &a->class_count);
    }
    split_fixed(a, strings);
    for (unsigned b = 256; b-- > 0;) a->class_byte[a->classes[b]] = (uint8_t)b;
}

static sl_status run(finish *f, const naming *names, sl_error *err) {
    sl_automaton *a = f->a;
    if (!prepare(f)) return sl_no_memory(err, "a grammar", a->state_count);
    mark(f, true);
    mark(f, false);
    if (!a->rules[a->root].productive)
        return sl_fail(err, SL_UNSUPPORTED, "grammar: no text satisfies it");
    trim(f);
    uint8_t *seen = SL_ARENA_NEW_ARRAY(&f->arena, uint8_t, sl_word_table_count(&a->pool.nodes));
    if (!seen) return sl_no_memory(err, "a grammar", a->state_count);
    classify(a, seen);
    SL_TRY(sl_automaton_check(a, err));
    return order_rules(f, names, err);
}

sl_status sl_automaton_finish(sl_automaton *a, sl_rule_name_fn *name, const void *ctx,
                              sl_error *err) {
    finish f = {.a = a};
    const naming names = {name, ctx};
    SL_TRY(sl_automaton_check(a, err));
    sl_arena_init(&f.arena, a->pool.allocator);
    const sl_status status = run(&f, &names, err);
    sl_arena_deinit(&f.arena);
    return status;
}
