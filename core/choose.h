/* choose.h - Sampling of a token from logits: the columns of choose's operand `how`.
 *
 * If no logit is a number there is no token: -1.  If the temperature is 0, or the largest logit is
 * not finite: argmax, the first on ties.
 * Otherwise the weight of a token is e^((logit - largest) / temperature), and 0 for NaN.  If a
 * filter is on, tokens are sorted by descending logit (ties: lower id first) and cut: the first
 * top_k; of these the shortest prefix with a share of at least top_p of their weight; of these the
 * tokens whose weight is at least min_p.  Then inverse-CDF sampling: the first token whose
 * cumulative probability reaches `share`.  Without filters tokens are in order of their ids, and
 * the first one whose cumulative probability exceeds `share` is chosen.  A column of 0 (for top_p
 * also 1) turns its filter off. */
#ifndef SL_CORE_CHOOSE_H
#define SL_CORE_CHOOSE_H

enum {
    SL_CHOOSE_TEMPERATURE, /* below 0: no token is sampled */
    SL_CHOOSE_TOP_K,
    SL_CHOOSE_TOP_P,
    SL_CHOOSE_MIN_P,
    SL_CHOOSE_SHARE, /* in [0, 1) */
    SL_CHOOSE_COLUMNS
};
#endif
