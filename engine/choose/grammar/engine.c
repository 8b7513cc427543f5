/* engine.c - Sets of items, stack nodes and states. */
#include "engine/choose/grammar/engine.h"
#include "engine/choose/grammar/charset.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 8, ITEM_WORDS = 4, MAX_WORDS = 64 << 20 };
/* The first word of an item: a kind, and above it the phase inside an escape of a JSON string. */
enum { ITEM_END, ITEM_CALL, ITEM_TEXT, ITEM_STRING };
/* The words of an item. */
enum { IN_KIND, IN_WHAT, IN_TARGET, IN_FRAME };
enum { PHASE_CHARACTERS, PHASE_BACKSLASH, PHASE_U, PHASE_U0, PHASE_U00, PHASE_U000, PHASE_U001 };
enum { TRAIT_ACCEPTS = 1, TRAIT_FREE = 2, TRAIT_SPACIOUS = 4 };

static bool fail(sl_engine *g, sl_status status) {
    if (g->status == SL_OK) g->status = status;
    return false;
}

sl_status sl_engine_check(const sl_engine *g, sl_error *err) {
    SL_TRY(sl_expr_pool_check(&g->pool, err));
    if (g->status == SL_OK) return SL_OK;
    if (g->status == SL_NO_MEMORY) return sl_no_memory(err, "the states of a grammar", 0);
    return sl_fail(err, SL_UNSUPPORTED, "grammar: its states take more than %zu words, the limit",
                   g->limit_words);
}

static bool add(sl_engine *g, sl_word_list *list, uint32_t word) {
    return sl_word_list_add(g->allocator, list, word) || fail(g, SL_NO_MEMORY);
}

static bool add_item(sl_engine *g, sl_word_list *list, const uint32_t item[ITEM_WORDS]) {
    return sl_word_list_append(g->allocator, list, item, ITEM_WORDS) || fail(g, SL_NO_MEMORY);
}

static uint32_t put(sl_engine *g, sl_word_table *table, const uint32_t *words, size_t count) {
    const uint32_t id =
        g->status == SL_OK ? sl_word_table_put(g->allocator, table, words, count) : UINT32_MAX;
    const size_t used = g->sets.words.count + g->nodes.words.count + g->states.words.count +
                        g->frames.table.words.count + g->rows.count +
                        3 * (g->set_steps.capacity + g->closures.capacity);
    if (used > g->limit_words) (void)fail(g, SL_UNSUPPORTED);
    if (id != UINT32_MAX) return id;
    (void)fail(g, SL_NO_MEMORY);
    return 0;
}

static int by_item(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    for (unsigned i = 0; i < ITEM_WORDS; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* The number of the set of the items in list, which is sorted here. */
static uint32_t put_set(sl_engine *g, sl_word_list *list) {
    size_t kept = 0;
    uint32_t *w = list->words;
    if (list->count > ITEM_WORDS)
        qsort(w, list->count / ITEM_WORDS, ITEM_WORDS * sizeof *w, by_item);
    for (size_t i = 0; i < list->count; i += ITEM_WORDS) {
        if (kept && by_item(w + kept - ITEM_WORDS, w + i) == 0) continue;
        memmove(w + kept, w + i, ITEM_WORDS * sizeof *w);
        kept += ITEM_WORDS;
    }
    return put(g, &g->sets, w, kept);
}

/* A place to look at, unless it was. */
static void visit(sl_engine *g, uint32_t state, uint32_t frame) {
    if (g->seen[state] == g->round && g->seen_frame[state] == frame) return;
    g->seen[state] = g->round;
    g->seen_frame[state] = frame;
    (void)(add(g, &g->todo, state) && add(g, &g->todo, frame));
}

static void add_edge(sl_engine *g, sl_word_list *list, const sl_edge *edge, uint32_t frame) {
    uint32_t after = frame;
    bool skips = true;
    if (edge->kind == SL_EDGE_TEXT) {
        (void)add_item(g, list, (uint32_t[]){ITEM_TEXT, edge->what, edge->target, frame});
        skips = sl_expr_nullable(&g->pool, edge->what);
    } else if (edge->kind == SL_EDGE_STRING) {
        (void)add_item(g, list, (uint32_t[]){ITEM_STRING, edge->what, edge->target, frame});
        skips = false;
    } else if (edge->kind == SL_EDGE_CALL) {
        (void)add_item(g, list, (uint32_t[]){ITEM_CALL, edge->what, edge->target, frame});
        skips = g->automaton->rules[edge->what].nullable;
    } else if (edge->kind >= SL_EDGE_OPEN) {
        skips = sl_frames_pass(&g->frames, edge, frame, &after);
        if (after == UINT32_MAX) skips = fail(g, SL_NO_MEMORY);
    }
    if (skips) visit(g, edge->target, after);
}

/* Adds the items that a place stands for, without those of called rules. */
static void add_closure(sl_engine *g, sl_word_list *list, uint32_t state, uint32_t frame) {
    const sl_automaton *a = g->automaton;
    const size_t bottom = g->todo.count;
    visit(g, state, frame);
    while (g->todo.count > bottom && g->status == SL_OK) {
        const uint32_t at = g->todo.words[--g->todo.count];
        const uint32_t s = g->todo.words[--g->todo.count];
        if (a->states[s].end) (void)add_item(g, list, (uint32_t[ITEM_WORDS]){ITEM_END});
        for (uint32_t e = a->states[s].first; e; e = a->edges[e - 1].next)
            add_edge(g, list, &a->edges[e - 1], at);
    }
    g->todo.count = bottom;
}

static uint32_t closure_of(sl_engine *g, uint32_t state, uint32_t frame) {
    const uint64_t key = (uint64_t)frame << 32 | (state + 1);
    uint32_t known;
    if (sl_word_map_find(&g->closures, key, &known)) return known;
    g->round++;
    g->work.count = 0;
    add_closure(g, &g->work, state, frame);
    const uint32_t set = put_set(g, &g->work);
    if (!sl_word_map_set(g->allocator, &g->closures, key, set)) (void)fail(g, SL_NO_MEMORY);
    return set;
}

/* The items that a call of the rule begins with.  That it can end at once is known to callers. */
static uint32_t start_of(sl_engine *g, uint32_t rule) {
    if (g->starts[rule]) return g->starts[rule] - 1;
    size_t kept = 0;
    g->round++;
    g->work.count = 0;
    add_closure(g, &g->work, g->automaton->rules[rule].start, 0);
    for (size_t i = 0; i < g->work.count; i += ITEM_WORDS) {
        if (g->work.words[i] == ITEM_END) continue;
        memmove(g->work.words + kept, g->work.words + i, ITEM_WORDS * sizeof *g->work.words);
        kept += ITEM_WORDS;
    }
    g->work.count = kept;
    const uint32_t set = put_set(g, &g->work);
    g->starts[rule] = set + 1;
    return set;
}

static void step_text(sl_engine *g, const uint32_t item[ITEM_WORDS], unsigned byte) {
    unsigned first;
    if (sl_expr_first(&g->pool, item[IN_WHAT], &first) && first != byte) return;
    const sl_expr e = sl_expr_derive(&g->pool, item[IN_WHAT], byte);
    if (e == SL_EXPR_NONE || !sl_expr_alive(&g->pool, e)) return;
    if (e != SL_EXPR_EMPTY)
        (void)add_item(g, &g->work, (uint32_t[]){ITEM_TEXT, e, item[IN_TARGET], item[IN_FRAME]});
    if (sl_expr_nullable(&g->pool, e)) add_closure(g, &g->work, item[IN_TARGET], item[IN_FRAME]);
}

/* Inside a string: reads one decoded byte. */
static sl_expr decoded(sl_engine *g, sl_expr e, unsigned byte) {
    const sl_expr d = sl_expr_derive(&g->pool, e, byte);
    return d != SL_EXPR_NONE && sl_expr_alive(&g->pool, d) ? d : SL_EXPR_NONE;
}

static bool any_decoded(sl_engine *g, sl_expr e, unsigned first, unsigned last) {
    for (unsigned b = first; b <= last; b++)
        if (decoded(g, e, b) != SL_EXPR_NONE) return true;
    return false;
}

/* Characters that can be written as a backslash and a letter. */
static const char escape_letters[] = "\"\\/bfnrt", escape_values[] = "\"\\/\b\f\n\r\t";

static bool can_escape(sl_engine *g, sl_expr e) {
    for (unsigned i = 0; escape_letters[i]; i++)
        if (decoded(g, e, (unsigned char)escape_values[i]) != SL_EXPR_NONE) return true;
    return any_decoded(g, e, 0, 0x1F);
}

/* The phase after a byte of an escape, or UINT32_MAX; *e: what is left after a whole escape. */
static uint32_t step_escape(sl_engine *g, uint32_t phase, sl_expr *e, unsigned byte) {
    const char *letter = byte ? strchr(escape_letters, (int)byte) : NULL;
    const unsigned digit = byte >= '0' && byte <= '9'   ? byte - '0'
                           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                        : 16;
    switch (phase) {
    case PHASE_BACKSLASH:
        if (byte == 'u' && any_decoded(g, *e, 0, 0x1F)) return PHASE_U;
        if (!letter) return UINT32_MAX;
        *e = decoded(g, *e, (unsigned char)escape_values[letter - escape_letters]);
        return *e == SL_EXPR_NONE ? UINT32_MAX : PHASE_CHARACTERS;
    case PHASE_U:
        return digit == 0 ? PHASE_U0 : UINT32_MAX;
    case PHASE_U0:
        return digit == 0 ? PHASE_U00 : UINT32_MAX;
    case PHASE_U00:
        if (digit > 1 || !any_decoded(g, *e, digit * 16, digit * 16 + 15)) return UINT32_MAX;
        return digit ? PHASE_U001 : PHASE_U000;
    default:
        if (digit > 15) return UINT32_MAX;
        *e = decoded(g, *e, digit + (phase == PHASE_U001 ? 16 : 0));
        return *e == SL_EXPR_NONE ? UINT32_MAX : PHASE_CHARACTERS;
    }
}

static void step_string(sl_engine *g, const uint32_t item[ITEM_WORDS], unsigned byte) {
    uint32_t phase = item[IN_KIND] >> 8;
    sl_expr e = item[IN_WHAT];
    if (phase != PHASE_CHARACTERS) {
        phase = step_escape(g, phase, &e, byte);
        if (phase == UINT32_MAX) return;
    } else if (byte == '"') {
        if (sl_expr_nullable(&g->pool, e))
            add_closure(g, &g->work, item[IN_TARGET], item[IN_FRAME]);
        return;
    } else if (byte == '\\') {
        if (!can_escape(g, e)) return;
        phase = PHASE_BACKSLASH;
    } else {
        e = byte < 0x20 ? SL_EXPR_NONE : decoded(g, e, byte);
        if (e == SL_EXPR_NONE) return;
    }
    (void)add_item(g, &g->work,
                   (uint32_t[]){ITEM_STRING | phase << 8, e, item[IN_TARGET], item[IN_FRAME]});
}

static uint32_t step_set(sl_engine *g, uint32_t set, unsigned class) {
    const uint64_t key = ((uint64_t)set << 9 | class) + 1;
    const unsigned byte = g->automaton->class_byte[class];
    uint32_t known;
    size_t count;
    if (sl_word_map_find(&g->set_steps, key, &known)) return known;
    g->round++;
    g->work.count = 0;
    const uint32_t *items = sl_word_table_get(&g->sets, set, &count);
    for (size_t i = 0; i < count && g->status == SL_OK; i += ITEM_WORDS) {
        const uint32_t kind = items[i] & 0xFF;
        if (kind == ITEM_TEXT) step_text(g, items + i, byte);
        if (kind == ITEM_STRING) step_string(g, items + i, byte);
    }
    if (g->pool.status != SL_OK) (void)fail(g, g->pool.status);
    const uint32_t made = put_set(g, &g->work);
    if (!sl_word_map_set(g->allocator, &g->set_steps, key, made)) (void)fail(g, SL_NO_MEMORY);
    return made;
}

static bool set_ends(const sl_engine *g, uint32_t set) {
    size_t count;
    const uint32_t *items = sl_word_table_get(&g->sets, set, &count);
    return count && items[0] == ITEM_END;
}

static uint32_t unite(sl_engine *g, uint32_t a, uint32_t b) {
    size_t count;
    if (a == b) return a;
    g->work.count = 0;
    for (unsigned i = 0; i < 2; i++) {
        const uint32_t *items = sl_word_table_get(&g->sets, i ? b : a, &count);
        if (!sl_word_list_append(g->allocator, &g->work, items, count)) (void)fail(g, SL_NO_MEMORY);
    }
    return put_set(g, &g->work);
}

/* Adds a (node, set) pair to a list of them; true: the list has changed. */
static bool add_pair(sl_engine *g, sl_word_list *list, uint32_t node, uint32_t set) {
    for (size_t i = 0; i < list->count; i += 2) {
        if (list->words[i] != node) continue;
        const uint32_t both = unite(g, list->words[i + 1], set);
        const bool changed = both != list->words[i + 1];
        list->words[i + 1] = both;
        return changed;
    }
    (void)add(g, list, node);
    (void)add(g, list, set);
    return true;
}

static int by_pair(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

static uint32_t put_pairs(sl_engine *g, sl_word_table *table, sl_word_list *list) {
    if (list->count > 2) qsort(list->words, list->count / 2, 2 * sizeof *list->words, by_pair);
    return put(g, table, list->words, list->count);
}

/* Where rules have ended, continues where they return to. */
static void return_from_rules(sl_engine *g) {
    sl_word_list *groups = &g->groups;
    for (bool changed = true; changed && g->status == SL_OK;) {
        changed = false;
        for (size_t i = 0; i < groups->count; i += 2) {
            const uint32_t node = groups->words[i];
            size_t count;
            if (!node || !set_ends(g, groups->words[i + 1])) continue;
            (void)sl_word_table_get(&g->nodes, node, &count);
            for (size_t k = 0; k < count; k += 2) {
                const uint32_t *pairs = sl_word_table_get(&g->nodes, node, &count);
                changed |= add_pair(g, groups, pairs[k], pairs[k + 1]);
            }
        }
    }
}

/* Waiting calls: a rule, the place that it returns to, and the stack node of that. */
enum { CALL_RULE, CALL_TARGET, CALL_FRAME, CALL_NODE, CALL_WORDS };

static void add_calls(sl_engine *g, uint32_t set, uint32_t node) {
    size_t count;
    const uint32_t *items = sl_word_table_get(&g->sets, set, &count);
    for (size_t i = 0; i < count; i += ITEM_WORDS) {
        const uint32_t *item = items + i;
        if (item[IN_KIND] > ITEM_CALL) break;
        const uint32_t call[CALL_WORDS] = {item[IN_WHAT], item[IN_TARGET], item[IN_FRAME], node};
        if (item[IN_KIND] == ITEM_CALL &&
            !sl_word_list_append(g->allocator, &g->calls, call, CALL_WORDS))
            (void)fail(g, SL_NO_MEMORY);
    }
}

/* The waiting rule that no other waiting rule can begin with, or UINT32_MAX. */
static uint32_t next_rule(const sl_engine *g) {
    uint32_t best = UINT32_MAX;
    for (size_t i = 0; i < g->calls.count; i += CALL_WORDS) {
        const uint32_t rule = g->calls.words[i + CALL_RULE];
        if (best == UINT32_MAX || g->automaton->rules[rule].order < g->automaton->rules[best].order)
            best = rule;
    }
    return best;
}

/* Enters all rules that are called: one stack node per rule, for all of its callers. */
static void enter_rules(sl_engine *g) {
    sl_word_list callers = {0};
    g->calls.count = 0;
    const size_t groups = g->groups.count;
    for (size_t i = 0; i < groups; i += 2) add_calls(g, g->groups.words[i + 1], g->groups.words[i]);
    for (uint32_t rule; g->status == SL_OK && (rule = next_rule(g)) != UINT32_MAX;) {
        size_t kept = 0;
        callers.count = 0;
        for (size_t i = 0; i < g->calls.count; i += CALL_WORDS) {
            uint32_t call[CALL_WORDS];
            memcpy(call, g->calls.words + i, sizeof call);
            if (call[CALL_RULE] == rule) {
                (void)add_pair(g, &callers, call[CALL_NODE],
                               closure_of(g, call[CALL_TARGET], call[CALL_FRAME]));
                continue;
            }
            memcpy(g->calls.words + kept, call, sizeof call);
            kept += CALL_WORDS;
        }
        g->calls.count = kept;
        const uint32_t node = put_pairs(g, &g->nodes, &callers);
        const uint32_t start = start_of(g, rule);
        (void)add_pair(g, &g->groups, node, start);
        add_calls(g, start, node);
    }
    sl_word_list_free(g->allocator, &callers);
}

static uint32_t traits_of(const sl_engine *g, const sl_word_list *groups) {
    uint32_t traits = 0;
    for (size_t i = 0; i < groups->count; i += 2) {
        size_t count;
        const uint32_t *items = sl_word_table_get(&g->sets, groups->words[i + 1], &count);
        if (!groups->words[i] && count && items[0] == ITEM_END) traits |= TRAIT_ACCEPTS;
        for (size_t k = 0; k < count; k += ITEM_WORDS) {
            const uint32_t *item = items + k;
            if (item[IN_KIND] == ITEM_TEXT && item[IN_TARGET] == g->automaton->free_target)
                traits |= TRAIT_FREE;
            if (item[IN_KIND] == ITEM_STRING && sl_expr_spacious(&g->pool, item[IN_WHAT], g->text))
                traits |= TRAIT_SPACIOUS;
        }
    }
    return traits;
}

static uint32_t put_state(sl_engine *g) {
    size_t kept = 0;
    sl_word_list *groups = &g->groups;
    for (size_t i = 0; i < groups->count; i += 2) {
        size_t items;
        (void)sl_word_table_get(&g->sets, groups->words[i + 1], &items);
        if (!items) continue;
        groups->words[kept] = groups->words[i];
        groups->words[kept + 1] = groups->words[i + 1];
        kept += 2;
    }
    groups->count = kept;
    const uint32_t state = put_pairs(g, &g->states, groups);
    if (g->status != SL_OK) return SL_STATE_DEAD;
    if (state == g->traits.count)
        (void)(add(g, &g->traits, traits_of(g, groups)) && add(g, &g->row_of, 0));
    return g->status == SL_OK ? state : SL_STATE_DEAD;
}

static bool add_row(sl_engine *g, uint32_t state) {
    const size_t classes = g->automaton->class_count; /* every byte is in one */
    if (classes == 0) return false;
    for (size_t i = 0; i < classes; i++)
        if (!add(g, &g->rows, SL_STATE_UNKNOWN)) return false;
    g->row_of.words[state] = (uint32_t)(g->rows.count / classes);
    return true;
}

uint32_t sl_engine_step(sl_engine *g, uint32_t state, unsigned class) {
    size_t count;
    if (state == SL_STATE_DEAD || g->status != SL_OK) return SL_STATE_DEAD;
    if (!g->row_of.words[state] && !add_row(g, state)) return SL_STATE_DEAD;
    (void)sl_word_table_get(&g->states, state, &count);
    g->groups.count = 0;
    for (size_t i = 0; i < count; i += 2) {
        const uint32_t *pairs = sl_word_table_get(&g->states, state, &count);
        const uint32_t node = pairs[i], set = step_set(g, pairs[i + 1], class);
        (void)add_pair(g, &g->groups, node, set);
    }
    return_from_rules(g);
    enter_rules(g);
    const uint32_t made = put_state(g);
    if (g->status != SL_OK) return SL_STATE_DEAD;
    g->rows.words[(size_t)(g->row_of.words[state] - 1) * g->automaton->class_count + class] = made;
    return made;
}

bool sl_engine_accepts(const sl_engine *g, uint32_t state) {
    return g->traits.words[state] & TRAIT_ACCEPTS;
}

bool sl_engine_is_free(const sl_engine *g, uint32_t state) {
    return g->traits.words[state] & TRAIT_FREE;
}

bool sl_engine_is_spacious(const sl_engine *g, uint32_t state) {
    return g->traits.words[state] & TRAIT_SPACIOUS;
}

static void prepare(sl_engine *g) {
    const sl_automaton *a = g->automaton;
    g->starts = sl_allocate(g->allocator, a->rule_count * sizeof *g->starts, ALIGN);
    g->seen = sl_allocate(g->allocator, a->state_count * sizeof *g->seen, ALIGN);
    g->seen_frame = sl_allocate(g->allocator, a->state_count * sizeof *g->seen_frame, ALIGN);
    if (!g->starts || !g->seen || !g->seen_frame) {
        (void)fail(g, SL_NO_MEMORY);
        return;
    }
    g->text = sl_charset_text(&g->pool);
    (void)put(g, &g->sets, NULL, 0);
    (void)put(g, &g->nodes, NULL, 0);
    (void)put_state(g); /* the dead one */
    const uint32_t set = closure_of(g, a->rules[a->root].start, 0);
    (void)add_pair(g, &g->groups, 0, set);
    enter_rules(g);
    g->initial = put_state(g);
}

sl_status sl_engine_init(sl_engine *g, const sl_automaton *automaton, const sl_allocator *allocator,
                         sl_error *err) {
    *g = (sl_engine){.automaton = automaton,
                     .allocator = sl_allocator_or_default(allocator),
                     .limit_words = MAX_WORDS};
    SL_TRY(sl_expr_pool_copy(&automaton->pool, MAX_WORDS, &g->pool, err));
    sl_status status = sl_frames_init(&g->frames, automaton, g->allocator, err);
    if (status == SL_OK) {
        prepare(g);
        status = sl_engine_check(g, err);
    }
    if (status != SL_OK) sl_engine_deinit(g);
    return status;
}

void sl_engine_deinit(sl_engine *g) {
    const sl_automaton *a = g->automaton;
    enum { LISTS = 7 };
    sl_word_list *const lists[LISTS] = {&g->row_of, &g->rows,  &g->traits, &g->work,
                                        &g->groups, &g->calls, &g->todo};
    for (size_t i = 0; i < LISTS; i++) sl_word_list_free(g->allocator, lists[i]);
    sl_word_table_free(g->allocator, &g->sets);
    sl_word_table_free(g->allocator, &g->nodes);
    sl_word_table_free(g->allocator, &g->states);
    sl_word_map_free(g->allocator, &g->set_steps);
    sl_word_map_free(g->allocator, &g->closures);
    sl_frames_deinit(&g->frames);
    if (g->starts) sl_release(g->allocator, g->starts, a->rule_count * sizeof *g->starts, ALIGN);
    if (g->seen) sl_release(g->allocator, g->seen, a->state_count * sizeof *g->seen, ALIGN);
    if (g->seen_frame)
        sl_release(g->allocator, g->seen_frame, a->state_count * sizeof *g->seen_frame, ALIGN);
    sl_expr_pool_deinit(&g->pool);
}
