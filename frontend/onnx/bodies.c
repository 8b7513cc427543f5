#include "frontend/onnx/bodies.h"
#include <string.h>

enum { DEEPEST = 16 };

/* ---- captures: values that a body uses from outside ---- */

static bool is_formal(const sl_onnx_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (strcmp(graph->inputs[i].name, name) == 0) return true;
    return false;
}

static void capture_name(sl_onnx_call *c, const char *name, sl_onnx_captures *captures) {
    sl_onnx_value *value = name[0] ? sl_onnx_scope_find(c->scope, name) : NULL;
    if (!value || value->data || value->other) return;
    for (uint32_t i = 0; i < captures->count; i++)
        if (captures->items[i] == value) return;
    if (captures->count == SL_ONNX_MOST_OPERANDS)
        sl_onnx_refuse(c, "a body that uses more than %d outer values is not supported",
                       SL_ONNX_MOST_OPERANDS);
    else
        captures->items[captures->count++] = value;
}

/* Names are unique, so a value that the body defines itself is not found outside. */
void sl_onnx_capture(sl_onnx_call *c, const sl_onnx_graph *graph, sl_onnx_captures *captures) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_onnx_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++)
            if (!is_formal(graph, node->inputs[i])) capture_name(c, node->inputs[i], captures);
        for (uint32_t i = 0; i < node->attr_count; i++)
            if (node->attrs[i].graph) sl_onnx_capture(c, node->attrs[i].graph, captures);
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (!is_formal(graph, graph->outputs[i].name))
            capture_name(c, graph->outputs[i].name, captures);
}

/* ---- Building bodies ---- */

sl_onnx_body sl_onnx_body_open(sl_onnx_call *c, const char *name) {
    sl_onnx_body body = {0};
    if (c->im->depth >= DEEPEST)
        sl_onnx_refuse(c, "bodies nested more than %d deep are not supported", DEEPEST);
    if (sl_onnx_failed(c)) return body;
    if (sl_graph_create(name, NULL, &body.graph, &c->graph->error) != SL_OK) return body;
    body.scope = sl_onnx_scope_open(c->im, c->scope, body.graph);
    return body;
}

void sl_onnx_body_input(sl_onnx_body *body, const char *name, const sl_onnx_value *like,
                        sl_type type) {
    if (!body->scope) return;
    const sl_onnx_value value = {.name = name,
                                 .type = type,
                                 .root = like ? like->root : NULL,
                                 .value =
                                     sl_graph_declare(body->graph, SL_VALUE_INPUT, name, type)};
    (void)sl_onnx_scope_add(body->scope, &value);
}

void sl_onnx_body_captures(sl_onnx_body *body, const sl_onnx_captures *captures) {
    for (uint32_t i = 0; i < captures->count; i++)
        sl_onnx_body_input(body, captures->items[i]->name, captures->items[i],
                           captures->items[i]->type);
}

void sl_onnx_body_import(sl_onnx_call *c, sl_onnx_body *body, const sl_onnx_graph *graph) {
    if (!body->scope) return;
    c->im->depth++;
    sl_onnx_import_initializers(c->im, body->scope, graph);
    sl_onnx_import_nodes(c->im, body->scope, graph->nodes, graph->node_count);
    c->im->depth--;
}

void sl_onnx_body_output(sl_onnx_call *c, sl_onnx_body *body, const char *name) {
    if (!body->scope || body->graph->error.status != SL_OK) return;
    sl_onnx_value *value = sl_onnx_scope_find(body->scope, name);
    if (!value)
        sl_graph_mistake(body->graph, SL_FORMAT, "the body's output '%s' is not defined", name);
    else if (value->other)
        sl_graph_mistake(body->graph, SL_UNSUPPORTED, "the body's output '%s' is %s", name,
                         value->other);
    else
        sl_graph_output(body->graph, name, sl_onnx_use(c->im, body->graph, value));
}

bool sl_onnx_body_check(sl_onnx_call *c, sl_onnx_body *body) {
    if (body->graph && body->graph->error.status != SL_OK)
        sl_graph_mistake(c->graph, body->graph->error.status, "%s", body->graph->error.message);
    return body->scope && !sl_onnx_failed(c);
}

void sl_onnx_body_close(sl_onnx_body *body) {
    sl_graph_destroy(body->graph);
}

/* ---- Appending ops with bodies ---- */

typedef struct {
    sl_attr_visitor visitor; /* must be first */
    const sl_onnx_setting *settings;
    uint32_t count;
} setter;

static void set_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    const setter *s = (const setter *)visitor;
    for (uint32_t i = 0; i < s->count; i++) {
        const sl_onnx_setting *setting = &s->settings[i];
        if (strcmp(setting->name, name) != 0) continue;
        if (kind == SL_ATTR_u32) *(uint32_t *)value = (uint32_t)setting->number;
        if (kind == SL_ATTR_i64) *(int64_t *)value = setting->number;
        if (kind == SL_ATTR_graph) *(sl_attr_graph *)value = setting->graph;
    }
}

void sl_onnx_append_bodies(sl_onnx_call *c, const sl_onnx_step *step,
                           const sl_onnx_setting *settings, uint32_t count) {
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
    const sl_op op = sl_op_find(step->op, strlen(step->op));
    setter s = {{set_attr}, settings, count};
    memset(step->out, 0, step->out_count * sizeof *step->out);
    if (sl_onnx_failed(c)) return;
    if (op == SL_OP_COUNT) {
        sl_onnx_refuse(c, "it needs the op '%s', which does not exist", step->op);
        return;
    }
    sl_op_info_of(op)->visit_attrs(&s.visitor, attrs);
    sl_graph_append_list(c->graph, op, (sl_values){step->in_count, step->in}, attrs,
                         (sl_value_slots){step->out_count, step->out});
}
