/* control_scan.h - Shared by scan and its gradients. */
#ifndef SL_COMPILER_OPS_CONTROL_SCAN_H
#define SL_COMPILER_OPS_CONTROL_SCAN_H
#include "compiler/ops/body.h"

/* A scan's inputs are carries, consts and xs; its body returns carries and ys. */
typedef struct {
    const sl_graph *body;
    uint32_t carries, consts, xs, ys;
    int64_t length;
    uint32_t reverse;
} sl_scan_form;

/* Checks the first `inputs` inputs against the body; sets xs, ys and length. */
SL_CHECKED sl_status sl_scan_check(const sl_infer_args *a, sl_scan_form *form, uint32_t inputs,
                                   sl_body_check *body, sl_error *err);
/* The type of a body's output, stacked over all iterations. */
SL_CHECKED sl_status sl_scan_stacked(const sl_body_check *body, const sl_scan_form *form,
                                     uint32_t output, sl_type *out);
/* The type of one slice of a stack. */
sl_type sl_scan_slice(const sl_type *stack);

/* Sets xs, ys and length of a scan that has been checked. */
void sl_scan_count(sl_scan_form *form, uint32_t inputs, const sl_eval_tensor *in);
/* Binds consts and xs[t] to the body, after its carries. */
SL_CHECKED sl_status sl_scan_give_rest(const sl_body_eval *body, const sl_scan_form *form,
                                       const sl_eval_tensor *in, int64_t t, sl_error *err);
/* Slice t of a stack. */
sl_eval_tensor sl_scan_part(const sl_eval_tensor *stack, int64_t t);
/* Copies an output of the body to slice t of the stack. */
void sl_scan_store(const sl_body_eval *body, uint32_t output, int64_t t,
                   const sl_eval_tensor *stack);
#endif
