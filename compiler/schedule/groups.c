/* groups.c - The schedule for queues with barriers: list scheduling, critical path first.
 *
 * A group takes all steps that are ready among the next `lookahead` steps of the graph, so that few
 * barriers are needed and yet no buffer is computed long before its use.  The first step that has
 * not run is always among them. */
#include "compiler/schedule/schedule.h"

uint32_t *sl_dag_heights(const sl_dag *dag, sl_arena *arena) {
    uint32_t *heights = SL_ARENA_NEW_ARRAY(arena, uint32_t, dag->step_count + 1);
    for (uint32_t s = dag->step_count; heights && s-- > 0;) {
        heights[s] = 1;
        for (uint32_t e = dag->out.first[s]; e < dag->out.first[s + 1]; e++)
            if (heights[dag->out.targets[e]] >= heights[s])
                heights[s] = heights[dag->out.targets[e]] + 1;
    }
    return heights;
}

/* Highest first; steps of one height stay in the order of the graph. */
static void sort_by_height(const uint32_t *heights, uint32_t *steps, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t step = steps[i];
        uint32_t at = i;
        for (; at > 0 && heights[steps[at - 1]] < heights[step]; at--) steps[at] = steps[at - 1];
        steps[at] = step;
    }
}

sl_status sl_order_groups(const sl_program *program, const sl_dag *dag, uint32_t lookahead,
                          sl_arena *arena, sl_order *order, sl_error *err) {
    sl_frontier frontier;
    SL_TRY(sl_frontier_init(&frontier, program, dag, arena, err));
    const uint32_t *heights = sl_dag_heights(dag, arena);
    if (!heights) return sl_no_memory(err, "a schedule", dag->step_count);
    for (uint32_t at = 0; at < dag->step_count; order->level_count++) {
        const uint64_t limit = (uint64_t)frontier.first_open + lookahead;
        const uint32_t near = limit < dag->step_count ? (uint32_t)limit : dag->step_count;
        const uint32_t count = sl_frontier_take(&frontier, near, order->steps + at);
        sort_by_height(heights, order->steps + at, count);
        for (const uint32_t end = at + count; at < end; at++) order->level[at] = order->level_count;
    }
    return SL_OK;
}
