/* gemm.h - Arguments of the kernels in gemm.cu, and the shape of a tile (gemm.cuh). */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_H
#define SL_RUNTIME_CUDA_KERNELS_GEMM_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_GEMM_WARPS = 4,
    SL_GEMM_WIDE = 2 * SL_GEMM_WARPS, /* panels per tile: two per warp */
    SL_GEMM_NARROW = 2,               /* or two in all, of which each warp takes a group */
    SL_GEMM_TOKENS = 64,
    SL_GEMM_GROUPS = SL_GEMM_WARPS, /* per stage */
    SL_GEMM_STAGES = 3,
    SL_GEMM_PITCH = 160, /* bytes per token's codes, padded against bank conflicts */
    SL_GEMM_PARAM_PITCH = SL_GEMM_TOKENS + 8 /* floats per group's parameters, likewise */
};
/* Bytes of shared memory: of a stage (weights; codes and parameters of tokens); and of all stages,
 * the parameters of rows and the indices of tokens. */
#define SL_GEMM_STAGE_BYTES(PANELS, GROUP_BYTES)                                                   \
    ((PANELS) * (SL_GEMM_GROUPS / 2 * (64 + 2 * (GROUP_BYTES)) + 64) +                             \
     SL_GEMM_TOKENS * SL_GEMM_PITCH + 3 * SL_GEMM_GROUPS * SL_GEMM_PARAM_PITCH * 4)
#define SL_GEMM_SHARED_BYTES(PANELS, GROUP_BYTES, HALVES)                                          \
    (SL_GEMM_STAGES * SL_GEMM_STAGE_BYTES(PANELS, GROUP_BYTES) +                                   \
     (1 + (HALVES)) * (PANELS)*16 * SL_GEMM_GROUPS * 8 + SL_GEMM_TOKENS * 4)

/* out[t, r] = x[t] . w[r].  With split-K, every part of `part_groups` groups has its own output:
 * out[part, t, r]. */
typedef struct {
    sl_cuda_rows8 x;
    sl_cuda_panels w;
    float *out;
    int64_t out_stride;
    int32_t tokens, part_groups;
} sl_gemm_rows;
#endif
