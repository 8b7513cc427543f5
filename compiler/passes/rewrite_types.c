/* rewrite_types.c - Ops on halves, in f32. */
#include "compiler/passes/rewrite.h"

static bool is_half(sl_dtype dtype) {
    return dtype == SL_DTYPE_f16 || dtype == SL_DTYPE_bf16;
}

static sl_value cast_to(sl_graph *g, sl_value x, sl_dtype to) {
    sl_value out = {0};
    const sl_cast_attrs attrs = {.to = to};
    sl_graph_append_list(g, SL_OP_cast, (sl_values){1, &x}, &attrs, (sl_value_slots){1, &out});
    return out;
}

/* What is computed is rounded once, as it is where there is a kernel. */
bool sl_rewrite_halves(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    enum { MOST = 16 };
    sl_value wide[MOST];
    sl_dtype narrow = SL_DTYPE_f32;
    if (node->input_count > MOST) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_dtype dtype = sl_rw_type(g, in[i])->dtype;
        if (is_half(dtype)) narrow = dtype;
    }
    if (!is_half(narrow)) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        wide[i] = is_half(sl_rw_type(g, in[i])->dtype) ? cast_to(g, in[i], SL_DTYPE_f32) : in[i];
    sl_graph_append_list(g, node->op, (sl_values){node->input_count, wide}, node->attrs,
                         (sl_value_slots){node->output_count, out});
    for (uint32_t o = 0; o < node->output_count; o++)
        if (sl_rw_type(g, out[o])->dtype == SL_DTYPE_f32) out[o] = cast_to(g, out[o], narrow);
    return true;
}
