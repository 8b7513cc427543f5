/* sdpa.c - Attention over the key-value cache, a block of positions at a time with a running
 * maximum (online softmax).
 *
 * What is computed for one query is the same whoever computes it, next to whichever other queries:
 * scores are chains over the elements of a key, a lane per position; a block's largest score and
 * sum are known before its values are mixed; a mix is a chain over positions, a lane per element;
 * each SL_SDPA_PART positions are taken alone and joined in order.  All query heads of a cached
 * head go together, so that the cache is read once for them. */
#include "runtime/cpu/kernels/sdpa_codes.h"

/* ---- a few queries and one block of floats ---- */

/* Asks for elements [at, at + count) of a cache, which may lie beyond its end.  Scoring asks for
 * the block's values and mixing for the next block's keys, as many as they read: both are far away
 * when decoding, and values are read by columns, which no hardware foresees. */
INLINE void fetch(const void *cache, int64_t at, const int64_t count, const bool half) {
    const int64_t size = half ? 2 : 4;
    for (int64_t i = 0; i < count * size; i += 64)
        __builtin_prefetch((const char *)cache + at * size + i, 0, FETCH);
}

/* Scores of nq queries with nv vectors of positions from vector v of the block on. */
INLINE void score(const block *b, int64_t v, const int nq, const int nv, const bool half) {
    const int64_t width = b->from->width;
    const float *query = b->to.query;
    int64_t at[CHAINS];
    vf sums[QUERIES][CHAINS];
    for (int i = 0; i < nv; i++) at[i] = sl_kv_key_at(b->position + (v + i) * LANES, width);
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++) sums[q][i] = vzero();
    const int64_t values = (b->position + v * LANES) * width;
    for (int64_t d = 0; d < width; d++) {
        vf key[CHAINS];
        fetch(b->from->values, values + d * nv * LANES, nv * LANES, half);
#pragma GCC unroll 16
        for (int i = 0; i < nv; i++)
            key[i] = cache_load(b->from->keys, at[i] + d * SL_KV_LANES, half);
#pragma GCC unroll 16
        for (int q = 0; q < nq; q++)
#pragma GCC unroll 16
            for (int i = 0; i < nv; i++)
                sums[q][i] = vfma(vsplat(query[q * width + d]), key[i], sums[q][i]);
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            vstore(b->factors + q * BLOCK + (v + i) * LANES, sums[q][i] * vsplat(b->from->scale));
}

/* Adds the block's values to nv vectors of nq mixes from column c on, the last of `lanes` lanes. */
INLINE void mix_values(const block *b, int64_t c, int64_t lanes, const int nq, const int nv,
                       const bool half) {
    const int64_t width = b->from->width, stride = b->to.stride * width;
    float *mix = b->to.mix + c;
    const int64_t keys = (b->position + BLOCK) * width + c * BLOCK;
    vf sums[QUERIES][CHAINS];
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            sums[q][i] = vload_n(mix + q * stride + i * LANES, i + 1 < nv ? LANES : lanes);
    for (int64_t p = 0; p < b->count; p++) {
        const int64_t at = (b->position + p) * width + c;
        vf value[CHAINS];
        fetch(b->from->keys, keys + p * nv * LANES, nv * LANES, half);
#pragma GCC unroll 16
        for (int i = 0; i < nv; i++)
            value[i] =
                cache_load_n(b->from->values, at + i * LANES, i + 1 < nv ? LANES : lanes, half);
#pragma GCC unroll 16
        for (int q = 0; q < nq; q++)
#pragma GCC unroll 16
            for (int i = 0; i < nv; i++)
                sums[q][i] = vfma(vsplat(b->factors[q * BLOCK + p]), value[i], sums[q][i]);
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            vstore_n(mix + q * stride + i * LANES, sums[q][i], i + 1 < nv ? LANES : lanes);
}

/* nq is a power of two. */
INLINE void attend_few(const block *b, const int nq, const bool half) {
    const int64_t width = b->from->width;
    const int nv = CHAINS / nq < 4 ? CHAINS / nq : 4;
    /* Whole groups of SL_KV_LANES positions, for so far the cache reaches. */
    const int64_t vectors = parts_of(b->count, SL_KV_LANES) * (SL_KV_LANES / LANES);
    int64_t v = 0, c = 0;
    for (; v + nv <= vectors; v += nv) score(b, v, nq, nv, half);
    for (; v < vectors; v++) score(b, v, nq, 1, half);
    for (int q = 0; q < nq; q++)
        weigh(b->factors + q * BLOCK, b->count, b->to.taken + q * b->to.stride,
              b->to.mix + q * b->to.stride * width, width);
    for (; c + nv * LANES <= width; c += nv * LANES) mix_values(b, c, LANES, nq, nv, half);
    for (; c < width; c += LANES) mix_values(b, c, least(LANES, width - c), nq, 1, half);
}

INLINE void attend_few_as(const block *b, const int nq) {
    if (b->from->dtype == SL_DTYPE_k16)
        attend_few_codes(b, nq);
    else if (b->from->dtype == SL_DTYPE_f16)
        attend_few(b, nq, true);
    else
        attend_few(b, nq, false);
}

static void attend_few_of(const block *b, int64_t nq) {
    switch (nq) {
#if defined(__AVX512F__)
    case 8:
        attend_few_as(b, 8);
        return;
#endif
    case 4:
        attend_few_as(b, 4);
        return;
    case 2:
        attend_few_as(b, 2);
        return;
    default:
        attend_few_as(b, 1);
    }
}

/* All queries of a row against positions [first, end), within a block. */
static void attend_block(const source *from, const queries *to, int64_t first, int64_t end,
                         float *factors) {
    int64_t nq = QUERIES;
    for (int64_t q = 0; q < to->count; q += nq) {
        while (nq > to->count - q) nq /= 2;
        queries few = *to;
        few.query += q * from->width;
        few.taken += q * to->stride;
        few.mix += q * to->stride * from->width;
        few.count = nq;
        if (to->words) few.words += q * sl_kv_pairs(from->width), few.scales += q;
        const block b = {from, few, first, end - first, factors};
        attend_few_of(&b, nq);
    }
}

static void start(const queries *g, int64_t width, running taken) {
    for (int64_t q = 0; q < g->count; q++) {
        g->taken[q * g->stride] = taken;
        memset(g->mix + q * g->stride * width, 0, (size_t)width * sizeof(float));
    }
}

/* ---- parts ---- */

/* Adds a part that is not empty to what earlier parts gave.  Never inlined, as weigh. */
static __attribute__((noinline)) void join(running *all, float *mix, running part,
                                           const float *part_mix, int64_t width) {
    if (all->sum == 0) {
        *all = part;
        memcpy(mix, part_mix, (size_t)width * sizeof *mix);
        return;
    }
    const vf largest = vsplat(part.largest > all->largest ? part.largest : all->largest);
    const vf old = vexp(vsplat(all->largest) - largest), new = vexp(vsplat(part.largest) - largest);
    FOR_VECTORS(i, lanes, width,
                vstore_n(mix + i,
                         vfma(vload_n(mix + i, lanes), old, vload_n(part_mix + i, lanes) * new),
                         lanes););
    *all = (running){largest[0], all->sum * old[0] + part.sum * new[0]};
}

static __attribute__((noinline)) void divide(float *mix, float sum, int64_t width) {
    const vf inverse = vsplat(1.0f / sum);
    FOR_VECTORS(i, lanes, width, vstore_n(mix + i, vload_n(mix + i, lanes) * inverse, lanes););
}

/* ---- sdpa: an item is a cached head and some rows, the last rows first: they take longest ---- */

typedef struct {
    int64_t rows, ratio, tile_rows, tiles, heads, width;
} tiling;

static tiling tiling_of(const sl_type *q, const sl_type *values) {
    const int64_t heads = dim(values, 1), ratio = dim(q, 1) / heads;
    const int64_t tile_rows = ratio < TILE_QUERIES ? TILE_QUERIES / ratio : 1;
    return (tiling){.rows = dim(q, 0),
                    .ratio = ratio,
                    .tile_rows = tile_rows,
                    .tiles = parts_of(dim(q, 0), tile_rows),
                    .heads = heads,
                    .width = dim(q, 2)};
}

/* Scratch of an item, by query of the tile. */
typedef struct {
    float *factors;      /* [QUERIES, BLOCK] */
    float *mix;          /* [queries, width]: of the part at hand */
    running *part, *all; /* [queries] */
    float *scales;       /* [queries], where keys are codes: */
    int32_t *words;      /* [queries, pairs of codes] */
} room;

static room room_in(void *scratch, const tiling *t) {
    room r = {.factors = scratch};
    r.mix = r.factors + QUERIES * BLOCK;
    r.part = (running *)(void *)(r.mix + t->tile_rows * t->ratio * t->width);
    r.all = r.part + t->tile_rows * t->ratio;
    r.scales = (float *)(void *)(r.all + t->tile_rows * t->ratio);
    r.words = (int32_t *)(void *)(r.scales + t->tile_rows * t->ratio);
    return r;
}

SPLIT(sdpa) {
    const sl_sdpa_args *a = args;
    const tiling t = tiling_of(&a->q.type, &a->cache_v.type);
    const size_t each = (size_t)t.width * sizeof(float) + 2 * sizeof(running) +
                        coded_query_bytes(&a->cache_k.type, t.width);
    return (sl_split){t.tiles * t.heads, 1,
                      QUERIES * BLOCK * sizeof(float) + (size_t)(t.tile_rows * t.ratio) * each};
}

static source source_of(const sl_cview *keys, const sl_cview *values, int64_t slot, int64_t head,
                        float scale) {
    const int64_t at = cache_head(&values->type, slot, head);
    return (source){.keys = (const char *)keys->data + at,
                    .values = (const char *)values->data + at,
                    .width = dim(&values->type, 3),
                    .scale = scale,
                    .dtype = keys->type.dtype};
}

/* Rows [first, end) of one tile and one cached head. */
typedef struct {
    const sl_sdpa_args *args;
    tiling t;
    room room;
    int64_t first, end, head;
} item;

static queries queries_of(const item *it, int64_t row) {
    const int64_t at = (row - it->first) * it->t.ratio;
    const int64_t query = row * it->t.heads * it->t.ratio + it->head * it->t.ratio;
    const bool coded = it->args->cache_k.type.dtype == SL_DTYPE_k16;
    return (queries){.query = (const float *)it->args->q.data + query * it->t.width,
                     .words = coded ? it->room.words + at * sl_kv_pairs(it->t.width) : NULL,
                     .scales = coded ? it->room.scales + at : NULL,
                     .taken = it->room.part + at,
                     .mix = it->room.mix + at * it->t.width,
                     .count = it->t.ratio,
                     .stride = 1};
}

static float *result_of(const item *it, int64_t row, int64_t q) {
    const int64_t query = (row * it->t.heads + it->head) * it->t.ratio + q;
    return (float *)it->args->out.data + query * it->t.width;
}

/* The part of the positions that starts at `part`, block by block for all rows that reach it. */
static void attend_part(const item *it, int64_t part, int64_t most) {
    const sl_sdpa_args *a = it->args;
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    const int64_t part_end = least(part + SL_SDPA_PART, most);
    for (int64_t at = part; at < part_end; at += BLOCK)
        for (int64_t row = it->first; row < it->end; row++) {
            const int64_t count = positions[row] + (int64_t)1;
            if (at >= count) continue;
            const queries g = queries_of(it, row);
            if (at == part) start(&g, it->t.width, nothing);
            const source from =
                source_of(&a->cache_k, &a->cache_v, slots[row], it->head, a->attrs.scale);
            attend_block(&from, &g, at, least(at + BLOCK, count), it->room.factors);
        }
    for (int64_t row = it->first; row < it->end; row++) {
        if (part > positions[row]) continue;
        const queries g = queries_of(it, row);
        running *all = it->room.all + (row - it->first) * it->t.ratio;
        for (int64_t q = 0; q < g.count; q++)
            join(&all[q], result_of(it, row, q), g.taken[q], g.mix + q * it->t.width, it->t.width);
    }
}

/* Codes of all queries. */
static void code_tile(const item *it) {
    for (int64_t row = it->first; row < it->end; row++) {
        const int64_t at = (row - it->first) * it->t.ratio;
        const queries g = queries_of(it, row);
        code_queries(g.query, g.count, it->t.width, it->args->attrs.scale,
                     it->room.words + at * sl_kv_pairs(it->t.width), it->room.scales + at);
    }
}

SL_CHECKED static sl_status attend_item(const item *it, sl_error *err) {
    const sl_sdpa_args *a = it->args;
    const int32_t *positions = a->positions.data;
    const int64_t count = (it->end - it->first) * it->t.ratio;
    int64_t most = 0;
    for (int64_t row = it->first; row < it->end; row++) {
        SL_TRY(check_place(&a->cache_v.type, a->slots.data, positions, row, err));
        if (positions[row] >= most) most = positions[row] + (int64_t)1;
    }
    for (int64_t q = 0; q < count; q++) it->room.all[q] = nothing;
    if (a->cache_k.type.dtype == SL_DTYPE_k16) code_tile(it);
    for (int64_t part = 0; part < most; part += SL_SDPA_PART) attend_part(it, part, most);
    for (int64_t q = 0; q < count; q++)
        divide(result_of(it, it->first + q / it->t.ratio, q % it->t.ratio), it->room.all[q].sum,
               it->t.width);
    return SL_OK;
}

RUN(sdpa) {
    const sl_sdpa_args *a = args;
    item it = {.args = a, .t = tiling_of(&a->q.type, &a->cache_v.type)};
    it.room = room_in(worker->scratch, &it.t);
    for (int64_t i = begin; i < end; i++) {
        it.first = (it.t.tiles - 1 - i / it.t.heads) * it.t.tile_rows;
        it.end = least(it.first + it.t.tile_rows, it.t.rows);
        it.head = i % it.t.heads;
        SL_TRY(attend_item(&it, worker->err));
    }
    return SL_OK;
}

/* ---- sdpa_parts: an item is a part of the positions of a cached head and a row ---- */

/* Parts are dealt out in reversed order of their bits, so that any run of items has its share of
 * those that are not empty: the first ones. */
static int64_t part_slots(int64_t parts) {
    int64_t slots = 1;
    while (slots < parts) slots *= 2;
    return slots;
}
static int64_t part_in(int64_t slot, int64_t slots) {
    int64_t part = 0;
    for (int64_t bit = 1; bit < slots; bit *= 2, slot /= 2) part = part * 2 + slot % 2;
    return part;
}

SPLIT(sdpa_parts) {
    const sl_sdpa_parts_args *a = args;
    const int64_t slots = part_slots(dim(&a->mixes.type, 2));
    const int64_t ratio = dim(&a->q.type, 1) / dim(&a->cache_v.type, 1);
    return (sl_split){dim(&a->q.type, 0) * dim(&a->cache_v.type, 1) * slots, 1,
                      QUERIES * BLOCK * sizeof(float) +
                          (size_t)ratio * coded_query_bytes(&a->cache_k.type, dim(&a->q.type, 2))};
}

static void take_part(const sl_sdpa_parts_args *a, int64_t row, int64_t head, int64_t part,
                      float *factors) {
    const int64_t heads = dim(&a->cache_v.type, 1), ratio = dim(&a->q.type, 1) / heads;
    const int64_t width = dim(&a->q.type, 2), parts = dim(&a->mixes.type, 2);
    const int64_t query = (row * heads + head) * ratio;
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    const int64_t first = part * SL_SDPA_PART;
    const int64_t end = least(first + SL_SDPA_PART, positions[row] + (int64_t)1);
    const bool coded = a->cache_k.type.dtype == SL_DTYPE_k16;
    float *scales = factors + QUERIES * BLOCK;
    int32_t *words = (int32_t *)(void *)(scales + ratio);
    const queries g = {.query = (const float *)a->q.data + query * width,
                       .words = coded ? words : NULL,
                       .scales = coded ? scales : NULL,
                       .taken = (running *)a->weights.data + query * parts + part,
                       .mix = (float *)a->mixes.data + (query * parts + part) * width,
                       .count = ratio,
                       .stride = parts};
    const source from = source_of(&a->cache_k, &a->cache_v, slots[row], head, a->attrs.scale);
    start(&g, width, first < end ? nothing : (running){0, 0});
    if (coded && first < end) {
        fetch_values(&from, first);
        code_queries(g.query, ratio, width, from.scale, words, scales);
    }
    for (int64_t at = first; at < end; at += BLOCK)
        attend_block(&from, &g, at, least(at + BLOCK, end), factors);
}

RUN(sdpa_parts) {
    const sl_sdpa_parts_args *a = args;
    const int64_t heads = dim(&a->cache_v.type, 1), parts = dim(&a->mixes.type, 2);
    const int64_t slots = part_slots(parts);
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / slots / heads, part = part_in(i % slots, slots);
        if (part >= parts) continue;
        SL_TRY(check_place(&a->cache_v.type, a->slots.data, a->positions.data, row, worker->err));
        take_part(a, row, i / slots % heads, part, worker->scratch);
    }
    return SL_OK;
}

/* ---- sdpa_merge: an item is a query ---- */

SPLIT(sdpa_merge) {
    const sl_sdpa_merge_args *a = args;
    return (sl_split){dim(&a->mixes.type, 0) * dim(&a->mixes.type, 1),
                      grain_of(sl_dims_tail(&a->mixes.type.shape, 2)), 0};
}
RUN(sdpa_merge) {
    const sl_sdpa_merge_args *a = args;
    const int64_t parts = dim(&a->mixes.type, 2), width = dim(&a->mixes.type, 3);
    for (int64_t i = begin; i < end; i++) {
        const running *part = (const running *)a->weights.data + i * parts;
        const float *mixes = (const float *)a->mixes.data + i * parts * width;
        float *out = (float *)a->out.data + i * width;
        running all = nothing;
        memset(out, 0, (size_t)width * sizeof *out);
        for (int64_t p = 0; p < parts; p++)
            if (part[p].sum != 0) join(&all, out, part[p], mixes + p * width, width);
        divide(out, all.sum, width);
    }
    return SL_OK;
}
