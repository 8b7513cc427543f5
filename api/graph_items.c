/* graph_items.c - The op table, and what is in a graph (sluice/experimental.h, sluice/graph.h). */
#include "api/needs.h"
#include "api/values.h"
#include "base/structs.h"
#include "compiler/graph.h"
#include "sluice/experimental.h"
#include <stdlib.h>
#include <string.h>

/* The attributes of a node of a graph, or the whole graph, as text of its own. */
static sl_status print(const sl_graph *graph, const sl_node *node, char **out_text, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    char *text = NULL;
    sl_status status = node ? sl_attrs_print(node->op, node->attrs, &arena, &text, err)
                            : sl_graph_print(graph, &arena, &text, err);
    if (status == SL_OK) {
        const size_t bytes = strlen(text) + 1;
        *out_text = malloc(bytes);
        if (*out_text)
            memcpy(*out_text, text, bytes);
        else
            status = sl_no_memory(err, "the text of a graph", bytes);
    }
    sl_arena_deinit(&arena);
    return status;
}

sl_status sl_graph_text(const sl_graph *graph, char **out_text, sl_error *err) {
    SL_NEED(graph && out_text);
    return print(graph, NULL, out_text, err);
}

const char *sl_dtype_name_at(uint32_t index) {
    return index < SL_DTYPE_COUNT ? sl_dtype_infos[index].name : NULL;
}

sl_status sl_value_type(const sl_graph *graph, sl_value value, sl_tensor_type *out, sl_error *err) {
    SL_NEED(graph && out);
    sl_value own;
    const sl_value_info *info =
        sl_value_open(graph, value, &own) ? sl_graph_value(graph, own) : NULL;
    if (!info)
        return sl_fail(err, SL_INVALID, "%s a value of graph '%s'",
                       value.v ? "the value is not" : "0 is not", graph->name);
    const sl_dims *shape = &info->type.shape;
    *out = (sl_tensor_type){.dtype = sl_dtype_infos[info->type.dtype].name, .rank = shape->rank};
    memcpy(out->dims, shape->dims, shape->rank * sizeof out->dims[0]);
    return SL_OK;
}

uint32_t sl_graph_node_count(const sl_graph *graph) {
    SL_NEED_OR(0, graph);
    return graph->node_count;
}

static sl_status find_node(const sl_graph *graph, uint32_t index, sl_error *err) {
    if (index < graph->node_count) return SL_OK;
    return sl_fail(err, SL_INVALID, "graph '%s' has %u nodes, asked for node %u", graph->name,
                   graph->node_count, index);
}

sl_status sl_graph_node_at(const sl_graph *graph, uint32_t index, sl_node_info *out,
                           sl_error *err) {
    SL_NEED(graph && out);
    SL_TRY(SL_STRUCT_CHECK(sl_node_info, out, err));
    SL_TRY(find_node(graph, index, err));
    const sl_node *node = &graph->nodes[index];
    const sl_node_info info = {.op = sl_op_info_of(node->op)->name,
                               .label = node->label,
                               .input_count = node->input_count,
                               .output_count = node->output_count};
    SL_STRUCT_GIVE(sl_node_info, out, &info);
    return SL_OK;
}

sl_value sl_graph_node_input(const sl_graph *graph, uint32_t node, uint32_t input) {
    SL_NEED_OR((sl_value){0},
               graph && node < graph->node_count && input < graph->nodes[node].input_count);
    return sl_value_seal(graph, graph->nodes[node].inputs[input]);
}

sl_value sl_graph_node_output(const sl_graph *graph, uint32_t node, uint32_t output) {
    SL_NEED_OR((sl_value){0},
               graph && node < graph->node_count && output < graph->nodes[node].output_count);
    return sl_value_seal(graph, graph->nodes[node].outputs[output]);
}

sl_status sl_graph_node_attrs(const sl_graph *graph, uint32_t index, char **out_text,
                              sl_error *err) {
    SL_NEED(graph && out_text);
    SL_TRY(find_node(graph, index, err));
    return print(graph, &graph->nodes[index], out_text, err);
}

uint32_t sl_op_count(void) {
    return SL_OP_COUNT;
}

sl_status sl_op_at(uint32_t index, sl_op_row *out, sl_error *err) {
    SL_NEED(out);
    SL_TRY(SL_STRUCT_CHECK(sl_op_row, out, err));
    if (index >= SL_OP_COUNT)
        return sl_fail(err, SL_INVALID, "there are %d ops, asked for op %u", SL_OP_COUNT, index);
    static const sl_op_row rows[SL_OP_COUNT] = {
#define IN(NAME)                    #NAME " "
#define STATE(NAME)                 #NAME "(state) "
#define EXPERTS(NAME)               #NAME "(experts) "
#define LIST(NAME)                  #NAME ".. "
#define OUT(NAME)                   #NAME " "
#define NEXT(NAME)                  #NAME "(state) "
#define OUTS(NAME)                  #NAME ".. "
#define ATTR(TYPE, NAME)            #NAME ":" #TYPE " "
#define OPTION(TYPE, NAME, INITIAL) #NAME ":" #TYPE "=" #INITIAL " "
#define FLAG(NAME, INITIAL)         #NAME ":bool=" #INITIAL " "
#define ENUM(NAME, INITIAL, WORDS)  #NAME ":enum(" #WORDS ")=" #INITIAL " "
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, TRAITS, SUMMARY)                                          \
    {sizeof(sl_op_row), #NAME, SUMMARY, "" INPUTS, "" OUTPUTS, "" ATTRS},
#include "core/ops.def"
    };
    SL_STRUCT_GIVE(sl_op_row, out, &rows[index]);
    return SL_OK;
}

/* The declared value of this index, which is counted down by those before it. */
static const sl_value_info *find_declared(const sl_graph *graph, uint32_t *index) {
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind != SL_VALUE_RESULT && (*index)-- == 0) return &graph->values[v];
    return NULL;
}

uint32_t sl_graph_item_count(const sl_graph *graph) {
    SL_NEED_OR(0, graph);
    uint32_t count = graph->output_count;
    for (uint32_t v = 1; v <= graph->value_count; v++)
        count += graph->values[v].kind != SL_VALUE_RESULT;
    return count;
}

sl_status sl_graph_item_at(const sl_graph *graph, uint32_t index, sl_graph_item *out,
                           sl_error *err) {
    static const char *const kinds[] = {"input", "weight", "constant", "state", "experts"};
    SL_NEED(graph && out);
    SL_TRY(SL_STRUCT_CHECK(sl_graph_item, out, err));
    uint32_t left = index;
    const sl_value_info *value = find_declared(graph, &left);
    if (!value && left >= graph->output_count)
        return sl_fail(err, SL_INVALID, "graph '%s' has %u items, asked for item %u", graph->name,
                       sl_graph_item_count(graph), index);
    const sl_graph_out *output = value ? NULL : &graph->outputs[left];
    if (output) value = &graph->values[output->value.v];
    sl_graph_item item = {.name = output ? output->name : value->name,
                          .dtype = sl_dtype_infos[value->type.dtype].name,
                          .kind = output ? "output" : kinds[sl_value_declared_kind(value)],
                          .rank = value->type.shape.rank};
    memcpy(item.dims, value->type.shape.dims, item.rank * sizeof item.dims[0]);
    SL_STRUCT_GIVE(sl_graph_item, out, &item);
    return SL_OK;
}
