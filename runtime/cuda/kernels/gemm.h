/* gemm.h - Arguments of the kernels in gemm.cu, and the shape of a tile (gemm.cuh). */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_H
#define SL_RUNTIME_CUDA_KERNELS_GEMM_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_GEMM_WARPS = 4,
    SL_GEMM_WIDE = 2 * SL_GEMM_WARPS, /* panels of a tile: two for each warp, */
    SL_GEMM_NARROW = 2,               /* or two for all, which then take a group each */
    SL_GEMM_TOKENS = 64,
    SL_GEMM_GROUPS = SL_GEMM_WARPS, /* of a stage */
    SL_GEMM_STAGES = 3,
    SL_GEMM_PITCH = 160, /* bytes from a token's codes to the next's: in different banks */
    SL_GEMM_PARAM_PITCH = SL_GEMM_TOKENS + 8 /* floats from a group's parameters to the next's */
};
/* Shared memory of a stage (weights; codes and parameters of tokens), then of the parameters of
 * rows and of which tokens there are. */
#define SL_GEMM_STAGE_BYTES(PANELS, GROUP_BYTES)                                                   \
    ((PANELS) * (SL_GEMM_GROUPS / 2 * (64 + 2 * (GROUP_BYTES)) + 64) +                             \
     SL_GEMM_TOKENS * SL_GEMM_PITCH + 3 * SL_GEMM_GROUPS * SL_GEMM_PARAM_PITCH * 4)
#define SL_GEMM_SHARED_BYTES(PANELS, GROUP_BYTES, HALVES)                                          \
    (SL_GEMM_STAGES * SL_GEMM_STAGE_BYTES(PANELS, GROUP_BYTES) +                                   \
     (1 + (HALVES)) * (PANELS)*16 * SL_GEMM_GROUPS * 8 + SL_GEMM_TOKENS * 4)

/* out[t, r] = x[t] . w[r]; or of every `part_groups` groups by themselves, one part of `tokens`
 * rows after another. */
typedef struct {
    sl_cuda_rows8 x;
    sl_cuda_panels w;
    float *out;
    int64_t out_stride;
    int32_t tokens, part_groups;
} sl_gemm_rows;
#endif
