/* moe_route_groups.c - Routing restricted to the best expert groups. */
#include "runtime/cuda/kernels/moe_route_groups.h"
#include "runtime/cuda/ops/ops.h"

/* Lanes per group: a power of two, at most one lane per expert of the group. */
static int32_t team_of(int64_t groups, int64_t experts) {
    int64_t team = 1;
    while (2 * team * groups <= SL_CUDA_WARP && 2 * team <= experts / groups) team *= 2;
    return (int32_t)team;
}

PLAN(route_groups) {
    enum { ROWS_PER_BLOCK = 2, ROOM = 96 << 10 };
    const sl_route_groups_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1), groups = a->attrs.groups;
    const int64_t row_bytes = SL_ROUTE_ROW_BYTES(experts, groups);
    if (row_bytes > ROOM)
        return sl_fail(err, SL_UNSUPPORTED, "%s: %lld experts in %lld groups, must be %d together",
                       planner->label, (long long)experts, (long long)groups, ROOM / 4);
    const int64_t rows = 2 * row_bytes > ROOM ? 1 : ROWS_PER_BLOCK;
    const sl_route_grouped launch = {.logits = a->logits.data,
                                     .bias = a->bias.data,
                                     .chosen = a->experts.data,
                                     .weights = a->weights.data,
                                     .rows = (int32_t)dim(&a->logits.type, 0),
                                     .experts = (int32_t)experts,
                                     .k = (int32_t)a->attrs.k,
                                     .normalise = (int32_t)a->attrs.normalise,
                                     .groups = (int32_t)groups,
                                     .groups_kept = (int32_t)a->attrs.groups_kept,
                                     .team = team_of(groups, experts),
                                     .scale = a->attrs.scale,
                                     .fault = planner->fault};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_route_groups), parts_of(launch.rows, rows),
                (uint32_t)rows * SL_CUDA_WARP, launch)
        ->shared_bytes = (uint32_t)(rows * row_bytes);
    return SL_OK;
}
