/* join.h - Steps of a graph that share launches.
 *
 * When a graph is built, small steps of one row can become part of another step's launches: a norm
 * is recomputed by every block of the products that use it, the delta-net step includes the norms
 * and gates that only prepare its operands, and experts include their routing and their sum.  Fewer
 * nodes then wait for each other.  Steps that run one by one use their planned launches. */
#ifndef SL_RUNTIME_CUDA_JOIN_H
#define SL_RUNTIME_CUDA_JOIN_H
#include "runtime/cuda/executable.h"

/* The steps that a step depends on, within its segment: for step s from[first[s]] to from[first[s +
 * 1]]. */
typedef struct {
    uint32_t *first, *from;
} sl_cuda_needs;

/* A rule is tried for each step that launches certain kernels, or kernels of certain families. */
typedef struct sl_joining sl_joining;
typedef sl_status sl_join_fn(const sl_joining *j, uint32_t step, sl_error *err);
struct sl_join_rule {
    const char *name;
    sl_cuda_fn first[2]; /* of the step's first launch: either of them */
    sl_cuda_fn second;   /* of its second launch; none: it has one launch */
    sl_cuda_fn takes[5]; /* of other steps that can become part of these launches */
    sl_cuda_fn makes[2]; /* what the leader launches instead, one per launch */
    sl_join_fn *join;    /* checks the remaining conditions and joins the steps */
    bool keeps_bits;     /* results are those of the steps apart; only such rules are used where
                            bits must not depend on the number of rows */
};
enum { SL_JOIN_RULES = 7 };
extern const sl_join_rule sl_join_rules[SL_JOIN_RULES]; /* in the order in which they are tried */

/* Decides which steps of a segment share launches, in tasks[].leader, .next, .rule and .joined. */
SL_CHECKED sl_status sl_cuda_join(sl_cuda_executable *exe, const sl_gpu_segment *segment,
                                  const sl_cuda_needs *needs, sl_error *err);
/* Undoes all joins. */
void sl_cuda_unjoin(sl_cuda_executable *exe);
/* levels.c: cuts a program whose steps were joined as one segment into levels, which become its
 * segments; false if some experts were not joined. */
bool sl_cuda_level(sl_cuda_executable *exe, const sl_cuda_needs *needs);
#endif
