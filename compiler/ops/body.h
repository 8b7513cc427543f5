/* body.h - Shared by ops with bodies: checking the signature of a body, and evaluating it. */
#ifndef SL_COMPILER_OPS_BODY_H
#define SL_COMPILER_OPS_BODY_H
#include "compiler/eval.h"
#include "compiler/ops/check.h"

/* Checks that all input types are valid, so that they can be compared and printed. */
SL_CHECKED sl_status sl_check_inputs(const sl_infer_args *a, sl_error *err);

/* A body while it is checked: its inputs are consumed in order. */
typedef struct {
    const sl_infer_args *args;
    const char *name; /* name of the attribute */
    const sl_graph *graph;
    uint32_t value, taken; /* the last input that was consumed, and how many were */
    sl_error *err;
} sl_body_check;
/* Fails unless the body is a valid graph that declares only inputs and constants. */
SL_CHECKED sl_status sl_body_begin(sl_body_check *check, const sl_infer_args *args,
                                   const char *name, const sl_graph *graph, sl_error *err);
/* The body's next input must have this type, which is that of `what` number index. */
SL_CHECKED sl_status sl_body_takes(sl_body_check *check, const sl_type *type, const char *what,
                                   uint32_t index);
/* The body must have no further input, and this many outputs. */
SL_CHECKED sl_status sl_body_ends(const sl_body_check *check, uint32_t outputs);
/* The body's output must have this type. */
SL_CHECKED sl_status sl_body_gives(const sl_body_check *check, uint32_t output, const sl_type *type,
                                   const char *what, uint32_t index);
/* The type of an output, which must have plain elements. */
SL_CHECKED sl_status sl_body_output(const sl_body_check *check, uint32_t output, sl_type *out);
uint32_t sl_body_input_count(const sl_graph *graph);
/* A single bool, of any rank. */
bool sl_is_one_bool(const sl_type *type);

/* A body while it is evaluated; call sl_body_close afterwards. */
typedef struct {
    const sl_graph *graph;
    sl_evaluator *evaluator;
    const sl_value *inputs; /* in scratch */
} sl_body_eval;
SL_CHECKED sl_status sl_body_open(const sl_eval_args *a, const sl_graph *graph, sl_body_eval *out,
                                  sl_error *err);
void sl_body_close(sl_body_eval *body);
SL_CHECKED sl_status sl_body_give(const sl_body_eval *body, uint32_t input,
                                  const sl_eval_tensor *tensor, sl_error *err);
SL_CHECKED sl_status sl_body_run(const sl_body_eval *body, sl_error *err);
/* The slots of an output, valid until the next run. */
const double *sl_body_result(const sl_body_eval *body, uint32_t output);
/* Copies results [first, first + count) to tensors. */
void sl_body_take(const sl_body_eval *body, uint32_t first, uint32_t count,
                  const sl_eval_tensor *out);
/* The inputs of an op as slots, in scratch; types without slots are decoded, panels stay
 * encoded. */
SL_CHECKED sl_status sl_eval_plain(const sl_eval_args *a, sl_eval_tensor **out, sl_error *err);
#endif
