/* gemm.c - Products on tensor cores. */
#include "runtime/cuda/ops/gemm.h"
#include "runtime/cuda/kernels/gemm.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

static const char *const names[SL_DTYPE_COUNT] = {
    [SL_DTYPE_q4] = "sl_gemm_q4",     [SL_DTYPE_q8] = "sl_gemm_q8",
    [SL_DTYPE_q4_k] = "sl_gemm_q4_k", [SL_DTYPE_q4_0] = "sl_gemm_q4_0",
    [SL_DTYPE_q6_k] = "sl_gemm_q6_k", [SL_DTYPE_q4_m] = "sl_gemm_q4_m",
};

uint32_t sl_cuda_gemm_shared(sl_dtype dtype) {
    const sl_panel_layout l = sl_panel_layout_of(dtype, 1, 1);
    return (uint32_t)SL_GEMM_SHARED_BYTES(l.group_bytes, dtype == SL_DTYPE_q6_k ? 1 : 0);
}

bool sl_cuda_gemm_reaches(const sl_type *x) {
    return sl_rows_layout_of(x).scales < UINT32_MAX;
}

bool sl_cuda_gemm_a8(sl_cuda_planner *planner, const sl_cview *x, const sl_cview *w, float *out,
                     int64_t out_stride) {
    const int64_t tokens = rows_of(&x->type);
    if (x->type.dtype != SL_DTYPE_a8 || !names[w->type.dtype] || !sl_cuda_gemm_reaches(&x->type))
        return false;
    const sl_gemm_rows launch = {.x = rows8_of(x),
                                 .w = panels_of(w),
                                 .out = out,
                                 .out_stride = out_stride,
                                 .tokens = (int32_t)tokens};
    sl_cuda_launch *added = SL_CUDA_ADD(planner, names[w->type.dtype],
                                        parts_of(launch.w.rows, SL_GEMM_PANELS * SL_PANEL_ROWS),
                                        SL_GEMM_WARPS * SL_CUDA_WARP, launch);
    added->grid[1] = (uint32_t)parts_of(tokens, SL_GEMM_TOKENS);
    added->shared_bytes = sl_cuda_gemm_shared(w->type.dtype);
    return true;
}
