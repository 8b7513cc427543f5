/* engine.h - What has been read so far as a state, and the states that bytes lead to.
 *
 * An item is a place in the grammar: inside a text (the expression of what is left of it), at a
 * call of a rule, or at the end of a rule; and the frame of the collection around it.  A set of
 * items has a number.  A stack node lists where the running rules return to: pairs of a set of
 * items and the stack node below.  A state is a list of groups, each a set of items on a stack
 * node.  Equal sets, nodes and states have equal numbers, so transitions are computed once.  State
 * 0 has no group: nothing can follow.
 *
 * All of this is found while it is needed, and belongs to one engine, which one thread uses. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_ENGINE_H
#define SL_ENGINE_CHOOSE_GRAMMAR_ENGINE_H
#include "engine/choose/grammar/frames.h"

#define SL_STATE_UNKNOWN UINT32_MAX
enum { SL_STATE_DEAD = 0 };

typedef struct {
    const sl_automaton *automaton;
    const sl_allocator *allocator;
    sl_expr_pool pool;
    sl_frames frames;
    sl_word_table sets;   /* items: four words each, sorted */
    sl_word_table nodes;  /* stack nodes: (node, set) pairs, sorted; 0: the bottom */
    sl_word_table states; /* (node, set) pairs, sorted; 0: dead */
    sl_word_map set_steps;
    sl_word_map closures; /* (state of the automaton, frame) to a set */
    uint32_t *starts;     /* per rule: set + 1 */
    uint32_t *seen;       /* per state of the automaton: the last round that visited it, */
    uint32_t *seen_frame; /* and the frame that it had then */
    uint32_t round;
    sl_word_list row_of; /* per state: index of its row + 1 */
    sl_word_list rows;   /* class_count words per row: state or SL_STATE_UNKNOWN */
    sl_word_list traits; /* per state */
    sl_word_list work, groups, calls, todo; /* scratch */
    uint32_t initial;
    sl_expr text; /* any text */
    size_t limit_words;
    sl_status status;
} sl_engine;

SL_CHECKED sl_status sl_engine_init(sl_engine *g, const sl_automaton *automaton,
                                    const sl_allocator *allocator, sl_error *err);
void sl_engine_deinit(sl_engine *g);
/* The state after one more byte; without memory or beyond the limit, status says so. */
uint32_t sl_engine_step(sl_engine *g, uint32_t state, unsigned class);
static inline uint32_t sl_engine_next(sl_engine *engine, uint32_t state, unsigned class) {
    const uint32_t row = engine->row_of.words[state];
    if (row) {
        const uint32_t known =
            engine->rows.words[(size_t)(row - 1) * engine->automaton->class_count + class];
        if (known != SL_STATE_UNKNOWN) return known;
    }
    return sl_engine_step(engine, state, class);
}
/* The whole text read so far is one of the grammar. */
bool sl_engine_accepts(const sl_engine *g, uint32_t state);
/* The text before a trigger: anything may follow. */
bool sl_engine_is_free(const sl_engine *g, uint32_t state);
/* Inside a string that any characters can continue, whatever they are. */
bool sl_engine_is_spacious(const sl_engine *g, uint32_t state);
SL_CHECKED sl_status sl_engine_check(const sl_engine *g, sl_error *err);
#endif
