/* rules.h - The parsed rules of patterns.def. */
#ifndef SL_COMPILER_PASSES_RULES_H
#define SL_COMPILER_PASSES_RULES_H
#include "compiler/graph.h"

enum { SL_RULE_PARTS = 3, SL_RULE_NAMES = 12, SL_RULE_NAME_BYTES = 16 };
enum { SL_RULE_ATTRS = 32 }; /* maximum of an op */
enum {
#define RULE(NAME, PARTS, WHOLE) +1
    SL_RULE_COUNT = 0
#include "compiler/passes/patterns.def"
};

/* A node of a rule; operands are indices of names. */
typedef struct {
    sl_op op;
    uint8_t inputs[SL_MAX_INPUTS], outputs[SL_MAX_OUTPUTS];
    uint32_t input_count, output_count;
    char fixed[SL_RULE_NAME_BYTES]; /* a u32 or i64 attribute with a given value, "" for none */
    int64_t fixed_value;
} sl_rule_node;

typedef struct {
    const char *name;
    sl_rule_node parts[SL_RULE_PARTS], whole;
    uint32_t part_count, name_count;
    char names[SL_RULE_NAMES][SL_RULE_NAME_BYTES];
    bool side_by_side;
} sl_rule;

/* All rules, in order. */
void sl_rules_read(sl_rule rules[SL_RULE_COUNT]);

/* Whether the name is a result of the fused node. */
bool sl_rule_keeps(const sl_rule *rule, uint32_t name);
/* Whether a node has the op, the numbers of operands and results, and the attribute value that the
 * rule gives it. */
bool sl_rule_fits(const sl_rule_node *wanted, const sl_node *node);
/* Copies the attributes that both ops have; then sets those that `to` fixes. */
void sl_rule_attrs_carry(sl_op from, const void *from_attrs, const sl_rule_node *to,
                         void *to_attrs);
#endif
