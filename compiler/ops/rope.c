/* rope.c - Tables of RoPE angles, and RoPE after a norm. */
#include "core/rope.h"
#include "compiler/ops/check.h"
#include <math.h>

static sl_status check_positive(const sl_infer_args *a, const char *name, float value,
                                sl_error *err) {
    if (value > 0 && !isinf(value)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %g, must be positive", a->label, name,
                   (double)value);
}

static sl_status check_scaling(const sl_infer_args *a, sl_error *err) {
    const sl_rope_table_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "scaling", attrs->scaling, 0, SL_SCALING_COUNT - 1, err));
    SL_TRY(sl_check_attr(a->label, "truncate", attrs->truncate, 0, 1, err));
    if (attrs->magnitude != 0) SL_TRY(check_positive(a, "magnitude", attrs->magnitude, err));
    if (attrs->scaling == SL_SCALING_PLAIN) return SL_OK;
    SL_TRY(check_positive(a, "factor", attrs->factor, err));
    if (attrs->scaling == SL_SCALING_LINEAR) return SL_OK;
    SL_TRY(check_positive(a, "original", attrs->original, err));
    SL_TRY(check_positive(a, "low", attrs->low, err));
    SL_TRY(check_positive(a, "high", attrs->high, err));
    if (attrs->low >= attrs->high)
        return sl_fail(err, SL_INVALID, "%s: low is %g, must be less than high, which is %g",
                       a->label, (double)attrs->low, (double)attrs->high);
    if (attrs->scaling == SL_SCALING_YARN && attrs->theta <= 1)
        return sl_fail(err, SL_INVALID, "%s: theta is %g, must be more than 1 for yarn", a->label,
                       (double)attrs->theta);
    return SL_OK;
}

sl_status sl_infer_rope_table(const sl_infer_args *a, sl_error *err) {
    const sl_rope_table_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "positions i32[T]", err));
    SL_TRY(sl_check_attr(a->label, "rotary", attrs->rotary, 2, INT32_MAX, err));
    if (attrs->rotary % 2)
        return sl_fail(err, SL_INVALID, "%s: rotary is %u, must be even", a->label, attrs->rotary);
    SL_TRY(check_positive(a, "theta", attrs->theta, err));
    SL_TRY(check_scaling(a, err));
    a->out[0] = a->out[1] = sl_type_make(SL_DTYPE_f32, 3, a->in[0].shape.dims[0], (int64_t)1,
                                         (int64_t)(attrs->rotary / 2));
    return SL_OK;
}

sl_status sl_eval_rope_table(const sl_eval_args *a, sl_error *err) {
    const sl_rope_form form = sl_rope_form_of(a->attrs);
    const double *positions;
    SL_TRY(sl_eval_inputs(a, 1, &positions, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), half = form.rotary / 2;
    SL_TRY(sl_eval_bounds(a, "positions", positions, rows, INT32_MAX, err));
    for (int64_t t = 0; t < rows; t++)
        for (int64_t j = 0; j < half; j++) {
            const double angle = positions[t] * sl_rope_frequency(&form, j);
            a->out[0].data[t * half + j] = form.magnitude * cos(angle);
            a->out[1].data[t * half + j] = form.magnitude * sin(angle);
        }
    return SL_OK;
}

/* ---- fused ---- */

static sl_rope_apply_attrs rope_of(const sl_norm_rope_attrs *attrs) {
    return (sl_rope_apply_attrs){.rotary = attrs->rotary, .interleaved = attrs->interleaved};
}

sl_status sl_infer_norm_rope(const sl_infer_args *a, sl_error *err) {
    const sl_rope_apply_attrs rope = rope_of(a->attrs);
    const sl_type turned[] = {a->in[0], a->in[2], a->in[3]};
    SL_TRY(sl_match(a,
                    "x f32[T,heads,D], gain f32[D], cos f32[T,1,C], sin f32[T,1,C] "
                    "-> f32[T,heads,D]",
                    err));
    return sl_infer_rope_apply(&(sl_infer_args){a->label, turned, &rope, a->out, 3, 1}, err);
}

sl_status sl_eval_norm_rope(const sl_eval_args *a, sl_error *err) {
    const sl_norm_rope_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    const sl_rope_apply_attrs rope = rope_of(attrs);
    SL_TRY(sl_eval_part(a, SL_OP_rms_norm, a->in, &norm, a->out, err));
    return sl_eval_part(a, SL_OP_rope_apply, (sl_eval_tensor[]){a->out[0], a->in[2], a->in[3]},
                        &rope, a->out, err);
}
