/* gemm_half.h - Arguments of the kernels in gemm_half.cu, and the shape of a tile. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_H
#define SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_HALF_WARPS = 4,
    SL_HALF_PANELS = 2 * SL_HALF_WARPS, /* of a tile: two for each warp */
    /* Tokens of a tile, groups of a stage, stages, and blocks on a multiprocessor, which bounds
     * their registers; of tiles of few tokens the same. */
    SL_HALF_TOKENS = 128,
    SL_HALF_GROUPS = 2,
    SL_HALF_STAGES = 4,
    SL_HALF_RESIDENT = 2,
    SL_HALF_FEW_TOKENS = 32,
    SL_HALF_FEW_GROUPS = 4,
    SL_HALF_FEW_STAGES = 3,
    SL_HALF_FEW_RESIDENT = 4,
    SL_HALF_SHIFT = 5 /* weights are multiplied with 2^this, so that small ones are normal halves */
};
/* Shared memory of all stages (blocks of panels and what is above them, halves of tokens), and of
 * which tokens there are. */
#define SL_HALF_BYTES(TOKENS, GROUPS, STAGES, GROUP_BYTES)                                         \
    ((STAGES) * (SL_HALF_PANELS * ((GROUPS) / 2 * (64 + 2 * (GROUP_BYTES)) + 64) +                 \
                 (TOKENS) * (GROUPS)*64) +                                                         \
     (TOKENS)*4)

/* Rows of halves: each divided by a power of two of its own, so that none overflows; factors:
 * these, and the inverse of what weights are multiplied with. */
typedef struct {
    const uint16_t *data; /* [rows, groups * 32] */
    const float *factors; /* [rows] */
} sl_cuda_rows16;

/* Rows of a8 as such. */
typedef struct {
    sl_cuda_rows8 x;
    uint16_t *halves;
    float *factors;
} sl_to_halves;

/* out[t, r] = x[t] . w[r]; or of every `part_groups` groups by themselves, as in sl_gemm_rows. */
typedef struct {
    sl_cuda_rows16 x;
    sl_cuda_panels w;
    float *out;
    int64_t out_stride;
    int32_t tokens, part_groups;
} sl_gemm_halves;
#endif
