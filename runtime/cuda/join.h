/* join.h - Steps of a graph that share a launch.
 *
 * Where a graph is made, a small step of one row can become a part of the launch of another: the
 * delta net's step takes over the norms and gates that only prepare its operands, and the warp that
 * chose a row's experts puts its pairs in order.  Fewer nodes then wait for each other; the bits
 * are the same. Steps that run one by one are launched as they were planned. Steps that need
 * others' whole results do not join: that the last block of a product goes on with a norm or the
 * routing was tried, and slower (372 instead of 388 tokens per second). */
#ifndef SL_RUNTIME_CUDA_JOIN_H
#define SL_RUNTIME_CUDA_JOIN_H
#include "runtime/cuda/executable.h"

/* Steps that a step must follow, within its segment: of step s from[first[s]] to
 * from[first[s + 1]]. */
typedef struct {
    uint32_t *first, *from;
} sl_cuda_needs;

/* Decides which steps of a segment join which, in tasks[].leader, .next and .joined. */
SL_CHECKED sl_status sl_cuda_join(sl_executable *exe, const sl_cuda_segment *segment,
                                  const sl_cuda_needs *needs, sl_error *err);
/* Each step by itself again. */
void sl_cuda_part(sl_executable *exe);
#endif
