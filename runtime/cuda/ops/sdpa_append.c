/* sdpa_append.c - Writing to the KV cache. */
#include "runtime/cuda/kernels/sdpa_append.h"
#include "runtime/cuda/ops/rope.h"

static void add_append(sl_gpu_planner *planner, sl_cache_append launch, const sl_cview *slots,
                       const sl_view *keys, const sl_view *values) {
    launch.slots = slots->data;
    launch.keys = keys->data;
    launch.values = values->data;
    launch.slot_count = (int32_t)dim(&values->type, 0);
    launch.capacity = (int32_t)cache_capacity(&slots->type, &values->type);
    launch.pages = (int32_t)cache_pages(&slots->type);
    launch.value_width = (int32_t)dim(&values->type, 3);
    launch.is_half = keys->type.dtype == SL_DTYPE_f16;
    launch.fault = planner->fault;
    ADD_WARPS(planner, SL_CUDA_FN(sl_kv_append), 2 * (int64_t)launch.rows * launch.change.heads,
              launch);
}

PLAN(kv_append) {
    const sl_kv_append_args *a = args;
    SL_TRY(check_cache(&a->cache_k.type, planner, err));
    const sl_cache_append launch = {.change = heads_of(&a->k.type),
                                    .k = a->k.data,
                                    .v = a->v.data,
                                    .positions = a->positions.data,
                                    .rows = (int32_t)dim(&a->k.type, 0)};
    add_append(planner, launch, &a->slots, &a->cache_k, &a->cache_v);
    return SL_OK;
}

PLAN(norm_rope_append) {
    const sl_norm_rope_append_args *a = args;
    SL_TRY(check_cache(&a->cache_k.type, planner, err));
    sl_cache_append launch = {.change = turned(&a->k.type, &a->cos, &a->sin, a->attrs.rotary),
                              .k = a->k.data,
                              .v = a->v.data,
                              .positions = a->positions.data,
                              .rows = (int32_t)dim(&a->k.type, 0)};
    launch.change.interleaved = (int32_t)a->attrs.interleaved;
    launch.change.gain = a->gain.data;
    launch.change.eps = a->attrs.eps;
    launch.change.offset = a->attrs.offset;
    add_append(planner, launch, &a->slots, &a->cache_k, &a->cache_v);
    return SL_OK;
}
