/* rewrite_rope.c - mrope by rope_apply. */
#include "compiler/passes/rewrite.h"
#include "core/rope_apply.h"

_Static_assert(sizeof(sl_mrope_attrs) == sizeof(sl_mrope_backward_attrs), "both are alike");

/* bool[C]: the columns that belong to one kind of position. */
static sl_value columns_of(sl_graph *g, const sl_mrope_attrs *a, const sl_dims *table,
                           int64_t kind) {
    const int64_t count = table->dims[table->rank - 1];
    sl_arena scratch;
    sl_arena_init(&scratch, g->arena.allocator);
    double *slots = SL_ARENA_NEW_ARRAY(&scratch, double, (size_t)count);
    sl_value out = {0};
    for (int64_t j = 0; slots && j < count; j++)
        slots[j] = sl_mrope_kind(&a->sections, a->striped, table->dims[0], j) == kind;
    if (slots)
        out = sl_rw_constant(g, &(sl_type){SL_DTYPE_bool, {1, {count}}}, slots);
    else
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a mask");
    sl_arena_deinit(&scratch);
    return out;
}

/* Merges tables [P,..,C] into one [..,C]: each column comes from the kind that sections assign. */
static sl_value joined(sl_graph *g, const sl_mrope_attrs *a, sl_value tables) {
    const sl_dims shape = sl_rw_type(g, tables)->shape;
    sl_dims rest = {.rank = shape.rank - 1};
    sl_value out = {0};
    for (uint32_t d = 0; d < rest.rank; d++) rest.dims[d] = shape.dims[d + 1];
    for (int64_t kind = 0; kind < shape.dims[0]; kind++) {
        const sl_value one = sl_rw_reshape(g, sl_rw_slice(g, tables, 0, kind, 1), &rest);
        if (kind == 0)
            out = one;
        else
            out = sl_rw_where(g, columns_of(g, a, &shape, kind), one, out);
    }
    return out;
}

/* mrope and its gradient, by rope_apply and its gradient. */
bool sl_rewrite_mrope(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_mrope_attrs *a = node->attrs;
    const sl_value parts[3] = {in[0], joined(g, a, in[1]), joined(g, a, in[2])};
    const sl_rope_apply_attrs attrs = {.interleaved = a->interleaved};
    sl_graph_append_list(g, node->op == SL_OP_mrope ? SL_OP_rope_apply : SL_OP_rope_apply_backward,
                         (sl_values){3, parts}, &attrs, (sl_value_slots){1, out});
    return true;
}
