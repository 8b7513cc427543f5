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

/* Heads x[T,heads,D] unchanged, or rotated by tables [T,1,C]. */
static inline sl_head_change heads_of(const sl_type *x) {
    return (sl_head_change){.heads = (int32_t)dim(x, 1), .width = (int32_t)dim(x, 2)};
}
static inline sl_head_change turned(const sl_type *x, const sl_cview *cos, const sl_cview *sin,
                                    uint32_t rotary) {
    sl_head_change change = heads_of(x);
    change.cosines = cos->data;
    change.sines = sin->data;
    change.columns = (int32_t)last_dim(&cos->type);
    change.half = rotary ? (int32_t)(rotary / 2) : change.columns;
    return change;
}

static inline void add_rope(sl_gpu_planner *planner, sl_head_change change, const sl_cview *x,
                            const sl_view *out) {
    const sl_rope_heads launch = {
        .change = change, .x = x->data, .out = out->data, .rows = (int32_t)dim(&x->type, 0)};
    ADD_WARPS(planner, SL_CUDA_FN(sl_rope), (int64_t)launch.rows * change.heads, launch);
}
#endif
