/* loss.c - Classification losses and their gradients.  An item is a row.  Sums are accumulated in
 * doubles, for f32 from vector sums of short strips, so that accuracy does not depend on the number
 * of classes. */
#include "core/ops.h"
#include "runtime/cpu/kernels/channels.h"
#include "runtime/cpu/kernels/vmath.h"
#include <math.h>

/* Labels, an optional label to ignore, and optional class weights. */
typedef struct {
    const char *op;
    const sl_cview *labels;
    const sl_cview_list *weights;
    uint32_t ignores;
    int64_t ignore, classes;
} labelling;

/* The label of a row and its weight; an ignored row has label -1 and weight 0. */
static sl_status label_of(const labelling *l, int64_t row, int64_t *label, double *weight,
                          sl_error *err) {
    *label = l->labels->type.dtype == SL_DTYPE_i64 ? ((const int64_t *)l->labels->data)[row]
                                                   : ((const int32_t *)l->labels->data)[row];
    *weight = 0;
    if (l->ignores && *label == l->ignore) {
        *label = -1;
        return SL_OK;
    }
    if (*label < 0 || *label >= l->classes)
        return sl_fail(err, SL_INVALID, "%s: label %lld is %lld, must be in [0, %lld)", l->op,
                       (long long)row, (long long)*label, (long long)l->classes);
    *weight = SL_LIST_COUNT(*l->weights) ? element(&l->weights->items[0], *label) : 1;
    return SL_OK;
}

enum { STRIP = 256 };

/* log_sum for f32; returns false if the maximum is not finite. */
static bool log_sum_f32(const float *x, int64_t n, double parts[2]) {
    vf most = vsplat(-INFINITY);
    float tail = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) most = vmax(most, vload(x + i));
    for (; i < n; i++) tail = x[i] > tail ? x[i] : tail;
    const float largest = fmaxf(tail, vmost(most));
    if (!isfinite(largest)) return false;
    double sum = 0;
    for (int64_t from = 0; from < n; from += STRIP) {
        const int64_t end = least(n, from + STRIP);
        vf terms = vzero();
        for (i = from; i + LANES <= end; i += LANES) terms += vexp(vload(x + i) - vsplat(largest));
        sum += (double)vsum(terms);
        for (; i < end; i++) sum += exp((double)(x[i] - largest));
    }
    parts[0] = (double)largest;
    /* cppcheck-suppress invalidFunctionArg ; one of the terms is 1 */
    parts[1] = log(sum);
    return true;
}

/* log(sum e^x) of a row in two parts: the maximum, and log(sum e^(x - maximum)), in which the
 * maximum itself is the 1 of log1p. */
static void log_sum(const sl_cview *x, int64_t row, int64_t classes, double parts[2]) {
    const int64_t at = row * classes;
    double largest = element(x, at), sum = 0;
    int64_t most = 0;
    if (x->type.dtype == SL_DTYPE_f32 && log_sum_f32((const float *)x->data + at, classes, parts))
        return;
    for (int64_t c = 1; c < classes; c++) {
        const double value = element(x, at + c);
        if (!(value > largest) && !isnan(largest)) continue;
        largest = value;
        most = c;
    }
    for (int64_t c = 0; c < classes; c++) sum += c == most ? 0 : exp(element(x, at + c) - largest);
    parts[0] = largest;
    parts[1] = isinf(largest) ? NAN : log1p(sum);
}

#define LABELLING(NAME, A, CLASSES)                                                                \
    const labelling NAME = {OP_NAME,           &(A)->labels, &(A)->weights, (A)->attrs.ignores,    \
                            (A)->attrs.ignore, CLASSES}

SPLIT(softmax_cross_entropy) {
    const sl_softmax_cross_entropy_args *a = args;
    return (sl_split){sl_type_elements(&a->loss.type), grain_of(last_dim(&a->logits.type) * 20), 0};
}
#define OP_NAME "softmax_cross_entropy"
RUN(softmax_cross_entropy) {
    const sl_softmax_cross_entropy_args *a = args;
    const int64_t classes = last_dim(&a->logits.type);
    LABELLING(l, a, classes);
    for (int64_t row = begin; row < end; row++) {
        int64_t label;
        double weight, parts[2];
        SL_TRY(label_of(&l, row, &label, &weight, worker->err));
        if (label >= 0) log_sum(&a->logits, row, classes, parts);
        set_element(&a->loss, row,
                    label < 0 ? 0
                              : weight * (parts[0] - element(&a->logits, row * classes + label) +
                                          parts[1]));
    }
    return SL_OK;
}
#undef OP_NAME

/* slope (softmax - onehot) of the row that begins at `at`; all 0 if label is -1. */
typedef struct {
    int64_t at, classes, label;
    double log_sum, slope;
} softmax_row;

static void gradient_any(const softmax_row *r, const sl_cview *x, const sl_view *out) {
    for (int64_t c = 0; c < r->classes; c++) {
        const double p = r->label < 0 ? 0 : exp(element(x, r->at + c) - r->log_sum);
        set_element(out, r->at + c, r->label < 0 ? 0 : (p - (c == r->label)) * r->slope);
    }
}
static void gradient_f32(const softmax_row *r, const float *x, float *out) {
    const vf shift = vsplat((float)r->log_sum), slope = vsplat((float)r->slope);
    for (int64_t i = 0; i < r->classes; i += LANES) {
        const int64_t n = least(LANES, r->classes - i);
        vstore_n(out + i, vexp(vload_n(x + i, n) - shift) * slope, n);
    }
    const double p = exp((double)x[r->label] - r->log_sum);
    out[r->label] = (float)((p - 1) * r->slope);
}

SPLIT(softmax_cross_entropy_backward) {
    const sl_softmax_cross_entropy_backward_args *a = args;
    return (sl_split){sl_type_elements(&a->dloss.type), grain_of(last_dim(&a->logits.type) * 40),
                      0};
}
#define OP_NAME "softmax_cross_entropy_backward"
RUN(softmax_cross_entropy_backward) {
    const sl_softmax_cross_entropy_backward_args *a = args;
    const int64_t classes = last_dim(&a->logits.type);
    LABELLING(l, a, classes);
    for (int64_t row = begin; row < end; row++) {
        int64_t label;
        double weight, parts[2] = {0, 0};
        SL_TRY(label_of(&l, row, &label, &weight, worker->err));
        if (label >= 0) log_sum(&a->logits, row, classes, parts);
        const double slope = label < 0 ? 0 : weight * element(&a->dloss, row);
        const softmax_row r = {row * classes, classes, label, parts[0] + parts[1], slope};
        if (a->logits.type.dtype == SL_DTYPE_f32 && label >= 0 && isfinite(r.log_sum))
            gradient_f32(&r, (const float *)a->logits.data + r.at, (float *)a->dlogits.data + r.at);
        else
            gradient_any(&r, &a->logits, &a->dlogits);
    }
    return SL_OK;
}
#undef OP_NAME

SPLIT(nll) {
    const sl_nll_args *a = args;
    return (sl_split){sl_type_elements(&a->loss.type), grain_of(8), 0};
}
#define OP_NAME "nll"
RUN(nll) {
    const sl_nll_args *a = args;
    const int64_t classes = last_dim(&a->log_probs.type);
    LABELLING(l, a, classes);
    for (int64_t row = begin; row < end; row++) {
        int64_t label;
        double weight;
        SL_TRY(label_of(&l, row, &label, &weight, worker->err));
        set_element(&a->loss, row,
                    label < 0 ? 0 : -weight * element(&a->log_probs, row * classes + label));
    }
    return SL_OK;
}
#undef OP_NAME

SPLIT(nll_backward) {
    const sl_nll_backward_args *a = args;
    return (sl_split){sl_type_elements(&a->dloss.type), grain_of(a->attrs.classes * 4), 0};
}
#define OP_NAME "nll_backward"
RUN(nll_backward) {
    const sl_nll_backward_args *a = args;
    const int64_t classes = a->attrs.classes;
    LABELLING(l, a, classes);
    for (int64_t row = begin; row < end; row++) {
        int64_t label;
        double weight;
        SL_TRY(label_of(&l, row, &label, &weight, worker->err));
        for (int64_t c = 0; c < classes; c++)
            set_element(&a->dlog_probs, row * classes + c,
                        c == label ? -weight * element(&a->dloss, row) : 0);
    }
    return SL_OK;
}
#undef OP_NAME
