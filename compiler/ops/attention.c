/* attention.c - Gated attention over cached keys and values. */
#include "compiler/ops/check.h"
#include <math.h>
#include <string.h>

sl_status infer_split_halves(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..,2D] -> f32[..,D], f32[..,D]", err);
}

sl_status eval_split_halves(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t width = sl_eval_last_dim(a, 0), half = width / 2;
    for (int64_t at = 0; at < sl_type_elements(&a->in[0].type); at += width)
        for (int part = 0; part < 2; part++)
            memcpy(a->out[part].data + at / 2, x + at + part * half, (size_t)half * sizeof *x);
    return SL_OK;
}

sl_status infer_rope(const sl_infer_args *a, sl_error *err) {
    const sl_rope_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "x f32[T,heads,D], positions i32[T] -> f32[T,heads,D]", err));
    SL_TRY(sl_check_attr(a->label, "rotary", attrs->rotary, 2, a->in[0].shape.dims[2], err));
    if (attrs->rotary % 2)
        return sl_fail(err, SL_INVALID, "%s: rotary is %u, must be even", a->label, attrs->rotary);
    if (!(attrs->theta > 0) || isinf(attrs->theta))
        return sl_fail(err, SL_INVALID, "%s: theta is %g, must be positive", a->label,
                       (double)attrs->theta);
    return SL_OK;
}

static void rotate(double *x, double position, const sl_rope_attrs *attrs) {
    const uint32_t half = attrs->rotary / 2;
    for (uint32_t j = 0; j < half; j++) {
        const double angle = position * pow((double)attrs->theta, -2.0 * j / attrs->rotary);
        const double first = x[j], second = x[j + half];
        x[j] = first * cos(angle) - second * sin(angle);
        x[j + half] = second * cos(angle) + first * sin(angle);
    }
}

sl_status eval_rope(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), heads = sl_eval_dim(a, 0, 1);
    const int64_t width = sl_eval_dim(a, 0, 2);
    double *out = a->out[0].data;
    memmove(out, in[0], (size_t)(rows * heads * width) * sizeof *out);
    for (int64_t i = 0; i < rows * heads; i++) rotate(out + i * width, in[1][i / heads], a->attrs);
    return SL_OK;
}

sl_status infer_kv_append(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "k f32[T,heads,D], v f32[T,heads,D], slots i32[T], positions i32[T], "
                    "cache_k f32[S,capacity,heads,D], cache_v f32[S,capacity,heads,D]",
                    err);
}

sl_status eval_kv_append(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), capacity = sl_eval_dim(a, 4, 1);
    const int64_t row_size = sl_eval_dim(a, 0, 1) * sl_eval_dim(a, 0, 2);
    SL_TRY(sl_eval_bounds(a, "slots", in[2], rows, sl_eval_dim(a, 4, 0), err));
    SL_TRY(sl_eval_bounds(a, "positions", in[3], rows, capacity, err));
    for (int64_t t = 0; t < rows; t++) {
        const int64_t at = ((int64_t)in[2][t] * capacity + (int64_t)in[3][t]) * row_size;
        memcpy(a->in[4].data + at, in[0] + t * row_size, (size_t)row_size * sizeof(double));
        memcpy(a->in[5].data + at, in[1] + t * row_size, (size_t)row_size * sizeof(double));
    }
    return SL_OK;
}

sl_status infer_sdpa(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a,
                    "q f32[T,Hq,D], cache_k f32[S,capacity,heads,D], "
                    "cache_v f32[S,capacity,heads,D], slots i32[T], positions i32[T] "
                    "-> f32[T,Hq,D]",
                    err));
    const int64_t query_heads = a->in[0].shape.dims[1], heads = a->in[1].shape.dims[2];
    if (query_heads % heads)
        return sl_fail(err, SL_INVALID,
                       "%s: q has %lld heads, must be a multiple of the cache's %lld", a->label,
                       (long long)query_heads, (long long)heads);
    return SL_OK;
}

/* One query against the keys and values of one head; rows of both are `stride` apart. */
typedef struct {
    const double *query, *keys, *values;
    int64_t count, width, stride;
    double scale;
} attention;

static void attend(const attention *t, double *scores, double *out) {
    double most = -INFINITY, sum = 0;
    for (int64_t p = 0; p < t->count; p++) {
        double dot = 0;
        for (int64_t d = 0; d < t->width; d++) dot += t->query[d] * t->keys[p * t->stride + d];
        scores[p] = dot * t->scale;
        most = fmax(most, scores[p]);
    }
    for (int64_t p = 0; p < t->count; p++) sum += scores[p] = exp(scores[p] - most);
    for (int64_t d = 0; d < t->width; d++) {
        double mix = 0;
        for (int64_t p = 0; p < t->count; p++) mix += scores[p] * t->values[p * t->stride + d];
        out[d] = mix / sum;
    }
}

sl_status eval_sdpa(const sl_eval_args *a, sl_error *err) {
    const double *in[5];
    SL_TRY(sl_eval_inputs(a, 5, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), query_heads = sl_eval_dim(a, 0, 1);
    const int64_t width = sl_eval_dim(a, 0, 2), heads = sl_eval_dim(a, 1, 2);
    const int64_t capacity = sl_eval_dim(a, 1, 1), stride = heads * width;
    SL_TRY(sl_eval_bounds(a, "slots", in[3], rows, sl_eval_dim(a, 1, 0), err));
    SL_TRY(sl_eval_bounds(a, "positions", in[4], rows, capacity, err));
    double *scores;
    SL_TRY(sl_eval_scratch(a, capacity, &scores, err));
    for (int64_t i = 0; i < rows * query_heads; i++) {
        const int64_t t = i / query_heads, head = i % query_heads / (query_heads / heads);
        const int64_t start = (int64_t)in[3][t] * capacity * stride + head * width;
        const attention task = {.query = in[0] + i * width,
                                .keys = in[1] + start,
                                .values = in[2] + start,
                                .count = (int64_t)in[4][t] + 1,
                                .width = width,
                                .stride = stride,
                                .scale = (double)((const sl_sdpa_attrs *)a->attrs)->scale};
        attend(&task, scores, a->out[0].data + i * width);
    }
    return SL_OK;
}

sl_status infer_sigmoid_gate(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[..], gate f32[..] -> f32[..]", err);
}

sl_status eval_sigmoid_gate(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t count = sl_type_elements(&a->out[0].type);
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = in[0][i] * sl_sigmoid(in[1][i]);
    return SL_OK;
}
