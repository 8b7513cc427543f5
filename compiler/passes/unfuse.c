/* unfuse.c - Rules read backwards: all nodes are appended anew, fused ones as their parts. */
#include "compiler/passes/passes.h"
#include "compiler/passes/rules.h"
#include "core/region.h"
#include <string.h>

typedef struct {
    sl_graph *graph;
    sl_rule rules[SL_RULE_COUNT];
    sl_value *now; /* [value id]: what a value of the old nodes has become */
    bool changed;
} rebuild;

/* Appends a node under the label it had; results go to outputs. */
static void append(rebuild *b, sl_op op, const sl_value *inputs, const void *attrs,
                   const char *label, sl_value *outputs) {
    const uint32_t before = b->graph->node_count;
    sl_graph_append(b->graph, op, inputs, attrs, outputs);
    if (b->graph->node_count > before) b->graph->nodes[before].label = label;
}

static const sl_rule *undoing(const rebuild *b, const sl_node *node) {
    for (uint32_t r = 0; r < SL_RULE_COUNT; r++) {
        const sl_rule_node *whole = &b->rules[r].whole;
        if (whole->op == node->op && sl_rule_attrs_fit(whole, node->attrs)) return &b->rules[r];
    }
    return NULL;
}

static void append_parts(rebuild *b, const sl_rule *rule, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    sl_value values[SL_RULE_NAMES] = {0};
    for (uint32_t i = 0; i < info->input_count; i++)
        values[rule->whole.inputs[i]] = b->now[node->inputs[i].v];
    for (uint32_t p = 0; p < rule->part_count; p++) {
        const sl_rule_node *part = &rule->parts[p];
        const sl_op_info *part_info = sl_op_info_of(part->op);
        sl_value inputs[SL_MAX_INPUTS], outputs[SL_MAX_OUTPUTS];
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
        for (uint32_t i = 0; i < part_info->input_count; i++) inputs[i] = values[part->inputs[i]];
        sl_rule_attrs_carry(node->op, node->attrs, part, attrs);
        append(b, part->op, inputs, attrs, node->label, outputs);
        for (uint32_t o = 0; o < part_info->output_count; o++)
            values[part->outputs[o]] = outputs[o];
    }
    for (uint32_t o = 0; o < info->output_count; o++)
        b->now[node->outputs[o].v] = values[rule->whole.outputs[o]];
}

static void append_region(rebuild *b, const sl_node *node) {
    const sl_dims *code = &((const sl_region_attrs *)node->attrs)->code;
    sl_value registers[SL_REGION_INPUTS + SL_REGION_MAX_STEPS];
    const _Alignas(max_align_t) unsigned char no_attrs[SL_MAX_ATTRS_BYTES] = {0};
    for (uint32_t i = 0; i < SL_REGION_INPUTS; i++) registers[i] = b->now[node->inputs[i].v];
    for (uint32_t s = 0; s < code->rank; s++) {
        const sl_region_step step = sl_region_decode(code->dims[s]);
        const sl_value inputs[2] = {registers[step.x], registers[step.y]};
        append(b, step.op, inputs, no_attrs, node->label, &registers[SL_REGION_INPUTS + s]);
    }
    b->now[node->outputs[0].v] = registers[SL_REGION_INPUTS + code->rank - 1];
}

/* With new operands in place of the old ones. */
static void append_same(rebuild *b, const sl_node *node) {
    const uint32_t before = b->graph->node_count;
    sl_node copy = {0};
    if (!sl_node_make_room(&b->graph->arena, &copy, node->input_count, node->output_count)) {
        sl_graph_mistake(b->graph, SL_NO_MEMORY, "no memory for a node");
        return;
    }
    for (uint32_t i = 0; i < node->input_count; i++) copy.inputs[i] = b->now[node->inputs[i].v];
    sl_graph_append_list(b->graph, node->op, (sl_values){copy.input_count, copy.inputs},
                         node->attrs, (sl_value_slots){copy.output_count, copy.outputs});
    if (b->graph->node_count > before) b->graph->nodes[before].label = node->label;
    for (uint32_t o = 0; o < node->output_count; o++) b->now[node->outputs[o].v] = copy.outputs[o];
}

static void append_node(rebuild *b, const sl_node *node) {
    const sl_rule *rule = undoing(b, node);
    b->changed |= rule != NULL || node->op == SL_OP_region;
    if (rule) {
        append_parts(b, rule, node);
    } else if (node->op == SL_OP_region) {
        append_region(b, node);
    } else {
        append_same(b, node);
    }
}

/* Undoes one layer of rules. */
static sl_status unfuse_once(rebuild *b, sl_error *err) {
    sl_graph *graph = b->graph;
    const sl_node *nodes = graph->nodes;
    const uint32_t count = graph->node_count;
    for (uint32_t v = 0; v <= graph->value_count; v++) b->now[v] = (sl_value){v};
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    b->changed = false;
    for (uint32_t n = 0; n < count; n++) append_node(b, &nodes[n]);
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t o = 0; o < graph->output_count; o++)
        graph->outputs[o].value = b->now[graph->outputs[o].value.v];
    return sl_graph_compact(graph, err);
}

sl_status sl_unfuse(sl_graph *graph, sl_error *err) {
    rebuild b = {.graph = graph};
    sl_arena scratch;
    sl_status status = sl_graph_check(graph, err);
    sl_arena_init(&scratch, graph->arena.allocator);
    sl_rules_read(b.rules);
    b.changed = true;
    while (status == SL_OK && b.changed) {
        b.now = SL_ARENA_NEW_ARRAY(&scratch, sl_value, (size_t)graph->value_count + 1);
        status = b.now ? unfuse_once(&b, err) : sl_no_memory(err, "unfusing", graph->value_count);
    }
    sl_arena_deinit(&scratch);
    return status;
}
