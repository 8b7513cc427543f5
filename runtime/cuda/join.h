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

/* Decides which steps of a segment join which, in tasks[].leader, .next and .joined. */
SL_CHECKED sl_status sl_cuda_join(sl_cuda_executable *exe, const sl_cuda_segment *segment,
                                  const sl_cuda_needs *needs, sl_error *err);
/* Each step by itself again. */
void sl_cuda_part(sl_cuda_executable *exe);
/* levels.c: cuts a program whose steps were joined as one segment into levels, which become its
 * segments; false where experts did not join. */
bool sl_cuda_level(sl_cuda_executable *exe, const sl_cuda_needs *needs);
#endif
