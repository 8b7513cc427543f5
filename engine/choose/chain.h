/* chain.h - Samplers applied one after another to the tokens that the ones before have kept. */
#ifndef SL_ENGINE_CHOOSE_CHAIN_H
#define SL_ENGINE_CHOOSE_CHAIN_H
#include "engine/choose/penalties.h"

typedef struct {
    const sl_choose_plan *plan;
    const sl_history *history;
    float *logits;             /* [vocab], biased and masked; the chain changes them */
    uint32_t *marks, *repeats; /* as in sl_penalised */
    sl_kept_token *items;      /* [vocab]: the tokens that are left, once there is such a list */
    uint32_t count;
    bool is_listed;
    double share, aside; /* in [0, 1): for drawing, and for XTC */
    float surprise;      /* mirostat's mu, which drawing changes */
} sl_chain;

/* Applies the samplers of the plan's order, and mirostat's way to drop tokens; then items[0 ..
 * count) are left, with their weights.  Some logit is a finite number, and none is +infinity. */
void sl_chain_run(sl_chain *chain);
/* The largest logit; -infinity if none is a number. */
float sl_largest_logit(const float *logits, uint32_t count);
/* Draws one of those by weight, in order of falling logits. */
sl_token sl_chain_draw(sl_chain *chain);
#endif
