/* candidates.h - The tokens that samplers have not dropped yet, and selection among them.  Nothing
 * is sorted: ranks are found by selection (quickselect). */
#ifndef SL_ENGINE_CHOOSE_CANDIDATES_H
#define SL_ENGINE_CHOOSE_CANDIDATES_H
#include "sluice/sluice.h"

typedef struct {
    float logit;
    float weight; /* e^(logit - largest) */
    float key;    /* what selection goes by: smaller is better; ties: lower token first */
    sl_token token;
} sl_kept_token;

/* Reorders so that the `keep` best come first. */
void sl_candidates_select(sl_kept_token *items, uint32_t count, uint32_t keep);
/* Reorders so that the fewest best with a total weight of at least `mass` come first, the worst of
 * them last; returns how many, at least one.  count > 0 */
uint32_t sl_candidates_select_mass(sl_kept_token *items, uint32_t count, double mass);
double sl_candidates_mass(const sl_kept_token *items, uint32_t count);
#endif
