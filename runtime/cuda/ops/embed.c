/* embed.c - Embedding lookup: rows of a table of any type, as f32. */
#include "runtime/cuda/kernels/embed.h"
#include "runtime/cuda/ops/panels.h"
#include "runtime/cuda/ops/strides.h"

PLAN(embed) {
    const sl_embed_args *a = args;
    const sl_type *type = &a->table.type;
    const sl_lookup_fn function = SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_embed), type->dtype);
    const int64_t rows = dim(type, 0), cols = dim(type, 1), tokens = dim(&a->ids.type, 0);
    const bool panels = sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL;
    if (!function.id || rows > INT32_MAX || cols > INT32_MAX - SL_EMBED_COLS) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_UNSUPPORTED, "%s: embed has no kernel for a table %s",
                       planner->label, sl_type_format(type, text, sizeof text));
    }
    sl_lookup launch = {.table = a->table.data,
                        .ids = a->ids.data,
                        .out = a->out.data,
                        .fault = planner->fault,
                        .rows = (int32_t)rows,
                        .cols = (int32_t)cols};
    if (panels) launch.panels = panels_of(&a->table);
    launch.row_units = (int32_t)parts_of(cols, SL_EMBED_COLS);
    launch.units = tokens * launch.row_units;
    launch.vectors =
        cols % SL_EMBED_COLS == 0 && is_aligned(a->out.data, 16) && is_aligned(a->table.data, 16);
    ADD_PLAIN(planner, function, launch.units, launch);
    return SL_OK;
}
