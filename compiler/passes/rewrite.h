/* rewrite.h - What the rules of rewrites.def are written with. */
#ifndef SL_COMPILER_PASSES_REWRITE_H
#define SL_COMPILER_PASSES_REWRITE_H
#include "compiler/build.h"
#include "compiler/graph.h"

/* Appends nodes that compute what the node does from the values `in`, and sets out to the results;
 * false, with nothing appended, where the rule does not fit. */
typedef bool sl_rewrite_fn(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out);
#define REWRITE(OP, NAME, SUMMARY)        sl_rewrite_fn sl_rewrite_##NAME;
#define REWRITE_ALWAYS(OP, NAME, SUMMARY) sl_rewrite_fn sl_rewrite_##NAME;
#include "compiler/passes/rewrites.def"

typedef struct {
    sl_op op;
    const char *name, *summary;
    sl_rewrite_fn *rewrite;
    bool always; /* no device has a kernel */
} sl_rewrite;
/* Ends with one without a name. */
extern const sl_rewrite sl_rewrites[];

static inline const sl_type *sl_rw_type(const sl_graph *g, sl_value value) {
    return &g->values[value.v].type;
}
/* Whether results in between may be rounded to the type: what is narrower is computed wider. */
static inline bool sl_rw_is_wide(const sl_graph *g, sl_value value) {
    const sl_dtype dtype = sl_rw_type(g, value)->dtype;
    return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_f64;
}
/* Whether sums and differences in between may be, too. */
static inline bool sl_rw_is_double(const sl_graph *g, sl_value value) {
    return sl_rw_type(g, value)->dtype == SL_DTYPE_f64;
}

/* A constant of one element that is like no other constant by name; and one of a given shape, from
 * slots (core/codec.h) in row-major order. */
sl_value sl_rw_number(sl_graph *g, sl_dtype dtype, double number);
sl_value sl_rw_constant(sl_graph *g, const sl_type *type, const double *slots);
/* All elements the same. */
sl_value sl_rw_filled(sl_graph *g, const sl_type *type, double number);

sl_value sl_rw_unary(sl_graph *g, sl_op op, sl_value x);
sl_value sl_rw_binary(sl_graph *g, sl_op op, sl_value a, sl_value b);
/* With a number of the type of a. */
sl_value sl_rw_with(sl_graph *g, sl_op op, sl_value a, double number);
sl_value sl_rw_reshape(sl_graph *g, sl_value x, const sl_dims *shape);
sl_value sl_rw_transpose(sl_graph *g, sl_value x, const sl_dims *perm);
sl_value sl_rw_slice(sl_graph *g, sl_value x, uint32_t axis, int64_t start, int64_t length);
sl_value sl_rw_concat(sl_graph *g, sl_values parts, int64_t axis);
/* x itself where it is of the type already. */
sl_value sl_rw_cast(sl_graph *g, sl_value x, sl_dtype to);
sl_value sl_rw_where(sl_graph *g, sl_value condition, sl_value a, sl_value b);
/* Over these axes, which stay with one element. */
sl_value sl_rw_reduce(sl_graph *g, sl_op op, sl_value x, const sl_dims *axes);
/* Over all axes but one, as a vector. */
sl_value sl_rw_reduce_along(sl_graph *g, sl_op op, sl_value x, uint32_t axis);
/* A vector as [C,1,..] with `after` ones. */
sl_value sl_rw_column(sl_graph *g, sl_value vector, uint32_t after);
/* The last two dims the other way round. */
sl_value sl_rw_turned(sl_graph *g, sl_value x);
/* (x - mean) / sqrt(variance + eps) over these axes; *inverse, where wanted, is 1 / the root. */
sl_value sl_rw_standardise(sl_graph *g, sl_value x, const sl_dims *axes, double eps,
                           sl_value *inverse);
/* 1 / rms of the rows of x. */
sl_value sl_rw_inverse_rms(sl_graph *g, sl_value x, double eps);
/* By the numbers of fused_matmul_bias_act. */
sl_value sl_rw_activate(sl_graph *g, uint32_t act, sl_value x);

/* The nodes of another graph, on these values in place of its inputs. */
void sl_rw_inline(sl_graph *g, const sl_graph *body, const sl_value *inputs, sl_value *outputs);
/* The same where the first values that it declares, of whatever kind, are what is given. */
void sl_rw_inline_given(sl_graph *g, const sl_graph *body, sl_values given, sl_value *outputs);
#endif
