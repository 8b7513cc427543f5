/* recognise.c - Replaces the subgraphs of idioms.def by the op that they compute. */
#include "compiler/passes/recognise.h"
#include "compiler/ops/semantics.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include "compiler/passes/spelling.h"
#include "core/codec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *spelling, *op;
} idioms[] = {
#define IDIOM(SPELLING, OP) {SPELLING, OP},
#include "compiler/passes/idioms.def"
};

enum { MOST_WORDS = 8 };

typedef struct {
    char name[SL_WORD_BYTES];
    sl_value value; /* of a word, */
    sl_dims perm;   /* unless of rank 0: transposed so, */
    double number;  /* or of $word */
} word;

typedef struct {
    const sl_rebuild *rebuild;
    word words[MOST_WORDS];
    uint32_t count;
} match;

/* Numbers and $words are words too. */
static void read_word(const char **at, char name[SL_WORD_BYTES]) {
    sl_read_word(at, "$.-", name);
    assert(name[0]);
}

static bool is_number(const char *name) {
    return isdigit((unsigned char)name[0]) || name[0] == '-';
}

/* ---- matching ---- */

double sl_only_number(const sl_value_info *info) {
    const int64_t count = sl_type_elements(&info->type);
    const sl_dtype_info *dtype = &sl_dtype_infos[info->type.dtype];
    if (info->kind != SL_VALUE_CONSTANT || dtype->kind != SL_KIND_FLOAT || !dtype->bytes || !count)
        return NAN;
    double first = NAN;
    for (int64_t i = 0; i < count; i++) {
        double x;
        sl_decode_f64(info->type.dtype, (const char *)info->data + (size_t)i * dtype->bytes, 1, &x);
        if (i == 0) first = x;
        if (!(x == first)) return NAN;
    }
    return first;
}

/* Constants of patterns are decimal text, rounded to the type of the graph's constant. */
static bool is_near(double found, double wanted) {
    return fabs(found - wanted) <= 1e-6 * fabs(wanted);
}

static word *find_word(match *m, const char *name) {
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->words[i].name, name) == 0) return &m->words[i];
    return NULL;
}

static word *add_word(match *m, const char *name) {
    assert(m->count < MOST_WORDS);
    word *added = &m->words[m->count++];
    *added = (word){.value = {0}};
    memcpy(added->name, name, strlen(name) + 1);
    return added;
}

static bool match_word(match *m, const char *name, sl_value value) {
    const sl_value_info *info = sl_rebuild_value(m->rebuild, value);
    if (is_number(name)) return is_near(sl_only_number(info), strtod(name, NULL));
    word *known = find_word(m, name);
    if (name[0] != '$') {
        if (!known) add_word(m, name)->value = value;
        return !known || known->value.v == value.v;
    }
    const double number = sl_only_number(info);
    if (!known) add_word(m, name)->number = number;
    return isfinite(number) && (!known || known->number == number);
}

/* Whether the node is the op with the attributes that patterns assume. */
static bool is_usual(const sl_rebuild *r, const sl_node *node) {
    const int64_t rank = sl_rebuild_value(r, node->inputs[0])->type.shape.rank;
    if (node->op == SL_OP_softmax)
        return sl_axis(((const sl_softmax_attrs *)node->attrs)->axis, (uint32_t)rank) == rank - 1;
    if (node->op == SL_OP_reduce_mean) {
        const sl_reduce_mean_attrs *a = node->attrs;
        return a->keep && a->axes.rank == 1 &&
               (a->axes.dims[0] == rank - 1 || a->axes.dims[0] == -1);
    }
    return true;
}

/* transpose(word): binds the word to the value with its last two dims swapped. */
static bool match_transpose(match *m, const char **at, const sl_node *node) {
    char name[SL_WORD_BYTES];
    read_word(at, name);
    sl_expect(at, ')');
    sl_dims perm = ((const sl_transpose_attrs *)node->attrs)->perm;
    if (perm.rank < 2 || find_word(m, name)) return false;
    const int64_t last = perm.dims[perm.rank - 1];
    perm.dims[perm.rank - 1] = perm.dims[perm.rank - 2];
    perm.dims[perm.rank - 2] = last;
    word *added = add_word(m, name);
    added->value = node->inputs[0];
    for (uint32_t i = 0; i < perm.rank; i++)
        if (perm.dims[i] != (int64_t)i) added->perm = perm;
    return true;
}

static bool match_value(match *m, const char **at, sl_value value);

static bool match_operands(match *m, const char **at, const sl_node *node, bool turned) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i) sl_expect(at, ',');
        if (!match_value(m, at, node->inputs[turned ? node->input_count - 1 - i : i])) return false;
    }
    sl_expect(at, ')');
    return true;
}

/* Matches the next part of a pattern against a value; `at` advances if it matches. */
static bool match_value(match *m, const char **at, sl_value value) {
    char name[SL_WORD_BYTES];
    const char *from = *at;
    read_word(&from, name);
    if (!sl_accept(&from, '(')) {
        *at = from;
        return match_word(m, name, value);
    }
    const sl_value_info *info = sl_rebuild_value(m->rebuild, value);
    if (info->kind != SL_VALUE_RESULT) return false;
    const sl_node *node = &m->rebuild->graph->nodes[info->node];
    if (strcmp(sl_op_info_of(node->op)->name, name) != 0 || !is_usual(m->rebuild, node))
        return false;
    if (node->op == SL_OP_transpose) {
        *at = from;
        return match_transpose(m, at, node);
    }
    const uint32_t count = m->count;
    const int orders = node->op == SL_OP_add || node->op == SL_OP_mul ? 2 : 1;
    for (int turned = 0; turned < orders; turned++) {
        *at = from;
        m->count = count;
        if (match_operands(m, at, node, turned)) return true;
    }
    return false;
}

/* ---- building ---- */

typedef struct {
    sl_attr_visitor visitor; /* first */
    match *match;
    const char *text; /* "{axis = -1, scale = $a * $b}" */
} attribute_reader;

static double read_factor(match *m, const char **at) {
    char name[SL_WORD_BYTES];
    read_word(at, name);
    if (is_number(name)) return strtod(name, NULL);
    const word *known = find_word(m, name);
    assert(known);
    return known->number;
}

static double read_expression(match *m, const char **at) {
    double number = read_factor(m, at);
    for (;;) {
        if (sl_accept(at, '*'))
            number *= read_factor(m, at);
        else if (sl_accept(at, '/'))
            number /= read_factor(m, at);
        else
            return number;
    }
}

static void set_attribute(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind,
                          void *value) {
    const attribute_reader *reader = (const attribute_reader *)visitor;
    const char *at = reader->text;
    while (sl_accept(&at, '{') || sl_accept(&at, ',')) {
        char found[SL_WORD_BYTES];
        read_word(&at, found);
        sl_expect(&at, '=');
        const double number = read_expression(reader->match, &at);
        if (strcmp(found, name) != 0) continue;
        if (kind == SL_ATTR_f32)
            *(sl_attr_f32 *)value = (float)number;
        else if (kind == SL_ATTR_i64)
            *(sl_attr_i64 *)value = (int64_t)number;
        else
            assert(kind == SL_ATTR_f32);
    }
}

/* The value that a word is bound to, which may have to be built first. */
static sl_value value_of(sl_rebuild *r, const sl_node *node, const word *w) {
    if (!w->perm.rank) return w->value;
    const sl_transpose_attrs attrs = {.perm = w->perm};
    sl_value out = {0};
    sl_rebuild_append(r, node, SL_OP_transpose, (sl_values){1, &w->value}, &attrs,
                      (sl_value_slots){1, &out});
    return out;
}

/* The node's result computed by one op; 0 if that op does not accept the operands. */
static sl_value build(sl_rebuild *r, const sl_node *node, match *m, const char *text) {
    char name[SL_WORD_BYTES];
    sl_value inputs[MOST_WORDS], out = {0};
    sl_type types[MOST_WORDS], type = sl_rebuild_value(r, node->outputs[0])->type;
    uint32_t count = 0;
    read_word(&text, name);
    const sl_op op = sl_op_find(name, strlen(name));
    assert(op < SL_OP_COUNT);
    sl_expect(&text, '(');
    do {
        read_word(&text, name);
        const word *known = find_word(m, name);
        assert(known && count < MOST_WORDS);
        inputs[count] = value_of(r, node, known);
        types[count] = sl_rebuild_value(r, inputs[count])->type;
        count++;
    } while (sl_accept(&text, ','));
    sl_expect(&text, ')');
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
    attribute_reader reader = {{set_attribute}, m, text};
    sl_op_info_of(op)->visit_attrs(&reader.visitor, attrs);
    sl_type found = {0};
    const sl_infer_args args = {.label = node->label,
                                .in = types,
                                .in_count = count,
                                .attrs = attrs,
                                .out = &found,
                                .out_count = 1};
    sl_error err;
    if (sl_infer(op, &args, &err) != SL_OK || !sl_type_equal(&found, &type)) return out;
    sl_rebuild_append(r, node, op, (sl_values){count, inputs}, attrs, (sl_value_slots){1, &out});
    return out;
}

enum { IDIOM_COUNT = sizeof idioms / sizeof idioms[0] };

/* The next idiom from *i on whose last node computes the value. */
static bool find_idiom(const sl_rebuild *r, sl_value value, size_t *i, match *m) {
    for (; *i < IDIOM_COUNT; (*i)++) {
        const char *at = idioms[*i].spelling;
        *m = (match){.rebuild = r};
        if (match_value(m, &at, value)) return true;
    }
    return false;
}

/* The node is first appended unchanged, so that patterns are matched in a complete graph; if a
 * match ends with it, the next dead code elimination removes it. */
static void recognise_node(sl_rebuild *r, const sl_node *node) {
    sl_rebuild_same(r, node);
    if (node->output_count != 1 || r->graph->error.status != SL_OK) return;
    const sl_value now = r->now[node->outputs[0].v];
    match m;
    for (size_t i = 0; find_idiom(r, now, &i, &m); i++) {
        const sl_value better = build(r, node, &m, idioms[i].op);
        if (!better.v) continue;
        sl_rebuild_set(r, node, 0, better);
        r->changed = true;
        return;
    }
}

/* Most graphs have no match and need not be rebuilt. */
static bool has_idiom(const sl_rebuild *r) {
    match m;
    for (uint32_t n = 0; n < r->graph->node_count; n++) {
        const sl_node *node = &r->graph->nodes[n];
        size_t i = 0;
        if (node->output_count == 1 && find_idiom(r, node->outputs[0], &i, &m)) return true;
    }
    return false;
}

sl_status sl_pass_recognise(sl_graph *graph, sl_pass_context *context, bool *changed,
                            sl_error *err) {
    (void)context;
    sl_rebuild r = {.graph = graph, .node = recognise_node};
    if (has_idiom(&r)) SL_TRY(sl_rebuild_graph(&r, err));
    *changed = r.changed;
    return SL_OK;
}
