/* choose.h - How a token is chosen from logits: the columns of choose's operand `how`.
 *
 * Where the temperature is 0, or the largest logit is not finite: the first of the largest.
 * Otherwise each token weighs e^((logit - largest) / temperature), what is no number nothing.  With
 * any of the filters on, tokens are taken in the order of their logits (the lower of equals first):
 * the first top_k; of those the fewest that hold top_p of their weight; of those the ones that
 * weigh min_p at least; and the last of the fewest that hold `share` of what these weigh is chosen.
 * Without filters tokens stand in their own order, and the first is chosen up to which they hold
 * more than `share`.  Columns of 0 (top_p: 1 too) filter nothing. */
#ifndef SL_CORE_CHOOSE_H
#define SL_CORE_CHOOSE_H

enum {
    SL_CHOOSE_TEMPERATURE, /* below 0: nothing is chosen */
    SL_CHOOSE_TOP_K,
    SL_CHOOSE_TOP_P,
    SL_CHOOSE_MIN_P,
    SL_CHOOSE_SHARE, /* in [0, 1) */
    SL_CHOOSE_COLUMNS
};
#endif
