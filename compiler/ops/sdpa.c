/* sdpa.c - Attention over the KV cache. */
#include "compiler/ops/check.h"
#include "core/kv.h"
#include <math.h>
#include <string.h>

static sl_status same_element_type(const char *label, const sl_type *keys, const sl_type *values,
                                   sl_error *err) {
    const sl_dtype wanted = sl_kv_values_dtype(keys->dtype);
    if (values->dtype == wanted) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: cache_v is %s, must be %s as cache_k", label,
                   sl_dtype_infos[values->dtype].name, sl_dtype_infos[wanted].name);
}

/* Matches a signature whose slots are i32[T], or with pages of a row's sequence i32[T,P]. */
static sl_status match_cached(const sl_infer_args *a, uint32_t slots, const char *const forms[2],
                              uint32_t values, sl_error *err) {
    const bool paged = a->in[slots].shape.rank == 2;
    SL_TRY(sl_match(a, forms[paged], err));
    const int64_t positions = a->in[values].shape.dims[2];
    if (!paged || positions == SL_KV_PAGE) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: a page of the cache has %lld positions, must have %d",
                   a->label, (long long)positions, SL_KV_PAGE);
}

#define APPEND_INPUTS(SLOTS)                                                                       \
    "k f32[T,heads,D], v f32[T,heads,V], slots i32[" SLOTS "], positions i32[T], "                 \
    "cache_k keys[S,heads,blocks,D,16], cache_v values[S,heads,16blocks,V]"

sl_status sl_infer_kv_append(const sl_infer_args *a, sl_error *err) {
    static const char *const forms[] = {APPEND_INPUTS("T"), APPEND_INPUTS("T,P")};
    SL_TRY(match_cached(a, 2, forms, 5, err));
    return same_element_type(a->label, &a->in[4], &a->in[5], err);
}

/* ---- where positions are ---- */

typedef struct {
    const double *slots;
    int64_t pages; /* of each row; with slots 1 */
    int64_t each;  /* positions of a page or slot */
    int64_t count, heads;
} places;

static places places_of(const sl_eval_args *a, const double *slots, uint32_t slots_at,
                        uint32_t values_at) {
    const bool paged = a->in[slots_at].type.shape.rank == 2;
    return (places){.slots = slots,
                    .pages = paged ? sl_eval_dim(a, slots_at, 1) : 1,
                    .each = sl_eval_dim(a, values_at, 2),
                    .count = sl_eval_dim(a, values_at, 0),
                    .heads = sl_eval_dim(a, values_at, 1)};
}

/* The first position that is seen from a position; window 0: all before it. */
static int64_t first_seen(double position, int64_t window) {
    const int64_t end = (int64_t)position + 1;
    return window && window < end ? end - window : 0;
}

/* Checks the position of row t, and where the positions that it sees are. */
static sl_status check_places(const sl_eval_args *a, const places *p, int64_t t, double position,
                              int64_t window, sl_error *err) {
    if (!(position >= 0 && position < (double)(p->pages * p->each)))
        return sl_fail(err, SL_INVALID, "%s: positions[%lld] is %.0f, must be 0 to %lld", a->label,
                       (long long)t, position, (long long)(p->pages * p->each) - 1);
    for (int64_t i = first_seen(position, window) / p->each; i <= (int64_t)position / p->each;
         i++) {
        const double slot = p->slots[t * p->pages + i];
        if (!(slot >= 0 && slot < (double)p->count))
            return sl_fail(err, SL_INVALID, "%s: slots[%lld] is %.0f, must be 0 to %lld", a->label,
                           (long long)(t * p->pages + i), slot, (long long)p->count - 1);
    }
    return SL_OK;
}

/* A position of a head, counted over the whole cache. */
static int64_t place_at(const places *p, int64_t t, int64_t head, int64_t position) {
    const int64_t slot = (int64_t)p->slots[t * p->pages + position / p->each];
    return (slot * p->heads + head) * p->each + position % p->each;
}

/* Rounds a row as the cache stores it; its elements are `step` apart. */
static void keep_row(sl_dtype dtype, const double *x, int64_t width, double *out, int64_t step,
                     float *room) {
    for (int64_t d = 0; d < width; d++) room[d] = (float)x[d];
    sl_kv_round_row(dtype, width, room);
    for (int64_t d = 0; d < width; d++)
        out[d * step] = dtype == SL_DTYPE_f32 ? x[d] : (double)room[d];
}

sl_status sl_eval_kv_append(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    double *room;
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), heads = sl_eval_dim(a, 0, 1);
    const int64_t key_dim = sl_eval_dim(a, 0, 2), value_dim = sl_eval_dim(a, 1, 2);
    const places p = places_of(a, in[2], 2, 5);
    for (int64_t t = 0; t < rows; t++) SL_TRY(check_places(a, &p, t, in[3][t], 1, err));
    SL_TRY(sl_eval_scratch(a, key_dim > value_dim ? key_dim : value_dim, &room, err));
    float *row = (void *)room;
    for (int64_t i = 0; i < rows * heads; i++) {
        const int64_t at = place_at(&p, i / heads, i % heads, (int64_t)in[3][i / heads]);
        keep_row(a->in[4].type.dtype, in[0] + i * key_dim, key_dim,
                 a->in[4].data + sl_kv_key_at(at, key_dim), SL_KV_LANES, row);
        keep_row(a->in[5].type.dtype, in[1] + i * value_dim, value_dim,
                 a->in[5].data + at * value_dim, 1, row);
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

#define SDPA_INPUTS(SLOTS)                                                                         \
    "q f32[T,Hq,D], cache_k keys[S,heads,blocks,D,16], cache_v values[S,heads,16blocks,V], "       \
    "slots i32[" SLOTS "], positions i32[T] "
enum { SDPA_VALUES = 2, SDPA_SLOTS };

static sl_status check_softcap(const sl_infer_args *a, float softcap, sl_error *err) {
    if (softcap >= 0 && isfinite(softcap)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: softcap is %g, must be 0 or positive", a->label,
                   (double)softcap);
}

sl_status sl_infer_sdpa(const sl_infer_args *a, sl_error *err) {
    static const char *const forms[] = {SDPA_INPUTS("T") "-> f32[T,Hq,V]",
                                        SDPA_INPUTS("T,P") "-> f32[T,Hq,V]"};
    SL_TRY(match_cached(a, SDPA_SLOTS, forms, SDPA_VALUES, err));
    SL_TRY(check_softcap(a, ((const sl_sdpa_attrs *)a->attrs)->softcap, err));
    return check_heads(a, err);
}

sl_status sl_infer_sdpa_sinks(const sl_infer_args *a, sl_error *err) {
    static const char *const forms[] = {SDPA_INPUTS("T") ", sinks f32[Hq] -> f32[T,Hq,V]",
                                        SDPA_INPUTS("T,P") ", sinks f32[Hq] -> f32[T,Hq,V]"};
    SL_TRY(match_cached(a, SDPA_SLOTS, forms, SDPA_VALUES, err));
    SL_TRY(check_softcap(a, ((const sl_sdpa_sinks_attrs *)a->attrs)->softcap, err));
    return check_heads(a, err);
}

/* One query with the keys and values of one head at positions [first, end). */
typedef struct {
    const double *query, *keys, *values; /* of the whole cache */
    const places *places;
    int64_t row, head, first, end, key_dim, value_dim;
    double scale, softcap;
    double *scores; /* scratch of end - first */
} attention;

/* Online softmax of the query: mix[d] = sum of e^(score - largest) v[d], and the sum of these
 * weights. */
typedef struct {
    double largest, sum, *mix;
} taken;

static void attend(const attention *t, taken *out) {
    const int64_t count = t->end - t->first;
    out->largest = -INFINITY, out->sum = 0;
    for (int64_t p = 0; p < count; p++) {
        const int64_t at = place_at(t->places, t->row, t->head, t->first + p);
        const double *key = t->keys + sl_kv_key_at(at, t->key_dim);
        double dot = 0;
        for (int64_t d = 0; d < t->key_dim; d++) dot += t->query[d] * key[d * SL_KV_LANES];
        t->scores[p] = dot * t->scale;
        if (t->softcap > 0) t->scores[p] = t->softcap * tanh(t->scores[p] / t->softcap);
        out->largest = fmax(out->largest, t->scores[p]);
    }
    for (int64_t d = 0; d < t->value_dim; d++) out->mix[d] = 0;
    for (int64_t p = 0; p < count; p++) {
        const int64_t at = place_at(t->places, t->row, t->head, t->first + p);
        out->sum += t->scores[p] = exp(t->scores[p] - out->largest);
        for (int64_t d = 0; d < t->value_dim; d++)
            out->mix[d] += t->scores[p] * t->values[at * t->value_dim + d];
    }
}

/* Divides a mix by its softmax sum, to which an attention sink adds its own term. */
static void finish(const taken *t, int64_t dim, const double *sink) {
    const double largest = sink ? fmax(t->largest, *sink) : t->largest;
    const double keep = exp(t->largest - largest);
    const double sum = t->sum * keep + (sink ? exp(*sink - largest) : 0);
    for (int64_t d = 0; d < dim; d++) t->mix[d] *= keep / sum;
}

/* All ops over a cache have the same first inputs and attributes. */
typedef struct {
    const double *in[5];
    places places;
    double *scores;
    sl_sdpa_attrs attrs;
} sdpa;

static sl_status sdpa_of(const sl_eval_args *a, sl_sdpa_attrs attrs, sdpa *out, sl_error *err) {
    out->attrs = attrs;
    SL_TRY(sl_eval_inputs(a, 5, out->in, err));
    out->places = places_of(a, out->in[SDPA_SLOTS], SDPA_SLOTS, SDPA_VALUES);
    const int64_t capacity = out->places.pages * out->places.each;
    for (int64_t t = 0; t < sl_eval_dim(a, 0, 0); t++)
        SL_TRY(check_places(a, &out->places, t, out->in[4][t], attrs.window, err));
    return sl_eval_scratch(a, capacity, &out->scores, err);
}

/* Query i of all rows, with all positions that it attends to. */
static attention task_of(const sl_eval_args *a, const sdpa *s, int64_t i) {
    const int64_t query_heads = sl_eval_dim(a, 0, 1), heads = sl_eval_dim(a, 1, 1);
    const int64_t t = i / query_heads, head = i % query_heads / (query_heads / heads);
    const int64_t key_dim = sl_eval_dim(a, 0, 2), value_dim = sl_eval_dim(a, 2, 3);
    return (attention){.query = s->in[0] + i * key_dim,
                       .keys = s->in[1],
                       .values = s->in[2],
                       .places = &s->places,
                       .row = t,
                       .head = head,
                       .first = first_seen(s->in[4][t], s->attrs.window),
                       .end = (int64_t)s->in[4][t] + 1,
                       .key_dim = key_dim,
                       .value_dim = value_dim,
                       .scale = (double)s->attrs.scale,
                       .softcap = (double)s->attrs.softcap,
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

sl_status sl_eval_sdpa(const sl_eval_args *a, sl_error *err) {
    sdpa s;
    SL_TRY(sdpa_of(a, *(const sl_sdpa_attrs *)a->attrs, &s, err));
    eval_whole(a, &s, NULL);
    return SL_OK;
}

sl_status sl_eval_sdpa_sinks(const sl_eval_args *a, sl_error *err) {
    const sl_sdpa_sinks_attrs *attrs = a->attrs;
    const double *in[6];
    sdpa s;
    SL_TRY(sl_eval_inputs(a, 6, in, err));
    const sl_sdpa_attrs own = {
        .scale = attrs->scale, .window = attrs->window, .softcap = attrs->softcap};
    SL_TRY(sdpa_of(a, own, &s, err));
    eval_whole(a, &s, in[5]);
    return SL_OK;
}

sl_status sl_infer_sdpa_parts(const sl_infer_args *a, sl_error *err) {
    static const char *const forms[] = {SDPA_INPUTS("T") "-> f32[T,Hq,1,V], f32[T,Hq,1,2]",
                                        SDPA_INPUTS("T,P") "-> f32[T,Hq,1,V], f32[T,Hq,1,2]"};
    SL_TRY(match_cached(a, SDPA_SLOTS, forms, SDPA_VALUES, err));
    SL_TRY(check_softcap(a, ((const sl_sdpa_parts_attrs *)a->attrs)->softcap, err));
    const sl_dims *slots = &a->in[SDPA_SLOTS].shape;
    const int64_t pages = slots->rank == 2 ? slots->dims[1] : 1;
    const int64_t capacity = pages * a->in[SDPA_VALUES].shape.dims[2];
    for (int o = 0; o < 2; o++)
        a->out[o].shape.dims[2] = (capacity + SL_SDPA_PART - 1) / SL_SDPA_PART;
    return check_heads(a, err);
}

sl_status sl_eval_sdpa_parts(const sl_eval_args *a, sl_error *err) {
    const sl_sdpa_parts_attrs *attrs = a->attrs;
    sdpa s;
    const sl_sdpa_attrs own = {
        .scale = attrs->scale, .window = attrs->window, .softcap = attrs->softcap};
    SL_TRY(sdpa_of(a, own, &s, err));
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

sl_status sl_infer_sdpa_merge(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "mixes f32[T,Hq,P,V], weights f32[T,Hq,P,2] -> f32[T,Hq,V]", err);
}

sl_status sl_infer_sdpa_merge_sinks(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "mixes f32[T,Hq,P,V], weights f32[T,Hq,P,2], sinks f32[Hq] -> f32[T,Hq,V]",
                    err);
}

/* Merges the parts of one query. */
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

sl_status sl_eval_sdpa_merge(const sl_eval_args *a, sl_error *err) {
    const double *in[3] = {NULL, NULL, NULL};
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    eval_merge(a, in);
    return SL_OK;
}

sl_status sl_eval_sdpa_merge_sinks(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    eval_merge(a, in);
    return SL_OK;
}

/* ---- fused ---- */

sl_status sl_infer_norm_rope_append(const sl_infer_args *a, sl_error *err) {
    const sl_norm_rope_append_attrs *attrs = a->attrs;
    const sl_norm_rope_attrs norm = {.rotary = attrs->rotary, .interleaved = attrs->interleaved};
    const sl_type *in = a->in;
    sl_type turned;
    SL_TRY(sl_infer_norm_rope(&(sl_infer_args){a->label, in, &norm, &turned, 4, 1}, err));
    const sl_type appended[] = {turned, in[4], in[5], in[6], in[7], in[8]};
    return sl_infer_kv_append(&(sl_infer_args){a->label, appended, NULL, a->out, 6, 2}, err);
}

sl_status sl_eval_norm_rope_append(const sl_eval_args *a, sl_error *err) {
    const sl_norm_rope_append_attrs *attrs = a->attrs;
    const sl_norm_rope_attrs norm = {.eps = attrs->eps,
                                     .offset = attrs->offset,
                                     .rotary = attrs->rotary,
                                     .interleaved = attrs->interleaved};
    const sl_eval_tensor *in = a->in;
    sl_eval_tensor k;
    SL_TRY(sl_eval_temp(a, &in[0].type, &k, err));
    SL_TRY(sl_eval_part(a, SL_OP_norm_rope, in, &norm, &k, err));
    return sl_eval_part(a, SL_OP_kv_append,
                        (sl_eval_tensor[]){k, in[4], in[5], in[6], in[7], in[8]}, NULL, a->out,
                        err);
}
