/* norm_rms.c - Norms over the last axis. */
#include "compiler/ops/attention.h"
#include <math.h>

static double sum_of_squares(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sum;
}

sl_status infer_rms_norm(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gain f32[D] -> f32[..,D]", err);
}

/* Rows of x, which is of this type. */
static void norm_rows(const sl_type *type, const double *rows, const double *gain,
                      const sl_rms_norm_attrs *attrs, double *out) {
    const int64_t width = type->shape.dims[type->shape.rank - 1];
    for (int64_t at = 0; at < sl_type_elements(type); at += width) {
        const double *x = rows + at;
        const double root = sqrt(sum_of_squares(x, width) / (double)width + (double)attrs->eps);
        for (int64_t i = 0; i < width; i++)
            out[at + i] = x[i] / root * ((double)attrs->offset + gain[i]);
    }
}

sl_status eval_rms_norm(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    norm_rows(&a->in[0].type, in[0], in[1], a->attrs, a->out[0].data);
    return SL_OK;
}

sl_status infer_gated_rms_norm(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], z f32[..,D], gain f32[D] -> f32[..,D]", err);
}

sl_status eval_gated_rms_norm(const sl_eval_args *a, sl_error *err) {
    const sl_gated_rms_norm_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width) {
        const double *x = in[0] + at, *z = in[1] + at;
        const double root = sqrt(sum_of_squares(x, width) / (double)width + (double)attrs->eps);
        for (int64_t i = 0; i < width; i++)
            a->out[0].data[at + i] = x[i] / root * in[2][i] * sl_silu(z[i]);
    }
    return SL_OK;
}

sl_status infer_l2_norm(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D] -> f32[..,D]", err);
}

sl_status eval_l2_norm(const sl_eval_args *a, sl_error *err) {
    const sl_l2_norm_attrs *attrs = a->attrs;
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width) {
        const double root = sqrt(sum_of_squares(x + at, width) + (double)attrs->eps);
        for (int64_t i = 0; i < width; i++)
            a->out[0].data[at + i] = (double)attrs->scale * x[at + i] / root;
    }
    return SL_OK;
}

/* ---- fused ---- */

/* add_rms_norm: a, b, gain, then perhaps shift, then perhaps bias. */
enum { GAIN = 2, SHIFT, BIAS };

sl_status infer_add_rms_norm(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"a", "b", "gain", "shift", "bias"};
    SL_TRY(sl_match(a, "a float[..,D], b float[..,D], gain float[D] -> float[..,D], float[..,D]",
                    err));
    SL_TRY(sl_check_one_type(a, names, SHIFT, err));
    a->out[0].dtype = a->out[1].dtype = a->in[0].dtype;
    if (a->in_count > BIAS + 1)
        return sl_check_extra_count(a, SHIFT, 2, " (shift, bias) or fewer", err);
    for (uint32_t i = SHIFT; i < a->in_count; i++)
        SL_TRY(sl_check_extra(a, i, names[i], &a->in[GAIN], err));
    return SL_OK;
}

static void add_to_rows(double *rows, int64_t count, const double *row, int64_t width) {
    for (int64_t i = 0; i < count; i++) rows[i] += row[i % width];
}

sl_status eval_add_rms_norm(const sl_eval_args *a, sl_error *err) {
    const sl_add_rms_norm_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    const double *in[BIAS + 1] = {NULL};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t width = sl_eval_last_dim(a, 0), count = sl_type_elements(&a->in[0].type);
    double *sum = a->out[0].data, *out = a->out[1].data;
    for (int64_t i = 0; i < count; i++) sum[i] = in[0][i] + in[1][i];
    if (in[BIAS]) add_to_rows(sum, count, in[BIAS], width);
    norm_rows(&a->in[0].type, sum, in[GAIN], &norm, out);
    if (in[SHIFT]) add_to_rows(out, count, in[SHIFT], width);
    return SL_OK;
}

sl_status infer_rms_norm_mul(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gain f32[D], y f32[..,D] -> f32[..,D]", err);
}

sl_status eval_rms_norm_mul(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_mul_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    SL_TRY(sl_eval_part(a, SL_OP_rms_norm, a->in, &norm, a->out, err));
    return sl_eval_part(a, SL_OP_mul, (sl_eval_tensor[]){a->out[0], a->in[2]}, NULL, a->out, err);
}

sl_status infer_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], gain f32[D] -> f32[..,D], a8[..,D]", err);
}

sl_status eval_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_quantise_attrs *attrs = a->attrs;
    const sl_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    return sl_eval_quantised(a, SL_OP_rms_norm, &norm, 1, err);
}

sl_status infer_add_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "a f32[..,D], b f32[..,D], gain f32[D] -> f32[..,D], f32[..,D], a8[..,D]",
                    err);
}

sl_status eval_add_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_add_rms_norm_quantise_attrs *attrs = a->attrs;
    const sl_add_rms_norm_attrs norm = {.eps = attrs->eps, .offset = attrs->offset};
    return sl_eval_quantised(a, SL_OP_add_rms_norm, &norm, 2, err);
}

sl_status infer_gated_rms_norm_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,D], z f32[..,D], gain f32[D] -> a8[..,D]", err);
}

sl_status eval_gated_rms_norm_quantise(const sl_eval_args *a, sl_error *err) {
    const sl_gated_rms_norm_quantise_attrs *attrs = a->attrs;
    return sl_eval_quantised(a, SL_OP_gated_rms_norm, &(sl_gated_rms_norm_attrs){.eps = attrs->eps},
                             0, err);
}
