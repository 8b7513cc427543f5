/* sdpa_codes.h - Attention over a block of keys and values in 16-bit codes (core/kv.h).
 *
 * Scores and mixes are dot products of 16-bit integers, two per lane and instruction instead of
 * one; the sums are exact.  Two things are rounded: a query, once, to codes like those of a key;
 * and the weights of a block's values, e^(score - largest) times the value's scale, to 15 bits
 * relative to the block's largest weight, or to fewer if their sum would overflow. */
#ifndef SL_RUNTIME_CPU_SDPA_CODES_H
#define SL_RUNTIME_CPU_SDPA_CODES_H
#include "runtime/cpu/kernels/sdpa.h"

enum {
    TOP_WEIGHT = 32767,
    /* Limit of the sum of a block's weights: even with each rounded up by 1/2, times SL_V16_TOP it
     * is below 2^31. */
    SUM_OF_WEIGHTS = 131000
};
_Static_assert((SUM_OF_WEIGHTS + BLOCK / 2 + 1) * (int64_t)SL_V16_TOP < INT32_MAX, "sums must fit");

/* ---- queries ---- */

static inline size_t coded_query_bytes(const sl_type *keys, int64_t width) {
    return keys->dtype == SL_DTYPE_k16
               ? sizeof(float) + (size_t)sl_kv_pairs(width) * sizeof(int32_t)
               : 0;
}

static void code_queries(const float *query, int64_t count, int64_t width, float scale,
                         int32_t *words, float *scales) {
    for (int64_t q = 0; q < count; q++) {
        const float *x = query + q * width;
        int16_t *codes = (int16_t *)(void *)(words + q * sl_kv_pairs(width));
        const coding16 c = coding16_of(x, width, true);
        scales[q] = c.scale * scale;
        FOR_VECTORS(d, n, width, {
            int16_t some[LANES];
            vstore_i16(some, codes16_of(vload_n(x + d, n), c));
            memcpy(codes + d, some, (size_t)n * sizeof some[0]);
        });
        if (width % 2) codes[width] = 0;
    }
}

/* ---- a few queries and one block ---- */

INLINE void fetch_words(const char *at, const int64_t words) {
    for (int64_t i = 0; i < words * 4; i += 64) __builtin_prefetch(at + i, 0, FETCH);
}

/* Scores of nq queries with nv vectors of positions, from vector v of the block on.  Prefetches the
 * next block's keys. */
INLINE void score_codes(const block *b, int64_t v, const int nq, const int nv) {
    const int64_t pairs = sl_kv_pairs(b->from->key_dim);
    const int64_t bytes = sl_kv_block_bytes(b->from->key_dim);
    const int32_t *words = b->to.words;
    const char *keys[CHAINS];
    const float *scales[CHAINS];
    vi sums[QUERIES][CHAINS];
    for (int i = 0; i < nv; i++) {
        const int64_t position = b->position + (v + i) * LANES;
        const char *start = (const char *)b->from->keys + position / SL_KV_LANES * bytes;
        const int64_t lane = position % SL_KV_LANES;
        scales[i] = (const float *)(const void *)start + lane;
        keys[i] = start + SL_KV_SCALES_BYTES + lane * 4;
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++) sums[q][i] = (vi){0};
    for (int64_t d = 0; d < pairs; d++) {
        vu key[CHAINS];
        UNROLL(16)
        for (int i = 0; i < nv; i++) {
            key[i] = vload_u32(keys[i] + d * SL_KV_LANES * 4);
            fetch_words(keys[i] + b->from->next_keys + d * SL_KV_LANES * 4, LANES);
        }
        UNROLL(16)
        for (int q = 0; q < nq; q++) {
            UNROLL(16)
            for (int i = 0; i < nv; i++)
                sums[q][i] = vdot_s16(sums[q][i], key[i], words[q * pairs + d]);
        }
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++)
            vstore(b->factors + q * BLOCK + (v + i) * LANES,
                   vfrom_i32(sums[q][i]) * vload(scales[i]) * vsplat(b->to.scales[q]));
}

/* x with zeros in the first n lanes, if n is positive. */
INLINE vf without_first(vf x, int64_t n) {
    for (int lane = 0; lane < n && lane < LANES; lane++) x[lane] = 0;
    return x;
}

/* Quantises a block's softmax weights times the scales of their values; zero for masked positions
 * and up to a whole vector.  Returns the scale of the codes.  Not inlined, like weigh. */
static __attribute__((noinline)) float code_factors(const block *b, const float *factors,
                                                    int16_t *codes) {
    const int64_t bytes = sl_kv_block_bytes(b->from->value_dim);
    const char *values = (const char *)b->from->values + b->position / SL_KV_LANES * bytes;
    vf weights[BLOCK / LANES], most = vzero(), sum = vzero();
    FOR_VECTORS(i, n, b->count, {
        const char *scales = values + i / SL_KV_LANES * bytes + i % SL_KV_LANES * 4;
        const vf product = vload_n(factors + i, n) * vload_n(scales, n);
        const vf weight = without_first(product, b->skip - i);
        most = vmax(weight, most);
        sum += weight;
        weights[i / LANES] = weight;
    });
    const float total = vsum(sum), by_sum = SUM_OF_WEIGHTS / total;
    const float by_largest = TOP_WEIGHT / vmost(most);
    float unit = by_sum < by_largest ? by_sum : by_largest;
    if (!(unit <= FLT_MAX)) unit = 0; /* no weights, or all too small to be represented */
    for (int64_t i = 0; i < b->count; i += LANES)
        vstore_i16(codes + i, vround_i32(weights[i / LANES] * vsplat(unit)));
    if (total != total) return NAN;
    return unit == 0 ? 0 : 1 / unit;
}

/* The quantised weights of a block's values, and their scales. */
typedef struct {
    int32_t words[QUERIES][BLOCK / 2]; /* pairs of positions */
    float units[QUERIES];
} mixture;

/* Adds the block's weighted values to nv vectors of nq mixes from column c on; the last vector has
 * `lanes` lanes.  Prefetches the next block's values. */
INLINE void mix_codes(const block *b, const mixture *m, int64_t c, int64_t lanes, const int nq,
                      const int nv) {
    const int64_t width = b->from->value_dim, stride = b->to.stride * width;
    const int64_t bytes = sl_kv_block_bytes(width), pairs = parts_of(b->count, 2);
    float *mix = b->to.mix + c;
    vi sums[QUERIES][CHAINS];
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++) sums[q][i] = (vi){0};
    for (int64_t p = 0; p < pairs; p++) {
        const int64_t position = b->position + p * 2;
        const char *at = (const char *)b->from->values + position / SL_KV_LANES * bytes +
                         SL_KV_SCALES_BYTES + (position % SL_KV_LANES / 2 * width + c) * 4;
        vu value[CHAINS];
        fetch_words(at + b->from->next_values, nv * LANES);
        UNROLL(16)
        for (int i = 0; i < nv; i++)
            value[i] = (vu)vload_n(at + i * LANES * 4, i + 1 < nv ? LANES : lanes);
        UNROLL(16)
        for (int q = 0; q < nq; q++) {
            UNROLL(16)
            for (int i = 0; i < nv; i++)
                sums[q][i] = vdot_s16(sums[q][i], value[i], m->words[q][p]);
        }
    }
    for (int q = 0; q < nq; q++)
        for (int i = 0; i < nv; i++) {
            const int64_t n = i + 1 < nv ? LANES : lanes;
            float *to = mix + q * stride + i * LANES;
            vstore_n(to, vfma(vfrom_i32(sums[q][i]), vsplat(m->units[q]), vload_n(to, n)), n);
        }
}

/* Prefetches the scales of the next block, which are not part of a sequential stream. */
INLINE void fetch_scales(const block *b) {
    const int64_t keys = sl_kv_block_bytes(b->from->key_dim);
    const int64_t values = sl_kv_block_bytes(b->from->value_dim);
    for (int64_t i = 0; i < BLOCK / SL_KV_LANES; i++) {
        const source *from = b->from;
        const int64_t group = b->position / SL_KV_LANES + i;
        fetch_words((const char *)from->keys + group * keys + from->next_keys, SL_KV_LANES);
        fetch_words((const char *)from->values + group * values + from->next_values, SL_KV_LANES);
    }
}

/* Prefetches all values of the first block, which no earlier block has prefetched. */
INLINE void fetch_values(const source *from, int64_t position) {
    const int64_t bytes = sl_kv_block_bytes(from->value_dim);
    fetch_words((const char *)from->values + position / SL_KV_LANES * bytes,
                BLOCK / SL_KV_LANES * bytes / 4);
}

/* One block for nq queries, a power of two. */
INLINE void attend_few_codes(const block *b, const int nq) {
    const int64_t width = b->from->value_dim;
    const int nv = CHAINS / nq < 4 ? CHAINS / nq : 4;
    const int64_t vectors = parts_of(b->count, SL_KV_LANES) * (SL_KV_LANES / LANES);
    int64_t v = 0, c = 0;
    mixture m;
    fetch_scales(b);
    for (; v + nv <= vectors; v += nv) score_codes(b, v, nq, nv);
    for (; v < vectors; v++) score_codes(b, v, nq, 1);
    for (int q = 0; q < nq; q++) {
        float *factors = b->factors + q * BLOCK;
        if (b->from->softcap > 0) cap(factors + b->skip, b->count - b->skip, b->from->softcap);
        weigh(factors + b->skip, b->count - b->skip, b->to.taken + q * b->to.stride,
              b->to.mix + q * b->to.stride * width, width);
        /* cppcheck-suppress uninitvar ; written here */
        m.units[q] = code_factors(b, factors, (int16_t *)(void *)m.words[q]);
    }
    for (; c + nv * LANES <= width; c += nv * LANES) mix_codes(b, &m, c, LANES, nq, nv);
    for (; c < width; c += LANES) mix_codes(b, &m, c, least(LANES, width - c), nq, 1);
}
#endif
