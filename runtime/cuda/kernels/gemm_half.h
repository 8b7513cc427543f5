/* gemm_half.h - Arguments of the kernels in gemm_half.cu, and the shape of their tiles. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_H
#define SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_HALF_WARPS = 4,
    SL_HALF_PANELS = 8, /* of a tile: two for each of four warps */
    SL_HALF_TOKENS = 128,
    SL_HALF_GROUPS = 2,   /* of a stage: a block of panels */
    SL_HALF_STAGES = 4,
    SL_HALF_SHIFT = 8, /* weights are multiplied with 2^this, so that small ones are normal halves */
};
/* Shared memory of a stage: blocks of panels and what is above them, halves of tokens. */
#define SL_HALF_STAGE_BYTES(GROUP_BYTES)                                                           \
    (SL_HALF_PANELS * (64 + SL_HALF_GROUPS * (GROUP_BYTES) + 64) +                                 \
     SL_HALF_TOKENS * SL_HALF_GROUPS * 64)

/* Rows of a8 as halves, each divided by a power of two of its own, so that none overflows;
 * factors: these, and the inverse of what weights are multiplied with. */
typedef struct {
    sl_cuda_rows8 x;
    uint16_t *halves; /* [tokens, groups * 32] */
    float *factors;   /* [tokens] */
    int32_t tokens;
} sl_to_halves;

/* out[t, r] = factors[t] (x[t] . w[r]), as in sl_gemm_rows. */
typedef struct {
    const uint16_t *x;
    const float *factors;
    sl_cuda_panels w;
    float *out;
    int64_t out_stride;
    int32_t tokens, part_groups;
} sl_gemm_halves;
#endif
