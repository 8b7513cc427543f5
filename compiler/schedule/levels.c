/* levels.c - The schedule for a team of threads: a level is all ready steps of the same urgency.
 */
#include "compiler/schedule/schedule.h"

sl_status sl_order_levels(const sl_program *program, const sl_dag *dag, sl_arena *arena,
                          sl_order *order, sl_error *err) {
    sl_frontier frontier;
    SL_TRY(sl_frontier_init(&frontier, program, dag, arena, err));
    for (uint32_t at = 0; at < dag->step_count; order->level_count++) {
        const uint32_t end = at + sl_frontier_take(&frontier, dag->step_count, order->steps + at);
        for (; at < end; at++) order->level[at] = order->level_count;
    }
    return SL_OK;
}
