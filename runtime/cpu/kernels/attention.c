/* attention.c - Rotary positions, and what enters the key-value cache. */
#include "runtime/cpu/kernels/cache.h"
#include "runtime/cpu/kernels/norm.h"

/* ---- rope_table: an item is a row.  In double: a position of 2^17 turns by as many radians, and
 * a float would know its angle to a hundredth. ---- */

SPLIT(rope_table) {
    const sl_rope_table_args *a = args;
    return (sl_split){dim(&a->positions.type, 0), grain_of(a->attrs.rotary * (int64_t)64),
                      a->attrs.rotary / 2 * sizeof(double)};
}
RUN(rope_table) {
    const sl_rope_table_args *a = args;
    const int64_t rotary = a->attrs.rotary, half = rotary / 2;
    double *frequencies = worker->scratch;
    for (int64_t j = 0; j < half; j++)
        frequencies[j] = pow((double)a->attrs.theta, -2.0 * (double)j / (double)rotary);
    for (int64_t t = begin; t < end; t++) {
        const int32_t position = ((const int32_t *)a->positions.data)[t];
        float *row = (float *)a->out.data + t * rotary;
        SL_TRY(check_index(position, INT32_MAX, "rope_table: position", t, worker->err));
        for (int64_t j = 0; j < half; j++) {
            row[j] = (float)cos((double)position * frequencies[j]);
            row[j + half] = (float)sin((double)position * frequencies[j]);
        }
    }
    return SL_OK;
}

/* ---- rope: an item is a row (token) ---- */

/* One head, by a row of the table.  Never inlined: the compiler is free to fuse either product with
 * the difference, and must choose alike for every kernel that rotates. */
static __attribute__((noinline)) void rotate(const float *cosines, int64_t half, const float *x,
                                             float *out, int64_t width) {
    const float *sines = cosines + half;
    FOR_VECTORS(j, n, half, {
        const vf first = vload_n(x + j, n), second = vload_n(x + j + half, n);
        const vf cosine = vload_n(cosines + j, n), sine = vload_n(sines + j, n);
        vstore_n(out + j, first * cosine - second * sine, n);
        vstore_n(out + j + half, second * cosine + first * sine, n);
    });
    memcpy(out + 2 * half, x + 2 * half, (size_t)(width - 2 * half) * sizeof *out);
}

SPLIT(rope) {
    const sl_rope_args *a = args;
    return (sl_split){dim(&a->x.type, 0), grain_of(sl_dims_tail(&a->x.type.shape, 1)), 0};
}
RUN(rope) {
    const sl_rope_args *a = args;
    const int64_t heads = dim(&a->x.type, 1), width = dim(&a->x.type, 2);
    const int64_t rotary = dim(&a->table.type, 1);
    for (int64_t i = begin * heads; i < end * heads; i++)
        rotate((const float *)a->table.data + i / heads * rotary, rotary / 2,
               (const float *)a->x.data + i * width, (float *)a->out.data + i * width, width);
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
    const int64_t rotary = dim(&a->table.type, 1);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    float *normed = worker->scratch; /* rounded here before it is rotated */
    for (int64_t i = begin * heads; i < end * heads; i++) {
        rms_norm_row(&norm, (const float *)a->x.data + i * width, normed);
        rotate((const float *)a->table.data + i / heads * rotary, rotary / 2, normed,
               (float *)a->out.data + i * width, width);
    }
    return SL_OK;
}

/* ---- kv_append: an item is a row ---- */

/* One head of one row, at a position of the cache's head that starts at byte `head`. */
static void store_key(const sl_view *keys, int64_t head, int64_t position, const float *key) {
    const int64_t width = dim(&keys->type, 3), at = sl_kv_key_at(position, width);
    if (keys->type.dtype == SL_DTYPE_f32) {
        float *to = (float *)(void *)((char *)keys->data + head) + at;
        for (int64_t d = 0; d < width; d++) to[d * SL_KV_LANES] = key[d];
        return;
    }
    uint16_t *to = (uint16_t *)(void *)((char *)keys->data + head) + at;
    FOR_VECTORS(d, n, width, {
        uint16_t halves[LANES];
        halves_of(vload_n(key + d, n), halves);
        for (int64_t i = 0; i < n; i++) to[(d + i) * SL_KV_LANES] = halves[i];
    });
}

static void store_value(const sl_view *values, int64_t head, int64_t position, const float *value) {
    const int64_t width = dim(&values->type, 3), at = position * width;
    if (values->type.dtype == SL_DTYPE_f32) {
        float *to = (float *)(void *)((char *)values->data + head) + at;
        memcpy(to, value, (size_t)width * sizeof *value);
        return;
    }
    uint16_t *to = (uint16_t *)(void *)((char *)values->data + head) + at;
    FOR_VECTORS(d, n, width, {
        uint16_t halves[LANES];
        halves_of(vload_n(value + d, n), halves);
        memcpy(to + d, halves, (size_t)n * sizeof halves[0]);
    });
}

/* The same for codes, of keys and of values. */
static void store_codes(const sl_view *cache, int64_t head, int64_t position, const float *x) {
    const bool keys = cache->type.dtype == SL_DTYPE_k16;
    const int64_t width = dim(&cache->type, 3);
    char *block = (char *)cache->data + head + position / SL_KV_LANES * sl_kv_block_bytes(width);
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

/* A key and a value at a position of the head that starts at byte `head` of both caches. */
static void store_row(const sl_view *keys, const sl_view *values, int64_t head, int64_t position,
                      const float *key, const float *value) {
    const bool coded = keys->type.dtype == SL_DTYPE_k16;
    (coded ? store_codes : store_key)(keys, head, position, key);
    (coded ? store_codes : store_value)(values, head, position, value);
}

SPLIT(kv_append) {
    const sl_kv_append_args *a = args;
    return (sl_split){dim(&a->k.type, 0), grain_of(sl_dims_tail(&a->k.type.shape, 1)), 0};
}
RUN(kv_append) {
    const sl_kv_append_args *a = args;
    const int64_t heads = dim(&a->k.type, 1), width = dim(&a->k.type, 2);
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_place(&a->cache_v.type, slots, positions, t, worker->err));
        for (int64_t h = 0; h < heads; h++) {
            const int64_t from = (t * heads + h) * width;
            const int64_t head = cache_head(&a->cache_v.type, slots[t], h);
            store_row(&a->cache_k, &a->cache_v, head, positions[t], (const float *)a->k.data + from,
                      (const float *)a->v.data + from);
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
    const int64_t rotary = dim(&a->table.type, 1);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    float *normed = worker->scratch, *turned = normed + width;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_place(&a->cache_v.type, slots, positions, t, worker->err));
        for (int64_t h = 0; h < heads; h++) {
            const int64_t from = (t * heads + h) * width;
            const int64_t head = cache_head(&a->cache_v.type, slots[t], h);
            rms_norm_row(&norm, (const float *)a->k.data + from, normed);
            rotate((const float *)a->table.data + t * rotary, rotary / 2, normed, turned, width);
            store_row(&a->cache_k, &a->cache_v, head, positions[t], turned,
                      (const float *)a->v.data + from);
        }
    }
    return SL_OK;
}
