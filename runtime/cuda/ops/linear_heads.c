/* linear_heads.c - A matrix product per head. */
#include "runtime/cuda/kernels/linear_heads.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

PLAN(linear_heads) {
    const sl_linear_heads_args *a = args;
    const sl_type *w = &a->w.type;
    const sl_linear_by_head_fn function = SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_linear_heads), w->dtype);
    const bool panel = sl_dtype_infos[w->dtype].kind == SL_KIND_PANEL;
    if (!function.id)
        return sl_fail(err, SL_UNSUPPORTED, "%s: weights of type %s cannot be run on CUDA",
                       planner->label, sl_dtype_infos[w->dtype].name);
    const int64_t heads = dim(w, 0), rows = dim(w, 1), cols = dim(w, 2),
                  tokens = dim(&a->x.type, 0);
    const int64_t row_bytes = cols * (panel ? 4 : (int64_t)sl_dtype_infos[w->dtype].bytes);
    sl_linear_by_head launch = {.x = a->x.data,
                                .out = a->out.data,
                                .w = a->w.data,
                                .matrix_bytes = sl_type_bytes(w) / (uint64_t)heads,
                                .tokens = (int32_t)tokens,
                                .heads = (int32_t)heads,
                                .rows = (int32_t)rows,
                                .cols = (int32_t)cols};
    const uintptr_t places = (uintptr_t)a->x.data | (uintptr_t)a->w.data;
    launch.wide = (places | (uintptr_t)(cols * 4) | (uintptr_t)row_bytes) % 16 == 0;
    if (panel) launch.panels = panels_at(w->dtype, a->w.data, rows, cols);
    sl_gpu_launch *l = SL_CUDA_ADD(planner, function, parts_of(rows, SL_HEADS_ROWS),
                                   SL_HEADS_WARPS * SL_CUDA_WARP, launch);
    l->grid[1] = (uint32_t)heads;
    l->grid[2] = (uint32_t)parts_of(tokens, SL_HEADS_TOKENS);
    return SL_OK;
}
