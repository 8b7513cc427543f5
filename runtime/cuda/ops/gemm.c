/* gemm.c - Products on tensor cores. */
#include "runtime/cuda/ops/gemm.h"
#include "runtime/cuda/kernels/gemm.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

enum { BLOCKS_ENOUGH = 2 }; /* of wide tiles, for each multiprocessor */

static const struct {
    const char *wide, *narrow;
    uint32_t halves;
} names[SL_DTYPE_COUNT] = {
#define NAMES(TYPE, THREADS, HALVES)                                                               \
    [SL_DTYPE_##TYPE] = {"sl_gemm_wide_" #TYPE, "sl_gemm_narrow_" #TYPE, HALVES},
    SL_PANEL_TYPES(NAMES)};

static uint32_t shared_bytes(sl_dtype dtype, uint32_t panels) {
    const uint32_t group_bytes = (uint32_t)sl_panel_layout_of(dtype, 1, 1).group_bytes;
    return SL_GEMM_SHARED_BYTES(panels, group_bytes, names[dtype].halves);
}
uint32_t sl_cuda_gemm_shared(sl_dtype dtype) {
    return shared_bytes(dtype, SL_GEMM_WIDE);
}

bool sl_cuda_gemm_reaches(const sl_type *x) {
    return sl_rows_layout_of(x).scales < UINT32_MAX;
}

bool sl_cuda_gemm_a8(sl_cuda_planner *planner, const sl_cview *x, const sl_cview *w, float *out,
                     int64_t out_stride) {
    const int64_t tokens = rows_of(&x->type);
    if (x->type.dtype != SL_DTYPE_a8 || !names[w->type.dtype].wide ||
        !sl_cuda_gemm_reaches(&x->type))
        return false;
    const sl_gemm_rows launch = {.x = rows8_of(x),
                                 .w = panels_of(w),
                                 .out = out,
                                 .out_stride = out_stride,
                                 .tokens = (int32_t)tokens};
    const int64_t tiles = parts_of(tokens, SL_GEMM_TOKENS);
    const int64_t wide = parts_of(launch.w.rows, (int64_t)SL_GEMM_WIDE * SL_PANEL_ROWS);
    const bool narrow = wide * tiles < (int64_t)BLOCKS_ENOUGH * planner->multiprocessors;
    const uint32_t panels = narrow ? SL_GEMM_NARROW : SL_GEMM_WIDE;
    sl_cuda_launch *added =
        SL_CUDA_ADD(planner, narrow ? names[w->type.dtype].narrow : names[w->type.dtype].wide,
                    parts_of(launch.w.rows, (int64_t)panels * SL_PANEL_ROWS),
                    SL_GEMM_WARPS * SL_CUDA_WARP, launch);
    added->grid[1] = (uint32_t)tiles;
    added->shared_bytes = shared_bytes(w->type.dtype, panels);
    return true;
}
