/* moe.c - Experts.
 *
 * With f32 activations, plain weight types or mixed types, matrix by matrix.  With a8 activations
 * and panels: pair by pair if there are few or the order of sums must not depend on their number,
 * otherwise by tiles on tensor cores. */
#include "runtime/cuda/kernels/moe.h"
#include "runtime/cuda/ops/gemm.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

/* An op that runs experts; biases are NULL if there are none, and limit 0 means none. */
typedef struct {
    const sl_cview *x, *order, *starts;
    const sl_view *out;
    const sl_type *matrices; /* [experts, width, hidden] */
    uint32_t k;
    const float *gate_bias, *up_bias, *down_bias;
    sl_moe_act act;
} ffn_op;

typedef struct {
    const ffn_op *op;
    sl_gpu_planner *planner;
    sl_moe_places places;
    int64_t hidden, width;
} ffn;

static bool is_panel(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_PANEL;
}

static ffn ffn_of(const ffn_op *op, sl_gpu_planner *planner) {
    return (ffn){.op = op,
                 .planner = planner,
                 .places = {.order = op->order->data,
                            .starts = op->starts->data,
                            .table = planner->places.table,
                            .fault = planner->fault,
                            .experts = (int32_t)dim(op->matrices, 0),
                            .pairs = (int32_t)dim(&op->order->type, 0),
                            .k = (int32_t)op->k},
                 .width = dim(op->matrices, 1),
                 .hidden = dim(op->matrices, 2)};
}

/* A launch that lists tiles of at most `tile_pairs` pairs, and their largest number: each expert in
 * use may have one tile that is not full. */
static int64_t cut_tiles(const ffn *f, int32_t tile_pairs, sl_moe_tile **out) {
    const int64_t pairs = f->places.pairs;
    const int64_t count = pairs / tile_pairs + least(pairs, f->places.experts);
    *out = sl_gpu_scratch(f->planner, (uint64_t)count * sizeof **out);
    const sl_moe_cut launch = {f->places, *out, (int32_t)count, tile_pairs};
    SL_CUDA_ADD(f->planner, SL_CUDA_FN(sl_moe_cut_tiles), 1, 256, launch);
    return count;
}

/* ---- any types ---- */

enum { PLAIN_PAIRS = 8, PLAIN_ROWS = 8 };

static sl_cuda_panels matrix_of(sl_dtype dtype, int64_t rows, int64_t cols) {
    if (is_panel(dtype)) return panels_at(dtype, NULL, rows, cols);
    return (sl_cuda_panels){.rows = (int32_t)rows, .cols = (int32_t)cols};
}

static void add_plain(const ffn *f, int64_t tiles, sl_moe_plain *launch, sl_dtype dtype) {
    launch->places = f->places;
    sl_gpu_launch *added =
        SL_CUDA_ADD(f->planner, SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_moe_plain), dtype), tiles,
                    PLAIN_ROWS * SL_CUDA_WARP, *launch);
    added->grid[1] = (uint32_t)parts_of(launch->w.rows, PLAIN_ROWS);
}

static void plan_plain(const ffn *f) {
    const sl_gpu_expert_places *at = &f->planner->places;
    const bool coded = f->op->x->type.dtype == SL_DTYPE_a8;
    const int64_t elements = f->places.pairs * f->width;
    float *gate = sl_gpu_scratch(f->planner, (uint64_t)elements * sizeof *gate);
    float *up = sl_gpu_scratch(f->planner, (uint64_t)elements * sizeof *up);
    sl_moe_tile *tiles;
    const int64_t count = cut_tiles(f, PLAIN_PAIRS, &tiles);
    sl_moe_plain launch = {.tiles = tiles, .x = coded ? NULL : f->op->x->data, .into = 1};
    if (coded) launch.x8 = rows8_of(f->op->x);
    launch.w = matrix_of(at->gate.dtype, f->width, f->hidden);
    launch.offset = at->gate.offset;
    launch.bias = f->op->gate_bias;
    launch.out = gate;
    add_plain(f, count, &launch, at->gate.dtype);
    launch.w = matrix_of(at->up.dtype, f->width, f->hidden);
    launch.offset = at->up.offset;
    launch.bias = f->op->up_bias;
    launch.out = up;
    add_plain(f, count, &launch, at->up.dtype);
    const sl_moe_swiglu middle = {gate,  up, f->op->act, f->places.pairs, (int32_t)f->width,
                                  coded, 0};
    SL_CUDA_ADD(f->planner, SL_CUDA_FN(sl_moe_swiglu_rows),
                parts_of(f->places.pairs * parts_of(f->width, SL_GROUP_COLS), 8), 256, middle);
    launch = (sl_moe_plain){.tiles = tiles,
                            .x = gate,
                            .w = matrix_of(at->down.dtype, f->hidden, f->width),
                            .offset = at->down.offset,
                            .bias = f->op->down_bias,
                            .out = f->op->out->data};
    add_plain(f, count, &launch, at->down.dtype);
}

/* ---- a8 activations and panels ---- */

enum {
    FEW_PAIRS = 64,
    MOST_PAIRS = 65535,        /* blocks in the second dimension of a grid */
    PAIR_ROWS = 64,            /* rows per block */
    PAIR_DEPTH = SL_MOE_DEPTH, /* blocks of weights in flight per warp */
    PAIR_ROOM = 97 << 10       /* bytes of shared memory that every device has */
};

static sl_type mid_type(const ffn *f) {
    return sl_type_make(SL_DTYPE_a8, 2, (int64_t)f->places.pairs, f->width);
}

/* Common to pairs and tiles; intermediate activations are in scratch. */
static sl_moe_up up_of(const ffn *f) {
    const sl_gpu_expert_places *at = &f->planner->places;
    const sl_type type = mid_type(f);
    return (sl_moe_up){.places = f->places,
                       .x = rows8_of(f->op->x),
                       .w = panels_at(at->gate.dtype, NULL, f->width, f->hidden),
                       .gate_offset = at->gate.offset,
                       .up_offset = at->up.offset,
                       .gate_bias = f->op->gate_bias,
                       .up_bias = f->op->up_bias,
                       .act = f->op->act,
                       .mid = rows8_at(sl_gpu_scratch(f->planner, sl_type_bytes(&type)), &type)};
}
static sl_moe_down down_of(const ffn *f, const sl_cuda_rows8_out *mid) {
    const sl_gpu_expert_places *at = &f->planner->places;
    return (sl_moe_down){.places = f->places,
                         .mid = {mid->codes, mid->scales, mid->sums, mid->halves, mid->groups, 0},
                         .w = panels_at(at->down.dtype, NULL, f->hidden, f->width),
                         .offset = at->down.offset,
                         .bias = f->op->down_bias,
                         .out = f->op->out->data};
}

/* How many blocks of each warp's slice of a panel fit into shared memory. */
static int32_t depth_of(const sl_cuda_panels *w, int64_t shares) {
    const int64_t share = parts_of(w->groups, SL_BLOCK_GROUPS * shares);
    const int64_t each = SL_MOE_STAGED_BYTES(w->group_bytes, w->super_bytes);
    return (int32_t)least(least(share, PAIR_DEPTH), PAIR_ROOM / (SL_MOE_PANELS * shares * each));
}
static uint32_t staged_bytes(const sl_cuda_panels *w, int64_t shares) {
    return (uint32_t)((int64_t)depth_of(w, shares) * SL_MOE_PANELS * shares *
                      SL_MOE_STAGED_BYTES(w->group_bytes, w->super_bytes));
}

static void plan_pairs(const ffn *f) {
    enum {
        UP_THREADS = SL_MOE_PANELS * SL_MOE_UP_SHARES * SL_CUDA_WARP,
        DOWN_THREADS = SL_MOE_PANELS * SL_MOE_DOWN_SHARES * SL_CUDA_WARP
    };
    const sl_gpu_expert_places *at = &f->planner->places;
    sl_moe_up up = up_of(f);
    sl_moe_down down = down_of(f, &up.mid);
    up.depth = depth_of(&up.w, SL_MOE_UP_SHARES);
    down.depth = depth_of(&down.w, SL_MOE_DOWN_SHARES);
    sl_gpu_launch *launch =
        SL_CUDA_ADD(f->planner, SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_moe_pairs_up), at->gate.dtype),
                    parts_of(f->width, SL_GROUP_COLS), UP_THREADS, up);
    launch->grid[1] = (uint32_t)f->places.pairs;
    launch->shared_bytes = staged_bytes(&up.w, SL_MOE_UP_SHARES);
    launch =
        SL_CUDA_ADD(f->planner, SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_moe_pairs_down), at->down.dtype),
                    parts_of(f->hidden, PAIR_ROWS), DOWN_THREADS, down);
    launch->grid[1] = (uint32_t)f->places.pairs;
    launch->shared_bytes = staged_bytes(&down.w, SL_MOE_DOWN_SHARES);
}

/* Whether to use tiles of few tokens: experts have few pairs, or larger tiles do not fit in shared
 * memory. */
static bool are_few(const ffn *f) {
    enum { FEW = 48 }; /* pairs per expert, on average */
    const sl_gpu_expert_places *at = &f->planner->places;
    const uint32_t up = sl_cuda_halves_shared(at->gate.dtype, false);
    const uint32_t down = sl_cuda_halves_shared(at->down.dtype, false);
    return f->places.pairs <= (int64_t)FEW * f->places.experts || up > f->planner->shared_limit ||
           down > f->planner->shared_limit;
}

static void plan_tiles(const ffn *f) {
    enum { THREADS = SL_HALF_WARPS * SL_CUDA_WARP, ROWS = SL_HALF_PANELS * SL_PANEL_ROWS };
    const sl_gpu_expert_places *at = &f->planner->places;
    const bool few = are_few(f);
    sl_moe_tile *tiles;
    const int64_t count = cut_tiles(f, few ? SL_HALF_FEW_TOKENS : SL_HALF_TOKENS, &tiles);
    sl_moe_up up = up_of(f);
    up.tiles = tiles;
    up.halves = sl_cuda_as_halves(f->planner, up.x, rows_of(&f->op->x->type));
    const sl_moe_up_fn ups = few ? SL_CUDA_FN(sl_moe_few_up) : SL_CUDA_FN(sl_moe_many_up);
    sl_gpu_launch *added = SL_CUDA_ADD(f->planner, SL_CUDA_FN_OF_TYPE(ups, at->gate.dtype),
                                       parts_of(f->width, ROWS / 2), THREADS, up);
    added->grid[1] = (uint32_t)count;
    added->shared_bytes = sl_cuda_halves_shared(at->gate.dtype, few);
    sl_moe_down down = down_of(f, &up.mid);
    down.tiles = tiles;
    down.halves = sl_cuda_as_halves(f->planner, down.mid, f->places.pairs);
    const sl_moe_down_fn downs = few ? SL_CUDA_FN(sl_moe_few_down) : SL_CUDA_FN(sl_moe_many_down);
    added = SL_CUDA_ADD(f->planner, SL_CUDA_FN_OF_TYPE(downs, at->down.dtype),
                        parts_of(f->hidden, ROWS), THREADS, down);
    added->grid[1] = (uint32_t)count;
    added->shared_bytes = sl_cuda_halves_shared(at->down.dtype, few);
}

static sl_status plan(const ffn_op *op, sl_gpu_planner *planner, sl_error *err) {
    const sl_gpu_expert_places *at = &planner->places;
    if (!at->table) return sl_fail(err, SL_INVALID, "%s: experts are not bound", planner->label);
    const sl_dtype dtypes[] = {at->gate.dtype, at->up.dtype, at->down.dtype};
    for (int i = 0; i < 3; i++)
        if (!sl_cuda_fn_of_type(SL_FN_sl_moe_plain, dtypes[i]))
            return sl_fail(err, SL_UNSUPPORTED, "%s: experts of type %s cannot be run",
                           planner->label, sl_dtype_infos[dtypes[i]].name);
    const ffn f = ffn_of(op, planner);
    const bool panels = op->x->type.dtype == SL_DTYPE_a8 && at->gate.dtype == at->up.dtype &&
                        sl_cuda_fn_of_type(SL_FN_sl_moe_pairs_up, at->gate.dtype) &&
                        sl_cuda_fn_of_type(SL_FN_sl_moe_pairs_down, at->down.dtype);
    const sl_type mid = mid_type(&f);
    if (panels && planner->deterministic && f.places.pairs > MOST_PAIRS)
        return sl_fail(err, SL_UNSUPPORTED,
                       "%s: %d pairs of rows and experts, deterministic at most %d", planner->label,
                       f.places.pairs, MOST_PAIRS);
    if (panels && (planner->deterministic || f.places.pairs <= FEW_PAIRS))
        plan_pairs(&f);
    else if (panels && sl_cuda_gemm_reaches(&op->x->type) && sl_cuda_gemm_reaches(&mid))
        plan_tiles(&f);
    else
        plan_plain(&f);
    return SL_OK;
}

/* ---- ops ---- */

PLAN(moe_ffn) {
    const sl_moe_ffn_args *a = args;
    const ffn_op op = {.x = &a->x,
                       .order = &a->order,
                       .starts = &a->starts,
                       .out = &a->out,
                       .matrices = &a->experts.type,
                       .k = a->attrs.k};
    return plan(&op, planner, err);
}

PLAN(moe_ffn_biased) {
    const sl_moe_ffn_biased_args *a = args;
    const ffn_op op = {.x = &a->x,
                       .order = &a->order,
                       .starts = &a->starts,
                       .out = &a->out,
                       .matrices = &a->experts.type,
                       .k = a->attrs.k,
                       .gate_bias = a->gate_bias.data,
                       .up_bias = a->up_bias.data,
                       .down_bias = a->down_bias.data,
                       .act = {.limit = a->attrs.limit, .alpha = a->attrs.alpha}};
    return plan(&op, planner, err);
}
