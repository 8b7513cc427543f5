/* sdpa.h - Arguments of the kernels in sdpa.cu, sdpa_few.cu and sdpa_many.cu.
 *
 * Attention is computed in independent splits of a row's positions: a mix, the sum of e^(score -
 * largest) v, with the largest score and the sum of the factors.  Another launch merges the splits
 * in order. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_H
#define SL_RUNTIME_CUDA_KERNELS_SDPA_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum {
    SL_CUDA_SPLIT = 128,       /* positions of a split of few rows */
    SL_CUDA_FEW_QUERIES = 8,   /* of a cached head that a block takes, of few rows */
    SL_CUDA_JOIN_COLUMNS = 64, /* of a block that joins */
    SL_CUDA_JOIN_THREADS = 256
};

/* Shared memory of a block of few rows: heads of D elements, tiles of SL_CUDA_FEW_QUERIES. */
#define SL_CUDA_FEW_BYTES(D, TILES)                                                                \
    (256 * (D) + (TILES) * (64 * (D) + ((D) < 128 ? 128 : (D)) * 32 + 160))

/* Blocks of many rows have 8 warps, or 4 where shared memory is small; 16 queries each. */
#define SL_CUDA_MANY_TILE(WARPS)           ((WARPS) == 8 ? 64 : 32) /* positions at a time */
#define SL_CUDA_MANY_BYTES(D, WARPS, TILE) ((WARPS)*16 * (4 * (D) + 24) + (4 * (D) + 16) * (TILE))

typedef struct {
    const float *q; /* [rows, heads * ratio, width] */
    const void *keys, *values;
    const int32_t *slots, *positions;
    /* Results of splits: [queries, splits, value_width] and [queries, splits, 2], the second all 0
     * where a split is empty.  Where there are no weights there is one split, and mixes are the
     * result.
     */
    float *mixes, *weights;
    sl_fault *fault;
    float scale;
    int32_t rows, ratio;                 /* ratio: query heads of a cached head */
    int32_t width, value_width;          /* of keys and queries; of values */
    int32_t window;                      /* positions that a row sees at most; 0: all */
    int32_t slot_count, heads, capacity; /* of the cache; capacity in whole blocks */
    int32_t splits;
    int32_t span; /* positions of a split; 0: what a row has is divided evenly */
    int32_t is_half;
    float softcap; /* of the plain kernel; 0: none */
} sl_sdpa_splits;

enum { SL_CUDA_FEW_SPLITS = 8 }; /* that a thread joins by itself */

/* Each `group` of `splits` becomes one. */
typedef struct {
    const float *mixes, *weights; /* [queries, splits, width], [queries, splits, 2] */
    float *out, *out_weights; /* [queries, groups, width]; without weights: divided by the sum */
    int32_t splits, group, groups, width;
    const float *sinks; /* [query_heads]: one more score of each; NULL: none */
    int32_t query_heads, reserved;
    int64_t queries;
} sl_sdpa_joined;
#endif
