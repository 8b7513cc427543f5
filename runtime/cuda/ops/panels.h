/* panels.h - Views of panels and of a8 as kernel arguments. */
#ifndef SL_RUNTIME_CUDA_OPS_PANELS_H
#define SL_RUNTIME_CUDA_OPS_PANELS_H
#include "core/codec.h"
#include "runtime/cuda/kernels/panel.h"

static inline sl_cuda_panels panels_at(sl_dtype dtype, const void *data, int64_t rows,
                                       int64_t cols) {
    const sl_panel_layout l = sl_panel_layout_of(dtype, rows, cols);
    return (sl_cuda_panels){.data = data,
                            .rows = (int32_t)rows,
                            .cols = (int32_t)cols,
                            .groups = (int32_t)l.groups,
                            .supers = (int32_t)l.supers,
                            .super_bytes = (uint32_t)l.super_bytes,
                            .param_bytes = (uint32_t)l.param_bytes,
                            .group_bytes = (uint32_t)l.group_bytes,
                            .block_bytes = (uint32_t)l.block_bytes,
                            .header_bytes = l.header_bytes,
                            .panel_bytes = l.panel_bytes};
}
static inline sl_cuda_panels panels_of(const sl_cview *w) {
    return panels_at(w->type.dtype, w->data, w->type.shape.dims[0], w->type.shape.dims[1]);
}

static inline sl_cuda_rows8_out rows8_at(void *data, const sl_type *type) {
    const sl_rows_layout l = sl_rows_layout_of(type);
    char *base = data;
    return (sl_cuda_rows8_out){.codes = (int8_t *)base,
                               .scales = (float *)(void *)(base + l.scales),
                               .sums = (float *)(void *)(base + l.sums),
                               .halves = (float *)(void *)(base + l.halves),
                               .groups = (int32_t)l.groups};
}
static inline sl_cuda_rows8 rows8_of(const sl_cview *x) {
    const sl_cuda_rows8_out r = rows8_at((void *)(uintptr_t)x->data, &x->type);
    return (sl_cuda_rows8){r.codes, r.scales, r.sums, r.halves, r.groups, 0};
}

#endif
