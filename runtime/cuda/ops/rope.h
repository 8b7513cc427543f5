/* rope.h - Launches with one warp per head. */
#ifndef SL_RUNTIME_CUDA_OPS_ROPE_H
#define SL_RUNTIME_CUDA_OPS_ROPE_H
#include "runtime/cuda/kernels/rope.h"
#include "runtime/cuda/ops/ops.h"

enum { HEADS_PER_BLOCK = 4 };

/* A launch of WARPS warps, one per head. */
#define ADD_WARPS(PLANNER, FN, WARPS, ARGS)                                                        \
    SL_CUDA_ADD((PLANNER), FN, parts_of((WARPS), HEADS_PER_BLOCK), HEADS_PER_BLOCK *SL_CUDA_WARP,  \
                (ARGS))

/* Heads x [T,heads,D] unchanged, or rotated by a table [T,R]. */
static inline sl_head_change heads_of(const sl_type *x) {
    return (sl_head_change){.heads = (int32_t)dim(x, 1), .width = (int32_t)dim(x, 2)};
}
static inline sl_head_change turned(const sl_type *x, const sl_cview *table, uint32_t interleaved) {
    sl_head_change change = heads_of(x);
    change.interleaved = (int32_t)interleaved;
    change.table = table->data;
    change.half = (int32_t)(dim(&table->type, 1) / 2);
    return change;
}
#endif
