/* simplify.c - Removes nodes that change nothing, and merges nodes that a single node can do.
 *
 * Only identities that hold for every bit: x + 0 is not x if x is -0, but x - 0 is. */
#include "compiler/ops/semantics.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include "core/codec.h"
#include <math.h>
#include <string.h>

/* The value that can replace the node's only result; 0 if there is none. */
typedef sl_value simplify_fn(sl_rebuild *r, const sl_node *node);
static const sl_value none = {0};

static const sl_type *type_of(const sl_rebuild *r, sl_value value) {
    return &sl_rebuild_value(r, value)->type;
}

/* The node that produces the value, if it is an `op`. */
static const sl_node *maker(const sl_rebuild *r, sl_value value, sl_op op) {
    const sl_value_info *info = sl_rebuild_value(r, value);
    if (info->kind != SL_VALUE_RESULT) return NULL;
    const sl_node *node = &r->graph->nodes[info->node];
    return node->op == op ? node : NULL;
}

/* The value, if it has the type of the node's result.  Versions of a state keep their order. */
static sl_value unchanged(const sl_rebuild *r, const sl_node *node, sl_value value) {
    const sl_value_info *info = sl_rebuild_value(r, value);
    const sl_type *wanted = type_of(r, node->outputs[0]);
    return !info->root.v && sl_type_equal(&info->type, wanted) ? value : none;
}

static sl_value append_one(sl_rebuild *r, const sl_node *node, sl_op op, sl_value x,
                           const void *attrs) {
    sl_value out = none;
    sl_rebuild_append(r, node, op, (sl_values){1, &x}, attrs, (sl_value_slots){1, &out});
    return out;
}

/* Whether every element of a constant is that number, including its sign. */
static bool is_all(const sl_rebuild *r, sl_value value, double number) {
    const sl_value_info *info = sl_rebuild_value(r, value);
    const sl_dtype_info *dtype = &sl_dtype_infos[info->type.dtype];
    const int64_t count = sl_type_elements(&info->type);
    if (info->kind != SL_VALUE_CONSTANT || !dtype->bytes || dtype->kind == SL_KIND_COMPLEX)
        return false;
    if (info->type.dtype == SL_DTYPE_i64 || info->type.dtype == SL_DTYPE_u64) {
        const int64_t whole = (int64_t)number;
        for (int64_t i = 0; i < count; i++)
            if (memcmp((const char *)info->data + i * 8, &whole, sizeof whole) != 0) return false;
        return count > 0;
    }
    for (int64_t i = 0; i < count; i++) {
        double x;
        sl_decode_f64(info->type.dtype, (const char *)info->data + (size_t)i * dtype->bytes, 1, &x);
        if (x != number ||
            (x == 0 && dtype->kind == SL_KIND_FLOAT && signbit(x) != signbit(number)))
            return false;
    }
    return count > 0;
}

static sl_value drop_second(sl_rebuild *r, const sl_node *node, double neutral) {
    const sl_value x = sl_rebuild_input(r, node, 0), y = sl_rebuild_input(r, node, 1);
    return is_all(r, y, neutral) ? unchanged(r, node, x) : none;
}

static sl_value drop_either(sl_rebuild *r, const sl_node *node, double neutral) {
    const sl_value x = sl_rebuild_input(r, node, 0), y = sl_rebuild_input(r, node, 1);
    return is_all(r, x, neutral) ? unchanged(r, node, y) : drop_second(r, node, neutral);
}

static sl_value simplify_add(sl_rebuild *r, const sl_node *node) {
    return drop_either(r, node, -0.0);
}
static sl_value simplify_sub(sl_rebuild *r, const sl_node *node) {
    return drop_second(r, node, 0);
}
static sl_value simplify_mul(sl_rebuild *r, const sl_node *node) {
    return drop_either(r, node, 1);
}
static sl_value simplify_div(sl_rebuild *r, const sl_node *node) {
    return drop_second(r, node, 1);
}

static sl_value simplify_neg(sl_rebuild *r, const sl_node *node) {
    const sl_node *inner = maker(r, sl_rebuild_input(r, node, 0), SL_OP_neg);
    return inner ? unchanged(r, node, inner->inputs[0]) : none;
}

/* f(f(x)) is f(x). */
static sl_value simplify_twice(sl_rebuild *r, const sl_node *node) {
    const sl_value x = sl_rebuild_input(r, node, 0);
    return maker(r, x, node->op) ? x : none;
}

static sl_value append_reshape(sl_rebuild *r, const sl_node *node, sl_value x,
                               const sl_dims *shape) {
    const sl_reshape_attrs attrs = {.shape = *shape};
    return append_one(r, node, SL_OP_reshape, x, &attrs);
}

/* ---- reshapes go behind what can be computed without them ---- */

enum { MOST_OPERANDS = 3 };

static bool is_pointwise(const sl_node *node) {
    return (sl_op_info_of(node->op)->traits & SL_OP_POINTWISE) && node->output_count == 1 &&
           node->input_count <= MOST_OPERANDS;
}

/* The node's operands with the shape that some of them had before they were reshaped to the
 * result's; NULL if they do not all have one.  Tensors of one element stay as they are, or lose
 * their dims, and so do vectors along a last axis that is kept; others of the result's shape are
 * reshaped if `all`. */
static const sl_dims *before_reshape(sl_rebuild *r, const sl_node *node, const sl_value *given,
                                     bool all, sl_value *in) {
    const sl_dims to = type_of(r, node->outputs[0])->shape, *from = NULL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_node *apart = maker(r, given[i], SL_OP_reshape);
        if (apart && sl_dims_equal(&type_of(r, given[i])->shape, &to))
            from = &type_of(r, apart->inputs[0])->shape;
    }
    if (!from || !from->rank) return NULL;
    const sl_dims inner = *from;
    const bool keeps_rows = to.rank && to.dims[to.rank - 1] == inner.dims[inner.rank - 1];
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_dims *own = &type_of(r, given[i])->shape;
        const sl_node *apart = maker(r, given[i], SL_OP_reshape);
        const bool same = sl_dims_equal(own, &to),
                   versioned = sl_rebuild_value(r, given[i])->root.v;
        const bool single = sl_type_elements(type_of(r, given[i])) == 1;
        in[i] = given[i];
        if (apart && same && sl_dims_equal(&type_of(r, apart->inputs[0])->shape, &inner))
            in[i] = apart->inputs[0];
        else if (same && all && !versioned)
            in[i] = append_reshape(r, node, given[i], &inner);
        else if (single && own->rank > inner.rank)
            in[i] = append_reshape(r, node, given[i], &(sl_dims){0});
        else if (!single && !(own->rank == 1 && keeps_rows && own->dims[0] != 1))
            return NULL;
    }
    return from;
}

/* The node on these operands, if the op accepts them, reshaped to `to`. */
static sl_value computed_before(sl_rebuild *r, const sl_node *node, const sl_value *in,
                                const sl_dims *to) {
    sl_type types[MOST_OPERANDS], out[SL_MAX_OUTPUTS] = {{0}};
    sl_value made = none;
    sl_error err;
    for (uint32_t i = 0; i < node->input_count; i++) types[i] = *type_of(r, in[i]);
    if (sl_infer_plain(node->op, node->label, types, node->attrs, out, &err) != SL_OK) return none;
    sl_rebuild_append(r, node, node->op, (sl_values){node->input_count, in}, node->attrs,
                      (sl_value_slots){1, &made});
    return made.v ? append_reshape(r, node, made, to) : none;
}

/* reshape(f(reshape(x))) is reshape(f(x)).  Only if nothing else uses f's result, which would be
 * computed twice. */
static sl_value reshape_above_elementwise(sl_rebuild *r, const sl_node *node, const sl_node *f) {
    sl_value in[MOST_OPERANDS];
    if (!is_pointwise(f) || sl_rebuild_value(r, node->inputs[0])->use_count != 1 ||
        !before_reshape(r, f, f->inputs, false, in))
        return none;
    return computed_before(r, f, in, &type_of(r, node->outputs[0])->shape);
}

/* Whether the value is a reshaped result that fusion could join with what uses it.  Only towards
 * fewer dims, so that nothing is moved back and forth. */
static bool is_joinable(const sl_rebuild *r, sl_value value) {
    const sl_node *apart = maker(r, value, SL_OP_reshape);
    const sl_value_info *x = apart ? sl_rebuild_value(r, apart->inputs[0]) : NULL;
    if (!x || x->kind != SL_VALUE_RESULT || x->type.shape.rank >= type_of(r, value)->shape.rank)
        return false;
    const sl_node *made_by = &r->graph->nodes[x->node];
    return is_pointwise(made_by) || made_by->op == SL_OP_matmul ||
           made_by->op == SL_OP_layer_norm || made_by->op == SL_OP_rms_norm;
}

/* f(reshape(x), y) is reshape(f(x, reshape(y))). */
static sl_value reshape_below(sl_rebuild *r, const sl_node *node) {
    sl_value given[MOST_OPERANDS], in[MOST_OPERANDS];
    bool joinable = false;
    if (!is_pointwise(node)) return none;
    for (uint32_t i = 0; i < node->input_count; i++) {
        given[i] = sl_rebuild_input(r, node, i);
        joinable |= is_joinable(r, given[i]);
    }
    if (!joinable || !before_reshape(r, node, given, true, in)) return none;
    return computed_before(r, node, in, &type_of(r, node->outputs[0])->shape);
}

/* The same for a norm over the last axis, if the reshape keeps that. */
static sl_value reshape_below_norm(sl_rebuild *r, const sl_node *node) {
    sl_value in[MOST_OPERANDS] = {none};
    for (uint32_t i = 0; i < node->input_count; i++) in[i] = sl_rebuild_input(r, node, i);
    if (!is_joinable(r, in[0])) return none;
    const sl_dims to = type_of(r, in[0])->shape;
    in[0] = maker(r, in[0], SL_OP_reshape)->inputs[0];
    const sl_dims *from = &type_of(r, in[0])->shape;
    if (!from->rank || from->dims[from->rank - 1] != to.dims[to.rank - 1]) return none;
    return computed_before(r, node, in, &to);
}

/* A reshape of leading dims, which the transpose keeps in place, goes in front of the transpose. */
static sl_value reshape_above_transpose(sl_rebuild *r, const sl_node *node, const sl_node *turn) {
    const sl_dims *perm = &((const sl_transpose_attrs *)turn->attrs)->perm;
    const sl_dims *to = &type_of(r, node->outputs[0])->shape;
    const sl_dims from = type_of(r, turn->inputs[0])->shape;
    uint32_t kept = 0; /* leading dims of x */
    while (kept < perm->rank && perm->dims[kept] == (int64_t)kept) kept++;
    const uint32_t turned = perm->rank - kept, lead = to->rank - turned;
    if (to->rank < turned || kept == perm->rank) return none;
    sl_dims shape = *to;
    sl_transpose_attrs after = {.perm = {.rank = to->rank}};
    for (uint32_t i = 0; i < to->rank; i++) after.perm.dims[i] = i;
    for (uint32_t i = 0; i < turned; i++) {
        if (to->dims[lead + i] != from.dims[perm->dims[kept + i]]) return none;
        shape.dims[lead + i] = from.dims[kept + i];
        after.perm.dims[lead + i] = perm->dims[kept + i] - kept + lead;
    }
    const sl_value above = append_reshape(r, turn, turn->inputs[0], &shape);
    return above.v ? append_one(r, turn, SL_OP_transpose, above, &after) : none;
}

static sl_value simplify_reshape(sl_rebuild *r, const sl_node *node) {
    const sl_value x = sl_rebuild_input(r, node, 0);
    const sl_value same = unchanged(r, node, x);
    const sl_value_info *info = sl_rebuild_value(r, x);
    if (same.v || info->kind != SL_VALUE_RESULT) return same;
    const sl_node inner = r->graph->nodes[info->node];
    if (inner.op == SL_OP_reshape)
        return append_reshape(r, node, inner.inputs[0], &type_of(r, node->outputs[0])->shape);
    if (inner.op == SL_OP_transpose) return reshape_above_transpose(r, node, &inner);
    return reshape_above_elementwise(r, node, &inner);
}

static sl_value simplify_transpose(sl_rebuild *r, const sl_node *node) {
    const sl_value x = sl_rebuild_input(r, node, 0);
    const sl_dims *perm = &((const sl_transpose_attrs *)node->attrs)->perm;
    const sl_node *inner = maker(r, x, SL_OP_transpose);
    bool identity = true;
    for (uint32_t i = 0; i < perm->rank; i++) identity &= perm->dims[i] == (int64_t)i;
    if (identity) return unchanged(r, node, x);
    if (!inner) return none;
    const sl_dims *first = &((const sl_transpose_attrs *)inner->attrs)->perm;
    sl_transpose_attrs both = {.perm = {.rank = perm->rank}};
    for (uint32_t i = 0; i < perm->rank; i++) both.perm.dims[i] = first->dims[perm->dims[i]];
    return append_one(r, node, SL_OP_transpose, inner->inputs[0], &both);
}

/* Without the parts that have no elements. */
static sl_value simplify_concat(sl_rebuild *r, const sl_node *node) {
    sl_value *left = SL_ARENA_NEW_ARRAY(r->scratch, sl_value, (size_t)node->input_count + 1);
    uint32_t count = 0;
    sl_value out = none;
    for (uint32_t i = 0; left && i < node->input_count; i++) {
        const sl_value part = sl_rebuild_input(r, node, i);
        if (sl_type_elements(type_of(r, part))) left[count++] = part;
    }
    if (count == 1) return unchanged(r, node, left[0]);
    if (count > 1 && count < node->input_count)
        sl_rebuild_append(r, node, SL_OP_concat, (sl_values){count, left}, node->attrs,
                          (sl_value_slots){1, &out});
    return out;
}

/* x, if the update or its indices have no elements. */
static sl_value simplify_update(sl_rebuild *r, const sl_node *node) {
    const sl_value update = sl_rebuild_input(r, node, 1);
    if (sl_type_elements(type_of(r, update))) return none;
    return unchanged(r, node, sl_rebuild_input(r, node, 0));
}

/* The last axis is -1, as rules of fusion spell it. */
static sl_value simplify_layer_norm(sl_rebuild *r, const sl_node *node) {
    sl_layer_norm_attrs attrs = *(const sl_layer_norm_attrs *)node->attrs;
    const uint32_t rank = type_of(r, node->outputs[0])->shape.rank;
    sl_value in[3], out = none;
    if (attrs.axis == -1) return reshape_below_norm(r, node);
    if (attrs.axis != (int64_t)rank - 1) return none;
    attrs.axis = -1;
    for (uint32_t i = 0; i < 3; i++) in[i] = sl_rebuild_input(r, node, i);
    sl_rebuild_append(r, node, SL_OP_layer_norm, (sl_values){3, in}, &attrs,
                      (sl_value_slots){1, &out});
    return out;
}

/* Ops that do nothing if the result has the type of the operand. */
static sl_value simplify_same(sl_rebuild *r, const sl_node *node) {
    return unchanged(r, node, sl_rebuild_input(r, node, 0));
}

static const struct {
    sl_op op;
    simplify_fn *simplify;
} rules[] = {
    {SL_OP_add, simplify_add},
    {SL_OP_sub, simplify_sub},
    {SL_OP_mul, simplify_mul},
    {SL_OP_div, simplify_div},
    {SL_OP_neg, simplify_neg},
    {SL_OP_abs, simplify_twice},
    {SL_OP_relu, simplify_twice},
    {SL_OP_reshape, simplify_reshape},
    {SL_OP_transpose, simplify_transpose},
    {SL_OP_concat, simplify_concat},
    {SL_OP_scatter, simplify_update},
    {SL_OP_scatter_nd, simplify_update},
    {SL_OP_dynamic_update_slice, simplify_update},
    {SL_OP_slice, simplify_same},
    {SL_OP_layer_norm, simplify_layer_norm},
    {SL_OP_rms_norm, reshape_below_norm},
};

static void simplify_node(sl_rebuild *r, const sl_node *node) {
    sl_value value = none;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0] && !value.v; i++)
        if (rules[i].op == node->op) value = rules[i].simplify(r, node);
    if (!value.v) value = reshape_below(r, node);
    if (!value.v) {
        sl_rebuild_same(r, node);
        return;
    }
    sl_rebuild_set(r, node, 0, value);
    r->changed = true;
}

sl_status sl_pass_simplify(sl_graph *graph, sl_pass_context *context, bool *changed,
                           sl_error *err) {
    (void)context;
    sl_rebuild r = {.graph = graph, .node = simplify_node};
    SL_TRY(sl_rebuild_graph(&r, err));
    *changed = r.changed;
    return SL_OK;
}
