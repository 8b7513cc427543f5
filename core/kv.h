/* kv.h - How the key-value cache lies in memory.
 *
 * Keys: [slots, heads, blocks, D, 16], 16 positions side by side, so that a vector of a key's
 * element belongs to 16 positions and scores need no sum across lanes.  Values: [slots, heads,
 * 16 blocks, D], a row per position, of a D of their own.  Both f32, both f16, or keys k16 and
 * values v16.
 *
 * k16 and v16 keep a row, which is one position of one head, as 16-bit codes: x = scale * code.
 * 16 positions make a block: 16 f32 scales, then words of two codes, in which
 *   k16: [ceil(D/2), 16], a word has two neighbouring elements of a position, zero beyond D
 *   v16: [8, D], a word has one element of two neighbouring positions; zeros up to k16's size.
 * So products of pairs, summed in 32 bits, are sums of scores and of mixed values.  That these fit:
 * a key's codes have a norm of about SL_K16_NORM, and so have a query's when it is coded alike; no
 * sum of their products, the sum of some of them included, is larger than the product of the norms.
 * A value's largest code is SL_V16_TOP, and weights that sum to no more than 2^31 over that
 * are for who mixes them to choose.  A row with a value that is not finite has the scale NaN. */
#ifndef SL_CORE_KV_H
#define SL_CORE_KV_H
#include "core/type.h"

enum {
    SL_KV_LANES = 16,
    /* Positions that sdpa takes together; their results are joined in order of position.  A fixed
     * number, so that no result depends on who computes which part. */
    SL_SDPA_PART = 1024,
    SL_K16_NORM = 32767,
    SL_V16_TOP = 16383,
    SL_KV_SCALES_BYTES = SL_KV_LANES * 4 /* before the codes of a block */
};

typedef struct {
    sl_dtype dtype;                      /* of keys */
    int64_t slots, heads, capacity, dim; /* capacity: positions, rounded up to whole blocks */
} sl_kv_shape;

static inline int64_t sl_kv_blocks(int64_t capacity) {
    return (capacity + SL_KV_LANES - 1) / SL_KV_LANES;
}
/* What values are where keys are of that type. */
static inline sl_dtype sl_kv_values_dtype(sl_dtype keys) {
    return keys == SL_DTYPE_k16 ? SL_DTYPE_v16 : keys;
}
static inline sl_type sl_kv_keys(sl_kv_shape s) {
    return sl_type_make(s.dtype, 5, s.slots, s.heads, sl_kv_blocks(s.capacity), s.dim,
                        (int64_t)SL_KV_LANES);
}
static inline sl_type sl_kv_values(sl_kv_shape s) {
    return sl_type_make(sl_kv_values_dtype(s.dtype), 4, s.slots, s.heads,
                        sl_kv_blocks(s.capacity) * SL_KV_LANES, s.dim);
}
/* Where element 0 of a position lies; keys' elements are 16 apart, values' side by side. */
static inline int64_t sl_kv_key_at(int64_t position, int64_t dim) {
    return position / SL_KV_LANES * SL_KV_LANES * dim + position % SL_KV_LANES;
}

/* ---- k16 and v16 ---- */

static inline int64_t sl_kv_pairs(int64_t dim) {
    return (dim + 1) / 2;
}
static inline int64_t sl_kv_block_bytes(int64_t dim) {
    return SL_KV_SCALES_BYTES + sl_kv_pairs(dim) * SL_KV_LANES * 4;
}
/* The first code of a position, counted in codes from the first one of its block; k16's others
 * follow in pairs, one pair per SL_KV_LANES words, v16's in every other code. */
static inline int64_t sl_k16_at(int64_t position) {
    return position % SL_KV_LANES * 2;
}
static inline int64_t sl_v16_at(int64_t position, int64_t dim) {
    return position % SL_KV_LANES / 2 * dim * 2 + position % 2;
}

/* A whole cache of these types, of any slots and heads, which are positions one after another. */
int64_t sl_kv_rows(const sl_type *type);
uint64_t sl_kv_bytes(const sl_type *type);
/* Codes dim floats as a row of the cache. */
void sl_kv_store_row(const sl_type *type, void *cache, int64_t row, const float *x);
/* As elements in the order of the type's dims. */
void sl_kv_decode(const sl_type *type, const void *cache, double *out);

/* A row as a cache of that type, floats included, keeps it. */
void sl_kv_round_row(sl_dtype dtype, int64_t dim, float *x);
#endif
