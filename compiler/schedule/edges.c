/* edges.c - The schedule for devices that take a graph: edges define what waits for what; the order
 * only affects lifetimes.
 *
 * A step's level is the longest path that leads to it.  Memory shared by lifetimes over levels
 * makes new conflicts; the edges are therefore found again on the final addresses. */
#include "compiler/schedule/schedule.h"
#include <stdlib.h>

typedef struct {
    uint32_t level, height, step;
} place;

static int by_level_and_height(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->height != y->height) return x->height > y->height ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

sl_status sl_order_edges(const sl_dag *dag, sl_arena *arena, sl_order *order, sl_error *err) {
    const uint32_t n = dag->step_count;
    const uint32_t *heights = sl_dag_heights(dag, arena);
    place *places = SL_ARENA_NEW_ARRAY(arena, place, n + 1);
    if (!heights || !places) return sl_no_memory(err, "a schedule", n);
    for (uint32_t s = 0; s < n; s++) {
        places[s] = (place){0, heights[s], s};
        for (uint32_t e = dag->in.first[s]; e < dag->in.first[s + 1]; e++)
            if (places[dag->in.targets[e]].level >= places[s].level)
                places[s].level = places[dag->in.targets[e]].level + 1;
        if (places[s].level >= order->level_count) order->level_count = places[s].level + 1;
    }
    qsort(places, n, sizeof *places, by_level_and_height);
    for (uint32_t i = 0; i < n; i++) {
        order->steps[i] = places[i].step;
        order->level[i] = places[i].level;
    }
    return SL_OK;
}

sl_status sl_schedule_finish_edges(sl_program *program, sl_error *err) {
    sl_status status = SL_OK;
    sl_arena scratch;
    sl_arena_init(&scratch, program->arena.allocator);
    sl_dag dag, reduced;
    sl_program_report *report = &program->report;
    SL_TRY_ELSE(done, sl_dag_build(program, SL_SPACE_ADDRESSES, &scratch, &dag, err));
    SL_TRY_ELSE(done, sl_dag_reduce(&dag, &program->arena, &reduced, err));
    SL_TRY_ELSE(done, sl_dag_count_conflicts(program, SL_SPACE_ADDRESSES, &scratch,
                                             &report->edges_naive, err));
    program->edges = reduced.out;
    report->edges = reduced.edge_count;
done:
    sl_arena_deinit(&scratch);
    return status;
}
