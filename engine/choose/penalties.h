/* penalties.h - Changes of logits: by the tokens so far, by biases, and by what is impossible. */
#ifndef SL_ENGINE_CHOOSE_PENALTIES_H
#define SL_ENGINE_CHOOSE_PENALTIES_H
#include "engine/choose/candidates.h"
#include "engine/choose/plan.h"
#include <float.h>

/* The logits that a penalty changes: those of all tokens, or of the items if there are some. */
typedef struct {
    const sl_choose_plan *plan;
    const sl_history *history;
    float *logits; /* [vocab] */
    sl_kept_token *items;
    uint32_t count;
    uint32_t *marks;   /* [vocab]: zeros between calls */
    uint32_t *repeats; /* [history->length]; of sl_penalise_dry only */
} sl_penalised;

void sl_penalise_repeated(const sl_penalised *p);
void sl_penalise_dry(const sl_penalised *p);

/* Changed logits stay below infinity; NaN stays NaN. */
static inline float sl_finite_logit(double logit) {
    return (float)(logit > (double)FLT_MAX ? (double)FLT_MAX : logit);
}

/* Biases, and the end tokens that min_tokens and ignore_eos make impossible. */
void sl_bias_logits(const sl_choose_plan *plan, const sl_history *history, float *logits);
/* Whether sl_bias_logits changes anything now. */
bool sl_bias_is_on(const sl_choose_plan *plan, const sl_history *history);
/* Tokens without a bit in `allowed` become impossible. */
void sl_mask_logits(const uint32_t *allowed, float *logits, uint32_t vocab);
#endif
