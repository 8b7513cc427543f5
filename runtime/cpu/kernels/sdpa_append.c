/* sdpa_append.c - Writing to the KV cache. */
#include "runtime/cpu/kernels/norm_rms.h"
#include "runtime/cpu/kernels/rope.h"
#include "runtime/cpu/kernels/sdpa_cache.h"

/* ---- kv_append: an item is a row ---- */

/* Stores a key or value as 16-bit codes at a position of a head. */
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
    const cache_layout layout = layout_of(&keys->type);
    char *head = (char *)keys->data + head_in(&layout, slot, h);
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
    const cache_layout layout = layout_of(&values->type);
    char *head = (char *)values->data + head_in(&layout, slot, h);
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

/* Checks that row t's position is inside the cache. */
SL_CHECKED static sl_status check_place(const cache_places *places, int32_t position, int64_t t,
                                        sl_error *err) {
    SL_TRY(check_position(places, position, t, err));
    return check_slots(places, t, position, position + (int64_t)1, err);
}

SPLIT(kv_append) {
    const sl_kv_append_args *a = args;
    return (sl_split){dim(&a->k.type, 0), grain_of(sl_dims_tail(&a->k.type.shape, 1)), 0};
}
RUN(kv_append) {
    const sl_kv_append_args *a = args;
    const int64_t heads = dim(&a->k.type, 1);
    const int64_t key_dim = dim(&a->k.type, 2), value_dim = dim(&a->v.type, 2);
    const cache_places places = places_of(&a->slots, &a->cache_v.type);
    const int32_t *positions = a->positions.data;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_place(&places, positions[t], t, worker->err));
        const int64_t slot = slot_at(&places, t, positions[t]);
        const int64_t at = within_slot(&places, positions[t]);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t row = t * heads + h;
            store_key(&a->cache_k, slot, h, at, (const float *)a->k.data + row * key_dim);
            store_value(&a->cache_v, slot, h, at, (const float *)a->v.data + row * value_dim);
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
    const head_turn turn =
        head_turn_of(&a->cos, &a->sin, width, a->attrs.rotary, a->attrs.interleaved);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    const cache_places places = places_of(&a->slots, &a->cache_v.type);
    const int32_t *positions = a->positions.data;
    float *normed = worker->scratch, *turned = normed + width;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_place(&places, positions[t], t, worker->err));
        const int64_t slot = slot_at(&places, t, positions[t]);
        const int64_t at = within_slot(&places, positions[t]);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t row = t * heads + h;
            rms_norm_row(&norm, (const float *)a->k.data + row * width, normed);
            rope_head(&turn, t * turn.columns, normed, turned);
            store_key(&a->cache_k, slot, h, at, turned);
            store_value(&a->cache_v, slot, h, at, (const float *)a->v.data + row * value_dim);
        }
    }
    return SL_OK;
}
