/* copy.c - An equal graph in memory of its own. */
#include "compiler/graph.h"
#include <string.h>

/* A copy of `bytes` bytes; of a NULL, NULL.  Clears *fine when out of memory. */
static void *copy_bytes(sl_graph *to, const void *from, size_t bytes, bool *fine) {
    if (!from) return NULL;
    void *copy = sl_arena_alloc(&to->arena, bytes, 64);
    if (copy)
        memcpy(copy, from, bytes);
    else
        *fine = false;
    return copy;
}

static const char *copy_text(sl_graph *to, const char *text, bool *fine) {
    const char *copy = text ? sl_arena_copy_text(&to->arena, text, strlen(text)) : NULL;
    if (text && !copy) *fine = false;
    return copy;
}

static bool copy_values(const sl_graph *from, sl_graph *to) {
    bool fine = true;
    to->value_count = from->value_count;
    to->value_capacity = from->value_count + 1;
    to->values = SL_ARENA_NEW_ARRAY(&to->arena, sl_value_info, to->value_capacity);
    for (uint32_t v = 1; to->values && fine && v <= from->value_count; v++) {
        sl_value_info *value = &to->values[v];
        *value = from->values[v];
        value->name = copy_text(to, value->name, &fine);
        value->symbols = copy_bytes(to, value->symbols, SL_MAX_RANK * sizeof(uint32_t), &fine);
        if (!value->borrowed)
            value->data = copy_bytes(to, value->data, sl_type_bytes(&value->type), &fine);
    }
    return to->values && fine;
}

/* What attributes point at goes with them. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    sl_arena *arena;
    sl_graph *owner;
    bool fine;
} attr_copier;

static const void *copied(attr_copier *c, const void *from, size_t bytes) {
    if (!bytes) return NULL;
    void *copy = sl_arena_alloc(c->arena, bytes, _Alignof(max_align_t));
    if (copy) memcpy(copy, from, bytes);
    c->fine &= copy != NULL;
    return copy;
}

/* What the graph has already need not be copied. */
static const sl_graph *copied_body(attr_copier *c, const sl_graph *body) {
    sl_graph *copy = NULL;
    if (body->owner == c->owner) return body;
    if (sl_graph_copy(body, c->owner->arena.allocator, &copy, NULL) != SL_OK) {
        c->fine = false;
        return NULL;
    }
    sl_graph_own(c->owner, copy);
    return copy;
}

static void copy_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attr_copier *c = (attr_copier *)visitor;
    (void)name;
    sl_attr *attr = value;
    if (kind == SL_ATTR_list) {
        attr->list.items = copied(c, attr->list.items, attr->list.count * sizeof(int64_t));
    } else if (kind == SL_ATTR_reals) {
        attr->reals.items = copied(c, attr->reals.items, attr->reals.count * sizeof(double));
    } else if (kind == SL_ATTR_text) {
        const char *text = attr->text ? attr->text : "";
        attr->text = copied(c, text, strlen(text) + 1);
    } else if (kind == SL_ATTR_graph && attr->graph) {
        attr->graph = c->owner ? copied_body(c, attr->graph) : NULL;
    }
}

void *sl_attrs_copy(sl_arena *arena, sl_graph *owner, sl_op op, const void *attrs) {
    const sl_op_info *info = sl_op_info_of(op);
    attr_copier copier = {.visitor = {copy_attr}, .arena = arena, .owner = owner, .fine = true};
    void *copy = sl_arena_alloc(arena, info->attrs_bytes, _Alignof(max_align_t));
    if (!copy) return NULL;
    memcpy(copy, attrs, info->attrs_bytes);
    info->visit_attrs(&copier.visitor, copy);
    return copier.fine ? copy : NULL;
}

static const sl_attr_symbol *copy_refs(sl_graph *to, const sl_node *node, bool *fine) {
    if (!node->symbol_count) return NULL;
    sl_attr_symbol *copy = copy_bytes(to, node->symbols, node->symbol_count * sizeof *copy, fine);
    for (uint32_t i = 0; copy && i < node->symbol_count; i++)
        copy[i].attr = copy_text(to, copy[i].attr, fine);
    return copy;
}

static bool copy_symbols(const sl_graph *from, sl_graph *to) {
    bool fine = true;
    to->symbol_count = to->symbol_capacity = from->symbol_count;
    if (!from->symbol_count) return true;
    to->symbols = copy_bytes(to, from->symbols, from->symbol_count * sizeof *to->symbols, &fine);
    for (uint32_t i = 0; fine && i < to->symbol_count; i++)
        to->symbols[i].name = copy_text(to, to->symbols[i].name, &fine);
    return fine;
}

static bool copy_nodes(const sl_graph *from, sl_graph *to) {
    bool fine = true;
    to->node_count = to->node_capacity = from->node_count;
    to->nodes = SL_ARENA_NEW_ARRAY(&to->arena, sl_node, from->node_count + 1);
    for (uint32_t n = 0; to->nodes && fine && n < from->node_count; n++) {
        sl_node *node = &to->nodes[n];
        *node = from->nodes[n];
        node->label = copy_text(to, node->label, &fine);
        node->symbols = copy_refs(to, node, &fine);
        node->attrs = sl_attrs_copy(&to->arena, to, node->op, node->attrs);
        fine &= node->attrs &&
                sl_node_make_room(&to->arena, node, node->input_count, node->output_count);
        if (!fine) break;
        memcpy(node->inputs, from->nodes[n].inputs, node->input_count * sizeof(sl_value));
        memcpy(node->outputs, from->nodes[n].outputs, node->output_count * sizeof(sl_value));
    }
    return to->nodes && fine;
}

static bool copy_outputs(const sl_graph *from, sl_graph *to) {
    bool fine = true;
    to->output_count = to->output_capacity = from->output_count;
    to->outputs = SL_ARENA_NEW_ARRAY(&to->arena, sl_graph_out, from->output_count + 1);
    for (uint32_t o = 0; to->outputs && fine && o < from->output_count; o++) {
        to->outputs[o] = from->outputs[o];
        to->outputs[o].name = copy_text(to, to->outputs[o].name, &fine);
    }
    return to->outputs && fine;
}

sl_status sl_graph_copy(const sl_graph *graph, const sl_allocator *allocator, sl_graph **out,
                        sl_error *err) {
    sl_graph *copy = NULL;
    bool fine = true;
    SL_TRY(sl_graph_create(graph->name, allocator, &copy, err));
    copy->scope = copy_text(copy, graph->scope, &fine);
    if (graph->next_name) copy->next_name = copy_text(copy, graph->next_name, &fine);
    copy->error = graph->error;
    copy->customs = graph->customs;
    if (!fine || !copy_symbols(graph, copy) || !copy_values(graph, copy) ||
        !sl_graph_name_all(copy) || !copy_nodes(graph, copy) || !copy_outputs(graph, copy)) {
        sl_graph_destroy(copy);
        return sl_no_memory(err, "a copy of a graph", graph->node_count);
    }
    *out = copy;
    return SL_OK;
}
