/* rope.h - The angles of rotary position embeddings (RoPE), shared by the evaluator and all
 * devices.
 *
 * Pair j of R/2 is rotated by position * frequency(j) radians.  Unscaled frequencies are
 * theta^(-2j/R).  Scaling divides some of them by `factor`.  linear: all.  llama3: those with few
 * rotations within the original context; up to `low` rotations fully, from `high` on not at all.
 * yarn: those of late pairs, with the same two edges (`low` is beta_slow, `high` is beta_fast)
 * expressed as pair numbers.  In between the two frequencies are interpolated linearly.
 *
 * Computed in double precision: angles reach 2^17 rad, where f32 resolves only about 0.01 rad. */
#ifndef SL_CORE_ROPE_H
#define SL_CORE_ROPE_H
#include "core/everywhere.h"
#include <math.h>
#include <stdint.h>

enum { SL_SCALING_PLAIN, SL_SCALING_LINEAR, SL_SCALING_LLAMA3, SL_SCALING_YARN, SL_SCALING_COUNT };

/* The attributes of rope_table in the form in which frequencies need them. */
typedef struct {
    double theta, factor;
    double first, last; /* edges: in rotations (llama3), in pairs (yarn) */
    double original;    /* context length / 2 pi: rotations per unit of frequency */
    double magnitude;   /* of cosines and sines */
    uint32_t rotary, scaling;
} sl_rope_form;

/* The interpolation weight of the divided frequency for pair j, 0 to 1. */
SL_EVERYWHERE double sl_rope_share(const sl_rope_form *form, int64_t j, double plain) {
    if (form->scaling == SL_SCALING_PLAIN) return 0;
    if (form->scaling == SL_SCALING_LINEAR) return 1;
    const double at = form->scaling == SL_SCALING_YARN ? (double)j : form->original * plain;
    const double share = (at - form->first) / (form->last - form->first);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}
SL_EVERYWHERE double sl_rope_frequency(const sl_rope_form *form, int64_t j) {
    const double plain = pow(form->theta, -2.0 * (double)j / (double)form->rotary);
    const double share = sl_rope_share(form, j, plain);
    return share == 0 ? plain : plain * (1 - share) + plain / form->factor * share;
}

#ifndef __cplusplus
#include "core/model_ops.h"
sl_rope_form sl_rope_form_of(const sl_rope_table_attrs *attrs);
#endif
#endif
