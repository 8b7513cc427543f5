/* unfuse.c - Applies rules backwards: fused nodes become their parts. */
#include "compiler/build.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rebuild.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/rules.h"
#include "core/elementwise_region.h"
#include <string.h>

static const sl_rule *undoing(const sl_rule *rules, const sl_node *node) {
    for (uint32_t r = 0; r < SL_RULE_COUNT; r++)
        if (sl_rule_fits(&rules[r].whole, node)) return &rules[r];
    return NULL;
}

static void append_part(sl_graph *g, const sl_rule_node *part, const sl_value *inputs,
                        const void *attrs, sl_value *outputs) {
    if (part->op == SL_OP_split)
        sl_build_even_split(g, inputs[0], (sl_value_slots){part->output_count, outputs});
    else
        sl_graph_append_list(g, part->op, (sl_values){part->input_count, inputs}, attrs,
                             (sl_value_slots){part->output_count, outputs});
}

static void append_parts(sl_graph *g, const sl_rule *rule, const sl_node *node, const sl_value *in,
                         sl_value *out) {
    sl_value values[SL_RULE_NAMES] = {0};
    for (uint32_t i = 0; i < node->input_count; i++) values[rule->whole.inputs[i]] = in[i];
    for (uint32_t p = 0; p < rule->part_count; p++) {
        const sl_rule_node *part = &rule->parts[p];
        sl_value inputs[SL_MAX_INPUTS], outputs[SL_MAX_OUTPUTS];
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
        for (uint32_t i = 0; i < part->input_count; i++) inputs[i] = values[part->inputs[i]];
        sl_rule_attrs_carry(node->op, node->attrs, part, attrs);
        append_part(g, part, inputs, attrs, outputs);
        for (uint32_t o = 0; o < part->output_count; o++) values[part->outputs[o]] = outputs[o];
    }
    for (uint32_t o = 0; o < node->output_count; o++) out[o] = values[rule->whole.outputs[o]];
}

bool sl_rewrite_parts(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    sl_rule rules[SL_RULE_COUNT];
    sl_rules_read(rules);
    const sl_rule *rule = undoing(rules, node);
    if (rule) append_parts(g, rule, node, in, out);
    return rule != NULL;
}

/* A prologue becomes a transform_region of its own. */
bool sl_rewrite_region(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_elementwise_region_attrs *attrs = node->attrs;
    const uint32_t count = attrs->code.count / SL_ELEMENTWISE_STEP_NUMBERS;
    sl_value registers[SL_ELEMENTWISE_MAX_INPUTS + SL_ELEMENTWISE_MAX_STEPS] = {0};
    for (uint32_t i = 0; i < node->input_count; i++) registers[i] = in[i];
    if (attrs->prologue) {
        const int64_t twice = SL_PROLOGUE_RESIZE_NEAREST_2X;
        const sl_transform_region_attrs transform = {.steps = {1, &twice}};
        sl_value *input = &registers[attrs->prologue_input];
        sl_graph_append(g, SL_OP_transform_region, input, &transform, input);
    }
    for (uint32_t s = 0; s < count; s++) {
        const sl_elementwise_step step = sl_elementwise_decode(&attrs->code, s, node->input_count);
        _Alignas(max_align_t) unsigned char room[SL_MAX_ATTRS_BYTES] = {0};
        sl_value inputs[3] = {0};
        for (uint32_t i = 0; i < step.operands; i++) inputs[i] = registers[step.registers[i]];
        sl_elementwise_attrs(&step, room);
        sl_graph_append(g, step.op, inputs, room, &registers[node->input_count + s]);
    }
    out[0] = registers[node->input_count + count - 1];
    return true;
}

/* Whether something was appended in place of the node. */
static bool undo(sl_rebuild *r, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_rule *rule = undoing(r->ctx, node);
    if (rule) append_parts(r->graph, rule, node, in, out);
    if (rule) return true;
    if (node->op == SL_OP_batch_elementwise_region)
        return sl_rewrite_batch_region(r->graph, node, in, out);
    return node->op == SL_OP_elementwise_region && sl_rewrite_region(r->graph, node, in, out);
}

static void append_node(sl_rebuild *r, const sl_node *node) {
    sl_value in[SL_ELEMENTWISE_MAX_INPUTS], out[SL_MAX_OUTPUTS] = {0};
    const uint32_t before = r->graph->node_count;
    const bool fits = node->input_count <= SL_ELEMENTWISE_MAX_INPUTS;
    for (uint32_t i = 0; fits && i < node->input_count; i++) in[i] = sl_rebuild_input(r, node, i);
    if (!fits || !undo(r, node, in, out)) {
        sl_rebuild_same(r, node);
        return;
    }
    r->changed = true;
    for (uint32_t n = before; n < r->graph->node_count; n++) r->graph->nodes[n].label = node->label;
    for (uint32_t o = 0; o < node->output_count; o++) sl_rebuild_set(r, node, o, out[o]);
}

/* One layer of rules after another. */
sl_status sl_unfuse(sl_graph *graph, sl_error *err) {
    sl_rule rules[SL_RULE_COUNT];
    sl_rebuild r = {.graph = graph, .node = append_node, .ctx = rules};
    SL_TRY(sl_graph_check(graph, err));
    sl_rules_read(rules);
    do {
        SL_TRY(sl_rebuild_graph(&r, err));
    } while (r.changed);
    return SL_OK;
}
