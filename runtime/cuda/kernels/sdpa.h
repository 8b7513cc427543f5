/* sdpa.h - Arguments of the kernels in sdpa.cu, sdpa_few.cu and sdpa_many.cu.
 *
 * Attention is computed in independent splits of a row's positions (flash-decoding).  A split
 * yields its mix, the unnormalised sum of e^(score - largest) v, with the largest score and the sum
 * of the factors e^(score - largest).  Another launch merges the splits in order. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_H
#define SL_RUNTIME_CUDA_KERNELS_SDPA_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum {
    SL_CUDA_SPLIT = 128,       /* positions per split, for few rows */
    SL_CUDA_FEW_QUERIES = 8,   /* queries of a KV head per tile of a block, for few rows */
    SL_CUDA_JOIN_COLUMNS = 64, /* columns per block of the merge */
    SL_CUDA_JOIN_THREADS = 256
};

/* Shared memory of a block for few rows: head size D, TILES tiles of SL_CUDA_FEW_QUERIES each. */
#define SL_CUDA_FEW_BYTES(D, TILES)                                                                \
    (256 * (D) + (TILES) * (64 * (D) + ((D) < 128 ? 128 : (D)) * 32 + 160))

/* For many rows: 8 warps per block, or 4 where shared memory is small; 16 queries per warp. */
#define SL_CUDA_MANY_TILE(WARPS)           ((WARPS) == 8 ? 64 : 32) /* positions per tile */
#define SL_CUDA_MANY_BYTES(D, WARPS, TILE) ((WARPS)*16 * (4 * (D) + 28) + (4 * (D) + 16) * (TILE))

typedef struct {
    const float *q; /* [rows, heads * ratio, width] */
    const void *keys, *values;
    const int32_t *slots, *positions;
    /* Results of the splits: [queries, splits, value_width] and [queries, splits, 2] (largest,
     * sum), which are 0 for an empty split.  Without weights there is one split, and mixes are the
     * normalised result. */
    float *mixes, *weights;
    sl_fault *fault;
    float scale;
    int32_t rows, ratio;                 /* ratio: query heads per KV head */
    int32_t width, value_width;          /* of keys and queries; of values */
    int32_t window;                      /* sliding window in positions; 0: none */
    int32_t slot_count, heads, capacity; /* of the cache; capacity: positions of a sequence */
    int32_t pages; /* of each row in `slots`, SL_KV_PAGE positions each; 0: one slot, of capacity */
    int32_t splits;
    int32_t span; /* positions per split; 0: each row's positions are divided evenly */
    int32_t is_half;
    float softcap; /* of the plain kernel; 0: none */
    int32_t reserved;
} sl_sdpa_splits;

enum { SL_CUDA_FEW_SPLITS = 8 }; /* merged by a single thread */

/* Merges each `group` consecutive splits into one. */
typedef struct {
    const float *mixes, *weights; /* [queries, splits, width], [queries, splits, 2] */
    float *out, *out_weights;     /* [queries, groups, width]; without out_weights: normalised */
    int32_t splits, group, groups, width;
    const float *sinks; /* [query_heads]: attention sink, an extra score per head; or NULL */
    int32_t query_heads, reserved;
    int64_t queries;
} sl_sdpa_joined;
#endif
