/* sdpa.h - Operands and accumulators of attention over a block of positions, for all element types
 * of the cache. */
#ifndef SL_RUNTIME_CPU_SDPA_H
#define SL_RUNTIME_CPU_SDPA_H
#include "runtime/cpu/kernels/sdpa_cache.h"

enum {
    BLOCK = SL_KV_PAGE, /* positions of a block: one page */
#if defined(__AVX512F__)
    QUERIES = 8, /* queries computed together in registers, at most */
    CHAINS = 16, /* accumulators in registers */
#else
    QUERIES = 4,
    CHAINS = 8,
#endif
    TILE_QUERIES = 64, /* queries that share a cached block of keys and values */
    ITEM_QUERIES = 16, /* query heads of an item, per KV head: more would leave threads idle */
    FETCH = 2          /* prefetch into L2: L1 is full of the current block */
};

/* The cache of one KV head of one sequence, or of one of its pages. */
typedef struct {
    const void *keys, *values;
    int64_t next_keys, next_values; /* bytes from a block to the next one, which is prefetched */
    int64_t key_dim, value_dim;
    float scale, softcap; /* softcap 0: none */
    sl_dtype dtype;       /* of the keys */
} source;

/* State of the online softmax of one query; its mix is the sum of e^(score - largest) v. */
typedef struct {
    float largest, sum;
} running;
static const running nothing = {-INFINITY, 0};

/* The queries of one row. */
typedef struct {
    const float *query;   /* [count, key_dim] */
    const int32_t *words; /* 16-bit cache only: [count, pairs of codes], as in core/kv.h */
    const float *scales;  /* 16-bit cache only: [count], times source.scale */
    running *taken;       /* of query q: taken[q * stride] */
    float *mix;           /* of query q: mix[q * stride * value_dim + ...] */
    int64_t count, stride;
} queries;

/* A few queries and one block of positions. */
typedef struct {
    const source *from;
    queries to;
    int64_t position, count; /* first position (a multiple of SL_KV_LANES), positions */
    int64_t skip;            /* the first `skip` of them are masked */
    float *factors;          /* [QUERIES, BLOCK]: scores, then e^(score - largest) */
} block;

static __attribute__((noinline)) void cap(float *scores, int64_t n, float softcap) {
    const vf by = vsplat(softcap);
    FOR_VECTORS(i, lanes, n,
                vstore_n(scores + i, vtanh(vload_n(scores + i, lanes) / by) * by, lanes););
}

/* Online softmax: replaces scores by e^(score - maximum) and scales the earlier mix to the new
 * maximum.  Not inlined: the compiler may contract products and sums into FMAs in different ways,
 * and must do the same for all queries. */
static __attribute__((noinline)) void weigh(float *scores, int64_t n, running *taken, float *mix,
                                            int64_t width) {
    const float before = taken->largest, here = vlargest(scores, n);
    const vf largest = vsplat(here > before ? here : before);
    const float keep = vexp(vsplat(before) - largest)[0];
    FOR_VECTORS(i, lanes, n,
                vstore_n(scores + i, vexp(vload_n(scores + i, lanes) - largest), lanes););
    if (taken->sum != 0 && keep != 1.0f)
        FOR_VECTORS(i, lanes, width,
                    vstore_n(mix + i, vload_n(mix + i, lanes) * vsplat(keep), lanes););
    taken->sum = taken->sum * keep + vtotal(scores, n);
    taken->largest = largest[0];
}
#endif
