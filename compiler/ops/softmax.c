/* softmax.c - Softmax over one axis, and its gradients. */
#include "compiler/ops/operand.h"
#include <math.h>

_Static_assert(sizeof(sl_softmax_attrs) == sizeof(sl_log_softmax_attrs) &&
                   sizeof(sl_softmax_attrs) == sizeof(sl_softmax_backward_attrs) &&
                   sizeof(sl_softmax_attrs) == sizeof(sl_log_softmax_backward_attrs),
               "one struct serves all");

static sl_status infer_axis(const sl_infer_args *a, const char *name, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, name, SL_FLOATS, err));
    if (a->in[0].shape.rank == 0) return sl_refuse(a, 0, name, "of at least one dim", err);
    a->out[0] = a->in[0];
    uint32_t axis;
    return sl_find_axis(a->label, ((const sl_softmax_attrs *)a->attrs)->axis, a->in[0].shape.rank,
                        &axis, err);
}

/* Elements of one axis, `stride` apart. */
typedef struct {
    int64_t count, stride;
} line;

typedef void line_fn(const line *l, const double *const *in, double *out);

/* Calls the function for every line along the axis of its `inputs` operands. */
static sl_status eval_lines(const sl_eval_args *a, uint32_t inputs, line_fn *function,
                            sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, inputs, in, err));
    const sl_dims *shape = &a->in[0].type.shape;
    const uint32_t axis = sl_axis(((const sl_softmax_attrs *)a->attrs)->axis, shape->rank);
    const line l = {shape->dims[axis], sl_dims_tail(shape, axis + 1)};
    for (int64_t i = 0; l.count && i < sl_dims_tail(shape, 0) / l.count; i++) {
        const int64_t at = i / l.stride * l.stride * l.count + i % l.stride;
        const double *const from[2] = {in[0] + at, inputs > 1 ? in[1] + at : NULL};
        function(&l, from, a->out[0].data + at);
    }
    return SL_OK;
}

/* The maximum of a line, and the sum of e^(x - maximum). */
static double largest_of(const line *l, const double *x, double *sum) {
    double most = x[0];
    for (int64_t i = 1; i < l->count; i++) {
        const double y = x[i * l->stride];
        if (isnan(y) || y > most) most = y;
    }
    *sum = 0;
    for (int64_t i = 0; i < l->count; i++) *sum += exp(x[i * l->stride] - most);
    return most;
}

static void softmax_line(const line *l, const double *const *in, double *out) {
    double sum;
    const double most = largest_of(l, in[0], &sum);
    for (int64_t i = 0; i < l->count * l->stride; i += l->stride)
        out[i] = exp(in[0][i] - most) / sum;
}

static void log_softmax_line(const line *l, const double *const *in, double *out) {
    double sum;
    const double most = largest_of(l, in[0], &sum);
    for (int64_t i = 0; i < l->count * l->stride; i += l->stride)
        out[i] = in[0][i] - most - log(sum);
}

static void softmax_backward_line(const line *l, const double *const *in, double *out) {
    double sum = 0;
    for (int64_t i = 0; i < l->count * l->stride; i += l->stride) sum += in[0][i] * in[1][i];
    for (int64_t i = 0; i < l->count * l->stride; i += l->stride)
        out[i] = in[0][i] * (in[1][i] - sum);
}

static void log_softmax_backward_line(const line *l, const double *const *in, double *out) {
    double sum = 0;
    for (int64_t i = 0; i < l->count * l->stride; i += l->stride) sum += in[1][i];
    for (int64_t i = 0; i < l->count * l->stride; i += l->stride)
        out[i] = in[1][i] - exp(in[0][i]) * sum;
}

#define SOFTMAX(NAME)                                                                              \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        return infer_axis(a, "x", err);                                                            \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        return eval_lines(a, 1, NAME##_line, err);                                                 \
    }
SOFTMAX(softmax)
SOFTMAX(log_softmax)
#undef SOFTMAX

#define BACKWARD(NAME)                                                                             \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        SL_TRY(infer_axis(a, "y", err));                                                           \
        return sl_check_type(a, 1, "dy", &a->in[0], "as y", err);                                  \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        return eval_lines(a, 2, NAME##_line, err);                                                 \
    }
BACKWARD(softmax_backward)
BACKWARD(log_softmax_backward)
#undef BACKWARD
