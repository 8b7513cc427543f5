#include "base/names.h"
#include "compiler/graph.h"
#include "compiler/ops/semantics.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const sl_graph *graph;
    uint32_t *uses;    /* [value_count + 1]: counted again */
    uint32_t *current; /* [value_count + 1]: the latest version of each state */
    bool *made;        /* [value_count + 1]: results produced so far */
    sl_type *in, *out; /* of the node at hand */
    sl_names *declared, *outputs;
    sl_error *err;
} verifier;

#define FAIL(v, ...) sl_fail((v)->err, SL_INVALID, __VA_ARGS__)

/* "%x" or "%12", for messages. */
typedef struct {
    char text[80];
} value_text;

static value_text show(const verifier *v, sl_value value) {
    value_text shown;
    const sl_value_info *info = sl_graph_value(v->graph, value);
    if (info && info->name)
        (void)snprintf(shown.text, sizeof shown.text, "%%%s", info->name);
    else
        (void)snprintf(shown.text, sizeof shown.text, "%%%u", value.v);
    return shown;
}

static sl_status check_declared(const verifier *v, uint32_t id) {
    const sl_value_info *info = &v->graph->values[id];
    if (!info->name) return FAIL(v, "%%%u is declared without a name", id);
    if (!sl_names_add(v->declared, info->name, id))
        return FAIL(v, "the name '%s' is declared twice", info->name);
    const uint32_t root = info->kind == SL_VALUE_STATE ? id : 0;
    if (info->root.v != root)
        return FAIL(v, "%%%s: its root is %u, must be %u", info->name, info->root.v, root);
    for (uint32_t d = 0; info->symbols && d < info->type.shape.rank; d++) {
        const uint32_t symbol = info->symbols[d];
        if (symbol > v->graph->symbol_count ||
            (symbol && v->graph->symbols[symbol - 1].size != info->type.shape.dims[d]))
            return FAIL(v, "%%%s: dim %u is not the size of its symbol", info->name, d);
    }
    if ((info->kind == SL_VALUE_CONSTANT) != (info->data != NULL))
        return FAIL(v, "%%%s: constants have data, and nothing else has", info->name);
    return SL_OK;
}

static sl_status check_value(const verifier *v, uint32_t id) {
    const sl_value_info *info = &v->graph->values[id];
    const value_text shown = show(v, (sl_value){id});
    if ((unsigned)info->kind > SL_VALUE_RESULT)
        return FAIL(v, "%s: unknown kind %d", shown.text, (int)info->kind);
    SL_TRY(sl_type_check_shape(&info->type, shown.text, v->err));
    if (info->kind != SL_VALUE_RESULT) return check_declared(v, id);
    if (info->node >= v->graph->node_count)
        return FAIL(v, "%s: made by node %u of %u", shown.text, info->node, v->graph->node_count);
    return SL_OK;
}

static sl_status check_operand(const verifier *v, const sl_node *node, uint32_t input) {
    const sl_op_info *op = sl_op_info_of(node->op);
    const sl_value value = node->inputs[input];
    const sl_value_info *info = sl_graph_value(v->graph, value);
    const char *name = sl_input_name(op, input);
    if (!info) return FAIL(v, "%s: input '%s' is not a value of this graph", node->label, name);
    const value_text shown = show(v, value);
    if (info->kind == SL_VALUE_RESULT && !v->made[value.v])
        return FAIL(v, "%s: input '%s' is %s, which is made later", node->label, name, shown.text);
    const bool wants_state = sl_input_kind(op, input) == SL_OPERAND_STATE;
    const bool wants_experts = sl_input_kind(op, input) == SL_OPERAND_EXPERTS;
    if ((wants_state && !info->root.v) || wants_experts != (info->kind == SL_VALUE_EXPERTS))
        return FAIL(v, "%s: input '%s' is %s, must be %s", node->label, name, shown.text,
                    wants_state     ? "a state"
                    : wants_experts ? "experts"
                                    : "a tensor, not experts");
    if (info->root.v && v->current[info->root.v] != value.v)
        return FAIL(v, "%s: input '%s' is %s, a state that was updated since: use %s", node->label,
                    name, shown.text, show(v, (sl_value){v->current[info->root.v]}).text);
    return SL_OK;
}

/* A state that a node updates may not be another of its operands. */
static sl_status check_aliases(const verifier *v, const sl_node *node) {
    const sl_op_info *op = sl_op_info_of(node->op);
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->input_kinds[i] != SL_OPERAND_STATE) continue;
        const uint32_t root = v->graph->values[node->inputs[i].v].root.v;
        for (uint32_t j = 0; j < node->input_count; j++)
            if (j != i && v->graph->values[node->inputs[j].v].root.v == root)
                return FAIL(v, "%s: updates '%s', which is also its '%s'", node->label,
                            op->input_names[i], sl_input_name(op, j));
    }
    return SL_OK;
}

static sl_status check_result(const verifier *v, uint32_t n, uint32_t output,
                              const sl_type *inferred) {
    const sl_node *node = &v->graph->nodes[n];
    const sl_op_info *op = sl_op_info_of(node->op);
    const sl_value value = node->outputs[output];
    const sl_value_info *info = sl_graph_value(v->graph, value);
    const char *name = sl_output_name(op, output);
    if (!info || info->kind != SL_VALUE_RESULT || info->node != n || v->made[value.v])
        return FAIL(v, "%s: result '%s' is not a value made by this node alone", node->label, name);
    v->made[value.v] = true;
    if (!sl_type_equal(&info->type, inferred)) {
        char found[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
        return FAIL(v, "%s: result '%s' is %s, must be %s", node->label, name,
                    sl_type_format(&info->type, found, sizeof found),
                    sl_type_format(inferred, wanted, sizeof wanted));
    }
    const int32_t state = sl_output_state(op, output);
    const uint32_t root = state < 0 ? 0 : v->graph->values[node->inputs[state].v].root.v;
    if (info->root.v != root)
        return FAIL(v, "%s: the root of result '%s' is %u, must be %u", node->label, name,
                    info->root.v, root);
    if (root) v->current[root] = value.v;
    return SL_OK;
}

/* Bodies are graphs too; whether one may be left out is the op's to say. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    const verifier *v;
    sl_status status;
} body_checker;

static void check_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    body_checker *c = (body_checker *)visitor;
    const sl_attr *attr = value;
    (void)name;
    if (kind == SL_ATTR_graph && c->status == SL_OK && attr->graph)
        c->status = sl_graph_verify(attr->graph, c->v->err);
}

static sl_status check_bodies(const verifier *v, const sl_node *node) {
    body_checker checker = {.visitor = {check_body}, .v = v};
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    memcpy(attrs, node->attrs, sl_op_info_of(node->op)->attrs_bytes);
    sl_op_info_of(node->op)->visit_attrs(&checker.visitor, attrs);
    return checker.status;
}

static sl_status check_counts(const verifier *v, uint32_t n) {
    const sl_node *node = &v->graph->nodes[n];
    if ((unsigned)node->op >= SL_OP_COUNT)
        return FAIL(v, "node %u: unknown op %d", n, (int)node->op);
    if (!node->label || !node->attrs) return FAIL(v, "node %u: no label or no attributes", n);
    const sl_op_info *op = sl_op_info_of(node->op);
    if (op->list_name ? node->input_count < op->input_count : node->input_count != op->input_count)
        return FAIL(v, "%s: %u inputs, must be %u", node->label, node->input_count,
                    op->input_count);
    if (op->outs_name ? node->output_count < op->output_count
                      : node->output_count != op->output_count)
        return FAIL(v, "%s: %u results, must be %u", node->label, node->output_count,
                    op->output_count);
    return SL_OK;
}

static sl_status check_node(const verifier *v, uint32_t n) {
    SL_TRY(check_counts(v, n));
    const sl_node *node = &v->graph->nodes[n];
    memset(v->in, 0, (node->input_count + 1) * sizeof *v->in);
    memset(v->out, 0, (node->output_count + 1) * sizeof *v->out);
    for (uint32_t i = 0; i < node->input_count; i++) {
        SL_TRY(check_operand(v, node, i));
        v->in[i] = v->graph->values[node->inputs[i].v].type;
        v->uses[node->inputs[i].v]++;
    }
    SL_TRY(check_aliases(v, node));
    const sl_infer_args args = {node->label,       v->in, node->attrs, v->out, node->input_count,
                                node->output_count};
    SL_TRY(sl_infer(node->op, &args, v->err));
    for (uint32_t o = 0; o < node->output_count; o++) SL_TRY(check_result(v, n, o, &v->out[o]));
    return check_bodies(v, node);
}

static sl_status check_output(const verifier *v, uint32_t index) {
    const sl_graph_out *output = &v->graph->outputs[index];
    if (!output->name) return FAIL(v, "output %u has no name", index);
    if (!sl_names_add(v->outputs, output->name, index))
        return FAIL(v, "two outputs are called '%s'", output->name);
    const sl_value_info *info = sl_graph_value(v->graph, output->value);
    if (!info || info->kind == SL_VALUE_EXPERTS)
        return FAIL(v, "output '%s' is not a tensor of this graph", output->name);
    if (info->root.v && v->current[info->root.v] != output->value.v)
        return FAIL(v, "output '%s' is %s, a state that was updated since", output->name,
                    show(v, output->value).text);
    v->uses[output->value.v]++;
    return SL_OK;
}

/* A graph that only updates states is of use without outputs. */
static bool has_effect(const sl_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (sl_node_changes_state(&graph->nodes[n])) return true;
    return false;
}

static sl_status check_all(const verifier *v) {
    const sl_graph *graph = v->graph;
    for (uint32_t id = 1; id <= graph->value_count; id++) {
        SL_TRY(check_value(v, id));
        v->current[id] = id;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) SL_TRY(check_node(v, n));
    for (uint32_t i = 0; i < graph->output_count; i++) SL_TRY(check_output(v, i));
    if (graph->output_count == 0 && !has_effect(graph))
        return FAIL(v, "graph '%s' has no outputs and changes no state", graph->name);
    for (uint32_t id = 1; id <= graph->value_count; id++) {
        const sl_value_info *info = &graph->values[id];
        const value_text shown = show(v, (sl_value){id});
        if (info->kind == SL_VALUE_RESULT && !v->made[id])
            return FAIL(v, "%s is made by no node", shown.text);
        if (info->use_count != v->uses[id])
            return FAIL(v, "%s: use count %u, must be %u", shown.text, info->use_count,
                        v->uses[id]);
    }
    return SL_OK;
}

static size_t most_operands(const sl_graph *graph) {
    size_t most = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const size_t count =
            (size_t)graph->nodes[n].input_count + (size_t)graph->nodes[n].output_count;
        if (count > most) most = count;
    }
    return most;
}

sl_status sl_graph_verify(const sl_graph *graph, sl_error *err) {
    SL_TRY(sl_graph_check(graph, err));
    sl_arena scratch;
    sl_arena_init(&scratch, graph->arena.allocator);
    const size_t count = (size_t)graph->value_count + 1;
    sl_names declared = {0}, outputs = {0};
    const verifier v = {.graph = graph,
                        .declared = &declared,
                        .outputs = &outputs,
                        .uses = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, count),
                        .current = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, count),
                        .made = SL_ARENA_NEW_ARRAY(&scratch, bool, count),
                        .in = SL_ARENA_NEW_ARRAY(&scratch, sl_type, most_operands(graph) + 1),
                        .out = SL_ARENA_NEW_ARRAY(&scratch, sl_type, most_operands(graph) + 1),
                        .err = err};
    const sl_status status = v.uses && v.current && v.made && v.in && v.out &&
                                     sl_names_init(&declared, graph->value_count, &scratch) &&
                                     sl_names_init(&outputs, graph->output_count, &scratch)
                                 ? check_all(&v)
                                 : sl_no_memory(err, "verifying a graph", count);
    sl_arena_deinit(&scratch);
    return status;
}
