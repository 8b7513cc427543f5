/* norm.c - Norms over given axes, and their gradients.  layer_norm and group_norm both normalise
 * runs of consecutive elements. */
#include "compiler/ops/norm.h"
#include "compiler/ops/alike.h"
#include <math.h>

/* Runs of `width` elements; element i of run r uses entry (r % groups * width + i) / inner of
 * gain. */
typedef struct {
    int64_t stretches, width, groups, inner;
    double eps;
} extents;

static extents extents_of_layer(const sl_type *x, int64_t axis, float eps) {
    const uint32_t from = (uint32_t)(axis < 0 ? axis + x->shape.rank : axis);
    const int64_t width = sl_dims_tail(&x->shape, from);
    return (extents){sl_type_elements(x) / width, width, 1, 1, (double)eps};
}
static extents extents_of_groups(const sl_type *x, uint32_t groups, float eps) {
    const int64_t inner = sl_dims_tail(&x->shape, 2);
    return (extents){x->shape.dims[0] * groups, x->shape.dims[1] / groups * inner, groups, inner,
                     (double)eps};
}
static int64_t factor_at(const extents *e, int64_t stretch, int64_t i) {
    return (stretch % e->groups * e->width + i) / e->inner;
}

/* The mean of a run and 1 / sqrt(variance + eps). */
typedef struct {
    double mean, inverse;
} moments;

static moments moments_of(const double *x, int64_t count, int64_t stride, double eps) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; i++) mean += x[i * stride];
    mean /= (double)count;
    for (int64_t i = 0; i < count; i++) variance += (x[i * stride] - mean) * (x[i * stride] - mean);
    return (moments){mean, 1 / sqrt(variance / (double)count + eps)};
}

void sl_normalise_row(const sl_row_norm *norm, const double *x, double *out) {
    const moments m = moments_of(x, norm->width, 1, norm->eps);
    for (int64_t i = 0; i < norm->width; i++)
        out[i] = (x[i] - m.mean) * m.inverse * norm->gain[i] + norm->shift[i];
}

static sl_status eval_norm(const sl_eval_args *a, const extents *e, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    for (int64_t s = 0; s < e->stretches; s++) {
        const double *x = in[0] + s * e->width;
        const moments m = moments_of(x, e->width, 1, e->eps);
        for (int64_t i = 0; i < e->width; i++) {
            const int64_t f = factor_at(e, s, i);
            a->out[0].data[s * e->width + i] = (x[i] - m.mean) * m.inverse * in[1][f] + in[2][f];
        }
    }
    return SL_OK;
}

/* With y the normed x and g = gain dy: (g - mean(g) - y mean(g y)) / root. */
static sl_status eval_backward_input(const sl_eval_args *a, const extents *e, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    for (int64_t s = 0; s < e->stretches; s++) {
        const double *x = in[0] + s * e->width, *dy = in[2] + s * e->width;
        const moments m = moments_of(x, e->width, 1, e->eps);
        double g_mean = 0, gy_mean = 0;
        for (int64_t i = 0; i < e->width; i++) {
            const double g = in[1][factor_at(e, s, i)] * dy[i];
            g_mean += g / (double)e->width;
            gy_mean += g * (x[i] - m.mean) * m.inverse / (double)e->width;
        }
        for (int64_t i = 0; i < e->width; i++) {
            const double g = in[1][factor_at(e, s, i)] * dy[i];
            const double y = (x[i] - m.mean) * m.inverse;
            a->out[0].data[s * e->width + i] = (g - g_mean - y * gy_mean) * m.inverse;
        }
    }
    return SL_OK;
}

static void clear(const sl_eval_tensor *out) {
    for (int64_t i = 0; i < sl_type_elements(&out->type); i++) out->data[i] = 0;
}

static sl_status eval_backward_gain(const sl_eval_args *a, const extents *e, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    clear(&a->out[0]);
    for (int64_t s = 0; s < e->stretches; s++) {
        const double *x = in[0] + s * e->width, *dy = in[1] + s * e->width;
        const moments m = moments_of(x, e->width, 1, e->eps);
        for (int64_t i = 0; i < e->width; i++)
            a->out[0].data[factor_at(e, s, i)] += dy[i] * (x[i] - m.mean) * m.inverse;
    }
    return SL_OK;
}

/* ---- layer norm ---- */

/* Checks the axis, and that gain (if there is one) has the dims from it on. */
static sl_status check_layer(const sl_infer_args *a, int64_t axis, uint32_t gains, sl_dims *tail,
                             sl_error *err) {
    static const char *const names[] = {"x", "gain", "bias"};
    uint32_t from;
    SL_TRY(sl_check_rank(a, 0, "x", 1, SL_MAX_RANK, err));
    SL_TRY(sl_check_axis(a->label, axis, a->in[0].shape.rank, &from, err));
    *tail = sl_dims_from(&a->in[0].shape, from);
    for (uint32_t i = 1; i <= gains; i++)
        SL_TRY(sl_check_shape(a, i, names[i], tail, "the dims of x from the axis on", err));
    return SL_OK;
}

sl_status sl_infer_layer_norm(const sl_infer_args *a, sl_error *err) {
    const sl_layer_norm_attrs *attrs = a->attrs;
    sl_dims tail;
    SL_TRY(sl_check_alike(a, 3, (const char *const[]){"x", "gain", "bias"}, SL_FLOATS, err));
    SL_TRY(check_layer(a, attrs->axis, 2, &tail, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_layer_norm(const sl_eval_args *a, sl_error *err) {
    const sl_layer_norm_attrs *attrs = a->attrs;
    const extents e = extents_of_layer(&a->in[0].type, attrs->axis, attrs->eps);
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const sl_row_norm norm = {in[1], in[2], e.eps, e.width};
    for (int64_t s = 0; s < e.stretches; s++)
        sl_normalise_row(&norm, in[0] + s * e.width, a->out[0].data + s * e.width);
    return SL_OK;
}

sl_status sl_infer_layer_norm_backward_input(const sl_infer_args *a, sl_error *err) {
    const sl_layer_norm_backward_input_attrs *attrs = a->attrs;
    sl_dims tail;
    SL_TRY(sl_check_alike(a, 3, (const char *const[]){"x", "gain", "dy"}, SL_FLOATS, err));
    SL_TRY(check_layer(a, attrs->axis, 1, &tail, err));
    SL_TRY(sl_check_shape(a, 2, "dy", &a->in[0].shape, "as x", err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_layer_norm_backward_input(const sl_eval_args *a, sl_error *err) {
    const sl_layer_norm_backward_input_attrs *attrs = a->attrs;
    const extents e = extents_of_layer(&a->in[0].type, attrs->axis, attrs->eps);
    return eval_backward_input(a, &e, err);
}

sl_status sl_infer_layer_norm_backward_gain(const sl_infer_args *a, sl_error *err) {
    const sl_layer_norm_backward_gain_attrs *attrs = a->attrs;
    SL_TRY(sl_check_alike(a, 2, (const char *const[]){"x", "dy"}, SL_FLOATS, err));
    a->out[0].dtype = a->in[0].dtype;
    SL_TRY(check_layer(a, attrs->axis, 0, &a->out[0].shape, err));
    return sl_check_shape(a, 1, "dy", &a->in[0].shape, "as x", err);
}

sl_status sl_eval_layer_norm_backward_gain(const sl_eval_args *a, sl_error *err) {
    const sl_layer_norm_backward_gain_attrs *attrs = a->attrs;
    const extents e = extents_of_layer(&a->in[0].type, attrs->axis, attrs->eps);
    return eval_backward_gain(a, &e, err);
}

/* ---- norms over channels ---- */

/* Checks x[N,C,..] and inputs [first, last) of shape [C]. */
static sl_status check_channels(const sl_infer_args *a, const char *const *names, uint32_t first,
                                uint32_t last, sl_error *err) {
    SL_TRY(sl_check_rank(a, 0, names[0], 2, SL_MAX_RANK, err));
    const sl_dims channels = sl_dims_of(a->in[0].shape.dims[1]);
    for (uint32_t i = first; i < last; i++)
        SL_TRY(sl_check_shape(a, i, names[i], &channels, "one for each channel of x", err));
    return SL_OK;
}

sl_status sl_infer_layer_norm2d(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "gain", "bias"};
    SL_TRY(sl_check_alike(a, 3, names, SL_FLOATS, err));
    SL_TRY(check_channels(a, names, 1, 3, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_layer_norm2d(const sl_eval_args *a, sl_error *err) {
    const sl_layer_norm2d_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t channels = sl_eval_dim(a, 0, 1), inner = sl_dims_tail(&a->in[0].type.shape, 2);
    for (int64_t place = 0; place < sl_eval_dim(a, 0, 0) * inner; place++) {
        const int64_t at = place / inner * channels * inner + place % inner;
        const moments m = moments_of(in[0] + at, channels, inner, (double)attrs->eps);
        for (int64_t c = 0; c < channels; c++)
            a->out[0].data[at + c * inner] =
                (in[0][at + c * inner] - m.mean) * m.inverse * in[1][c] + in[2][c];
    }
    return SL_OK;
}

static sl_status check_groups(const sl_infer_args *a, uint32_t groups, sl_error *err) {
    const int64_t channels = a->in[0].shape.dims[1];
    SL_TRY(sl_check_attr(a->label, "groups", groups, 1, channels, err));
    if (channels % groups == 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: x has %lld channels, must be a multiple of %u groups",
                   a->label, (long long)channels, groups);
}

sl_status sl_infer_group_norm(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "gain", "bias"};
    SL_TRY(sl_check_alike(a, 3, names, SL_FLOATS, err));
    SL_TRY(check_channels(a, names, 1, 3, err));
    a->out[0] = a->in[0];
    return check_groups(a, ((const sl_group_norm_attrs *)a->attrs)->groups, err);
}

sl_status sl_eval_group_norm(const sl_eval_args *a, sl_error *err) {
    const sl_group_norm_attrs *attrs = a->attrs;
    const extents e = extents_of_groups(&a->in[0].type, attrs->groups, attrs->eps);
    return eval_norm(a, &e, err);
}

sl_status sl_infer_group_norm_backward_input(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "gain", "dy"};
    SL_TRY(sl_check_alike(a, 3, names, SL_FLOATS, err));
    SL_TRY(check_channels(a, names, 1, 2, err));
    SL_TRY(sl_check_shape(a, 2, "dy", &a->in[0].shape, "as x", err));
    a->out[0] = a->in[0];
    return check_groups(a, ((const sl_group_norm_backward_input_attrs *)a->attrs)->groups, err);
}

sl_status sl_eval_group_norm_backward_input(const sl_eval_args *a, sl_error *err) {
    const sl_group_norm_backward_input_attrs *attrs = a->attrs;
    const extents e = extents_of_groups(&a->in[0].type, attrs->groups, attrs->eps);
    return eval_backward_input(a, &e, err);
}

sl_status sl_infer_group_norm_backward_gain(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "dy"};
    SL_TRY(sl_check_alike(a, 2, names, SL_FLOATS, err));
    SL_TRY(check_channels(a, names, 0, 0, err));
    SL_TRY(sl_check_shape(a, 1, "dy", &a->in[0].shape, "as x", err));
    a->out[0] = (sl_type){a->in[0].dtype, sl_dims_of(a->in[0].shape.dims[1])};
    return check_groups(a, ((const sl_group_norm_backward_gain_attrs *)a->attrs)->groups, err);
}

sl_status sl_eval_group_norm_backward_gain(const sl_eval_args *a, sl_error *err) {
    const sl_group_norm_backward_gain_attrs *attrs = a->attrs;
    const extents e = extents_of_groups(&a->in[0].type, attrs->groups, attrs->eps);
    return eval_backward_gain(a, &e, err);
}

/* Sums of input 0 over all axes but one. */
static sl_status eval_sums(const sl_eval_args *a, uint32_t axis, sl_error *err) {
    const double *dy;
    SL_TRY(sl_eval_inputs(a, 1, &dy, err));
    const int64_t inner = sl_dims_tail(&a->in[0].type.shape, axis + 1);
    clear(&a->out[0]);
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++)
        a->out[0].data[i / inner % sl_eval_dim(a, 0, axis)] += dy[i];
    return SL_OK;
}

sl_status sl_infer_group_norm_backward_bias(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_class(a, 0, "dy", SL_FLOATS, err));
    SL_TRY(sl_check_rank(a, 0, "dy", 2, SL_MAX_RANK, err));
    a->out[0] = (sl_type){a->in[0].dtype, sl_dims_of(a->in[0].shape.dims[1])};
    return SL_OK;
}

sl_status sl_eval_group_norm_backward_bias(const sl_eval_args *a, sl_error *err) {
    return eval_sums(a, 1, err);
}
