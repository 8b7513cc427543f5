/* automaton.h - A grammar as rules, each an automaton whose edges read texts or call rules.
 *
 * Edges: nothing (ε); a text of an expression; the rest of a JSON string, up to and with its
 * closing quote, whose decoded contents are a text of an expression; a call of a rule.  Once
 * finished, every state lies on a path to the end of its rule, so that whatever was read can be
 * continued to a text of the grammar.
 *
 * A collection is what stands between two brackets in any order, such as the properties of an
 * object: members, each at most once, and others, any number of times.  Which members have been
 * written is no part of a state of the automaton; it is kept beside it, in a frame (frames.h), of
 * which there is one at a time in a rule: what stands in a collection is called where it may have
 * one of its own.
 * Edges that read nothing open and close a collection and pass only where its frame allows it. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_AUTOMATON_H
#define SL_ENGINE_CHOOSE_GRAMMAR_AUTOMATON_H
#include "engine/choose/grammar/expr.h"

typedef enum {
    SL_EDGE_NONE,
    SL_EDGE_TEXT,
    SL_EDGE_STRING,
    SL_EDGE_CALL,
    SL_EDGE_OPEN,   /* begins a collection */
    SL_EDGE_CLOSE,  /* ends it, if nothing is missing */
    SL_EDGE_MORE,   /* if a member or another may follow */
    SL_EDGE_OTHER,  /* takes what is no member, if it may follow */
    SL_EDGE_MEMBER, /* if this member may follow */
    SL_EDGE_TAKE,   /* takes this member */
} sl_edge_kind;
typedef struct {
    uint32_t kind, what, target; /* what: an expression, a rule, a collection or a member */
    uint32_t next;               /* edge + 1, or 0 */
} sl_edge;

typedef struct {
    uint32_t first : 31, end : 1; /* first edge + 1, or 0; it is the end of a rule */
} sl_state;

typedef struct {
    uint32_t start, end; /* states; no edge leads to start */
    uint32_t order;      /* a rule that can begin with a call of another has a smaller one */
    uint8_t nullable, productive;
} sl_rule;

typedef struct {
    uint32_t first, count; /* its members, in the order of the schema */
    uint32_t min, max;     /* how many there are; max: SL_EXPR_UNBOUNDED: any number */
    uint32_t open_edge;    /* edge + 1 */
    uint32_t required, missing, possible; /* members; missing: required ones that are impossible */
    bool ordered;                         /* members come in their order */
    bool others;                          /* there may be others */
} sl_collection;

typedef struct {
    uint32_t collection;
    bool required;
    bool possible; /* it can be written */
} sl_member;

typedef struct {
    sl_expr_pool pool;
    sl_edge *edges;
    size_t edge_count, edge_capacity;
    sl_state *states;
    size_t state_count, state_capacity;
    sl_rule *rules;
    size_t rule_count, rule_capacity;
    sl_collection *collections;
    size_t collection_count, collection_capacity;
    sl_member *members;
    size_t member_count, member_capacity;
    uint32_t root;        /* rule */
    uint32_t free_target; /* where the text before a trigger leads to, or UINT32_MAX: no trigger */
    uint16_t classes[256];
    unsigned class_count;
    uint8_t class_byte[256]; /* a byte of each class */
    size_t max_states;
    sl_status status;
} sl_automaton;

SL_CHECKED sl_status sl_automaton_init(sl_automaton *a, const sl_allocator *allocator,
                                       sl_error *err);
void sl_automaton_deinit(sl_automaton *a);

/* Without memory or beyond the limits, `status` says so and results are 0. */
uint32_t sl_automaton_state(sl_automaton *a);
uint32_t sl_automaton_rule(sl_automaton *a);
void sl_automaton_edge(sl_automaton *a, sl_edge_kind kind, uint32_t from, uint32_t what,
                       uint32_t to);
static inline void sl_automaton_skip(sl_automaton *a, uint32_t from, uint32_t to) {
    sl_automaton_edge(a, SL_EDGE_NONE, from, 0, to);
}
static inline void sl_automaton_text(sl_automaton *a, uint32_t from, sl_expr e, uint32_t to) {
    sl_automaton_edge(a, SL_EDGE_TEXT, from, e, to);
}
/* Between `from`, where the bracket that opens it has been read, and `opened`. */
uint32_t sl_automaton_collection(sl_automaton *a, const sl_collection *given, uint32_t from,
                                 uint32_t opened);
/* Of the last collection. */
uint32_t sl_automaton_member(sl_automaton *a, bool required);
/* One of the words, which are sorted by bytes and differ, as a tree. */
void sl_automaton_words(sl_automaton *a, uint32_t from, const char *const *words, size_t count,
                        uint32_t to);
SL_CHECKED sl_status sl_automaton_check(const sl_automaton *a, sl_error *err);

/* After the last edge: removes what cannot be completed; fails if the root has no text, or if a
 * rule can begin with itself (name(ctx, rule) for the message; NULL: its number). */
typedef const char *sl_rule_name_fn(const void *ctx, uint32_t rule);
SL_CHECKED sl_status sl_automaton_finish(sl_automaton *a, sl_rule_name_fn *name, const void *ctx,
                                         sl_error *err);
#endif
