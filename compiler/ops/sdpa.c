/* sdpa.c - Gated attention over cached keys and values. */
#include "compiler/ops/check.h"
#include "core/kv.h"
#include "core/rope.h"
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

static sl_status same_element_type(const char *label, const sl_type *keys, const sl_type *values,
                                   sl_error *err) {
    const sl_dtype wanted = sl_kv_values_dtype(keys->dtype);
    if (values->dtype == wanted) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: cache_v is %s, must be %s as cache_k", label,
                   sl_dtype_infos[values->dtype].name, sl_dtype_infos[wanted].name);
}

sl_status infer_kv_append(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a,
                    "k f32[T,heads,D], v f32[T,heads,V], slots i32[T], positions i32[T], "
                    "cache_k keys[S,heads,blocks,D,16], cache_v values[S,heads,16blocks,V]",
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
    const int64_t heads = sl_eval_dim(a, 0, 1);
    const int64_t key_dim = sl_eval_dim(a, 0, 2), value_dim = sl_eval_dim(a, 1, 2);
    SL_TRY(sl_eval_bounds(a, "slots", in[2], rows, sl_eval_dim(a, 4, 0), err));
    SL_TRY(sl_eval_bounds(a, "positions", in[3], rows, capacity, err));
    SL_TRY(sl_eval_scratch(a, key_dim > value_dim ? key_dim : value_dim, &room, err));
    float *row = (void *)room;
    for (int64_t i = 0; i < rows * heads; i++) {
        const int64_t t = i / heads, position = (int64_t)in[3][t];
        const int64_t before = ((int64_t)in[2][t] * heads + i % heads) * capacity;
        keep_row(a->in[4].type.dtype, in[0] + i * key_dim, key_dim,
                 a->in[4].data + before * key_dim + sl_kv_key_at(position, key_dim), SL_KV_LANES,
                 row);
        keep_row(a->in[5].type.dtype, in[1] + i * value_dim, value_dim,
                 a->in[5].data + (before + position) * value_dim, 1, row);
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
    "q f32[T,Hq,D], cache_k keys[S,heads,blocks,D,16], cache_v values[S,heads,16blocks,V], "       \
    "slots i32[T], positions i32[T] "

sl_status infer_sdpa(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, SDPA_INPUTS "-> f32[T,Hq,V]", err));
    return check_heads(a, err);
}

sl_status infer_sdpa_sinks(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, SDPA_INPUTS ", sinks f32[Hq] -> f32[T,Hq,V]", err));
    return check_heads(a, err);
}

/* One query against the keys and values of one head at positions [first, end). */
typedef struct {
    const double *query, *keys, *values; /* keys and values from position 0 on */
    int64_t first, end, key_dim, value_dim;
    double scale;
    double *scores; /* room for end - first */
} attention;

/* What the query takes from them: mix[d] = sum of e^(score - largest) v[d], and the sum of those
 * factors. */
typedef struct {
    double largest, sum, *mix;
} taken;

static void attend(const attention *t, taken *out) {
    const int64_t count = t->end - t->first;
    out->largest = -INFINITY, out->sum = 0;
    for (int64_t p = 0; p < count; p++) {
        const double *key = t->keys + sl_kv_key_at(t->first + p, t->key_dim);
        double dot = 0;
        for (int64_t d = 0; d < t->key_dim; d++) dot += t->query[d] * key[d * SL_KV_LANES];
        t->scores[p] = dot * t->scale;
        out->largest = fmax(out->largest, t->scores[p]);
    }
    for (int64_t p = 0; p < count; p++) out->sum += t->scores[p] = exp(t->scores[p] - out->largest);
    for (int64_t d = 0; d < t->value_dim; d++) {
        out->mix[d] = 0;
        for (int64_t p = 0; p < count; p++)
            out->mix[d] += t->scores[p] * t->values[(t->first + p) * t->value_dim + d];
    }
}

/* Divides a mix by its sum, to which a sink adds a factor of its own. */
static void finish(const taken *t, int64_t dim, const double *sink) {
    const double largest = sink ? fmax(t->largest, *sink) : t->largest;
    const double keep = exp(t->largest - largest);
    const double sum = t->sum * keep + (sink ? exp(*sink - largest) : 0);
    for (int64_t d = 0; d < dim; d++) t->mix[d] *= keep / sum;
}

/* The ops of attention over a cache have the same first inputs and the same attributes. */
typedef struct {
    const double *in[5];
    double *scores;
    sl_sdpa_attrs attrs;
} sdpa;

static sl_status sdpa_of(const sl_eval_args *a, sl_sdpa_attrs attrs, sdpa *out, sl_error *err) {
    const int64_t rows = sl_eval_dim(a, 0, 0), capacity = sl_eval_dim(a, 2, 2);
    out->attrs = attrs;
    SL_TRY(sl_eval_inputs(a, 5, out->in, err));
    SL_TRY(sl_eval_bounds(a, "slots", out->in[3], rows, sl_eval_dim(a, 1, 0), err));
    SL_TRY(sl_eval_bounds(a, "positions", out->in[4], rows, capacity, err));
    return sl_eval_scratch(a, capacity, &out->scores, err);
}

/* Query i of all rows against all positions that it sees. */
static attention task_of(const sl_eval_args *a, const sdpa *s, int64_t i) {
    const int64_t query_heads = sl_eval_dim(a, 0, 1), heads = sl_eval_dim(a, 1, 1);
    const int64_t t = i / query_heads, head = i % query_heads / (query_heads / heads);
    const int64_t key_dim = sl_eval_dim(a, 0, 2), value_dim = sl_eval_dim(a, 2, 3);
    const int64_t before = ((int64_t)s->in[3][t] * heads + head) * sl_eval_dim(a, 2, 2);
    const int64_t end = (int64_t)s->in[4][t] + 1, window = s->attrs.window;
    return (attention){.query = s->in[0] + i * key_dim,
                       .keys = s->in[1] + before * key_dim,
                       .values = s->in[2] + before * value_dim,
                       .first = window && window < end ? end - window : 0,
                       .end = end,
                       .key_dim = key_dim,
                       .value_dim = value_dim,
                       .scale = (double)s->attrs.scale,
                       .scores = s->scores};
}

static void eval_whole(const sl_eval_args *a, const sdpa *s, const double *sinks) {
    const int64_t heads = sl_eval_dim(a, 0, 1), value_dim = sl_eval_dim(a, 2, 3);
    for (int64_t i = 0; i < sl_eval_dim(a, 0, 0) * heads; i++) {
        const attention task = task_of(a, s, i);
        taken all = {.mix = a->out[0].data + i * value_dim};
        attend(&task, &all);
        finish(&all, value_dim, sinks ? sinks + i % heads : NULL);
    }
}

sl_status eval_sdpa(const sl_eval_args *a, sl_error *err) {
    sdpa s;
    SL_TRY(sdpa_of(a, *(const sl_sdpa_attrs *)a->attrs, &s, err));
    eval_whole(a, &s, NULL);
    return SL_OK;
}

sl_status eval_sdpa_sinks(const sl_eval_args *a, sl_error *err) {
    const sl_sdpa_sinks_attrs *attrs = a->attrs;
    const double *in[6];
    sdpa s;
    SL_TRY(sl_eval_inputs(a, 6, in, err));
    SL_TRY(sdpa_of(a, (sl_sdpa_attrs){.scale = attrs->scale, .window = attrs->window}, &s, err));
    eval_whole(a, &s, in[5]);
    return SL_OK;
}

sl_status infer_sdpa_parts(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, SDPA_INPUTS "-> f32[T,Hq,1,V], f32[T,Hq,1,2]", err));
    const int64_t capacity = a->in[2].shape.dims[2];
    for (int o = 0; o < 2; o++)
        a->out[o].shape.dims[2] = (capacity + SL_SDPA_PART - 1) / SL_SDPA_PART;
    return check_heads(a, err);
}

sl_status eval_sdpa_parts(const sl_eval_args *a, sl_error *err) {
    const sl_sdpa_parts_attrs *attrs = a->attrs;
    sdpa s;
    SL_TRY(sdpa_of(a, (sl_sdpa_attrs){.scale = attrs->scale, .window = attrs->window}, &s, err));
    const int64_t value_dim = sl_eval_dim(a, 2, 3), parts = a->out[0].type.shape.dims[2];
    const int64_t queries = sl_eval_dim(a, 0, 0) * sl_eval_dim(a, 0, 1);
    for (int64_t i = 0; i < queries * parts; i++) {
        attention task = task_of(a, &s, i / parts);
        const int64_t first = i % parts * SL_SDPA_PART, end = first + SL_SDPA_PART;
        task.first = first > task.first ? first : task.first;
        task.end = end < task.end ? end : task.end;
        taken part = {.mix = a->out[0].data + i * value_dim};
        if (task.first < task.end)
            attend(&task, &part);
        else
            memset(part.mix, 0, (size_t)value_dim * sizeof *part.mix);
        a->out[1].data[i * 2] = part.largest;
        a->out[1].data[i * 2 + 1] = part.sum;
    }
    return SL_OK;
}

sl_status infer_sdpa_merge(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "mixes f32[T,Hq,P,V], weights f32[T,Hq,P,2] -> f32[T,Hq,V]", err);
}

sl_status infer_sdpa_merge_sinks(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "mixes f32[T,Hq,P,V], weights f32[T,Hq,P,2], sinks f32[Hq] -> f32[T,Hq,V]",
                    err);
}

/* One query's parts. */
static void merge(const double *mixes, const double *weights, int64_t parts, int64_t dim,
                  taken *all) {
    all->largest = -INFINITY, all->sum = 0;
    for (int64_t p = 0; p < parts; p++)
        if (weights[p * 2 + 1] != 0) all->largest = fmax(all->largest, weights[p * 2]);
    memset(all->mix, 0, (size_t)dim * sizeof *all->mix);
    for (int64_t p = 0; p < parts; p++) {
        if (weights[p * 2 + 1] == 0) continue;
        const double factor = exp(weights[p * 2] - all->largest);
        all->sum += factor * weights[p * 2 + 1];
        for (int64_t d = 0; d < dim; d++) all->mix[d] += factor * mixes[p * dim + d];
    }
}

static void eval_merge(const sl_eval_args *a, const double *const in[3]) {
    const int64_t heads = sl_eval_dim(a, 0, 1), parts = sl_eval_dim(a, 0, 2);
    const int64_t dim = sl_eval_dim(a, 0, 3);
    for (int64_t i = 0; i < sl_eval_dim(a, 0, 0) * heads; i++) {
        taken all = {.mix = a->out[0].data + i * dim};
        merge(in[0] + i * parts * dim, in[1] + i * parts * 2, parts, dim, &all);
        finish(&all, dim, in[2] ? in[2] + i % heads : NULL);
    }
}

sl_status eval_sdpa_merge(const sl_eval_args *a, sl_error *err) {
    const double *in[3] = {NULL, NULL, NULL};
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    eval_merge(a, in);
    return SL_OK;
}

sl_status eval_sdpa_merge_sinks(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    eval_merge(a, in);
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
