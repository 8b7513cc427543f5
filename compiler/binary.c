/* binary.c - Graphs to bytes. */
#include "compiler/binary.h"
#include "base/sizes.h"
#include <string.h>

typedef struct {
    const void *data;
    uint64_t bytes;
} constant;

/* The structure grows in scratch; data is written from where it lies. */
typedef struct {
    sl_attr_visitor visitor; /* first: attributes are written through it */
    sl_arena *scratch;
    unsigned char *bytes;
    size_t count, capacity;
    constant *constants;
    uint32_t constant_count, constant_capacity;
    uint64_t data_bytes;
    uint32_t attrs; /* written so far, of the node at hand */
    bool failed;
} writer;

static void *grown(writer *w, void *items, size_t bytes, size_t capacity) {
    void *larger = sl_arena_alloc(w->scratch, capacity, _Alignof(max_align_t));
    if (larger && bytes) memcpy(larger, items, bytes);
    w->failed |= !larger;
    return larger;
}

static void put(writer *w, const void *bytes, size_t count) {
    if (w->failed || !count) return;
    if (w->count + count > w->capacity) {
        const size_t capacity = (w->count + count) * 2;
        w->bytes = grown(w, w->bytes, w->count, capacity);
        if (w->failed) return;
        w->capacity = capacity;
    }
    memcpy(w->bytes + w->count, bytes, count);
    w->count += count;
}

static void put_number(writer *w, uint64_t value, size_t bytes) {
    unsigned char little[8];
    for (size_t i = 0; i < bytes; i++) little[i] = (unsigned char)(value >> (8 * i));
    put(w, little, bytes);
}
static void put_u8(writer *w, uint32_t value) {
    put_number(w, value, 1);
}
static void put_u32(writer *w, uint32_t value) {
    put_number(w, value, 4);
}
static void put_i64(writer *w, int64_t value) {
    put_number(w, (uint64_t)value, 8);
}

static void put_text(writer *w, const char *text) {
    put_u32(w, (uint32_t)strlen(text));
    put(w, text, strlen(text));
}

static void put_type(writer *w, const sl_value_info *info) {
    put_text(w, sl_dtype_infos[info->type.dtype].name);
    put_u8(w, info->type.shape.rank);
    for (uint32_t d = 0; d < info->type.shape.rank; d++)
        put_i64(w, info->symbols && info->symbols[d] ? -(int64_t)info->symbols[d]
                                                     : info->type.shape.dims[d]);
}

static void put_constant(writer *w, const sl_value_info *info) {
    const uint64_t bytes = sl_type_bytes(&info->type);
    put_number(w, w->data_bytes, 8);
    if (w->constant_count == w->constant_capacity) {
        const uint32_t capacity = w->constant_capacity ? 2 * w->constant_capacity : 16;
        w->constants = grown(w, w->constants, w->constant_count * sizeof *w->constants,
                             capacity * sizeof *w->constants);
        if (w->failed) return;
        w->constant_capacity = capacity;
    }
    w->constants[w->constant_count++] = (constant){info->data, bytes};
    w->data_bytes += sl_round_up(bytes, SL_BINARY_ALIGNMENT);
}

static void put_graph(writer *w, const sl_graph *graph);

static void put_attr_value(writer *w, sl_attr_kind kind, const sl_attr *attr) {
    uint64_t bits = 0;
    switch (kind) {
    case SL_ATTR_f32:
        memcpy(&bits, &attr->f32, sizeof attr->f32); /* little-endian: its low bytes */
        put_number(w, bits, 4);
        break;
    case SL_ATTR_f64:
        memcpy(&bits, &attr->f64, sizeof bits);
        put_number(w, bits, 8);
        break;
    case SL_ATTR_u32:
        put_u32(w, attr->u32);
        break;
    case SL_ATTR_i64:
        put_i64(w, attr->i64);
        break;
    case SL_ATTR_dtype:
        put_text(w, sl_dtype_infos[attr->dtype].name);
        break;
    case SL_ATTR_dims:
        put_u32(w, attr->dims.rank);
        for (uint32_t i = 0; i < attr->dims.rank; i++) put_i64(w, attr->dims.dims[i]);
        break;
    case SL_ATTR_list:
        put_u32(w, attr->list.count);
        for (uint32_t i = 0; i < attr->list.count; i++) put_i64(w, attr->list.items[i]);
        break;
    case SL_ATTR_reals:
        put_u32(w, attr->reals.count);
        for (uint32_t i = 0; i < attr->reals.count; i++) {
            memcpy(&bits, &attr->reals.items[i], sizeof bits);
            put_number(w, bits, 8);
        }
        break;
    case SL_ATTR_text:
        put_text(w, attr->text);
        break;
    case SL_ATTR_graph:
        put_graph(w, attr->graph);
        break;
    case SL_ATTR_handler:
        break;
    }
}

static void put_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    writer *w = (writer *)visitor;
    const sl_attr *attr = value;
    if (kind == SL_ATTR_handler || (kind == SL_ATTR_graph && !attr->graph)) return;
    const uint32_t written = ++w->attrs;
    put_text(w, name);
    put_u8(w, kind);
    put_attr_value(w, kind, attr);
    w->attrs = written; /* of this node again, after a body's */
}

/* Their number is known once they are written. */
static void put_attrs(writer *w, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    _Alignas(max_align_t) unsigned char copy[SL_MAX_ATTRS_BYTES];
    memcpy(copy, node->attrs, info->attrs_bytes);
    const size_t at = w->count;
    put_u32(w, 0);
    w->attrs = 0;
    info->visit_attrs(&w->visitor, copy);
    for (uint32_t i = 0; !w->failed && i < 4; i++)
        w->bytes[at + i] = (unsigned char)(w->attrs >> (8 * i));
    put_u32(w, node->symbol_count);
    for (uint32_t i = 0; i < node->symbol_count; i++) {
        put_text(w, node->symbols[i].attr);
        put_u32(w, node->symbols[i].index);
        put_u32(w, node->symbols[i].symbol);
    }
}

static void put_node(writer *w, const sl_node *node, const uint32_t *ids) {
    put_u8(w, SL_BINARY_NODE);
    put_text(w, sl_op_info_of(node->op)->name);
    put_text(w, node->label);
    put_u32(w, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++) put_u32(w, ids[node->inputs[i].v]);
    put_u32(w, node->output_count);
    put_attrs(w, node);
}

/* Declarations and nodes in the order of their values; ids says how each is numbered. */
static uint32_t put_items(writer *w, const sl_graph *graph, uint32_t *ids) {
    uint32_t items = 0, id = 0;
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *info = &graph->values[v];
        const sl_node *node = info->kind == SL_VALUE_RESULT ? &graph->nodes[info->node] : NULL;
        if (node && node->outputs[0].v != v) continue;
        items++;
        if (node) {
            put_node(w, node, ids);
            for (uint32_t o = 0; o < node->output_count; o++) ids[node->outputs[o].v] = ++id;
            continue;
        }
        ids[v] = ++id;
        put_u8(w, sl_value_declared_kind(info));
        put_text(w, info->name);
        put_type(w, info);
        if (info->kind == SL_VALUE_CONSTANT) put_constant(w, info);
    }
    return items;
}

static void put_graph(writer *w, const sl_graph *graph) {
    uint32_t *ids = SL_ARENA_NEW_ARRAY(w->scratch, uint32_t, (size_t)graph->value_count + 1);
    w->failed |= !ids;
    if (w->failed) return;
    put_text(w, graph->name);
    put_u32(w, graph->symbol_count);
    for (uint32_t s = 0; s < graph->symbol_count; s++) {
        put_text(w, graph->symbols[s].name);
        put_i64(w, graph->symbols[s].size);
    }
    const size_t at = w->count;
    put_u32(w, 0);
    const uint32_t items = put_items(w, graph, ids);
    for (uint32_t i = 0; !w->failed && i < 4; i++)
        w->bytes[at + i] = (unsigned char)(items >> (8 * i));
    put_u32(w, graph->output_count);
    for (uint32_t o = 0; o < graph->output_count; o++) {
        put_text(w, graph->outputs[o].name);
        put_u32(w, ids[graph->outputs[o].value.v]);
    }
}

static sl_status write_padding(const sl_sink *sink, uint64_t written, sl_error *err) {
    static const unsigned char zeros[SL_BINARY_ALIGNMENT];
    const uint64_t rest = sl_round_up(written, SL_BINARY_ALIGNMENT) - written;
    return rest ? sink->write(sink->ctx, zeros, rest, err) : SL_OK;
}

static sl_status write_all(const writer *w, const sl_sink *sink, sl_error *err) {
    const uint64_t data = SL_BINARY_HEADER_BYTES + sl_round_up(w->count, SL_BINARY_ALIGNMENT);
    unsigned char header[SL_BINARY_HEADER_BYTES] = SL_BINARY_MAGIC;
    const uint64_t total = data + w->data_bytes;
    header[8] = SL_BINARY_VERSION;
    for (size_t i = 0; i < 8; i++) header[16 + i] = (unsigned char)(total >> (8 * i));
    for (size_t i = 0; i < 8; i++) header[24 + i] = (unsigned char)(data >> (8 * i));
    SL_TRY(sink->write(sink->ctx, header, sizeof header, err));
    SL_TRY(sink->write(sink->ctx, w->bytes, w->count, err));
    SL_TRY(write_padding(sink, w->count, err));
    for (uint32_t i = 0; i < w->constant_count; i++) {
        const constant *c = &w->constants[i];
        if (c->bytes) SL_TRY(sink->write(sink->ctx, c->data, c->bytes, err));
        SL_TRY(write_padding(sink, c->bytes, err));
    }
    return SL_OK;
}

sl_status sl_graph_write(const sl_graph *graph, const sl_sink *sink, sl_error *err) {
    SL_TRY(sl_graph_check(graph, err));
    sl_arena scratch;
    sl_arena_init(&scratch, graph->arena.allocator);
    writer w = {.visitor = {put_attr}, .scratch = &scratch};
    put_graph(&w, graph);
    const sl_status status = w.failed ? sl_no_memory(err, "the binary form of a graph", w.count)
                                      : write_all(&w, sink, err);
    sl_arena_deinit(&scratch);
    return status;
}
