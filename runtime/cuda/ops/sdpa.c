/* sdpa.c - Attention over the key-value cache: in splits of positions that are joined. */
#include "runtime/cuda/kernels/sdpa.h"
#include "core/kv.h"
#include "runtime/cuda/ops/ops.h"

/* ---- joining ---- */

static void add_join(sl_cuda_planner *planner, sl_sdpa_joined launch, int64_t queries) {
    launch.groups = (int32_t)parts_of(launch.splits, launch.group);
    sl_cuda_launch *l =
        SL_CUDA_ADD(planner, "sl_sdpa_join", queries * launch.groups, SL_CUDA_JOIN_THREADS, launch);
    l->grid[1] = (uint32_t)parts_of(launch.width, SL_CUDA_JOIN_COLUMNS);
    l->shared_bytes = (uint32_t)launch.group * (uint32_t)sizeof(float);
}

PLAN(sdpa_merge) {
    const sl_sdpa_merge_args *a = args;
    const int32_t parts = (int32_t)dim(&a->mixes.type, 2);
    const sl_sdpa_joined launch = {.mixes = a->mixes.data,
                                   .weights = a->weights.data,
                                   .out = a->out.data,
                                   .splits = parts,
                                   .group = parts,
                                   .width = (int32_t)dim(&a->mixes.type, 3)};
    add_join(planner, launch, dim(&a->mixes.type, 0) * dim(&a->mixes.type, 1));
    return SL_OK;
}

/* ---- splits ---- */

/* sdpa and sdpa_parts have the same inputs, in the same order. */
static sl_sdpa_splits splits_of(const sl_sdpa_args *a, const sl_cuda_planner *planner) {
    const sl_type *values = &a->cache_v.type;
    return (sl_sdpa_splits){.q = a->q.data,
                            .keys = a->cache_k.data,
                            .values = a->cache_v.data,
                            .slots = a->slots.data,
                            .positions = a->positions.data,
                            .fault = planner->fault,
                            .rows = (int32_t)dim(&a->q.type, 0),
                            .ratio = (int32_t)(dim(&a->q.type, 1) / dim(values, 1)),
                            .width = (int32_t)dim(&a->q.type, 2),
                            .slot_count = (int32_t)dim(values, 0),
                            .heads = (int32_t)dim(values, 1),
                            .capacity = (int32_t)dim(values, 2),
                            .is_half = values->dtype == SL_DTYPE_f16};
}
static int64_t queries_of(const sl_sdpa_splits *s) {
    return (int64_t)s->rows * s->heads * s->ratio;
}

/* Room for what splits give. */
static void add_room(sl_cuda_planner *planner, sl_sdpa_splits *s) {
    const uint64_t results = (uint64_t)queries_of(s) * (uint64_t)s->splits * sizeof(float);
    s->mixes = sl_cuda_scratch(planner, results * (uint64_t)s->width);
    s->weights = sl_cuda_scratch(planner, results * 2);
}

static void add_plain(sl_cuda_planner *planner, const sl_sdpa_splits *s) {
    sl_cuda_launch *l = SL_CUDA_ADD(planner, s->is_half ? "sl_sdpa_plain_f16" : "sl_sdpa_plain_f32",
                                    queries_of(s) * s->splits, SL_CUDA_SPLIT, *s);
    l->shared_bytes = (uint32_t)(2 * s->width + SL_CUDA_SPLIT) * (uint32_t)sizeof(float);
}

PLAN(sdpa) {
    const sl_sdpa_args *a = args;
    sl_sdpa_splits s = splits_of(a, planner);
    s.scale = a->attrs.scale;
    s.splits = 1;
    s.mixes = a->out.data;
    add_plain(planner, &s);
    return SL_OK;
}

PLAN(sdpa_parts) {
    const sl_sdpa_parts_args *a = args;
    sl_sdpa_splits s = splits_of(args, planner);
    s.scale = a->attrs.scale;
    s.splits = (int32_t)parts_of(s.capacity, SL_CUDA_SPLIT);
    s.span = SL_CUDA_SPLIT;
    add_room(planner, &s);
    add_plain(planner, &s);
    const sl_sdpa_joined joined = {.mixes = s.mixes,
                                   .weights = s.weights,
                                   .out = a->mixes.data,
                                   .out_weights = a->weights.data,
                                   .splits = s.splits,
                                   .group = SL_SDPA_PART / SL_CUDA_SPLIT,
                                   .width = s.width};
    add_join(planner, joined, queries_of(&s));
    return SL_OK;
}
