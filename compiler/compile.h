/* compile.h - From a graph to a scheduled, planned program: the passes of passes/passes.def, then
 * lower, schedule, plan. */
#ifndef SL_COMPILER_COMPILE_H
#define SL_COMPILER_COMPILE_H
#include "compiler/fusion.h"
#include "compiler/graph.h"
#include "core/program.h"
#include "core/target.h"

typedef struct {
    /* Turn single stages off, to measure what they gain. */
    bool no_simplify, no_fusion, no_reordering, no_sharing, no_in_place;
    bool int8_activations;   /* quantised weights multiply int8 activations: faster, less exact */
    const sl_target *target; /* ops that it does not support are rewritten or refused; NULL: all are
                              * supported */
    sl_schedule_model model;
    uint32_t lookahead;        /* groups: how many steps ahead are considered; 0: 64 */
    bool two_submits;          /* groups: submit the first tenth early */
    uint64_t arena_alignment;  /* of the arena and its buffers; 64 (or 0) to 2 MiB */
    sl_fusion_report *fusions; /* set arena, the rest 0; filled with a row for each fusion and for
                                * each match that was not legal; NULL: no rows */
} sl_compiler_options;

/* The options for a target.  NULL: a device that supports every op. */
sl_compiler_options sl_compiler_options_for(const sl_target *target);

/* Verifies the graph, runs every stage and, in debug builds, verifies the result (core/check.h).
 * The program owns copies of everything it needs.  The graph and the bodies of its nodes are
 * changed in place; bodies become programs of their steps.  how may be NULL. */
SL_CHECKED sl_status sl_compile_graph(sl_graph *graph, const sl_compiler_options *options,
                                      const sl_allocator *allocator, sl_program **out,
                                      sl_error *err);

/* lower: every value becomes a view of a buffer, every live node a step with declared accesses;
 * views (reshape, contiguous slices) and dead nodes generate no steps.  Steps are in graph order,
 * levels unset. */
SL_CHECKED sl_status sl_lower(const sl_graph *graph, const sl_allocator *allocator,
                              sl_program **out, sl_error *err);

/* schedule/: order and levels, groups or edges from the conflicts of declared accesses.  Steps that
 * lead to the next expert request come first; steps that wait for experts come when no other work
 * is left, so that other work runs while reads are in flight. */
SL_CHECKED sl_status sl_schedule(sl_program *program, const sl_compiler_options *options,
                                 sl_error *err);

/* plan/: arena offsets.  Buffers that are live in a common level never share bytes, unless a
 * pointwise step writes its result over an operand that dies there.  Planning again on a planned
 * program gives the same plan. */
SL_CHECKED sl_status sl_plan(sl_program *program, const sl_compiler_options *options,
                             sl_error *err);
#endif
