/* moe.h - Arguments of the kernels in moe.cu, moe_pairs.cu and moe_tiles.cu.
 *
 * A pair is a token with one of its experts.  Pairs are sorted by expert; a place is an index in
 * that order: `order` has the pair at each place, `starts` the first place of each expert. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_H
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/panel.h"
#include "runtime/gpu/fault.h"

/* Places [first, first + count), all of one expert that is on the device; count 0: empty. */
typedef struct {
    int32_t expert, first, count, reserved;
} sl_moe_tile;

/* The sorted pairs, and the addresses of the experts. */
typedef struct {
    const int32_t *order, *starts;
    const void *const *table; /* [experts]; NULL: not on the device */
    sl_fault *fault;
    int32_t experts, pairs, k, reserved;
} sl_moe_places;

typedef struct {
    sl_moe_places places;
    sl_moe_tile *tiles;
    int32_t tile_count, tile_pairs; /* capacity of `tiles`; places per tile, at most */
} sl_moe_cut;

/* One matrix of each tile's expert times rows of f32 or, where x is NULL, of a8.  `into` selects
 * the projection: 1 reads the row of the place's token and writes the row of the place, 0 reads the
 * row of the place and writes the row of its pair. */
typedef struct {
    sl_moe_places places;
    const sl_moe_tile *tiles;
    const float *x;
    sl_cuda_rows8 x8;
    sl_cuda_panels w;  /* data unset; for plain float types only rows and cols */
    uint64_t offset;   /* bytes from the start of the expert */
    const float *bias; /* [experts, rows of w], or NULL */
    float *out;
    int32_t into, reserved; /* 1: gate and up, 0: down */
} sl_moe_plain;

/* The activation between the projections: silu(gate) * up or, with a limit, (up + 1) * gate *
 * sigmoid(alpha * gate) with gate and up clamped to the limit. */
typedef struct {
    float limit, alpha; /* limit 0: none */
} sl_moe_act;

/* Applies the activation in place to `gate`; if `coded`, rounds the result as a8 would. */
typedef struct {
    float *gate;
    const float *up;
    sl_moe_act act;
    int32_t rows, width, coded, reserved;
} sl_moe_swiglu;

/* Gate and up have the same shape and type; the activations between the projections are a8, one row
 * per place. */
typedef struct {
    sl_moe_places places;
    const sl_moe_tile *tiles;
    sl_cuda_rows8 x;
    sl_cuda_rows16 halves; /* for tiles: x in f16 */
    sl_cuda_panels w;
    uint64_t gate_offset, up_offset;
    const float *gate_bias, *up_bias; /* [experts, rows of w]; read where act has a limit */
    sl_moe_act act;
    sl_cuda_rows8_out mid;
    int32_t depth, reserved; /* for pairs: blocks per warp that fit in shared memory */
} sl_moe_up;
typedef struct {
    sl_moe_places places;
    const sl_moe_tile *tiles;
    sl_cuda_rows8 mid;
    sl_cuda_rows16 halves; /* for tiles: mid in f16 */
    sl_cuda_panels w;
    uint64_t offset;
    const float *bias; /* [experts, rows of w], or NULL */
    float *out;
    int32_t depth, reserved;
} sl_moe_down;

/* For pairs (moe_pairs.cu); SL_MOE_STAGED_BYTES is the shared memory of one block of weights. */
enum {
    SL_MOE_PANELS = 4,    /* per thread block */
    SL_MOE_UP_SHARES = 8, /* warps that divide the K dimension of a panel */
    SL_MOE_DOWN_SHARES = 4,
    SL_MOE_DEPTH = 4 /* blocks of weights that a warp may have in flight */
};
#define SL_MOE_STAGED_BYTES(GROUP_BYTES, SUPERS) (224 + 2 * (GROUP_BYTES) + ((SUPERS) ? 64 : 16))
#endif
