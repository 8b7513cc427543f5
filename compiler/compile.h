/* compile.h - From a graph to a scheduled, planned program: lower, schedule, plan. */
#ifndef SL_COMPILER_COMPILE_H
#define SL_COMPILER_COMPILE_H
#include "compiler/graph.h"
#include "core/program.h"

/* Verifies the graph and runs every stage.  The program owns copies of all it needs. */
SL_CHECKED sl_status sl_compile_graph(const sl_graph *graph, const sl_allocator *allocator,
                                      sl_program **out, sl_error *err);

/* lower: every value becomes a window on a buffer, every live node a step with declared accesses;
 * views and dead nodes become nothing.  Steps are in graph order, levels unset. */
SL_CHECKED sl_status sl_lower(const sl_graph *graph, const sl_allocator *allocator,
                              sl_program **out, sl_error *err);

/* schedule: levels from the conflicts of the declared accesses, steps sorted by level.  What leads
 * to the next request of experts comes first; what waits for experts comes when nothing else is
 * left, so that other work runs while reads are in flight. */
SL_CHECKED sl_status sl_schedule(sl_program *program, sl_error *err);

/* plan: arena offsets.  Buffers that are live in a common level never share bytes. */
SL_CHECKED sl_status sl_plan(sl_program *program, sl_error *err);
#endif
