/* sdpa.h - Inputs and running results of attention over a block of positions, for every element
 * type of the cache. */
#ifndef SL_RUNTIME_CPU_SDPA_H
#define SL_RUNTIME_CPU_SDPA_H
#include "runtime/cpu/kernels/sdpa_cache.h"

enum {
    BLOCK = 64, /* positions */
#if defined(__AVX512F__)
    QUERIES = 8, /* side by side in registers, at most */
    CHAINS = 16, /* sums in registers */
#else
    QUERIES = 4,
    CHAINS = 8,
#endif
    TILE_QUERIES = 64, /* that share a block of the cache while it is near */
    ITEM_QUERIES = 16, /* of a row and a cached head: more would leave threads idle */
    FETCH = 2          /* into the second cache: the first is full of what is at hand */
};

/* One head of one sequence. */
typedef struct {
    const void *keys, *values;
    int64_t key_dim, value_dim;
    float scale, softcap; /* softcap 0: none */
    sl_dtype dtype;       /* of keys */
} source;

/* What a query has taken from positions so far: its mix is the sum of e^(score - largest) v. */
typedef struct {
    float largest, sum;
} running;
static const running nothing = {-INFINITY, 0};

/* Queries of one row. */
typedef struct {
    const float *query;   /* [count, key_dim] */
    const int32_t *words; /* where keys are codes: [count, pairs of codes], as core/kv.h has them */
    const float *scales;  /* and [count], times source.scale */
    running *taken;       /* of query q: taken[q * stride] */
    float *mix;           /* of query q: mix[q * stride * value_dim + ...] */
    int64_t count, stride;
} queries;

/* A few queries and one block. */
typedef struct {
    const source *from;
    queries to;
    int64_t position, count; /* the first position, of a group of SL_KV_LANES, and how many, */
    int64_t skip;            /* of which so many in front are not seen */
    float *factors;          /* [QUERIES, BLOCK]: scores, then e^(score - largest) */
} block;

static __attribute__((noinline)) void cap(float *scores, int64_t n, float softcap) {
    const vf by = vsplat(softcap);
    FOR_VECTORS(i, lanes, n,
                vstore_n(scores + i, vtanh(vload_n(scores + i, lanes) / by) * by, lanes););
}

/* Scores become factors; what was taken before is scaled to the new largest.  Never inlined: the
 * compiler may round a product or fuse it with a sum, and must choose alike for all queries. */
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
