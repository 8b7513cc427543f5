/* regions.c - Finds elementwise ops of equal shapes that feed each other alone. */
#include "compiler/passes/legalise.h"
#include "compiler/passes/passes.h"
#include "core/region.h"

/* Nodes in order; the last one's result is the region's. */
typedef struct {
    uint32_t nodes[SL_REGION_MAX_STEPS], count;
    sl_value inputs[SL_REGION_INPUTS];
    uint32_t input_count;
} region;

static uint32_t operands_of(const sl_node *node) {
    return sl_op_info_of(node->op)->input_count;
}

/* Elementwise on f32, nothing broadcast, no state among the operands. */
static bool may_belong(const sl_graph *graph, uint32_t n) {
    const sl_node *node = &graph->nodes[n];
    if (node->op == SL_OP_COUNT || !sl_region_number(node->op)) return false;
    const sl_type *type = &graph->values[node->outputs[0].v].type;
    for (uint32_t i = 0; i < operands_of(node); i++) {
        const sl_value_info *operand = &graph->values[node->inputs[i].v];
        if (operand->root.v || !sl_type_equal(&operand->type, type)) return false;
    }
    return type->dtype == SL_DTYPE_f32;
}

static bool has_node(const region *r, uint32_t n) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->nodes[i] == n) return true;
    return false;
}

/* Sets the values that come from outside; false when they are too many. */
static bool collect_inputs(const sl_graph *graph, region *r) {
    r->input_count = 0;
    for (uint32_t s = 0; s < r->count; s++) {
        const sl_node *node = &graph->nodes[r->nodes[s]];
        for (uint32_t i = 0; i < operands_of(node); i++) {
            const sl_value_info *info = &graph->values[node->inputs[i].v];
            if (info->kind == SL_VALUE_RESULT && has_node(r, info->node)) continue;
            uint32_t known = 0;
            while (known < r->input_count && r->inputs[known].v != node->inputs[i].v) known++;
            if (known < r->input_count) continue;
            if (r->input_count == SL_REGION_INPUTS) return false;
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

/* Adds the maker of one of the region's inputs if it may join; false when none may. */
static bool grow(const sl_graph *graph, region *r) {
    for (uint32_t i = 0; r->count < SL_REGION_MAX_STEPS && i < r->input_count; i++) {
        const sl_value_info *info = &graph->values[r->inputs[i].v];
        if (info->kind != SL_VALUE_RESULT || !may_belong(graph, info->node)) continue;
        uint32_t uses = 0;
        for (uint32_t s = 0; s < r->count; s++)
            uses += sl_node_uses(graph, r->nodes[s], r->inputs[i]);
        if (uses != info->use_count) continue;
        region larger = *r;
        insert(&larger, info->node);
        if (!collect_inputs(graph, &larger)) continue;
        *r = larger;
        return true;
    }
    return false;
}

/* The register in which a step finds a value. */
static uint32_t register_of(const sl_graph *graph, const region *r, sl_value value) {
    for (uint32_t i = 0; i < r->input_count; i++)
        if (r->inputs[i].v == value.v) return i;
    uint32_t s = 0;
    while (graph->nodes[r->nodes[s]].outputs[0].v != value.v) s++;
    return SL_REGION_INPUTS + s;
}

static sl_dims code_of(const sl_graph *graph, const region *r) {
    sl_dims code = {.rank = r->count};
    for (uint32_t s = 0; s < r->count; s++) {
        const sl_node *node = &graph->nodes[r->nodes[s]];
        code.dims[s] = (int64_t)sl_region_number(node->op) * 100 +
                       (int64_t)register_of(graph, r, node->inputs[0]) * 10;
        if (operands_of(node) == 2) code.dims[s] += register_of(graph, r, node->inputs[1]);
    }
    return code;
}

/* Unless the device does not run it. */
static sl_status apply(sl_graph *graph, const region *r, sl_fusion_log *log, sl_error *err) {
    const uint32_t at = r->nodes[r->count - 1];
    sl_region_attrs *attrs = SL_ARENA_NEW(&graph->arena, sl_region_attrs);
    if (!attrs) return sl_no_memory(err, "a region", sizeof *attrs);
    attrs->code = code_of(graph, r);
    sl_node node = {.op = SL_OP_region, .label = graph->nodes[at].label, .attrs = attrs};
    if (!sl_node_make_room(&graph->arena, &node, SL_REGION_INPUTS, 1))
        return sl_no_memory(err, "a region", sizeof node);
    node.outputs[0] = graph->nodes[at].outputs[0];
    for (uint32_t i = 0; i < SL_REGION_INPUTS; i++)
        node.inputs[i] = r->inputs[i < r->input_count ? i : 0];
    sl_error why;
    if (sl_target_runs_node(log->target, graph, &node, &why) != SL_OK)
        return sl_fusion_note(log, "region", node.label, why.message, err);
    for (uint32_t s = 0; s < r->count; s++) graph->nodes[r->nodes[s]].op = SL_OP_COUNT;
    graph->nodes[at] = node;
    sl_graph_count_uses(graph);
    log->report.fused_nodes += r->count - 1;
    return sl_fusion_note(log, "region", node.label, NULL, err);
}

/* From the last node back, so that a chain is found from its end. */
sl_status sl_fuse_regions(sl_graph *graph, sl_fusion_log *log, sl_error *err) {
    for (uint32_t n = graph->node_count; n-- > 0;) {
        if (!may_belong(graph, n)) continue;
        region r = {.nodes = {n}, .count = 1};
        if (!collect_inputs(graph, &r)) continue;
        while (grow(graph, &r)) {}
        if (r.count == 1) continue;
        SL_TRY(apply(graph, &r, log, err));
    }
    return SL_OK;
}
