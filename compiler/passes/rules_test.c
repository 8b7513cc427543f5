/* rules_test.c - No rule forgets an attribute: what a part says is said by the whole, and what the
 * whole says comes from one part or is fixed. */
#include "compiler/passes/rules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_ATTRS = SL_RULE_ATTRS };
typedef struct {
    sl_attr_visitor visitor; /* first */
    uint32_t count;
    struct {
        const char *name;
        sl_attr_kind kind;
    } items[MOST_ATTRS];
} names;

static void add(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    names *list = (names *)visitor;
    (void)value;
    assert_true(list->count < MOST_ATTRS);
    list->items[list->count].name = name;
    list->items[list->count++].kind = kind;
}

/* Attributes that the node leaves open; a split of a rule is always into equal parts. */
static names open_attrs(const sl_rule_node *node) {
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
    names list = {.visitor = {add}};
    if (node->op == SL_OP_split) return list;
    sl_op_info_of(node->op)->visit_attrs(&list.visitor, attrs);
    for (uint32_t i = 0; i < list.count; i++)
        if (strcmp(list.items[i].name, node->fixed) == 0)
            list.items[i--] = list.items[--list.count];
    return list;
}

static uint32_t count_of(const names *list, const char *name, sl_attr_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++)
        count += strcmp(list->items[i].name, name) == 0 && list->items[i].kind == kind;
    return count;
}

static void check_rule(const sl_rule *rule) {
    const names whole = open_attrs(&rule->whole);
    names parts[SL_RULE_PARTS];
    for (uint32_t p = 0; p < rule->part_count; p++) {
        parts[p] = open_attrs(&rule->parts[p]);
        for (uint32_t i = 0; i < parts[p].count; i++)
            if (!count_of(&whole, parts[p].items[i].name, parts[p].items[i].kind))
                fail_msg("%s: '%s' of %s is lost", rule->name, parts[p].items[i].name,
                         sl_op_info_of(rule->parts[p].op)->name);
    }
    for (uint32_t i = 0; i < whole.count; i++) {
        uint32_t sources = 0;
        for (uint32_t p = 0; p < rule->part_count; p++)
            sources += count_of(&parts[p], whole.items[i].name, whole.items[i].kind);
        if (sources != 1)
            fail_msg("%s: '%s' comes from %u parts", rule->name, whole.items[i].name, sources);
    }
}

static void no_attribute_is_lost(void **state) {
    (void)state;
    static sl_rule rules[SL_RULE_COUNT];
    sl_rules_read(rules);
    for (uint32_t i = 0; i < SL_RULE_COUNT; i++) check_rule(&rules[i]);
}

/* The list of attributes that rules carry has room for any op's. */
static void every_op_fits(void **state) {
    (void)state;
    for (int op = 0; op < SL_OP_COUNT; op++) {
        const names list = open_attrs(&(sl_rule_node){.op = (sl_op)op});
        assert_true(list.count <= SL_RULE_ATTRS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_attribute_is_lost),
        cmocka_unit_test(every_op_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
