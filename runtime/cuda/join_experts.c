/* join_experts.c - A row's choice of experts, and what becomes of it. */
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/route.h"

sl_status sl_join_experts(const sl_joining *j, uint32_t step, sl_error *err) {
    (void)j, (void)step, (void)err;
    return SL_OK;
}

/* The pairs of one row are put in order by the warp that chose them. */
sl_status sl_join_route(const sl_joining *j, uint32_t step, sl_error *err) {
    if (step_at(j, step)->op != SL_OP_moe_group || !sl_joining_is_one(j, step, "sl_moe_group"))
        return SL_OK;
    for (uint32_t i = j->needs->first[step]; i < j->needs->first[step + 1]; i++) {
        const uint32_t leader = j->needs->from[i];
        if (step_at(j, leader)->op != SL_OP_route || !sl_joining_is_one(j, leader, "sl_route"))
            continue;
        sl_route_grouping both = {
            .route = *(const sl_route_rows *)(const void *)launch_of(j, leader, 0)->args,
            .group = *(const sl_group_pairs *)(const void *)launch_of(j, step, 0)->args};
        if (both.route.rows != 1 || both.route.k > SL_CUDA_WARP ||
            both.route.chosen != both.group.chosen || both.route.experts != both.group.experts ||
            !sl_joining_add(j, leader, &step, 1, NULL))
            continue;
        sl_cuda_joined *joined = NULL;
        SL_TRY(sl_joining_own(j, leader, &joined, err));
        sl_joining_set(joined, "sl_route_group", &both, sizeof both);
        joined->launch.threads = SL_CUDA_WARP;
        return SL_OK;
    }
    return SL_OK;
}
