/* schedule.h - What the models of scheduling share. */
#ifndef SL_COMPILER_SCHEDULE_SCHEDULE_H
#define SL_COMPILER_SCHEDULE_SCHEDULE_H
#include "compiler/compile.h"
#include "compiler/schedule/dag.h"

/* Place i of the new order is taken by steps[i], in level[i]; levels ascend. */
typedef struct {
    uint32_t *steps, *level;
    uint32_t level_count;
} sl_order;

/* Each fills order, whose arrays have room for all steps.  The arena is scratch. */
SL_CHECKED sl_status sl_order_levels(const sl_program *program, const sl_dag *dag, sl_arena *arena,
                                     sl_order *order, sl_error *err);
SL_CHECKED sl_status sl_order_groups(const sl_program *program, const sl_dag *dag,
                                     uint32_t lookahead, sl_arena *arena, sl_order *order,
                                     sl_error *err);
SL_CHECKED sl_status sl_order_edges(const sl_dag *dag, sl_arena *arena, sl_order *order,
                                    sl_error *err);

/* Steps on the longest path from each step to an end; NULL when out of memory. */
uint32_t *sl_dag_heights(const sl_dag *dag, sl_arena *arena);
/* The edges of a planned program, reduced, on final addresses; and their report. */
SL_CHECKED sl_status sl_schedule_finish_edges(sl_program *program, sl_error *err);

/* frontier.c: the steps that may run now.  What leads to the next request of experts goes first,
 * then other work, last what waits for experts. */
typedef struct {
    const sl_program *program;
    const sl_dag *dag;
    uint32_t *waiting;      /* [step]: predecessors that have not run */
    bool *leads_to_request; /* [step]: an ancestor of the next request, or it */
    bool *done;             /* [step] */
    uint32_t *ready;        /* ascending */
    uint32_t ready_count;
    uint32_t first_open; /* the first step that has not run */
} sl_frontier;
SL_CHECKED sl_status sl_frontier_init(sl_frontier *frontier, const sl_program *program,
                                      const sl_dag *dag, sl_arena *arena, sl_error *err);
/* Takes out all steps before `limit` of the most urgent kind there is, and lets what depends on
 * them follow.  At least one while limit is above first_open and steps are left. */
uint32_t sl_frontier_take(sl_frontier *frontier, uint32_t limit, uint32_t *steps);
#endif
