/* rope.h - The angles of rotary positions, in one place for the evaluator and every device.
 *
 * A position turns pair j of R/2 by position * frequency(j) radians.  Plain frequencies are
 * theta^(-2j/R).  Scalings divide some of them by `factor`: all (linear); those of few turns within
 * the original context (llama3: up to `low` turns all the way, from `high` on not at all); those of
 * late pairs (yarn: the same edges, `low` being beta_slow and `high` beta_fast, as numbers of
 * pairs).  In between they go over evenly.
 * In double: a position of 2^17 turns by as many radians, and a float would know its angle to a
 * hundredth. */
#ifndef SL_CORE_ROPE_H
#define SL_CORE_ROPE_H
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SL_ROPE_INLINE static __host__ __device__ inline
#else
#define SL_ROPE_INLINE static inline
#endif

enum { SL_SCALING_PLAIN, SL_SCALING_LINEAR, SL_SCALING_LLAMA3, SL_SCALING_YARN, SL_SCALING_COUNT };

/* rope_table's attributes, as frequencies need them. */
typedef struct {
    double theta, factor;
    double first, last; /* edges: of turns (llama3), of pairs (yarn) */
    double original;    /* context length over 2 pi: turns of a frequency */
    double magnitude;   /* of cosines and sines */
    uint32_t rotary, scaling;
} sl_rope_form;

/* How far pair j is on the way to being divided. */
SL_ROPE_INLINE double sl_rope_share(const sl_rope_form *form, int64_t j, double plain) {
    if (form->scaling == SL_SCALING_PLAIN) return 0;
    if (form->scaling == SL_SCALING_LINEAR) return 1;
    const double at = form->scaling == SL_SCALING_YARN ? (double)j : form->original * plain;
    const double share = (at - form->first) / (form->last - form->first);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}
SL_ROPE_INLINE double sl_rope_frequency(const sl_rope_form *form, int64_t j) {
    const double plain = pow(form->theta, -2.0 * (double)j / (double)form->rotary);
    const double share = sl_rope_share(form, j, plain);
    return share == 0 ? plain : plain * (1 - share) + plain / form->factor * share;
}

#ifndef __cplusplus
#include "core/ops.h"
sl_rope_form sl_rope_form_of(const sl_rope_table_attrs *attrs);
#endif
#endif
