#include "compiler/graph.h"
#include "core/codec.h"
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Growing text in an arena; after a failure it stays as it is. */
typedef struct {
    sl_attr_visitor visitor; /* first: attributes are printed through it */
    sl_arena *arena;
    char *data;
    size_t length, capacity;
    bool failed;
    uint32_t attrs; /* printed so far, of the node at hand */
} printer;

static void put_bytes(printer *p, const char *bytes, size_t count) {
    if (p->failed) return;
    if (p->length + count + 1 > p->capacity) {
        const size_t capacity = (p->length + count + 1) * 2;
        char *larger = sl_arena_alloc(p->arena, capacity, 1);
        if (!larger) {
            p->failed = true;
            return;
        }
        if (p->length) memcpy(larger, p->data, p->length);
        p->data = larger;
        p->capacity = capacity;
    }
    memcpy(p->data + p->length, bytes, count);
    p->length += count;
    p->data[p->length] = 0;
}

static void put(printer *p, const char *text) {
    put_bytes(p, text, strlen(text));
}

/* Short pieces only. */
__attribute__((format(printf, 2, 3))) static void putf(printer *p, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(p, text);
}

static void put_quoted(printer *p, const char *text, size_t bytes) {
    put(p, "\"");
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            putf(p, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            putf(p, "\\x%02x", c);
        else
            put_bytes(p, &text[i], 1);
    }
    put(p, "\"");
}

static bool is_identifier(const char *name) {
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '.') return false;
    return true;
}

static void put_value(printer *p, const sl_graph *graph, sl_value value) {
    const char *name = graph->values[value.v].name;
    put(p, "%");
    if (!name)
        putf(p, "%u", value.v);
    else if (is_identifier(name))
        put(p, name);
    else
        put_quoted(p, name, strlen(name));
}

static void put_type(printer *p, const sl_type *type) {
    char text[SL_TYPE_TEXT];
    put(p, sl_type_format(type, text, sizeof text));
}

/* The shortest digits that read back as the same float; not for NaN. */
static void put_float(printer *p, float value) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    put(p, text);
}

/* NaNs are printed as their bits, so that none is lost. */
static void put_f32(printer *p, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        putf(p, "nan:%08x", bits);
    else
        put_float(p, value);
}

static void put_half(printer *p, float value, uint16_t bits) {
    if (isnan(value))
        putf(p, "nan:%04x", bits);
    else
        put_float(p, value);
}

static void put_element(printer *p, sl_dtype dtype, const unsigned char *data) {
    uint32_t word = 0;
    memcpy(&word, data, sl_dtype_infos[dtype].bytes ? sl_dtype_infos[dtype].bytes : 1);
    if (dtype == SL_DTYPE_f32) {
        float value;
        memcpy(&value, &word, sizeof value);
        put_f32(p, value);
    } else if (dtype == SL_DTYPE_f16) {
        put_half(p, sl_f32_from_f16((uint16_t)word), (uint16_t)word);
    } else if (dtype == SL_DTYPE_bf16) {
        put_half(p, sl_f32_from_bf16((uint16_t)word), (uint16_t)word);
    } else {
        putf(p, "%d", (int32_t)word);
    }
}

static void put_constant(printer *p, const sl_value_info *info) {
    const size_t each = sl_dtype_infos[info->type.dtype].bytes;
    const size_t stride = each ? each : 1;
    const size_t count = sl_type_bytes(&info->type) / stride;
    put(p, " = {");
    for (size_t i = 0; i < count; i++) {
        if (i) put(p, ", ");
        put_element(p, info->type.dtype, (const unsigned char *)info->data + i * stride);
    }
    put(p, "}");
}

static void put_declaration(printer *p, const sl_graph *graph, sl_value value) {
    static const char *const words[] = {"input", "weight", "constant", "state", "experts"};
    const sl_value_info *info = &graph->values[value.v];
    putf(p, "  %s ", words[info->kind]);
    put_value(p, graph, value);
    put(p, " : ");
    put_type(p, &info->type);
    if (info->kind == SL_VALUE_CONSTANT) put_constant(p, info);
    put(p, "\n");
}

static printer *start_attr(sl_attr_visitor *visitor, const char *name) {
    printer *p = (printer *)visitor;
    putf(p, "%s%s = ", p->attrs++ ? ", " : " {", name);
    return p;
}

static void put_attr_f32(sl_attr_visitor *visitor, const char *name, sl_attr_f32 *value) {
    put_f32(start_attr(visitor, name), *value);
}

static void put_attr_u32(sl_attr_visitor *visitor, const char *name, sl_attr_u32 *value) {
    putf(start_attr(visitor, name), "%u", *value);
}

static void put_attr_dims(sl_attr_visitor *visitor, const char *name, sl_attr_dims *value) {
    printer *p = start_attr(visitor, name);
    put(p, "[");
    for (uint32_t i = 0; i < value->rank; i++)
        putf(p, i ? ", %lld" : "%lld", (long long)value->dims[i]);
    put(p, "]");
}

static void put_attrs(printer *p, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    _Alignas(max_align_t) unsigned char copy[SL_MAX_ATTRS_BYTES];
    memcpy(copy, node->attrs, info->attrs_bytes);
    p->attrs = 0;
    info->visit_attrs(&p->visitor, copy);
    if (p->attrs) put(p, "}");
}

static void put_node(printer *p, const sl_graph *graph, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    put(p, "  ");
    for (uint32_t o = 0; o < info->output_count; o++) {
        if (o) put(p, ", ");
        put_value(p, graph, node->outputs[o]);
    }
    putf(p, " = %s(", info->name);
    for (uint32_t i = 0; i < info->input_count; i++) {
        if (i) put(p, ", ");
        put_value(p, graph, node->inputs[i]);
    }
    put(p, ")");
    put_attrs(p, node);
    for (uint32_t o = 0; o < info->output_count; o++) {
        put(p, o ? ", " : " : ");
        put_type(p, &graph->values[node->outputs[o].v].type);
    }
    put(p, "\n");
}

/* A label is "scope op", or the op alone. */
static size_t scope_length(const sl_node *node) {
    const size_t label = strlen(node->label), op = strlen(sl_op_info_of(node->op)->name);
    return label > op ? label - op - 1 : 0;
}

/* Declarations and nodes in the order of their values, so that parsing numbers them alike. */
static void put_body(printer *p, const sl_graph *graph) {
    const char *scope = "";
    size_t length = 0;
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *info = &graph->values[v];
        if (info->kind != SL_VALUE_RESULT) {
            put_declaration(p, graph, (sl_value){v});
            continue;
        }
        const sl_node *node = &graph->nodes[info->node];
        if (node->outputs[0].v != v) continue;
        const size_t own = scope_length(node);
        if (own != length || memcmp(scope, node->label, own) != 0) {
            scope = node->label;
            length = own;
            put(p, "  scope ");
            put_quoted(p, scope, length);
            put(p, "\n");
        }
        put_node(p, graph, node);
    }
}

static void put_graph(printer *p, const sl_graph *graph) {
    put(p, "graph ");
    put_quoted(p, graph->name, strlen(graph->name));
    put(p, " {\n");
    put_body(p, graph);
    for (uint32_t i = 0; i < graph->output_count; i++) {
        put(p, "  output ");
        put_quoted(p, graph->outputs[i].name, strlen(graph->outputs[i].name));
        put(p, " = ");
        put_value(p, graph, graph->outputs[i].value);
        put(p, "\n");
    }
    put(p, "}\n");
}

sl_status sl_graph_print(const sl_graph *graph, sl_arena *arena, char **out_text, sl_error *err) {
    SL_TRY(sl_graph_check(graph, err));
    printer p = {.visitor = {put_attr_f32, put_attr_u32, put_attr_dims}, .arena = arena};
    /* Numbers are written with a point whatever the caller's locale is. */
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return sl_no_memory(err, "a locale", 0);
    const locale_t before = uselocale(plain);
    put_graph(&p, graph);
    (void)uselocale(before);
    freelocale(plain);
    if (p.failed) return sl_no_memory(err, "the text of a graph", p.length);
    *out_text = p.data;
    return SL_OK;
}
