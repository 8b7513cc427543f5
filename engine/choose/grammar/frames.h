/* frames.h - Which members of a collection have been written, and what may follow.
 *
 * A frame has a number; equal frames have the same one, so that they are copied by their number and
 * kept in items of the engine.  Frame 0: outside of collections. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_FRAMES_H
#define SL_ENGINE_CHOOSE_GRAMMAR_FRAMES_H
#include "engine/choose/grammar/automaton.h"

typedef struct {
    const sl_automaton *automaton;
    const sl_allocator *allocator;
    sl_word_table table; /* a frame: its collection, how many were written as far as it matters,
                          * and one bit per member that can no longer be taken */
    sl_word_list scratch;
    struct {
        uint32_t frame;         /* which the rest is about */
        uint32_t number;        /* written, as far as it matters */
        uint32_t room;          /* how many more there may be */
        uint32_t missing;       /* required members that are missing */
        uint32_t first_missing; /* the first of them, or UINT32_MAX */
        uint32_t open;          /* possible members that are left */
    } seen;
} sl_frames;

SL_CHECKED sl_status sl_frames_init(sl_frames *f, const sl_automaton *automaton,
                                    const sl_allocator *allocator, sl_error *err);
void sl_frames_deinit(sl_frames *f);
/* Whether the edge can be passed with the frame, and the frame after it in *out; UINT32_MAX there
 * without memory. */
bool sl_frames_pass(sl_frames *f, const sl_edge *edge, uint32_t frame, uint32_t *out);
#endif
