/* kv.h - How the key-value cache lies in memory.
 *
 * Keys: [slots, heads, blocks, D, 16], 16 positions side by side, so that a vector of a key's
 * element belongs to 16 positions and scores need no sum across lanes.  Values: [slots, heads,
 * 16 blocks, D], a row per position.  Both f32 or both f16. */
#ifndef SL_CORE_KV_H
#define SL_CORE_KV_H
#include "core/type.h"

enum {
    SL_KV_LANES = 16,
    /* Positions that sdpa takes together; their results are joined in order of position.  A fixed
     * number, so that no result depends on who computes which part. */
    SL_SDPA_PART = 1024
};

typedef struct {
    sl_dtype dtype;
    int64_t slots, heads, capacity, dim; /* capacity: positions, rounded up to whole blocks */
} sl_kv_shape;

static inline int64_t sl_kv_blocks(int64_t capacity) {
    return (capacity + SL_KV_LANES - 1) / SL_KV_LANES;
}
static inline sl_type sl_kv_keys(sl_kv_shape s) {
    return sl_type_make(s.dtype, 5, s.slots, s.heads, sl_kv_blocks(s.capacity), s.dim,
                        (int64_t)SL_KV_LANES);
}
static inline sl_type sl_kv_values(sl_kv_shape s) {
    return sl_type_make(s.dtype, 4, s.slots, s.heads, sl_kv_blocks(s.capacity) * SL_KV_LANES,
                        s.dim);
}
/* Where element 0 of a position lies; keys' elements are 16 apart, values' side by side. */
static inline int64_t sl_kv_key_at(int64_t position, int64_t dim) {
    return position / SL_KV_LANES * SL_KV_LANES * dim + position % SL_KV_LANES;
}
#endif
