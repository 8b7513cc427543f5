/* fuse.c - Applies the rules of patterns.def, and runs the passes that fuse nodes.
 *
 * While rules are tried, a node that was fused into another stays in its place with the op
 * SL_OP_COUNT; the graph is compacted at the end. */
#include "compiler/ops/semantics.h"
#include "compiler/passes/legalise.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rules.h"
#include <stdio.h>
#include <string.h>

/* A match of a rule. */
typedef struct {
    const sl_rule *rule;
    sl_value values[SL_RULE_NAMES]; /* by name; 0 while unknown */
    uint32_t nodes[SL_RULE_PARTS];
    uint32_t at; /* where the fused node goes: the place of the last part, or of the first for
                    independent parts */
} match;

static bool bind(match *m, uint32_t name, sl_value value) {
    if (!m->values[name].v) m->values[name] = value;
    return m->values[name].v == value.v;
}

/* Whether a split gives equal parts along the last axis. */
static bool is_even(const sl_graph *graph, const sl_node *split) {
    const sl_split_attrs *attrs = split->attrs;
    const uint32_t rank = graph->values[split->inputs[0].v].type.shape.rank;
    for (uint32_t i = 1; i < attrs->sizes.count; i++)
        if (attrs->sizes.items[i] != attrs->sizes.items[0]) return false;
    return sl_axis(attrs->axis, rank) == rank - 1;
}

/* Whether node n matches this part, given the values bound so far and the later parts. */
static bool match_node(const sl_graph *graph, uint32_t part, uint32_t n, match *m) {
    const sl_rule_node *wanted = &m->rule->parts[part];
    const sl_node *node = &graph->nodes[n];
    if (!sl_rule_fits(wanted, node) || (node->op == SL_OP_split && !is_even(graph, node)))
        return false;
    for (uint32_t later = part + 1; later < m->rule->part_count; later++)
        if (m->nodes[later] == n) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!bind(m, wanted->inputs[i], node->inputs[i])) return false;
    for (uint32_t o = 0; o < node->output_count; o++)
        if (!bind(m, wanted->outputs[o], node->outputs[o])) return false;
    m->nodes[part] = n;
    return true;
}

/* The node that produces what later parts need of this one; false if no node does. */
static bool find_maker(const sl_graph *graph, const match *m, uint32_t part, uint32_t *out) {
    const sl_rule_node *wanted = &m->rule->parts[part];
    for (uint32_t o = 0; o < wanted->output_count; o++) {
        const sl_value value = m->values[wanted->outputs[o]];
        if (!value.v) continue;
        *out = graph->values[value.v].node;
        return graph->values[value.v].kind == SL_VALUE_RESULT;
    }
    return false;
}

/* Where the search for the first of independent parts begins: behind the values that it shares with
 * the last one. */
static uint32_t first_candidate(const sl_graph *graph, const match *m, uint32_t from) {
    const sl_rule_node *first = &m->rule->parts[0];
    for (uint32_t i = 0; i < first->input_count; i++) {
        const sl_value_info *value = &graph->values[m->values[first->inputs[i]].v];
        if (m->values[first->inputs[i]].v && value->kind == SL_VALUE_RESULT && value->node >= from)
            from = value->node + 1;
    }
    return from;
}

/* Matches the rule with node `last` as its last part.  For independent parts the search for the
 * first starts at node *from; *from is left behind the match. */
static bool match_rule(const sl_graph *graph, const sl_rule *rule, uint32_t last, uint32_t *from,
                       match *out) {
    match m = {.rule = rule, .at = last};
    if (*from >= last || !match_node(graph, rule->part_count - 1, last, &m)) return false;
    if (rule->side_by_side) {
        for (uint32_t n = first_candidate(graph, &m, *from); n < last; n++) {
            *out = m;
            if (!match_node(graph, 0, n, out)) continue;
            out->at = n;
            *from = n + 1;
            return true;
        }
        return false;
    }
    *from = last;
    for (uint32_t part = rule->part_count - 1; part-- > 0;) {
        uint32_t n;
        if (!find_maker(graph, &m, part, &n) || !match_node(graph, part, n, &m)) return false;
    }
    *out = m;
    return true;
}

/* ---- legality: each check sets the reason if it fails ---- */

typedef struct {
    char text[512];
} reason;

static bool is_matched(const match *m, uint32_t n) {
    for (uint32_t p = 0; p < m->rule->part_count; p++)
        if (m->nodes[p] == n) return true;
    return false;
}

/* A fused op computes 16-bit floats in f32: a part that uses one would get it rounded. */
static bool rounding_allows(const sl_graph *graph, const match *m, uint32_t part, uint32_t name,
                            reason *why) {
    const sl_value value = m->values[name];
    const sl_dtype dtype = graph->values[value.v].type.dtype;
    uint32_t uses = 0;
    for (uint32_t p = part + 1; p < m->rule->part_count; p++)
        uses += sl_node_uses(graph, m->nodes[p], value);
    if (!uses || (dtype != SL_DTYPE_f16 && dtype != SL_DTYPE_bf16)) return true;
    (void)snprintf(why->text, sizeof why->text, "%s would not be rounded to %s",
                   m->rule->names[name], sl_dtype_infos[dtype].name);
    return false;
}

/* Intermediate values may be used by the parts only; results must not be needed before `at`. */
static bool results_allow(const sl_graph *graph, const match *m, uint32_t part, reason *why) {
    const sl_rule_node *node = &m->rule->parts[part];
    for (uint32_t o = 0; o < node->output_count; o++) {
        const char *name = m->rule->names[node->outputs[o]];
        const sl_value value = m->values[node->outputs[o]];
        if (!rounding_allows(graph, m, part, node->outputs[o], why)) return false;
        if (sl_rule_keeps(m->rule, node->outputs[o])) {
            for (uint32_t n = m->nodes[part] + 1; n < m->at; n++)
                if (!is_matched(m, n) && sl_node_uses(graph, n, value)) {
                    (void)snprintf(why->text, sizeof why->text, "%s is needed before", name);
                    return false;
                }
            continue;
        }
        uint32_t uses = 0;
        for (uint32_t p = 0; p < m->rule->part_count; p++)
            uses += sl_node_uses(graph, m->nodes[p], value);
        if (uses == graph->values[value.v].use_count) continue;
        (void)snprintf(
            why->text, sizeof why->text,
            sl_graph_gives(graph, value) ? "%s is an output" : "%s is used elsewhere too", name);
        return false;
    }
    return true;
}

/* The operands of the fused node must exist at its place and not be results of the parts. */
static bool operands_allow(const sl_graph *graph, const match *m, reason *why) {
    const sl_rule_node *whole = &m->rule->whole;
    for (uint32_t i = 0; i < whole->input_count; i++) {
        const sl_value_info *value = &graph->values[m->values[whole->inputs[i]].v];
        if (value->kind != SL_VALUE_RESULT) continue;
        if (value->node < m->at && !is_matched(m, value->node)) continue;
        (void)snprintf(why->text, sizeof why->text,
                       is_matched(m, value->node) ? "%s is made by a part" : "%s is made later",
                       m->rule->names[whole->inputs[i]]);
        return false;
    }
    return true;
}

static bool updates(const sl_graph *graph, uint32_t n, sl_value root) {
    const sl_node *node = &graph->nodes[n];
    if (node->op == SL_OP_COUNT) return false;
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t o = 0; o < info->output_count; o++)
        if (info->output_state[o] >= 0 && graph->values[node->outputs[o].v].root.v == root.v)
            return true;
    return false;
}

/* A part must not be moved across an update of a state that it reads. */
static bool states_allow(const sl_graph *graph, const match *m, uint32_t part, reason *why) {
    const uint32_t from = m->nodes[part];
    const sl_node *node = &graph->nodes[from];
    if (from >= m->at) return true; /* a node that moves up was legal further down */
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_value root = graph->values[node->inputs[i].v].root;
        for (uint32_t n = from + 1; root.v && n <= m->at; n++)
            if (updates(graph, n, root)) {
                (void)snprintf(why->text, sizeof why->text, "the state %s is updated in between",
                               m->rule->names[m->rule->parts[part].inputs[i]]);
                return false;
            }
    }
    return true;
}

static void whole_attrs(const sl_graph *graph, const match *m, void *attrs) {
    memset(attrs, 0, sl_op_info_of(m->rule->whole.op)->attrs_bytes);
    for (uint32_t p = 0; p < m->rule->part_count; p++) {
        const sl_node *node = &graph->nodes[m->nodes[p]];
        sl_rule_attrs_carry(node->op, node->attrs, &m->rule->whole, attrs);
    }
}

static bool types_allow(const sl_graph *graph, const sl_target *target, const match *m,
                        reason *why) {
    const sl_rule_node *whole = &m->rule->whole;
    const sl_op_info *info = sl_op_info_of(whole->op);
    sl_type in[SL_MAX_INPUTS] = {0}, out[SL_MAX_OUTPUTS] = {0};
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    for (uint32_t i = 0; i < whole->input_count; i++)
        in[i] = graph->values[m->values[whole->inputs[i]].v].type;
    whole_attrs(graph, m, attrs);
    sl_error err = {0};
    const sl_infer_args args = {info->name, in, attrs, out, whole->input_count, info->output_count};
    if (sl_infer(whole->op, &args, &err) != SL_OK) {
        (void)snprintf(why->text, sizeof why->text, "%s", err.message);
        return false;
    }
    for (uint32_t o = 0; o < info->output_count; o++) {
        const sl_value_info *value = &graph->values[m->values[whole->outputs[o]].v];
        if (sl_type_equal(&value->type, &out[o])) continue;
        (void)snprintf(why->text, sizeof why->text, "%s would have another type",
                       m->rule->names[whole->outputs[o]]);
        return false;
    }
    const sl_call call = {whole->op,          info->name,        attrs, in, out,
                          whole->input_count, info->output_count};
    if (sl_target_runs(target, &call, &err) == SL_OK) return true;
    (void)snprintf(why->text, sizeof why->text, "%s", err.message);
    return false;
}

static bool is_legal(const sl_graph *graph, const sl_target *target, const match *m, reason *why) {
    for (uint32_t p = 0; p < m->rule->part_count; p++)
        if (!results_allow(graph, m, p, why) || !states_allow(graph, m, p, why)) return false;
    return operands_allow(graph, m, why) && types_allow(graph, target, m, why);
}

/* ---- rewriting ---- */

static sl_status apply(sl_graph *graph, const match *m, sl_error *err) {
    const sl_rule_node *whole = &m->rule->whole;
    const sl_op_info *info = sl_op_info_of(whole->op);
    void *attrs = sl_arena_alloc(&graph->arena, info->attrs_bytes, _Alignof(max_align_t));
    if (!attrs) return sl_no_memory(err, "a fused node", info->attrs_bytes);
    whole_attrs(graph, m, attrs);
    sl_node node = {.op = whole->op, .attrs = attrs};
    node.label = sl_label_join(graph, m->nodes, m->rule->part_count);
    if (!node.label ||
        !sl_node_make_room(&graph->arena, &node, whole->input_count, info->output_count))
        return sl_no_memory(err, "a fused node", whole->input_count);
    for (uint32_t i = 0; i < whole->input_count; i++) node.inputs[i] = m->values[whole->inputs[i]];
    for (uint32_t o = 0; o < info->output_count; o++)
        node.outputs[o] = m->values[whole->outputs[o]];
    for (uint32_t p = 0; p < m->rule->part_count; p++) sl_graph_drop_node(graph, m->nodes[p]);
    sl_graph_place_node(graph, m->at, &node);
    return SL_OK;
}

/* Applies the rule with `last` as its last part; *fused says whether it was applied. */
static sl_status try_rule(sl_graph *graph, const sl_rule *rule, uint32_t last, sl_fusion_log *log,
                          bool *fused, sl_error *err) {
    match m;
    reason why;
    *fused = false;
    for (uint32_t from = 0; match_rule(graph, rule, last, &from, &m);) {
        if (!is_legal(graph, log->target, &m, &why)) continue;
        const char *label = graph->nodes[last].label;
        SL_TRY(apply(graph, &m, err));
        log->report.fused_nodes += rule->part_count - 1;
        *fused = true;
        return sl_fusion_note(log, rule->name, label, NULL, err);
    }
    return SL_OK;
}

/* Records a match that is not legal. */
static sl_status explain(const sl_graph *graph, const sl_rule *rule, sl_fusion_log *log,
                         sl_error *err) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        match m;
        reason why;
        uint32_t from = 0;
        if (match_rule(graph, rule, n, &from, &m) && !is_legal(graph, log->target, &m, &why))
            SL_TRY(sl_fusion_note(log, rule->name, graph->nodes[n].label, why.text, err));
    }
    return SL_OK;
}

/* A match that is not legal is recorded when the rule is first tried, before later rules take its
 * parts. */
static sl_status apply_all(sl_graph *graph, const sl_rule *rules, sl_fusion_log *log,
                           sl_error *err) {
    bool changed = true;
    for (uint32_t round = 0; changed; round++) {
        changed = false;
        for (uint32_t r = 0; r < SL_RULE_COUNT; r++) {
            for (uint32_t n = 0; n < graph->node_count; n++) {
                bool fused;
                SL_TRY(try_rule(graph, &rules[r], n, log, &fused, err));
                changed |= fused;
            }
            if (round == 0 && log->wanted) SL_TRY(explain(graph, &rules[r], log, err));
        }
    }
    return SL_OK;
}

static sl_status fuse_patterns(sl_graph *graph, sl_fusion_log *log, sl_error *err) {
    sl_rule rules[SL_RULE_COUNT];
    sl_rules_read(rules);
    return apply_all(graph, rules, log, err);
}

/* For the passes that fuse; they leave dropped nodes. */
typedef sl_status joining_fn(sl_graph *graph, sl_fusion_log *log, sl_error *err);

static sl_status join(joining_fn *run, sl_graph *graph, sl_fusion_log *log, sl_error *err) {
    const uint32_t before = log->report.fused_nodes;
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(run(graph, log, err));
    return log->report.fused_nodes > before ? sl_graph_compact(graph, err) : SL_OK;
}

sl_status sl_fuse(sl_graph *graph, sl_fusion_report *report, sl_error *err) {
    sl_fusion_log log = {.arena = &graph->arena, .wanted = report != NULL};
    SL_TRY(join(fuse_patterns, graph, &log, err));
    SL_TRY(join(sl_fuse_elementwise, graph, &log, err));
    SL_TRY(join(sl_fuse_batches, graph, &log, err));
    if (report) *report = log.report;
    return SL_OK;
}

static sl_status run_pass(joining_fn *run, sl_graph *graph, sl_pass_context *context, bool *changed,
                          sl_error *err) {
    sl_fusion_log log = sl_fusion_begin(graph, context);
    SL_TRY(join(run, graph, &log, err));
    sl_fusion_end(&log, context);
    *changed = log.report.fused_nodes > 0;
    return SL_OK;
}

sl_status sl_pass_fuse(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    return run_pass(fuse_patterns, graph, context, changed, err);
}
sl_status sl_pass_elementwise(sl_graph *graph, sl_pass_context *context, bool *changed,
                              sl_error *err) {
    return run_pass(sl_fuse_elementwise, graph, context, changed, err);
}
sl_status sl_pass_batches(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    return run_pass(sl_fuse_batches, graph, context, changed, err);
}
