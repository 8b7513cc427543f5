/* rewrite.h - The interface for writing rules of rewrites.def. */
#ifndef SL_COMPILER_PASSES_REWRITE_H
#define SL_COMPILER_PASSES_REWRITE_H
#include "compiler/build.h"
#include "compiler/graph.h"

/* Appends nodes that compute the node's results from the values `in`, and sets out to them; false,
 * with nothing appended, if the rule does not apply. */
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
/* The last row has no name. */
extern const sl_rewrite sl_rewrites[];

static inline const sl_type *sl_rw_type(const sl_graph *g, sl_value value) {
    return &g->values[value.v].type;
}
/* Whether intermediate results may be rounded to the type: ops on narrower types compute in f32. */
static inline bool sl_rw_is_wide(const sl_graph *g, sl_value value) {
    const sl_dtype dtype = sl_rw_type(g, value)->dtype;
    return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_f64;
}
/* Whether intermediate sums and differences may be rounded to it, too. */
static inline bool sl_rw_is_double(const sl_graph *g, sl_value value) {
    return sl_rw_type(g, value)->dtype == SL_DTYPE_f64;
}

/* A constant of one element, with a new name; and one of a given shape, from slots (core/codec.h)
 * in row-major order. */
sl_value sl_rw_number(sl_graph *g, sl_dtype dtype, double number);
sl_value sl_rw_constant(sl_graph *g, const sl_type *type, const double *slots);
/* All elements have this value. */
sl_value sl_rw_filled(sl_graph *g, const sl_type *type, double number);

sl_value sl_rw_unary(sl_graph *g, sl_op op, sl_value x);
sl_value sl_rw_binary(sl_graph *g, sl_op op, sl_value a, sl_value b);
/* The second operand is a constant of the type of a. */
sl_value sl_rw_with(sl_graph *g, sl_op op, sl_value a, double number);
sl_value sl_rw_reshape(sl_graph *g, sl_value x, const sl_dims *shape);
sl_value sl_rw_transpose(sl_graph *g, sl_value x, const sl_dims *perm);
sl_value sl_rw_slice(sl_graph *g, sl_value x, uint32_t axis, int64_t start, int64_t length);
sl_value sl_rw_concat(sl_graph *g, sl_values parts, int64_t axis);
/* x itself if it has the type already. */
sl_value sl_rw_cast(sl_graph *g, sl_value x, sl_dtype to);
sl_value sl_rw_where(sl_graph *g, sl_value condition, sl_value a, sl_value b);
/* Over these axes, which are kept with one element. */
sl_value sl_rw_reduce(sl_graph *g, sl_op op, sl_value x, const sl_dims *axes);
/* Over all axes but one, as a vector. */
sl_value sl_rw_reduce_along(sl_graph *g, sl_op op, sl_value x, uint32_t axis);
/* A vector as [C,1,..] with `after` ones. */
sl_value sl_rw_column(sl_graph *g, sl_value vector, uint32_t after);
/* The last two dims swapped. */
sl_value sl_rw_turned(sl_graph *g, sl_value x);
/* (x - mean) / sqrt(variance + eps) over these axes; *inverse, if not NULL, is 1 / sqrt(variance +
 * eps). */
sl_value sl_rw_standardise(sl_graph *g, sl_value x, const sl_dims *axes, double eps,
                           sl_value *inverse);
/* 1 / rms of the rows of x. */
sl_value sl_rw_inverse_rms(sl_graph *g, sl_value x, double eps);
/* Activations are numbered as in fused_matmul_bias_act. */
sl_value sl_rw_activate(sl_graph *g, uint32_t act, sl_value x);

/* Appends the nodes of another graph, with these values in place of its inputs. */
void sl_rw_inline(sl_graph *g, const sl_graph *body, const sl_value *inputs, sl_value *outputs);
/* The same with the given values in place of the first declared values, of any kind. */
void sl_rw_inline_given(sl_graph *g, const sl_graph *body, sl_values given, sl_value *outputs);
#endif
