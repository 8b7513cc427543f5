/* model.c - Reads the messages of ONNX files (onnx.proto). */
#include "frontend/onnx/model.h"
#include <string.h>

enum { DEEPEST = 24 }; /* nesting of graphs in attributes */

typedef struct {
    sl_arena *arena;
    sl_error *err;
    uint32_t depth;
} reader;

static sl_status broken(const reader *r, const char *what, const sl_wire *wire) {
    return sl_fail(r->err, SL_FORMAT, "ONNX %s: %s", what, wire->broken);
}

/* Allocates an array for all fields with this number. */
static sl_status make_list(const reader *r, const sl_wire *wire, uint32_t number, size_t each,
                           void *out) {
    const uint32_t count = sl_wire_count(*wire, number);
    void *items = sl_arena_array(r->arena, (size_t)count + 1, each, _Alignof(max_align_t));
    if (!items) return sl_no_memory(r->err, "an ONNX model", (uint64_t)count * each);
    memcpy(out, &items, sizeof items);
    return SL_OK;
}
#define MAKE_LIST(R, WIRE, NUMBER, LIST) make_list(R, WIRE, NUMBER, sizeof *(LIST), &(LIST))

static sl_status read_text(const reader *r, const sl_wire_field *field, const char **out) {
    if (field->kind != SL_WIRE_BYTES)
        return sl_fail(r->err, SL_FORMAT, "ONNX: field %u is not a text", field->number);
    const char *text = (const char *)field->bytes.at;
    const size_t bytes = sl_wire_bytes(&field->bytes);
    if (memchr(text ? text : "", 0, bytes))
        return sl_fail(r->err, SL_FORMAT, "ONNX: the text of field %u contains a zero byte",
                       field->number);
    *out = sl_arena_copy_text(r->arena, text ? text : "", bytes);
    return *out ? SL_OK : sl_no_memory(r->err, "a text", bytes);
}

static bool is_message(const sl_wire_field *field) {
    return field->kind == SL_WIRE_BYTES;
}

/* The numbers of a repeated field, packed or not. */
static sl_status read_numbers(const reader *r, sl_wire message, uint32_t number, sl_wire_kind kind,
                              sl_onnx_integers *out) {
    sl_wire_numbers numbers = {.message = message, .number = number, .kind = kind};
    uint64_t value;
    size_t count = 0;
    while (sl_wire_number(&numbers, &value)) count++;
    if (numbers.packed.broken) return broken(r, "list of numbers", &numbers.packed);
    if (numbers.message.broken) return broken(r, "list of numbers", &numbers.message);
    if (count > UINT32_MAX) return sl_no_memory(r->err, "a list of numbers", count);
    int64_t *items = SL_ARENA_NEW_ARRAY(r->arena, int64_t, count + 1);
    if (!items) return sl_no_memory(r->err, "a list of numbers", count);
    numbers = (sl_wire_numbers){.message = message, .number = number, .kind = kind};
    for (size_t i = 0; sl_wire_number(&numbers, &value); i++) items[i] = (int64_t)value;
    *out = (sl_onnx_integers){(uint32_t)count, items};
    return SL_OK;
}

/* ---- Tensors ---- */

static sl_status read_tensor(const reader *r, sl_wire message, sl_onnx_tensor *out) {
    *out = (sl_onnx_tensor){.name = "", .message = message};
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) {
        if (field.number == 2) out->data_type = (int32_t)field.value;
        if (field.number == 8) SL_TRY(read_text(r, &field, &out->name));
        if (field.number == 13 || (field.number == 14 && field.value == 1)) out->external = true;
    }
    if (message.broken) return broken(r, "tensor", &message);
    return read_numbers(r, out->message, 1, SL_WIRE_VARINT, &out->dims);
}

sl_status sl_onnx_tensor_read(const void *bytes, size_t count, sl_arena *arena, sl_onnx_tensor *out,
                              sl_error *err) {
    const reader r = {.arena = arena, .err = err};
    const uint8_t *at = bytes;
    return read_tensor(&r, (sl_wire){at, at + count, NULL}, out);
}

/* ---- Types of values ---- */

static sl_status read_dim(const reader *r, sl_wire message, int64_t *size, const char **name) {
    sl_wire_field field;
    *size = -1;
    *name = "";
    while (sl_wire_next(&message, &field)) {
        if (field.number == 1) *size = (int64_t)field.value;
        if (field.number == 2) SL_TRY(read_text(r, &field, name));
    }
    return message.broken ? broken(r, "dimension", &message) : SL_OK;
}

static sl_status read_shape(const reader *r, sl_wire message, sl_onnx_value_info *out) {
    int64_t *dims;
    const char **names;
    uint32_t rank = 0;
    sl_wire_field field;
    SL_TRY(MAKE_LIST(r, &message, 1, dims));
    SL_TRY(MAKE_LIST(r, &message, 1, names));
    while (sl_wire_next(&message, &field)) {
        if (field.number != 1 || !is_message(&field)) continue;
        SL_TRY(read_dim(r, field.bytes, &dims[rank], &names[rank]));
        rank++;
    }
    out->has_shape = true;
    out->rank = rank;
    out->dims = dims;
    out->dim_names = names;
    return message.broken ? broken(r, "shape", &message) : SL_OK;
}

static sl_status read_type(const reader *r, sl_wire message, sl_onnx_value_info *out) {
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) {
        if (field.number == 4) out->other = "a sequence";
        if (field.number == 5) out->other = "a map";
        if (field.number == 8) out->other = "a sparse tensor";
        if (field.number == 9) out->other = "an optional";
        if (field.number != 1 || !is_message(&field)) continue;
        sl_wire tensor = field.bytes;
        while (sl_wire_next(&tensor, &field)) {
            if (field.number == 1) out->data_type = (int32_t)field.value;
            if (field.number == 2 && is_message(&field)) SL_TRY(read_shape(r, field.bytes, out));
        }
        if (tensor.broken) return broken(r, "type", &tensor);
    }
    return message.broken ? broken(r, "type", &message) : SL_OK;
}

static sl_status read_value_info(const reader *r, sl_wire message, sl_onnx_value_info *out) {
    *out = (sl_onnx_value_info){.name = ""};
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) {
        if (field.number == 1) SL_TRY(read_text(r, &field, &out->name));
        if (field.number == 2 && is_message(&field)) SL_TRY(read_type(r, field.bytes, out));
    }
    return message.broken ? broken(r, "value", &message) : SL_OK;
}

/* ---- Nodes ---- */

static sl_status read_graph(const reader *r, sl_wire message, sl_onnx_graph *out);

static sl_status read_floats(const reader *r, sl_wire message, sl_onnx_attr *out) {
    sl_onnx_integers bits;
    SL_TRY(read_numbers(r, message, 7, SL_WIRE_32, &bits));
    float *floats = SL_ARENA_NEW_ARRAY(r->arena, float, (size_t)bits.count + 1);
    if (!floats) return sl_no_memory(r->err, "an attribute", bits.count);
    for (uint32_t i = 0; i < bits.count; i++) memcpy(&floats[i], &bits.items[i], sizeof *floats);
    out->floats = floats;
    out->float_count = bits.count;
    return SL_OK;
}

static sl_status read_attr_graph(const reader *r, sl_wire message, const sl_onnx_graph **out) {
    const reader inner = {r->arena, r->err, r->depth + 1};
    if (inner.depth > DEEPEST)
        return sl_fail(r->err, SL_FORMAT, "ONNX: graphs nested more than %d deep", DEEPEST);
    sl_onnx_graph *graph = SL_ARENA_NEW(r->arena, sl_onnx_graph);
    if (!graph) return sl_no_memory(r->err, "a graph", sizeof *graph);
    *out = graph;
    return read_graph(&inner, message, graph);
}

static sl_status read_attr_tensor(const reader *r, sl_wire message, const sl_onnx_tensor **out) {
    sl_onnx_tensor *tensor = SL_ARENA_NEW(r->arena, sl_onnx_tensor);
    if (!tensor) return sl_no_memory(r->err, "a tensor", sizeof *tensor);
    *out = tensor;
    return read_tensor(r, message, tensor);
}

/* Old files do not store the kind of an attribute. */
static int32_t guess_kind(const sl_onnx_attr *attr, uint32_t last_field) {
    static const int32_t kinds[] = {
        [2] = SL_ONNX_ATTR_FLOAT,  [3] = SL_ONNX_ATTR_INT,   [4] = SL_ONNX_ATTR_TEXT,
        [5] = SL_ONNX_ATTR_TENSOR, [6] = SL_ONNX_ATTR_GRAPH, [7] = SL_ONNX_ATTR_FLOATS,
        [8] = SL_ONNX_ATTR_INTS,   [9] = SL_ONNX_ATTR_TEXTS};
    if (attr->kind || last_field >= sizeof kinds / sizeof kinds[0]) return attr->kind;
    return kinds[last_field];
}

static sl_status read_attr_field(const reader *r, const sl_wire_field *field, sl_onnx_attr *out) {
    const char *text;
    const uint32_t bits = (uint32_t)field->value;
    switch (field->number) {
    case 1:
        return read_text(r, field, &out->name);
    case 2:
        memcpy(&out->number, &bits, sizeof bits);
        return SL_OK;
    case 3:
        out->integer = (int64_t)field->value;
        return SL_OK;
    case 4:
        return read_text(r, field, &out->text);
    case 5:
        return is_message(field) ? read_attr_tensor(r, field->bytes, &out->tensor) : SL_OK;
    case 6:
        return is_message(field) ? read_attr_graph(r, field->bytes, &out->graph) : SL_OK;
    case 9:
        SL_TRY(read_text(r, field, &text));
        ((const char **)out->texts)[out->text_count++] = text;
        return SL_OK;
    case 20:
        out->kind = (int32_t)field->value;
        return SL_OK;
    case 21:
        return read_text(r, field, &out->refers);
    default:
        return SL_OK;
    }
}

static sl_status read_attr(const reader *r, sl_wire message, sl_onnx_attr *out) {
    *out = (sl_onnx_attr){.name = "", .refers = "", .text = ""};
    const sl_wire whole = message;
    sl_wire_field field;
    uint32_t last = 0;
    SL_TRY(MAKE_LIST(r, &message, 9, out->texts));
    while (sl_wire_next(&message, &field)) {
        SL_TRY(read_attr_field(r, &field, out));
        if (field.number >= 2 && field.number <= 9) last = field.number;
    }
    if (message.broken) return broken(r, "attribute", &message);
    SL_TRY(read_floats(r, whole, out));
    SL_TRY(read_numbers(r, whole, 8, SL_WIRE_VARINT, &out->integers));
    out->kind = guess_kind(out, last);
    return SL_OK;
}

static sl_status read_node(const reader *r, sl_wire message, sl_onnx_node *out) {
    *out = (sl_onnx_node){.name = "", .op = "", .domain = ""};
    const char **inputs, **outputs;
    sl_onnx_attr *attrs;
    SL_TRY(MAKE_LIST(r, &message, 1, inputs));
    SL_TRY(MAKE_LIST(r, &message, 2, outputs));
    SL_TRY(MAKE_LIST(r, &message, 5, attrs));
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) {
        if (field.number == 1) SL_TRY(read_text(r, &field, &inputs[out->input_count++]));
        if (field.number == 2) SL_TRY(read_text(r, &field, &outputs[out->output_count++]));
        if (field.number == 3) SL_TRY(read_text(r, &field, &out->name));
        if (field.number == 4) SL_TRY(read_text(r, &field, &out->op));
        if (field.number == 7) SL_TRY(read_text(r, &field, &out->domain));
        if (field.number == 5 && is_message(&field))
            SL_TRY(read_attr(r, field.bytes, &attrs[out->attr_count++]));
    }
    if (strcmp(out->domain, "ai.onnx") == 0) out->domain = "";
    out->inputs = inputs;
    out->outputs = outputs;
    out->attrs = attrs;
    return message.broken ? broken(r, "node", &message) : SL_OK;
}

/* ---- Graphs, functions, models ---- */

static sl_status read_graph_field(const reader *r, const sl_wire_field *field, sl_onnx_graph *g) {
    if (field->number == 2) return read_text(r, field, &g->name);
    if (!is_message(field)) return SL_OK;
    switch (field->number) {
    case 1:
        return read_node(r, field->bytes, (sl_onnx_node *)&g->nodes[g->node_count++]);
    case 5:
        return read_tensor(r, field->bytes,
                           (sl_onnx_tensor *)&g->initializers[g->initializer_count++]);
    case 11:
        return read_value_info(r, field->bytes, (sl_onnx_value_info *)&g->inputs[g->input_count++]);
    case 12:
        return read_value_info(r, field->bytes,
                               (sl_onnx_value_info *)&g->outputs[g->output_count++]);
    case 15:
        g->sparse_count++;
        return SL_OK;
    default:
        return SL_OK;
    }
}

static sl_status read_graph(const reader *r, sl_wire message, sl_onnx_graph *out) {
    *out = (sl_onnx_graph){.name = ""};
    SL_TRY(MAKE_LIST(r, &message, 1, out->nodes));
    SL_TRY(MAKE_LIST(r, &message, 5, out->initializers));
    SL_TRY(MAKE_LIST(r, &message, 11, out->inputs));
    SL_TRY(MAKE_LIST(r, &message, 12, out->outputs));
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) SL_TRY(read_graph_field(r, &field, out));
    return message.broken ? broken(r, "graph", &message) : SL_OK;
}

static sl_status read_opset(const reader *r, sl_wire message, sl_onnx_opset *out) {
    *out = (sl_onnx_opset){.domain = ""};
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) {
        if (field.number == 1) SL_TRY(read_text(r, &field, &out->domain));
        if (field.number == 2) out->version = (int64_t)field.value;
    }
    if (strcmp(out->domain, "ai.onnx") == 0) out->domain = "";
    return message.broken ? broken(r, "opset", &message) : SL_OK;
}

static sl_status read_opsets(const reader *r, sl_wire message, uint32_t number,
                             sl_onnx_opsets *out) {
    sl_onnx_opset *items;
    sl_wire_field field;
    SL_TRY(MAKE_LIST(r, &message, number, items));
    out->count = 0;
    while (sl_wire_next(&message, &field))
        if (field.number == number && is_message(&field))
            SL_TRY(read_opset(r, field.bytes, &items[out->count++]));
    out->items = items;
    return message.broken ? broken(r, "opsets", &message) : SL_OK;
}

static sl_status read_function_field(const reader *r, const sl_wire_field *field,
                                     sl_onnx_function *f) {
    switch (field->number) {
    case 1:
        return read_text(r, field, &f->name);
    case 4:
        return read_text(r, field, (const char **)&f->inputs[f->input_count++]);
    case 5:
        return read_text(r, field, (const char **)&f->outputs[f->output_count++]);
    case 10:
        return read_text(r, field, &f->domain);
    case 7:
        return is_message(field)
                   ? read_node(r, field->bytes, (sl_onnx_node *)&f->nodes[f->node_count++])
                   : SL_OK;
    case 11:
        return is_message(field)
                   ? read_attr(r, field->bytes, (sl_onnx_attr *)&f->defaults[f->default_count++])
                   : SL_OK;
    default:
        return SL_OK;
    }
}

static sl_status read_function(const reader *r, sl_wire message, sl_onnx_function *out) {
    *out = (sl_onnx_function){.name = "", .domain = ""};
    SL_TRY(MAKE_LIST(r, &message, 4, out->inputs));
    SL_TRY(MAKE_LIST(r, &message, 5, out->outputs));
    SL_TRY(MAKE_LIST(r, &message, 7, out->nodes));
    SL_TRY(MAKE_LIST(r, &message, 11, out->defaults));
    SL_TRY(read_opsets(r, message, 9, &out->opsets));
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) SL_TRY(read_function_field(r, &field, out));
    return message.broken ? broken(r, "function", &message) : SL_OK;
}

sl_status sl_onnx_model_read(const void *bytes, size_t count, sl_arena *arena, sl_onnx_model *out,
                             sl_error *err) {
    const reader r = {.arena = arena, .err = err};
    const uint8_t *at = bytes;
    sl_wire message = {at, at + count, NULL};
    sl_onnx_function *functions;
    bool has_graph = false;
    *out = (sl_onnx_model){0};
    SL_TRY(MAKE_LIST(&r, &message, 25, functions));
    SL_TRY(read_opsets(&r, message, 8, &out->opsets));
    sl_wire_field field;
    while (sl_wire_next(&message, &field)) {
        if (field.number == 1) out->ir_version = (int64_t)field.value;
        if (field.number == 25 && is_message(&field))
            SL_TRY(read_function(&r, field.bytes, &functions[out->function_count++]));
        if (field.number != 7 || !is_message(&field)) continue;
        if (has_graph) return sl_fail(err, SL_FORMAT, "ONNX model: it has two graphs");
        has_graph = true;
        SL_TRY(read_graph(&r, field.bytes, &out->graph));
    }
    out->functions = functions;
    if (message.broken) return broken(&r, "model", &message);
    return has_graph ? SL_OK : sl_fail(err, SL_FORMAT, "ONNX model: it has no graph");
}
