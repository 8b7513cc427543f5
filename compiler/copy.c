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
        value->data = copy_bytes(to, value->data, sl_type_bytes(&value->type), &fine);
    }
    return to->values && fine;
}

static bool copy_nodes(const sl_graph *from, sl_graph *to) {
    bool fine = true;
    to->node_count = to->node_capacity = from->node_count;
    to->nodes = SL_ARENA_NEW_ARRAY(&to->arena, sl_node, from->node_count + 1);
    for (uint32_t n = 0; to->nodes && fine && n < from->node_count; n++) {
        sl_node *node = &to->nodes[n];
        *node = from->nodes[n];
        node->label = copy_text(to, node->label, &fine);
        node->attrs = copy_bytes(to, node->attrs, sl_op_info_of(node->op)->attrs_bytes, &fine);
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
    copy->error = graph->error;
    if (!fine || !copy_values(graph, copy) || !copy_nodes(graph, copy) ||
        !copy_outputs(graph, copy)) {
        sl_graph_destroy(copy);
        return sl_no_memory(err, "a copy of a graph", graph->node_count);
    }
    *out = copy;
    return SL_OK;
}
