/* rope.c - RoPE with a table of angles. */
#include "core/rope.h"
#include "compiler/ops/check.h"
#include <math.h>
#include <string.h>

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

sl_status infer_rope_table(const sl_infer_args *a, sl_error *err) {
    const sl_rope_table_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "positions i32[T]", err));
    SL_TRY(sl_check_attr(a->label, "rotary", attrs->rotary, 2, INT32_MAX, err));
    if (attrs->rotary % 2)
        return sl_fail(err, SL_INVALID, "%s: rotary is %u, must be even", a->label, attrs->rotary);
    SL_TRY(check_positive(a, "theta", attrs->theta, err));
    SL_TRY(check_scaling(a, err));
    a->out[0] = sl_type_make(SL_DTYPE_f32, 2, a->in[0].shape.dims[0], (int64_t)attrs->rotary);
    return SL_OK;
}

sl_status eval_rope_table(const sl_eval_args *a, sl_error *err) {
    const sl_rope_form form = sl_rope_form_of(a->attrs);
    const double *positions;
    SL_TRY(sl_eval_inputs(a, 1, &positions, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), half = form.rotary / 2;
    SL_TRY(sl_eval_bounds(a, "positions", positions, rows, INT32_MAX, err));
    for (int64_t t = 0; t < rows; t++)
        for (int64_t j = 0; j < half; j++) {
            const double angle = positions[t] * sl_rope_frequency(&form, j);
            a->out[0].data[t * 2 * half + j] = form.magnitude * cos(angle);
            a->out[0].data[t * 2 * half + half + j] = form.magnitude * sin(angle);
        }
    return SL_OK;
}

sl_status infer_rope(const sl_infer_args *a, sl_error *err) {
    const sl_rope_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "x f32[T,heads,D], table f32[T,2half] -> f32[T,heads,D]", err));
    SL_TRY(sl_check_attr(a->label, "interleaved", attrs->interleaved, 0, 1, err));
    return sl_check_attr(a->label, "the table's width", a->in[1].shape.dims[1], 2,
                         a->in[0].shape.dims[2], err);
}

/* Pairs (j, j + half), or (2j, 2j + 1). */
static void rotate(double *x, const double *cosines, int64_t half, bool interleaved) {
    const double *sines = cosines + half;
    for (int64_t j = 0; j < half; j++) {
        double *one = interleaved ? x + 2 * j : x + j, *other = interleaved ? one + 1 : one + half;
        const double first = *one, second = *other;
        *one = first * cosines[j] - second * sines[j];
        *other = second * cosines[j] + first * sines[j];
    }
}

sl_status eval_rope(const sl_eval_args *a, sl_error *err) {
    const bool interleaved = ((const sl_rope_attrs *)a->attrs)->interleaved;
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), heads = sl_eval_dim(a, 0, 1);
    const int64_t width = sl_eval_dim(a, 0, 2), rotary = sl_eval_dim(a, 1, 1);
    double *out = a->out[0].data;
    memmove(out, in[0], (size_t)(rows * heads * width) * sizeof *out);
    for (int64_t i = 0; i < rows * heads; i++)
        rotate(out + i * width, in[1] + i / heads * rotary, rotary / 2, interleaved);
    return SL_OK;
}

/* ---- fused ---- */

sl_status infer_norm_rope(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x f32[T,heads,D], gain f32[D], table f32[T,R] -> f32[T,heads,D]", err));
    const sl_rope_attrs rope = {.interleaved = ((const sl_norm_rope_attrs *)a->attrs)->interleaved};
    return infer_rope(
        &(sl_infer_args){a->label, (sl_type[]){a->in[0], a->in[2]}, &rope, a->out, 2, 1}, err);
}

sl_status eval_norm_rope(const sl_eval_args *a, sl_error *err) {
    const sl_norm_rope_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    const sl_rope_attrs rope = {.interleaved = attrs->interleaved};
    SL_TRY(sl_eval_part(a, SL_OP_rms_norm, a->in, &norm, a->out, err));
    return sl_eval_part(a, SL_OP_rope, (sl_eval_tensor[]){a->out[0], a->in[2]}, &rope, a->out, err);
}
