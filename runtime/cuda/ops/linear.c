/* linear.c - Products of activations with weights.
 *
 * Few tokens (GEMV): one launch for all weights of one type, each read once, by as many warps as
 * keep memory busy; the epilogue of a fused op is part of it.  Many tokens: one launch per weight,
 * and one more for the epilogue.
 *
 * Deterministic: any number of tokens as few, in blocks of SL_LINEAR_TOKENS.  What orders a sum,
 * the split of a unit and the slab, is that of a whole block; kernels for fewer tokens are used
 * where they sum in the same order. */
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/ops/gemm.h"
#include "runtime/cuda/ops/ops.h"
#include "runtime/cuda/ops/panels.h"

/* An op: x with `count` weights. */
typedef struct {
    const sl_cview *x;
    const sl_cview *w[SL_LINEAR_WEIGHTS];
    int count;
    sl_linear_finish finish;
} product;

static bool is_panel(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_PANEL;
}
static bool joins(const sl_linear_finish *f) {
    return f->kind == SL_FINISH_SWIGLU || f->kind == SL_FINISH_QUANTISE;
}

/* Families of kernels, with a member for each weight type. */
typedef struct {
    int tokens; /* maximum per block */
    sl_cuda_fn family;
} function_table;

static const function_table a8_functions[] = {
    {1, SL_CUDA_ID(sl_linear_a8_1, sl_linear_panels)},
    {8, SL_CUDA_ID(sl_linear_a8_8, sl_linear_panels)},
};
static const function_table exact_functions[] = {
    {2, SL_CUDA_ID(sl_linear_exact_2, sl_linear_panels)},
    {5, SL_CUDA_ID(sl_linear_exact_5, sl_linear_panels)},
    {8, SL_CUDA_ID(sl_linear_exact_8, sl_linear_panels)},
};
static const function_table dense_functions[] = {
    {1, SL_CUDA_ID(sl_linear_dense_1, sl_linear_dense)},
    {4, SL_CUDA_ID(sl_linear_dense_4, sl_linear_dense)},
    {8, SL_CUDA_ID(sl_linear_dense_8, sl_linear_dense)},
};
static const function_table wide_functions[] = {
    {1, SL_CUDA_ID(sl_linear_wide_1, sl_linear_dense)},
    {4, SL_CUDA_ID(sl_linear_wide_4, sl_linear_dense)},
    {8, SL_CUDA_ID(sl_linear_wide_8, sl_linear_dense)},
};
static const function_table tile_functions[] = {
    {32, SL_CUDA_ID(sl_linear_tile_32, sl_linear_tile)},
    {128, SL_CUDA_ID(sl_linear_tile_128, sl_linear_tile)},
};
static const function_table many_functions = {SL_TILE_TOKENS,
                                              SL_CUDA_ID(sl_linear_many, sl_linear_tile)};
static bool has_many(sl_dtype dtype) {
    return sl_cuda_fn_of_type(many_functions.family, dtype) != SL_FN_none;
}

/* The first table that takes all tokens at once, or the last. */
static const function_table *table_for(const function_table *tables, size_t count, int64_t tokens) {
    size_t i = 0;
    while (i + 1 < count && tables[i].tokens < tokens) i++;
    return &tables[i];
}
#define TABLE_FOR(TABLES, TOKENS) table_for((TABLES), sizeof(TABLES) / sizeof *(TABLES), (TOKENS))

/* The number of tokens that decides how sums are divided. */
static int64_t deciding_tokens(const sl_gpu_planner *planner, int64_t tokens) {
    return planner->deterministic ? SL_LINEAR_TOKENS : tokens;
}

/* ---- few tokens ---- */

enum {
    WARPS = 8,            /* per block, by default */
    FEWEST_TOKENS = 2,    /* above this, the split is halved to save shared memory */
    MOST_WARPS = 16,      /* per block of the panel kernels, within their launch bounds */
    X_ROOM = 40 << 10,    /* shared-memory bytes for x: a8, */
    EXACT_ROOM = 80 << 10 /* and f32, so that two blocks are resident */
};

/* What a division of rows depends on. */
typedef struct {
    int64_t unit_rows;
    int64_t turns;  /* the largest number of warps that can share a unit (along K) */
    int64_t busy;   /* warps that the device can hold: beyond that, sharing gains nothing */
    int64_t tokens; /* deciding_tokens */
} division_limits;

static sl_linear_division divide(const product *p, const division_limits *by) {
    const int64_t unit_rows = by->unit_rows, busy = by->busy;
    sl_linear_division d = {.weights = p->count, .tokens = (int32_t)dim(&p->x->type, 0)};
    for (int i = 0; i < p->count; i++) {
        d.rows[i] = (int32_t)dim(&p->w[i]->type, 0);
        d.first[i + 1] = d.first[i] + (int32_t)parts_of(d.rows[i], unit_rows);
    }
    for (int i = p->count; i < SL_LINEAR_WEIGHTS; i++) d.first[i + 1] = INT32_MAX;
    const int32_t all = d.first[p->count], of_first = d.first[1];
    const int32_t most = unit_rows == SL_PANEL_ROWS ? MOST_WARPS : WARPS;
    const int32_t sides = joins(&p->finish) ? 2 : 1; /* weights per task */
    int32_t each = p->finish.kind == SL_FINISH_QUANTISE ? (int32_t)(SL_GROUP_COLS / unit_rows) : 1;
    d.split = by->tokens <= FEWEST_TOKENS ? SL_LINEAR_SPLIT : SL_LINEAR_SPLIT / 2;
    while (d.split > 1 &&
           (d.split > by->turns || d.split * each * sides > most ||
            (d.split > 2 && (int64_t)all * d.split > busy))) /* 2 is kept: tasks end more evenly */
        d.split /= 2;
    const bool many = (int64_t)all * d.split > busy / 2;
    if (p->finish.kind != SL_FINISH_QUANTISE)
        while (many && 2 * each * sides * d.split <= WARPS) each *= 2;
    d.units = each * sides;
    d.tasks = (int32_t)parts_of(sides == 2 ? of_first : all, each);
    return d;
}

static void set_tokens(sl_gpu_launch *launch, int64_t tokens, int each) {
    launch->grid[1] = (uint32_t)parts_of(tokens, each);
}

/* Blocks of a panel kernel that fit on a multiprocessor (kernels/panel_rows.cuh). */
static int blocks_of(const function_table *table, sl_dtype dtype) {
#define THREADS(TYPE, THREADS, ...) [SL_DTYPE_##TYPE] = (THREADS),
    static const int threads[SL_DTYPE_COUNT] = {SL_PANEL_TYPES(THREADS)};
    const bool narrow = threads[dtype] == 3 * WARPS * SL_CUDA_WARP;
    const bool lean = table != &exact_functions[1] && table != &exact_functions[2];
    return narrow && lean ? 3 : 2;
}

/* Shared memory for a group of x. */
static int64_t group_bytes(bool a8, int64_t tokens) {
    const int64_t columns = a8 ? tokens : 3 * tokens, pairs = 2 * parts_of(columns, 2);
    return a8 ? columns * 32 + pairs * 8 : columns * 64 + pairs * 4;
}

static void few_panels(const product *p, sl_gpu_planner *planner) {
    const bool a8 = p->x->type.dtype == SL_DTYPE_a8;
    const sl_dtype dtype = p->w[0]->type.dtype;
    const int64_t tokens = dim(&p->x->type, 0), most = least(tokens, SL_LINEAR_TOKENS);
    const int64_t decides = deciding_tokens(planner, tokens);
    const function_table *table = /* those of a8 differ in the order of their sums */
        a8 ? TABLE_FOR(a8_functions, decides) : TABLE_FOR(exact_functions, tokens);
    const function_table *full = a8 ? table : TABLE_FOR(exact_functions, decides);
    sl_linear_panels a = {.finish = p->finish};
    for (int i = 0; i < p->count; i++) a.w[i] = panels_of(p->w[i]);
    const int64_t groups = a.w[0].groups;
    const int64_t resident = (int64_t)planner->multiprocessors * blocks_of(full, dtype);
    a.d = divide(p, &(division_limits){SL_PANEL_ROWS, parts_of(groups, SL_LINEAR_BATCH),
                                       resident * WARPS, decides});
    if (a8)
        a.x8 = rows8_of(p->x);
    else
        a.x = p->x->data;
    const int64_t columns = a8 ? most : 3 * most;
    const int64_t room = (a8 ? X_ROOM : EXACT_ROOM) /
                         group_bytes(a8, planner->deterministic ? decides : most) /
                         SL_SUPER_GROUPS * SL_SUPER_GROUPS;
    a.slab = (int32_t)least(parts_of(groups, SL_SUPER_GROUPS) * SL_SUPER_GROUPS, room);
    a.x_bytes = (int32_t)(a.slab * group_bytes(a8, most));
    const int64_t warps = (int64_t)a.d.split * a.d.units;
    const sl_linear_panels_fn function = {sl_cuda_fn_of_type(table->family, dtype)};
    sl_gpu_launch *launch = SL_CUDA_ADD(planner, function, least(a.d.tasks, resident),
                                        (uint32_t)(warps * SL_CUDA_WARP), a);
    launch->shared_bytes =
        (uint32_t)(a.x_bytes + warps * columns * SL_PANEL_ROWS * (int64_t)sizeof(float));
    set_tokens(launch, tokens, SL_LINEAR_TOKENS);
}

/* One row, with so many panels that each resident warp takes several. */
static bool stream_panels(const product *p, sl_gpu_planner *planner) {
    enum { TURNS = 4 };
    if (planner->deterministic || p->count != 1 || p->w[0]->type.dtype != SL_DTYPE_q8 ||
        p->x->type.dtype != SL_DTYPE_f32 || dim(&p->x->type, 0) != 1 ||
        p->finish.kind != SL_FINISH_STORE)
        return false;
    sl_linear_stream a = {.w = panels_of(p->w[0]), .x = p->x->data, .out = p->finish.out[0]};
    const int64_t x_bytes = (int64_t)a.w.groups * SL_STREAM_GROUP_BYTES;
    const int64_t room = (int64_t)planner->shared_limit - x_bytes;
    const int64_t ring = 2 * (int64_t)SL_STREAM_STAGE_BYTES;
    const int64_t warps = least(room / ring, SL_STREAM_WARPS);
    const int64_t blocks = planner->multiprocessors;
    a.panels = (int32_t)parts_of(a.w.rows, SL_PANEL_ROWS);
    a.stages = (int32_t)parts_of(parts_of(a.w.groups, 2), SL_STREAM_BLOCKS);
    if (warps < 1 || a.panels < TURNS * blocks * warps) return false;
    sl_gpu_launch *launch = SL_CUDA_ADD(planner, SL_CUDA_FN(sl_linear_stream_q8), blocks,
                                        (uint32_t)(warps * SL_CUDA_WARP), a);
    launch->shared_bytes = (uint32_t)(warps * ring + x_bytes);
    return true;
}

/* Whether rows are aligned for 16-byte loads, including those of x. */
static bool is_wide(const product *p) {
    const int64_t cols = dim(&p->x->type, 1);
    uintptr_t bits = (uintptr_t)p->x->data | (uintptr_t)(cols * 4);
    for (int i = 0; i < p->count; i++)
        bits |= (uintptr_t)p->w[i]->data |
                (uintptr_t)(cols * (int64_t)sl_dtype_infos[p->w[i]->type.dtype].bytes);
    return bits % 16 == 0;
}

static void few_dense(const product *p, sl_gpu_planner *planner) {
    const sl_dtype dtype = p->w[0]->type.dtype;
    const int64_t tokens = dim(&p->x->type, 0), cols = dim(&p->x->type, 1);
    const bool wide = is_wide(p);
    const function_table *table =
        wide ? TABLE_FOR(wide_functions, tokens) : TABLE_FOR(dense_functions, tokens);
    const int64_t turn = SL_CUDA_WARP * (wide ? 16 / (int64_t)sl_dtype_infos[dtype].bytes : 1);
    sl_linear_dense a = {.finish = p->finish, .x = p->x->data, .cols = (int32_t)cols};
    for (int i = 0; i < p->count; i++) a.w[i] = p->w[i]->data;
    const int64_t decides = deciding_tokens(planner, tokens);
    const int64_t busy = (int64_t)planner->multiprocessors * (decides > 1 ? 2 : 4) * WARPS;
    a.d = divide(p, &(division_limits){SL_LINEAR_DENSE_ROWS, parts_of(cols, turn), busy, decides});
    const int64_t warps = (int64_t)a.d.split * a.d.units;
    const sl_linear_dense_fn function = {sl_cuda_fn_of_type(table->family, dtype)};
    sl_gpu_launch *launch =
        SL_CUDA_ADD(planner, function, a.d.tasks, (uint32_t)(warps * SL_CUDA_WARP), a);
    launch->shared_bytes =
        (uint32_t)(warps * table->tokens * SL_LINEAR_DENSE_ROWS * (int64_t)sizeof(float));
    set_tokens(launch, tokens, table->tokens);
}

static void few_tokens(const product *p, sl_gpu_planner *planner) {
    if (stream_panels(p, planner)) return;
    if (is_panel(p->w[0]->type.dtype))
        few_panels(p, planner);
    else
        few_dense(p, planner);
}

/* ---- many tokens ---- */

/* A few tiles would leave most of the device idle, unless split-K divides their columns: routers,
 * gates, decays. */
static bool is_many(const sl_cview *x, const sl_cview *w, const sl_gpu_planner *planner) {
    enum { FEW_TILES = 64, FEW_TOKENS = 64 };
    const int64_t tokens = dim(&x->type, 0);
    const int64_t tiles = parts_of(dim(&w->type, 0), SL_TILE_ROWS) * parts_of(tokens, SL_TILE_ROWS);
    return !planner->deterministic && tokens > SL_LINEAR_TOKENS &&
           (x->type.dtype == SL_DTYPE_a8 || tiles >= FEW_TILES ||
            (tokens >= FEW_TOKENS && has_many(w->type.dtype)));
}

static void many_tokens(const sl_cview *x, const sl_cview *w, float *out, sl_gpu_planner *planner) {
    const sl_dtype dtype = w->type.dtype;
    const int64_t tokens = dim(&x->type, 0), rows = dim(&w->type, 0);
    enum { RESIDENT = 2, LEAST_GROUPS = 8 };
    if (sl_cuda_gemm_a8(planner, x, w, out)) return;
    const function_table *table =
        has_many(dtype) ? &many_functions : TABLE_FOR(tile_functions, tokens);
    sl_linear_tile a = {.w = w->data,
                        .x = x->data,
                        .out_stride = rows,
                        .rows = (int32_t)rows,
                        .cols = (int32_t)dim(&x->type, 1),
                        .tokens = (int32_t)tokens,
                        .wide = !is_panel(dtype) && is_wide(&(product){x, {w}, 1, {0}})};
    if (is_panel(dtype)) a.panels = panels_of(w);
    const int64_t tiles = parts_of(rows, SL_TILE_ROWS) * parts_of(tokens, table->tokens);
    const int64_t blocks = table == &many_functions ? RESIDENT * planner->multiprocessors : 0;
    const int64_t parts = sl_cuda_column_parts(tiles, blocks, parts_of(a.cols, SL_GROUP_COLS),
                                               LEAST_GROUPS, &a.part_groups);
    a.out = sl_cuda_parts_room(planner, parts, tokens * rows, out);
    const sl_linear_tile_fn function = {sl_cuda_fn_of_type(table->family, dtype)};
    sl_gpu_launch *launch = SL_CUDA_ADD(planner, function, parts_of(rows, SL_TILE_ROWS), 256, a);
    set_tokens(launch, tokens, table->tokens);
    launch->grid[2] = (uint32_t)parts;
    sl_cuda_add_parts(planner, a.out, parts, tokens * rows, out);
}

/* ---- weight types that few files use ---- */

static bool is_plain(const sl_cview *w) {
    return sl_cuda_fn_of_type(SL_FN_sl_linear_plain, w->type.dtype) != SL_FN_none;
}

static void plain_tokens(const sl_cview *x, const sl_cview *w, float *out,
                         sl_gpu_planner *planner) {
    const bool a8 = x->type.dtype == SL_DTYPE_a8;
    sl_linear_plain a = {.w = panels_of(w), .out = out, .tokens = (int32_t)dim(&x->type, 0)};
    if (a8)
        a.x8 = rows8_of(x);
    else
        a.x = x->data;
    const sl_linear_plain_fn function =
        SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_linear_plain), w->type.dtype);
    sl_gpu_launch *launch =
        SL_CUDA_ADD(planner, function, parts_of(a.w.rows, WARPS), WARPS * SL_CUDA_WARP, a);
    set_tokens(launch, a.tokens, SL_LINEAR_TOKENS);
}

/* The epilogue on the sums of one weight, or of two. */
static void after_sums(const product *p, float *const sums[2], sl_gpu_planner *planner) {
    const int64_t tokens = dim(&p->x->type, 0), rows = dim(&p->w[0]->type, 0);
    sl_linear_after a = {.finish = p->finish,
                         .out = p->finish.out[0],
                         .rows = (int32_t)rows,
                         .tokens = (int32_t)tokens};
    a.finish.out[0] = sums[0], a.finish.out[1] = sums[1];
    sl_gpu_launch *launch =
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_linear_after_sums), parts_of(rows, 256), 256, a);
    launch->grid[1] = (uint32_t)tokens;
}

/* One launch per weight. */
static void one_by_one(const product *p, sl_gpu_planner *planner) {
    const int64_t tokens = dim(&p->x->type, 0);
    float *sums[SL_LINEAR_WEIGHTS] = {0};
    for (int i = 0; i < p->count; i++) {
        const uint64_t bytes = (uint64_t)(tokens * dim(&p->w[i]->type, 0)) * sizeof(float);
        sums[i] = p->finish.out[i];
        if (p->finish.kind == SL_FINISH_QUANTISE || (i > 0 && joins(&p->finish)))
            sums[i] = sl_gpu_scratch(planner, bytes);
        if (is_plain(p->w[i]))
            plain_tokens(p->x, p->w[i], sums[i], planner);
        else if (is_many(p->x, p->w[i], planner))
            many_tokens(p->x, p->w[i], sums[i], planner);
        else
            few_tokens(&(product){p->x, {p->w[i]}, 1, {.kind = SL_FINISH_STORE, .out = {sums[i]}}},
                       planner);
    }
    if (p->finish.kind != SL_FINISH_STORE) after_sums(p, sums, planner);
}

/* Units of dense weights have fewer rows than the 32 that are quantised together. */
static bool is_one_launch(const product *p) {
    const sl_dtype first = p->w[0]->type.dtype;
    for (int i = 1; i < p->count; i++)
        if (p->w[i]->type.dtype != first) return false;
    return is_panel(first) || p->finish.kind != SL_FINISH_QUANTISE;
}

static sl_status plan(const product *p, sl_gpu_planner *planner) {
    bool few = is_one_launch(p);
    for (int i = 0; i < p->count; i++)
        few &= !is_many(p->x, p->w[i], planner) && !is_plain(p->w[i]);
    if (few)
        few_tokens(p, planner);
    else
        one_by_one(p, planner);
    return SL_OK;
}

/* ---- ops ---- */

PLAN(linear) {
    const sl_linear_args *a = args;
    return plan(&(product){&a->x, {&a->w}, 1, {.kind = SL_FINISH_STORE, .out = {a->out.data}}},
                planner);
}

PLAN(linear_pair) {
    const sl_linear_pair_args *a = args;
    return plan(
        &(product){
            &a->x, {&a->wa, &a->wb}, 2, {.kind = SL_FINISH_STORE, .out = {a->a.data, a->b.data}}},
        planner);
}

PLAN(linear_triple) {
    const sl_linear_triple_args *a = args;
    return plan(&(product){&a->x,
                           {&a->wa, &a->wb, &a->wc},
                           3,
                           {.kind = SL_FINISH_STORE, .out = {a->a.data, a->b.data, a->c.data}}},
                planner);
}

PLAN(linear_swiglu) {
    const sl_linear_swiglu_args *a = args;
    return plan(
        &(product){
            &a->x, {&a->w_gate, &a->w_up}, 2, {.kind = SL_FINISH_SWIGLU, .out = {a->out.data}}},
        planner);
}

PLAN(linear_swiglu_quantise) {
    const sl_linear_swiglu_quantise_args *a = args;
    const sl_linear_finish finish = {.kind = SL_FINISH_QUANTISE,
                                     .codes = rows8_at(a->codes.data, &a->codes.type)};
    return plan(&(product){&a->x, {&a->w_gate, &a->w_up}, 2, finish}, planner);
}

PLAN(linear_bias_act) {
    const sl_linear_bias_act_args *a = args;
    const sl_linear_finish finish = {.kind = SL_FINISH_BIAS,
                                     .act = (int32_t)a->attrs.act,
                                     .bias = a->bias.data,
                                     .out = {a->out.data}};
    return plan(&(product){&a->x, {&a->w}, 1, finish}, planner);
}
