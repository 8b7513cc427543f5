/* rules.c - Parses patterns.def.  Errors in it are bugs of ours: asserted. */
#include "compiler/passes/rules.h"
#include "compiler/passes/spelling.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *parts, *whole;
} texts[SL_RULE_COUNT] = {
#define RULE(NAME, PARTS, WHOLE) {#NAME, PARTS, WHOLE},
#include "compiler/passes/patterns.def"
};

/* The index of the next word among the names; added if it is new. */
static uint8_t read_name(sl_rule *rule, const char **at) {
    char word[SL_WORD_BYTES];
    sl_read_word(at, "", word);
    for (uint32_t i = 0; i < rule->name_count; i++)
        if (strcmp(rule->names[i], word) == 0) return (uint8_t)i;
    const size_t bytes = strlen(word) + 1;
    assert(rule->name_count < SL_RULE_NAMES && bytes > 1 && bytes <= SL_RULE_NAME_BYTES);
    memcpy(rule->names[rule->name_count], word, bytes);
    return (uint8_t)rule->name_count++;
}

/* "a, b = op(x, y) {act = 1}" */
static void read_node(sl_rule *rule, const char **at, sl_rule_node *node) {
    uint32_t outputs = 0, inputs = 0;
    char word[SL_WORD_BYTES];
    do {
        assert(outputs < SL_MAX_OUTPUTS);
        node->outputs[outputs++] = read_name(rule, at);
    } while (sl_accept(at, ','));
    const bool equals = sl_accept(at, '=');
    sl_read_word(at, "", word);
    node->op = sl_op_find(word, strlen(word));
    const bool opens = sl_accept(at, '(');
    do {
        assert(inputs < SL_MAX_INPUTS);
        node->inputs[inputs++] = read_name(rule, at);
    } while (sl_accept(at, ','));
    const bool closes = sl_accept(at, ')');
    assert(equals && opens && closes && node->op < SL_OP_COUNT);
    assert(inputs == sl_op_info_of(node->op)->input_count ||
           (inputs > sl_op_info_of(node->op)->input_count && sl_op_info_of(node->op)->list_name));
    assert(outputs == sl_op_info_of(node->op)->output_count || sl_op_info_of(node->op)->outs_name);
    node->input_count = inputs, node->output_count = outputs;
    (void)equals, (void)opens, (void)closes;
    if (!sl_accept(at, '{')) return;
    sl_read_word(at, "", word);
    memcpy(node->fixed, word, sizeof node->fixed);
    (void)sl_accept(at, '=');
    sl_read_word(at, "-", word);
    node->fixed_value = strtoll(word, NULL, 10);
    (void)sl_accept(at, '}');
}

/* Whether one part uses a result of another. */
static bool parts_depend(const sl_rule *rule) {
    for (uint32_t p = 0; p < rule->part_count; p++)
        for (uint32_t o = 0; o < rule->parts[p].output_count; o++)
            for (uint32_t q = p + 1; q < rule->part_count; q++)
                for (uint32_t i = 0; i < rule->parts[q].input_count; i++)
                    if (rule->parts[q].inputs[i] == rule->parts[p].outputs[o]) return true;
    return false;
}

void sl_rules_read(sl_rule rules[SL_RULE_COUNT]) {
    memset(rules, 0, SL_RULE_COUNT * sizeof *rules);
    for (uint32_t r = 0; r < SL_RULE_COUNT; r++) {
        sl_rule *rule = &rules[r];
        const char *at = texts[r].parts;
        rule->name = texts[r].name;
        do {
            assert(rule->part_count < SL_RULE_PARTS);
            read_node(rule, &at, &rule->parts[rule->part_count++]);
        } while (sl_accept(&at, ';'));
        at = texts[r].whole;
        read_node(rule, &at, &rule->whole);
        rule->side_by_side = !parts_depend(rule);
        assert(!rule->side_by_side || rule->part_count == 2);
    }
}

bool sl_rule_keeps(const sl_rule *rule, uint32_t name) {
    for (uint32_t o = 0; o < rule->whole.output_count; o++)
        if (rule->whole.outputs[o] == name) return true;
    return false;
}

/* ---- attributes by name ---- */

/* The attributes of one op, from which another takes those that it has, too. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    uint32_t count;
    struct {
        const char *name;
        sl_attr_kind kind;
        sl_attr_store value;
    } items[SL_RULE_ATTRS];
} attributes;

static int find(const attributes *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0) return (int)i;
    return -1;
}

static void take(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attributes *list = (attributes *)visitor;
    list->items[list->count].name = name;
    list->items[list->count].kind = kind;
    memcpy(&list->items[list->count++].value, value, sl_attr_bytes(kind));
}

static void give(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    const attributes *list = (const attributes *)visitor;
    const int i = find(list, name);
    if (i >= 0) memcpy(value, &list->items[i].value, sl_attr_bytes(kind));
}

static attributes attributes_of(sl_op op, const void *attrs) {
    const sl_op_info *info = sl_op_info_of(op);
    attributes list = {.visitor = {take}};
    _Alignas(max_align_t) unsigned char copy[SL_MAX_ATTRS_BYTES];
    memcpy(copy, attrs, info->attrs_bytes);
    info->visit_attrs(&list.visitor, copy);
    list.visitor.visit = give;
    return list;
}

bool sl_rule_fits(const sl_rule_node *wanted, const sl_node *node) {
    if (node->op != wanted->op || node->input_count != wanted->input_count ||
        node->output_count != wanted->output_count)
        return false;
    if (!wanted->fixed[0]) return true;
    const attributes list = attributes_of(wanted->op, node->attrs);
    const int i = find(&list, wanted->fixed);
    if (i < 0) return false;
    const sl_attr_store *value = &list.items[i].value;
    return (list.items[i].kind == SL_ATTR_i64 ? value->i64 : (int64_t)value->u32) ==
           wanted->fixed_value;
}

/* Sets the attribute of that name. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    const sl_rule_node *node;
} fixer;

static void fix(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    const sl_rule_node *node = ((const fixer *)visitor)->node;
    if (strcmp(name, node->fixed) != 0) return;
    if (kind == SL_ATTR_i64)
        *(sl_attr_i64 *)value = node->fixed_value;
    else
        *(sl_attr_u32 *)value = (sl_attr_u32)node->fixed_value;
}

void sl_rule_attrs_carry(sl_op from, const void *from_attrs, const sl_rule_node *to,
                         void *to_attrs) {
    attributes list = attributes_of(from, from_attrs);
    sl_op_info_of(to->op)->visit_attrs(&list.visitor, to_attrs);
    fixer f = {{fix}, to};
    if (to->fixed[0]) sl_op_info_of(to->op)->visit_attrs(&f.visitor, to_attrs);
}
