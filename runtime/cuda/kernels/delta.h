/* delta.h - Arguments of the kernels in delta_conv.cu, delta.cu and delta_chunk.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_DELTA_H
#define SL_RUNTIME_CUDA_KERNELS_DELTA_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum { SL_CONV_TAPS = 4, SL_CONV_ROWS = 32 }; /* taps of the fast kernels; rows per tile */

typedef struct {
    const float *x, *w;
    const int32_t *slots, *positions;
    float *window, *out;
    sl_fault *fault;
    int32_t rows, channels, taps, slot_count;
} sl_conv;

typedef struct {
    const float *a, *b, *a_log, *dt_bias;
    float *decay, *beta;
    int64_t count;
    int32_t heads;
} sl_decay;

enum {
    SL_DELTA_SIZE = 128,       /* dk of the fast kernels */
    SL_DELTA_STEP_COLUMNS = 16 /* columns of the memory per block of sl_delta_step */
};

typedef struct {
    const float *q, *k, *v, *decay, *beta;
    const int32_t *slots, *positions;
    float *memory, *out;
    sl_fault *fault;
    int32_t rows, key_heads, heads, dk, dv, slot_count, tiled;
} sl_delta;

/* The recurrence of one row, fused with the ops before it (runtime/cuda/join.h): q and k are the
 * inputs of l2_norm; if a is not NULL, decay and beta are computed from a, b, a_log and dt_bias. */
typedef struct {
    sl_delta d;
    float q_eps, q_scale, k_eps, k_scale;
    const float *a, *b, *a_log, *dt_bias;
} sl_delta_joined;

enum {
    SL_DELTA_TILE = 64,   /* rows per tile, the chunk size of the chunked recurrence */
    SL_DELTA_COLUMNS = 32 /* columns of the memory per block of sl_delta_walk */
};

/* Rows are cut into tiles regardless of their slots.  w, p and fades are scratch, indexed by tile
 * and head (delta_chunk.cu). */
typedef struct {
    sl_delta d;
    float *w;     /* [tile, dk] */
    float *p;     /* [tile, tile] */
    float *fades; /* [2, tile]: e^G, e^(G_last - G) */
} sl_delta_tiles;

/* Dynamic shared memory of delta_chunk.cu: pitches in floats, padded to avoid bank conflicts, and
 * total bytes. */
enum {
    SL_DELTA_ROW = SL_DELTA_SIZE + 4,      /* a warp reads 8 rows by 4 columns at a time */
    SL_DELTA_FLAT_ROW = SL_DELTA_SIZE + 8, /* a warp reads 4 rows by 8 columns at a time */
    SL_DELTA_MIX_ROW = SL_DELTA_TILE + 4,
    SL_DELTA_STRIP_ROW = SL_DELTA_COLUMNS + 8,
    SL_DELTA_PREPARE_BYTES = 4 * SL_DELTA_TILE * (2 * SL_DELTA_ROW + SL_DELTA_MIX_ROW),
    SL_DELTA_WALK_BYTES =
        4 * (SL_DELTA_TILE * (2 * SL_DELTA_ROW + SL_DELTA_FLAT_ROW + SL_DELTA_MIX_ROW) +
             (SL_DELTA_SIZE + 2 * SL_DELTA_TILE) * SL_DELTA_STRIP_ROW)
};
#endif
