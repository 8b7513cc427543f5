/* graph.c - Building, reading and printing graphs (sluice/graph.h). */
#include "api/needs.h"
#include "api/values.h"
#include "base/structs.h"
#include "compiler/binary.h"
#include "sluice/experimental.h"
#include <stdlib.h>
#include <string.h>

sl_status sl_graph_read(const char *text, size_t bytes, sl_graph **out, sl_error *err) {
    SL_NEED(text && out);
    return sl_graph_parse(text, bytes, NULL, out, err);
}

sl_status sl_graph_read_using(const char *text, size_t bytes, const sl_custom_ops *ops,
                              sl_graph **out, sl_error *err) {
    SL_NEED(text && out);
    return sl_graph_parse_using(text, bytes, ops, NULL, out, err);
}

void sl_graph_use_custom_ops(sl_graph *graph, const sl_custom_ops *ops) {
    if (!graph) return;
    graph->customs = ops;
}

int64_t sl_graph_add_symbol(sl_graph *graph, const char *name, int64_t size) {
    SL_NEED_OR(0, graph);
    return sl_graph_symbol(graph, name, size);
}

sl_status sl_graph_with_sizes(const sl_graph *graph, const sl_symbol_size *sizes, uint32_t count,
                              sl_graph **out, sl_error *err) {
    SL_NEED(graph && (sizes || !count) && out);
    return sl_graph_bind(graph, sizes, count, NULL, out, err);
}

typedef struct {
    unsigned char *bytes;
    size_t count, capacity;
} growing;

static sl_status grow(void *ctx, const void *bytes, size_t count, sl_error *err) {
    growing *g = ctx;
    if (g->count + count > g->capacity) {
        const size_t capacity = (g->count + count) * 2;
        void *larger = realloc(g->bytes, capacity);
        if (!larger) return sl_no_memory(err, "the binary form of a graph", capacity);
        g->bytes = larger;
        g->capacity = capacity;
    }
    memcpy(g->bytes + g->count, bytes, count);
    g->count += count;
    return SL_OK;
}

sl_status sl_graph_to_bytes(const sl_graph *graph, void **out, size_t *out_bytes, sl_error *err) {
    SL_NEED(graph && out && out_bytes);
    growing g = {0};
    const sl_status status = sl_graph_write(graph, &(sl_sink){grow, &g}, err);
    if (status != SL_OK) {
        free(g.bytes);
        return status;
    }
    *out = g.bytes;
    *out_bytes = g.count;
    return SL_OK;
}

sl_status sl_graph_from_bytes(const void *bytes, size_t count, sl_graph **out, sl_error *err) {
    return sl_graph_from_bytes_using(bytes, count, NULL, out, err);
}

sl_status sl_graph_from_bytes_using(const void *bytes, size_t count, const sl_custom_ops *ops,
                                    sl_graph **out, sl_error *err) {
    SL_NEED(bytes && out);
    const sl_load_options options = {.customs = ops};
    return sl_graph_load_bytes(bytes, count, &options, out, err);
}

static sl_status hash(void *ctx, const void *bytes, size_t count, sl_error *err) {
    uint64_t *state = ctx, value = *state;
    const unsigned char *at = bytes;
    (void)err;
    for (size_t i = 0; i < count; i++) value = (value ^ at[i]) * 0x100000001b3u;
    *state = value;
    return SL_OK;
}

sl_status sl_graph_fingerprint(const sl_graph *graph, uint64_t *out, sl_error *err) {
    SL_NEED(graph && out);
    const sl_sink sink = {hash, out};
    *out = 0xcbf29ce484222325u;
    return sl_graph_write(graph, &sink, err);
}

/* False after recording what is wrong with the type. */
static bool make_type(sl_graph *graph, const char *name, const char *dtype, const sl_dims *shape,
                      sl_type *out) {
    out->shape = *shape;
    if (sl_dtype_find(dtype, strlen(dtype), &out->dtype)) return true;
    sl_graph_mistake(graph, SL_INVALID, "%s: unknown element type '%s'", name, dtype);
    return false;
}

static sl_dims make_dims(uint32_t rank, const int64_t *dims) {
    sl_dims shape = {.rank = rank};
    if (rank && rank <= SL_MAX_RANK) memcpy(shape.dims, dims, rank * sizeof *dims);
    return shape;
}

/* A value that was added, as its caller sees it. */
static sl_value hand_out(sl_graph *graph, sl_value value) {
    if (value.v <= SL_VALUE_MOST) return sl_value_seal(graph, value);
    sl_graph_mistake(graph, SL_UNSUPPORTED, "graph '%s' has %u values, must be at most %d",
                     graph->name, value.v, SL_VALUE_MOST);
    return (sl_value){0};
}

static sl_value declare(sl_graph *graph, sl_value_kind kind, const char *name, const char *dtype,
                        sl_dims shape) {
    sl_type type;
    if (!make_type(graph, name, dtype, &shape, &type)) return (sl_value){0};
    return hand_out(graph, sl_graph_declare(graph, kind, name, type));
}

sl_value sl_graph_add_input(sl_graph *graph, const char *name, const char *dtype, uint32_t rank,
                            const int64_t *dims) {
    SL_NEED_IN(graph, (sl_value){0}, name && dtype && (dims || !rank));
    return declare(graph, SL_VALUE_INPUT, name, dtype, make_dims(rank, dims));
}

sl_value sl_graph_add_weight(sl_graph *graph, const char *name, const char *dtype, uint32_t rank,
                             const int64_t *dims) {
    SL_NEED_IN(graph, (sl_value){0}, name && dtype && (dims || !rank));
    return declare(graph, SL_VALUE_WEIGHT, name, dtype, make_dims(rank, dims));
}

sl_value sl_graph_add_state(sl_graph *graph, const char *name, const char *dtype, uint32_t rank,
                            const int64_t *dims) {
    SL_NEED_IN(graph, (sl_value){0}, name && dtype && (dims || !rank));
    return declare(graph, SL_VALUE_STATE, name, dtype, make_dims(rank, dims));
}

sl_value sl_graph_add_constant(sl_graph *graph, const char *name, const char *dtype, uint32_t rank,
                               const int64_t *dims, const void *data) {
    SL_NEED_IN(graph, (sl_value){0}, name && dtype && (dims || !rank) && data);
    const sl_dims shape = make_dims(rank, dims);
    sl_type type;
    if (!make_type(graph, name, dtype, &shape, &type)) return (sl_value){0};
    return hand_out(graph, sl_graph_constant(graph, name, type, data));
}

void sl_graph_set_scope(sl_graph *graph, const char *scope) {
    SL_NEED_IN(graph, , scope);
    sl_graph_scope(graph, "%s", scope);
}

void sl_graph_set_label(sl_graph *graph, const char *name) {
    SL_NEED_IN(graph, , name);
    const char *copy = sl_arena_copy_text(&graph->arena, name, strlen(name));
    if (!copy) sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for the label '%s'", name);
    sl_graph_label(graph, copy);
}

typedef struct {
    sl_attr_visitor visitor; /* first */
    const sl_node_spec *spec;
    uint32_t used;
} body_setter;

static void set_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    body_setter *setter = (body_setter *)visitor;
    sl_attr *attr = value;
    for (uint32_t b = 0; kind == SL_ATTR_graph && b < setter->spec->body_count; b++) {
        if (strcmp(setter->spec->bodies[b].name, name) != 0) continue;
        attr->graph = setter->spec->bodies[b].graph;
        setter->used++;
    }
}

/* The number of results of a node, which follows from its attributes and inputs; `room` where the
 * caller decides. */
static uint32_t count_results(sl_op op, const void *attrs, uint32_t inputs, uint32_t room) {
    const sl_graph *body = op == SL_OP_if          ? ((const sl_if_attrs *)attrs)->then
                           : op == SL_OP_scan      ? ((const sl_scan_attrs *)attrs)->body
                           : op == SL_OP_custom_fn ? ((const sl_custom_fn_attrs *)attrs)->body
                                                   : NULL;
    if (op == SL_OP_split) return ((const sl_split_attrs *)attrs)->sizes.count;
    if (op == SL_OP_while) return inputs;
    if (body) return body->output_count;
    return sl_op_info_of(op)->outs_name ? room : sl_op_info_of(op)->output_count;
}

/* The attributes of a node, with its bodies; false after recording what is wrong. */
static bool make_attrs(sl_graph *graph, sl_op op, const sl_node_spec *spec, void *attrs) {
    sl_error err = {0};
    body_setter setter = {.visitor = {set_body}, .spec = spec};
    const size_t bytes = spec->attrs ? strlen(spec->attrs) : 0;
    const sl_status status = sl_attrs_parse(op, spec->attrs, bytes, graph, attrs, &err);
    if (status != SL_OK) {
        sl_graph_mistake(graph, status == SL_NO_MEMORY ? status : SL_INVALID,
                         "attributes of %s: %s", sl_graph_next_label(graph, op), err.message);
        return false;
    }
    sl_op_info_of(op)->visit_attrs(&setter.visitor, attrs);
    if (setter.used == spec->body_count) return true;
    sl_graph_mistake(graph, SL_INVALID, "%s takes %u of the %u bodies it is given", spec->op,
                     setter.used, spec->body_count);
    return false;
}

/* The inputs as the graph numbers them; NULL after recording which one is of another graph.  One
 * that the op does not have is not looked at: there are too many. */
static sl_value *open_inputs(sl_graph *graph, sl_op op, const sl_node_spec *spec) {
    sl_value *inputs = malloc(((size_t)spec->input_count + 1) * sizeof *inputs);
    if (!inputs) sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for the inputs of a node");
    for (uint32_t i = 0; inputs && i < spec->input_count; i++) {
        const char *name = sl_input_name(sl_op_info_of(op), i);
        if (sl_value_open(graph, spec->inputs[i], &inputs[i]) || !name) continue;
        sl_graph_mistake(graph, SL_INVALID, "%s: input '%s' is a value of another graph",
                         sl_graph_next_label(graph, op), name);
        free(inputs);
        return NULL;
    }
    return inputs;
}

/* Appends the node; returns how many results were written to outputs. */
static uint32_t add_node(sl_graph *graph, const sl_node_spec *spec) {
    const sl_op op = sl_op_find(spec->op, strlen(spec->op));
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    if (graph->error.status != SL_OK) return 0;
    if (op == SL_OP_COUNT) {
        sl_graph_mistake(graph, SL_INVALID, "unknown op '%s'", spec->op);
        return 0;
    }
    if (!make_attrs(graph, op, spec, attrs)) return 0;
    const uint32_t count = count_results(op, attrs, spec->input_count, spec->output_count);
    if (count > spec->output_count) {
        sl_graph_mistake(graph, SL_INVALID, "%s has %u results, room for %u",
                         sl_graph_next_label(graph, op), count, spec->output_count);
        return 0;
    }
    sl_value *inputs = open_inputs(graph, op, spec);
    if (!inputs) return 0;
    sl_graph_append_list(graph, op, (sl_values){spec->input_count, inputs}, attrs,
                         (sl_value_slots){count, spec->outputs});
    free(inputs);
    for (uint32_t o = 0; o < count && graph->error.status == SL_OK; o++)
        spec->outputs[o] = hand_out(graph, spec->outputs[o]);
    return graph->error.status == SL_OK ? count : 0;
}

uint32_t sl_graph_add_node(sl_graph *graph, const sl_node_spec *given) {
    SL_NEED_OR(0, graph);
    SL_NEED_IN(graph, 0, given);
    sl_node_spec spec = {0};
    sl_error err;
    if (SL_STRUCT_TAKE(sl_node_spec, &spec, given, &err) != SL_OK) {
        sl_graph_mistake(graph, err.status, "sl_graph_add_node: %s", err.message);
        return 0;
    }
    if (!spec.op || (!spec.inputs && spec.input_count) || (!spec.outputs && spec.output_count) ||
        (!spec.bodies && spec.body_count)) {
        sl_graph_mistake(graph, SL_INVALID, "a node: a required pointer is NULL");
        return 0;
    }
    const uint32_t count = add_node(graph, &spec);
    if (spec.output_count > count)
        memset(spec.outputs + count, 0, (spec.output_count - count) * sizeof *spec.outputs);
    return count;
}

sl_value sl_graph_apply(sl_graph *graph, const char *op, const sl_value *inputs, uint32_t count,
                        const char *attrs) {
    SL_NEED_IN(graph, (sl_value){0}, op && (inputs || !count));
    sl_value result = {0};
    const sl_node_spec spec = {.struct_size = sizeof spec,
                               .op = op,
                               .attrs = attrs,
                               .inputs = inputs,
                               .input_count = count,
                               .outputs = &result,
                               .output_count = 1};
    (void)sl_graph_add_node(graph, &spec);
    return result;
}

void sl_graph_add_output(sl_graph *graph, const char *name, sl_value value) {
    SL_NEED_IN(graph, , name);
    sl_value own;
    if (sl_value_open(graph, value, &own))
        sl_graph_output(graph, name, own);
    else
        sl_graph_mistake(graph, SL_INVALID, "output '%s' is a value of another graph", name);
}
