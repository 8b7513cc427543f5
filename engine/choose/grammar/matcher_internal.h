/* matcher_internal.h - What matcher.c and mask.c share. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_MATCHER_INTERNAL_H
#define SL_ENGINE_CHOOSE_GRAMMAR_MATCHER_INTERNAL_H
#include "engine/choose/grammar/matcher.h"

enum { SL_KEPT_MASKS = 64 };

/* Of a matcher and its forks. */
typedef struct {
    sl_engine engine;
    const sl_token_tries *tries;
    size_t users;
    bool ready;                     /* engine is initialised */
    uint32_t *masks[SL_KEPT_MASKS]; /* the latest */
    uint32_t mask_states[SL_KEPT_MASKS];
    uint32_t next_mask;
    size_t mask_bytes;
    sl_word_map mask_of;  /* state + 1 to index in masks */
    sl_word_map reach_of; /* state + 1 to what is known of bodies (mask.c) */
    sl_word_list stack;   /* states, one per byte of a token */
} sl_matcher_shared;

struct sl_matcher {
    const sl_allocator *allocator;
    sl_matcher_shared *shared;
    uint32_t state;
    bool finished;
    sl_word_list history; /* the state before each token */
};
#endif
