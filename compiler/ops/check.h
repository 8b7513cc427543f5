/* check.h - Shared by all op families: signatures, broadcasting, and access to operands.
 *
 * A signature states an op's types in one line:
 *
 *   "x f32[T,K], w weight[N,K] -> f32[T,N]"
 *
 * Inputs are listed in order with their names; results follow the arrow (NEXT outputs are omitted).
 * A dim is a number or a name; a name is one size wherever it appears; "2D" and "W-1" are derived
 * from one.  A leading ".." matches any leading dims, the same wherever it appears.
 *
 * An element type is the name of a dtype or a class: `number` (f32 or i32), `keys` (f32, f16 or
 * k16), `values` (f32, f16 or v16), `float`, `plain` (whole elements: no panels, no codes),
 * `weight` (f32, f16, bf16 or panel), `panels`, `rows` (f32 or a8), `any`. */
#ifndef SL_COMPILER_OPS_CHECK_H
#define SL_COMPILER_OPS_CHECK_H
#include "compiler/ops/semantics.h"
#include "core/elementwise_math.h"

#define OP(NAME, ...)                                                                              \
    sl_infer_fn sl_infer_##NAME;                                                                   \
    sl_eval_fn sl_eval_##NAME;
#include "core/ops.def"

/* Checks the inputs against the signature and sets the result types. */
SL_CHECKED sl_status sl_match(const sl_infer_args *a, const char *signature, sl_error *err);
/* linear.c: the same; if the first input is a8, `weight` means `panels`. */
SL_CHECKED sl_status sl_match_product(const sl_infer_args *a, const char *signature, sl_error *err);
/* The same for the second input only. */
SL_CHECKED sl_status sl_match_second(const sl_infer_args *a, const char *signature, sl_error *err);

/* The broadcast shape of a and b, as in NumPy. */
SL_CHECKED sl_status sl_broadcast(const char *label, const sl_dims *a, const sl_dims *b,
                                  sl_dims *out, sl_error *err);
/* The index in a tensor of shape `from` that broadcasts to element `index` of shape `to`. */
int64_t sl_broadcast_index(const sl_dims *from, const sl_dims *to, int64_t index);

/* Fails unless attribute `name` is in [least, most]. */
SL_CHECKED sl_status sl_check_attr(const char *label, const char *name, int64_t value,
                                   int64_t least, int64_t most, sl_error *err);

/* The first `count` inputs as doubles; weights are decoded into scratch. */
SL_CHECKED sl_status sl_eval_inputs(const sl_eval_args *a, uint32_t count, const double **out,
                                    sl_error *err);
/* Scratch for count doubles; fails with SL_NO_MEMORY. */
SL_CHECKED sl_status sl_eval_scratch(const sl_eval_args *a, int64_t count, double **out,
                                     sl_error *err);
/* Fails unless all `count` integers are in [0, limit). */
SL_CHECKED sl_status sl_eval_bounds(const sl_eval_args *a, const char *name, const double *values,
                                    int64_t count, int64_t limit, sl_error *err);

static inline int64_t sl_eval_dim(const sl_eval_args *a, uint32_t input, uint32_t dim) {
    return a->in[input].type.shape.dims[dim];
}
static inline int64_t sl_eval_last_dim(const sl_eval_args *a, uint32_t input) {
    const sl_dims *shape = &a->in[input].type.shape;
    return shape->rank ? shape->dims[shape->rank - 1] : 1;
}

/* A fused op is defined as its parts in sequence: allocates an intermediate value of the given
 * type, and runs one part with one result. */
SL_CHECKED sl_status sl_eval_temp(const sl_eval_args *a, const sl_type *type, sl_eval_tensor *out,
                                  sl_error *err);
SL_CHECKED sl_status sl_eval_part(const sl_eval_args *a, sl_op op, const sl_eval_tensor *in,
                                  const void *attrs, const sl_eval_tensor *out, sl_error *err);
/* quant_a8.c: runs the op on the same inputs; result `last` is the quantised form of the op's last
 * result. */
SL_CHECKED sl_status sl_eval_quantised(const sl_eval_args *a, sl_op op, const void *attrs,
                                       uint32_t last, sl_error *err);
/* Rounds rows of doubles to what a8 can represent. */
void sl_eval_round_a8(double *x, int64_t rows, int64_t cols);

/* Truncates an integer to the bits of a type; for bool: whether it is nonzero. */
int64_t sl_wrap_integer(sl_dtype dtype, int64_t value);
#endif
