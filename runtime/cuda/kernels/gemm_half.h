/* gemm_half.h - Arguments of the kernels in gemm_half.cu, and the shape of a tile. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_H
#define SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_HALF_WARPS = 4,
    SL_HALF_PANELS = 2 * SL_HALF_WARPS, /* per tile: two per warp */
    /* Tokens per tile, groups per stage, number of stages, and resident blocks per multiprocessor,
     * which limits the registers; then the same for tiles of few tokens. */
    SL_HALF_TOKENS = 128,
    SL_HALF_GROUPS = 2,
    SL_HALF_STAGES = 4,
    SL_HALF_RESIDENT = 2,
    SL_HALF_FEW_TOKENS = 32,
    SL_HALF_FEW_GROUPS = 4,
    SL_HALF_FEW_STAGES = 3,
    SL_HALF_FEW_RESIDENT = 4,
    SL_HALF_SHIFT = 5 /* weights are scaled by 2^this so that small ones are not subnormal */
};
/* Bytes of shared memory: of all stages (blocks of panels, parameters of super-groups, tokens in
 * f16), and of the indices of tokens. */
#define SL_HALF_BYTES(TOKENS, GROUPS, STAGES, GROUP_BYTES)                                         \
    ((STAGES) * (SL_HALF_PANELS * ((GROUPS) / 2 * (64 + 2 * (GROUP_BYTES)) + 64) +                 \
                 (TOKENS) * (GROUPS)*64) +                                                         \
     (TOKENS)*4)

/* Rows in f16, each divided by a power of two of its own so that nothing overflows.  factors: what
 * a row's products are multiplied with, this power of two times 2^-SL_HALF_SHIFT. */
typedef struct {
    const uint16_t *data; /* [rows, groups * 32] */
    const float *factors; /* [rows] */
} sl_cuda_rows16;

/* Converts a8 rows to sl_cuda_rows16. */
typedef struct {
    sl_cuda_rows8 x;
    uint16_t *halves;
    float *factors;
} sl_to_halves;

/* out[t, r] = x[t] . w[r], with split-K as in sl_gemm_rows. */
typedef struct {
    sl_cuda_rows16 x;
    sl_cuda_panels w;
    float *out;
    int64_t out_stride;
    int32_t tokens, part_groups;
} sl_gemm_halves;
#endif
