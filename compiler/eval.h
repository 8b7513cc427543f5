/* eval.h - The reference evaluator: runs a graph by the definition of its ops, in double precision.
 */
#ifndef SL_COMPILER_EVAL_H
#define SL_COMPILER_EVAL_H
#include "compiler/graph.h"
#include "compiler/ops/semantics.h"

typedef struct sl_evaluator sl_evaluator;
SL_CHECKED sl_status sl_evaluator_create(const sl_graph *graph, const sl_allocator *allocator,
                                         sl_evaluator **out, sl_error *err);
void sl_evaluator_destroy(sl_evaluator *evaluator);

/* Inputs, weights: bytes in the value's own type, borrowed until the next bind or destroy.
 * States: sl_type_slots doubles, borrowed, updated by each run. */
SL_CHECKED sl_status sl_evaluator_bind(sl_evaluator *evaluator, sl_value value, const void *data,
                                       sl_error *err);
SL_CHECKED sl_status sl_evaluator_bind_state(sl_evaluator *evaluator, sl_value value, double *data,
                                             sl_error *err);
SL_CHECKED sl_status sl_evaluator_bind_experts(sl_evaluator *evaluator, sl_value value,
                                               sl_expert_source *source, sl_error *err);
/* An input as it lies in another evaluation, of the same type; copied where it has slots. */
SL_CHECKED sl_status sl_evaluator_give(sl_evaluator *evaluator, sl_value value,
                                       const sl_eval_tensor *tensor, sl_error *err);
SL_CHECKED sl_status sl_evaluator_run(sl_evaluator *evaluator, sl_error *err);
/* After a run: the value's elements, borrowed until the next run. */
const double *sl_evaluator_result(const sl_evaluator *evaluator, sl_value value);
#endif
