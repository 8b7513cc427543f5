/* compile.h - From a graph to a scheduled, planned program: simplify, legalise, quantise, fuse,
 * lower, schedule, plan. */
#ifndef SL_COMPILER_COMPILE_H
#define SL_COMPILER_COMPILE_H
#include "compiler/graph.h"
#include "core/program.h"
#include "core/target.h"

typedef struct {
    /* Each alone, to see what it gains. */
    bool no_simplify, no_fusion, no_reordering, no_sharing, no_in_place;
    bool wide_regions;       /* the device runs elementwise_region */
    bool int8_activations;   /* products with panels take rows of a8: faster, a little less exact */
    const sl_target *target; /* what is not native to it is rewritten or refused; NULL: not asked */
    sl_schedule_model model;
    uint32_t lookahead;       /* of groups: how far ahead a step may be taken from; 0: 64 */
    bool two_submits;         /* of groups: the first tenth is submitted early */
    uint64_t arena_alignment; /* of the arena and its buffers; 64 (or 0) to 2 MiB */
} sl_compile_how;

/* Verifies the graph, runs every stage and, in debugging builds, checks the result (core/check.h).
 * The program owns copies of all it needs; the graph is fused in place, and so are the bodies of
 * its nodes, which become programs of their steps.  how may be NULL. */
SL_CHECKED sl_status sl_compile_graph(sl_graph *graph, const sl_compile_how *how,
                                      const sl_allocator *allocator, sl_program **out,
                                      sl_error *err);

/* passes/fuse.h: before lowering. */

/* lower: every value becomes a window on a buffer, every live node a step with declared accesses;
 * views (reshape, and slices that are contiguous) and dead nodes become nothing.  Steps are in
 * graph order, levels unset. */
SL_CHECKED sl_status sl_lower(const sl_graph *graph, const sl_allocator *allocator,
                              sl_program **out, sl_error *err);

/* schedule/: order and levels, groups or edges from the conflicts of declared accesses.  What leads
 * to the next request of experts comes first; what waits for experts comes when nothing else is
 * left, so that other work runs while reads are in flight. */
SL_CHECKED sl_status sl_schedule(sl_program *program, const sl_compile_how *how, sl_error *err);

/* plan/: arena offsets.  Buffers that are live in a common level never share bytes, unless a
 * pointwise step writes its result over an operand that dies there.  Planning again on a planned
 * program gives the same plan. */
SL_CHECKED sl_status sl_plan(sl_program *program, const sl_compile_how *how, sl_error *err);
#endif
