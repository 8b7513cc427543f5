/* join_experts.c - The routing of one row, its experts, and the sum of their results. */
#include "core/codec.h"
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/gemv_panel.h"
#include "runtime/cuda/kernels/moe_row.h"

/* Operands: route is logits, experts, weights; moe_group is chosen, experts, order, starts; moe_ffn
 * is x, order, starts, experts, out; the step that sums begins with y, weights. */
enum { ROUTE_CHOSEN = 1, ROUTE_WEIGHTS = 2, GROUP_CHOSEN = 0, GROUP_ORDER = 2 };
enum { FFN_ORDER = 1, FFN_OUT = 4, JOIN_Y = 0, JOIN_WEIGHTS = 1 };

/* The step that produces an operand. */
static uint32_t maker_of(const sl_joining *j, const sl_operand *operand, sl_op op,
                         uint32_t output) {
    for (uint32_t s = j->segment->first; s < j->segment->end; s++)
        if (step_at(j, s)->op == op &&
            sl_joining_is_same(&step_at(j, s)->operands[output], operand))
            return s;
    return UINT32_MAX;
}

/* The step that sums the results of the experts with these weights. */
static uint32_t joiner_of(const sl_joining *j, const sl_operand *y, const sl_operand *weights) {
    if (sl_joining_uses(j, y) != 2) return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++)
        if (sl_joining_is(j, s, SL_FN_sl_moe_join) &&
            sl_joining_is_same(&step_at(j, s)->operands[JOIN_Y], y) &&
            sl_joining_is_same(&step_at(j, s)->operands[JOIN_WEIGHTS], weights))
            return s;
    return UINT32_MAX;
}

static sl_dtype weight_of(const sl_gpu_launch *launch) {
    return (sl_dtype)sl_cuda_fn_infos[launch->function].weight;
}

static sl_moe_row_share share_of(const sl_cuda_panels *w, int32_t shares) {
    const int32_t blocks = sl_share_blocks(w, shares);
    return (sl_moe_row_share){blocks, (int32_t)sl_share_bytes(w, blocks)};
}

static sl_status set_launches(const sl_joining *j, uint32_t ffn, const sl_route_grouping *choice,
                              uint32_t join, sl_error *err) {
    sl_cuda_joined *joined = NULL;
    SL_TRY(sl_joining_own(j, ffn, &joined, err));
    const sl_gpu_launch *pairs_up = launch_of(j, ffn, 0), *pairs_down = launch_of(j, ffn, 1);
    const sl_moe_row_up_fn up_fn =
        SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_moe_row_up), weight_of(pairs_up));
    const sl_moe_row_down_fn down_fn =
        SL_CUDA_FN_OF_TYPE(SL_CUDA_FN(sl_moe_row_down), weight_of(pairs_down));
    sl_moe_row_up up = {.choice = *choice, .up = *SL_CUDA_ARGS(pairs_up, sl_moe_pairs_up)};
    sl_moe_row_down down = {.route = choice->route,
                            .down = *SL_CUDA_ARGS(pairs_down, sl_moe_pairs_down),
                            .mix = *SL_CUDA_ARGS(launch_of(j, join, 0), sl_moe_join)};
    up.share = share_of(&up.up.w, SL_MOE_ROW_UP_SHARES);
    down.share = share_of(&down.down.w, SL_MOE_ROW_DOWN_SHARES);
    joined[0].launch.threads = SL_MOE_ROW_WARPS * SL_CUDA_WARP;
    joined[1].launch.threads = (SL_MOE_ROW_WARPS + 1) * SL_CUDA_WARP;
    SL_JOINING_SET(j, joined, 0, up_fn, up);
    joined[0].launch.grid[1] = (uint32_t)choice->route.k + 1;
    joined[0].launch.shared_bytes = sl_moe_row_bytes(&up.share, 1, up.up.w.groups);
    SL_JOINING_SET(j, joined, 1, down_fn, down);
    joined[1].launch.grid[0] =
        (uint32_t)(down.mix.width + SL_CUDA_PANEL_ROWS - 1) / SL_CUDA_PANEL_ROWS;
    joined[1].launch.grid[1] = 1;
    joined[1].launch.shared_bytes =
        sl_moe_row_bytes(&down.share, choice->route.k, down.down.w.groups);
    return SL_OK;
}

static bool fits(const sl_joining *j, const sl_route_rows *route, uint32_t ffn) {
    const sl_moe_up *up = SL_CUDA_ARGS(launch_of(j, ffn, 0), sl_moe_pairs_up);
    const sl_moe_down *down = SL_CUDA_ARGS(launch_of(j, ffn, 1), sl_moe_pairs_down);
    const sl_moe_row_share into = share_of(&up->w, SL_MOE_ROW_UP_SHARES);
    const sl_moe_row_share out = share_of(&down->w, SL_MOE_ROW_DOWN_SHARES);
    enum { STATIC_BYTES = 16384, MOST_BLOCKS = 100 };
    const uint32_t room = j->exe->base.gpu->shared_limit - STATIC_BYTES;
    return route->rows == 1 && route->k <= SL_MOE_ROW_CHOICES &&
           route->experts <= SL_MOE_ROW_EXPERTS && up->places.pairs == route->k &&
           up->places.experts == route->experts && into.blocks <= MOST_BLOCKS &&
           out.blocks <= MOST_BLOCKS && sl_moe_row_bytes(&into, 1, up->w.groups) <= room &&
           sl_moe_row_bytes(&out, route->k, down->w.groups) <= room;
}

/* The routing of one row, its experts and the sum of their results are two launches. */
sl_status sl_join_experts(const sl_joining *j, uint32_t step, sl_error *err) {
    const sl_step *s = step_at(j, step);
    if (s->op != SL_OP_moe_ffn) return SL_OK;
    const uint32_t group = maker_of(j, &s->operands[FFN_ORDER], SL_OP_moe_group, GROUP_ORDER);
    if (group == UINT32_MAX || !sl_joining_is(j, group, SL_FN_sl_moe_group)) return SL_OK;
    const uint32_t route =
        maker_of(j, &step_at(j, group)->operands[GROUP_CHOSEN], SL_OP_route, ROUTE_CHOSEN);
    if (route == UINT32_MAX || !sl_joining_is(j, route, SL_FN_sl_route)) return SL_OK;
    const uint32_t join =
        joiner_of(j, &s->operands[FFN_OUT], &step_at(j, route)->operands[ROUTE_WEIGHTS]);
    const sl_route_grouping choice = {.route = *SL_CUDA_ARGS(launch_of(j, route, 0), sl_route),
                                      .group = *SL_CUDA_ARGS(launch_of(j, group, 0), sl_moe_group)};
    const uint32_t members[] = {route, group, join};
    static const bool late[] = {false, false, true};
    if (join == UINT32_MAX || !fits(j, &choice.route, step) ||
        !sl_joining_add(j, step, members, 3, late))
        return SL_OK;
    return set_launches(j, step, &choice, join, err);
}

/* The pairs of one row are sorted by the warp that chose the experts. */
sl_status sl_join_route(const sl_joining *j, uint32_t step, sl_error *err) {
    for (uint32_t i = j->needs->first[step]; i < j->needs->first[step + 1]; i++) {
        const uint32_t leader = j->needs->from[i];
        if (step_at(j, leader)->op != SL_OP_route || !sl_joining_is(j, leader, SL_FN_sl_route))
            continue;
        const sl_route_grouping both = {.route = *SL_CUDA_ARGS(launch_of(j, leader, 0), sl_route),
                                        .group =
                                            *SL_CUDA_ARGS(launch_of(j, step, 0), sl_moe_group)};
        if (both.route.rows != 1 || both.route.k > SL_CUDA_WARP ||
            both.route.chosen != both.group.chosen || both.route.experts != both.group.experts ||
            !sl_joining_add(j, leader, &step, 1, NULL))
            continue;
        sl_cuda_joined *joined = NULL;
        SL_TRY(sl_joining_own(j, leader, &joined, err));
        SL_JOINING_SET(j, joined, 0, SL_CUDA_FN(sl_route_group), both);
        joined->launch.threads = SL_CUDA_WARP;
        return SL_OK;
    }
    return SL_OK;
}
