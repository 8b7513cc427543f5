/* elementwise.c - Fuses elementwise ops whose results are used only by each other, of any types and
 * with broadcast operands, into one region (core/elementwise_region.h).
 *
 * Every instruction of a region is computed for every element of its result, so only ops with the
 * result's shape are fused; a smaller value that broadcasts stays an input.  A node is also left
 * out if the device could not run the region with it. */
#include "compiler/passes/legalise.h"
#include "compiler/passes/passes.h"
#include "core/elementwise_region.h"

/* Nodes in order; the result of the last one is the result of the region. */
typedef struct {
    uint32_t nodes[SL_ELEMENTWISE_MAX_STEPS], count;
    sl_value inputs[SL_ELEMENTWISE_MAX_INPUTS];
    uint32_t input_count;
} region;

static const sl_value_info *result_of(const sl_graph *graph, uint32_t n) {
    return &graph->values[graph->nodes[n].outputs[0].v];
}

/* Whether it is a state or a view of one, which must be read in place. */
static bool is_state(const sl_graph *graph, sl_value value) {
    const sl_value_info *info = &graph->values[value.v];
    while (!info->root.v && info->kind == SL_VALUE_RESULT) {
        const sl_node *maker = &graph->nodes[info->node];
        if (maker->op == SL_OP_COUNT || !(sl_op_info_of(maker->op)->traits & SL_OP_VIEW))
            return false;
        info = &graph->values[maker->inputs[0].v];
    }
    return info->root.v != 0 || info->kind == SL_VALUE_STATE;
}

static bool may_belong(const sl_graph *graph, uint32_t n) {
    const sl_node *node = &graph->nodes[n];
    int64_t numbers[SL_ELEMENTWISE_STEP_NUMBERS];
    const uint32_t none[3] = {0};
    if (node->op == SL_OP_COUNT || !sl_elementwise_number(node->op)) return false;
    if (!sl_elementwise_encode(node->op, node->attrs, none, numbers)) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (is_state(graph, node->inputs[i])) return false;
    return sl_type_elements(&result_of(graph, n)->type) > 0;
}

static bool has_node(const region *r, uint32_t n) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->nodes[i] == n) return true;
    return false;
}

/* Collects the values that come from outside; false if there are too many. */
static bool collect_inputs(const sl_graph *graph, region *r) {
    r->input_count = 0;
    for (uint32_t s = 0; s < r->count; s++) {
        const sl_node *node = &graph->nodes[r->nodes[s]];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const sl_value_info *info = &graph->values[node->inputs[i].v];
            if (info->kind == SL_VALUE_RESULT && has_node(r, info->node)) continue;
            uint32_t known = 0;
            while (known < r->input_count && r->inputs[known].v != node->inputs[i].v) known++;
            if (known < r->input_count) continue;
            if (r->input_count == SL_ELEMENTWISE_MAX_INPUTS) return false;
            r->inputs[r->input_count++] = node->inputs[i];
        }
    }
    return true;
}

static void insert(region *r, uint32_t n) {
    uint32_t at = r->count++;
    for (; at > 0 && r->nodes[at - 1] > n; at--) r->nodes[at] = r->nodes[at - 1];
    r->nodes[at] = n;
}

static void take_out(region *r, uint32_t n) {
    uint32_t at = 0;
    while (r->nodes[at] != n) at++;
    for (r->count--; at < r->count; at++) r->nodes[at] = r->nodes[at + 1];
}

/* Whether the producer of an input has the region's shape and no other user. */
static bool may_join(const sl_graph *graph, const region *r, sl_value input) {
    const sl_value_info *info = &graph->values[input.v];
    if (info->kind != SL_VALUE_RESULT || !may_belong(graph, info->node)) return false;
    const sl_value_info *out = result_of(graph, r->nodes[r->count - 1]);
    if (!sl_dims_equal(&info->type.shape, &out->type.shape)) return false;
    uint32_t uses = 0;
    for (uint32_t s = 0; s < r->count; s++) uses += sl_node_uses(graph, r->nodes[s], input);
    return uses == info->use_count;
}

/* The register in which an instruction finds a value. */
static uint32_t register_of(const sl_graph *graph, const region *r, sl_value value) {
    for (uint32_t i = 0; i < r->input_count; i++)
        if (r->inputs[i].v == value.v) return i;
    uint32_t s = 0;
    while (graph->nodes[r->nodes[s]].outputs[0].v != value.v) s++;
    return r->input_count + s;
}

static void encode(const sl_graph *graph, const region *r, int64_t *code) {
    for (uint32_t s = 0; s < r->count; s++) {
        const sl_node *node = &graph->nodes[r->nodes[s]];
        uint32_t registers[3] = {0};
        for (uint32_t i = 0; i < node->input_count; i++)
            registers[i] = register_of(graph, r, node->inputs[i]);
        (void)sl_elementwise_encode(node->op, node->attrs, registers,
                                    code + (size_t)s * SL_ELEMENTWISE_STEP_NUMBERS);
    }
}

/* SL_OK if the device supports the region. */
static sl_status ask(const sl_graph *graph, const sl_target *target, region *r, sl_error *why) {
    int64_t code[SL_ELEMENTWISE_MAX_STEPS * SL_ELEMENTWISE_STEP_NUMBERS];
    if (!target) return SL_OK;
    encode(graph, r, code);
    const sl_elementwise_region_attrs attrs = {
        .code = {r->count * SL_ELEMENTWISE_STEP_NUMBERS, code}};
    const sl_node *last = &graph->nodes[r->nodes[r->count - 1]];
    const sl_node node = {.op = SL_OP_elementwise_region,
                          .label = last->label,
                          .attrs = &attrs,
                          .input_count = r->input_count,
                          .inputs = r->inputs,
                          .output_count = 1,
                          .outputs = last->outputs};
    return sl_target_runs_node(target, graph, &node, why);
}

/* Adds the producer of one of the region's inputs if that is legal; false if there is none left. */
static sl_status grow(const sl_graph *graph, sl_fusion_log *log, region *r, bool *grown,
                      sl_error *err) {
    *grown = false;
    for (uint32_t i = 0; r->count < SL_ELEMENTWISE_MAX_STEPS && i < r->input_count; i++) {
        if (!may_join(graph, r, r->inputs[i])) continue;
        const uint32_t node = graph->values[r->inputs[i].v].node;
        sl_error why = {0};
        insert(r, node);
        const bool fits = collect_inputs(graph, r);
        *grown = fits && ask(graph, log->target, r, &why) == SL_OK;
        if (*grown) return SL_OK;
        take_out(r, node);
        (void)collect_inputs(graph, r); /* as it was */
        if (fits)
            SL_TRY(sl_fusion_note(log, "elementwise_region", graph->nodes[node].label, why.message,
                                  err));
    }
    return SL_OK;
}

static sl_status apply(sl_graph *graph, const region *r, sl_fusion_log *log, sl_error *err) {
    const uint32_t at = r->nodes[r->count - 1], count = r->count * SL_ELEMENTWISE_STEP_NUMBERS;
    int64_t *code = SL_ARENA_NEW_ARRAY(&graph->arena, int64_t, count);
    sl_elementwise_region_attrs *attrs = SL_ARENA_NEW(&graph->arena, sl_elementwise_region_attrs);
    sl_node node = {.op = SL_OP_elementwise_region, .attrs = attrs};
    node.label = sl_label_join(graph, r->nodes, r->count);
    if (!code || !attrs || !node.label ||
        !sl_node_make_room(&graph->arena, &node, r->input_count, 1))
        return sl_no_memory(err, "a region", count * sizeof *code);
    encode(graph, r, code);
    attrs->code = (sl_integers){count, code};
    node.outputs[0] = graph->nodes[at].outputs[0];
    for (uint32_t i = 0; i < r->input_count; i++) node.inputs[i] = r->inputs[i];
    for (uint32_t s = 0; s < r->count; s++) sl_graph_drop_node(graph, r->nodes[s]);
    sl_graph_place_node(graph, at, &node);
    log->report.fused_nodes += r->count - 1;
    return sl_fusion_note(log, "elementwise_region", node.label, NULL, err);
}

/* From the last node back, so that a chain is found from its end. */
sl_status sl_fuse_elementwise(sl_graph *graph, sl_fusion_log *log, sl_error *err) {
    for (uint32_t n = graph->node_count; n-- > 0;) {
        if (!may_belong(graph, n)) continue;
        region r = {.nodes = {n}, .count = 1};
        if (!collect_inputs(graph, &r)) continue;
        for (bool grown = true; grown;) SL_TRY(grow(graph, log, &r, &grown, err));
        if (r.count > 1) SL_TRY(apply(graph, &r, log, err));
    }
    return SL_OK;
}
