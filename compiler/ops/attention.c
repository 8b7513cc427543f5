/* attention.c - Gated attention over cached keys and values. */
#include "compiler/ops/check.h"
#include "core/kv.h"
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

sl_status infer_rope_table(const sl_infer_args *a, sl_error *err) {
    const sl_rope_table_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "positions i32[T]", err));
    SL_TRY(sl_check_attr(a->label, "rotary", attrs->rotary, 2, INT32_MAX, err));
    if (attrs->rotary % 2)
        return sl_fail(err, SL_INVALID, "%s: rotary is %u, must be even", a->label, attrs->rotary);
    if (!(attrs->theta > 0) || isinf(attrs->theta))
        return sl_fail(err, SL_INVALID, "%s: theta is %g, must be positive", a->label,
                       (double)attrs->theta);
    a->out[0] = sl_type_make(SL_DTYPE_f32, 2, a->in[0].shape.dims[0], (int64_t)attrs->rotary);
    return SL_OK;
}

sl_status eval_rope_table(const sl_eval_args *a, sl_error *err) {
    const sl_rope_table_attrs *attrs = a->attrs;
    const double *positions;
    SL_TRY(sl_eval_inputs(a, 1, &positions, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), half = attrs->rotary / 2;
    SL_TRY(sl_eval_bounds(a, "positions", positions, rows, INT32_MAX, err));
    for (int64_t t = 0; t < rows; t++)
        for (int64_t j = 0; j < half; j++) {
            const double frequency =
                pow((double)attrs->theta, -2.0 * (double)j / (double)attrs->rotary);
            a->out[0].data[t * 2 * half + j] = cos(positions[t] * frequency);
            a->out[0].data[t * 2 * half + half + j] = sin(positions[t] * frequency);
        }
    return SL_OK;
}

sl_status infer_rope(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x f32[T,heads,D], table f32[T,2half] -> f32[T,heads,D]", err));
    return sl_check_attr(a->label, "the table's width", a->in[1].shape.dims[1], 2,
                         a->in[0].shape.dims[2], err);
}

static void rotate(double *x, const double *cosines, int64_t half) {
    const double *sines = cosines + half;
    for (int64_t j = 0; j < half; j++) {
        const double first = x[j], second = x[j + half];
        x[j] = first * cosines[j] - second * sines[j];
        x[j + half] = second * cosines[j] + first * sines[j];
    }
}

sl_status eval_rope(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), heads = sl_eval_dim(a, 0, 1);
    const int64_t width = sl_eval_dim(a, 0, 2), rotary = sl_eval_dim(a, 1, 1);
    double *out = a->out[0].data;
    memmove(out, in[0], (size_t)(rows * heads * width) * sizeof *out);
    for (int64_t i = 0; i < rows * heads; i++)
        rotate(out + i * width, in[1] + i / heads * rotary, rotary / 2);
    return SL_OK;
}

static sl_status same_element_type(const char *label, const sl_type *keys, const sl_type *values,
                                   sl_error *err) {
    const sl_dtype wanted = sl_kv_values_dtype(keys->dtype);
    if (values->dtype == wanted) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: cache_v is %s, must be %s as cache_k", label,
                   sl_dtype_infos[values->dtype].name, sl_dtype_infos[wanted].name);
}

sl_status infer_kv_append(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a,
                    "k f32[T,heads,D], v f32[T,heads,D], slots i32[T], positions i32[T], "
                    "cache_k keys[S,heads,blocks,D,16], cache_v values[S,heads,16blocks,D]",
                    err));
    return same_element_type(a->label, &a->in[4], &a->in[5], err);
}

/* A row as the cache keeps it, its elements `step` apart. */
static void keep_row(sl_dtype dtype, const double *x, int64_t width, double *out, int64_t step,
                     float *room) {
    for (int64_t d = 0; d < width; d++) room[d] = (float)x[d];
    sl_kv_round_row(dtype, width, room);
    for (int64_t d = 0; d < width; d++)
        out[d * step] = dtype == SL_DTYPE_f32 ? x[d] : (double)room[d];
}

sl_status eval_kv_append(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    double *room;
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), capacity = sl_eval_dim(a, 5, 2);
    const int64_t heads = sl_eval_dim(a, 0, 1), width = sl_eval_dim(a, 0, 2);
    SL_TRY(sl_eval_bounds(a, "slots", in[2], rows, sl_eval_dim(a, 4, 0), err));
    SL_TRY(sl_eval_bounds(a, "positions", in[3], rows, capacity, err));
    SL_TRY(sl_eval_scratch(a, width, &room, err));
    for (int64_t i = 0; i < rows * heads; i++) {
        const int64_t t = i / heads, position = (int64_t)in[3][t];
        const int64_t head = ((int64_t)in[2][t] * heads + i % heads) * capacity * width;
        keep_row(a->in[4].type.dtype, in[0] + i * width, width,
                 a->in[4].data + head + sl_kv_key_at(position, width), SL_KV_LANES, (float *)room);
        keep_row(a->in[5].type.dtype, in[1] + i * width, width,
                 a->in[5].data + head + position * width, 1, (float *)room);
    }
    return SL_OK;
}

static sl_status check_heads(const sl_infer_args *a, sl_error *err) {
    const int64_t query_heads = a->in[0].shape.dims[1], heads = a->in[1].shape.dims[1];
    if (query_heads % heads)
        return sl_fail(err, SL_INVALID,
                       "%s: q has %lld heads, must be a multiple of the cache's %lld", a->label,
                       (long long)query_heads, (long long)heads);
    return same_element_type(a->label, &a->in[1], &a->in[2], err);
}

#define SDPA_INPUTS                                                                                \
    "q f32[T,Hq,D], cache_k keys[S,heads,blocks,D,16], cache_v values[S,heads,16blocks,D], "       \
    "slots i32[T], positions i32[T] "

sl_status infer_sdpa(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, SDPA_INPUTS "-> f32[T,Hq,D]", err));
    return check_heads(a, err);
}

/* One query against the keys and values of one head at positions [first, first + count). */
typedef struct {
    const double *query, *keys, *values; /* keys and values from position 0 on */
    int64_t first, count, width;
    double scale;
    double *scores; /* room for count */
} attention;

/* What the query takes from them: mix[d] = sum of e^(score - largest) v[d], and the sum of those
 * factors. */
typedef struct {
    double largest, sum, *mix;
} taken;

static void attend(const attention *t, taken *out) {
    out->largest = -INFINITY, out->sum = 0;
    for (int64_t p = 0; p < t->count; p++) {
        const double *key = t->keys + sl_kv_key_at(t->first + p, t->width);
        double dot = 0;
        for (int64_t d = 0; d < t->width; d++) dot += t->query[d] * key[d * SL_KV_LANES];
        t->scores[p] = dot * t->scale;
        out->largest = fmax(out->largest, t->scores[p]);
    }
    for (int64_t p = 0; p < t->count; p++)
        out->sum += t->scores[p] = exp(t->scores[p] - out->largest);
    for (int64_t d = 0; d < t->width; d++) {
        out->mix[d] = 0;
        for (int64_t p = 0; p < t->count; p++)
            out->mix[d] += t->scores[p] * t->values[(t->first + p) * t->width + d];
    }
}

/* Query i of all rows against all its positions. */
static attention task_of(const sl_eval_args *a, const double *const in[5], int64_t i,
                         double *scores, double scale) {
    const int64_t query_heads = sl_eval_dim(a, 0, 1), heads = sl_eval_dim(a, 1, 1);
    const int64_t t = i / query_heads, head = i % query_heads / (query_heads / heads);
    const int64_t width = sl_eval_dim(a, 0, 2);
    const int64_t start = ((int64_t)in[3][t] * heads + head) * sl_eval_dim(a, 2, 2) * width;
    return (attention){.query = in[0] + i * width,
                       .keys = in[1] + start,
                       .values = in[2] + start,
                       .count = (int64_t)in[4][t] + 1,
                       .width = width,
                       .scale = scale,
                       .scores = scores};
}

static sl_status sdpa_inputs(const sl_eval_args *a, const double *in[5], double **scores,
                             sl_error *err) {
    const int64_t rows = sl_eval_dim(a, 0, 0), capacity = sl_eval_dim(a, 2, 2);
    SL_TRY(sl_eval_inputs(a, 5, in, err));
    SL_TRY(sl_eval_bounds(a, "slots", in[3], rows, sl_eval_dim(a, 1, 0), err));
    SL_TRY(sl_eval_bounds(a, "positions", in[4], rows, capacity, err));
    return sl_eval_scratch(a, capacity, scores, err);
}

sl_status eval_sdpa(const sl_eval_args *a, sl_error *err) {
    const double *in[5];
    double *scores;
    SL_TRY(sdpa_inputs(a, in, &scores, err));
    const double scale = (double)((const sl_sdpa_attrs *)a->attrs)->scale;
    const int64_t width = sl_eval_dim(a, 0, 2);
    for (int64_t i = 0; i < sl_eval_dim(a, 0, 0) * sl_eval_dim(a, 0, 1); i++) {
        const attention task = task_of(a, in, i, scores, scale);
        taken all = {.mix = a->out[0].data + i * width};
        attend(&task, &all);
        for (int64_t d = 0; d < width; d++) all.mix[d] /= all.sum;
    }
    return SL_OK;
}

sl_status infer_sdpa_parts(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, SDPA_INPUTS "-> f32[T,Hq,1,D], f32[T,Hq,1,2]", err));
    const int64_t capacity = a->in[2].shape.dims[2];
    for (int o = 0; o < 2; o++)
        a->out[o].shape.dims[2] = (capacity + SL_SDPA_PART - 1) / SL_SDPA_PART;
    return check_heads(a, err);
}

sl_status eval_sdpa_parts(const sl_eval_args *a, sl_error *err) {
    const double *in[5];
    double *scores;
    SL_TRY(sdpa_inputs(a, in, &scores, err));
    const double scale = (double)((const sl_sdpa_parts_attrs *)a->attrs)->scale;
    const int64_t width = sl_eval_dim(a, 0, 2), parts = a->out[0].type.shape.dims[2];
    const int64_t queries = sl_eval_dim(a, 0, 0) * sl_eval_dim(a, 0, 1);
    for (int64_t i = 0; i < queries * parts; i++) {
        attention task = task_of(a, in, i / parts, scores, scale);
        const int64_t first = i % parts * SL_SDPA_PART, left = task.count - first;
        task.first = first;
        task.count = left < SL_SDPA_PART ? left : SL_SDPA_PART;
        taken part = {.mix = a->out[0].data + i * width};
        if (left > 0)
            attend(&task, &part);
        else
            memset(part.mix, 0, (size_t)width * sizeof *part.mix);
        a->out[1].data[i * 2] = part.largest;
        a->out[1].data[i * 2 + 1] = part.sum;
    }
    return SL_OK;
}

sl_status infer_sdpa_merge(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "mixes f32[T,Hq,P,D], weights f32[T,Hq,P,2] -> f32[T,Hq,D]", err);
}

sl_status eval_sdpa_merge(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t parts = sl_eval_dim(a, 0, 2), width = sl_eval_dim(a, 0, 3);
    for (int64_t i = 0; i < sl_eval_dim(a, 0, 0) * sl_eval_dim(a, 0, 1); i++) {
        const double *mixes = in[0] + i * parts * width, *weights = in[1] + i * parts * 2;
        double *out = a->out[0].data + i * width, largest = -INFINITY, sum = 0;
        for (int64_t p = 0; p < parts; p++)
            if (weights[p * 2 + 1] != 0) largest = fmax(largest, weights[p * 2]);
        memset(out, 0, (size_t)width * sizeof *out);
        for (int64_t p = 0; p < parts; p++) {
            if (weights[p * 2 + 1] == 0) continue;
            const double factor = exp(weights[p * 2] - largest);
            sum += factor * weights[p * 2 + 1];
            for (int64_t d = 0; d < width; d++) out[d] += factor * mixes[p * width + d];
        }
        for (int64_t d = 0; d < width; d++) out[d] /= sum;
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
