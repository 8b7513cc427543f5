/* dag.h - Who must wait for whom.
 *
 * Dependencies are found with a map of byte intervals: each remembers its last writer and the
 * readers since.  A read depends on the writer (RAW); a write on the readers, or on the writer when
 * there are none (WAR, WAW).  O(log n) per run of an access. */
#ifndef SL_COMPILER_SCHEDULE_DAG_H
#define SL_COMPILER_SCHEDULE_DAG_H
#include "core/program.h"

/* Where bytes are: by buffer (before planning), or by final address in the arena. */
typedef enum { SL_SPACE_BUFFERS, SL_SPACE_ADDRESSES } sl_space;

typedef struct {
    uint32_t step_count;
    sl_edges out, in; /* successors and predecessors, both in ascending order */
    uint32_t edge_count;
} sl_dag;

/* The steps' order in the program is the order that must seem to hold.  Lives in arena. */
SL_CHECKED sl_status sl_dag_build(const sl_program *program, sl_space space, sl_arena *arena,
                                  sl_dag *out, sl_error *err);
/* Drops every edge that a longer path implies. */
SL_CHECKED sl_status sl_dag_reduce(const sl_dag *dag, sl_arena *arena, sl_dag *out, sl_error *err);
/* How many pairs of steps conflict: what a barrier or an edge for each would come to. */
SL_CHECKED sl_status sl_dag_count_conflicts(const sl_program *program, sl_space space,
                                            sl_arena *arena, uint32_t *out_pairs, sl_error *err);
#endif
