/* gemm.c - Matrix products on tensor cores. */
#include "runtime/cuda/ops/gemm.h"
#include "runtime/cuda/kernels/gemm.h"
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

/* Whether half groups have scales of their own. */
static uint32_t has_halves(sl_dtype dtype) {
#define HALVES(TYPE, THREADS, HALVES) [SL_DTYPE_##TYPE] = (HALVES),
    static const uint32_t halves[SL_DTYPE_COUNT] = {SL_PANEL_TYPES(HALVES)};
    return halves[dtype];
}

static uint32_t group_bytes(sl_dtype dtype) {
    return (uint32_t)sl_panel_layout_of(dtype, 1, 1).group_bytes;
}
uint32_t sl_cuda_halves_shared(sl_dtype dtype, bool few) {
    const uint32_t each = group_bytes(dtype);
    return few ? SL_HALF_BYTES(SL_HALF_FEW_TOKENS, SL_HALF_FEW_GROUPS, SL_HALF_FEW_STAGES, each)
               : SL_HALF_BYTES(SL_HALF_TOKENS, SL_HALF_GROUPS, SL_HALF_STAGES, each);
}

bool sl_cuda_gemm_reaches(const sl_type *x) {
    return sl_rows_layout_of(x).scales < UINT32_MAX;
}

/* ---- split-K ---- */

int64_t sl_cuda_column_parts(int64_t tiles, int64_t blocks, int64_t groups, int64_t least_groups,
                             int32_t *out_groups) {
    int64_t parts = least(blocks / (tiles > 0 ? tiles : 1), groups / least_groups);
    if (parts < 1) parts = 1;
    const int64_t each = parts_of(parts_of(groups, parts), SL_GEMM_GROUPS) * SL_GEMM_GROUPS;
    *out_groups = (int32_t)each;
    return parts_of(groups, each);
}

float *sl_cuda_parts_room(sl_gpu_planner *planner, int64_t parts, int64_t count, float *out) {
    if (parts == 1) return out;
    return sl_gpu_scratch(planner, (uint64_t)(parts * count) * sizeof(float));
}

void sl_cuda_add_parts(sl_gpu_planner *planner, const float *sums, int64_t parts, int64_t count,
                       float *out) {
    enum { THREADS = 256 };
    if (parts == 1) return;
    const bool four = count % 4 == 0 && (uintptr_t)out % 16 == 0;
    const sl_linear_parts launch = {
        .parts = sums, .out = out, .count = count, .part_count = (int32_t)parts, .four = four};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_linear_sum_parts),
                parts_of(four ? count / 4 : count, THREADS), THREADS, launch);
}

/* ---- f16 tiles ---- */

sl_cuda_rows16 sl_cuda_as_halves(sl_gpu_planner *planner, sl_cuda_rows8 x, int64_t rows) {
    enum { THREADS = 128 };
    for (uint32_t i = 0; i < planner->count; i++) { /* converted by an earlier launch of the plan */
        const sl_gpu_launch *before = &planner->launches[i];
        if (before->function != SL_FN_sl_rows_to_halves) continue;
        const sl_to_halves *made = SL_CUDA_ARGS(before, sl_rows_to_halves);
        if (made->x.codes == x.codes && x.codes)
            return (sl_cuda_rows16){made->halves, made->factors};
    }
    const uint64_t elements = (uint64_t)rows * (uint64_t)x.groups * SL_GROUP_COLS;
    const sl_to_halves launch = {.x = x,
                                 .halves = sl_gpu_scratch(planner, elements * sizeof(uint16_t)),
                                 .factors =
                                     sl_gpu_scratch(planner, (uint64_t)rows * sizeof(float))};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_rows_to_halves), rows, THREADS, launch);
    return (sl_cuda_rows16){launch.halves, launch.factors};
}

/* False if there are too few tokens for it to pay.  With few rows the tiles have fewer tokens, so
 * that there are more tiles. */
static bool gemm_halves(sl_gpu_planner *planner, const sl_cview *x, const sl_cview *w, float *out) {
    enum { LEAST_TOKENS = 256, MANY_ROWS = 1024 };
    const int64_t tokens = rows_of(&x->type), rows = dim(&w->type, 0);
    const bool few = rows < MANY_ROWS;
    const uint32_t shared = sl_cuda_halves_shared(w->type.dtype, few);
    if (tokens < LEAST_TOKENS || shared > planner->shared_limit) return false;
    sl_gemm_halves launch = {.x = sl_cuda_as_halves(planner, rows8_of(x), tokens),
                             .w = panels_of(w),
                             .out_stride = rows,
                             .tokens = (int32_t)tokens};
    const int64_t tiles = parts_of(tokens, few ? SL_HALF_FEW_TOKENS : SL_HALF_TOKENS);
    const int64_t wide = parts_of(rows, (int64_t)SL_HALF_PANELS * SL_PANEL_ROWS);
    const int64_t blocks =
        (few ? SL_HALF_FEW_RESIDENT : SL_HALF_RESIDENT) * (int64_t)planner->multiprocessors;
    const int64_t parts = sl_cuda_column_parts(wide * tiles, blocks, launch.w.groups, few ? 8 : 16,
                                               &launch.part_groups);
    launch.out = sl_cuda_parts_room(planner, parts, tokens * rows, out);
    const sl_gemm_halves_fn family = few ? SL_CUDA_FN(sl_gemm_few) : SL_CUDA_FN(sl_gemm_many);
    sl_gpu_launch *added = SL_CUDA_ADD(planner, SL_CUDA_FN_OF_TYPE(family, w->type.dtype), wide,
                                       SL_HALF_WARPS * SL_CUDA_WARP, launch);
    added->grid[1] = (uint32_t)tiles;
    added->grid[2] = (uint32_t)parts;
    added->shared_bytes = shared;
    sl_cuda_add_parts(planner, launch.out, parts, tokens * rows, out);
    return true;
}

/* ---- int8 tiles ---- */

/* Wide tiles, with split-K if that gives enough blocks; else narrow ones. */
bool sl_cuda_gemm_a8(sl_gpu_planner *planner, const sl_cview *x, const sl_cview *w, float *out) {
    enum { RESIDENT = 3, LEAST_GROUPS = 4 * SL_GEMM_GROUPS }; /* per multiprocessor; per part */
    const int64_t tokens = rows_of(&x->type);
    if (x->type.dtype != SL_DTYPE_a8 || !sl_cuda_fn_of_type(SL_FN_sl_gemm_wide, w->type.dtype) ||
        !sl_cuda_gemm_reaches(&x->type))
        return false;
    if (gemm_halves(planner, x, w, out)) return true;
    sl_gemm_rows launch = {.x = rows8_of(x), .w = panels_of(w), .tokens = (int32_t)tokens};
    const int64_t rows = launch.w.rows, tiles = parts_of(tokens, SL_GEMM_TOKENS);
    const int64_t wide = parts_of(rows, (int64_t)SL_GEMM_WIDE * SL_PANEL_ROWS);
    const int64_t blocks = planner->multiprocessors;
    int64_t parts = sl_cuda_column_parts(wide * tiles, RESIDENT * blocks, launch.w.groups,
                                         LEAST_GROUPS, &launch.part_groups);
    const bool narrow = wide * tiles * parts < blocks;
    const uint32_t panels = narrow ? SL_GEMM_NARROW : SL_GEMM_WIDE;
    if (narrow) {
        parts = 1;
        launch.part_groups = launch.w.groups;
    }
    launch.out_stride = rows;
    launch.out = sl_cuda_parts_room(planner, parts, tokens * rows, out);
    const sl_gemm_rows_fn family = narrow ? SL_CUDA_FN(sl_gemm_narrow) : SL_CUDA_FN(sl_gemm_wide);
    sl_gpu_launch *added = SL_CUDA_ADD(planner, SL_CUDA_FN_OF_TYPE(family, w->type.dtype),
                                       parts_of(rows, (int64_t)panels * SL_PANEL_ROWS),
                                       SL_GEMM_WARPS * SL_CUDA_WARP, launch);
    added->grid[1] = (uint32_t)tiles;
    added->grid[2] = (uint32_t)parts;
    added->shared_bytes =
        SL_GEMM_SHARED_BYTES(panels, group_bytes(w->type.dtype), has_halves(w->type.dtype));
    sl_cuda_add_parts(planner, launch.out, parts, tokens * rows, out);
    return true;
}
