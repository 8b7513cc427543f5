/* graph.c - Building, reading and printing graphs (sluice/graph.h). */
#include "sluice/graph.h"
#include "api/needs.h"
#include "api/options.h"
#include "compiler/binary.h"
#include <string.h>

sl_status sl_graph_new(const char *name, sl_graph **out, sl_error *err) {
    SL_NEED(name && out);
    return sl_graph_create(name, NULL, out, err);
}

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
        void *larger = sl_resize(NULL, g->bytes, g->capacity, capacity, 64);
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
    sl_status status = sl_graph_write(graph, &(sl_sink){grow, &g}, err);
    void *exact = status == SL_OK ? sl_resize(NULL, g.bytes, g.capacity, g.count, 64) : NULL;
    if (status == SL_OK && !exact)
        status = sl_no_memory(err, "the binary form of a graph", g.count);
    if (status != SL_OK) {
        sl_release(NULL, g.bytes, g.capacity, 64);
        return status;
    }
    *out = exact;
    *out_bytes = g.count;
    return SL_OK;
}

void sl_bytes_free(void *bytes, size_t count) {
    sl_release(NULL, bytes, count, 64);
}

sl_status sl_graph_from_bytes(const void *bytes, size_t count, const sl_custom_ops *ops,
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

void sl_graph_free(sl_graph *graph) {
    sl_graph_destroy(graph);
}

sl_status sl_graph_text(const sl_graph *graph, char **out_text, sl_error *err) {
    SL_NEED(graph && out_text);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    char *text = NULL;
    sl_status status = sl_graph_print(graph, &arena, &text, err);
    if (status == SL_OK) {
        const size_t bytes = strlen(text) + 1;
        *out_text = sl_allocate(NULL, bytes, 1);
        if (*out_text)
            memcpy(*out_text, text, bytes);
        else
            status = sl_no_memory(err, "the text of a graph", bytes);
    }
    sl_arena_deinit(&arena);
    return status;
}

void sl_graph_text_free(char *text) {
    if (text) sl_release(NULL, text, strlen(text) + 1, 1);
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

static sl_value declare(sl_graph *graph, sl_value_kind kind, const char *name, const char *dtype,
                        sl_dims shape) {
    sl_type type;
    if (!make_type(graph, name, dtype, &shape, &type)) return (sl_value){0};
    return sl_graph_declare(graph, kind, name, type);
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
    return sl_graph_constant(graph, name, type, data);
}

void sl_graph_set_scope(sl_graph *graph, const char *scope) {
    sl_graph_scope(graph, "%s", scope);
}

void sl_graph_set_label(sl_graph *graph, const char *name) {
    const char *copy = sl_arena_copy_text(&graph->arena, name, strlen(name));
    if (!copy) sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for the label '%s'", name);
    sl_graph_label(graph, copy);
}

sl_value sl_graph_apply(sl_graph *graph, const char *op_name, const sl_value *inputs,
                        uint32_t count, const char *attrs) {
    SL_NEED_IN(graph, (sl_value){0}, op_name && (inputs || !count));
    const sl_op op = sl_op_find(op_name, strlen(op_name));
    sl_value result = {0};
    if (op < SL_OP_COUNT && sl_op_info_of(op)->output_count > 1) {
        sl_graph_mistake(graph, SL_INVALID,
                         "%s has %u results, wanted one at most; use sl_graph_add_node", op_name,
                         sl_op_info_of(op)->output_count);
        return result;
    }
    const sl_node_spec spec = {.struct_size = sizeof spec,
                               .op = op_name,
                               .attrs = attrs,
                               .inputs = inputs,
                               .input_count = count,
                               .outputs = &result,
                               .output_count =
                                   op < SL_OP_COUNT ? sl_op_info_of(op)->output_count : 1};
    sl_graph_add_node(graph, &spec);
    return result;
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

void sl_graph_add_node(sl_graph *graph, const sl_node_spec *given) {
    if (!graph) return;
    sl_node_spec known = {0};
    const sl_node_spec *const spec = &known;
    sl_options_copy(&known, sizeof known, given);
    if (!spec->op || (!spec->inputs && spec->input_count) ||
        (!spec->outputs && spec->output_count) || (!spec->bodies && spec->body_count)) {
        sl_graph_mistake(graph, SL_INVALID, "a node: a required pointer is NULL");
        return;
    }
    const sl_op op = sl_op_find(spec->op, strlen(spec->op));
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    sl_error err = {0};
    body_setter setter = {.visitor = {set_body}, .spec = spec};
    if (op == SL_OP_COUNT) {
        sl_graph_mistake(graph, SL_INVALID, "unknown op '%s'", spec->op);
    } else if (sl_attrs_parse(op, spec->attrs, spec->attrs ? strlen(spec->attrs) : 0, graph, attrs,
                              &err) != SL_OK) {
        sl_graph_mistake(graph, err.status, "attributes of %s: %s", spec->op, err.message);
    } else {
        sl_op_info_of(op)->visit_attrs(&setter.visitor, attrs);
        if (setter.used != spec->body_count)
            sl_graph_mistake(graph, SL_INVALID, "%s takes %u of the %u bodies it is given",
                             spec->op, setter.used, spec->body_count);
        sl_graph_append_list(graph, op, (sl_values){spec->input_count, spec->inputs}, attrs,
                             (sl_value_slots){spec->output_count, spec->outputs});
        return;
    }
    if (spec->output_count) memset(spec->outputs, 0, spec->output_count * sizeof *spec->outputs);
}

void sl_graph_add_output(sl_graph *graph, const char *name, sl_value value) {
    SL_NEED_IN(graph, , name);
    sl_graph_output(graph, name, value);
}

uint32_t sl_op_rows(const sl_op_row **out_rows) {
    SL_NEED_OR(0, out_rows);
    static const sl_op_row rows[SL_OP_COUNT] = {
#define IN(NAME)         #NAME " "
#define STATE(NAME)      #NAME "(state) "
#define EXPERTS(NAME)    #NAME "(experts) "
#define LIST(NAME)       #NAME ".. "
#define OUT(NAME)        #NAME " "
#define NEXT(NAME)       #NAME "(state) "
#define OUTS(NAME)       #NAME ".. "
#define ATTR(TYPE, NAME) #NAME ":" #TYPE " "
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
