/* norm_batch.c - Batch norm with given statistics, and the gradients of rms_norm. */
#include "compiler/ops/alike.h"
#include <math.h>

static uint32_t axis_of(const sl_type *type, int64_t axis) {
    return (uint32_t)(axis < 0 ? axis + type->shape.rank : axis);
}

/* Checks that input `of` has C elements along the axis, and that all others are [C]. */
static sl_status check_axis(const sl_infer_args *a, uint32_t count, const char *const *names,
                            uint32_t of, int64_t axis, sl_error *err) {
    uint32_t at;
    SL_TRY(sl_check_alike(a, count, names, SL_FLOATS, err));
    SL_TRY(sl_check_axis(a->label, axis, a->in[of].shape.rank, &at, err));
    const sl_dims channels = sl_dims_of(a->in[of].shape.dims[at]);
    a->out[0] = (sl_type){a->in[of].dtype, channels};
    for (uint32_t i = 0; i < count; i++)
        if (i != of && names[i][0] != 'd')
            SL_TRY(
                sl_check_shape(a, i, names[i], &channels, "one for each index of the axis", err));
    return SL_OK;
}

sl_status sl_infer_batch_norm_inference(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "gain", "bias", "mean", "variance"};
    const sl_batch_norm_inference_attrs *attrs = a->attrs;
    SL_TRY(check_axis(a, 5, names, 0, attrs->axis, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_batch_norm_inference(const sl_eval_args *a, sl_error *err) {
    const sl_batch_norm_inference_attrs *attrs = a->attrs;
    const double *in[5];
    SL_TRY(sl_eval_inputs(a, 5, in, err));
    const uint32_t axis = axis_of(&a->in[0].type, attrs->axis);
    const int64_t inner = sl_dims_tail(&a->in[0].type.shape, axis + 1);
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) {
        const int64_t c = i / inner % sl_eval_dim(a, 0, axis);
        const double root = sqrt(in[4][c] + (double)attrs->eps);
        a->out[0].data[i] = (in[0][i] - in[3][c]) / root * in[1][c] + in[2][c];
    }
    return SL_OK;
}

sl_status sl_infer_batch_norm_inference_backward_input(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"gain", "variance", "dy"};
    const sl_batch_norm_inference_backward_input_attrs *attrs = a->attrs;
    SL_TRY(check_axis(a, 3, names, 2, attrs->axis, err));
    a->out[0] = a->in[2];
    return SL_OK;
}

sl_status sl_eval_batch_norm_inference_backward_input(const sl_eval_args *a, sl_error *err) {
    const sl_batch_norm_inference_backward_input_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const uint32_t axis = axis_of(&a->in[2].type, attrs->axis);
    const int64_t inner = sl_dims_tail(&a->in[2].type.shape, axis + 1);
    for (int64_t i = 0; i < sl_type_elements(&a->in[2].type); i++) {
        const int64_t c = i / inner % sl_eval_dim(a, 2, axis);
        a->out[0].data[i] = in[2][i] * in[0][c] / sqrt(in[1][c] + (double)attrs->eps);
    }
    return SL_OK;
}

sl_status sl_infer_batch_norm_inference_backward_gain(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "mean", "variance", "dy"};
    const sl_batch_norm_inference_backward_gain_attrs *attrs = a->attrs;
    SL_TRY(check_axis(a, 4, names, 0, attrs->axis, err));
    return sl_check_shape(a, 3, "dy", &a->in[0].shape, "as x", err);
}

sl_status sl_eval_batch_norm_inference_backward_gain(const sl_eval_args *a, sl_error *err) {
    const sl_batch_norm_inference_backward_gain_attrs *attrs = a->attrs;
    const double *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const uint32_t axis = axis_of(&a->in[0].type, attrs->axis);
    const int64_t inner = sl_dims_tail(&a->in[0].type.shape, axis + 1);
    const int64_t channels = sl_eval_dim(a, 0, axis);
    for (int64_t c = 0; c < channels; c++) a->out[0].data[c] = 0;
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) {
        const int64_t c = i / inner % channels;
        const double root = sqrt(in[2][c] + (double)attrs->eps);
        a->out[0].data[c] += in[3][i] * (in[0][i] - in[1][c]) / root;
    }
    return SL_OK;
}

sl_status sl_infer_batch_norm_inference_backward_bias(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"dy"};
    const sl_batch_norm_inference_backward_bias_attrs *attrs = a->attrs;
    return check_axis(a, 1, names, 0, attrs->axis, err);
}

sl_status sl_eval_batch_norm_inference_backward_bias(const sl_eval_args *a, sl_error *err) {
    const sl_batch_norm_inference_backward_bias_attrs *attrs = a->attrs;
    const double *dy;
    SL_TRY(sl_eval_inputs(a, 1, &dy, err));
    const uint32_t axis = axis_of(&a->in[0].type, attrs->axis);
    const int64_t inner = sl_dims_tail(&a->in[0].type.shape, axis + 1);
    const int64_t channels = sl_eval_dim(a, 0, axis);
    for (int64_t c = 0; c < channels; c++) a->out[0].data[c] = 0;
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++)
        a->out[0].data[i / inner % channels] += dy[i];
    return SL_OK;
}

/* ---- gradients of rms_norm ---- */

static double inverse_rms(const double *x, int64_t width, float eps) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum / (double)width + (double)eps);
}

sl_status sl_infer_rms_norm_backward_input(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_alike(a, 3, (const char *const[]){"x", "gain", "dy"}, SL_FLOATS, err));
    SL_TRY(sl_check_rank(a, 0, "x", 1, SL_MAX_RANK, err));
    const sl_dims row = sl_dims_from(&a->in[0].shape, a->in[0].shape.rank - 1);
    SL_TRY(sl_check_shape(a, 1, "gain", &row, "the last dim of x", err));
    SL_TRY(sl_check_shape(a, 2, "dy", &a->in[0].shape, "as x", err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_rms_norm_backward_input(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_backward_input_attrs *attrs = a->attrs;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width) {
        const double *x = in[0] + at, *dy = in[2] + at;
        const double r = inverse_rms(x, width, attrs->eps);
        double mean = 0;
        for (int64_t i = 0; i < width; i++)
            mean += ((double)attrs->offset + in[1][i]) * dy[i] * x[i] / (double)width;
        for (int64_t i = 0; i < width; i++)
            a->out[0].data[at + i] =
                r * ((double)attrs->offset + in[1][i]) * dy[i] - r * r * r * x[i] * mean;
    }
    return SL_OK;
}

sl_status sl_infer_rms_norm_backward_gain(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_alike(a, 2, (const char *const[]){"x", "dy"}, SL_FLOATS, err));
    SL_TRY(sl_check_rank(a, 0, "x", 1, SL_MAX_RANK, err));
    SL_TRY(sl_check_shape(a, 1, "dy", &a->in[0].shape, "as x", err));
    a->out[0] = (sl_type){a->in[0].dtype, sl_dims_from(&a->in[0].shape, a->in[0].shape.rank - 1)};
    return SL_OK;
}

sl_status sl_eval_rms_norm_backward_gain(const sl_eval_args *a, sl_error *err) {
    const sl_rms_norm_backward_gain_attrs *attrs = a->attrs;
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    for (int64_t i = 0; i < width; i++) a->out[0].data[i] = 0;
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width) {
        const double r = inverse_rms(in[0] + at, width, attrs->eps);
        for (int64_t i = 0; i < width; i++) a->out[0].data[i] += in[1][at + i] * in[0][at + i] * r;
    }
    return SL_OK;
}
