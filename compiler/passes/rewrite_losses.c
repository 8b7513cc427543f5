/* rewrite_losses.c - Classification losses and their gradients, from gather and elementwise ops;
 * computed in f64 for every type, because a loss is a small difference of large numbers. */
#include "compiler/ops/semantics.h"
#include "compiler/passes/rewrite.h"

/* What the labels [..] select in each row. */
typedef struct {
    sl_value class;   /* i64; out of range if the label is, which gather reports */
    sl_value ignored; /* bool: the ignored rows; no value if no label is ignored */
    sl_value weight;  /* f64 */
} labelling;

static sl_value whole_number(sl_graph *g, int64_t number) {
    double slot;
    sl_slot_set_integer(SL_DTYPE_i64, &slot, number);
    return sl_rw_constant(g, &(sl_type){.dtype = SL_DTYPE_i64}, &slot);
}

static sl_value gather(sl_graph *g, sl_value x, sl_value indices) {
    return sl_build_gather(g, (sl_gather_in){.x = x, .indices = indices},
                           (sl_gather_attrs){.axis = 0})
        .out;
}

/* weights, ignore: NULL if not given.  Without weights, ones are gathered, so that labels out of
 * range are reported. */
static labelling read_labels(sl_graph *g, sl_value labels, const sl_value *weights, int64_t classes,
                             const int64_t *ignore) {
    const sl_type ones = {SL_DTYPE_f64, {1, {classes}}};
    const sl_value given = sl_rw_cast(g, labels, SL_DTYPE_i64), zero = whole_number(g, 0);
    labelling l = {0};
    /* A gather index may count from the end, a label may not. */
    l.class =
        sl_rw_where(g, sl_rw_binary(g, SL_OP_less, given, zero), whole_number(g, classes), given);
    if (ignore) {
        l.ignored = sl_rw_binary(g, SL_OP_equal, given, whole_number(g, *ignore));
        l.class = sl_rw_where(g, l.ignored, zero, l.class);
    }
    l.weight = gather(
        g, weights ? sl_rw_cast(g, *weights, SL_DTYPE_f64) : sl_rw_filled(g, &ones, 1), l.class);
    return l;
}

/* [..] as [..,1]. */
static sl_value as_rows(sl_graph *g, sl_value x) {
    sl_dims shape = sl_rw_type(g, x)->shape;
    shape.dims[shape.rank++] = 1;
    return sl_rw_reshape(g, x, &shape);
}

/* [..,classes]: 1 or true at the row's class (one-hot). */
static sl_value hot(sl_graph *g, const labelling *l, int64_t classes, sl_dtype dtype) {
    const sl_type pair = {dtype, {1, {2}}};
    const sl_value values = sl_rw_constant(g, &pair, (const double[]){0, 1});
    return sl_build_one_hot(g, (sl_one_hot_in){.indices = l->class, .values = values},
                            (sl_one_hot_attrs){.axis = -1, .depth = classes})
        .out;
}

static sl_value zero_where(sl_graph *g, sl_value condition, sl_value x) {
    return sl_rw_where(g, condition, sl_rw_number(g, SL_DTYPE_f64, 0), x);
}

static int64_t classes_of(const sl_graph *g, sl_value x) {
    const sl_dims *shape = &sl_rw_type(g, x)->shape;
    return shape->dims[shape->rank - 1];
}

bool sl_rewrite_nll(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_nll_attrs *a = node->attrs;
    const sl_dims rows = sl_rw_type(g, in[1])->shape;
    if (!sl_rw_is_double(g, in[0])) return false;
    const labelling l = read_labels(g, in[1], node->input_count > 2 ? &in[2] : NULL,
                                    classes_of(g, in[0]), a->ignores ? &a->ignore : NULL);
    const sl_value picked =
        sl_build_take_along(g, (sl_take_along_in){.x = in[0], .indices = as_rows(g, l.class)},
                            (sl_take_along_attrs){.axis = -1})
            .out;
    const sl_value weighed = sl_rw_binary(g, SL_OP_mul, l.weight, sl_rw_reshape(g, picked, &rows));
    out[0] = sl_rw_unary(g, SL_OP_neg, weighed);
    if (a->ignores) out[0] = zero_where(g, l.ignored, out[0]);
    return true;
}

bool sl_rewrite_nll_backward(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_nll_backward_attrs *a = node->attrs;
    if (!sl_rw_is_double(g, in[1])) return false;
    const labelling l = read_labels(g, in[0], node->input_count > 2 ? &in[2] : NULL, a->classes,
                                    a->ignores ? &a->ignore : NULL);
    sl_value slope = sl_rw_unary(g, SL_OP_neg, sl_rw_binary(g, SL_OP_mul, l.weight, in[1]));
    if (a->ignores) slope = zero_where(g, l.ignored, slope);
    out[0] = sl_rw_where(g, hot(g, &l, a->classes, SL_DTYPE_bool), as_rows(g, slope),
                         sl_rw_number(g, SL_DTYPE_f64, 0));
    return true;
}

_Static_assert(sizeof(sl_nll_attrs) == sizeof(sl_softmax_cross_entropy_attrs), "attributes alike");
bool sl_rewrite_cross_entropy(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    sl_value inputs[3];
    if (!sl_rw_is_double(g, in[0])) return false;
    inputs[0] =
        sl_build_log_softmax(g, (sl_log_softmax_in){.x = in[0]}, (sl_log_softmax_attrs){.axis = -1})
            .out;
    for (uint32_t i = 1; i < node->input_count; i++) inputs[i] = in[i];
    sl_graph_append_list(g, SL_OP_nll, (sl_values){node->input_count, inputs}, node->attrs,
                         (sl_value_slots){1, out});
    return true;
}

bool sl_rewrite_cross_entropy_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                       sl_value *out) {
    const sl_softmax_cross_entropy_backward_attrs *a = node->attrs;
    const int64_t classes = classes_of(g, in[0]);
    if (!sl_rw_is_double(g, in[0])) return false;
    const labelling l = read_labels(g, in[1], node->input_count > 3 ? &in[3] : NULL, classes,
                                    a->ignores ? &a->ignore : NULL);
    const sl_value shares =
        sl_build_softmax(g, (sl_softmax_in){.x = in[0]}, (sl_softmax_attrs){.axis = -1}).out;
    const sl_value off = sl_rw_binary(g, SL_OP_sub, shares, hot(g, &l, classes, SL_DTYPE_f64));
    const sl_value slope = sl_rw_binary(g, SL_OP_mul, l.weight, in[2]);
    out[0] = sl_rw_binary(g, SL_OP_mul, off, as_rows(g, slope));
    if (a->ignores) out[0] = zero_where(g, as_rows(g, l.ignored), out[0]);
    return true;
}
