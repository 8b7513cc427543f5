/* parse.c - Text into graphs.  Total: any bytes give a graph or an error with its position. */
#include "compiler/cursor.h"
#include "compiler/graph.h"
#include "core/op_attrs.h"
#include <ctype.h>
#include <string.h>

enum { MAX_DEPTH = 32 };

/* Passes on a mistake made by the statement at `where`, with its position. */
static sl_status fail_graph(const sl_cursor *c, const char *where, const sl_graph *graph) {
    if (graph->error.status == SL_OK) return SL_OK;
    sl_cursor_explain(c, where, "%s", graph->error.message);
    if (c->err) c->err->status = graph->error.status;
    return graph->error.status;
}

/* ---- Types and attributes ---- */

/* A name stands for a size: -1 - its index. */
static sl_status read_symbol_dim(sl_cursor *c, sl_slice name, sl_graph *graph, int64_t *out) {
    uint32_t index;
    if (sl_graph_find_symbol(graph, name.at, name.bytes, &index)) {
        *out = -1 - (int64_t)index;
        return SL_OK;
    }
    char text[64] = {0};
    memcpy(text, name.at, name.bytes); /* sl_cursor_number gives no longer ones */
    *out = sl_graph_symbol(graph, text, 0);
    return fail_graph(c, name.at, graph);
}

static sl_status read_dims(sl_cursor *c, sl_graph *graph, sl_dims *out) {
    *out = (sl_dims){0};
    SL_TRY(sl_cursor_expect(c, '['));
    while (!sl_cursor_accept(c, ']')) {
        if (out->rank) SL_TRY(sl_cursor_expect(c, ','));
        sl_slice number;
        SL_TRY(sl_cursor_number(c, &number));
        if (out->rank == SL_MAX_RANK)
            return FAIL_AT(c, number.at, "more than %d entries in a list", SL_MAX_RANK);
        int64_t *dim = &out->dims[out->rank++];
        SL_TRY(sl_starts_word(number.at[0]) ? read_symbol_dim(c, number, graph, dim)
                                            : sl_slice_integer(c, number, 0, INT64_MAX, dim));
    }
    return SL_OK;
}

static sl_type with_sizes(const sl_graph *graph, sl_type type) {
    for (uint32_t d = 0; d < type.shape.rank; d++)
        if (type.shape.dims[d] < 0)
            type.shape.dims[d] = graph->symbols[-1 - type.shape.dims[d]].size;
    return type;
}

/* Of the graph's symbols, dims are as sl_graph_declare takes them. */
static sl_status read_type(sl_cursor *c, sl_graph *graph, sl_type *out) {
    sl_slice word;
    SL_TRY(sl_cursor_word(c, "an element type", &word));
    if (!sl_dtype_find(word.at, word.bytes, &out->dtype))
        return FAIL_AT(c, word.at, "unknown element type '%.*s'", (int)word.bytes, word.at);
    SL_TRY(read_dims(c, graph, &out->shape));
    sl_error inner;
    const sl_type sized = with_sizes(graph, *out);
    if (sl_type_check_shape(&sized, "this type", &inner) == SL_OK) return SL_OK;
    return FAIL_AT(c, word.at, "%s", inner.message);
}

/* An attribute as written; what it means depends on its kind. */
typedef struct {
    sl_slice name;
    sl_slice number; /* or a word; empty when it is something else */
    sl_slice list;   /* with its brackets */
    char *text;
    sl_graph *body;
    bool used;
} attribute;

/* Attributes as written, and the visitor that hands them to an op. */
enum { MAX_ATTRIBUTES = 32 };
typedef struct {
    sl_attr_visitor visitor; /* first */
    sl_cursor *c;
    sl_graph *owner; /* of what attributes point at */
    sl_op op;
    const char *where; /* for what is missing */
    attribute items[MAX_ATTRIBUTES];
    uint32_t count;
    sl_status status;
    sl_attr_symbol *refs; /* in the owner's arena */
    uint32_t ref_count, ref_capacity;
} attributes;

static sl_status read_body(sl_cursor *c, sl_graph *owner, sl_graph **out);

static sl_status read_attribute_value(sl_cursor *c, sl_graph *owner, attribute *item) {
    const char first = sl_cursor_peek(c);
    if (first == '[') {
        item->list.at = c->at;
        while (c->at < c->end && *c->at != ']') c->at++;
        SL_TRY(sl_cursor_expect(c, ']'));
        item->list.bytes = (size_t)(c->at - item->list.at);
        return SL_OK;
    }
    if (first == '"') return sl_cursor_quoted(c, &owner->arena, "a text", &item->text);
    SL_TRY(sl_cursor_number(c, &item->number));
    if (!sl_slice_is(item->number, "graph")) return SL_OK;
    c->at = item->number.at;
    item->number.bytes = 0;
    return read_body(c, owner, &item->body);
}

static sl_status read_attribute(sl_cursor *c, attributes *list) {
    attribute item = {0};
    SL_TRY(sl_cursor_word(c, "the name of an attribute", &item.name));
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].name.bytes == item.name.bytes &&
            memcmp(list->items[i].name.at, item.name.at, item.name.bytes) == 0)
            return FAIL_AT(c, item.name.at, "attribute '%.*s' is given twice", (int)item.name.bytes,
                           item.name.at);
    SL_TRY(sl_cursor_expect(c, '='));
    SL_TRY(read_attribute_value(c, list->owner, &item));
    if (list->count == MAX_ATTRIBUTES) return FAIL_AT(c, item.name.at, "too many attributes");
    list->items[list->count++] = item;
    return SL_OK;
}

/* The attribute of that name, marked as used; NULL when it was left out. */
static attribute *take(attributes *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++)
        if (sl_slice_is(list->items[i].name, name)) {
            list->items[i].used = true;
            return &list->items[i];
        }
    return NULL;
}

/* An integer of attribute `name`, or the symbol whose size it is. */
static sl_status read_size(attributes *list, sl_cursor *c, sl_slice number, sl_attr_symbol ref,
                           int64_t *out) {
    sl_graph *owner = list->owner;
    if (!sl_starts_word(number.at[0]))
        return sl_slice_integer(c, number, INT64_MIN + 1, INT64_MAX, out);
    if (!sl_graph_find_symbol(owner, number.at, number.bytes, &ref.symbol))
        return FAIL_AT(c, number.at, "expected an integer or a symbol, found '%.*s'",
                       (int)number.bytes, number.at);
    sl_attr_symbol *refs =
        sl_graph_grow(owner, list->refs, list->ref_count, &list->ref_capacity, sizeof *refs);
    if (!refs) return fail_graph(c, number.at, owner);
    list->refs = refs;
    refs[list->ref_count++] = ref;
    *out = owner->symbols[ref.symbol].size;
    return SL_OK;
}

/* The entries of a list, as integers or, where reals is set, as doubles. */
static sl_status read_entries(attributes *list, const char *name, sl_slice text, bool reals,
                              uint32_t *count, const void **out) {
    sl_cursor c = *list->c;
    uint32_t commas = 0;
    for (size_t i = 0; i < text.bytes; i++) commas += text.at[i] == ',';
    int64_t *items = SL_ARENA_NEW_ARRAY(&list->owner->arena, int64_t, (size_t)commas + 2);
    if (!items) return sl_no_memory(c.err, "a list", commas);
    c.at = text.at + 1;
    c.end = text.at + text.bytes;
    *count = 0;
    while (!sl_cursor_accept(&c, ']')) {
        sl_slice number;
        double real;
        if (*count) SL_TRY(sl_cursor_expect(&c, ','));
        SL_TRY(sl_cursor_number(&c, &number));
        if (reals) {
            SL_TRY(sl_slice_double(&c, number, &real));
            memcpy(&items[(*count)++], &real, sizeof real);
        } else {
            SL_TRY(read_size(list, &c, number, (sl_attr_symbol){.attr = name, .index = *count},
                             &items[*count]));
            ++*count;
        }
    }
    *out = items;
    return SL_OK;
}

static sl_status set_number(attributes *list, const char *name, const attribute *item,
                            sl_attr_kind kind, sl_attr *out) {
    int64_t wide = 0;
    const sl_attr_row *row = sl_op_attr(list->op, name);
    const sl_slice word = item->number;
    if (row->words && sl_attr_word_find(row, word.at, word.bytes, &out->u32)) return SL_OK;
    uint32_t symbol;
    if (row->words && sl_starts_word(word.at[0]) &&
        !sl_graph_find_symbol(list->owner, word.at, word.bytes, &symbol))
        return FAIL_AT(list->c, word.at, "expected one of %s, found '%.*s'", row->words,
                       (int)word.bytes, word.at);
    switch (kind) {
    case SL_ATTR_f32:
        return sl_slice_float(list->c, item->number, &out->f32);
    case SL_ATTR_f64:
        return sl_slice_double(list->c, item->number, &out->f64);
    case SL_ATTR_i64:
        return read_size(list, list->c, item->number, (sl_attr_symbol){.attr = name}, &out->i64);
    case SL_ATTR_dtype:
        if (sl_dtype_find(item->number.at, item->number.bytes, &out->dtype)) return SL_OK;
        return FAIL_AT(list->c, item->number.at, "unknown element type '%.*s'",
                       (int)item->number.bytes, item->number.at);
    default:
        if (sl_starts_word(item->number.at[0]))
            SL_TRY(read_size(list, list->c, item->number, (sl_attr_symbol){.attr = name}, &wide));
        else
            SL_TRY(sl_slice_integer(list->c, item->number, 0, UINT32_MAX, &wide));
        if (wide < 0 || wide > UINT32_MAX)
            return FAIL_AT(list->c, item->number.at, "this symbol is %lld, too much for '%s'",
                           (long long)wide, name);
        out->u32 = (uint32_t)wide;
        return SL_OK;
    }
}

static sl_status set_list(attributes *list, const char *name, const attribute *item,
                          sl_attr_kind kind, sl_attr *out) {
    uint32_t count = 0;
    const void *items = NULL;
    SL_TRY(read_entries(list, name, item->list, kind == SL_ATTR_reals, &count, &items));
    if (kind == SL_ATTR_reals) {
        out->reals = (sl_reals){count, items};
    } else if (kind == SL_ATTR_list) {
        out->list = (sl_integers){count, items};
    } else {
        if (count > SL_MAX_RANK)
            return FAIL_AT(list->c, item->list.at, "more than %d entries in a list", SL_MAX_RANK);
        out->dims = (sl_dims){.rank = count};
        memcpy(out->dims.dims, items, count * sizeof out->dims.dims[0]);
    }
    return SL_OK;
}

static bool is_list(sl_attr_kind kind) {
    return kind == SL_ATTR_dims || kind == SL_ATTR_list || kind == SL_ATTR_reals;
}

/* Sets one attribute of an op to what is written. */
static sl_status set_given(attributes *list, const attribute *item, const char *name,
                           sl_attr_kind kind, sl_attr *out) {
    const bool lists = is_list(kind);
    if (kind == SL_ATTR_text && item->text) out->text = item->text;
    const bool fits = lists                   ? item->list.bytes > 0
                      : kind == SL_ATTR_text  ? item->text != NULL
                      : kind == SL_ATTR_graph ? item->body != NULL
                                              : item->number.bytes > 0;
    if (!fits)
        return FAIL_AT(list->c, item->name.at, "attribute '%s' is %s", name,
                       lists                   ? "a list, as [1, 2]"
                       : kind == SL_ATTR_text  ? "a quoted text"
                       : kind == SL_ATTR_graph ? "a graph"
                                               : "a number, not a list");
    if (lists) return set_list(list, name, item, kind, out);
    if (kind == SL_ATTR_graph) out->graph = item->body;
    return kind == SL_ATTR_graph || kind == SL_ATTR_text ? SL_OK
                                                         : set_number(list, name, item, kind, out);
}

/* Sets an attribute that was left out to the default of the op's row. */
static sl_status set_default(attributes *list, const char *name, sl_attr_kind kind, sl_attr *out) {
    const sl_attr_row *row = sl_op_attr(list->op, name);
    if (!row->initial[0])
        return FAIL_AT(list->c, list->where, "%s: attribute '%s' is missing",
                       sl_op_info_of(list->op)->name, name);
    attribute item = {0};
    sl_cursor c = {row->initial, row->initial, row->initial + strlen(row->initial), list->c->err,
                   list->c->depth};
    SL_TRY(read_attribute_value(&c, list->owner, &item));
    return set_given(list, &item, name, kind, out);
}

static void set_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attributes *list = (attributes *)visitor;
    if (list->status != SL_OK || kind == SL_ATTR_handler) return;
    const attribute *item = take(list, name);
    if (item)
        list->status = set_given(list, item, name, kind, value);
    else if (kind !=
             SL_ATTR_graph) /* bodies may be given beside the text; inference asks for them */
        list->status = set_default(list, name, kind, value);
}

/* Sets attrs from "name = value, ..." up to `close`, which is 0 for the end of the text. */
static sl_status read_attributes(sl_cursor *c, sl_op op, char close, sl_graph *owner, void *attrs) {
    const sl_op_info *info = sl_op_info_of(op);
    attributes list = {.visitor = {set_attr}, .c = c, .owner = owner, .op = op, .where = c->at};
    memset(attrs, 0, info->attrs_bytes);
    while (sl_cursor_peek(c) != close || (!close && c->at < c->end)) {
        if (list.count) SL_TRY(sl_cursor_expect(c, ','));
        SL_TRY(read_attribute(c, &list));
    }
    info->visit_attrs(&list.visitor, attrs);
    owner->attr_symbols = list.refs;
    owner->attr_symbol_count = list.ref_count;
    SL_TRY(list.status);
    for (uint32_t i = 0; i < list.count; i++)
        if (!list.items[i].used)
            return FAIL_AT(c, list.items[i].name.at, "%s has no attribute '%.*s'", info->name,
                           (int)list.items[i].name.bytes, list.items[i].name.at);
    return SL_OK;
}

sl_status sl_attrs_parse(sl_op op, const char *text, size_t bytes, sl_graph *owner, void *attrs,
                         sl_error *err) {
    if (!text) text = "";
    sl_cursor c = {text, text, text + bytes, err, 0};
    return read_attributes(&c, op, 0, owner, attrs);
}

/* ---- Statements ---- */

/* %7 is a number, %x and %"x" are names: they never meet. */
typedef struct {
    const char *at; /* in the text */
    const char *name;
    bool numbered;
    sl_value value;
} symbol;

typedef struct {
    sl_cursor c;
    sl_arena scratch;
    sl_graph *graph;
    const sl_custom_ops *customs;
    symbol *symbols;
    uint32_t symbol_count, symbol_capacity;
    uint32_t *slots; /* [2 symbol_capacity]: 1 + a symbol, by the hash of its name */
} parser;

static sl_status read_symbol(parser *p, symbol *out) {
    sl_cursor *c = &p->c;
    *out = (symbol){0};
    if (!sl_cursor_accept(c, '%')) return sl_cursor_unexpected(c, "a value such as %x or %1");
    out->at = c->at - 1;
    const char next = c->at < c->end ? *c->at : 0;
    char *name = NULL;
    if (next == '"') {
        SL_TRY(sl_cursor_quoted(c, &p->scratch, "a name", &name));
    } else {
        sl_slice word;
        out->numbered = isdigit((unsigned char)next);
        if (!out->numbered && !sl_starts_word(next))
            return sl_cursor_unexpected(c, "a name or number");
        if (out->numbered)
            SL_TRY(sl_cursor_number(c, &word));
        else
            SL_TRY(sl_cursor_word(c, "a name", &word));
        int64_t number;
        if (out->numbered) SL_TRY(sl_slice_integer(c, word, 0, UINT32_MAX, &number));
        name = sl_arena_copy_text(&p->scratch, word.at, word.bytes);
        if (!name) return sl_no_memory(c->err, "a name", word.bytes);
    }
    out->name = name;
    return SL_OK;
}

/* Where the symbol is among the slots, or would be. */
static uint32_t slot_of(const parser *p, const symbol *wanted) {
    const uint32_t mask = 2 * p->symbol_capacity - 1;
    const char *name = wanted->name ? wanted->name : ""; /* it has one, which is hard to see */
    uint32_t hash = wanted->numbered;
    for (const char *at = name; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x01000193u;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all bytes are set */
    uint32_t slot = (hash ^ hash >> 16) & mask;
    for (; p->slots[slot]; slot = (slot + 1) & mask) {
        const symbol *known = &p->symbols[p->slots[slot] - 1];
        if (known->numbered == wanted->numbered && strcmp(known->name, name) == 0) break;
    }
    return slot;
}

static const symbol *find_symbol(const parser *p, const symbol *wanted) {
    const uint32_t found = p->symbol_count ? p->slots[slot_of(p, wanted)] : 0;
    return found ? &p->symbols[found - 1] : NULL;
}

static sl_status grow_symbols(parser *p) {
    const uint32_t capacity = p->symbol_capacity ? p->symbol_capacity * 2 : 64;
    symbol *larger = SL_ARENA_NEW_ARRAY(&p->scratch, symbol, capacity);
    uint32_t *slots = SL_ARENA_NEW_ARRAY(&p->scratch, uint32_t, 2 * (size_t)capacity);
    if (!larger || !slots) return sl_no_memory(p->c.err, "symbols", capacity);
    if (p->symbol_count) memcpy(larger, p->symbols, p->symbol_count * sizeof *larger);
    p->symbols = larger;
    p->slots = slots;
    p->symbol_capacity = capacity;
    for (uint32_t i = 0; i < p->symbol_count; i++) slots[slot_of(p, &larger[i])] = i + 1;
    return SL_OK;
}

static sl_status define(parser *p, symbol fresh) {
    if (find_symbol(p, &fresh))
        return FAIL_AT(&p->c, fresh.at, "%%%s is defined twice", fresh.name);
    if (p->symbol_count == p->symbol_capacity) SL_TRY(grow_symbols(p));
    p->symbols[p->symbol_count++] = fresh;
    p->slots[slot_of(p, &fresh)] = p->symbol_count;
    return SL_OK;
}

static sl_status read_value(parser *p, sl_value *out) {
    symbol wanted;
    SL_TRY(read_symbol(p, &wanted));
    const symbol *found = find_symbol(p, &wanted);
    if (!found) return FAIL_AT(&p->c, wanted.at, "%%%s is not defined", wanted.name);
    *out = found->value;
    return SL_OK;
}

/* Of integers of so many bytes, and of bools; not of u64. */
static void integer_range(sl_dtype dtype, size_t bytes, int64_t *low, int64_t *high) {
    const bool is_signed = dtype == SL_DTYPE_i8 || dtype == SL_DTYPE_i16 || dtype == SL_DTYPE_i32 ||
                           dtype == SL_DTYPE_i64;
    const uint32_t bits = (uint32_t)bytes * 8 - (is_signed ? 1 : 0);
    *high = dtype == SL_DTYPE_bool ? 1 : (int64_t)(((uint64_t)1 << bits) - 1);
    *low = is_signed ? -*high - 1 : 0;
}

static sl_status store_element(sl_cursor *c, sl_dtype dtype, unsigned char *out) {
    sl_slice number;
    SL_TRY(sl_cursor_number(c, &number));
    int64_t integer;
    if (dtype == SL_DTYPE_f32) {
        float value;
        SL_TRY(sl_slice_float(c, number, &value));
        memcpy(out, &value, sizeof value);
    } else if (dtype == SL_DTYPE_f64) {
        double value;
        SL_TRY(sl_slice_double(c, number, &value));
        memcpy(out, &value, sizeof value);
    } else if (sl_dtype_infos[dtype].kind == SL_KIND_FLOAT) {
        uint16_t half;
        SL_TRY(sl_slice_half(c, number, dtype, &half));
        memcpy(out, &half, sizeof half);
    } else if (dtype == SL_DTYPE_u64) {
        uint64_t value;
        SL_TRY(sl_slice_unsigned(c, number, &value));
        memcpy(out, &value, sizeof value);
    } else {
        const size_t bytes = sl_dtype_infos[dtype].bytes ? sl_dtype_infos[dtype].bytes : 1;
        int64_t low, high;
        integer_range(dtype, bytes, &low, &high);
        SL_TRY(sl_slice_integer(c, number, low, high, &integer));
        memcpy(out, &integer, bytes); /* little-endian: its low bytes */
    }
    return SL_OK;
}

/* Memory is taken only for as many elements as the rest of the text could spell. */
static sl_status read_elements(parser *p, const sl_type *type, void **out) {
    sl_cursor *c = &p->c;
    const bool complex = sl_dtype_infos[type->dtype].kind == SL_KIND_COMPLEX;
    const sl_dtype dtype = complex ? SL_DTYPE_f32 : type->dtype; /* its parts */
    const size_t each = sl_dtype_infos[dtype].bytes;
    const size_t stride = each ? each : 1;
    const uint64_t count = sl_type_bytes(type) / stride;
    SL_TRY(sl_cursor_expect(c, '='));
    SL_TRY(sl_cursor_expect(c, '{'));
    if (count > (uint64_t)(c->end - c->at))
        return FAIL_AT(c, c->at, "expected %llu elements, but the text ends before",
                       (unsigned long long)count);
    unsigned char *data = sl_arena_alloc(&p->scratch, count * stride + 1, 8);
    if (!data) return sl_no_memory(c->err, "a constant", count * stride);
    for (uint64_t i = 0; i < count; i++) {
        if (i) SL_TRY(sl_cursor_expect(c, ','));
        SL_TRY(store_element(c, dtype, data + i * stride));
    }
    *out = data;
    return sl_cursor_expect(c, '}');
}

static sl_status read_declaration(parser *p, sl_value_kind kind) {
    symbol fresh;
    sl_type type;
    SL_TRY(read_symbol(p, &fresh));
    if (fresh.numbered)
        return FAIL_AT(&p->c, fresh.at, "declared values have names, numbers are for results");
    SL_TRY(sl_cursor_expect(&p->c, ':'));
    SL_TRY(read_type(&p->c, p->graph, &type));
    if (kind == SL_VALUE_CONSTANT) {
        void *data = NULL;
        SL_TRY(read_elements(p, &type, &data));
        fresh.value = sl_graph_constant(p->graph, fresh.name, type, data);
    } else {
        fresh.value = sl_graph_declare(p->graph, kind, fresh.name, type);
    }
    SL_TRY(fail_graph(&p->c, fresh.at, p->graph));
    return define(p, fresh);
}

/* Values and symbols of one statement, of any number. */
typedef struct {
    sl_value *values;
    symbol *symbols; /* of results alone */
    uint32_t count, capacity;
} operands;

static sl_status add_operand(parser *p, operands *list, sl_value value, const symbol *name) {
    if (list->count == SL_MAX_LIST)
        return FAIL_AT(&p->c, p->c.at, "more than %d values", SL_MAX_LIST);
    if (list->count == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
        sl_value *values = SL_ARENA_NEW_ARRAY(&p->scratch, sl_value, capacity);
        symbol *symbols = name ? SL_ARENA_NEW_ARRAY(&p->scratch, symbol, capacity) : NULL;
        if (!values || (name && !symbols)) return sl_no_memory(p->c.err, "operands", capacity);
        if (list->count) memcpy(values, list->values, list->count * sizeof *values);
        if (list->count && name) memcpy(symbols, list->symbols, list->count * sizeof *symbols);
        *list = (operands){values, symbols, list->count, capacity};
    }
    if (name) list->symbols[list->count] = *name;
    list->values[list->count++] = value;
    return SL_OK;
}

static sl_status read_inputs(parser *p, operands *out) {
    SL_TRY(sl_cursor_expect(&p->c, '('));
    while (!sl_cursor_accept(&p->c, ')')) {
        sl_value value;
        if (out->count) SL_TRY(sl_cursor_expect(&p->c, ','));
        SL_TRY(read_value(p, &value));
        SL_TRY(add_operand(p, out, value, NULL));
    }
    return SL_OK;
}

static sl_status check_types(parser *p, const sl_op_info *info, const operands *results) {
    for (uint32_t o = 0; o < results->count; o++) {
        if (o) SL_TRY(sl_cursor_expect(&p->c, ','));
        (void)sl_cursor_peek(&p->c);
        const char *start = p->c.at;
        sl_type type;
        SL_TRY(read_type(&p->c, p->graph, &type));
        type = with_sizes(p->graph, type);
        const sl_type *found = &p->graph->values[results->values[o].v].type;
        char wrong[SL_TYPE_TEXT], right[SL_TYPE_TEXT];
        if (!sl_type_equal(&type, found))
            return FAIL_AT(&p->c, start, "result '%s' of %s is %s, not %s", sl_output_name(info, o),
                           info->name, sl_type_format(found, right, sizeof right),
                           sl_type_format(&type, wrong, sizeof wrong));
    }
    return SL_OK;
}

static sl_status read_results(parser *p, operands *out) {
    do {
        symbol name;
        SL_TRY(read_symbol(p, &name));
        SL_TRY(add_operand(p, out, (sl_value){0}, &name));
    } while (sl_cursor_accept(&p->c, ','));
    return sl_cursor_expect(&p->c, '=');
}

static sl_status read_node(parser *p) {
    sl_cursor *c = &p->c;
    operands results = {0}, inputs = {0};
    SL_TRY(read_results(p, &results));
    sl_slice word;
    SL_TRY(sl_cursor_word(c, "an op", &word));
    const sl_op op = sl_op_find(word.at, word.bytes);
    if (op == SL_OP_COUNT)
        return FAIL_AT(c, word.at, "unknown op '%.*s'", (int)word.bytes, word.at);
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    SL_TRY(read_inputs(p, &inputs));
    const bool braces = sl_cursor_accept(c, '{');
    sl_cursor nothing = {c->text, c->at, c->at, c->err, c->depth};
    SL_TRY(read_attributes(braces ? c : &nothing, op, braces ? '}' : 0, p->graph, attrs));
    if (braces) SL_TRY(sl_cursor_expect(c, '}'));
    sl_graph_append_list(p->graph, op, (sl_values){inputs.count, inputs.values}, attrs,
                         (sl_value_slots){results.count, results.values});
    SL_TRY(fail_graph(c, word.at, p->graph));
    for (uint32_t o = 0; o < results.count; o++) {
        results.symbols[o].value = results.values[o];
        SL_TRY(define(p, results.symbols[o]));
    }
    return sl_cursor_accept(c, ':') ? check_types(p, sl_op_info_of(op), &results) : SL_OK;
}

static sl_status read_output(parser *p) {
    char *name;
    sl_value value;
    const char *start = p->c.at;
    SL_TRY(sl_cursor_quoted(&p->c, &p->scratch, "the quoted name of an output", &name));
    SL_TRY(sl_cursor_expect(&p->c, '='));
    SL_TRY(read_value(p, &value));
    sl_graph_output(p->graph, name, value);
    return fail_graph(&p->c, start, p->graph);
}

static sl_status read_scope(parser *p) {
    char *name;
    const char *start = p->c.at;
    SL_TRY(sl_cursor_quoted(&p->c, &p->scratch, "a quoted scope", &name));
    sl_graph_scope(p->graph, "%s", name);
    return fail_graph(&p->c, start, p->graph);
}

static sl_status read_label(parser *p) {
    char *name;
    SL_TRY(sl_cursor_quoted(&p->c, &p->scratch, "a quoted label", &name));
    name = sl_arena_copy_text(&p->graph->arena, name, strlen(name));
    if (!name) return sl_no_memory(p->c.err, "a label", 0);
    sl_graph_label(p->graph, name);
    return SL_OK;
}

static sl_status read_symbol_size(parser *p) {
    sl_slice name, number;
    int64_t size;
    uint32_t index;
    SL_TRY(sl_cursor_word(&p->c, "the name of a symbol", &name));
    SL_TRY(sl_cursor_expect(&p->c, '='));
    SL_TRY(sl_cursor_number(&p->c, &number));
    SL_TRY(sl_slice_integer(&p->c, number, 1, INT64_C(1) << 48, &size));
    if (sl_graph_find_symbol(p->graph, name.at, name.bytes, &index))
        return FAIL_AT(&p->c, name.at, "symbol '%.*s' is declared twice", (int)name.bytes, name.at);
    char text[64] = {0};
    if (name.bytes >= sizeof text) return FAIL_AT(&p->c, name.at, "a symbol's name is too long");
    memcpy(text, name.at, name.bytes);
    (void)sl_graph_symbol(p->graph, text, size);
    return fail_graph(&p->c, name.at, p->graph);
}

static sl_status read_statement(parser *p) {
    static const struct {
        const char *word;
        sl_value_kind kind;
    } kinds[] = {{"input", SL_VALUE_INPUT},
                 {"weight", SL_VALUE_WEIGHT},
                 {"state", SL_VALUE_STATE},
                 {"experts", SL_VALUE_EXPERTS},
                 {"constant", SL_VALUE_CONSTANT}};
    if (sl_cursor_peek(&p->c) == '%') return read_node(p);
    sl_slice word;
    SL_TRY(sl_cursor_word(&p->c, "a statement or '}'", &word));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (sl_slice_is(word, kinds[i].word)) return read_declaration(p, kinds[i].kind);
    if (sl_slice_is(word, "scope")) return read_scope(p);
    if (sl_slice_is(word, "label")) return read_label(p);
    if (sl_slice_is(word, "symbol")) return read_symbol_size(p);
    if (sl_slice_is(word, "output")) return read_output(p);
    return FAIL_AT(&p->c, word.at,
                   "expected input, weight, state, experts, constant, symbol, scope, label, output "
                   "or a value, found '%.*s'",
                   (int)(word.bytes < 40 ? word.bytes : 40), word.at);
}

static sl_status read_graph(parser *p, const sl_allocator *allocator) {
    sl_cursor *c = &p->c;
    sl_slice word;
    char *name;
    SL_TRY(sl_cursor_word(c, "'graph'", &word));
    if (!sl_slice_is(word, "graph")) return FAIL_AT(c, word.at, "expected 'graph'");
    SL_TRY(sl_cursor_quoted(c, &p->scratch, "the quoted name of the graph", &name));
    SL_TRY(sl_graph_create(name, allocator, &p->graph, c->err));
    p->graph->customs = p->customs;
    SL_TRY(sl_cursor_expect(c, '{'));
    while (!sl_cursor_accept(c, '}')) SL_TRY(read_statement(p));
    return SL_OK;
}

/* A graph inside another, which owns it from then on. */
static sl_status read_body(sl_cursor *c, sl_graph *owner, sl_graph **out) {
    if (c->depth == MAX_DEPTH) return FAIL_AT(c, c->at, "bodies nested deeper than %d", MAX_DEPTH);
    parser p = {.c = *c, .customs = owner->customs};
    p.c.depth++;
    sl_arena_init(&p.scratch, owner->arena.allocator);
    const sl_status status = read_graph(&p, owner->arena.allocator);
    sl_arena_deinit(&p.scratch);
    c->at = p.c.at;
    if (p.graph) sl_graph_own(owner, p.graph);
    *out = p.graph;
    return status;
}

sl_status sl_graph_parse(const char *text, size_t bytes, const sl_allocator *allocator,
                         sl_graph **out, sl_error *err) {
    return sl_graph_parse_using(text, bytes, NULL, allocator, out, err);
}

sl_status sl_graph_parse_using(const char *text, size_t bytes, const sl_custom_ops *customs,
                               const sl_allocator *allocator, sl_graph **out, sl_error *err) {
    if (!text) text = "";
    parser p = {.c = {text, text, text + bytes, err, 0}, .customs = customs};
    sl_arena_init(&p.scratch, allocator);
    sl_status status = read_graph(&p, allocator);
    (void)sl_cursor_peek(&p.c);
    if (status == SL_OK && p.c.at != p.c.end)
        status = sl_cursor_unexpected(&p.c, "the end of the text");
    sl_arena_deinit(&p.scratch);
    if (status != SL_OK)
        sl_graph_destroy(p.graph);
    else
        *out = p.graph;
    return status;
}
