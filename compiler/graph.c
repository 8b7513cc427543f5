#include "compiler/graph.h"
#include "compiler/ops/semantics.h"
#include "core/custom.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_uint graphs_made;

sl_status sl_graph_create(const char *name, const sl_allocator *allocator, sl_graph **out,
                          sl_error *err) {
    sl_arena arena;
    if (!name || !out)
        return sl_fail(err, SL_INVALID,
                       "sl_graph_create: a required pointer is NULL (name && out)");
    sl_arena_init(&arena, allocator);
    sl_graph *graph = SL_ARENA_NEW(&arena, sl_graph);
    char *copy = graph ? sl_arena_copy_text(&arena, name, strlen(name)) : NULL;
    if (!copy) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a graph", sizeof *graph);
    }
    graph->arena = arena;
    graph->name = copy;
    graph->scope = "";
    graph->serial = atomic_fetch_add(&graphs_made, 1);
    *out = graph;
    return SL_OK;
}

void sl_graph_destroy(sl_graph *graph) {
    if (!graph) return;
    for (sl_graph *body = graph->bodies, *next; body; body = next) {
        next = body->next;
        sl_graph_destroy(body);
    }
    if (graph->release) graph->release(graph->release_ctx);
    sl_arena arena = graph->arena; /* the graph itself lives in it */
    sl_arena_deinit(&arena);
}

void sl_graph_own(sl_graph *graph, sl_graph *body) {
    body->next = graph->bodies;
    body->owner = graph;
    graph->bodies = body;
}

void sl_graph_mistake(sl_graph *graph, sl_status status, const char *format, ...) {
    if (graph->error.status != SL_OK) return;
    graph->error.status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(graph->error.message, sizeof graph->error.message, format, args);
    va_end(args);
}

sl_status sl_graph_check(const sl_graph *graph, sl_error *err) {
    if (!graph)
        return sl_fail(err, SL_INVALID, "sl_graph_check: a required pointer is NULL (graph)");
    if (err && graph->error.status != SL_OK) *err = graph->error;
    return graph->error.status;
}

const sl_value_info *sl_graph_value(const sl_graph *graph, sl_value value) {
    return value.v && value.v <= graph->value_count ? &graph->values[value.v] : NULL;
}

/* A larger copy of a growing array; the old one stays in the arena. */
void *sl_graph_grow(sl_graph *graph, void *items, uint32_t count, uint32_t *capacity, size_t each) {
    if (count < *capacity) return items;
    const uint32_t larger = *capacity ? *capacity * 2 : 16;
    void *fresh = sl_arena_array(&graph->arena, larger, each, _Alignof(max_align_t));
    if (!fresh) {
        sl_graph_mistake(graph, SL_NO_MEMORY, "graph '%s': no memory for %u entries", graph->name,
                         larger);
        return NULL;
    }
    if (items) memcpy(fresh, items, count * each);
    *capacity = larger;
    return fresh;
}

static sl_value add_value(sl_graph *graph, sl_value_info info) {
    sl_value_info *values = sl_graph_grow(graph, graph->values, graph->value_count + 1,
                                          &graph->value_capacity, sizeof *values);
    if (!values) return (sl_value){0};
    graph->values = values;
    values[++graph->value_count] = info;
    return (sl_value){graph->value_count};
}

static char *copy_name(sl_graph *graph, const char *name) {
    char *copy = sl_arena_copy_text(&graph->arena, name, strlen(name));
    if (!copy) sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for the name '%s'", name);
    return copy;
}

/* Negative dims become sizes of symbols; *out says which are. */
static bool resolve_symbols(sl_graph *graph, sl_type *type, const uint32_t **out) {
    uint32_t symbols[SL_MAX_RANK] = {0}, *copy;
    bool any = false;
    for (uint32_t d = 0; d < type->shape.rank && d < SL_MAX_RANK; d++) {
        const int64_t dim = type->shape.dims[d];
        if (dim >= 0 || dim < -(int64_t)graph->symbol_count) continue;
        symbols[d] = (uint32_t)-dim;
        type->shape.dims[d] = graph->symbols[symbols[d] - 1].size;
        any = true;
    }
    *out = NULL;
    if (!any) return true;
    *out = copy = SL_ARENA_NEW_ARRAY(&graph->arena, uint32_t, SL_MAX_RANK);
    if (copy) memcpy(copy, symbols, sizeof symbols);
    if (!copy) sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for a type");
    return copy;
}

sl_value sl_graph_declare(sl_graph *graph, sl_value_kind kind, const char *name, sl_type type) {
    const uint32_t *symbols;
    if (graph->error.status != SL_OK) return (sl_value){0};
    if (!resolve_symbols(graph, &type, &symbols)) return (sl_value){0};
    if (sl_type_check_shape(&type, name, &graph->error) != SL_OK) return (sl_value){0};
    if (sl_graph_find(graph, name).v) {
        sl_graph_mistake(graph, SL_INVALID, "the name '%s' is declared twice", name);
        return (sl_value){0};
    }
    char *copy = copy_name(graph, name);
    if (!copy) return (sl_value){0};
    const sl_value value = add_value(
        graph, (sl_value_info){.kind = kind, .type = type, .symbols = symbols, .name = copy});
    if (value.v && kind == SL_VALUE_STATE) graph->values[value.v].root = value;
    return value.v && sl_graph_name(graph, value.v) ? value : (sl_value){0};
}

void sl_graph_tag(sl_graph *graph, sl_value value, uint32_t tag) {
    if (value.v && value.v <= graph->value_count) graph->values[value.v].tag = tag;
}

sl_value sl_graph_constant(sl_graph *graph, const char *name, sl_type type, const void *data) {
    const sl_value value = sl_graph_declare(graph, SL_VALUE_CONSTANT, name, type);
    if (!value.v) return value;
    const size_t bytes = sl_type_bytes(&type);
    void *copy = sl_arena_alloc(&graph->arena, bytes, 64);
    if (!copy) {
        sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for constant '%s'", name);
        return (sl_value){0};
    }
    memcpy(copy, data, bytes);
    graph->values[value.v].data = copy;
    return value;
}

sl_value sl_graph_constant_in_place(sl_graph *graph, const char *name, sl_type type,
                                    const void *data) {
    const sl_value value = sl_graph_declare(graph, SL_VALUE_CONSTANT, name, type);
    if (value.v) graph->values[value.v].data = data;
    if (value.v) graph->values[value.v].borrowed = true;
    return value;
}

void sl_graph_scope(sl_graph *graph, const char *format, ...) {
    char text[128];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = copy_name(graph, text);
    if (copy) graph->scope = copy;
}

void sl_graph_label(sl_graph *graph, const char *name) {
    graph->next_name = name;
}

/* Weights that the node writes become states. */
static void make_states(sl_graph *graph, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t i = 0; i < node->input_count && info->traits & SL_OP_ASSIGNS; i++) {
        const sl_value_info *value = sl_graph_value(graph, node->inputs[i]);
        if (!value || value->kind != SL_VALUE_WEIGHT || sl_input_kind(info, i) != SL_OPERAND_STATE)
            continue;
        sl_value_info *own = &graph->values[node->inputs[i].v];
        own->kind = SL_VALUE_STATE;
        own->root = node->inputs[i];
        own->was_weight = true;
    }
}

static bool collect_inputs(sl_graph *graph, const sl_node *node, sl_type *types) {
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_value_info *value = sl_graph_value(graph, node->inputs[i]);
        if (!value) {
            sl_graph_mistake(graph, SL_INVALID, "%s: input '%s' is %s", node->label,
                             sl_input_name(info, i),
                             node->inputs[i].v ? "not a value of this graph" : "not set");
            return false;
        }
        const bool state = sl_input_kind(info, i) == SL_OPERAND_STATE;
        const bool experts = sl_input_kind(info, i) == SL_OPERAND_EXPERTS;
        if ((state && !value->root.v) || experts != (value->kind == SL_VALUE_EXPERTS)) {
            sl_graph_mistake(graph, SL_INVALID, "%s: input '%s' must be %s", node->label,
                             sl_input_name(info, i),
                             state     ? "a state"
                             : experts ? "experts"
                                       : "a tensor, not experts");
            return false;
        }
        types[i] = value->type;
    }
    return true;
}

static bool add_outputs(sl_graph *graph, sl_node *node, const sl_type *types) {
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t o = 0; o < node->output_count; o++) {
        sl_value_info value = {
            .kind = SL_VALUE_RESULT, .type = types[o], .node = graph->node_count};
        const int32_t state = sl_output_state(info, o);
        if (state >= 0) value.root = graph->values[node->inputs[state].v].root;
        node->outputs[o] = add_value(graph, value);
        if (!node->outputs[o].v) return false;
    }
    return true;
}

bool sl_node_make_room(sl_arena *arena, sl_node *node, uint32_t inputs, uint32_t outputs) {
    node->input_count = inputs;
    node->output_count = outputs;
    node->inputs = SL_ARENA_NEW_ARRAY(arena, sl_value, (size_t)inputs + outputs + 1);
    node->outputs = node->inputs + inputs;
    return node->inputs;
}

/* "q, k, v, extra.." */
static void list_inputs(const sl_op_info *info, char *out, size_t capacity) {
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < info->input_count + (info->list_name != NULL); i++) {
        const int bytes = snprintf(out + used, capacity - used, "%s%s%s", i ? ", " : "",
                                   sl_input_name(info, i), i == info->input_count ? ".." : "");
        used += (size_t)bytes < capacity - used ? (size_t)bytes : capacity - used - 1;
    }
}

/* Whether the op can have so many operands. */
static bool check_counts(sl_graph *graph, const sl_op_info *info, uint32_t inputs,
                         uint32_t outputs) {
    const bool list = info->list_name, outs = info->outs_name;
    char names[200];
    list_inputs(info, names, sizeof names);
    if ((list ? inputs < info->input_count : inputs != info->input_count) ||
        inputs > info->input_count + SL_MAX_LIST)
        sl_graph_mistake(graph, SL_INVALID, "%s takes %u inputs%s (%s), found %u", info->name,
                         info->input_count, list ? " or more" : "", names, inputs);
    else if ((outs ? outputs < info->output_count : outputs != info->output_count) ||
             outputs > info->output_count + SL_MAX_LIST)
        sl_graph_mistake(graph, SL_INVALID, "%s has %u results%s, found %u", info->name,
                         info->output_count, outs ? " or more" : "", outputs);
    return graph->error.status == SL_OK;
}

/* The types of the node's results, in scratch; NULL after a mistake. */
static const sl_type *infer_node(sl_graph *graph, const sl_node *node, sl_arena *scratch) {
    sl_type *in = SL_ARENA_NEW_ARRAY(scratch, sl_type, (size_t)node->input_count + 1);
    sl_type *out = SL_ARENA_NEW_ARRAY(scratch, sl_type, (size_t)node->output_count + 1);
    if (!in || !out) {
        sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for a node");
        return NULL;
    }
    make_states(graph, node);
    if (!collect_inputs(graph, node, in)) return NULL;
    const sl_infer_args args = {node->label,       in, node->attrs, out, node->input_count,
                                node->output_count};
    return sl_infer(node->op, &args, &graph->error) == SL_OK ? out : NULL;
}

typedef struct {
    sl_attr_visitor visitor; /* first */
    const sl_custom_ops *customs;
    const char *name;
} handler_finder;

/* The attribute before it is the name of the op. */
static void find_handler(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind,
                         void *value) {
    handler_finder *finder = (handler_finder *)visitor;
    sl_attr *attr = value;
    if (kind == SL_ATTR_text && strcmp(name, "name") == 0) finder->name = attr->text;
    if (kind == SL_ATTR_handler && !attr->handler && finder->customs)
        attr->handler = sl_custom_find(finder->customs, finder->name);
}

/* A copy of the attributes, with what implements the node. */
static const void *own_attrs(sl_graph *graph, sl_op op, const void *attrs) {
    void *copy = sl_attrs_copy(&graph->arena, graph, op, attrs);
    handler_finder finder = {.visitor = {find_handler}, .customs = graph->customs, .name = ""};
    if (copy) sl_op_info_of(op)->visit_attrs(&finder.visitor, copy);
    return copy;
}

static const char *make_label(sl_graph *graph, const sl_op_info *info) {
    const char *name = graph->next_name;
    if (graph->kept_label) return graph->kept_label;
    if (graph->scope[0])
        return sl_arena_format(&graph->arena, "%s %s", graph->scope, name ? name : info->name);
    return name ? sl_arena_copy_text(&graph->arena, name, strlen(name)) : info->name;
}

const char *sl_graph_next_label(sl_graph *graph, sl_op op) {
    const char *label = make_label(graph, sl_op_info_of(op));
    return label ? label : sl_op_info_of(op)->name;
}

static bool start_node(sl_graph *graph, sl_node *node, sl_values inputs, const void *attrs,
                       uint32_t output_count) {
    const sl_op_info *info = sl_op_info_of(node->op);
    if (!check_counts(graph, info, inputs.count, output_count)) return false;
    node->attrs = own_attrs(graph, node->op, attrs);
    node->label = make_label(graph, info);
    sl_node *nodes =
        sl_graph_grow(graph, graph->nodes, graph->node_count, &graph->node_capacity, sizeof *nodes);
    if (!nodes || !node->attrs || !node->label ||
        !sl_node_make_room(&graph->arena, node, inputs.count, output_count)) {
        sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for a node");
        return false;
    }
    graph->nodes = nodes;
    if (inputs.count) memcpy(node->inputs, inputs.items, inputs.count * sizeof *inputs.items);
    return true;
}

void sl_graph_append_list(sl_graph *graph, sl_op op, sl_values inputs, const void *attrs,
                          sl_value_slots outputs) {
    sl_node node = {
        .op = op, .symbols = graph->attr_symbols, .symbol_count = graph->attr_symbol_count};
    graph->attr_symbol_count = 0;
    const bool started =
        graph->error.status == SL_OK && start_node(graph, &node, inputs, attrs, outputs.count);
    graph->next_name = graph->kept_label = NULL;
    if (outputs.count) /* may be the inputs' own memory */
        memset(outputs.items, 0, outputs.count * sizeof *outputs.items);
    if (!started) return;
    sl_arena scratch;
    sl_arena_init(&scratch, graph->arena.allocator);
    const sl_type *types = infer_node(graph, &node, &scratch);
    const bool added = types && add_outputs(graph, &node, types);
    sl_arena_deinit(&scratch);
    if (!added) return;
    for (uint32_t i = 0; i < node.input_count; i++) graph->values[node.inputs[i].v].use_count++;
    graph->nodes[graph->node_count++] = node;
    if (graph->added) {
        sl_error err = {0};
        const sl_status status = graph->added(graph->added_ctx, graph->node_count - 1, &err);
        if (status != SL_OK) {
            sl_graph_mistake(graph, status, "%s", err.message);
            return;
        }
    }
    if (outputs.count) memcpy(outputs.items, node.outputs, outputs.count * sizeof *outputs.items);
}

void sl_graph_append(sl_graph *graph, sl_op op, const sl_value *inputs, const void *attrs,
                     sl_value *outputs) {
    const sl_op_info *info = sl_op_info_of(op);
    sl_graph_append_list(graph, op, (sl_values){info->input_count, inputs}, attrs,
                         (sl_value_slots){info->output_count, outputs});
}

void sl_graph_output(sl_graph *graph, const char *name, sl_value value) {
    if (graph->error.status != SL_OK) return;
    if (!sl_graph_value(graph, value)) {
        sl_graph_mistake(graph, SL_INVALID, "output '%s' is not a value of this graph", name);
        return;
    }
    sl_graph_out *outputs = sl_graph_grow(graph, graph->outputs, graph->output_count,
                                          &graph->output_capacity, sizeof *outputs);
    char *copy = copy_name(graph, name);
    if (!outputs || !copy) return;
    graph->outputs = outputs;
    outputs[graph->output_count++] = (sl_graph_out){.value = value, .name = copy};
    graph->values[value.v].use_count++;
}

void sl_graph_observe(sl_graph *graph, const char *name, sl_value value) {
    const uint32_t before = graph->output_count;
    sl_graph_output(graph, name, value);
    if (graph->output_count > before) graph->outputs[before].observed = true;
}

bool sl_node_changes_state(const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t o = 0; o < info->output_count; o++)
        if (info->output_state[o] >= 0) return true;
    return false;
}

void sl_graph_count_uses(sl_graph *graph) {
    for (uint32_t v = 1; v <= graph->value_count; v++) graph->values[v].use_count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_node *node = &graph->nodes[n];
        if (node->op == SL_OP_COUNT) continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            graph->values[node->inputs[i].v].use_count++;
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        graph->values[graph->outputs[o].value.v].use_count++;
}

void sl_graph_drop_node(sl_graph *graph, uint32_t n) {
    sl_node *node = &graph->nodes[n];
    for (uint32_t i = 0; i < node->input_count; i++) graph->values[node->inputs[i].v].use_count--;
    node->op = SL_OP_COUNT;
}

void sl_graph_place_node(sl_graph *graph, uint32_t n, const sl_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) graph->values[node->inputs[i].v].use_count++;
    for (uint32_t o = 0; o < node->output_count; o++) graph->values[node->outputs[o].v].node = n;
    graph->nodes[n] = *node;
}

static void compact_nodes(sl_graph *graph) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op != SL_OP_COUNT) graph->nodes[count++] = graph->nodes[n];
    graph->node_count = count;
}

/* Puts declared values first and results in the order of nodes; ids says where each went. */
static void compact_values(sl_graph *graph, sl_value_info *fresh, uint32_t *ids) {
    uint32_t count = 0;
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        if (graph->values[v].kind == SL_VALUE_RESULT) continue;
        ids[v] = ++count;
        fresh[count] = graph->values[v];
    }
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            const uint32_t v = graph->nodes[n].outputs[o].v;
            ids[v] = ++count;
            fresh[count] = graph->values[v];
            fresh[count].node = n;
        }
    memcpy(graph->values, fresh, ((size_t)count + 1) * sizeof *fresh);
    graph->value_count = count;
}

static void renumber(sl_graph *graph, const uint32_t *ids) {
    for (uint32_t v = 1; v <= graph->value_count; v++)
        graph->values[v].root.v = ids[graph->values[v].root.v];
    for (uint32_t n = 0; n < graph->node_count; n++) {
        sl_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) node->inputs[i].v = ids[node->inputs[i].v];
        for (uint32_t o = 0; o < node->output_count; o++)
            node->outputs[o].v = ids[node->outputs[o].v];
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        graph->outputs[o].value.v = ids[graph->outputs[o].value.v];
}

sl_status sl_graph_compact(sl_graph *graph, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, graph->arena.allocator);
    const size_t count = (size_t)graph->value_count + 1;
    uint32_t *ids = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, count);
    sl_value_info *fresh = SL_ARENA_NEW_ARRAY(&scratch, sl_value_info, count);
    bool fits = ids && fresh;
    if (fits) {
        compact_nodes(graph);
        compact_values(graph, fresh, ids);
        renumber(graph, ids);
        sl_graph_count_uses(graph);
        fits = sl_graph_name_all(graph);
    }
    sl_arena_deinit(&scratch);
    return fits ? SL_OK : sl_no_memory(err, "compacting a graph", count * sizeof *fresh);
}
