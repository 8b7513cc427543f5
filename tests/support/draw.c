#include "tests/support/draw.h"
#include "tests/support/draw_parts.h"
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

draw_counts draw_counted;

static const struct {
    sl_op op;
    const char *operands, *attrs;
} rows[] = {
#define ROW(OP, OPERANDS, ATTRS) {SL_OP_##OP, OPERANDS, ATTRS},
#define CHAIN(NODES)
#define FINITE(OP)
#define NOT_DRAWN(OP, REASON)
#include "tests/support/vocabulary.def"
};
static const struct {
    const char *nodes;
} chains[] = {
#define ROW(OP, OPERANDS, ATTRS)
#define CHAIN(NODES) {NODES},
#define FINITE(OP)
#define NOT_DRAWN(OP, REASON)
#include "tests/support/vocabulary.def"
#define RULE(NAME, PARTS, WHOLE) {PARTS},
#include "compiler/passes/patterns.def"
};

const char *draw_reason(sl_op op) {
    static const struct {
        sl_op op;
        const char *reason;
    } reasons[] = {
#define ROW(OP, OPERANDS, ATTRS)
#define CHAIN(NODES)
#define FINITE(OP)
#define NOT_DRAWN(OP, REASON) {SL_OP_##OP, REASON},
#include "tests/support/vocabulary.def"
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].op == op) return reasons[i].reason;
    return NULL;
}

/* ---- operands of a row ---- */

typedef struct {
    char letter; /* of a class; 0: a dtype of its own */
    sl_dtype dtype;
    const char *dims; /* behind the bracket */
    bool thin;
    char kind;         /* 0: anything */
    const char *limit; /* of kind */
} operand;

static const char *parse_operand(const char *text, operand *out) {
    const char *bracket = strchr(text, '[');
    assert_non_null(bracket);
    *out = (operand){.dims = bracket + 1};
    if (bracket == text + 1)
        out->letter = *text;
    else if (!sl_dtype_find(text, (size_t)(bracket - text), &out->dtype))
        fail_msg("no type in '%s'", text);
    if (*out->dims == '~') out->thin = true, out->dims++;
    const char *end = strchr(bracket, ']') + 1;
    if (*end && *end != ' ') out->kind = *end++;
    out->limit = end;
    while (*end && *end != ' ') end++;
    while (*end == ' ') end++;
    return end;
}

static uint32_t dims_in(const char *dims) {
    uint32_t count = *dims != ']';
    for (; *dims != ']'; dims++) count += *dims == ',';
    return count;
}

static int64_t limit_of(const operand *o, draw_names *names) {
    const char *text = o->limit;
    return isalnum(*text) || *text == '(' ? draw_expression(NULL, names, &text) : 0;
}

/* The shape that the names stand for; g draws those that are open.  False: it cannot be. */
static bool shape_of(generator *g, draw_names *names, const operand *o, sl_dims *out) {
    const char *text = o->dims;
    *out = (sl_dims){0};
    while (*text != ']') {
        if (*text == '@') {
            if (names->prefix < 0 && !g) return false;
            if (names->prefix < 0) {
                names->prefix = (int)draw(g, 3);
                for (int d = 0; d < names->prefix; d++)
                    names->lead[d] = draw(g, 50) ? 1 + draw(g, 5) : 0;
            }
            for (int d = 0; d < names->prefix; d++) out->dims[out->rank++] = names->lead[d];
            text++;
        } else {
            const int64_t size = draw_expression(g, names, &text);
            if (size < 0) return false;
            out->dims[out->rank++] = size;
        }
        if (*text == ',') text++;
        if (out->rank > 5) return false;
    }
    return sl_dims_tail(out, 0) <= DRAW_ELEMENTS;
}

/* Gives open letters sizes so that the expression is `size`. */
static bool solve(generator *g, draw_names *names, const char *text, int64_t size) {
    char open[8];
    int count = 0;
    for (const char *p = text; *p != ',' && *p != ']'; p++) {
        const bool letter = isalpha(*p) && names->sizes[(unsigned char)*p] == DRAW_UNBOUND;
        if (letter && (count == 0 || open[count - 1] != *p) && count < 7) open[count++] = *p;
    }
    for (int i = 0; i + 1 < count; i++) names->sizes[(unsigned char)open[i]] = 1 + draw(g, 3);
    const char *p = text;
    if (count == 0) return draw_expression(NULL, names, &p) == size;
    int64_t *last = &names->sizes[(unsigned char)open[count - 1]];
    for (*last = 0; *last <= size; ++*last) {
        p = text;
        if (draw_expression(NULL, names, &p) == size) return true;
    }
    return false;
}

static bool match_dims(generator *g, draw_names *names, const operand *o, const sl_dims *shape) {
    const char *text = o->dims;
    const bool open = memchr(text, '@', (size_t)(strchr(text, ']') - text)) != NULL;
    const uint32_t count = dims_in(text) - open;
    if (open ? shape->rank < count : shape->rank != count) return false;
    const int prefix = (int)(shape->rank - count);
    uint32_t d = 0;
    for (; *text != ']'; text += *text == ',') {
        if (*text == '@') {
            if (names->prefix >= 0 && names->prefix != prefix) return false;
            for (int i = 0; i < prefix; i++, d++) {
                if (names->prefix >= 0 && names->lead[i] != shape->dims[d]) return false;
                names->lead[i] = shape->dims[d];
            }
            names->prefix = prefix;
            text++;
        } else {
            if (!solve(g, names, text, shape->dims[d++])) return false;
            while (*text != ',' && *text != ']') text++;
        }
    }
    return true;
}

static bool broadcasts(const sl_dims *from, const sl_dims *to) {
    if (from->rank > to->rank) return false;
    for (uint32_t d = 0; d < from->rank; d++) {
        const int64_t wanted = to->dims[to->rank - from->rank + d];
        if (from->dims[d] != 1 && from->dims[d] != wanted) return false;
    }
    return true;
}

/* Whether a value can be the operand; names are as they must be then. */
static bool matches(generator *g, draw_names *names, const operand *o, sl_value value) {
    const sl_eval_tensor *tensor = &g->drawn->plain.tensors[value.v];
    const sl_type *type = &g->graph->values[value.v].type;
    draw_names trial = *names;
    if (o->letter) {
        sl_dtype *dtype = &trial.dtypes[(unsigned char)o->letter];
        const sl_dtype *member = draw_class(o->letter);
        while (*member != type->dtype && *member != SL_DTYPE_COUNT) member++;
        if (*member == SL_DTYPE_COUNT || (*dtype != SL_DTYPE_COUNT && *dtype != type->dtype))
            return false;
        *dtype = type->dtype;
    } else if (o->dtype != type->dtype) {
        return false;
    }
    sl_dims full;
    if (o->thin && shape_of(NULL, &trial, o, &full)) {
        if (!broadcasts(&type->shape, &full)) return false;
    } else if (!match_dims(g, &trial, o, &type->shape)) {
        return false;
    }
    if (o->kind && (!tensor->data || !draw_fits(tensor, o->kind, limit_of(o, &trial))))
        return false;
    *names = trial;
    return true;
}

static void make_thin(generator *g, sl_dims *shape) {
    const uint32_t drop = draw(g, 2) ? draw(g, shape->rank + 1) : 0;
    for (uint32_t d = 0; d + drop < shape->rank; d++)
        shape->dims[d] = draw(g, 4) ? shape->dims[d + drop] : 1;
    shape->rank -= drop;
}

/* ---- values ---- */

sl_value draw_declare(generator *g, sl_value_kind kind, const sl_type *type, void *bytes) {
    static const char *const letters[] = {"x", "w", "c", "s"};
    char name[16];
    (void)snprintf(name, sizeof name, "%s%u", letters[kind], g->declared++);
    const sl_value value = kind == SL_VALUE_CONSTANT
                               ? sl_graph_constant(g->graph, name, *type, bytes)
                               : sl_graph_declare(g->graph, kind, name, *type);
    if (value.v == 0) fail_msg("%s", g->graph->error.message);
    if (kind != SL_VALUE_CONSTANT) g->drawn->bytes[value.v] = bytes;
    reference_declare(&g->drawn->plain, value, bytes);
    return value;
}

static void keep(generator *g, sl_value value) {
    const sl_value_info *info = &g->graph->values[value.v];
    if (info->root.v || info->kind == SL_VALUE_WEIGHT || g->pooled == DRAWN_VALUES) return;
    g->pool[g->pooled++] = value;
}

static sl_value some_value(generator *g) {
    const uint32_t back = draw(g, 3) ? draw(g, 8) : draw(g, g->pooled);
    return g->pool[g->pooled - 1 - (back < g->pooled ? back : g->pooled - 1)];
}

/* An earlier value of that type, cut to the shape. */
static bool cut(generator *g, const sl_type *type, sl_value *out) {
    const int64_t wanted = sl_type_elements(type);
    for (int tries = 0; tries < 6 && g->pooled && wanted; tries++) {
        const sl_value value = some_value(g);
        const sl_type *from = &g->graph->values[value.v].type;
        const int64_t have = sl_type_elements(from);
        char text[256];
        if (from->dtype != type->dtype || have < wanted) continue;
        (void)snprintf(text, sizeof text, "shape = [%lld]", (long long)have);
        sl_value flat, part;
        if (!draw_append(g, SL_OP_reshape, (sl_values){1, &value}, text, 0, &flat)) return false;
        (void)snprintf(text, sizeof text, "axis = 0, start = %lld, length = %lld",
                       (long long)draw(g, (uint32_t)(have - wanted + 1)), (long long)wanted);
        if (!draw_append(g, SL_OP_slice, (sl_values){1, &flat}, text, 0, &part)) return false;
        char *at = text + sprintf(text, "shape = [");
        for (uint32_t d = 0; d < type->shape.rank; d++)
            at += sprintf(at, "%s%lld", d ? ", " : "", (long long)type->shape.dims[d]);
        (void)sprintf(at, "]");
        return draw_append(g, SL_OP_reshape, (sl_values){1, &part}, text, 0, out);
    }
    return false;
}

static sl_value fresh(generator *g, const sl_type *type, char kind, int64_t limit) {
    const bool panel = sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL;
    sl_value_kind as = draw(g, 4) ? SL_VALUE_INPUT : SL_VALUE_CONSTANT;
    if (panel || (type->dtype == SL_DTYPE_f32 && draw(g, 12) == 0)) as = SL_VALUE_WEIGHT;
    if (g->body) as = SL_VALUE_CONSTANT;
    if (as == SL_VALUE_WEIGHT && !kind) kind = 'n'; /* nothing odd */
    const sl_value value = draw_declare(g, as, type, draw_bytes(g, type, kind, limit));
    if (!panel) keep(g, value);
    return value;
}

static sl_value rows_of_codes(generator *g, const sl_type *type) {
    sl_type wide = *type;
    wide.dtype = SL_DTYPE_f32;
    sl_value x = {0}, out = {0};
    if (!cut(g, &wide, &x)) x = fresh(g, &wide, 0, 0);
    if (!draw_append(g, SL_OP_quantise, (sl_values){1, &x}, "", 0, &out)) return (sl_value){0};
    return out;
}

static sl_value draw_operand(generator *g, draw_names *names, const operand *o, bool state) {
    for (int tries = 0;
         tries < 10 && g->pooled && !state && !strchr("zpdc", o->kind ? o->kind : 'a'); tries++) {
        const sl_value value = some_value(g);
        if (draw(g, 6) && matches(g, names, o, value)) return value;
    }
    sl_type type = {.dtype = o->letter ? draw_dtype(g, names, o->letter) : o->dtype};
    if (!shape_of(g, names, o, &type.shape)) return (sl_value){0};
    if (o->thin) make_thin(g, &type.shape);
    const bool panel = sl_dtype_infos[type.dtype].kind == SL_KIND_PANEL;
    const bool empty = sl_type_elements(&type) == 0;
    if (empty && (panel || type.dtype == SL_DTYPE_a8)) return (sl_value){0};
    if (panel && g->body) return (sl_value){0};
    if (type.dtype == SL_DTYPE_a8) return rows_of_codes(g, &type);
    sl_value out = {0};
    if (state) {
        if (g->body || empty) return out;
        return draw_declare(g, SL_VALUE_STATE, &type, draw_bytes(g, &type, 0, 0));
    }
    const int64_t limit = o->kind ? limit_of(o, names) : 0;
    if (strchr("<%p", o->kind ? o->kind : 'a') && limit <= 0 && !empty) return out;
    if (o->kind == 'p' && sl_type_elements(&type) > limit) return out;
    if (!o->kind && !panel && draw(g, 2) && cut(g, &type, &out)) return out;
    return fresh(g, &type, o->kind, limit);
}

/* ---- nodes ---- */

/* Whether a result is too large for sums in f32, or, mostly, out of the ordinary where its operands
 * were not. */
static bool is_wild(generator *g, const sl_node *node) {
    bool tame = true, ordinary = true;
    for (uint32_t o = 0; o < node->input_count + node->output_count; o++) {
        const bool input = o < node->input_count;
        const uint32_t v = input ? node->inputs[o].v : node->outputs[o - node->input_count].v;
        const sl_eval_tensor *t = &g->drawn->plain.tensors[v];
        const sl_dtype_kind kind = sl_dtype_infos[t->type.dtype].kind;
        if (!t->data || (kind != SL_KIND_FLOAT && kind != SL_KIND_COMPLEX)) continue;
        for (int64_t i = 0; i < sl_type_slots(&t->type); i++) {
            const bool wild = !(fabs(t->data[i]) < 1e5);
            ordinary &= !(input && wild);
            tame &= !wild;
            if (!input && isfinite(t->data[i]) && fabs(t->data[i]) > 1e15) return true;
        }
    }
    return ordinary && !tame && draw(g, 8);
}

static bool are_finite(const generator *g, const sl_value *values, uint32_t count) {
    for (uint32_t o = 0; o < count; o++) {
        const sl_eval_tensor *t = &g->drawn->plain.tensors[values[o].v];
        const sl_dtype_kind kind = sl_dtype_infos[t->type.dtype].kind;
        if (!t->data || (kind != SL_KIND_FLOAT && kind != SL_KIND_COMPLEX)) continue;
        for (int64_t i = 0; i < sl_type_slots(&t->type); i++)
            if (!(fabs(t->data[i]) < 1e15)) return false;
    }
    return true;
}

static void take_back(generator *g, uint32_t values) {
    g->graph->node_count--;
    g->graph->value_count = values;
    sl_graph_count_uses(g->graph);
}

bool draw_append(generator *g, sl_op op, sl_values inputs, const char *attrs, uint32_t extra,
                 sl_value *outputs) {
    const sl_op_info *info = sl_op_info_of(op);
    _Alignas(max_align_t) unsigned char parsed[SL_MAX_ATTRS_BYTES] = {0};
    sl_error err = {0};
    sl_type in[DRAW_OPERANDS], out[DRAW_OPERANDS] = {0};
    const uint32_t count = info->output_count + extra, values = g->graph->value_count;
    draw_counted.tried[op]++;
    if (values + count + 8 > DRAWN_VALUES) return false;
    if (sl_attrs_parse(op, attrs, strlen(attrs), g->graph, parsed, &err) != SL_OK)
        fail_msg("%s {%s}: %s", info->name, attrs, err.message);
    for (uint32_t i = 0; i < inputs.count; i++) in[i] = g->graph->values[inputs.items[i].v].type;
    const sl_infer_args args = {info->name, in, parsed, out, inputs.count, count};
    if (sl_infer(op, &args, &err) != SL_OK) return false;
    for (uint32_t o = 0; o < count; o++)
        if (sl_type_slots(&out[o]) > (int64_t)2 * DRAW_ELEMENTS) return false;
    if (reference_takes_finite(op) && !are_finite(g, inputs.items, inputs.count)) return false;
    sl_graph_append_list(g->graph, op, inputs, parsed, (sl_value_slots){count, outputs});
    if (g->graph->error.status != SL_OK) fail_msg("%s", g->graph->error.message);
    const sl_node *node = &g->graph->nodes[g->graph->node_count - 1];
    const sl_status status = reference_node(&g->drawn->plain, node, &err);
    if (status != SL_OK || is_wild(g, node)) {
        take_back(g, values);
        return false;
    }
    draw_counted.kept[op]++;
    for (uint32_t o = 0; o < count; o++) keep(g, outputs[o]);
    return true;
}

static draw_names no_names(void) {
    draw_names names = {.prefix = -1};
    for (int i = 0; i < 128; i++) names.sizes[i] = DRAW_UNBOUND, names.dtypes[i] = SL_DTYPE_COUNT;
    return names;
}

/* Some row of an op; the default where there is none.  -1: it takes lists, so it has no default. */
static int some_row(generator *g, sl_op op) {
    int found = -1;
    uint32_t seen = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].op == op && draw(g, ++seen) == 0) found = (int)i;
    return found;
}

/* All operands alike; one of them, at random, has the full shape. */
static void default_row(generator *g, uint32_t operands, char *text) {
    const uint32_t full = operands ? draw(g, operands) : 0;
    *text = 0;
    for (uint32_t i = 0; i < operands; i++)
        text += sprintf(text, "%s", i == full ? "P[@] " : "P[~@] ");
}

static bool draw_operands(generator *g, const sl_op_info *info, draw_names *names,
                          const operand *all, uint32_t count, sl_value *values) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i].v && !matches(g, names, &all[i], values[i])) return false;
    for (int thin = 0; thin < 2; thin++)
        for (uint32_t i = 0; i < count; i++) {
            if (values[i].v || all[i].thin != (thin != 0)) continue;
            const bool state = sl_input_kind(info, i) == SL_OPERAND_STATE;
            values[i] = draw_operand(g, names, &all[i], state);
            if (!values[i].v) return false;
        }
    return true;
}

/* A node of the op.  values: those that are given, the others 0.  attrs NULL: drawn. */
static bool draw_op(generator *g, sl_op op, const char *attrs, sl_value values[DRAW_OPERANDS],
                    sl_value *outputs) {
    const sl_op_info *info = sl_op_info_of(op);
    const int row = some_row(g, op);
    char plain[256], text[DRAW_TEXT];
    if (row < 0 && (info->list_name || draw_reason(op))) return false;
    if (row < 0) default_row(g, info->input_count, plain);
    draw_names names = no_names();
    operand all[DRAW_OPERANDS];
    uint32_t count = 0, extra = 0;
    const char *at = row < 0 ? plain : draw_declarations(g, &names, rows[row].operands);
    while (*at) at = parse_operand(at, &all[count++]);
    if (!draw_operands(g, info, &names, all, count, values)) return false;
    if (row >= 0 && !attrs) attrs = rows[row].attrs;
    if (attrs && *attrs == '!') {
        attrs++;
        extra = (uint32_t)draw_expression(g, &names, &attrs);
    }
    const sl_type none = {0};
    draw_attributes(g, &names, count ? &g->graph->values[values[0].v].type : &none,
                    attrs ? attrs : "", text);
    return draw_append(g, op, (sl_values){count, values}, text, extra, outputs);
}

/* ---- chains ---- */

typedef struct {
    char name[40];
    sl_value value;
} link;
typedef struct {
    link links[24];
    uint32_t count;
} chain;

static const char *word(const char *text, char out[40]) {
    size_t bytes = 0;
    while (*text == ' ' || *text == ',') text++;
    while ((isalnum(*text) || *text == '_') && bytes < 39) out[bytes++] = *text++;
    out[bytes] = 0;
    while (*text == ' ') text++;
    return text;
}

static link *linked(chain *c, const char *name) {
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->links[i].name, name) == 0) return &c->links[i];
    link *added = &c->links[c->count++];
    (void)snprintf(added->name, sizeof added->name, "%s", name);
    added->value = (sl_value){0};
    return added;
}

/* "out = op(x, y) {act = 0}" */
static bool draw_link(generator *g, chain *c, const char **text) {
    char name[40], attrs[256] = "";
    link *results[8], *operands[DRAW_OPERANDS];
    uint32_t result_count = 0, count = 0;
    const char *p = *text;
    do {
        p = word(p, name);
        results[result_count++] = linked(c, name);
    } while (*p == ',');
    p = word(p + 1, name);
    const sl_op op = sl_op_find(name, strlen(name));
    if (op == SL_OP_COUNT) fail_msg("no op '%s'", name);
    for (p++; *p != ')';) {
        p = word(p, name);
        operands[count++] = linked(c, name);
    }
    for (p++; *p == ' ';) p++;
    if (*p == '{') {
        const char *end = strchr(p, '}');
        (void)snprintf(attrs, sizeof attrs, "%.*s", (int)(end - p - 1), p + 1);
        p = end + 1;
    }
    while (*p == ' ' || *p == ';') p++;
    *text = p;
    sl_value values[DRAW_OPERANDS] = {{0}}, outputs[DRAW_OPERANDS];
    for (uint32_t i = 0; i < count; i++) values[i] = operands[i]->value;
    if (!draw_op(g, op, *attrs ? attrs : NULL, values, outputs)) return false;
    for (uint32_t i = 0; i < count; i++) operands[i]->value = values[i];
    for (uint32_t i = 0; i < result_count; i++) results[i]->value = outputs[i];
    return true;
}

static void draw_chain(generator *g) {
    const char *text = chains[draw(g, sizeof chains / sizeof chains[0])].nodes;
    chain c = {0};
    while (*text && draw_link(g, &c, &text)) {}
}

/* ---- graphs ---- */

/* The same node once more. */
static void repeat(generator *g) {
    if (g->graph->node_count == 0) return;
    const sl_node node = g->graph->nodes[draw(g, g->graph->node_count)];
    if (sl_node_changes_state(&node) || g->graph->value_count + 16 > DRAWN_VALUES) return;
    sl_value outputs[DRAW_OPERANDS];
    sl_error err = {0};
    sl_graph_append_list(g->graph, node.op, (sl_values){node.input_count, node.inputs}, node.attrs,
                         (sl_value_slots){node.output_count, outputs});
    if (g->graph->error.status != SL_OK) fail_msg("%s", g->graph->error.message);
    const sl_node *again = &g->graph->nodes[g->graph->node_count - 1];
    if (reference_node(&g->drawn->plain, again, &err) != SL_OK) fail_msg("%s", err.message);
    for (uint32_t o = 0; o < node.output_count; o++) keep(g, outputs[o]);
}

void draw_node(generator *g) {
    const uint32_t how = draw(g, 100);
    if (how < 10)
        draw_chain(g);
    else if (how < 13)
        repeat(g);
    else if (how < 16 && !g->body)
        (void)draw_control(g);
    else {
        const sl_op op = (sl_op)draw(g, SL_OP_COUNT);
        for (int tries = 0; tries < 8; tries++) {
            sl_value values[DRAW_OPERANDS] = {{0}}, outputs[DRAW_OPERANDS];
            if (draw_op(g, op, NULL, values, outputs)) break;
        }
    }
}

void generator_init(generator *g, const char *name, uint64_t seed) {
    sl_error err = {0};
    *g = (generator){.drawn = calloc(1, sizeof *g->drawn), .random = test_random_of(seed)};
    assert_non_null(g->drawn);
    if (sl_graph_create(name, NULL, &g->graph, &err)) fail_msg("%s", err.message);
    g->drawn->graph = g->graph;
    reference_init(&g->drawn->plain, g->graph, DRAWN_VALUES, 0);
    g->drawn->bytes = SL_ARENA_NEW_ARRAY(&g->drawn->plain.arena, void *, DRAWN_VALUES);
    assert_non_null(g->drawn->bytes);
}

/* The last value, most of those that nobody uses, and a few others. */
static void draw_outputs(generator *g) {
    uint32_t count = 0;
    for (uint32_t i = g->pooled; i > 0 && count < 12; i--) {
        const sl_value value = g->pool[i - 1];
        const bool used = g->graph->values[value.v].use_count > 0;
        if (count && draw(g, 10) >= (used ? 1 : 8)) continue;
        char name[16];
        (void)snprintf(name, sizeof name, "y%u", count++);
        sl_graph_output(g->graph, name, value);
    }
}

drawn_graph *draw_graph(uint64_t seed, uint32_t nodes) {
    static generator g; /* large; tests draw one graph at a time */
    generator_init(&g, "drawn", seed);
    for (uint32_t tries = 0; g.graph->node_count < nodes && tries < 50 * nodes; tries++)
        draw_node(&g);
    draw_outputs(&g);
    sl_error err = {0};
    if (sl_graph_check(g.graph, &err) || sl_graph_verify(g.graph, &err))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    return g.drawn;
}

drawn_graph *draw_graph_of(sl_op op, uint64_t seed) {
    static generator g;
    generator_init(&g, "drawn", seed);
    bool done = false;
    for (int tries = 0; tries < 100 && !done; tries++) {
        sl_value values[DRAW_OPERANDS] = {{0}}, outputs[DRAW_OPERANDS];
        done = draw_control_of(&g, op) || draw_op(&g, op, NULL, values, outputs);
    }
    sl_error err = {0};
    const sl_node *node = done ? &g.graph->nodes[g.graph->node_count - 1] : NULL;
    if (node) sl_graph_output(g.graph, "y", node->outputs[0]);
    if (node && (sl_graph_check(g.graph, &err) || sl_graph_verify(g.graph, &err)))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    if (node) return g.drawn;
    drawn_destroy(g.drawn);
    return NULL;
}

void drawn_destroy(drawn_graph *drawn) {
    reference_deinit(&drawn->plain);
    sl_graph_destroy(drawn->graph);
    free(drawn);
}
