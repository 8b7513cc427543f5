/* rewrite.c - Building blocks of the rules of rewrites.def. */
#include "compiler/passes/rewrite.h"
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include <string.h>

const sl_rewrite sl_rewrites[] = {
#define REWRITE(OP, NAME, SUMMARY)        {SL_OP_##OP, #NAME, SUMMARY, sl_rewrite_##NAME, false},
#define REWRITE_ALWAYS(OP, NAME, SUMMARY) {SL_OP_##OP, #NAME, SUMMARY, sl_rewrite_##NAME, true},
#include "compiler/passes/rewrites.def"
    {0}};

/* ---- constants ---- */

/* A name that is not in use; NULL after an error. */
static const char *fresh_name(sl_graph *g) {
    for (uint32_t number = g->value_count;; number++) {
        const char *name = sl_arena_format(&g->arena, "made.%u", number);
        if (!name) sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a constant");
        if (!name || !sl_graph_find(g, name).v) return name;
    }
}

sl_value sl_rw_constant(sl_graph *g, const sl_type *type, const double *slots) {
    const char *name = fresh_name(g);
    sl_arena scratch;
    sl_arena_init(&scratch, g->arena.allocator);
    void *data = sl_arena_alloc(&scratch, sl_type_bytes(type) + 1, 64);
    sl_value out = {0};
    if (name && data) {
        sl_encode_f64(type->dtype, slots, sl_type_elements(type), data);
        out = sl_graph_constant(g, name, *type, data);
    } else {
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a constant");
    }
    sl_arena_deinit(&scratch);
    return out;
}

/* A number that the type, a float or an integer, can represent, as a slot (core/codec.h). */
static double slot_of(sl_dtype dtype, double number) {
    double slot = number;
    if (sl_dtype_infos[dtype].kind == SL_KIND_INT)
        sl_slot_set_integer(dtype, &slot, (int64_t)number);
    return slot;
}

sl_value sl_rw_number(sl_graph *g, sl_dtype dtype, double number) {
    const double slot = slot_of(dtype, number);
    return sl_rw_constant(g, &(sl_type){.dtype = dtype}, &slot);
}

sl_value sl_rw_filled(sl_graph *g, const sl_type *type, double number) {
    const int64_t count = sl_type_elements(type);
    sl_arena scratch;
    sl_arena_init(&scratch, g->arena.allocator);
    double *slots = SL_ARENA_NEW_ARRAY(&scratch, double, (size_t)count + 1);
    sl_value out = {0};
    for (int64_t i = 0; slots && i < count; i++) slots[i] = slot_of(type->dtype, number);
    if (slots)
        out = sl_rw_constant(g, type, slots);
    else
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a constant");
    sl_arena_deinit(&scratch);
    return out;
}

/* ---- nodes ---- */

static sl_value append(sl_graph *g, sl_op op, sl_values in, const void *attrs) {
    sl_value out = {0};
    sl_graph_append_list(g, op, in, attrs, (sl_value_slots){1, &out});
    return out;
}
static const _Alignas(max_align_t) unsigned char no_attrs[SL_MAX_ATTRS_BYTES];

sl_value sl_rw_unary(sl_graph *g, sl_op op, sl_value x) {
    return append(g, op, (sl_values){1, &x}, no_attrs);
}
sl_value sl_rw_binary(sl_graph *g, sl_op op, sl_value a, sl_value b) {
    return append(g, op, (sl_values){2, (const sl_value[]){a, b}}, no_attrs);
}
sl_value sl_rw_with(sl_graph *g, sl_op op, sl_value a, double number) {
    return sl_rw_binary(g, op, a, sl_rw_number(g, sl_rw_type(g, a)->dtype, number));
}
sl_value sl_rw_reshape(sl_graph *g, sl_value x, const sl_dims *shape) {
    if (sl_dims_equal(&sl_rw_type(g, x)->shape, shape)) return x;
    return append(g, SL_OP_reshape, (sl_values){1, &x}, &(sl_reshape_attrs){.shape = *shape});
}
sl_value sl_rw_transpose(sl_graph *g, sl_value x, const sl_dims *perm) {
    bool same = true;
    for (uint32_t i = 0; i < perm->rank; i++) same &= perm->dims[i] == (int64_t)i;
    if (same) return x;
    return append(g, SL_OP_transpose, (sl_values){1, &x}, &(sl_transpose_attrs){.perm = *perm});
}
sl_value sl_rw_slice(sl_graph *g, sl_value x, uint32_t axis, int64_t start, int64_t length) {
    const sl_slice_attrs attrs = {
        .axis = axis, .start = (uint32_t)start, .length = (uint32_t)length};
    if (start == 0 && sl_rw_type(g, x)->shape.dims[axis] == length) return x;
    if (!length) {
        sl_type nothing = *sl_rw_type(g, x);
        nothing.shape.dims[axis] = 0;
        return sl_rw_filled(g, &nothing, 0);
    }
    return append(g, SL_OP_slice, (sl_values){1, &x}, &attrs);
}
sl_value sl_rw_concat(sl_graph *g, sl_values parts, int64_t axis) {
    if (parts.count == 1) return parts.items[0];
    return append(g, SL_OP_concat, parts, &(sl_concat_attrs){.axis = axis});
}
sl_value sl_rw_cast(sl_graph *g, sl_value x, sl_dtype to) {
    if (sl_rw_type(g, x)->dtype == to) return x;
    return append(g, SL_OP_cast, (sl_values){1, &x}, &(sl_cast_attrs){.to = to});
}
sl_value sl_rw_where(sl_graph *g, sl_value condition, sl_value a, sl_value b) {
    return append(g, SL_OP_where, (sl_values){3, (const sl_value[]){condition, a, b}}, no_attrs);
}
sl_value sl_rw_reduce(sl_graph *g, sl_op op, sl_value x, const sl_dims *axes) {
    const sl_reduce_sum_attrs attrs = {.axes = *axes, .keep = 1};
    _Static_assert(sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_mean_attrs) &&
                       sizeof(sl_reduce_sum_attrs) == sizeof(sl_reduce_max_attrs),
                   "reductions share their attributes");
    return append(g, op, (sl_values){1, &x}, &attrs);
}
sl_value sl_rw_reduce_along(sl_graph *g, sl_op op, sl_value x, uint32_t axis) {
    const sl_dims shape = sl_rw_type(g, x)->shape, vector = {1, {shape.dims[axis]}};
    sl_dims others = {0};
    for (uint32_t i = 0; i < shape.rank; i++)
        if (i != axis) others.dims[others.rank++] = i;
    return sl_rw_reshape(g, sl_rw_reduce(g, op, x, &others), &vector);
}
sl_value sl_rw_column(sl_graph *g, sl_value vector, uint32_t after) {
    sl_dims shape = {.rank = 1 + after, .dims = {sl_type_elements(sl_rw_type(g, vector))}};
    for (uint32_t i = 1; i < shape.rank; i++) shape.dims[i] = 1;
    return sl_rw_reshape(g, vector, &shape);
}
sl_value sl_rw_turned(sl_graph *g, sl_value x) {
    sl_dims perm = {.rank = sl_rw_type(g, x)->shape.rank};
    for (uint32_t i = 0; i < perm.rank; i++) perm.dims[i] = i;
    perm.dims[perm.rank - 2] = perm.rank - 1;
    perm.dims[perm.rank - 1] = perm.rank - 2;
    return sl_rw_transpose(g, x, &perm);
}

sl_value sl_rw_activate(sl_graph *g, uint32_t act, sl_value x) {
    static const sl_op ops[] = {SL_OP_COUNT,   SL_OP_relu, SL_OP_silu,       SL_OP_gelu,
                                SL_OP_sigmoid, SL_OP_tanh, SL_OP_gelu_approx};
    return act ? sl_rw_unary(g, ops[act], x) : x;
}

/* ---- subgraphs ---- */

static sl_value copy_constant(sl_graph *g, const sl_value_info *value) {
    const char *name = fresh_name(g);
    if (!name) return (sl_value){0};
    return value->borrowed ? sl_graph_constant_in_place(g, name, value->type, value->data)
                           : sl_graph_constant(g, name, value->type, value->data);
}

static void copy_node(sl_graph *g, const sl_node *node, sl_value *now, sl_arena *scratch) {
    sl_node fresh = {0};
    const uint32_t at = g->node_count;
    if (!sl_node_make_room(scratch, &fresh, node->input_count, node->output_count)) {
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a node");
        return;
    }
    for (uint32_t i = 0; i < node->input_count; i++) fresh.inputs[i] = now[node->inputs[i].v];
    sl_graph_append_list(g, node->op, (sl_values){fresh.input_count, fresh.inputs}, node->attrs,
                         (sl_value_slots){fresh.output_count, fresh.outputs});
    const char *label = sl_arena_copy_text(&g->arena, node->label, strlen(node->label));
    if (g->node_count > at && label) g->nodes[at].label = label;
    for (uint32_t o = 0; o < node->output_count; o++) now[node->outputs[o].v] = fresh.outputs[o];
}

/* The given values replace the first `leading` declared values of the body, then its inputs in
 * order. */
static void inline_nodes(sl_graph *g, const sl_graph *body, const sl_value *given, uint32_t leading,
                         sl_value *outputs) {
    sl_arena scratch;
    sl_arena_init(&scratch, g->arena.allocator);
    sl_value *now = SL_ARENA_NEW_ARRAY(&scratch, sl_value, (size_t)body->value_count + 1);
    if (!now) sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a body");
    for (uint32_t v = 1, taken = 0; now && v <= body->value_count; v++) {
        const sl_value_info *value = &body->values[v];
        if (taken < leading || value->kind == SL_VALUE_INPUT)
            now[v] = given[taken++];
        else if (value->kind == SL_VALUE_CONSTANT)
            now[v] = copy_constant(g, value);
    }
    for (uint32_t n = 0; now && n < body->node_count; n++)
        copy_node(g, &body->nodes[n], now, &scratch);
    for (uint32_t o = 0; o < body->output_count; o++)
        outputs[o] = now ? now[body->outputs[o].value.v] : (sl_value){0};
    sl_arena_deinit(&scratch);
}

void sl_rw_inline(sl_graph *g, const sl_graph *body, const sl_value *inputs, sl_value *outputs) {
    inline_nodes(g, body, inputs, 0, outputs);
}

void sl_rw_inline_given(sl_graph *g, const sl_graph *body, sl_values given, sl_value *outputs) {
    inline_nodes(g, body, given.items, given.count, outputs);
}
