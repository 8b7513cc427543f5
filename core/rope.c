#include "core/rope.h"

/* The (fractional) pair number that makes `turns` rotations within the original context. */
static double pair_of(const sl_rope_table_attrs *a, double turns) {
    return (double)a->rotary * log((double)a->original / (turns * 2 * M_PI)) /
           (2 * log((double)a->theta));
}

static void set_pairs(const sl_rope_table_attrs *a, sl_rope_form *form) {
    double first = pair_of(a, (double)a->high), last = pair_of(a, (double)a->low);
    if (a->truncate) first = floor(first), last = ceil(last);
    form->first = first < 0 ? 0 : first;
    form->last = last > (double)a->rotary - 1 ? (double)a->rotary - 1 : last;
    /* A narrow ramp instead of a division by zero. */
    if (form->last == form->first) form->last += 0.001;
}

sl_rope_form sl_rope_form_of(const sl_rope_table_attrs *attrs) {
    sl_rope_form form = {.theta = (double)attrs->theta,
                         .factor = (double)attrs->factor,
                         .original = (double)attrs->original / (2 * M_PI),
                         .magnitude = attrs->magnitude == 0 ? 1 : (double)attrs->magnitude,
                         .rotary = attrs->rotary,
                         .scaling = attrs->scaling};
    if (attrs->scaling == SL_SCALING_YARN) set_pairs(attrs, &form);
    /* The more rotations a frequency makes, the less it is divided. */
    if (attrs->scaling == SL_SCALING_LLAMA3)
        form.first = (double)attrs->high, form.last = (double)attrs->low;
    return form;
}
