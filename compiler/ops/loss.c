/* loss.c - Classification losses and their gradients. */
#include "compiler/ops/numbers.h"
#include <math.h>

/* Checks the labels, and the optional class weights after `own` inputs. */
static sl_status check_labels(const sl_infer_args *a, const uint32_t labels_and_own[2],
                              int64_t classes, sl_error *err) {
    const uint32_t own = labels_and_own[1];
    SL_TRY(sl_check_numbers(a, labels_and_own[0], "labels", SL_NUMBERS_INDEX, err));
    SL_TRY(sl_check_inputs_after(a, own, "weights", 0, 1, err));
    if (a->in_count <= own) return SL_OK;
    SL_TRY(sl_check_numbers(a, own, "weights", SL_NUMBERS_FLOAT, err));
    return sl_check_dims(a, own, "weights", &(sl_dims){1, {classes}}, err);
}
static sl_status check_ignores(const sl_infer_args *a, uint32_t ignores, sl_error *err) {
    return sl_check_attr(a->label, "ignores", ignores, 0, 1, err);
}
static int64_t last_of(const sl_type *type) {
    return type->shape.dims[type->shape.rank - 1];
}

/* The label of a row, -1 if it is ignored, and its weight. */
typedef struct {
    const double *labels, *weights;
    sl_dtype dtype;
    uint32_t ignores;
    int64_t ignore, classes;
} labelling;

static sl_status label_of(const sl_eval_args *a, const labelling *l, int64_t row, int64_t *label,
                          double *weight, sl_error *err) {
    *label = sl_slot_integer(l->dtype, &l->labels[row]);
    *weight = 0;
    if (l->ignores && *label == l->ignore) {
        *label = -1;
        return SL_OK;
    }
    SL_TRY(sl_check_attr(a->label, "a label", *label, 0, l->classes - 1, err));
    *weight = l->weights ? l->weights[*label] : 1;
    return SL_OK;
}

/* log(sum e^x) in two parts, the largest x and log(1 + sum of the other e^(x - largest)), so that
 * the loss of a label with nearly all of the probability keeps its digits. */
typedef struct {
    double largest, rest;
} log_sum;

static log_sum log_sum_of(const double *x, int64_t count) {
    double sum = 0;
    int64_t most = 0;
    if (count == 0) return (log_sum){0, 0};
    for (int64_t i = 1; i < count; i++)
        if (x[i] > x[most] || isnan(x[most])) most = i;
    for (int64_t i = 0; i < count; i++) sum += i == most ? 0 : exp(x[i] - x[most]);
    return (log_sum){x[most], isinf(x[most]) ? NAN : log1p(sum)};
}

sl_status sl_infer_softmax_cross_entropy(const sl_infer_args *a, sl_error *err) {
    const sl_softmax_cross_entropy_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "logits float[..,C], labels any[..] -> f32[..]", err));
    SL_TRY(check_ignores(a, attrs->ignores, err));
    a->out[0].dtype = a->in[0].dtype;
    return check_labels(a, (uint32_t[2]){1, 2}, last_of(&a->in[0]), err);
}

/* softmax_cross_entropy or nll. */
static sl_status eval_loss(const sl_eval_args *a, bool of_logits, sl_error *err) {
    const sl_softmax_cross_entropy_attrs *attrs = a->attrs;
    const double *in[3] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t classes = sl_eval_last_dim(a, 0);
    const labelling l = {in[1], in[2], a->in[1].type.dtype, attrs->ignores, attrs->ignore, classes};
    for (int64_t row = 0; row < sl_type_elements(&a->out[0].type); row++) {
        int64_t label;
        double weight;
        const double *x = in[0] + row * classes;
        SL_TRY(label_of(a, &l, row, &label, &weight, err));
        const log_sum sum = of_logits ? log_sum_of(x, classes) : (log_sum){0, 0};
        a->out[0].data[row] = label < 0 ? 0 : weight * (sum.largest - x[label] + sum.rest);
    }
    return SL_OK;
}

sl_status sl_eval_softmax_cross_entropy(const sl_eval_args *a, sl_error *err) {
    return eval_loss(a, true, err);
}

sl_status sl_infer_nll(const sl_infer_args *a, sl_error *err) {
    const sl_nll_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "log_probs float[..,C], labels any[..] -> f32[..]", err));
    SL_TRY(check_ignores(a, attrs->ignores, err));
    a->out[0].dtype = a->in[0].dtype;
    return check_labels(a, (uint32_t[2]){1, 2}, last_of(&a->in[0]), err);
}

_Static_assert(sizeof(sl_nll_attrs) == sizeof(sl_softmax_cross_entropy_attrs), "attributes alike");
sl_status sl_eval_nll(const sl_eval_args *a, sl_error *err) {
    return eval_loss(a, false, err);
}

sl_status sl_infer_softmax_cross_entropy_backward(const sl_infer_args *a, sl_error *err) {
    const sl_softmax_cross_entropy_backward_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "logits float[..,C], labels any[..], dloss float[..] -> f32[..,C]", err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 2}, (const char *[2]){"logits", "dloss"}, err));
    SL_TRY(check_ignores(a, attrs->ignores, err));
    a->out[0].dtype = a->in[0].dtype;
    return check_labels(a, (uint32_t[2]){1, 3}, last_of(&a->in[0]), err);
}

sl_status sl_eval_softmax_cross_entropy_backward(const sl_eval_args *a, sl_error *err) {
    const sl_softmax_cross_entropy_backward_attrs *attrs = a->attrs;
    const double *in[4] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t classes = sl_eval_last_dim(a, 0);
    const labelling l = {in[1], in[3], a->in[1].type.dtype, attrs->ignores, attrs->ignore, classes};
    for (int64_t row = 0; row < sl_type_elements(&a->in[1].type); row++) {
        int64_t label;
        double weight;
        const double *x = in[0] + row * classes;
        SL_TRY(label_of(a, &l, row, &label, &weight, err));
        const log_sum sum = log_sum_of(x, classes);
        for (int64_t c = 0; c < classes; c++)
            a->out[0].data[row * classes + c] =
                label < 0
                    ? 0
                    : (exp(x[c] - sum.largest - sum.rest) - (c == label)) * weight * in[2][row];
    }
    return SL_OK;
}

sl_status sl_infer_nll_backward(const sl_infer_args *a, sl_error *err) {
    const sl_nll_backward_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "labels any[..], dloss float[..]", err));
    SL_TRY(sl_check_attr(a->label, "classes", attrs->classes, 1, INT32_MAX, err));
    SL_TRY(check_ignores(a, attrs->ignores, err));
    SL_TRY(sl_check_attr(a->label, "the rank of labels", a->in[0].shape.rank, 0, SL_MAX_RANK - 1,
                         err));
    a->out[0] = a->in[1];
    a->out[0].shape.dims[a->out[0].shape.rank++] = attrs->classes;
    return check_labels(a, (uint32_t[2]){0, 2}, attrs->classes, err);
}

sl_status sl_eval_nll_backward(const sl_eval_args *a, sl_error *err) {
    const sl_nll_backward_attrs *attrs = a->attrs;
    const double *in[3] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const labelling l = {in[0],          in[2],         a->in[0].type.dtype,
                         attrs->ignores, attrs->ignore, attrs->classes};
    for (int64_t row = 0; row < sl_type_elements(&a->in[0].type); row++) {
        int64_t label;
        double weight;
        SL_TRY(label_of(a, &l, row, &label, &weight, err));
        for (int64_t c = 0; c < l.classes; c++)
            a->out[0].data[row * l.classes + c] = c == label ? -weight * in[1][row] : 0;
    }
    return SL_OK;
}
