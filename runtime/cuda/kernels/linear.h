/* linear.h - Arguments of the kernels for products of activations with weights (linear_*.cu). */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_H
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_LINEAR_WEIGHTS = 3,
    SL_LINEAR_TOKENS = 8,     /* per block, which reads weights once for all of them */
    SL_LINEAR_SPLIT = 16,     /* maximum number of warps that share a unit */
    SL_LINEAR_DENSE_ROWS = 4, /* rows per unit of dense weights; with panels, a unit is a panel */
    SL_LINEAR_BATCH = 4,      /* groups that a warp loads at a time */
    SL_TILE_ROWS = 64,
    SL_TILE_TOKENS = 64
};

/* The epilogue. */
enum {
    SL_FINISH_STORE,
    SL_FINISH_BIAS,    /* act(sum + bias) */
    SL_FINISH_SWIGLU,  /* silu(first weight's sum) * second weight's sum */
    SL_FINISH_QUANTISE /* the same, quantised to a8 */
};
typedef struct {
    int32_t kind, act;
    const float *bias;
    float *out[SL_LINEAR_WEIGHTS]; /* [tokens, rows of the weight] */
    sl_cuda_rows8_out codes;
} sl_linear_finish;

/* How units (a panel, or some rows of dense weights) are divided among blocks and warps.  A task is
 * what a block does at a time: `units` units, each shared by `split` warps.  The units of all
 * weights are numbered consecutively; if the epilogue combines two weights, a task has units / 2 of
 * each. */
typedef struct {
    int32_t weights, units, split, tasks;
    int32_t first[SL_LINEAR_WEIGHTS + 1]; /* first unit of each weight, then their number */
    int32_t rows[SL_LINEAR_WEIGHTS];
    int32_t tokens;
} sl_linear_division;

/* Few tokens with panel weights.  Shared memory: x, `slab` groups at a time, in x_bytes; then the
 * partial sums of every warp. */
typedef struct {
    sl_cuda_panels w[SL_LINEAR_WEIGHTS];
    sl_linear_finish finish;
    sl_linear_division d;
    int32_t slab, x_bytes;
    const float *x;
    sl_cuda_rows8 x8;
} sl_linear_panels;

/* Few tokens with dense weights.  Shared memory: the partial sums of every warp. */
typedef struct {
    const void *w[SL_LINEAR_WEIGHTS];
    sl_linear_finish finish;
    sl_linear_division d;
    int32_t cols;
    const float *x;
} sl_linear_dense;

/* Many tokens with one weight, panels or dense. */
typedef struct {
    sl_cuda_panels panels;
    const void *w;
    const float *x;
    float *out;
    int64_t out_stride;
    int32_t rows, cols, tokens;
    int32_t wide;        /* rows of dense weights are aligned for 16-byte loads */
    int32_t part_groups; /* split-K, panels and bf16 only: groups per part; out[part, t, r] */
} sl_linear_tile;

/* Split-K reduction: out[i] = the sum over p of parts[p * count + i], in order. */
typedef struct {
    const float *parts;
    float *out;
    int64_t count;
    int32_t part_count;
    int32_t four; /* count is a multiple of 4, addresses are 16-byte aligned */
} sl_linear_parts;

/* Any number of tokens with a weight whose panel type has no other kernel. */
typedef struct {
    sl_cuda_panels w;
    const float *x; /* NULL: x8 */
    sl_cuda_rows8 x8;
    float *out;
    int32_t tokens, reserved;
} sl_linear_plain;

/* One row with a large q8 matrix.  Shared memory: two stages per warp; x. */
enum {
    SL_STREAM_WARPS = 12,
    SL_STREAM_BLOCKS = 8, /* of a panel, per stage */
    SL_STREAM_BLOCK_BYTES = 64 + 2 * 512,
    SL_STREAM_STAGE_BYTES = SL_STREAM_BLOCKS * SL_STREAM_BLOCK_BYTES,
    SL_STREAM_GROUP_BYTES = 3 * 32 + 4 /* of x: three byte planes, a scale */
};
typedef struct {
    sl_cuda_panels w;
    const float *x;
    float *out;
    int32_t panels, stages; /* stages: per panel */
} sl_linear_stream;

/* The epilogue as a kernel of its own: reads sums from finish.out[0] and, if it combines two
 * weights, finish.out[1]; writes `out` or finish.codes. */
typedef struct {
    sl_linear_finish finish;
    float *out;
    int32_t rows, tokens;
} sl_linear_after;
#endif
