/* expand.c - Ops that devices see as others in a row. */
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"

typedef void expand_fn(sl_rebuild *r, const sl_node *node);

static void expand_render(sl_rebuild *r, const sl_node *node) {
    const sl_gaussian_splat_render_attrs *a = node->attrs;
    const sl_gaussian_splat_prepare_attrs prepare = {
        .width = a->width, .height = a->height, .radius = a->radius, .cutoff = a->cutoff};
    const sl_gaussian_splat_rasterize_attrs rasterize = {
        .width = a->width, .height = a->height, .cutoff = a->cutoff, .enough = a->enough};
    sl_value in[7], made[4], out = {0};
    for (uint32_t i = 0; i < 7; i++) in[i] = sl_rebuild_input(r, node, i);
    sl_rebuild_append(r, node, SL_OP_gaussian_splat_prepare, (sl_values){7, in}, &prepare,
                      (sl_value_slots){3, made});
    made[3] = in[6];
    sl_rebuild_append(r, node, SL_OP_gaussian_splat_rasterize, (sl_values){4, made}, &rasterize,
                      (sl_value_slots){1, &out});
    sl_rebuild_set(r, node, 0, out);
}

static const struct {
    sl_op op;
    expand_fn *expand;
} expansions[] = {
    {SL_OP_gaussian_splat_render, expand_render},
};

static expand_fn *expansion_of(sl_op op) {
    for (size_t i = 0; i < sizeof expansions / sizeof expansions[0]; i++)
        if (expansions[i].op == op) return expansions[i].expand;
    return NULL;
}

static void expand_node(sl_rebuild *r, const sl_node *node) {
    expand_fn *expand = expansion_of(node->op);
    if (expand)
        expand(r, node);
    else
        sl_rebuild_same(r, node);
}

sl_status sl_pass_expand(sl_graph *graph, bool *changed, sl_error *err) {
    sl_rebuild r = {.graph = graph, .node = expand_node};
    *changed = false;
    for (uint32_t n = 0; n < graph->node_count; n++)
        *changed |= expansion_of(graph->nodes[n].op) != NULL;
    return *changed ? sl_rebuild_graph(&r, err) : SL_OK;
}
