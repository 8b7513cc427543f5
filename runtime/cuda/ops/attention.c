/* attention.c - Rotary positions, and what enters the key-value cache. */
#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/ops/ops.h"

enum { HEADS_PER_BLOCK = 4 };

/* A warp for each of WARPS. */
#define ADD_WARPS(PLANNER, FN, WARPS, ARGS)                                                        \
    SL_CUDA_ADD((PLANNER), FN, parts_of((WARPS), HEADS_PER_BLOCK), HEADS_PER_BLOCK *SL_CUDA_WARP,  \
                (ARGS))

PLAN(rope_table) {
    const sl_rope_table_args *a = args;
    enum { THREADS = 64 };
    const sl_rope_angles launch = {.positions = a->positions.data,
                                   .out = a->out.data,
                                   .form = sl_rope_form_of(&a->attrs),
                                   .rows = (int32_t)dim(&a->positions.type, 0),
                                   .half = (int32_t)(a->attrs.rotary / 2),
                                   .fault = planner->fault};
    const int64_t angles = (int64_t)launch.rows * launch.half;
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_rope_table), parts_of(angles, THREADS), THREADS, launch);
    return SL_OK;
}

/* Heads x[T,heads,D] as they are, or turned by a table[T,R]. */
static sl_head_change heads_of(const sl_type *x) {
    return (sl_head_change){.heads = (int32_t)dim(x, 1), .width = (int32_t)dim(x, 2)};
}
static sl_head_change turned(const sl_type *x, const sl_cview *table, uint32_t interleaved) {
    sl_head_change change = heads_of(x);
    change.interleaved = (int32_t)interleaved;
    change.table = table->data;
    change.half = (int32_t)(dim(&table->type, 1) / 2);
    return change;
}

static void add_rope(sl_cuda_planner *planner, sl_head_change change, const sl_cview *x,
                     const sl_view *out) {
    const sl_rope_heads launch = {
        .change = change, .x = x->data, .out = out->data, .rows = (int32_t)dim(&x->type, 0)};
    ADD_WARPS(planner, SL_CUDA_FN(sl_rope), (int64_t)launch.rows * change.heads, launch);
}

PLAN(rope) {
    const sl_rope_args *a = args;
    add_rope(planner, turned(&a->x.type, &a->table, a->attrs.interleaved), &a->x, &a->out);
    return SL_OK;
}

PLAN(norm_rope) {
    const sl_norm_rope_args *a = args;
    sl_head_change change = turned(&a->x.type, &a->table, a->attrs.interleaved);
    change.gain = a->gain.data;
    change.eps = a->attrs.eps;
    change.offset = a->attrs.offset;
    add_rope(planner, change, &a->x, &a->out);
    return SL_OK;
}

static void add_append(sl_cuda_planner *planner, sl_cache_append launch, const sl_view *keys,
                       const sl_view *values) {
    launch.keys = keys->data;
    launch.values = values->data;
    launch.slot_count = (int32_t)dim(&values->type, 0);
    launch.capacity = (int32_t)dim(&values->type, 2);
    launch.value_width = (int32_t)dim(&values->type, 3);
    launch.is_half = keys->type.dtype == SL_DTYPE_f16;
    launch.fault = planner->fault;
    ADD_WARPS(planner, SL_CUDA_FN(sl_kv_append), 2 * (int64_t)launch.rows * launch.change.heads,
              launch);
}

PLAN(kv_append) {
    const sl_kv_append_args *a = args;
    const sl_cache_append launch = {.change = heads_of(&a->k.type),
                                    .k = a->k.data,
                                    .v = a->v.data,
                                    .slots = a->slots.data,
                                    .positions = a->positions.data,
                                    .rows = (int32_t)dim(&a->k.type, 0)};
    add_append(planner, launch, &a->cache_k, &a->cache_v);
    return SL_OK;
}

PLAN(norm_rope_append) {
    const sl_norm_rope_append_args *a = args;
    sl_cache_append launch = {.change = turned(&a->k.type, &a->table, a->attrs.interleaved),
                              .k = a->k.data,
                              .v = a->v.data,
                              .slots = a->slots.data,
                              .positions = a->positions.data,
                              .rows = (int32_t)dim(&a->k.type, 0)};
    launch.change.gain = a->gain.data;
    launch.change.eps = a->attrs.eps;
    launch.change.offset = a->attrs.offset;
    add_append(planner, launch, &a->cache_k, &a->cache_v);
    return SL_OK;
}
