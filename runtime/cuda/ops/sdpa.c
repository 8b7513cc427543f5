/* sdpa.c - Attention over the KV cache, in splits of positions that are merged. */
#include "runtime/cuda/kernels/sdpa.h"
#include "core/kv.h"
#include "runtime/cuda/ops/ops.h"

enum {
    FEW_ROWS = 8,   /* up to this, positions are split (flash-decoding) */
    FEW_TILES = 4,  /* query tiles per block, where there are several rows */
    MANY_SPAN = 256 /* least positions per split for many rows, where possible */
};

/* ---- merging ---- */

static void add_join(sl_gpu_planner *planner, sl_sdpa_joined launch, int64_t queries) {
    launch.groups = (int32_t)parts_of(launch.splits, launch.group);
    launch.queries = queries;
    const int64_t blocks = parts_of(queries * (launch.width / 4), SL_CUDA_JOIN_THREADS);
    if (!planner->deterministic && launch.splits <= SL_CUDA_FEW_SPLITS && !launch.out_weights &&
        launch.groups == 1 && launch.width % 4 == 0 && (uintptr_t)launch.out % 16 == 0 &&
        blocks >= planner->multiprocessors) {
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_sdpa_join_few), blocks, SL_CUDA_JOIN_THREADS, launch);
        return;
    }
    sl_gpu_launch *l = SL_CUDA_ADD(planner, SL_CUDA_FN(sl_sdpa_join_any), queries * launch.groups,
                                   SL_CUDA_JOIN_THREADS, launch);
    l->grid[1] = (uint32_t)parts_of(launch.width, SL_CUDA_JOIN_COLUMNS);
    l->shared_bytes = (uint32_t)launch.group * (uint32_t)sizeof(float);
}

static void add_merge(sl_gpu_planner *planner, const sl_cview *mixes, const sl_cview *weights,
                      const float *sinks, float *out) {
    const int32_t parts = (int32_t)dim(&mixes->type, 2);
    const sl_sdpa_joined launch = {.mixes = mixes->data,
                                   .weights = weights->data,
                                   .out = out,
                                   .splits = parts,
                                   .group = parts,
                                   .width = (int32_t)dim(&mixes->type, 3),
                                   .sinks = sinks,
                                   .query_heads = (int32_t)dim(&mixes->type, 1)};
    add_join(planner, launch, dim(&mixes->type, 0) * dim(&mixes->type, 1));
}

PLAN(sdpa_merge) {
    const sl_sdpa_merge_args *a = args;
    add_merge(planner, &a->mixes, &a->weights, NULL, a->out.data);
    return SL_OK;
}

PLAN(sdpa_merge_sinks) {
    const sl_sdpa_merge_sinks_args *a = args;
    add_merge(planner, &a->mixes, &a->weights, a->sinks.data, a->out.data);
    return SL_OK;
}

/* ---- splits ---- */

/* sdpa, sdpa_sinks and sdpa_parts begin with the same inputs, in the same order. */
static sl_sdpa_splits splits_of(const sl_sdpa_args *a, sl_sdpa_attrs attrs,
                                const sl_gpu_planner *planner) {
    const sl_type *values = &a->cache_v.type;
    return (sl_sdpa_splits){.q = a->q.data,
                            .keys = a->cache_k.data,
                            .values = a->cache_v.data,
                            .slots = a->slots.data,
                            .positions = a->positions.data,
                            .fault = planner->fault,
                            .scale = attrs.scale,
                            .softcap = attrs.softcap,
                            .window = (int32_t)least(attrs.window, INT32_MAX),
                            .rows = (int32_t)dim(&a->q.type, 0),
                            .ratio = (int32_t)(dim(&a->q.type, 1) / dim(values, 1)),
                            .width = (int32_t)dim(&a->q.type, 2),
                            .value_width = (int32_t)dim(values, 3),
                            .slot_count = (int32_t)dim(values, 0),
                            .heads = (int32_t)dim(values, 1),
                            .capacity = (int32_t)cache_capacity(&a->slots.type, values),
                            .pages = (int32_t)cache_pages(&a->slots.type),
                            .is_half = values->dtype == SL_DTYPE_f16};
}
static int64_t queries_of(const sl_sdpa_splits *s) {
    return (int64_t)s->rows * s->heads * s->ratio;
}

/* Memory for the results of the splits. */
static void add_room(sl_gpu_planner *planner, sl_sdpa_splits *s) {
    const uint64_t results = (uint64_t)queries_of(s) * (uint64_t)s->splits * sizeof(float);
    s->mixes = sl_gpu_scratch(planner, results * (uint64_t)s->value_width);
    s->weights = sl_gpu_scratch(planner, results * 2);
}

static void add_plain(sl_gpu_planner *planner, const sl_sdpa_splits *s) {
    const sl_dtype type = s->is_half ? SL_DTYPE_f16 : SL_DTYPE_f32;
    sl_gpu_launch *l = SL_CUDA_ADD(planner, SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_sdpa_plain), type),
                                   queries_of(s) * s->splits, SL_CUDA_SPLIT, *s);
    l->shared_bytes =
        (uint32_t)(s->width + s->value_width + SL_CUDA_SPLIT) * (uint32_t)sizeof(float);
}

/* Head sizes with tensor-core kernels, for an f16 cache without softcap: few = {one row, several
 * rows}, many = {4 warps, 8 warps}. */
typedef struct {
    sl_cuda_fn function;
    uint32_t shared_bytes;
} choice;
static const struct wide {
    int32_t width;
    choice few[2], many[2];
} wide_heads[] = {
#define FEW(D, TILES)                                                                              \
    { SL_CUDA_ID(sl_sdpa_few_##D##_##TILES, sl_sdpa_splits), SL_CUDA_FEW_BYTES(D, TILES) }
#define MANY(D, WARPS)                                                                             \
    {                                                                                              \
        SL_CUDA_ID(sl_sdpa_many_##D##_##WARPS, sl_sdpa_splits),                                    \
            SL_CUDA_MANY_BYTES(D, WARPS, SL_CUDA_MANY_TILE(WARPS))                                 \
    }
#define WIDE(D)                                                                                    \
    {                                                                                              \
        D, {FEW(D, 1), FEW(D, 4)}, {                                                               \
            MANY(D, 4), MANY(D, 8)                                                                 \
        }                                                                                          \
    }
    WIDE(64), WIDE(128), WIDE(256)};
static const struct wide *wide_of(const sl_sdpa_splits *s) {
    if (s->softcap > 0) return NULL;
    for (size_t i = 0; s->is_half && i < sizeof wide_heads / sizeof wide_heads[0]; i++)
        if (wide_heads[i].width == s->width && s->width == s->value_width) return &wide_heads[i];
    return NULL;
}

static void add_few(sl_gpu_planner *planner, const sl_sdpa_splits *s, const struct wide *wide) {
    const bool several = s->rows > 1 && wide->few[1].shared_bytes <= planner->shared_limit;
    const int32_t queries = SL_CUDA_FEW_QUERIES * (several ? FEW_TILES : 1);
    const uint32_t threads = (uint32_t)s->width;
    sl_gpu_launch *l = SL_CUDA_ADD(planner, (sl_sdpa_splits_fn){wide->few[several].function},
                                   s->splits, threads, *s);
    l->grid[1] = (uint32_t)(s->heads * parts_of(s->ratio, queries));
    l->grid[2] = (uint32_t)s->rows;
    l->shared_bytes = wide->few[several].shared_bytes;
}

/* Splits of SL_CUDA_SPLIT positions, each with its own result. */
static void add_splits(sl_gpu_planner *planner, sl_sdpa_splits *s) {
    const struct wide *wide = wide_of(s);
    s->splits = (int32_t)parts_of(s->capacity, SL_CUDA_SPLIT);
    s->span = SL_CUDA_SPLIT;
    if (!s->weights) add_room(planner, s);
    wide ? add_few(planner, s, wide) : add_plain(planner, s);
}

static sl_sdpa_joined joined_of(const sl_sdpa_splits *s) {
    return (sl_sdpa_joined){.mixes = s->mixes,
                            .weights = s->weights,
                            .splits = s->splits,
                            .group = s->splits,
                            .width = s->value_width};
}

/* The merge of all splits of a query. */
typedef struct {
    float *out;
    const float *sinks; /* NULL: none */
} result;

static void add_all_joined(sl_gpu_planner *planner, const sl_sdpa_splits *s, result to) {
    sl_sdpa_joined joined = joined_of(s);
    joined.out = to.out;
    joined.sinks = to.sinks;
    joined.query_heads = s->heads * s->ratio;
    add_join(planner, joined, queries_of(s));
}

/* Tiles of queries; if there are fewer than multiprocessors, each row's positions are split.  False
 * if no kernel fits. */
static bool add_many(sl_gpu_planner *planner, sl_sdpa_splits *s, result to) {
    const struct wide *wide = wide_of(s);
    if (!wide) return false;
    const bool most = wide->many[1].shared_bytes <= planner->shared_limit;
    const choice *many = &wide->many[most];
    const int32_t warps = most ? 8 : 4, queries = 16 * warps;
    if (many->shared_bytes > planner->shared_limit || s->ratio > queries) return false;
    const int64_t tiles = parts_of(s->rows, queries / s->ratio), blocks = tiles * s->heads;
    const int64_t longest = parts_of(s->capacity, MANY_SPAN);
    const int64_t free = planner->multiprocessors / blocks;
    s->splits = free < 2 ? 1 : (int32_t)least(free, longest);
    s->mixes = to.out;
    if (s->splits > 1 || to.sinks) add_room(planner, s);
    sl_gpu_launch *l = SL_CUDA_ADD(planner, (sl_sdpa_splits_fn){many->function}, tiles,
                                   (uint32_t)warps * SL_CUDA_WARP, *s);
    l->grid[1] = (uint32_t)s->heads;
    l->grid[2] = (uint32_t)s->splits;
    l->shared_bytes = many->shared_bytes;
    if (s->splits > 1 || to.sinks) add_all_joined(planner, s, to);
    return true;
}

/* Rows whose splits are in scratch memory at the same time, so that all rows take at most
 * MOST_BLOCKS blocks of launches. */
static int32_t rows_at_once(const sl_sdpa_splits *s) {
    enum { ROOM = 256 << 20, MOST_BLOCKS = SL_GPU_MAX_LAUNCHES / 2 };
    const int64_t splits = parts_of(s->capacity, SL_CUDA_SPLIT);
    const int64_t row =
        (int64_t)s->heads * s->ratio * splits * (s->value_width + 2) * (int64_t)sizeof(float);
    const int64_t fits = ROOM / row / FEW_ROWS * FEW_ROWS, few = parts_of(s->rows, MOST_BLOCKS);
    const int64_t least_rows = parts_of(few, FEW_ROWS) * FEW_ROWS;
    return (int32_t)least(s->rows, fits > least_rows ? fits : least_rows);
}

/* Any number of rows as few rows, some at a time. */
static void add_blocks(sl_gpu_planner *planner, const sl_sdpa_splits *all, result to) {
    const int32_t most = rows_at_once(all);
    const int64_t query = (int64_t)all->heads * all->ratio;
    sl_sdpa_splits room = *all;
    room.rows = most;
    room.splits = (int32_t)parts_of(all->capacity, SL_CUDA_SPLIT);
    add_room(planner, &room);
    for (int32_t first = 0; first < all->rows; first += most) {
        sl_sdpa_splits s = room;
        s.rows = (int32_t)least(most, all->rows - first);
        s.q += first * query * s.width;
        s.slots += (int64_t)first * (s.pages ? s.pages : 1);
        s.positions += first;
        add_splits(planner, &s);
        add_all_joined(planner, &s, (result){to.out + first * query * s.value_width, to.sinks});
    }
}

static void add_whole(sl_gpu_planner *planner, sl_sdpa_splits *s, result to) {
    if (planner->deterministic) {
        add_blocks(planner, s, to);
        return;
    }
    if (s->rows <= FEW_ROWS) {
        add_splits(planner, s);
        add_all_joined(planner, s, to);
        return;
    }
    if (add_many(planner, s, to)) return;
    s->splits = 1;
    s->mixes = to.out;
    if (to.sinks) add_room(planner, s);
    add_plain(planner, s);
    if (to.sinks) add_all_joined(planner, s, to);
}

PLAN(sdpa) {
    const sl_sdpa_args *a = args;
    SL_TRY(check_cache(&a->cache_k.type, planner, err));
    sl_sdpa_splits s = splits_of(args, a->attrs, planner);
    add_whole(planner, &s, (result){.out = a->out.data});
    return SL_OK;
}

PLAN(sdpa_sinks) {
    const sl_sdpa_sinks_args *a = args;
    const sl_sdpa_attrs attrs = {
        .scale = a->attrs.scale, .window = a->attrs.window, .softcap = a->attrs.softcap};
    SL_TRY(check_cache(&a->cache_k.type, planner, err));
    sl_sdpa_splits s = splits_of(args, attrs, planner);
    add_whole(planner, &s, (result){a->out.data, a->sinks.data});
    return SL_OK;
}

PLAN(sdpa_parts) {
    const sl_sdpa_parts_args *a = args;
    const sl_sdpa_attrs attrs = {
        .scale = a->attrs.scale, .window = a->attrs.window, .softcap = a->attrs.softcap};
    SL_TRY(check_cache(&a->cache_k.type, planner, err));
    sl_sdpa_splits s = splits_of(args, attrs, planner);
    add_splits(planner, &s);
    sl_sdpa_joined joined = joined_of(&s);
    joined.group = SL_SDPA_PART / SL_CUDA_SPLIT;
    joined.out = a->mixes.data;
    joined.out_weights = a->weights.data;
    add_join(planner, joined, queries_of(&s));
    return SL_OK;
}
