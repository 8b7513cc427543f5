/* linear.h - Arguments of the kernels for products of rows with weights (linear_*.cu). */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_H
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_LINEAR_WEIGHTS = 3,
    SL_LINEAR_TOKENS = 8,     /* of a block, where weights are read once for all of them */
    SL_LINEAR_SPLIT = 16,     /* warps that share a unit, at most */
    SL_LINEAR_DENSE_ROWS = 4, /* of a unit of dense weights; of panels it is a panel */
    SL_LINEAR_BATCH = 4,      /* groups that a warp loads at a time */
    SL_TILE_ROWS = 64,
    SL_TILE_TOKENS = 64
};

/* What becomes of the sums. */
enum {
    SL_FINISH_STORE,
    SL_FINISH_BIAS,    /* act(sum + bias) */
    SL_FINISH_SWIGLU,  /* silu(first weight's) * second weight's */
    SL_FINISH_QUANTISE /* the same, as rows of a8 */
};
typedef struct {
    int32_t kind, act;
    const float *bias;
    float *out[SL_LINEAR_WEIGHTS]; /* [tokens, rows of the weight] */
    sl_cuda_rows8_out codes;
} sl_linear_finish;

/* How units (a panel, or some rows of dense weights) are divided.  A task is what a block does at a
 * time: `units` of them, `split` warps for each.  Units of all weights are numbered through; where
 * the finish joins two weights, a task has units / 2 of each. */
typedef struct {
    int32_t weights, units, split, tasks;
    int32_t first[SL_LINEAR_WEIGHTS + 1]; /* unit of each weight, then their number */
    int32_t rows[SL_LINEAR_WEIGHTS];
    int32_t tokens;
} sl_linear_division;

/* A few tokens with weights of panels.  Shared memory: x, `slab` groups at a time; the sums of
 * every warp. */
typedef struct {
    sl_cuda_panels w[SL_LINEAR_WEIGHTS];
    sl_linear_finish finish;
    sl_linear_division d;
    int32_t slab, x_bytes;
    const float *x;
    sl_cuda_rows8 x8;
} sl_linear_panels;

/* A few tokens with dense weights.  Shared memory: the sums of every warp. */
typedef struct {
    const void *w[SL_LINEAR_WEIGHTS];
    sl_linear_finish finish;
    sl_linear_division d;
    int32_t cols;
    const float *x;
} sl_linear_dense;

/* Many tokens: one weight, of panels or dense. */
typedef struct {
    sl_cuda_panels panels;
    const void *w;
    const float *x;
    float *out;
    int64_t out_stride;
    int32_t rows, cols, tokens;
    int32_t wide;        /* dense rows lie where 16 bytes can be loaded */
    int32_t part_groups; /* of panels and bf16: each part of so many groups has an out of its own */
} sl_linear_tile;

/* out[i] = the sum of parts[p * count + i], in their order. */
typedef struct {
    const float *parts;
    float *out;
    int64_t count;
    int32_t part_count;
    int32_t four; /* count is a multiple of it, and addresses of 16 bytes */
} sl_linear_parts;

/* Any number of tokens with a weight of panels that has no other kernel. */
typedef struct {
    sl_cuda_panels w;
    const float *x; /* NULL: x8 */
    sl_cuda_rows8 x8;
    float *out;
    int32_t tokens, reserved;
} sl_linear_plain;

/* One row with a large matrix of q8.  Shared memory: two stages of every warp; x. */
enum {
    SL_STREAM_WARPS = 12,
    SL_STREAM_BLOCKS = 8, /* of a panel, in a stage */
    SL_STREAM_BLOCK_BYTES = 64 + 2 * 512,
    SL_STREAM_STAGE_BYTES = SL_STREAM_BLOCKS * SL_STREAM_BLOCK_BYTES,
    SL_STREAM_GROUP_BYTES = 3 * 32 + 4 /* of x */
};
typedef struct {
    sl_cuda_panels w;
    const float *x;
    float *out;
    int32_t panels, stages; /* stages: of a panel */
} sl_linear_stream;

/* Of sums that lie in memory: the first two outs of `finish` are read, `out` or codes written. */
typedef struct {
    sl_linear_finish finish;
    float *out;
    int32_t rows, tokens;
} sl_linear_after;
#endif
