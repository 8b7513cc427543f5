/* join.h - Steps of a graph that share launches.
 *
 * Where a graph is made, small steps of one row can become a part of the launches of another: a
 * norm is made by every block of the products that take it, the delta net's step takes over the
 * norms and gates that only prepare its operands, and experts their routing and their sum.  Fewer
 * nodes then wait for each other.  Steps that run one by one are launched as they were planned. */
#ifndef SL_RUNTIME_CUDA_JOIN_H
#define SL_RUNTIME_CUDA_JOIN_H
#include "runtime/cuda/executable.h"

/* Steps that a step must follow, within its segment: of step s from[first[s]] to
 * from[first[s + 1]]. */
typedef struct {
    uint32_t *first, *from;
} sl_cuda_needs;

/* A rule looks at each step whose launches are of certain kernels, or families of kernels. */
typedef struct sl_joining sl_joining;
typedef sl_status sl_join_fn(const sl_joining *j, uint32_t step, sl_error *err);
struct sl_join_rule {
    const char *name;
    sl_cuda_fn first[2]; /* of the step's first launch: either */
    sl_cuda_fn second;   /* of its second; none: it has one launch */
    sl_cuda_fn takes[5]; /* of other steps that can become part of the same launches */
    sl_cuda_fn makes[2]; /* what the leader launches instead, launch by launch */
    sl_join_fn *join;    /* joins, where all that is needed is there */
};
enum { SL_JOIN_RULES = 7 };
extern const sl_join_rule sl_join_rules[SL_JOIN_RULES]; /* in the order in which they are tried */

/* Decides which steps of a segment join which, in tasks[].leader, .next, .rule and .joined. */
SL_CHECKED sl_status sl_cuda_join(sl_cuda_executable *exe, const sl_cuda_segment *segment,
                                  const sl_cuda_needs *needs, sl_error *err);
/* Each step by itself again. */
void sl_cuda_part(sl_cuda_executable *exe);
/* levels.c: cuts a program whose steps were joined as one segment into levels, which become its
 * segments; false where experts did not join. */
bool sl_cuda_level(sl_cuda_executable *exe, const sl_cuda_needs *needs);
#endif
