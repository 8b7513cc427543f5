/* moe_route.c - Routing: top-k experts per token, and sorting the pairs by expert. */
#include "runtime/cuda/kernels/moe_route.h"
#include "runtime/cuda/ops/ops.h"

PLAN(route) {
    const sl_route_args *a = args;
    enum { ROWS_PER_BLOCK = 2 };
    const sl_route_rows launch = {.logits = a->logits.data,
                                  .chosen = a->experts.data,
                                  .weights = a->weights.data,
                                  .rows = (int32_t)dim(&a->logits.type, 0),
                                  .experts = (int32_t)dim(&a->logits.type, 1),
                                  .k = (int32_t)a->attrs.k,
                                  .normalise = (int32_t)a->attrs.normalise,
                                  .fault = planner->fault};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_route), parts_of(launch.rows, ROWS_PER_BLOCK),
                ROWS_PER_BLOCK * SL_CUDA_WARP, launch);
    return SL_OK;
}

/* Few threads for few pairs; enough to cover the experts at once, but no more than the tables of
 * all warps have room for. */
static uint32_t group_threads(int64_t pairs, int64_t experts) {
    enum { FEWEST = 256, MOST = 1024, TABLE_BYTES = 96 << 10 };
    const int64_t warps = TABLE_BYTES / (experts * (int64_t)sizeof(int32_t));
    const int64_t most = warps < 1 ? SL_CUDA_WARP : least(MOST, warps * SL_CUDA_WARP);
    return threads_for(pairs < FEWEST ? FEWEST : pairs, (uint32_t)most);
}

PLAN(moe_group) {
    const sl_moe_group_args *a = args;
    sl_group_pairs launch = {.chosen = a->chosen.data,
                             .order = a->order.data,
                             .starts = a->starts.data,
                             .pairs = (int32_t)sl_type_elements(&a->chosen.type),
                             .experts = (int32_t)dim(&a->experts.type, 0),
                             .fault = planner->fault};
    const uint32_t threads = group_threads(launch.pairs, launch.experts);
    const uint32_t table_bytes = (uint32_t)launch.experts * (uint32_t)sizeof(int32_t);
    const uint32_t shared_bytes = threads / SL_CUDA_WARP * table_bytes;
    launch.chunks = (int32_t)parts_of(launch.pairs, threads);
    if (launch.chunks > 1) {
        launch.counts = sl_gpu_scratch(planner, (uint64_t)launch.chunks * table_bytes);
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_moe_group_count), launch.chunks, threads, launch)
            ->shared_bytes = shared_bytes;
    }
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_moe_group), launch.chunks, threads, launch)->shared_bytes =
        shared_bytes;
    return SL_OK;
}
