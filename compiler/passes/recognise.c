/* recognise.c - Replaces the subgraphs of idioms.def by the op that they compute, and gives a
 * convolution the bias that is added to it. */
#include "compiler/passes/recognise.h"
#include "compiler/ops/semantics.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include "compiler/passes/spelling.h"
#include "core/codec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *spelling, *op;
    bool later;
} idioms[] = {
#define IDIOM(SPELLING, OP)       {SPELLING, OP, false},
#define IDIOM_LATER(SPELLING, OP) {SPELLING, OP, true},
#include "compiler/passes/idioms.def"
};

enum { MOST_WORDS = 8 };

typedef struct {
    char name[SL_WORD_BYTES];
    sl_value value; /* of a word, */
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
    if (node->op != SL_OP_reduce_mean) return true;
    const sl_reduce_mean_attrs *a = node->attrs;
    return a->keep && a->axes.rank == 1 && (a->axes.dims[0] == rank - 1 || a->axes.dims[0] == -1);
}

/* ---- halves ---- */

/* Elements [start, start + length) of the last axis. */
typedef struct {
    int64_t start, length;
} part_of_row;

static part_of_row strided_part(const sl_node *node, const sl_dims *x) {
    const sl_strided_slice_attrs *a = node->attrs;
    const part_of_row none = {0, 0};
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t size = x->dims[d], start = a->starts.items[d], end = a->ends.items[d];
        const bool whole = start == 0 && end >= size;
        if (a->steps.items[d] != 1 || start < 0 || end < start || (d + 1 < x->rank && !whole))
            return none;
    }
    const int64_t size = x->dims[x->rank - 1], end = a->ends.items[x->rank - 1];
    const int64_t start = a->starts.items[x->rank - 1];
    return (part_of_row){start, (end < size ? end : size) - start};
}

static part_of_row split_part(const sl_node *node, const sl_dims *x, sl_value value) {
    const sl_split_attrs *a = node->attrs;
    part_of_row part = {0, 0};
    if (sl_axis(a->axis, x->rank) + 1 != x->rank) return part;
    for (uint32_t i = 0; i < node->output_count; i++) {
        part.length = a->sizes.items[i];
        if (node->outputs[i].v == value.v) return part;
        part.start += part.length;
    }
    return (part_of_row){0, 0};
}

/* The part of the last axis of x that the node's result is; of no length if it is something else.
 */
static part_of_row part_of(const sl_node *node, const sl_dims *x, sl_value value) {
    const sl_slice_attrs *a = node->attrs;
    if (!x->rank) return (part_of_row){0, 0};
    if (node->op == SL_OP_strided_slice) return strided_part(node, x);
    if (node->op == SL_OP_split) return split_part(node, x, value);
    if (node->op != SL_OP_slice || sl_axis(a->axis, x->rank) + 1 != x->rank)
        return (part_of_row){0, 0};
    return (part_of_row){a->start, a->length};
}

static bool match_value(match *m, const char **at, sl_value value);

/* first(..) or second(..): which is 0 or 1. */
static bool match_half(match *m, const char **at, int64_t which, sl_value value) {
    const sl_value_info *info = sl_rebuild_value(m->rebuild, value);
    if (info->kind != SL_VALUE_RESULT) return false;
    const sl_node *node = &m->rebuild->graph->nodes[info->node];
    if (!node->input_count) return false;
    const sl_dims *x = &sl_rebuild_value(m->rebuild, node->inputs[0])->type.shape;
    const part_of_row part = part_of(node, x, value);
    if (!part.length || 2 * part.length != x->dims[x->rank - 1] ||
        part.start != which * part.length || !match_value(m, at, node->inputs[0]))
        return false;
    sl_expect(at, ')');
    return true;
}

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
    if (strcmp(name, "first") == 0 || strcmp(name, "second") == 0) {
        *at = from;
        return match_half(m, at, name[0] == 's', value);
    }
    const sl_value_info *info = sl_rebuild_value(m->rebuild, value);
    if (info->kind != SL_VALUE_RESULT) return false;
    const sl_node *node = &m->rebuild->graph->nodes[info->node];
    if (strcmp(sl_op_info_of(node->op)->name, name) != 0 || !is_usual(m->rebuild, node))
        return false;
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
        else if (kind == SL_ATTR_u32)
            *(sl_attr_u32 *)value = (sl_attr_u32)number;
        else if (kind == SL_ATTR_dims)
            *(sl_attr_dims *)value = (sl_dims){1, {(int64_t)number}};
        else
            assert(kind == SL_ATTR_f32);
    }
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
        inputs[count] = known->value;
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

/* ---- a bias, which the op takes as an operand ---- */

static bool has_no_bias(const sl_node *node) {
    return (node->op == SL_OP_conv || node->op == SL_OP_conv_transpose) && node->input_count == 2;
}

/* Whether the value has an element for each channel of [N,C,..] and broadcasts to it. */
static bool is_by_channel(const sl_type *value, const sl_dims *out) {
    const uint32_t places = out->rank - 2, rank = value->shape.rank;
    if (rank <= places || rank > out->rank || sl_type_elements(value) != out->dims[1]) return false;
    return value->shape.dims[rank - 1 - places] == out->dims[1];
}

/* conv(x, w) + bias, where nothing else uses the product; 0 if the node is something else. */
static sl_value with_bias(sl_rebuild *r, const sl_node *node) {
    sl_value out = {0};
    for (uint32_t i = 0; node->op == SL_OP_add && i < 2; i++) {
        const sl_value_info *sum = sl_rebuild_value(r, sl_rebuild_input(r, node, i));
        const sl_value bias = sl_rebuild_input(r, node, 1 - i);
        if (sum->kind != SL_VALUE_RESULT || sl_rebuild_value(r, node->inputs[i])->use_count != 1)
            continue;
        const sl_node conv = r->graph->nodes[sum->node];
        const sl_type type = sl_rebuild_value(r, bias)->type;
        if (!has_no_bias(&conv) || !is_by_channel(&type, &sum->type.shape)) continue;
        const sl_reshape_attrs flat = {.shape = {1, {sum->type.shape.dims[1]}}};
        sl_value inputs[3] = {conv.inputs[0], conv.inputs[1], bias};
        if (type.shape.rank != 1)
            sl_rebuild_append(r, node, SL_OP_reshape, (sl_values){1, &bias}, &flat,
                              (sl_value_slots){1, &inputs[2]});
        sl_rebuild_append(r, &conv, conv.op, (sl_values){3, inputs}, conv.attrs,
                          (sl_value_slots){1, &out});
        return out;
    }
    return out;
}

/* ---- the pass ---- */

enum { IDIOM_COUNT = sizeof idioms / sizeof idioms[0] };

/* What a run of the pass looks for. */
typedef struct {
    sl_fusion_log log;
    bool later; /* the rows that come later */
    sl_error *err;
    sl_status status;
} recogniser;

/* The next idiom from *i on whose last node computes the value. */
static bool find_idiom(const sl_rebuild *r, sl_value value, size_t *i, match *m) {
    const bool later = ((const recogniser *)r->ctx)->later;
    for (; *i < IDIOM_COUNT; (*i)++) {
        const char *at = idioms[*i].spelling;
        *m = (match){.rebuild = r};
        if (idioms[*i].later == later && match_value(m, &at, value)) return true;
    }
    return false;
}

/* Reports what took the node's place: by the name of its op. */
static void note(sl_rebuild *r, const sl_node *node, sl_value better) {
    recogniser *c = r->ctx;
    const sl_node *made = &r->graph->nodes[sl_rebuild_value(r, better)->node];
    if (c->status == SL_OK)
        c->status =
            sl_fusion_note(&c->log, sl_op_info_of(made->op)->name, node->label, NULL, c->err);
}

/* The node is first appended unchanged, so that patterns are matched in a complete graph; if a
 * match ends with it, the next dead code elimination removes it. */
static void recognise_node(sl_rebuild *r, const sl_node *node) {
    const bool used = node->output_count == 1 && sl_rebuild_value(r, node->outputs[0])->use_count;
    sl_rebuild_same(r, node);
    if (!used || r->graph->error.status != SL_OK) return;
    const sl_value now = r->now[node->outputs[0].v];
    sl_value better = {0};
    match m;
    for (size_t i = 0; !better.v && find_idiom(r, now, &i, &m); i++)
        better = build(r, node, &m, idioms[i].op);
    if (!better.v) better = with_bias(r, node);
    if (!better.v) return;
    sl_rebuild_set(r, node, 0, better);
    r->changed = true;
    note(r, node, better);
}

/* Most graphs have no match and need not be rebuilt. */
static bool has_idiom(const sl_rebuild *r) {
    match m;
    for (uint32_t n = 0; n < r->graph->node_count; n++) {
        const sl_node *node = &r->graph->nodes[n];
        size_t i = 0;
        if (has_no_bias(node)) return true;
        if (node->output_count == 1 && find_idiom(r, node->outputs[0], &i, &m)) return true;
    }
    return false;
}

sl_status sl_pass_recognise(sl_graph *graph, sl_pass_context *context, bool *changed,
                            sl_error *err) {
    recogniser c = {.log = sl_fusion_begin(graph, context), .err = err};
    for (int later = 0; later < 2; later++) {
        bool pruned;
        sl_rebuild r = {.graph = graph, .node = recognise_node, .ctx = &c};
        c.later = later;
        if (!has_idiom(&r)) continue;
        SL_TRY(sl_rebuild_graph(&r, err));
        *changed |= r.changed;
        /* What a replaced node was made of would be recognised as well. */
        if (r.changed) SL_TRY(sl_pass_prune(graph, context, &pruned, err));
    }
    sl_fusion_end(&c.log, context);
    return c.status;
}
