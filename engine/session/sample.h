/* sample.h - Choosing a token from logits. */
#ifndef SL_ENGINE_SESSION_SAMPLE_H
#define SL_ENGINE_SESSION_SAMPLE_H
#include "sluice/sluice.h"
#include <stdbool.h>

typedef struct {
    float score;
    sl_token token;
} sl_candidate;

/* Greedy when temperature is 0 (the first of equals).  Otherwise temperature, then top-k, top-p and
 * min-p in that order, then a draw that depends only on seed and position: among all tokens in
 * their order, or among those that pass the filters from the likeliest on.  What is no number is
 * never drawn.  candidates has room for sl_sample_candidates(vocab) entries. */
uint32_t sl_sample_candidates(uint32_t vocab);
sl_token sl_sample(const float *logits, uint32_t vocab, const sl_sampling *how, uint64_t position,
                   sl_candidate *candidates);
#endif
