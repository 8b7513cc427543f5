/* graph_items.c - The op table, and what is in a graph (sluice/graph.h). */
#include "api/needs.h"
#include "api/options.h"
#include "compiler/graph.h"
#include "sluice/graph.h"
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
    const sl_value_info *info = sl_graph_value(graph, value);
    if (!info)
        return sl_fail(err, SL_INVALID, "value %u is not a value of graph '%s'", value.v,
                       graph->name);
    const sl_dims *shape = &info->type.shape;
    *out = (sl_tensor_type){.dtype = sl_dtype_infos[info->type.dtype].name, .rank = shape->rank};
    memcpy(out->dims, shape->dims, shape->rank * sizeof out->dims[0]);
    return SL_OK;
}

int sl_graph_node_at(const sl_graph *graph, uint32_t index, sl_node_info *out) {
    SL_NEED_OR(0, graph && out);
    if (index >= graph->node_count) return 0;
    const sl_node *node = &graph->nodes[index];
    const sl_node_info known = {.struct_size = out->struct_size,
                                .op = sl_op_info_of(node->op)->name,
                                .label = node->label,
                                .inputs = node->inputs,
                                .outputs = node->outputs,
                                .input_count = node->input_count,
                                .output_count = node->output_count};
    memcpy(out, &known, out->struct_size < sizeof known ? out->struct_size : sizeof known);
    return 1;
}

sl_status sl_graph_node_attrs(const sl_graph *graph, uint32_t index, char **out_text,
                              sl_error *err) {
    SL_NEED(graph && out_text);
    if (index >= graph->node_count)
        return sl_fail(err, SL_INVALID, "graph '%s' has %u nodes, asked for node %u", graph->name,
                       graph->node_count, index);
    return print(graph, &graph->nodes[index], out_text, err);
}

uint32_t sl_op_rows(const sl_op_row **out_rows) {
    SL_NEED_OR(0, out_rows);
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
    {#NAME, SUMMARY, "" INPUTS, "" OUTPUTS, "" ATTRS},
#include "core/ops.def"
    };
    *out_rows = rows;
    return SL_OP_COUNT;
}

static void fill_item(const sl_value_info *value, const char *name, const char *kind,
                      sl_graph_item *out) {
    *out = (sl_graph_item){.name = name,
                           .dtype = sl_dtype_infos[value->type.dtype].name,
                           .kind = kind,
                           .rank = value->type.shape.rank};
    memcpy(out->dims, value->type.shape.dims, out->rank * sizeof out->dims[0]);
}

int sl_graph_item_at(const sl_graph *graph, uint32_t index, sl_graph_item *out) {
    SL_NEED_OR(0, graph && out);
    static const char *const kinds[] = {"input", "weight", "constant", "state", "experts"};
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        if (value->kind == SL_VALUE_RESULT || index-- > 0) continue;
        fill_item(value, value->name, kinds[value->kind], out);
        return 1;
    }
    if (index >= graph->output_count) return 0;
    const sl_graph_out *output = &graph->outputs[index];
    fill_item(&graph->values[output->value.v], output->name, "output", out);
    return 1;
}
