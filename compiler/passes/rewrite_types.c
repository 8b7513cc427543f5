/* rewrite_types.c - Ops on narrow floats, computed in wider ones. */
#include "compiler/passes/rewrite.h"

static bool is_float(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_FLOAT;
}
static bool is_narrower(sl_dtype dtype, sl_dtype than) {
    return is_float(dtype) && sl_dtype_infos[dtype].bytes < sl_dtype_infos[than].bytes;
}

/* The result is rounded once, as by a kernel.  Results have the type of the first float operand. */
static bool widen(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out,
                  sl_dtype wide) {
    enum { MOST = 16 };
    sl_value now[MOST];
    uint32_t first = 0;
    if (node->input_count > MOST) return false;
    while (first < node->input_count && !is_float(sl_rw_type(g, in[first])->dtype)) first++;
    if (first == node->input_count) return false;
    const sl_dtype own = sl_rw_type(g, in[first])->dtype;
    if (!is_narrower(own, wide)) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        now[i] =
            is_narrower(sl_rw_type(g, in[i])->dtype, wide) ? sl_rw_cast(g, in[i], wide) : in[i];
    sl_graph_append_list(g, node->op, (sl_values){node->input_count, now}, node->attrs,
                         (sl_value_slots){node->output_count, out});
    for (uint32_t o = 0; o < node->output_count; o++)
        if (sl_rw_type(g, out[o])->dtype == wide) out[o] = sl_rw_cast(g, out[o], own);
    return true;
}

bool sl_rewrite_halves(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    return widen(g, node, in, out, SL_DTYPE_f32);
}
bool sl_rewrite_doubles(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    return widen(g, node, in, out, SL_DTYPE_f64);
}
