/* kv.h - Memory layout of the KV cache.
 *
 * Keys: [slots, heads, blocks, D, 16], 16 positions interleaved, so that one vector holds the same
 * element of 16 keys and scores need no horizontal sum.  Values: [slots, heads,
 * 16 blocks, D], one row per position; D may differ from that of keys.  Both are f32, both f16,
 * or keys are k16 and values v16.
 *
 * A sequence has a slot, or pages of SL_KV_PAGE positions: then the first dim counts pages, and a
 * table of each row says which page has which of its positions.  Pages that begin the tables of
 * several sequences are shared by them.
 *
 * k16 and v16 store a row, which is one position of one head, as 16-bit codes: x = scale * code.
 * 16 positions make a block: 16 f32 scales, then 32-bit words of two codes each:
 *   k16: [ceil(D/2), 16], a word has two adjacent elements of a position, zero beyond D
 *   v16: [8, D], a word has one element of two adjacent positions; padded to the size of k16.
 * Pairwise dot products with 32-bit accumulators then compute scores and weighted sums of values.
 * The sums do not overflow: the codes of a key have a norm of about SL_K16_NORM, and so do those of
 * a query that is quantised the same way, and by the Cauchy-Schwarz inequality no partial sum of
 * their products exceeds the product of the norms.  The largest code of a value is SL_V16_TOP;
 * callers must scale the softmax weights so that their sum is at most 2^31 / SL_V16_TOP.  A row
 * with a value that is not finite has the scale NaN. */
#ifndef SL_CORE_KV_H
#define SL_CORE_KV_H
#include "core/type.h"

enum {
    SL_KV_LANES = 16,
    SL_KV_PAGE = 64, /* positions of a page */
    /* Positions per part of sdpa; the results of the parts are merged in order of position.  The
     * number is fixed so that results do not depend on the division of work. */
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
static inline int64_t sl_kv_page_count(int64_t positions) {
    return (positions + SL_KV_PAGE - 1) / SL_KV_PAGE;
}
/* The dtype of values for a dtype of keys. */
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
/* Index of element 0 of a position; elements of keys are 16 apart, elements of values adjacent. */
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
/* Index of the first code of a position within its block.  The other codes of k16 follow in pairs,
 * one pair per SL_KV_LANES words; those of v16 are every other code. */
static inline int64_t sl_k16_at(int64_t position) {
    return position % SL_KV_LANES * 2;
}
static inline int64_t sl_v16_at(int64_t position, int64_t dim) {
    return position % SL_KV_LANES / 2 * dim * 2 + position % 2;
}

/* Rows and bytes of a whole cache of type k16 or v16, over all slots and heads. */
int64_t sl_kv_rows(const sl_type *type);
uint64_t sl_kv_bytes(const sl_type *type);
/* Quantises dim floats into a row of the cache. */
void sl_kv_store_row(const sl_type *type, void *cache, int64_t row, const float *x);
/* Decodes to elements in the order of the type's dims. */
void sl_kv_decode(const sl_type *type, const void *cache, double *out);

/* Rounds a row to what a cache of that type (floats included) would store. */
void sl_kv_round_row(sl_dtype dtype, int64_t dim, float *x);
#endif
