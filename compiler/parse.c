/* parse.c - Text into graphs.  Total: any bytes give a graph or an error with its position. */
#include "compiler/graph.h"
#include "core/codec.h"
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading characters ---- */

typedef struct {
    const char *at;
    size_t bytes;
} slice;

typedef struct {
    const char *text, *at, *end;
    sl_error *err;
} cursor;

/* Explains what is wrong at `where`, with its position. */
__attribute__((format(printf, 3, 4))) static void explain(const cursor *c, const char *where,
                                                          const char *format, ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    size_t line = 1, column = 1;
    for (const char *p = c->text; p < where; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    (void)!sl_fail(c->err, SL_FORMAT, "line %zu, column %zu: %s", line, column, message);
}
#define FAIL_AT(c, where, ...) (explain((c), (where), __VA_ARGS__), SL_FORMAT)

/* Passes on a mistake made by the statement at `where`, with its position. */
static sl_status fail_graph(const cursor *c, const char *where, const sl_graph *graph) {
    if (graph->error.status == SL_OK) return SL_OK;
    explain(c, where, "%s", graph->error.message);
    if (c->err) c->err->status = graph->error.status;
    return graph->error.status;
}

static void skip_blank(cursor *c) {
    while (c->at < c->end && (isspace((unsigned char)*c->at) || *c->at == '#')) {
        if (*c->at == '#')
            while (c->at < c->end && *c->at != '\n') c->at++;
        else
            c->at++;
    }
}

static char peek(cursor *c) {
    skip_blank(c);
    return c->at < c->end ? *c->at : 0;
}

static bool accept(cursor *c, char wanted) {
    if (peek(c) != wanted || c->at == c->end) return false;
    c->at++;
    return true;
}

static sl_status fail_expected(cursor *c, const char *wanted) {
    skip_blank(c);
    if (c->at == c->end) return FAIL_AT(c, c->at, "expected %s, found the end of the text", wanted);
    const unsigned char found = (unsigned char)*c->at;
    if (!isprint(found)) return FAIL_AT(c, c->at, "expected %s, found byte 0x%02x", wanted, found);
    return FAIL_AT(c, c->at, "expected %s, found '%c'", wanted, found);
}

static sl_status expect(cursor *c, char wanted) {
    if (accept(c, wanted)) return SL_OK;
    const char text[] = {'\'', wanted, '\'', 0};
    return fail_expected(c, text);
}

/* ---- Words, names and numbers ---- */

static bool starts_word(char c) {
    return isalpha((unsigned char)c) || c == '_';
}

static sl_status read_word(cursor *c, const char *what, slice *out) {
    const char first = peek(c);
    *out = (slice){c->at, 0};
    if (!starts_word(first)) return fail_expected(c, what);
    while (c->at < c->end && (isalnum((unsigned char)*c->at) || *c->at == '_' || *c->at == '.'))
        c->at++;
    out->bytes = (size_t)(c->at - out->at);
    return SL_OK;
}

static bool is_word(slice word, const char *text) {
    return word.bytes == strlen(text) && memcmp(word.at, text, word.bytes) == 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What follows a backslash: one of " \ or xNN; never NUL. */
static sl_status read_escape(cursor *c, char *out) {
    const char *start = c->at;
    const size_t left = (size_t)(c->end - c->at);
    if (left >= 1 && (*c->at == '"' || *c->at == '\\')) {
        *out = *c->at++;
        return SL_OK;
    }
    if (left >= 3 && *c->at == 'x' && hex_digit(c->at[1]) >= 0 && hex_digit(c->at[2]) >= 0) {
        *out = (char)(hex_digit(c->at[1]) * 16 + hex_digit(c->at[2]));
        c->at += 3;
        if (*out) return SL_OK;
    }
    return FAIL_AT(c, start, "expected \\\", \\\\ or \\x01 to \\xff in a string");
}

static sl_status read_quoted(cursor *c, sl_arena *arena, const char *what, char **out) {
    if (peek(c) != '"') return fail_expected(c, what);
    const char *start = c->at++, *close = c->at;
    while (close < c->end && *close != '"') close += *close == '\\' && c->end - close > 1 ? 2 : 1;
    char *text = sl_arena_alloc(arena, (size_t)(close - start) + 1, 1);
    if (!text) return sl_no_memory(c->err, "a string", (uint64_t)(close - start));
    for (size_t n = 0; c->at < c->end && *c->at != '"'; n++) {
        if (*c->at == 0) return FAIL_AT(c, c->at, "a string cannot hold a zero byte");
        text[n] = *c->at++;
        if (text[n] == '\\') SL_TRY(read_escape(c, &text[n]));
    }
    if (c->at == c->end) return FAIL_AT(c, start, "this string is not closed");
    c->at++;
    *out = text;
    return SL_OK;
}

enum { MAX_NUMBER = 63 };
static sl_status read_number(cursor *c, slice *out) {
    (void)peek(c);
    out->at = c->at;
    while (c->at < c->end && (isalnum((unsigned char)*c->at) || (*c->at && strchr("+-.:", *c->at))))
        c->at++;
    out->bytes = (size_t)(c->at - out->at);
    if (out->bytes == 0) return fail_expected(c, "a number");
    if (out->bytes > MAX_NUMBER) return FAIL_AT(c, out->at, "a number of %zu digits", out->bytes);
    return SL_OK;
}

static sl_status to_integer(const cursor *c, slice number, int64_t least, int64_t most,
                            int64_t *out) {
    const bool negative = number.at[0] == '-';
    int64_t value = 0;
    bool fits = number.bytes > negative;
    for (size_t i = negative; fits && i < number.bytes; i++) {
        const char digit = number.at[i];
        fits = digit >= '0' && digit <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, digit - '0', &value);
    }
    *out = negative ? -value : value;
    if (fits && *out >= least && *out <= most) return SL_OK;
    return FAIL_AT(c, number.at, "expected an integer from %lld to %lld, found '%.*s'",
                   (long long)least, (long long)most, (int)number.bytes, number.at);
}

/* The bits of a NaN, written as "nan:" and hexadecimal digits. */
static bool to_nan_bits(slice number, uint32_t *out) {
    if (number.bytes < 5 || number.bytes > 12 || memcmp(number.at, "nan:", 4) != 0) return false;
    *out = 0;
    for (size_t i = 4; i < number.bytes; i++) {
        if (hex_digit(number.at[i]) < 0) return false;
        *out = *out * 16 + (uint32_t)hex_digit(number.at[i]);
    }
    return true;
}

static sl_status to_float(const cursor *c, slice number, float *out) {
    uint32_t bits;
    if (to_nan_bits(number, &bits)) {
        memcpy(out, &bits, sizeof bits);
        if (isnan(*out)) return SL_OK;
        return FAIL_AT(c, number.at, "these are not the bits of a NaN");
    }
    char text[MAX_NUMBER + 1] = {0}, *stop = text;
    memcpy(text, number.at, number.bytes);
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return sl_no_memory(c->err, "a locale", 0);
    *out = strtof_l(text, &stop, plain);
    freelocale(plain);
    if (*stop == 0 && (!isinf(*out) || strstr(text, "inf"))) return SL_OK;
    return FAIL_AT(c, number.at, "expected a number that fits f32, found '%s'", text);
}

/* f16 or bf16. */
static sl_status to_half(const cursor *c, slice number, sl_dtype dtype, uint16_t *out) {
    const bool is_f16 = dtype == SL_DTYPE_f16;
    float value;
    uint32_t bits;
    if (to_nan_bits(number, &bits) && bits <= UINT16_MAX) {
        *out = (uint16_t)bits;
        if (isnan(is_f16 ? sl_f32_from_f16(*out) : sl_f32_from_bf16(*out))) return SL_OK;
    }
    SL_TRY(to_float(c, number, &value));
    *out = is_f16 ? sl_f16_from_f32(value) : sl_bf16_from_f32(value);
    return SL_OK;
}

/* ---- Types and attributes ---- */

static sl_status read_dims(cursor *c, sl_dims *out) {
    *out = (sl_dims){0};
    SL_TRY(expect(c, '['));
    while (!accept(c, ']')) {
        if (out->rank) SL_TRY(expect(c, ','));
        slice number;
        SL_TRY(read_number(c, &number));
        if (out->rank == SL_MAX_RANK)
            return FAIL_AT(c, number.at, "more than %d entries in a list", SL_MAX_RANK);
        SL_TRY(to_integer(c, number, -1, INT64_MAX, &out->dims[out->rank++]));
    }
    return SL_OK;
}

static sl_status read_type(cursor *c, sl_type *out) {
    slice word;
    SL_TRY(read_word(c, "an element type", &word));
    if (!sl_dtype_find(word.at, word.bytes, &out->dtype))
        return FAIL_AT(c, word.at, "unknown element type '%.*s'", (int)word.bytes, word.at);
    SL_TRY(read_dims(c, &out->shape));
    sl_error inner;
    if (sl_type_check(out, "this type", &inner) == SL_OK) return SL_OK;
    return FAIL_AT(c, word.at, "%s", inner.message);
}

typedef struct {
    slice name, number; /* the number is empty when a list was given */
    sl_dims list;
    bool used;
} attribute;

/* Attributes as written, and the visitor that hands them to an op. */
enum { MAX_ATTRIBUTES = 16 };
typedef struct {
    sl_attr_visitor visitor; /* first */
    cursor *c;
    const char *where; /* for what is missing */
    attribute items[MAX_ATTRIBUTES];
    uint32_t count;
    sl_status status;
} attributes;

static sl_status read_attribute(cursor *c, attributes *list) {
    attribute item = {0};
    SL_TRY(read_word(c, "the name of an attribute", &item.name));
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].name.bytes == item.name.bytes &&
            memcmp(list->items[i].name.at, item.name.at, item.name.bytes) == 0)
            return FAIL_AT(c, item.name.at, "attribute '%.*s' is given twice", (int)item.name.bytes,
                           item.name.at);
    SL_TRY(expect(c, '='));
    if (peek(c) == '[')
        SL_TRY(read_dims(c, &item.list));
    else
        SL_TRY(read_number(c, &item.number));
    if (list->count == MAX_ATTRIBUTES) return FAIL_AT(c, item.name.at, "too many attributes");
    list->items[list->count++] = item;
    return SL_OK;
}

/* The attribute of that name, marked as used; NULL when it was left out. */
static attribute *take(attributes *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++)
        if (is_word(list->items[i].name, name)) {
            list->items[i].used = true;
            return &list->items[i];
        }
    return NULL;
}

/* The same for an attribute that is a number. */
static attribute *take_number(attributes *list, const char *name) {
    attribute *item = list->status == SL_OK ? take(list, name) : NULL;
    if (!item || item->number.bytes) return item;
    list->status = FAIL_AT(list->c, item->name.at, "attribute '%s' is a number, not a list", name);
    return NULL;
}

static void set_f32(sl_attr_visitor *visitor, const char *name, sl_attr_f32 *value) {
    attributes *list = (attributes *)visitor;
    const attribute *item = take_number(list, name);
    *value = 0;
    if (item) list->status = to_float(list->c, item->number, value);
}

static void set_u32(sl_attr_visitor *visitor, const char *name, sl_attr_u32 *value) {
    attributes *list = (attributes *)visitor;
    const attribute *item = take_number(list, name);
    int64_t wide = 0;
    if (item) list->status = to_integer(list->c, item->number, 0, UINT32_MAX, &wide);
    *value = (uint32_t)wide;
}

static void set_dims(sl_attr_visitor *visitor, const char *name, sl_attr_dims *value) {
    attributes *list = (attributes *)visitor;
    const attribute *item = list->status == SL_OK ? take(list, name) : NULL;
    *value = item ? item->list : (sl_dims){0};
    if (list->status != SL_OK) return;
    if (!item)
        list->status = FAIL_AT(list->c, list->where, "attribute '%s' is missing", name);
    else if (item->number.bytes)
        list->status =
            FAIL_AT(list->c, item->name.at, "attribute '%s' is a list, not a number", name);
}

/* Sets attrs from "name = value, ..." up to `close`, which is 0 for the end of the text. */
static sl_status read_attributes(cursor *c, sl_op op, char close, void *attrs) {
    const sl_op_info *info = sl_op_info_of(op);
    attributes list = {.visitor = {set_f32, set_u32, set_dims}, .c = c, .where = c->at};
    memset(attrs, 0, info->attrs_bytes);
    while (peek(c) != close || (!close && c->at < c->end)) {
        if (list.count) SL_TRY(expect(c, ','));
        SL_TRY(read_attribute(c, &list));
    }
    info->visit_attrs(&list.visitor, attrs);
    SL_TRY(list.status);
    for (uint32_t i = 0; i < list.count; i++)
        if (!list.items[i].used)
            return FAIL_AT(c, list.items[i].name.at, "%s has no attribute '%.*s'", info->name,
                           (int)list.items[i].name.bytes, list.items[i].name.at);
    return SL_OK;
}

sl_status sl_attrs_parse(sl_op op, const char *text, size_t bytes, void *attrs, sl_error *err) {
    if (!text) text = "";
    cursor c = {text, text, text + bytes, err};
    return read_attributes(&c, op, 0, attrs);
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
    cursor c;
    sl_arena scratch;
    sl_graph *graph;
    symbol *symbols;
    uint32_t symbol_count, symbol_capacity;
} parser;

static sl_status read_symbol(parser *p, symbol *out) {
    cursor *c = &p->c;
    *out = (symbol){0};
    if (!accept(c, '%')) return fail_expected(c, "a value such as %x or %1");
    out->at = c->at - 1;
    const char next = c->at < c->end ? *c->at : 0;
    char *name = NULL;
    if (next == '"') {
        SL_TRY(read_quoted(c, &p->scratch, "a name", &name));
    } else {
        slice word;
        out->numbered = isdigit((unsigned char)next);
        if (!out->numbered && !starts_word(next)) return fail_expected(c, "a name or number");
        if (out->numbered)
            SL_TRY(read_number(c, &word));
        else
            SL_TRY(read_word(c, "a name", &word));
        int64_t number;
        if (out->numbered) SL_TRY(to_integer(c, word, 0, UINT32_MAX, &number));
        name = sl_arena_copy_text(&p->scratch, word.at, word.bytes);
        if (!name) return sl_no_memory(c->err, "a name", word.bytes);
    }
    out->name = name;
    return SL_OK;
}

static const symbol *find_symbol(const parser *p, const symbol *wanted) {
    for (uint32_t i = 0; i < p->symbol_count; i++)
        if (p->symbols[i].numbered == wanted->numbered &&
            strcmp(p->symbols[i].name, wanted->name) == 0)
            return &p->symbols[i];
    return NULL;
}

static sl_status define(parser *p, symbol fresh) {
    if (find_symbol(p, &fresh))
        return FAIL_AT(&p->c, fresh.at, "%%%s is defined twice", fresh.name);
    if (p->symbol_count == p->symbol_capacity) {
        const uint32_t capacity = p->symbol_capacity ? p->symbol_capacity * 2 : 64;
        symbol *larger = SL_ARENA_NEW_ARRAY(&p->scratch, symbol, capacity);
        if (!larger) return sl_no_memory(p->c.err, "symbols", capacity);
        if (p->symbol_count) memcpy(larger, p->symbols, p->symbol_count * sizeof *larger);
        p->symbols = larger;
        p->symbol_capacity = capacity;
    }
    p->symbols[p->symbol_count++] = fresh;
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

static sl_status store_element(cursor *c, sl_dtype dtype, unsigned char *out) {
    slice number;
    SL_TRY(read_number(c, &number));
    int64_t integer;
    if (dtype == SL_DTYPE_f32) {
        float value;
        SL_TRY(to_float(c, number, &value));
        memcpy(out, &value, sizeof value);
    } else if (sl_dtype_infos[dtype].kind == SL_KIND_FLOAT) {
        uint16_t half;
        SL_TRY(to_half(c, number, dtype, &half));
        memcpy(out, &half, sizeof half);
    } else if (dtype == SL_DTYPE_i32) {
        SL_TRY(to_integer(c, number, INT32_MIN, INT32_MAX, &integer));
        const int32_t value = (int32_t)integer;
        memcpy(out, &value, sizeof value);
    } else {
        SL_TRY(to_integer(c, number, 0, dtype == SL_DTYPE_bool ? 1 : UINT8_MAX, &integer));
        *out = (unsigned char)integer;
    }
    return SL_OK;
}

/* Memory is taken only for as many elements as the rest of the text could spell. */
static sl_status read_elements(parser *p, const sl_type *type, void **out) {
    cursor *c = &p->c;
    const size_t each = sl_dtype_infos[type->dtype].bytes;
    const size_t stride = each ? each : 1;
    const uint64_t count = sl_type_bytes(type) / stride;
    SL_TRY(expect(c, '='));
    SL_TRY(expect(c, '{'));
    if (count > (uint64_t)(c->end - c->at))
        return FAIL_AT(c, c->at, "expected %llu elements, but the text ends before",
                       (unsigned long long)count);
    unsigned char *data = sl_arena_alloc(&p->scratch, count * stride, 8);
    if (!data) return sl_no_memory(c->err, "a constant", count * stride);
    for (uint64_t i = 0; i < count; i++) {
        if (i) SL_TRY(expect(c, ','));
        SL_TRY(store_element(c, type->dtype, data + i * stride));
    }
    *out = data;
    return expect(c, '}');
}

static sl_status read_declaration(parser *p, sl_value_kind kind) {
    symbol fresh;
    sl_type type;
    SL_TRY(read_symbol(p, &fresh));
    if (fresh.numbered)
        return FAIL_AT(&p->c, fresh.at, "declared values have names, numbers are for results");
    SL_TRY(expect(&p->c, ':'));
    SL_TRY(read_type(&p->c, &type));
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

/* As many values between parentheses as the op takes. */
static sl_status read_inputs(parser *p, const sl_op_info *info, sl_value *inputs) {
    const char *start = p->c.at;
    uint32_t count = 0;
    SL_TRY(expect(&p->c, '('));
    while (!accept(&p->c, ')')) {
        if (count) SL_TRY(expect(&p->c, ','));
        sl_value value;
        SL_TRY(read_value(p, &value));
        if (count < info->input_count) inputs[count] = value;
        count++;
    }
    if (count != info->input_count)
        return FAIL_AT(&p->c, start, "%s takes %u inputs, found %u", info->name, info->input_count,
                       count);
    return SL_OK;
}

static sl_status check_types(parser *p, const sl_op_info *info, const sl_value *outputs) {
    for (uint32_t o = 0; o < info->output_count; o++) {
        if (o) SL_TRY(expect(&p->c, ','));
        (void)peek(&p->c);
        const char *start = p->c.at;
        sl_type type;
        SL_TRY(read_type(&p->c, &type));
        const sl_type *found = &p->graph->values[outputs[o].v].type;
        char wrong[SL_TYPE_TEXT], right[SL_TYPE_TEXT];
        if (!sl_type_equal(&type, found))
            return FAIL_AT(&p->c, start, "result '%s' of %s is %s, not %s", info->output_names[o],
                           info->name, sl_type_format(found, right, sizeof right),
                           sl_type_format(&type, wrong, sizeof wrong));
    }
    return SL_OK;
}

static sl_status read_node(parser *p) {
    cursor *c = &p->c;
    symbol results[SL_MAX_OUTPUTS];
    uint32_t count = 0;
    do {
        if (count == SL_MAX_OUTPUTS)
            return FAIL_AT(c, c->at, "more than %d results", SL_MAX_OUTPUTS);
        SL_TRY(read_symbol(p, &results[count++]));
    } while (accept(c, ','));
    SL_TRY(expect(c, '='));
    slice word;
    SL_TRY(read_word(c, "an op", &word));
    const sl_op op = sl_op_find(word.at, word.bytes);
    if (op == SL_OP_COUNT)
        return FAIL_AT(c, word.at, "unknown op '%.*s'", (int)word.bytes, word.at);
    const sl_op_info *info = sl_op_info_of(op);
    if (count != info->output_count)
        return FAIL_AT(c, results[0].at, "%s has %u results, found %u", info->name,
                       info->output_count, count);
    sl_value inputs[SL_MAX_INPUTS], outputs[SL_MAX_OUTPUTS];
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    SL_TRY(read_inputs(p, info, inputs));
    const bool braces = accept(c, '{');
    cursor nothing = {c->text, c->at, c->at, c->err};
    SL_TRY(read_attributes(braces ? c : &nothing, op, braces ? '}' : 0, attrs));
    if (braces) SL_TRY(expect(c, '}'));
    sl_graph_append(p->graph, op, inputs, attrs, outputs);
    SL_TRY(fail_graph(c, word.at, p->graph));
    for (uint32_t o = 0; o < count; o++) {
        results[o].value = outputs[o];
        SL_TRY(define(p, results[o]));
    }
    return accept(c, ':') ? check_types(p, info, outputs) : SL_OK;
}

static sl_status read_output(parser *p) {
    char *name;
    sl_value value;
    const char *start = p->c.at;
    SL_TRY(read_quoted(&p->c, &p->scratch, "the quoted name of an output", &name));
    SL_TRY(expect(&p->c, '='));
    SL_TRY(read_value(p, &value));
    sl_graph_output(p->graph, name, value);
    return fail_graph(&p->c, start, p->graph);
}

static sl_status read_scope(parser *p) {
    char *name;
    const char *start = p->c.at;
    SL_TRY(read_quoted(&p->c, &p->scratch, "a quoted scope", &name));
    sl_graph_scope(p->graph, "%s", name);
    return fail_graph(&p->c, start, p->graph);
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
    if (peek(&p->c) == '%') return read_node(p);
    slice word;
    SL_TRY(read_word(&p->c, "a statement or '}'", &word));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_word(word, kinds[i].word)) return read_declaration(p, kinds[i].kind);
    if (is_word(word, "scope")) return read_scope(p);
    if (is_word(word, "output")) return read_output(p);
    return FAIL_AT(&p->c, word.at,
                   "expected input, weight, state, experts, constant, scope, output or a value, "
                   "found '%.*s'",
                   (int)(word.bytes < 40 ? word.bytes : 40), word.at);
}

static sl_status read_graph(parser *p, const sl_allocator *allocator) {
    cursor *c = &p->c;
    slice word;
    char *name;
    SL_TRY(read_word(c, "'graph'", &word));
    if (!is_word(word, "graph")) return FAIL_AT(c, word.at, "expected 'graph'");
    SL_TRY(read_quoted(c, &p->scratch, "the quoted name of the graph", &name));
    SL_TRY(sl_graph_create(name, allocator, &p->graph, c->err));
    SL_TRY(expect(c, '{'));
    while (!accept(c, '}')) SL_TRY(read_statement(p));
    (void)peek(c);
    return c->at == c->end ? SL_OK : fail_expected(c, "the end of the text");
}

sl_status sl_graph_parse(const char *text, size_t bytes, const sl_allocator *allocator,
                         sl_graph **out, sl_error *err) {
    if (!text) text = "";
    parser p = {.c = {text, text, text + bytes, err}};
    sl_arena_init(&p.scratch, allocator);
    const sl_status status = read_graph(&p, allocator);
    sl_arena_deinit(&p.scratch);
    if (status != SL_OK)
        sl_graph_destroy(p.graph);
    else
        *out = p.graph;
    return status;
}
