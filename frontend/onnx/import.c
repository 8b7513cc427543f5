/* import.c - Converts an ONNX model to a graph, node by node. */
#include "frontend/onnx/import.h"
#include "compiler/eval.h"
#include "core/codec.h"
#include "frontend/onnx/importer.h"
#include <stdio.h>
#include <string.h>

enum {
    FOLD_MOST = 1 << 16, /* largest number of elements that are computed during the import */
    DEEPEST = 16,        /* nesting of function calls */
    NEWEST_OPSET = 21
};

/* ---- Declared values ---- */

static const sl_onnx_binding *find_binding(const sl_onnx_importer *im, const char *name) {
    for (uint32_t i = 0; i < im->options->binding_count; i++)
        if (strcmp(im->options->bindings[i].name, name) == 0) return &im->options->bindings[i];
    return NULL;
}

static const sl_onnx_shape *find_shape(const sl_onnx_importer *im, const char *name) {
    for (uint32_t i = 0; i < im->options->shape_count; i++)
        if (strcmp(im->options->shapes[i].name, name) == 0) return &im->options->shapes[i];
    return NULL;
}

sl_value sl_onnx_use(sl_onnx_importer *im, sl_graph *graph, sl_onnx_value *value) {
    if (value->value.v && value->home == graph) return value->value;
    if (!value->data) {
        sl_graph_mistake(graph, SL_UNSUPPORTED, "'%s' is a value of another graph", value->name);
        return (sl_value){0};
    }
    char name[32];
    const char *chosen = value->name;
    if (sl_graph_find(graph, chosen).v) {
        (void)snprintf(name, sizeof name, "constant.%u", ++im->names);
        chosen = name;
    }
    const sl_value constant = sl_graph_constant(graph, chosen, value->type, value->data);
    if (value->home == graph) value->value = constant;
    return constant;
}

void sl_onnx_import_initializers(sl_onnx_importer *im, sl_onnx_scope *scope,
                                 const sl_onnx_graph *graph) {
    sl_graph *g = sl_onnx_scope_graph(scope);
    if (graph->sparse_count)
        sl_graph_mistake(g, SL_UNSUPPORTED, "graph '%s': sparse initializers are not supported",
                         graph->name);
    for (uint32_t i = 0; i < graph->initializer_count && g->error.status == SL_OK; i++) {
        const sl_onnx_tensor *tensor = &graph->initializers[i];
        sl_onnx_value value = {.name = tensor->name};
        void *data = NULL;
        if (tensor->data_type == SL_ONNX_STRING)
            value.other = "a tensor of strings";
        else if (sl_onnx_tensor_decode(tensor, &im->arena, &value.type, &data, &g->error) != SL_OK)
            return;
        value.data = data;
        (void)sl_onnx_scope_add(scope, &value);
    }
}

/* The shape in the model, completed by the given one. */
static bool make_input_type(const sl_onnx_importer *im, const sl_onnx_value_info *info, sl_graph *g,
                            sl_type *out) {
    const sl_onnx_shape *given = find_shape(im, info->name);
    *out = (sl_type){0};
    if (!sl_onnx_type_find(info->data_type, &out->dtype)) {
        sl_graph_mistake(g, SL_UNSUPPORTED, "input '%s': element type %s is not supported",
                         info->name, sl_onnx_type_name(info->data_type));
        return false;
    }
    if (info->rank > SL_MAX_RANK || (given && info->has_shape && given->shape.rank != info->rank)) {
        sl_graph_mistake(g, SL_UNSUPPORTED, "input '%s': %u dims, wanted %u", info->name,
                         info->rank, given ? given->shape.rank : SL_MAX_RANK);
        return false;
    }
    if (given) out->shape = given->shape;
    if (!given) out->shape.rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        if (!given) out->shape.dims[i] = info->dims[i];
        if (out->shape.dims[i] < 0 || (info->dims[i] >= 0 && info->dims[i] != out->shape.dims[i])) {
            if (info->dims[i] < 0)
                sl_graph_mistake(
                    g, SL_INVALID,
                    "input '%s': dim %u is open: '%s', give its shape (--shape %s=...)", info->name,
                    i, info->dim_names[i], info->name);
            else
                sl_graph_mistake(
                    g, SL_INVALID, "input '%s': dim %u is %lld in the model, but %lld was given",
                    info->name, i, (long long)info->dims[i], (long long)out->shape.dims[i]);
            return false;
        }
    }
    if (!given && !info->has_shape) {
        sl_graph_mistake(g, SL_INVALID, "input '%s' has no shape; give one (--shape %s=...)",
                         info->name, info->name);
        return false;
    }
    return true;
}

static void import_input(sl_onnx_importer *im, sl_onnx_scope *scope,
                         const sl_onnx_value_info *info) {
    sl_graph *g = sl_onnx_scope_graph(scope);
    sl_onnx_value value = {.name = info->name, .root = info->name, .other = info->other};
    const sl_onnx_binding *bound = find_binding(im, info->name);
    if (sl_onnx_scope_find(scope, info->name)) return; /* an initializer provides the value */
    if (info->data_type == SL_ONNX_STRING) value.other = "a tensor of strings";
    if (bound) {
        value.root = NULL;
        value.type = bound->type;
        value.data = bound->data;
    } else if (!value.other) {
        if (!make_input_type(im, info, g, &value.type)) return;
        value.value = sl_graph_declare(g, SL_VALUE_INPUT, info->name, value.type);
    }
    (void)sl_onnx_scope_add(scope, &value);
}

/* ---- One node ---- */

static const sl_onnx_function *find_function(const sl_onnx_importer *im, const sl_onnx_node *node) {
    for (uint32_t i = 0; i < im->model.function_count; i++) {
        const sl_onnx_function *f = &im->model.functions[i];
        if (strcmp(f->name, node->op) == 0 && strcmp(f->domain, node->domain) == 0) return f;
    }
    return NULL;
}

/* Resolves inputs and outputs of the call; false after an error. */
static bool open_call(sl_onnx_call *c) {
    const sl_onnx_node *node = c->node;
    c->in_count = node->input_count;
    c->out_count = node->output_count;
    c->in = SL_ARENA_NEW_ARRAY(&c->im->arena, sl_onnx_value *, (size_t)c->in_count + 1);
    c->out = SL_ARENA_NEW_ARRAY(&c->im->arena, sl_onnx_value, (size_t)c->out_count + 1);
    if (!c->in || !c->out) {
        sl_graph_mistake(c->graph, SL_NO_MEMORY, "no memory for a node");
        return false;
    }
    const char *root = NULL;
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!node->inputs[i][0]) continue;
        c->in[i] = sl_onnx_scope_find(c->scope, node->inputs[i]);
        if (!c->in[i])
            sl_onnx_wrong(c, "input '%s' is not defined before this node", node->inputs[i]);
        if (!c->in[i]) return false;
        if (!root) root = c->in[i]->root;
    }
    for (uint32_t i = 0; i < c->out_count; i++)
        c->out[i] = (sl_onnx_value){.name = node->outputs[i], .root = root};
    return true;
}

static bool has_bodies(const sl_onnx_node *node) {
    for (uint32_t i = 0; i < node->attr_count; i++)
        if (node->attrs[i].graph) return true;
    return false;
}

/* Whether all inputs of the node are known and small. */
static bool can_fold(const sl_onnx_call *c) {
    int64_t elements = 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!c->in[i]) continue;
        if (!c->in[i]->data) return false;
        elements += sl_type_elements(&c->in[i]->type);
    }
    return c->in_count > 0 && elements <= FOLD_MOST && !has_bodies(c->node);
}

/* Evaluates the call's own graph; its results become literals. */
static sl_status evaluate(sl_onnx_call *c, sl_error *err) {
    sl_evaluator *evaluator;
    SL_TRY(sl_evaluator_create(c->graph, NULL, &evaluator, err));
    sl_status status = sl_evaluator_run(evaluator, err);
    for (uint32_t i = 0; i < c->out_count && status == SL_OK; i++) {
        sl_onnx_value *out = &c->out[i];
        if (!out->value.v) continue;
        const int64_t elements = sl_type_elements(&out->type);
        const double *result = sl_evaluator_result(evaluator, out->value);
        void *data = sl_arena_alloc(&c->im->arena, sl_type_bytes(&out->type) + 1, 64);
        if (!data || !result) {
            status = sl_no_memory(err, out->name, sl_type_bytes(&out->type));
        } else {
            sl_encode_f64(out->type.dtype, result, elements, data);
            out->data = data;
            out->value = (sl_value){0};
            out->root = NULL;
        }
    }
    sl_evaluator_destroy(evaluator);
    return status;
}

/* False if the results are too large, so that the node must stay in the graph. */
static bool outputs_are_small(sl_onnx_call *c) {
    int64_t elements = 0;
    for (uint32_t i = 0; i < c->out_count; i++)
        if (c->out[i].value.v) elements += sl_type_elements(&c->out[i].type);
    return elements <= FOLD_MOST;
}

/* Constant folding: computes the node now.  False if it must stay in the graph. */
static bool fold(sl_onnx_call *c, const sl_onnx_row *row) {
    sl_graph *graph = c->graph, *own;
    if (sl_graph_create("constants", NULL, &own, &graph->error) != SL_OK) return true;
    c->graph = own;
    c->folding = true;
    row->fn(c);
    bool needed = false;
    for (uint32_t i = 0; i < c->out_count; i++) {
        if (!c->out[i].value.v) continue;
        needed = true;
        sl_graph_output(own, c->out[i].name, c->out[i].value);
    }
    const bool small = own->error.status != SL_OK || outputs_are_small(c);
    if (small && needed && own->error.status == SL_OK) {
        sl_error err = {0};
        const sl_status status = evaluate(c, &err);
        if (status != SL_OK) sl_graph_mistake(own, status, "%s", err.message);
    }
    if (own->error.status != SL_OK)
        sl_graph_mistake(graph, own->error.status, "%s", own->error.message);
    sl_graph_destroy(own);
    c->graph = graph;
    c->folding = false;
    for (uint32_t i = 0; i < c->out_count && !small; i++) c->out[i].value = (sl_value){0};
    return small;
}

static void call_function(sl_onnx_call *c, const sl_onnx_function *f) {
    if (c->im->depth >= DEEPEST) {
        sl_onnx_wrong(c, "functions call each other more than %d deep", DEEPEST);
        return;
    }
    sl_onnx_scope *scope = sl_onnx_scope_open_function(c, f);
    for (uint32_t i = 0; scope && i < f->input_count && i < c->in_count; i++) {
        if (!c->in[i]) continue;
        sl_onnx_value value = *c->in[i];
        value.name = f->inputs[i];
        (void)sl_onnx_scope_add(scope, &value);
    }
    c->im->depth++;
    if (scope) sl_onnx_import_nodes(c->im, scope, f->nodes, f->node_count);
    c->im->depth--;
    for (uint32_t i = 0; i < c->out_count && i < f->output_count && !sl_onnx_failed(c); i++) {
        const sl_onnx_value *value = sl_onnx_scope_find(scope, f->outputs[i]);
        if (!value) {
            sl_onnx_wrong(c, "the function does not define its output '%s'", f->outputs[i]);
            return;
        }
        const char *name = c->out[i].name;
        c->out[i] = *value;
        c->out[i].name = name;
    }
}

static const char *not_a_tensor(const sl_onnx_call *c) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i] && c->in[i]->other) return c->in[i]->other;
    return NULL;
}

static void dispatch(sl_onnx_call *c) {
    const sl_onnx_function *function = find_function(c->im, c->node);
    const sl_onnx_row *row = function ? NULL : sl_onnx_row_find(c->node->domain, c->node->op);
    const char *other = not_a_tensor(c);
    if (row) c->op = row->op;
    if (function)
        call_function(c, function);
    else if (!row)
        sl_onnx_refuse(c, "unknown op%s%s", c->node->domain[0] ? " in " : "", c->node->domain);
    else if (!row->fn)
        sl_onnx_refuse(c, "%s", row->op);
    else if (other)
        sl_onnx_refuse(c, "an input is %s, which is not supported", other);
    else if (c->opset < row->since)
        sl_onnx_refuse(c, "opset %lld is not supported, only %lld or later", (long long)c->opset,
                       (long long)row->since);
    else if (!can_fold(c) || !fold(c, row))
        row->fn(c);
}

/* Prefixes the message with the node. */
static void name_mistake(sl_onnx_call *c) {
    sl_error *error = &c->graph->error;
    if (c->im->refusal.op[0]) return;
    (void)snprintf(c->im->refusal.op, sizeof c->im->refusal.op, "%s", c->node->op);
    const char *name = c->node->name;
    if (!name[0] && c->node->output_count) name = c->node->outputs[0];
    error->status = sl_fail_in(error, error->status, "node '%s' (%s)", name, c->node->op);
}

static void import_node(sl_onnx_importer *im, sl_onnx_scope *scope, const sl_onnx_node *node) {
    sl_onnx_call c = {.im = im,
                      .scope = scope,
                      .node = node,
                      .graph = sl_onnx_scope_graph(scope),
                      .opset = sl_onnx_scope_opset(scope, node->domain)};
    sl_graph_scope(c.graph, "%s", node->name[0] ? node->name : "");
    if (open_call(&c)) dispatch(&c);
    for (uint32_t i = 0; i < c.out_count && !sl_onnx_failed(&c); i++) {
        if (!c.out[i].name[0]) continue;
        if (!c.out[i].value.v && !c.out[i].data && !c.out[i].other)
            sl_onnx_refuse(&c, "output %u ('%s') is not supported", i, c.out[i].name);
        else
            (void)sl_onnx_scope_add(scope, &c.out[i]);
    }
    if (sl_onnx_failed(&c)) name_mistake(&c);
}

void sl_onnx_import_nodes(sl_onnx_importer *im, sl_onnx_scope *scope, const sl_onnx_node *nodes,
                          uint32_t count) {
    const sl_graph *graph = sl_onnx_scope_graph(scope);
    for (uint32_t i = 0; i < count && graph->error.status == SL_OK; i++)
        import_node(im, scope, &nodes[i]);
}

/* ---- The model ---- */

static void import_outputs(sl_onnx_importer *im, sl_onnx_scope *scope) {
    sl_graph *g = sl_onnx_scope_graph(scope);
    if (!im->model.graph.output_count)
        sl_graph_mistake(g, SL_FORMAT, "graph '%s' has no outputs", im->model.graph.name);
    for (uint32_t i = 0; i < im->model.graph.output_count && g->error.status == SL_OK; i++) {
        const char *name = im->model.graph.outputs[i].name;
        sl_onnx_value *value = sl_onnx_scope_find(scope, name);
        if (!value)
            sl_graph_mistake(g, SL_FORMAT, "output '%s' is not defined", name);
        else if (value->other)
            sl_graph_mistake(g, SL_UNSUPPORTED, "output '%s' is %s", name, value->other);
        else
            sl_graph_output(g, name, sl_onnx_use(im, g, value));
    }
}

/* Removes nodes that no output needs, and constants that only they used. */
static sl_status drop_unused(sl_graph *g, sl_error *err) {
    sl_graph_count_uses(g);
    for (uint32_t n = g->node_count; n-- > 0;) {
        sl_node *node = &g->nodes[n];
        uint32_t uses = 0;
        for (uint32_t o = 0; o < node->output_count; o++)
            uses += g->values[node->outputs[o].v].use_count;
        if (uses) continue;
        for (uint32_t i = 0; i < node->input_count; i++) g->values[node->inputs[i].v].use_count--;
        node->op = SL_OP_COUNT;
    }
    for (uint32_t v = 1; v <= g->value_count; v++)
        if (g->values[v].kind == SL_VALUE_CONSTANT && !g->values[v].use_count)
            g->values[v].kind = SL_VALUE_RESULT; /* no longer made by a node */
    return sl_graph_compact(g, err);
}

static void check_opset(const sl_onnx_importer *im, sl_graph *g) {
    for (uint32_t i = 0; i < im->model.opsets.count; i++) {
        const sl_onnx_opset *opset = &im->model.opsets.items[i];
        if (!opset->domain[0] && opset->version > NEWEST_OPSET)
            sl_graph_mistake(g, SL_UNSUPPORTED, "opset %lld is not supported, only up to %d",
                             (long long)opset->version, NEWEST_OPSET);
    }
}

static sl_status import_model(sl_onnx_importer *im, sl_graph *g, sl_error *err) {
    sl_onnx_scope *scope = sl_onnx_scope_open(im, NULL, g);
    const sl_onnx_graph *graph = &im->model.graph;
    check_opset(im, g);
    if (scope) sl_onnx_import_initializers(im, scope, graph);
    for (uint32_t i = 0; scope && i < graph->input_count; i++)
        import_input(im, scope, &graph->inputs[i]);
    if (scope) sl_onnx_import_nodes(im, scope, graph->nodes, graph->node_count);
    if (scope) import_outputs(im, scope);
    SL_TRY(sl_graph_check(g, err));
    SL_TRY(drop_unused(g, err));
    return sl_graph_verify(g, err);
}

sl_status sl_onnx_import(const void *bytes, size_t count, const sl_onnx_options *options,
                         const sl_allocator *allocator, sl_graph **out, sl_error *err) {
    static const sl_onnx_options none = {0};
    sl_onnx_importer im = {.options = options ? options : &none};
    sl_graph *graph = NULL;
    sl_arena_init(&im.arena, allocator);
    sl_status status = sl_onnx_model_read(bytes, count, &im.arena, &im.model, err);
    const char *name = im.model.graph.name && im.model.graph.name[0] ? im.model.graph.name : "onnx";
    if (status == SL_OK) status = sl_graph_create(name, allocator, &graph, err);
    if (status == SL_OK) status = import_model(&im, graph, err);
    sl_arena_deinit(&im.arena);
    if (options && options->refusal) *options->refusal = im.refusal;
    if (status == SL_OK)
        *out = graph;
    else
        sl_graph_destroy(graph);
    return status;
}
