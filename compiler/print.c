#include "compiler/graph.h"
#include "core/codec.h"
#include "core/op_attrs.h"
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
    const sl_graph *graph;
    const sl_node *node;
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

static void put_double(printer *p, double value) {
    char text[40];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        putf(p, "nan:%016llx", (unsigned long long)bits);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    put(p, text);
}

static void put_element(printer *p, sl_dtype dtype, const unsigned char *data) {
    double slots[2] = {0}; /* as sl_decode_f64 leaves them */
    if (sl_dtype_infos[dtype].bytes) sl_decode_f64(dtype, data, 1, slots);
    uint32_t word = 0;
    int64_t wide;
    memcpy(&word, data,
           dtype == SL_DTYPE_f32                             ? 4
           : dtype == SL_DTYPE_f16 || dtype == SL_DTYPE_bf16 ? 2
                                                             : 1);
    memcpy(&wide, slots, sizeof wide);
    float single;
    memcpy(&single, &word, sizeof single);
    if (dtype == SL_DTYPE_f32)
        put_f32(p, single);
    else if (dtype == SL_DTYPE_f16 || dtype == SL_DTYPE_bf16)
        put_half(p, (float)slots[0], (uint16_t)word);
    else if (dtype == SL_DTYPE_f64)
        put_double(p, slots[0]);
    else if (dtype == SL_DTYPE_i64)
        putf(p, "%lld", (long long)wide);
    else if (dtype == SL_DTYPE_u64)
        putf(p, "%llu", (unsigned long long)wide);
    else if (sl_dtype_infos[dtype].bytes)
        putf(p, "%.0f", slots[0]);
    else
        putf(p, "%u", word);
}

/* Plain elements one by one; of a complex type its parts; of others bytes. */
static void put_constant(printer *p, const sl_value_info *info) {
    const bool complex = sl_dtype_infos[info->type.dtype].kind == SL_KIND_COMPLEX;
    const sl_dtype dtype = complex ? SL_DTYPE_f32 : info->type.dtype;
    const size_t each = sl_dtype_infos[dtype].bytes;
    const size_t stride = each ? each : 1;
    const size_t count = sl_type_bytes(&info->type) / stride;
    put(p, " = {");
    for (size_t i = 0; i < count; i++) {
        if (i) put(p, ", ");
        put_element(p, dtype, (const unsigned char *)info->data + i * stride);
    }
    put(p, "}");
}

/* With names for the dims that are symbols. */
static void put_symbolic_type(printer *p, const sl_graph *graph, const sl_value_info *info) {
    if (!info->symbols) {
        put_type(p, &info->type);
        return;
    }
    putf(p, "%s[", sl_dtype_infos[info->type.dtype].name);
    for (uint32_t d = 0; d < info->type.shape.rank; d++) {
        if (d) put(p, ",");
        if (info->symbols[d])
            put(p, graph->symbols[info->symbols[d] - 1].name);
        else
            putf(p, "%lld", (long long)info->type.shape.dims[d]);
    }
    put(p, "]");
}

static void put_declaration(printer *p, const sl_graph *graph, sl_value value) {
    static const char *const words[] = {"input", "weight", "constant", "state", "experts"};
    const sl_value_info *info = &graph->values[value.v];
    putf(p, "  %s ", words[sl_value_declared_kind(info)]);
    put_value(p, graph, value);
    put(p, " : ");
    put_symbolic_type(p, graph, info);
    if (info->kind == SL_VALUE_CONSTANT) put_constant(p, info);
    put(p, "\n");
}

static void put_graph(printer *p, const sl_graph *graph);

/* An integer of attribute `name`: a symbol where it was one. */
static void put_integer(printer *p, const char *name, uint32_t index, int64_t value) {
    for (uint32_t i = 0; i < p->node->symbol_count; i++) {
        const sl_attr_symbol *ref = &p->node->symbols[i];
        if (ref->index != index || strcmp(ref->attr, name) != 0) continue;
        put(p, p->graph->symbols[ref->symbol].name);
        return;
    }
    putf(p, "%lld", (long long)value);
}

static void put_integers(printer *p, const char *name, const int64_t *items, uint32_t count) {
    put(p, "[");
    for (uint32_t i = 0; i < count; i++) {
        if (i) put(p, ", ");
        put_integer(p, name, i, items[i]);
    }
    put(p, "]");
}

/* A number that has a name is printed as that. */
static void put_u32(printer *p, const char *name, uint32_t value) {
    size_t bytes;
    const char *word = sl_attr_word(sl_op_attr(p->node->op, name), value, &bytes);
    if (word)
        put_bytes(p, word, bytes);
    else
        put_integer(p, name, 0, value);
}

static void put_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    printer *p = (printer *)visitor;
    const sl_attr *attr = value;
    if (kind == SL_ATTR_handler || (kind == SL_ATTR_graph && !attr->graph)) return;
    putf(p, "%s%s = ", p->attrs++ ? ", " : " {", name);
    switch (kind) {
    case SL_ATTR_f32:
        put_f32(p, attr->f32);
        break;
    case SL_ATTR_f64:
        put_double(p, attr->f64);
        break;
    case SL_ATTR_u32:
        put_u32(p, name, attr->u32);
        break;
    case SL_ATTR_i64:
        put_integer(p, name, 0, attr->i64);
        break;
    case SL_ATTR_dtype:
        put(p, sl_dtype_infos[attr->dtype].name);
        break;
    case SL_ATTR_dims:
        put_integers(p, name, attr->dims.dims, attr->dims.rank);
        break;
    case SL_ATTR_list:
        put_integers(p, name, attr->list.items, attr->list.count);
        break;
    case SL_ATTR_reals:
        put(p, "[");
        for (uint32_t i = 0; i < attr->reals.count; i++) {
            if (i) put(p, ", ");
            put_double(p, attr->reals.items[i]);
        }
        put(p, "]");
        break;
    case SL_ATTR_text:
        put_quoted(p, attr->text, strlen(attr->text));
        break;
    case SL_ATTR_graph: {
        const printer outer = *p;
        put_graph(p, attr->graph);
        p->attrs = outer.attrs;
        p->graph = outer.graph;
        p->node = outer.node;
        break;
    }
    case SL_ATTR_handler:
        break;
    }
}

static void put_attrs(printer *p, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    _Alignas(max_align_t) unsigned char copy[SL_MAX_ATTRS_BYTES];
    memcpy(copy, node->attrs, info->attrs_bytes);
    p->attrs = 0;
    p->node = node;
    info->visit_attrs(&p->visitor, copy);
    if (p->attrs) put(p, "}");
}

static void put_node(printer *p, const sl_graph *graph, const sl_node *node) {
    put(p, "  ");
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (o) put(p, ", ");
        put_value(p, graph, node->outputs[o]);
    }
    putf(p, " = %s(", sl_op_info_of(node->op)->name);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i) put(p, ", ");
        put_value(p, graph, node->inputs[i]);
    }
    put(p, ")");
    put_attrs(p, node);
    for (uint32_t o = 0; o < node->output_count; o++) {
        put(p, o ? ", " : " : ");
        put_type(p, &graph->values[node->outputs[o].v].type);
    }
    put(p, "\n");
}

/* A label is "scope name", or the name alone. */
static size_t scope_length(const sl_node *node) {
    const char *space = strrchr(node->label, ' ');
    return space ? (size_t)(space - node->label) : 0;
}

/* The name in a label is that of the op unless it is given. */
static void put_label(printer *p, const sl_node *node, size_t scope) {
    const char *name = node->label + scope + (scope > 0);
    if (strcmp(name, sl_op_info_of(node->op)->name) == 0) return;
    put(p, "  label ");
    put_quoted(p, name, strlen(name));
    put(p, "\n");
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
        put_label(p, node, own);
        put_node(p, graph, node);
    }
}

static void put_graph(printer *p, const sl_graph *graph) {
    put(p, "graph ");
    put_quoted(p, graph->name, strlen(graph->name));
    put(p, " {\n");
    p->graph = graph;
    for (uint32_t s = 0; s < graph->symbol_count; s++) {
        put(p, "  symbol ");
        put(p, graph->symbols[s].name);
        putf(p, " = %lld\n", (long long)graph->symbols[s].size);
    }
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

/* A graph, or the attributes of one node.  Numbers are written with a point whatever the caller's
 * locale is. */
static sl_status print(const sl_graph *graph, const sl_node *node, sl_arena *arena, char **out_text,
                       sl_error *err) {
    printer p = {.visitor = {put_attr}, .arena = arena};
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return sl_no_memory(err, "a locale", 0);
    const locale_t before = uselocale(plain);
    put(&p, "");
    if (graph)
        put_graph(&p, graph);
    else
        put_attrs(&p, node);
    (void)uselocale(before);
    freelocale(plain);
    if (p.failed) return sl_no_memory(err, "the text of a graph", p.length);
    *out_text = p.data;
    return SL_OK;
}

sl_status sl_graph_print(const sl_graph *graph, sl_arena *arena, char **out_text, sl_error *err) {
    SL_TRY(sl_graph_check(graph, err));
    return print(graph, NULL, arena, out_text, err);
}

sl_status sl_attrs_print(sl_op op, const void *attrs, sl_arena *arena, char **out_text,
                         sl_error *err) {
    const sl_node node = {.op = op, .attrs = attrs};
    SL_TRY(print(NULL, &node, arena, out_text, err));
    if (**out_text) (*out_text)++; /* the space before the brace */
    return SL_OK;
}
