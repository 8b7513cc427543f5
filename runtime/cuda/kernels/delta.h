/* delta.h - Arguments of the kernels in delta_conv.cu, delta.cu and delta_chunk.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_DELTA_H
#define SL_RUNTIME_CUDA_KERNELS_DELTA_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum { SL_CONV_TAPS = 4, SL_CONV_ROWS = 32 }; /* of the fast kernels; rows of a tile */

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
    SL_DELTA_SIZE = 128,       /* dk that the fast kernels have */
    SL_DELTA_STEP_COLUMNS = 16 /* of the memory, in a block of the fast step */
};

typedef struct {
    const float *q, *k, *v, *decay, *beta;
    const int32_t *slots, *positions;
    float *memory, *out;
    sl_fault *fault;
    int32_t rows, key_heads, heads, dk, dv, slot_count, tiled;
} sl_delta;

/* A step of one row with what comes before it (runtime/cuda/join.h): q and k are as they are before
 * l2_norm; where a is not NULL, decay and beta are made of it and what follows. */
typedef struct {
    sl_delta d;
    float q_eps, q_scale, k_eps, k_scale;
    const float *a, *b, *a_log, *dt_bias;
} sl_delta_joined;

enum {
    SL_DELTA_TILE = 64,   /* rows that are worked on together */
    SL_DELTA_COLUMNS = 32 /* of the memory, in a block that walks over tiles */
};

/* Tiles of rows, whatever their slots; w, p and fades are scratch, by tile and head. */
typedef struct {
    sl_delta d;
    float *w;     /* [tile, dk] */
    float *p;     /* [tile, tile] */
    float *fades; /* [2, tile] */
} sl_delta_tiles;

/* Bytes of dynamic shared memory: rows have a few floats more, so that lanes meet no bank twice. */
enum {
    SL_DELTA_ROW = SL_DELTA_SIZE + 4,      /* rows that lanes take along */
    SL_DELTA_FLAT_ROW = SL_DELTA_SIZE + 8, /* rows that lanes take across */
    SL_DELTA_MIX_ROW = SL_DELTA_TILE + 4,
    SL_DELTA_STRIP_ROW = SL_DELTA_COLUMNS + 8,
    SL_DELTA_PREPARE_BYTES = 4 * SL_DELTA_TILE * (2 * SL_DELTA_ROW + SL_DELTA_MIX_ROW),
    SL_DELTA_WALK_BYTES =
        4 * (SL_DELTA_TILE * (2 * SL_DELTA_ROW + SL_DELTA_FLAT_ROW + SL_DELTA_MIX_ROW) +
             (SL_DELTA_SIZE + 2 * SL_DELTA_TILE) * SL_DELTA_STRIP_ROW)
};
#endif
