/* sdpa.c - Attention over the KV cache, a block of positions at a time with online softmax.
 *
 * The result of a query does not depend on which thread computes it or on the other queries of a
 * tile: a score is accumulated over the elements of a key in order (a lane is a position); a
 * block's maximum and sum are computed before its values are added; a mix (the weighted sum of
 * values) is accumulated over positions in order (a lane is an element); and each SL_SDPA_PART
 * positions are computed separately and merged in order.  All query heads that share a KV head are
 * computed together, so that the cache is read once for them, unless there are very many. */
#include "runtime/cpu/kernels/sdpa_codes.h"

/* ---- a few queries and one block, f32 or f16 cache ---- */

/* Prefetches elements [at, at + count) of a cache, possibly beyond its end.  Scoring prefetches the
 * block's values and mixing the next block's keys, at the rate at which they read: in decoding both
 * come from memory, and values are read by columns, which the hardware prefetcher does not
 * detect. */
INLINE void fetch(const void *cache, int64_t at, const int64_t count, const bool half) {
    const int64_t size = half ? 2 : 4;
    for (int64_t i = 0; i < count * size; i += 64)
        __builtin_prefetch((const char *)cache + at * size + i, 0, FETCH);
}

/* Scores of nq queries with nv vectors of positions, from vector v of the block on. */
INLINE void score(const block *b, int64_t v, const int nq, const int nv, const bool half) {
    const int64_t dim = b->from->key_dim;
    const float *query = b->to.query;
    int64_t at[CHAINS];
    vf sums[QUERIES][CHAINS];
    for (int i = 0; i < nv; i++) at[i] = sl_kv_key_at(b->position + (v + i) * LANES, dim);
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++) sums[q][i] = vzero();
    const int64_t values = (b->position + v * LANES) * b->from->value_dim;
    for (int64_t d = 0; d < dim; d++) {
        vf key[CHAINS];
        fetch(b->from->values, values + d * nv * LANES, nv * LANES, half);
        UNROLL(16)
        for (int i = 0; i < nv; i++)
            key[i] = cache_load(b->from->keys, at[i] + d * SL_KV_LANES, half);
        UNROLL(16)
        for (int q = 0; q < nq; q++) {
            UNROLL(16)
            for (int i = 0; i < nv; i++)
                sums[q][i] = vfma(vsplat(query[q * dim + d]), key[i], sums[q][i]);
        }
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            vstore(b->factors + q * BLOCK + (v + i) * LANES, sums[q][i] * vsplat(b->from->scale));
}

/* Adds the block's weighted values to nv vectors of nq mixes from column c on; the last vector has
 * `lanes` lanes. */
INLINE void mix_values(const block *b, int64_t c, int64_t lanes, const int nq, const int nv,
                       const bool half) {
    const int64_t width = b->from->value_dim, stride = b->to.stride * width;
    float *mix = b->to.mix + c;
    const char *next_keys = (const char *)b->from->keys + b->from->next_keys;
    const int64_t keys = b->position * b->from->key_dim + c * BLOCK;
    vf sums[QUERIES][CHAINS];
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            sums[q][i] = vload_n(mix + q * stride + i * LANES, i + 1 < nv ? LANES : lanes);
    for (int64_t p = b->skip; p < b->count; p++) {
        const int64_t at = (b->position + p) * width + c;
        vf value[CHAINS];
        fetch(next_keys, keys + p * nv * LANES, nv * LANES, half);
        UNROLL(16)
        for (int i = 0; i < nv; i++)
            value[i] =
                cache_load_n(b->from->values, at + i * LANES, i + 1 < nv ? LANES : lanes, half);
        UNROLL(16)
        for (int q = 0; q < nq; q++) {
            UNROLL(16)
            for (int i = 0; i < nv; i++)
                sums[q][i] = vfma(vsplat(b->factors[q * BLOCK + p]), value[i], sums[q][i]);
        }
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            vstore_n(mix + q * stride + i * LANES, sums[q][i], i + 1 < nv ? LANES : lanes);
}

/* One block for nq queries, a power of two. */
INLINE void attend_few(const block *b, const int nq, const bool half) {
    const int64_t width = b->from->value_dim;
    const int nv = CHAINS / nq < 4 ? CHAINS / nq : 4;
    /* The cache is allocated in whole groups of SL_KV_LANES positions, so reading them is safe. */
    const int64_t vectors = parts_of(b->count, SL_KV_LANES) * (SL_KV_LANES / LANES);
    int64_t v = 0, c = 0;
    for (; v + nv <= vectors; v += nv) score(b, v, nq, nv, half);
    for (; v < vectors; v++) score(b, v, nq, 1, half);
    for (int q = 0; q < nq; q++) {
        float *scores = b->factors + q * BLOCK + b->skip;
        if (b->from->softcap > 0) cap(scores, b->count - b->skip, b->from->softcap);
        weigh(scores, b->count - b->skip, b->to.taken + q * b->to.stride,
              b->to.mix + q * b->to.stride * width, width);
    }
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

/* All queries of a row with positions [first, end) of one block. */
static void attend_block(const source *from, const queries *to, int64_t first, int64_t end,
                         float *factors) {
    const int64_t skip = first % SL_KV_LANES, position = first - skip;
    int64_t nq = QUERIES;
    for (int64_t q = 0; q < to->count; q += nq) {
        while (nq > to->count - q) nq /= 2;
        queries few = *to;
        few.query += q * from->key_dim;
        few.taken += q * to->stride;
        few.mix += q * to->stride * from->value_dim;
        few.count = nq;
        if (to->words) few.words += q * sl_kv_pairs(from->key_dim), few.scales += q;
        const block b = {from, few, position, end - position, skip, factors};
        attend_few_of(&b, nq);
    }
}

static void start(const queries *g, int64_t width, running taken) {
    for (int64_t q = 0; q < g->count; q++) {
        g->taken[q * g->stride] = taken;
        memset(g->mix + q * g->stride * width, 0, (size_t)width * sizeof(float));
    }
}

/* ---- merging parts ---- */

/* Merges a nonempty part into the result of earlier parts.  Not inlined, like weigh. */
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

/* Divides a mix by its softmax sum, to which an attention sink adds its own term. */
static __attribute__((noinline)) void finish(float *mix, running all, const float *sink,
                                             int64_t width) {
    float factor = 1.0f / all.sum;
    if (sink) {
        const vf largest = vsplat(*sink > all.largest ? *sink : all.largest);
        const float keep = vexp(vsplat(all.largest) - largest)[0];
        factor = keep / (all.sum * keep + vexp(vsplat(*sink) - largest)[0]);
    }
    const vf by = vsplat(factor);
    FOR_VECTORS(i, lanes, width, vstore_n(mix + i, vload_n(mix + i, lanes) * by, lanes););
}

/* ---- operands shared by all ops over the cache ---- */

typedef struct {
    const sl_cview *q, *keys, *values;
    cache_places places;
    cache_layout key_layout, value_layout;
    const int32_t *positions;
    float scale, softcap;
    int64_t window;
    const float *sinks; /* NULL: none */
    float *out;
} call;

/* The ops name these operands alike. */
#define CALL_OF(A, SINKS, OUT)                                                                     \
    {                                                                                              \
        .q = &(A)->q, .keys = &(A)->cache_k, .values = &(A)->cache_v,                              \
        .places = places_of(&(A)->slots, &(A)->cache_v.type),                                      \
        .key_layout = layout_of(&(A)->cache_k.type),                                               \
        .value_layout = layout_of(&(A)->cache_v.type), .positions = (A)->positions.data,           \
        .scale = (A)->attrs.scale, .softcap = (A)->attrs.softcap, .window = (A)->attrs.window,     \
        .sinks = (SINKS), .out = (OUT)                                                             \
    }

typedef struct {
    int64_t first, end;
} range;

/* The visible positions of a row, clipped to [from, to). */
static range seen_of(const call *a, int64_t row, int64_t from, int64_t to) {
    const int64_t end = a->positions[row] + (int64_t)1;
    const int64_t first = a->window && a->window < end ? end - a->window : 0;
    return (range){first > from ? first : from, end < to ? end : to};
}

/* The cache before it is known where a position is. */
static source source_of(const call *a) {
    return (source){.next_keys = a->key_layout.block_bytes,
                    .next_values = a->value_layout.block_bytes,
                    .key_dim = dim(&a->q->type, 2),
                    .value_dim = dim(&a->values->type, 3),
                    .scale = a->scale,
                    .softcap = a->softcap,
                    .dtype = a->keys->type.dtype};
}

/* Sets the block from position `at` on; the next one is prefetched if the row sees it. */
INLINE void set_block(const call *a, int64_t row, int64_t head, int64_t at, source *to) {
    const cache_places *p = &a->places;
    const int64_t slot = slot_at(p, row, at);
    if (p->paged) {
        const int64_t next = at + BLOCK <= a->positions[row] ? slot_at(p, row, at + BLOCK) : slot;
        to->next_keys = (next - slot) * a->key_layout.slot_bytes;
        to->next_values = (next - slot) * a->value_layout.slot_bytes;
    }
    to->keys = (const char *)a->keys->data + head_in(&a->key_layout, slot, head);
    to->values = (const char *)a->values->data + head_in(&a->value_layout, slot, head);
}

static bool is_coded(const call *a) {
    return a->keys->type.dtype == SL_DTYPE_k16;
}

/* How the query heads of a KV head are divided among items. */
typedef struct {
    int64_t heads, ratio;  /* KV heads, and query heads per KV head */
    int64_t shares, share; /* items per KV head, and query heads of each but the last */
} sharing;

static sharing sharing_of(const call *a) {
    const int64_t heads = dim(&a->values->type, 1), ratio = dim(&a->q->type, 1) / heads;
    const int64_t share = parts_of(ratio, parts_of(ratio, ITEM_QUERIES));
    return (sharing){heads, ratio, parts_of(ratio, share), share};
}

/* The query heads of one item. */
typedef struct {
    int64_t head, first, count; /* KV head; range of its query heads */
} portion;

static portion portion_at(const sharing *s, int64_t index) {
    const int64_t first = index % s->shares * s->share;
    return (portion){index / s->shares, first, least(s->share, s->ratio - first)};
}

/* ---- sdpa: an item is a tile of rows and a portion of the heads; the last rows, which take
 * longest, come first ---- */

typedef struct {
    sharing by;
    int64_t rows, tile_rows, tiles, portions, key_dim, value_dim;
} tiling;

static tiling tiling_of(const call *a) {
    const sharing by = sharing_of(a);
    const int64_t rows = dim(&a->q->type, 0), tile_rows = TILE_QUERIES / by.share;
    return (tiling){.by = by,
                    .rows = rows,
                    .tile_rows = tile_rows,
                    .tiles = parts_of(rows, tile_rows),
                    .portions = by.heads * by.shares,
                    .key_dim = dim(&a->q->type, 2),
                    .value_dim = dim(&a->values->type, 3)};
}

/* Scratch of an item, per query of the tile. */
typedef struct {
    float *factors;      /* [QUERIES, BLOCK] */
    float *mix;          /* [queries, value_dim]: of the current part */
    running *part, *all; /* [queries] */
    float *scales;       /* [queries], only for 16-bit codes: */
    int32_t *words;      /* [queries, pairs of codes] */
} room;

static room room_in(void *scratch, const tiling *t) {
    room r = {.factors = scratch};
    r.mix = r.factors + QUERIES * BLOCK;
    r.part = (running *)(void *)(r.mix + t->tile_rows * t->by.share * t->value_dim);
    r.all = r.part + t->tile_rows * t->by.share;
    r.scales = (float *)(void *)(r.all + t->tile_rows * t->by.share);
    r.words = (int32_t *)(void *)(r.scales + t->tile_rows * t->by.share);
    return r;
}

static sl_split split_whole(const call *a) {
    const tiling t = tiling_of(a);
    const size_t each = (size_t)t.value_dim * sizeof(float) + 2 * sizeof(running) +
                        coded_query_bytes(&a->keys->type, t.key_dim);
    return (sl_split){t.tiles * t.portions, 1,
                      QUERIES * BLOCK * sizeof(float) + (size_t)(t.tile_rows * t.by.share) * each};
}

/* A tile: rows [first, end) and a portion of the heads. */
typedef struct {
    const call *call;
    tiling t;
    room room;
    int64_t first, end;
    portion p;
} item;

/* Index of the first of a row's queries among all queries. */
static int64_t query_of(const item *it, int64_t row) {
    return (row * it->t.by.heads + it->p.head) * it->t.by.ratio + it->p.first;
}

static queries queries_of(const item *it, int64_t row) {
    const int64_t at = (row - it->first) * it->p.count;
    const bool coded = is_coded(it->call);
    return (queries){.query = (const float *)it->call->q->data + query_of(it, row) * it->t.key_dim,
                     .words = coded ? it->room.words + at * sl_kv_pairs(it->t.key_dim) : NULL,
                     .scales = coded ? it->room.scales + at : NULL,
                     .taken = it->room.part + at,
                     .mix = it->room.mix + at * it->t.value_dim,
                     .count = it->p.count,
                     .stride = 1};
}

static float *result_of(const item *it, int64_t row, int64_t q) {
    return it->call->out + (query_of(it, row) + q) * it->t.value_dim;
}

/* Positions [part.first, part.end), block by block, for all rows that see some of them. */
static void attend_part(const item *it, range part) {
    for (int64_t row = it->first; row < it->end; row++) {
        const queries g = queries_of(it, row);
        start(&g, it->t.value_dim, nothing);
    }
    source from = source_of(it->call);
    for (int64_t at = part.first / BLOCK * BLOCK; at < part.end; at += BLOCK)
        for (int64_t row = it->first; row < it->end; row++) {
            const range seen = seen_of(it->call, row, at, least(at + BLOCK, part.end));
            if (seen.first >= seen.end) continue;
            const queries g = queries_of(it, row);
            const int64_t first = within_slot(&it->call->places, seen.first);
            set_block(it->call, row, it->p.head, at, &from);
            attend_block(&from, &g, first, first + seen.end - seen.first, it->room.factors);
        }
    for (int64_t row = it->first; row < it->end; row++) {
        const range seen = seen_of(it->call, row, part.first, part.end);
        if (seen.first >= seen.end) continue;
        const queries g = queries_of(it, row);
        running *all = it->room.all + (row - it->first) * g.count;
        for (int64_t q = 0; q < g.count; q++)
            join(&all[q], result_of(it, row, q), g.taken[q], g.mix + q * it->t.value_dim,
                 it->t.value_dim);
    }
}

/* Quantises the queries of the tile. */
static void code_tile(const item *it) {
    for (int64_t row = it->first; row < it->end; row++) {
        const int64_t at = (row - it->first) * it->p.count;
        const queries g = queries_of(it, row);
        code_queries(g.query, g.count, it->t.key_dim, it->call->scale,
                     it->room.words + at * sl_kv_pairs(it->t.key_dim), it->room.scales + at);
    }
}

SL_CHECKED static sl_status attend_item(const item *it, sl_error *err) {
    const call *a = it->call;
    const int64_t each = it->p.count, count = (it->end - it->first) * each;
    range all = {INT64_MAX, 0}; /* the union of the visible ranges */
    for (int64_t row = it->first; row < it->end; row++) {
        SL_TRY(check_position(&a->places, a->positions[row], row, err));
        const range seen = seen_of(a, row, 0, INT64_MAX);
        SL_TRY(check_slots(&a->places, row, seen.first, seen.end, err));
        all.first = least(all.first, seen.first);
        if (seen.end > all.end) all.end = seen.end;
    }
    for (int64_t q = 0; q < count; q++) it->room.all[q] = nothing;
    if (is_coded(a)) code_tile(it);
    for (int64_t part = all.first / SL_SDPA_PART * SL_SDPA_PART; part < all.end;
         part += SL_SDPA_PART)
        attend_part(
            it, (range){part > all.first ? part : all.first, least(part + SL_SDPA_PART, all.end)});
    for (int64_t q = 0; q < count; q++) {
        const int64_t row = it->first + q / each;
        const int64_t head = it->p.head * it->t.by.ratio + it->p.first + q % each;
        finish(result_of(it, row, q % each), it->room.all[q], a->sinks ? a->sinks + head : NULL,
               it->t.value_dim);
    }
    return SL_OK;
}

SL_CHECKED static sl_status run_whole(const call *a, int64_t begin, int64_t end,
                                      sl_worker *worker) {
    item it = {.call = a, .t = tiling_of(a)};
    it.room = room_in(worker->scratch, &it.t);
    for (int64_t i = begin; i < end; i++) {
        it.first = (it.t.tiles - 1 - i / it.t.portions) * it.t.tile_rows;
        it.end = least(it.first + it.t.tile_rows, it.t.rows);
        it.p = portion_at(&it.t.by, i % it.t.portions);
        SL_TRY(attend_item(&it, worker->err));
    }
    return SL_OK;
}

SPLIT(sdpa) {
    const sl_sdpa_args *a = args;
    const call c = CALL_OF(a, NULL, NULL);
    return split_whole(&c);
}
RUN(sdpa) {
    const sl_sdpa_args *a = args;
    const call c = CALL_OF(a, NULL, a->out.data);
    return run_whole(&c, begin, end, worker);
}

SPLIT(sdpa_sinks) {
    const sl_sdpa_sinks_args *a = args;
    const call c = CALL_OF(a, NULL, NULL);
    return split_whole(&c);
}
RUN(sdpa_sinks) {
    const sl_sdpa_sinks_args *a = args;
    const call c = CALL_OF(a, a->sinks.data, a->out.data);
    return run_whole(&c, begin, end, worker);
}

/* ---- sdpa_parts: an item is one part of the positions of one row, for a portion of the heads
 * ---- */

/* Parts are assigned in bit-reversed order: only the first ones are nonempty, and so every range of
 * items gets a fair share of these. */
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
    const call c = CALL_OF(a, NULL, NULL);
    const sharing by = sharing_of(&c);
    const int64_t slots = part_slots(dim(&a->mixes.type, 2));
    const size_t coded = (size_t)by.share * coded_query_bytes(&a->cache_k.type, dim(&a->q.type, 2));
    return (sl_split){dim(&a->q.type, 0) * by.heads * by.shares * slots, 1,
                      QUERIES * BLOCK * sizeof(float) + coded};
}

/* One part of the positions of a row. */
typedef struct {
    int64_t row, part;
    range seen; /* of its positions */
} row_part;

static void take_part(const sl_sdpa_parts_args *a, const call *c, const row_part *of, portion p,
                      float *factors) {
    const sharing by = sharing_of(c);
    const int64_t key_dim = dim(&a->q.type, 2), value_dim = dim(&a->cache_v.type, 3);
    const int64_t parts = dim(&a->mixes.type, 2);
    const int64_t query = (of->row * by.heads + p.head) * by.ratio + p.first;
    const range seen = of->seen;
    const bool coded = is_coded(c);
    float *scales = factors + QUERIES * BLOCK;
    int32_t *words = (int32_t *)(void *)(scales + by.share);
    const queries g = {.query = (const float *)a->q.data + query * key_dim,
                       .words = coded ? words : NULL,
                       .scales = coded ? scales : NULL,
                       .taken = (running *)a->weights.data + query * parts + of->part,
                       .mix = (float *)a->mixes.data + (query * parts + of->part) * value_dim,
                       .count = p.count,
                       .stride = parts};
    start(&g, value_dim, seen.first < seen.end ? nothing : (running){0, 0});
    source from = source_of(c);
    if (coded && seen.first < seen.end) {
        set_block(c, of->row, p.head, seen.first, &from);
        fetch_values(&from, within_slot(&c->places, seen.first));
        code_queries(g.query, g.count, key_dim, c->scale, words, scales);
    }
    for (int64_t at = seen.first / BLOCK * BLOCK; at < seen.end; at += BLOCK) {
        const int64_t begin = at > seen.first ? at : seen.first;
        const int64_t first = within_slot(&c->places, begin);
        set_block(c, of->row, p.head, at, &from);
        attend_block(&from, &g, first, first + least(at + BLOCK, seen.end) - begin, factors);
    }
}

RUN(sdpa_parts) {
    const sl_sdpa_parts_args *a = args;
    const call c = CALL_OF(a, NULL, NULL);
    const sharing by = sharing_of(&c);
    const int64_t portions = by.heads * by.shares, parts = dim(&a->mixes.type, 2);
    const int64_t slots = part_slots(parts);
    for (int64_t i = begin; i < end; i++) {
        row_part of = {.row = i / slots / portions, .part = part_in(i % slots, slots)};
        if (of.part >= parts) continue;
        const int64_t first = of.part * SL_SDPA_PART;
        SL_TRY(check_position(&c.places, c.positions[of.row], of.row, worker->err));
        of.seen = seen_of(&c, of.row, first, first + SL_SDPA_PART);
        SL_TRY(check_slots(&c.places, of.row, of.seen.first, of.seen.end, worker->err));
        take_part(a, &c, &of, portion_at(&by, i / slots % portions), worker->scratch);
    }
    return SL_OK;
}

/* ---- sdpa_merge: an item is a query ---- */

static sl_split split_merge(const sl_type *mixes) {
    return (sl_split){dim(mixes, 0) * dim(mixes, 1), grain_of(sl_dims_tail(&mixes->shape, 2)), 0};
}

static void merge(const sl_cview *mixes, const sl_cview *weights, const float *sinks, int64_t i,
                  float *out) {
    const int64_t parts = dim(&mixes->type, 2), width = dim(&mixes->type, 3);
    const running *part = (const running *)weights->data + i * parts;
    const float *mix = (const float *)mixes->data + i * parts * width;
    running all = nothing;
    out += i * width;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t p = 0; p < parts; p++)
        if (part[p].sum != 0) join(&all, out, part[p], mix + p * width, width);
    finish(out, all, sinks ? sinks + i % dim(&mixes->type, 1) : NULL, width);
}

SPLIT(sdpa_merge) {
    return split_merge(&((const sl_sdpa_merge_args *)args)->mixes.type);
}
RUN(sdpa_merge) {
    const sl_sdpa_merge_args *a = args;
    for (int64_t i = begin; i < end; i++) merge(&a->mixes, &a->weights, NULL, i, a->out.data);
    return SL_OK;
}

SPLIT(sdpa_merge_sinks) {
    return split_merge(&((const sl_sdpa_merge_sinks_args *)args)->mixes.type);
}
RUN(sdpa_merge_sinks) {
    const sl_sdpa_merge_sinks_args *a = args;
    for (int64_t i = begin; i < end; i++)
        merge(&a->mixes, &a->weights, a->sinks.data, i, a->out.data);
    return SL_OK;
}
