/* experts_check.c - What a graph with experts, and its program, must fit. */
#include "api/experts.h"
#include <string.h>

typedef struct {
    sl_attr_visitor visitor; /* first */
    uint32_t layer;
} layer_finder;

static void find_layer(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    const sl_attr *attr = value;
    if (kind == SL_ATTR_u32 && strcmp(name, "layer") == 0)
        ((layer_finder *)visitor)->layer = attr->u32;
}

static uint32_t layer_of(sl_op op, const void *given) {
    const sl_op_info *info = sl_op_info_of(op);
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    layer_finder finder = {.visitor = {find_layer}};
    memcpy(attrs, given, info->attrs_bytes);
    info->visit_attrs(&finder.visitor, attrs);
    return finder.layer;
}

static sl_status check_value(const sl_experts *x, const sl_value_info *value, sl_error *err) {
    if (!x)
        return sl_fail(
            err, SL_INVALID,
            "'%s': the graph has experts, but sl_compile_options.experts names no source "
            "of them",
            value->name);
    const sl_type wanted =
        sl_type_make(x->gate.dtype, 3, (int64_t)x->shape.experts, x->shape.width, x->shape.hidden);
    char found[SL_TYPE_TEXT], text[SL_TYPE_TEXT];
    if (sl_type_equal(&value->type, &wanted)) return SL_OK;
    return sl_fail(err, SL_INVALID, "experts '%s' are %s, the source has %s", value->name,
                   sl_type_format(&value->type, found, sizeof found),
                   sl_type_format(&wanted, text, sizeof text));
}

sl_status sl_experts_check_graph(const sl_experts *x, const sl_graph *graph, sl_error *err) {
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind == SL_VALUE_EXPERTS)
            SL_TRY(check_value(x, &graph->values[v], err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_node *node = &graph->nodes[n];
        const uint32_t traits = sl_op_info_of(node->op)->traits;
        if (!(traits & (SL_OP_REQUESTS | SL_OP_STREAMS))) continue;
        const uint32_t layer = layer_of(node->op, node->attrs);
        if (layer >= x->shape.layers)
            return sl_fail(err, SL_INVALID, "%s: layer is %u, the source of experts has %u",
                           node->label, layer, x->shape.layers);
    }
    return SL_OK;
}

/* Steps that a device may run at the same time are of one level. */
sl_status sl_experts_check_program(const sl_program *p, sl_error *err) {
    const sl_step *request = NULL, *used = NULL;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const sl_step *step = &p->steps[s];
        const uint32_t traits = sl_op_info_of(step->op)->traits;
        if (traits & SL_OP_REQUESTS) {
            const bool apart = p->model == SL_SCHEDULE_EDGES || !used || used->level < step->level;
            if (request && (!used || !apart))
                return sl_fail(err, SL_INVALID,
                               "%s: requests experts before those of '%s' are used; let it depend "
                               "on their result",
                               step->label, request->label);
            request = step;
            used = NULL;
        }
        if (!(traits & SL_OP_STREAMS)) continue;
        if (!request || used ||
            layer_of(step->op, step->attrs) != layer_of(request->op, request->attrs))
            return sl_fail(err, SL_INVALID,
                           "%s: uses experts of layer %u that no moe_group requested for it alone",
                           step->label, layer_of(step->op, step->attrs));
        used = step;
    }
    return SL_OK;
}
