/* moe.h - Arguments of the kernels in moe.cu, moe_pairs.cu and moe_tiles.cu.
 *
 * A pair is a token with one of its experts.  Pairs are sorted by expert: `order` has the pair at
 * each index, `starts` the first index of each expert. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_H
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/panel.h"
#include "runtime/gpu/fault.h"

/* Places [first, first + count), all of one expert that is on the device; count 0: nothing. */
typedef struct {
    int32_t expert, first, count, reserved;
} sl_moe_tile;

/* Where places and experts are found. */
typedef struct {
    const int32_t *order, *starts;
    const void *const *table; /* addresses by expert; 0: not here */
    sl_fault *fault;
    int32_t experts, pairs, k, reserved;
} sl_moe_places;

typedef struct {
    sl_moe_places places;
    sl_moe_tile *tiles;
    int32_t tile_count, tile_pairs; /* tiles there is room for; places in one, at most */
} sl_moe_cut;

/* One matrix of each tile's expert times rows of f32 or, where x is NULL, of a8.  Places take the
 * row of their token and give the row of the place, or the other way round: row of the place in,
 * row of the pair out. */
typedef struct {
    sl_moe_places places;
    const sl_moe_tile *tiles;
    const float *x;
    sl_cuda_rows8 x8;
    sl_cuda_panels w;  /* data: unset; of plain types rows and cols alone */
    uint64_t offset;   /* of the matrix in an expert */
    const float *bias; /* [experts, rows of w], or NULL */
    float *out;
    int32_t into, reserved; /* 1: rows of tokens in, 0: rows of pairs out */
} sl_moe_plain;

/* What goes into down: silu(gate) * up, or where there is a limit
 * (up + 1) * gate * sigmoid(alpha * gate) of what is cut off there. */
typedef struct {
    float limit, alpha; /* limit 0: none */
} sl_moe_act;

/* gate becomes what goes into down, rounded as if through a8 where `coded`. */
typedef struct {
    float *gate;
    const float *up;
    sl_moe_act act;
    int32_t rows, width, coded, reserved;
} sl_moe_swiglu;

/* Gate and up of an expert are alike; what comes between the projections is a8, by place. */
typedef struct {
    sl_moe_places places;
    const sl_moe_tile *tiles;
    sl_cuda_rows8 x;
    sl_cuda_rows16 halves; /* of tiles: x again */
    sl_cuda_panels w;
    uint64_t gate_offset, up_offset;
    const float *gate_bias, *up_bias; /* [experts, rows of w]; where act has a limit */
    sl_moe_act act;
    sl_cuda_rows8_out mid;
    int32_t depth, reserved; /* pair by pair: blocks that a warp has room for */
} sl_moe_up;
typedef struct {
    sl_moe_places places;
    const sl_moe_tile *tiles;
    sl_cuda_rows8 mid;
    sl_cuda_rows16 halves; /* of tiles: mid again */
    sl_cuda_panels w;
    uint64_t offset;
    const float *bias; /* [experts, rows of w], or NULL */
    float *out;
    int32_t depth, reserved;
} sl_moe_down;

/* Pair by pair: shared memory of a block of weights. */
enum {
    SL_MOE_PANELS = 4,    /* of a block */
    SL_MOE_UP_SHARES = 8, /* warps that a panel is divided among */
    SL_MOE_DOWN_SHARES = 4,
    SL_MOE_DEPTH = 4 /* blocks of weights that a warp can have asked for */
};
#define SL_MOE_STAGED_BYTES(GROUP_BYTES, SUPERS) (224 + 2 * (GROUP_BYTES) + ((SUPERS) ? 64 : 16))
#endif
