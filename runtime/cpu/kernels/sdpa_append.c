/* sdpa_append.c - RoPE, and writing to the KV cache. */
#include "core/rope.h"
#include "runtime/cpu/kernels/norm.h"
#include "runtime/cpu/kernels/sdpa_cache.h"

/* ---- rope_table: an item is a row ---- */

SPLIT(rope_table) {
    const sl_rope_table_args *a = args;
    return (sl_split){dim(&a->positions.type, 0), grain_of(a->attrs.rotary * (int64_t)64),
                      a->attrs.rotary / 2 * sizeof(double)};
}
RUN(rope_table) {
    const sl_rope_table_args *a = args;
    const sl_rope_form form = sl_rope_form_of(&a->attrs);
    const int64_t rotary = form.rotary, half = rotary / 2;
    double *frequencies = worker->scratch;
    for (int64_t j = 0; j < half; j++) frequencies[j] = sl_rope_frequency(&form, j);
    for (int64_t t = begin; t < end; t++) {
        const int32_t position = ((const int32_t *)a->positions.data)[t];
        float *row = (float *)a->out.data + t * rotary;
        SL_TRY(check_index(position, INT32_MAX, "rope_table: position", t, worker->err));
        for (int64_t j = 0; j < half; j++) {
            row[j] = (float)(form.magnitude * cos((double)position * frequencies[j]));
            row[j + half] = (float)(form.magnitude * sin((double)position * frequencies[j]));
        }
    }
    return SL_OK;
}

/* ---- rope: an item is a row (token) ---- */

/* How heads of a width are turned. */
typedef struct {
    const sl_cview *table;
    int64_t rotary, width;
    bool interleaved;
} turning;

static turning turning_of(const sl_cview *table, int64_t width, uint32_t interleaved) {
    return (turning){table, dim(&table->type, 1), width, interleaved != 0};
}

/* Pairs (j, j + half). */
INLINE void rotate_halves(const float *cosines, int64_t half, const float *x, float *out) {
    const float *sines = cosines + half;
    FOR_VECTORS(j, n, half, {
        const vf first = vload_n(x + j, n), second = vload_n(x + j + half, n);
        const vf cosine = vload_n(cosines + j, n), sine = vload_n(sines + j, n);
        vstore_n(out + j, first * cosine - second * sine, n);
        vstore_n(out + j + half, second * cosine + first * sine, n);
    });
}
/* Pairs (2j, 2j + 1). */
INLINE void rotate_neighbours(const float *cosines, int64_t half, const float *x, float *out) {
    const float *sines = cosines + half;
    for (int64_t j = 0; j < half; j++) {
        const float first = x[2 * j], second = x[2 * j + 1];
        out[2 * j] = first * cosines[j] - second * sines[j];
        out[2 * j + 1] = second * cosines[j] + first * sines[j];
    }
}

/* One head of row t.  Never inlined: the compiler is free to fuse either product with the
 * difference, and must choose alike for every kernel that rotates. */
static __attribute__((noinline)) void rotate(const turning *how, int64_t t, const float *x,
                                             float *out) {
    const float *cosines = (const float *)how->table->data + t * how->rotary;
    const int64_t half = how->rotary / 2;
    if (how->interleaved)
        rotate_neighbours(cosines, half, x, out);
    else
        rotate_halves(cosines, half, x, out);
    memcpy(out + how->rotary, x + how->rotary, (size_t)(how->width - how->rotary) * sizeof *out);
}

SPLIT(rope) {
    const sl_rope_args *a = args;
    return (sl_split){dim(&a->x.type, 0), grain_of(sl_dims_tail(&a->x.type.shape, 1)), 0};
}
RUN(rope) {
    const sl_rope_args *a = args;
    const int64_t heads = dim(&a->x.type, 1), width = dim(&a->x.type, 2);
    const turning how = turning_of(&a->table, width, a->attrs.interleaved);
    for (int64_t i = begin * heads; i < end * heads; i++)
        rotate(&how, i / heads, (const float *)a->x.data + i * width,
               (float *)a->out.data + i * width);
    return SL_OK;
}

/* ---- norm and rope: an item is a row ---- */

SPLIT(norm_rope) {
    const sl_norm_rope_args *a = args;
    return (sl_split){dim(&a->x.type, 0), grain_of(2 * sl_dims_tail(&a->x.type.shape, 1)),
                      (size_t)dim(&a->x.type, 2) * sizeof(float)};
}
RUN(norm_rope) {
    const sl_norm_rope_args *a = args;
    const int64_t heads = dim(&a->x.type, 1), width = dim(&a->x.type, 2);
    const turning how = turning_of(&a->table, width, a->attrs.interleaved);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    float *normed = worker->scratch; /* rounded here before it is rotated */
    for (int64_t i = begin * heads; i < end * heads; i++) {
        rms_norm_row(&norm, (const float *)a->x.data + i * width, normed);
        rotate(&how, i / heads, normed, (float *)a->out.data + i * width);
    }
    return SL_OK;
}

/* ---- kv_append: an item is a row ---- */

/* Keys or values as 16-bit codes, at a position of a head. */
static void store_codes(const sl_view *cache, char *head, int64_t position, const float *x) {
    const bool keys = cache->type.dtype == SL_DTYPE_k16;
    const int64_t width = dim(&cache->type, 3);
    char *block = head + position / SL_KV_LANES * sl_kv_block_bytes(width);
    int16_t *codes = (int16_t *)(void *)(block + SL_KV_SCALES_BYTES);
    const coding16 c = coding16_of(x, width, keys);
    ((float *)(void *)block)[position % SL_KV_LANES] = c.scale;
    codes += keys ? sl_k16_at(position) : sl_v16_at(position, width);
    const int64_t pair = keys ? SL_KV_LANES * 2 : 4, other = keys ? 1 : 2;
    FOR_VECTORS(d, n, width, {
        const vi some = codes16_of(vload_n(x + d, n), c);
        for (int64_t i = 0; i < n; i++)
            codes[(d + i) / 2 * pair + (d + i) % 2 * other] = (int16_t)some[i];
    });
    if (keys && width % 2) codes[width / 2 * pair + 1] = 0;
}

/* One head of one row. */
static void store_key(const sl_view *keys, int64_t slot, int64_t h, int64_t position,
                      const float *key) {
    const int64_t width = dim(&keys->type, 3), at = sl_kv_key_at(position, width);
    char *head = (char *)keys->data + cache_head(&keys->type, slot, h);
    if (keys->type.dtype == SL_DTYPE_k16) {
        store_codes(keys, head, position, key);
        return;
    }
    if (keys->type.dtype == SL_DTYPE_f32) {
        float *to = (float *)(void *)head + at;
        for (int64_t d = 0; d < width; d++) to[d * SL_KV_LANES] = key[d];
        return;
    }
    uint16_t *to = (uint16_t *)(void *)head + at;
    FOR_VECTORS(d, n, width, {
        uint16_t halves[LANES];
        halves_of(vload_n(key + d, n), halves);
        for (int64_t i = 0; i < n; i++) to[(d + i) * SL_KV_LANES] = halves[i];
    });
}

static void store_value(const sl_view *values, int64_t slot, int64_t h, int64_t position,
                        const float *value) {
    const int64_t width = dim(&values->type, 3), at = position * width;
    char *head = (char *)values->data + cache_head(&values->type, slot, h);
    if (values->type.dtype == SL_DTYPE_v16) {
        store_codes(values, head, position, value);
        return;
    }
    if (values->type.dtype == SL_DTYPE_f32) {
        memcpy((float *)(void *)head + at, value, (size_t)width * sizeof *value);
        return;
    }
    uint16_t *to = (uint16_t *)(void *)head + at;
    FOR_VECTORS(d, n, width, {
        uint16_t halves[LANES];
        halves_of(vload_n(value + d, n), halves);
        memcpy(to + d, halves, (size_t)n * sizeof halves[0]);
    });
}

SPLIT(kv_append) {
    const sl_kv_append_args *a = args;
    return (sl_split){dim(&a->k.type, 0), grain_of(sl_dims_tail(&a->k.type.shape, 1)), 0};
}
RUN(kv_append) {
    const sl_kv_append_args *a = args;
    const int64_t heads = dim(&a->k.type, 1);
    const int64_t key_dim = dim(&a->k.type, 2), value_dim = dim(&a->v.type, 2);
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_place(&a->cache_v.type, slots, positions, t, worker->err));
        for (int64_t h = 0; h < heads; h++) {
            const int64_t row = t * heads + h;
            store_key(&a->cache_k, slots[t], h, positions[t],
                      (const float *)a->k.data + row * key_dim);
            store_value(&a->cache_v, slots[t], h, positions[t],
                        (const float *)a->v.data + row * value_dim);
        }
    }
    return SL_OK;
}

SPLIT(norm_rope_append) {
    const sl_norm_rope_append_args *a = args;
    return (sl_split){dim(&a->k.type, 0), grain_of(3 * sl_dims_tail(&a->k.type.shape, 1)),
                      2 * (size_t)dim(&a->k.type, 2) * sizeof(float)};
}
RUN(norm_rope_append) {
    const sl_norm_rope_append_args *a = args;
    const int64_t heads = dim(&a->k.type, 1), width = dim(&a->k.type, 2);
    const int64_t value_dim = dim(&a->v.type, 2);
    const turning how = turning_of(&a->table, width, a->attrs.interleaved);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    float *normed = worker->scratch, *turned = normed + width;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_place(&a->cache_v.type, slots, positions, t, worker->err));
        for (int64_t h = 0; h < heads; h++) {
            const int64_t row = t * heads + h;
            rms_norm_row(&norm, (const float *)a->k.data + row * width, normed);
            rotate(&how, t, normed, turned);
            store_key(&a->cache_k, slots[t], h, positions[t], turned);
            store_value(&a->cache_v, slots[t], h, positions[t],
                        (const float *)a->v.data + row * value_dim);
        }
    }
    return SL_OK;
}
