/* attention.c - Rotary positions, the key-value cache, and attention over it. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/norm.h"

/* ---- rope: an item is a row (token) ---- */

SPLIT(rope) {
    const sl_rope_args *a = args;
    return (sl_split){dim(&a->x.type, 0), grain_of(sl_dims_tail(&a->x.type.shape, 1) + 2048),
                      a->attrs.rotary * sizeof(float)};
}

/* Cosines and sines of one position. */
typedef struct {
    float *cosine, *sine;
    int64_t half;
} turn;

SL_CHECKED static sl_status turn_of(sl_rope_attrs rope, const sl_cview *positions, int64_t t,
                                    float *scratch, turn *out, sl_error *err) {
    const int32_t position = ((const int32_t *)positions->data)[t];
    SL_TRY(check_index(position, INT32_MAX, "rope: position", t, err));
    const int64_t half = rope.rotary / 2;
    *out = (turn){scratch, scratch + half, half};
    for (int64_t j = 0; j < half; j++) {
        const double exponent = -2.0 * (double)j / (double)rope.rotary;
        const double angle = (double)position * pow((double)rope.theta, exponent);
        out->cosine[j] = (float)cos(angle);
        out->sine[j] = (float)sin(angle);
    }
    return SL_OK;
}

/* One head.  Never inlined: the compiler is free to fuse either product with the difference, and
 * must choose alike for every kernel that rotates. */
static __attribute__((noinline)) void rotate(const turn *r, const float *x, float *out,
                                             int64_t width) {
    const float *cosine = r->cosine, *sine = r->sine;
    const int64_t half = r->half;
    for (int64_t j = 0; j < half; j++) {
        const float first = x[j], second = x[j + half];
        out[j] = first * cosine[j] - second * sine[j];
        out[j + half] = second * cosine[j] + first * sine[j];
    }
    memcpy(out + 2 * half, x + 2 * half, (size_t)(width - 2 * half) * sizeof *out);
}

RUN(rope) {
    const sl_rope_args *a = args;
    const int64_t heads = dim(&a->x.type, 1), width = dim(&a->x.type, 2);
    for (int64_t t = begin; t < end; t++) {
        turn r;
        SL_TRY(turn_of(a->attrs, &a->positions, t, worker->scratch, &r, worker->err));
        for (int64_t at = t * heads * width; at < (t + 1) * heads * width; at += width)
            rotate(&r, (const float *)a->x.data + at, (float *)a->out.data + at, width);
    }
    return SL_OK;
}

/* ---- norm and rope: an item is a row ---- */

static sl_split split_norm_rope(const sl_type *x, uint32_t rotary) {
    return (sl_split){dim(x, 0), grain_of(2 * sl_dims_tail(&x->shape, 1) + 2048),
                      ((size_t)rotary + (size_t)dim(x, 2)) * sizeof(float)};
}

/* All heads of a row; a head's norm is rounded in `normed` before it is rotated. */
static void norm_rope_row(const rms_norm *norm, const turn *r, const float *x, float *out,
                          int64_t heads, float *normed) {
    for (int64_t h = 0; h < heads; h++) {
        rms_norm_row(norm, x + h * norm->n, normed);
        rotate(r, normed, out + h * norm->n, norm->n);
    }
}

SPLIT(norm_rope) {
    const sl_norm_rope_args *a = args;
    return split_norm_rope(&a->x.type, a->attrs.rotary);
}
RUN(norm_rope) {
    const sl_norm_rope_args *a = args;
    const int64_t heads = dim(&a->x.type, 1), width = dim(&a->x.type, 2);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    const sl_rope_attrs rope = {.rotary = a->attrs.rotary, .theta = a->attrs.theta};
    float *normed = (float *)worker->scratch + rope.rotary;
    for (int64_t t = begin; t < end; t++) {
        const int64_t at = t * heads * width;
        turn r;
        SL_TRY(turn_of(rope, &a->positions, t, worker->scratch, &r, worker->err));
        norm_rope_row(&norm, &r, (const float *)a->x.data + at, (float *)a->out.data + at, heads,
                      normed);
    }
    return SL_OK;
}

/* ---- cache: where row t's sequence and position lie ---- */

SL_CHECKED static sl_status cache_row(const sl_type *cache, const int32_t *slots,
                                      const int32_t *positions, int64_t t, int64_t *row,
                                      sl_error *err) {
    SL_TRY(check_index(slots[t], dim(cache, 0), "attention: slot", t, err));
    SL_TRY(check_index(positions[t], dim(cache, 1), "attention: position", t, err));
    *row = slots[t] * dim(cache, 1) + positions[t];
    return SL_OK;
}

/* An item is a row. */
SPLIT(kv_append) {
    const sl_kv_append_args *a = args;
    return (sl_split){dim(&a->k.type, 0), grain_of(sl_dims_tail(&a->k.type.shape, 1) / 2), 0};
}
RUN(kv_append) {
    const sl_kv_append_args *a = args;
    const int64_t n = sl_dims_tail(&a->k.type.shape, 1);
    for (int64_t t = begin; t < end; t++) {
        int64_t row = 0;
        SL_TRY(cache_row(&a->cache_k.type, a->slots.data, a->positions.data, t, &row, worker->err));
        memcpy((float *)a->cache_k.data + row * n, (const float *)a->k.data + t * n,
               (size_t)n * sizeof(float));
        memcpy((float *)a->cache_v.data + row * n, (const float *)a->v.data + t * n,
               (size_t)n * sizeof(float));
    }
    return SL_OK;
}

SPLIT(norm_rope_append) {
    const sl_norm_rope_append_args *a = args;
    return split_norm_rope(&a->k.type, a->attrs.rotary);
}
RUN(norm_rope_append) {
    const sl_norm_rope_append_args *a = args;
    const int64_t heads = dim(&a->k.type, 1), width = dim(&a->k.type, 2), n = heads * width;
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    const sl_rope_attrs rope = {.rotary = a->attrs.rotary, .theta = a->attrs.theta};
    float *normed = (float *)worker->scratch + rope.rotary;
    for (int64_t t = begin; t < end; t++) {
        int64_t row = 0;
        turn r;
        SL_TRY(cache_row(&a->cache_k.type, a->slots.data, a->positions.data, t, &row, worker->err));
        SL_TRY(turn_of(rope, &a->positions, t, worker->scratch, &r, worker->err));
        norm_rope_row(&norm, &r, (const float *)a->k.data + t * n,
                      (float *)a->cache_k.data + row * n, heads, normed);
        memcpy((float *)a->cache_v.data + row * n, (const float *)a->v.data + t * n,
               (size_t)n * sizeof(float));
    }
    return SL_OK;
}

/* ---- sdpa: an item is one query head of one row ---- */

typedef struct {
    const float *query, *keys, *values;
    int64_t count, width, stride; /* cached positions, their width and distance in floats */
    float scale;
} attention;

/* `vectors` vectors of out at column c, the last with n lanes; vectors is constant. */
INLINE void mix_values(const attention *t, const float *weights, float *out, int64_t c,
                       const int vectors, int64_t n) {
    vf acc[4] = {{0}, {0}, {0}, {0}};
    for (int64_t p = 0; p < t->count; p++) {
        const float *value = t->values + p * t->stride + c;
        for (int v = 0; v < vectors; v++)
            acc[v] = vfma(vsplat(weights[p]),
                          vload_n(value + v * LANES, v + 1 < vectors ? LANES : n), acc[v]);
    }
    for (int v = 0; v < vectors; v++)
        vstore_n(out + c + v * LANES, acc[v], v + 1 < vectors ? LANES : n);
}

static void attend(const attention *t, float *scores, float *out) {
    for (int64_t p = 0; p < t->count; p++)
        scores[p] = t->scale * vdot(t->query, t->keys + p * t->stride, t->width);
    const float inverse = 1.0f / vsoftmax_terms(scores, t->count);
    int64_t c = 0;
    for (; c + 4 * LANES <= t->width; c += 4 * LANES) mix_values(t, scores, out, c, 4, LANES);
    for (; c < t->width; c += LANES) mix_values(t, scores, out, c, 1, least(LANES, t->width - c));
    FOR_VECTORS(i, n, t->width, vstore_n(out + i, vload_n(out + i, n) * vsplat(inverse), n););
}

SPLIT(sdpa) {
    const sl_sdpa_args *a = args;
    const int64_t capacity = dim(&a->cache_k.type, 1);
    return (sl_split){dim(&a->q.type, 0) * dim(&a->q.type, 1), 1, (size_t)capacity * sizeof(float)};
}
RUN(sdpa) {
    const sl_sdpa_args *a = args;
    const sl_type *cache = &a->cache_k.type;
    const int64_t query_heads = dim(&a->q.type, 1), heads = dim(cache, 2), width = dim(cache, 3);
    const int32_t *positions = a->positions.data;
    for (int64_t item = begin; item < end; item++) {
        const int64_t t = item / query_heads;
        const int64_t head = item % query_heads / (query_heads / heads);
        int64_t row = 0;
        SL_TRY(cache_row(cache, a->slots.data, positions, t, &row, worker->err));
        const int64_t start = ((row - positions[t]) * heads + head) * width;
        attend(&(attention){.query = (const float *)a->q.data + item * width,
                            .keys = (const float *)a->cache_k.data + start,
                            .values = (const float *)a->cache_v.data + start,
                            .count = (int64_t)positions[t] + 1,
                            .width = width,
                            .stride = heads * width,
                            .scale = a->attrs.scale},
               worker->scratch, (float *)a->out.data + item * width);
    }
    return SL_OK;
}
