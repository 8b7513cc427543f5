/* binary_read.c - Bytes to graphs.  Total: any bytes give a graph or an error with its position. */
#include "base/sizes.h"
#include "compiler/binary.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const unsigned char *begin, *at, *end; /* of the structure */
    const unsigned char *data;
    uint64_t data_bytes;
    const sl_load_options *options;
    sl_arena *scratch;
    uint32_t depth;
    uint64_t version;
    sl_error *err;
} reader;

/* What is wrong, and where. */
__attribute__((format(printf, 2, 3))) static void explain(const reader *r, const char *format,
                                                          ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)!sl_fail(r->err, SL_FORMAT, "byte %llu: %s",
                   (unsigned long long)(r->at - r->begin + SL_BINARY_HEADER_BYTES), message);
}
#define FAIL(r, ...) (explain((r), __VA_ARGS__), SL_FORMAT)

static sl_status check_mistake(const reader *r, const sl_graph *graph) {
    if (graph->error.status == SL_OK) return SL_OK;
    explain(r, "%s", graph->error.message);
    if (r->err) r->err->status = graph->error.status;
    return graph->error.status;
}

static sl_status read_number(reader *r, size_t bytes, uint64_t *out) {
    if ((size_t)(r->end - r->at) < bytes) return FAIL(r, "a number is truncated");
    *out = 0;
    for (size_t i = 0; i < bytes; i++) *out |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return SL_OK;
}
static sl_status read_u8(reader *r, uint32_t *out) {
    uint64_t wide;
    SL_TRY(read_number(r, 1, &wide));
    *out = (uint32_t)wide;
    return SL_OK;
}
static sl_status read_u32(reader *r, uint32_t *out) {
    uint64_t wide;
    SL_TRY(read_number(r, 4, &wide));
    *out = (uint32_t)wide;
    return SL_OK;
}
static sl_status read_i64(reader *r, int64_t *out) {
    uint64_t wide;
    SL_TRY(read_number(r, 8, &wide));
    memcpy(out, &wide, sizeof wide);
    return SL_OK;
}

/* How many things of at least so many bytes follow. */
static sl_status read_count(reader *r, size_t bytes_each, const char *what, uint32_t *out) {
    SL_TRY(read_u32(r, out));
    if (*out <= (size_t)(r->end - r->at) / bytes_each) return SL_OK;
    return FAIL(r, "%u %s do not fit in the remaining bytes", *out, what);
}

static sl_status read_text(reader *r, const char *what, char **out) {
    uint32_t count;
    SL_TRY(read_count(r, 1, "bytes of text", &count));
    if (memchr(r->at, 0, count)) return FAIL(r, "%s has a zero byte", what);
    *out = sl_arena_copy_text(r->scratch, (const char *)r->at, count);
    r->at += count;
    return *out ? SL_OK : sl_no_memory(r->err, what, count);
}

static sl_status read_dtype(reader *r, sl_dtype *out) {
    char *name;
    SL_TRY(read_text(r, "an element type", &name));
    if (sl_dtype_find(name, strlen(name), out)) return SL_OK;
    return FAIL(r, "unknown element type '%s'", name);
}

/* ---- declared values ---- */

static sl_status read_type(reader *r, const sl_graph *graph, sl_type *out) {
    SL_TRY(read_dtype(r, &out->dtype));
    out->shape = (sl_dims){0};
    SL_TRY(read_u8(r, &out->shape.rank));
    if (out->shape.rank > SL_MAX_RANK)
        return FAIL(r, "%u dims, at most %d", out->shape.rank, SL_MAX_RANK);
    for (uint32_t d = 0; d < out->shape.rank; d++) {
        SL_TRY(read_i64(r, &out->shape.dims[d]));
        if (out->shape.dims[d] < -(int64_t)graph->symbol_count)
            return FAIL(r, "dim %u is %lld, and there are %u symbols", d,
                        (long long)out->shape.dims[d], graph->symbol_count);
    }
    return SL_OK;
}

static sl_status find_data(reader *r, const char *name, const sl_type *type, const void **out) {
    static const _Alignas(SL_BINARY_ALIGNMENT) unsigned char nothing[1];
    uint64_t offset, end;
    SL_TRY(sl_type_check_shape(type, name, r->err));
    SL_TRY(read_number(r, 8, &offset));
    const uint64_t bytes = sl_type_bytes(type);
    if (offset % SL_BINARY_ALIGNMENT || !sl_add(offset, bytes, &end) || end > r->data_bytes)
        return FAIL(r,
                    "constant '%s': %llu bytes at offset %llu, but the data has %llu bytes and "
                    "offsets are multiples of %d",
                    name, (unsigned long long)bytes, (unsigned long long)offset,
                    (unsigned long long)r->data_bytes, SL_BINARY_ALIGNMENT);
    *out = bytes ? r->data + offset : nothing;
    for (uint64_t i = 0; type->dtype == SL_DTYPE_bool && i < bytes; i++)
        if (r->data[offset + i] > 1)
            return FAIL(r, "constant '%s': byte %llu is not a bool (0 or 1)", name,
                        (unsigned long long)i);
    return SL_OK;
}

static sl_status read_declared(reader *r, sl_graph *graph, sl_value_kind kind) {
    char *name;
    sl_type type;
    const void *data;
    SL_TRY(read_text(r, "a name", &name));
    SL_TRY(read_type(r, graph, &type));
    if (kind != SL_VALUE_CONSTANT) {
        (void)sl_graph_declare(graph, kind, name, type);
    } else {
        SL_TRY(find_data(r, name, &type, &data));
        if (r->options->in_place)
            (void)sl_graph_constant_in_place(graph, name, type, data);
        else
            (void)sl_graph_constant(graph, name, type, data);
    }
    return check_mistake(r, graph);
}

/* ---- attributes ---- */

typedef struct {
    const char *name;
    sl_attr_kind kind;
    sl_attr_store value;
    bool used;
} attribute;

typedef struct {
    sl_attr_visitor visitor; /* first */
    const reader *r;
    attribute *items;
    uint32_t count;
    sl_status status;
} attributes;

static sl_status read_graph(reader *r, sl_graph **out);

static sl_status read_items64(reader *r, uint32_t *count, const int64_t **out) {
    SL_TRY(read_count(r, 8, "entries of a list", count));
    int64_t *items = SL_ARENA_NEW_ARRAY(r->scratch, int64_t, (size_t)*count + 1);
    if (!items) return sl_no_memory(r->err, "a list", *count);
    for (uint32_t i = 0; i < *count; i++) SL_TRY(read_i64(r, &items[i]));
    *out = items;
    return SL_OK;
}

static sl_status read_body(reader *r, sl_graph *owner, sl_attr_graph *out) {
    sl_graph *body = NULL;
    if (r->depth == SL_BINARY_MAX_DEPTH)
        return FAIL(r, "bodies nested deeper than %d", SL_BINARY_MAX_DEPTH);
    r->depth++;
    SL_TRY(read_graph(r, &body));
    r->depth--;
    sl_graph_own(owner, body);
    *out = body;
    return SL_OK;
}

static sl_status read_list(reader *r, sl_attr_kind kind, sl_attr *out) {
    const int64_t *items = NULL;
    uint32_t count;
    SL_TRY(read_items64(r, &count, &items));
    if (kind == SL_ATTR_list) {
        out->list = (sl_integers){count, items};
    } else if (kind == SL_ATTR_reals) {
        double *reals = SL_ARENA_NEW_ARRAY(r->scratch, double, (size_t)count + 1);
        if (!reals) return sl_no_memory(r->err, "a list", count);
        if (count) memcpy(reals, items, count * sizeof *reals);
        out->reals = (sl_reals){count, reals};
    } else {
        if (count > SL_MAX_RANK) return FAIL(r, "%u entries, at most %d", count, SL_MAX_RANK);
        out->dims = (sl_dims){.rank = count};
        memcpy(out->dims.dims, items, count * sizeof *items);
    }
    return SL_OK;
}

static sl_status read_attr_value(reader *r, sl_graph *owner, attribute *out) {
    uint64_t bits = 0;
    char *text;
    switch (out->kind) {
    case SL_ATTR_f32:
        SL_TRY(read_number(r, 4, &bits));
        memcpy(&out->value.f32, &bits, sizeof out->value.f32);
        return SL_OK;
    case SL_ATTR_f64:
        SL_TRY(read_number(r, 8, &bits));
        memcpy(&out->value.f64, &bits, sizeof bits);
        return SL_OK;
    case SL_ATTR_u32:
        return read_u32(r, &out->value.u32);
    case SL_ATTR_i64:
        return read_i64(r, &out->value.i64);
    case SL_ATTR_dtype:
        return read_dtype(r, &out->value.dtype);
    case SL_ATTR_text:
        SL_TRY(read_text(r, "an attribute", &text));
        out->value.text = text;
        return SL_OK;
    case SL_ATTR_graph:
        return read_body(r, owner, &out->value.graph);
    case SL_ATTR_dims:
    case SL_ATTR_list:
    case SL_ATTR_reals:
        return read_list(r, out->kind, &out->value);
    case SL_ATTR_handler:
        break;
    }
    return FAIL(r, "attribute '%s' has the unknown kind %d", out->name, (int)out->kind);
}

static sl_status read_attrs(reader *r, sl_graph *owner, attributes *out) {
    SL_TRY(read_count(r, 6, "attributes", &out->count));
    out->items = SL_ARENA_NEW_ARRAY(r->scratch, attribute, (size_t)out->count + 1);
    if (!out->items) return sl_no_memory(r->err, "attributes", out->count);
    for (uint32_t i = 0; i < out->count; i++) {
        attribute *item = &out->items[i];
        char *name;
        uint32_t kind;
        SL_TRY(read_text(r, "an attribute's name", &name));
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(out->items[j].name, name) == 0)
                return FAIL(r, "attribute '%s' is given twice", name);
        SL_TRY(read_u8(r, &kind));
        *item = (attribute){.name = name, .kind = (sl_attr_kind)kind};
        SL_TRY(read_attr_value(r, owner, item));
    }
    return SL_OK;
}

/* What is not given is 0, empty or absent. */
static void set_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attributes *list = (attributes *)visitor;
    if (kind == SL_ATTR_text) ((sl_attr *)value)->text = "";
    for (uint32_t i = 0; i < list->count; i++) {
        attribute *item = &list->items[i];
        if (strcmp(item->name, name) != 0) continue;
        item->used = true;
        if (list->r->version == 1 && item->kind == SL_ATTR_u32 && kind == SL_ATTR_i64)
            ((sl_attr *)value)->i64 = item->value.u32; /* axis of slice */
        else if (item->kind == kind)
            memcpy(value, &item->value, sl_attr_bytes(kind));
        else
            list->status = FAIL(list->r, "attribute '%s' is of kind %d, must be %d", name,
                                (int)item->kind, (int)kind);
    }
}

static sl_status read_refs(reader *r, sl_graph *graph) {
    uint32_t count;
    SL_TRY(read_count(r, 12, "symbols of attributes", &count));
    sl_attr_symbol *refs = SL_ARENA_NEW_ARRAY(&graph->arena, sl_attr_symbol, (size_t)count + 1);
    if (!refs) return sl_no_memory(r->err, "symbols", count);
    for (uint32_t i = 0; i < count; i++) {
        char *name;
        SL_TRY(read_text(r, "an attribute's name", &name));
        refs[i].attr = sl_arena_copy_text(&graph->arena, name, strlen(name));
        if (!refs[i].attr) return sl_no_memory(r->err, "a name", strlen(name));
        SL_TRY(read_u32(r, &refs[i].index));
        SL_TRY(read_u32(r, &refs[i].symbol));
        if (refs[i].symbol >= graph->symbol_count)
            return FAIL(r, "symbol %u of attribute '%s': there are %u", refs[i].symbol, name,
                        graph->symbol_count);
    }
    graph->attr_symbols = refs;
    graph->attr_symbol_count = count;
    return SL_OK;
}

/* ---- nodes ---- */

static sl_status read_values(reader *r, uint32_t *count, sl_value **out) {
    SL_TRY(read_count(r, 4, "inputs", count));
    *out = SL_ARENA_NEW_ARRAY(r->scratch, sl_value, (size_t)*count + 1);
    if (!*out) return sl_no_memory(r->err, "a node", *count);
    for (uint32_t i = 0; i < *count; i++) SL_TRY(read_u32(r, &(*out)[i].v));
    return SL_OK;
}

/* In version 1, the axis of these ops counted from the end: 0 was the last one. */
static void upgrade_axis(sl_op op, void *attrs) {
    if (op == SL_OP_softmax || op == SL_OP_log_softmax || op == SL_OP_softmax_backward ||
        op == SL_OP_log_softmax_backward)
        ((sl_softmax_attrs *)attrs)->axis = -1 - ((sl_softmax_attrs *)attrs)->axis;
    if (op == SL_OP_argmax || op == SL_OP_argmin)
        ((sl_argmax_attrs *)attrs)->axis = -1 - ((sl_argmax_attrs *)attrs)->axis;
}

static sl_status append(reader *r, sl_graph *graph, sl_op op, sl_values inputs, uint32_t outputs,
                        const char *label) {
    const sl_op_info *info = sl_op_info_of(op);
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
    attributes list = {.visitor = {set_attr}, .r = r};
    SL_TRY(read_attrs(r, graph, &list));
    SL_TRY(read_refs(r, graph));
    info->visit_attrs(&list.visitor, attrs);
    SL_TRY(list.status);
    if (r->version == 1) upgrade_axis(op, attrs);
    for (uint32_t i = 0; i < list.count; i++)
        if (!list.items[i].used)
            return FAIL(r, "%s has no attribute '%s'", info->name, list.items[i].name);
    sl_value *results = SL_ARENA_NEW_ARRAY(r->scratch, sl_value, (size_t)outputs + 1);
    const char *copy = sl_arena_copy_text(&graph->arena, label, strlen(label));
    if (!results || !copy) return sl_no_memory(r->err, "a node", outputs);
    const uint32_t before = graph->node_count;
    sl_graph_append_list(graph, op, inputs, attrs, (sl_value_slots){outputs, results});
    SL_TRY(check_mistake(r, graph));
    graph->nodes[before].label = copy;
    return SL_OK;
}

static sl_status read_node(reader *r, sl_graph *graph) {
    char *name, *label;
    sl_value *inputs;
    uint32_t input_count, output_count;
    SL_TRY(read_text(r, "an op", &name));
    const sl_op op = sl_op_find(name, strlen(name));
    if (op == SL_OP_COUNT) return FAIL(r, "unknown op '%s'", name);
    SL_TRY(read_text(r, "a label", &label));
    SL_TRY(read_values(r, &input_count, &inputs));
    SL_TRY(read_u32(r, &output_count));
    if (!output_count || output_count > SL_MAX_LIST + SL_MAX_OUTPUTS)
        return FAIL(r, "%s has %u results", name, output_count);
    return append(r, graph, op, (sl_values){input_count, inputs}, output_count, label);
}

/* ---- graphs ---- */

static sl_status read_symbols(reader *r, sl_graph *graph) {
    uint32_t count;
    SL_TRY(read_count(r, 12, "symbols", &count));
    for (uint32_t s = 0; s < count; s++) {
        char *name;
        int64_t size;
        SL_TRY(read_text(r, "a symbol", &name));
        SL_TRY(read_i64(r, &size));
        if (size <= 0 || sl_graph_symbol(graph, name, size) != -1 - (int64_t)s)
            return graph->error.status
                       ? check_mistake(r, graph)
                       : FAIL(r,
                              "symbol '%s' of size %lld is declared twice, or its size is negative",
                              name, (long long)size);
    }
    return SL_OK;
}

static sl_status read_items(reader *r, sl_graph *graph) {
    uint32_t count;
    SL_TRY(read_count(r, 1, "items", &count));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind;
        SL_TRY(read_u8(r, &kind));
        if (kind != SL_BINARY_NODE && kind >= SL_VALUE_RESULT)
            return FAIL(r, "an item has the unknown kind %u", kind);
        SL_TRY(kind == SL_BINARY_NODE ? read_node(r, graph)
                                      : read_declared(r, graph, (sl_value_kind)kind));
    }
    return SL_OK;
}

static sl_status read_outputs(reader *r, sl_graph *graph) {
    uint32_t count;
    SL_TRY(read_count(r, 8, "outputs", &count));
    for (uint32_t o = 0; o < count; o++) {
        char *name;
        sl_value value;
        SL_TRY(read_text(r, "an output", &name));
        SL_TRY(read_u32(r, &value.v));
        sl_graph_output(graph, name, value);
        SL_TRY(check_mistake(r, graph));
    }
    return SL_OK;
}

static sl_status read_graph(reader *r, sl_graph **out) {
    char *name;
    sl_graph *graph = NULL;
    SL_TRY(read_text(r, "a graph's name", &name));
    SL_TRY(sl_graph_create(name, r->options->allocator, &graph, r->err));
    graph->customs = r->options->customs;
    sl_status status = read_symbols(r, graph);
    if (status == SL_OK) status = read_items(r, graph);
    if (status == SL_OK) status = read_outputs(r, graph);
    if (status == SL_OK)
        *out = graph;
    else
        sl_graph_destroy(graph);
    return status;
}

static sl_status read_header(reader *r, const unsigned char *bytes, size_t count) {
    uint64_t total, data;
    if (count < SL_BINARY_HEADER_BYTES || memcmp(bytes, SL_BINARY_MAGIC, 8) != 0)
        return sl_fail(r->err, SL_FORMAT, "these %zu bytes are not a graph in binary form", count);
    r->at = bytes + 8;
    r->end = bytes + SL_BINARY_HEADER_BYTES;
    SL_TRY(read_number(r, 8, &r->version));
    SL_TRY(read_number(r, 8, &total));
    SL_TRY(read_number(r, 8, &data));
    if (!r->version || r->version > SL_BINARY_VERSION)
        return sl_fail(r->err, SL_FORMAT,
                       "a graph in binary form has version %llu, must be 1 to %d",
                       (unsigned long long)r->version, SL_BINARY_VERSION);
    if (total != count)
        return sl_fail(r->err, SL_FORMAT, "a graph in binary form has %llu bytes, found %zu",
                       (unsigned long long)total, count);
    if (data < SL_BINARY_HEADER_BYTES || data > total || data % SL_BINARY_ALIGNMENT)
        return sl_fail(r->err, SL_FORMAT, "a graph of %zu bytes whose data begin at %llu", count,
                       (unsigned long long)data);
    r->begin = r->at = r->end;
    r->end = r->data = bytes + data;
    r->data_bytes = total - data;
    return SL_OK;
}

static sl_status read_all(reader *r, sl_graph **out) {
    sl_graph *graph = NULL;
    SL_TRY(read_graph(r, &graph));
    for (; r->at < r->end; r->at++)
        if (*r->at || r->end - r->at >= SL_BINARY_ALIGNMENT) {
            sl_graph_destroy(graph);
            return FAIL(r, "more bytes than the graph has");
        }
    *out = graph;
    return SL_OK;
}

sl_status sl_graph_load_bytes(const void *bytes, size_t count, const sl_load_options *options,
                              sl_graph **out, sl_error *err) {
    const sl_load_options plain = {0};
    sl_arena scratch;
    reader r = {.options = options ? options : &plain, .scratch = &scratch, .err = err};
    if (r.options->in_place && (uintptr_t)bytes % SL_BINARY_ALIGNMENT)
        return sl_fail(err, SL_INVALID, "a graph that is used in place must be aligned to %d bytes",
                       SL_BINARY_ALIGNMENT);
    sl_arena_init(&scratch, r.options->allocator);
    sl_status status = read_header(&r, bytes, count);
    if (status == SL_OK) status = read_all(&r, out);
    sl_arena_deinit(&scratch);
    return status;
}
