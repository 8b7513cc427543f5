/* rewrite_control.c - Inlines the bodies of control flow ops. */
#include "compiler/ops/body.h"
#include "compiler/passes/rewrite.h"

bool sl_rewrite_custom_fn(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    sl_rw_inline(g, ((const sl_custom_fn_attrs *)node->attrs)->body, in, out);
    return true;
}

/* ---- if ---- */

bool sl_rewrite_if_constant(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_if_attrs *a = node->attrs;
    const sl_value_info *condition = &g->values[in[0].v];
    if (condition->kind != SL_VALUE_CONSTANT) return false;
    sl_rw_inline(g, *(const uint8_t *)condition->data ? a->then : a->otherwise, in + 1, out);
    return true;
}

/* Ops that cannot fail, whatever their operands. */
static bool cannot_fail(const sl_graph *body) {
    static const sl_op others[] = {
        SL_OP_matmul,  SL_OP_reduce_sum, SL_OP_reduce_mean, SL_OP_reduce_max, SL_OP_reduce_min,
        SL_OP_softmax, SL_OP_transpose,  SL_OP_slice,       SL_OP_concat,     SL_OP_expand};
    for (uint32_t n = 0; n < body->node_count; n++) {
        const sl_op op = body->nodes[n].op;
        bool fine = sl_op_info_of(op)->traits & (SL_OP_POINTWISE | SL_OP_VIEW);
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) fine |= others[i] == op;
        if (!fine) return false;
    }
    return true;
}

bool sl_rewrite_if_both(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_if_attrs *a = node->attrs;
    const sl_dims none = {0};
    if (!cannot_fail(a->then) || !cannot_fail(a->otherwise)) return false;
    sl_node room = {0};
    if (!sl_node_make_room(&g->arena, &room, node->output_count, node->output_count)) return false;
    const sl_value condition = sl_rw_reshape(g, in[0], &none);
    sl_rw_inline(g, a->then, in + 1, room.inputs);
    sl_rw_inline(g, a->otherwise, in + 1, room.outputs);
    for (uint32_t o = 0; o < node->output_count; o++)
        out[o] = sl_rw_where(g, condition, room.inputs[o], room.outputs[o]);
    return true;
}

/* ---- scan ---- */

/* Unrolled, if the graph stays small. */
enum { MOST_STEPS = 256, MOST_NODES = 8192 };

typedef struct {
    const sl_scan_attrs *attrs;
    const sl_value *in;
    uint32_t carries, consts, xs, ys;
    int64_t length;
    sl_value *given, *made; /* operands and results of the body */
    sl_value *stacks;       /* [y][step] */
} unrolled;

static bool measure(const sl_graph *g, const sl_node *node, const sl_value *in, unrolled *u) {
    u->attrs = node->attrs;
    u->in = in;
    u->carries = u->attrs->carries;
    u->consts = u->attrs->consts;
    u->xs = node->input_count - u->carries - u->consts;
    u->ys = node->output_count - u->carries;
    u->length = u->attrs->length;
    if (!u->length && u->xs) u->length = sl_rw_type(g, in[u->carries + u->consts])->shape.dims[0];
    return u->length > 0 && u->length <= MOST_STEPS &&
           u->length * u->attrs->body->node_count <= MOST_NODES;
}

/* Element t of a stacked tensor. */
static sl_value element(sl_graph *g, sl_value stack, int64_t t) {
    const sl_dims shape = sl_rw_type(g, stack)->shape;
    sl_dims one = {.rank = shape.rank - 1};
    for (uint32_t i = 1; i < shape.rank; i++) one.dims[i - 1] = shape.dims[i];
    return sl_rw_reshape(g, sl_rw_slice(g, stack, 0, t, 1), &one);
}

/* The value with a leading dim of one. */
static sl_value stack_of(sl_graph *g, sl_value value) {
    const sl_dims shape = sl_rw_type(g, value)->shape;
    sl_dims one = {.rank = shape.rank + 1, .dims = {1}};
    for (uint32_t i = 0; i < shape.rank; i++) one.dims[i + 1] = shape.dims[i];
    return sl_rw_reshape(g, value, &one);
}

static void step(sl_graph *g, unrolled *u, int64_t t) {
    const uint32_t fixed = u->carries + u->consts;
    for (uint32_t i = 0; i < u->xs; i++) u->given[fixed + i] = element(g, u->in[fixed + i], t);
    sl_rw_inline(g, u->attrs->body, u->given, u->made);
    for (uint32_t i = 0; i < u->carries; i++) u->given[i] = u->made[i];
    for (uint32_t i = 0; i < u->ys; i++)
        u->stacks[i * u->length + t] = stack_of(g, u->made[u->carries + i]);
}

bool sl_rewrite_scan(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    unrolled u = {0};
    sl_node room = {0};
    if (!measure(g, node, in, &u)) return false;
    u.stacks = SL_ARENA_NEW_ARRAY(&g->arena, sl_value, u.ys * (size_t)u.length + 1);
    if (!u.stacks || !sl_node_make_room(&g->arena, &room, node->input_count, node->output_count))
        return false;
    u.given = room.inputs;
    u.made = room.outputs;
    for (uint32_t i = 0; i < u.carries + u.consts; i++) u.given[i] = in[i];
    for (int64_t i = 0; i < u.length && g->error.status == SL_OK; i++)
        step(g, &u, u.attrs->reverse ? u.length - 1 - i : i);
    for (uint32_t i = 0; i < u.carries; i++) out[i] = u.given[i];
    for (uint32_t i = 0; i < u.ys; i++)
        out[u.carries + i] =
            sl_rw_concat(g, (sl_values){(uint32_t)u.length, u.stacks + i * u.length}, 0);
    return true;
}
