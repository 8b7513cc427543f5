/* legalise.c - Rewrites nodes that a device does not support into nodes that it supports, by the
 * rules of rewrites.def. */
#include "compiler/passes/legalise.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include "compiler/passes/rewrite.h"
#include <stdio.h>
#include <string.h>

/* ---- what a device supports ---- */

enum { FEW_OPERANDS = SL_MAX_INPUTS + SL_MAX_OUTPUTS };

static sl_status ask(const sl_target *target, const sl_call *call, sl_operand *operands,
                     sl_error *err) {
    const sl_op_info *info = sl_op_info_of(call->op);
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->in_count; i++) operands[count++].type = call->in[i];
    for (uint32_t o = 0; o < call->out_count; o++)
        if (sl_output_state(info, o) < 0) operands[count++].type = call->out[o];
    const sl_step step = {.op = call->op,
                          .label = call->label,
                          .operand_count = count,
                          .input_count = call->in_count,
                          .operands = operands,
                          .attrs = call->attrs};
    return target->accepts(&step, err);
}

sl_status sl_target_runs(const sl_target *target, const sl_call *call, sl_error *err) {
    sl_operand few[FEW_OPERANDS] = {0};
    const uint32_t count = call->in_count + call->out_count;
    if (!target || (sl_op_info_of(call->op)->traits & SL_OP_VIEW)) return SL_OK;
    if (count <= FEW_OPERANDS) return ask(target, call, few, err);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_operand *many = SL_ARENA_NEW_ARRAY(&arena, sl_operand, count);
    const sl_status status =
        many ? ask(target, call, many, err) : sl_no_memory(err, "asking a device", count);
    sl_arena_deinit(&arena);
    return status;
}

static sl_status ask_node(const sl_target *target, const sl_graph *graph, const sl_node *node,
                          sl_type *types, sl_error *err) {
    sl_type *out = types + node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++)
        types[i] = graph->values[node->inputs[i].v].type;
    for (uint32_t o = 0; o < node->output_count; o++)
        out[o] = graph->values[node->outputs[o].v].type;
    const sl_call call = {node->op, node->label,       node->attrs,       types,
                          out,      node->input_count, node->output_count};
    return sl_target_runs(target, &call, err);
}

sl_status sl_target_runs_node(const sl_target *target, const sl_graph *graph, const sl_node *node,
                              sl_error *err) {
    sl_type few[FEW_OPERANDS];
    const uint32_t count = node->input_count + node->output_count;
    if (!target) return SL_OK;
    if (count <= FEW_OPERANDS) return ask_node(target, graph, node, few, err);
    sl_arena arena;
    sl_arena_init(&arena, graph->arena.allocator);
    sl_type *many = SL_ARENA_NEW_ARRAY(&arena, sl_type, count);
    const sl_status status = many ? ask_node(target, graph, node, many, err)
                                  : sl_no_memory(err, "asking a device", count);
    sl_arena_deinit(&arena);
    return status;
}

/* ---- the log ---- */

static sl_status note(sl_legality_log *log, const sl_node *node, sl_legality_kind kind,
                      const char *detail, sl_error *err) {
    if (!log) return SL_OK;
    if (log->count == log->capacity) {
        const uint32_t larger = log->capacity ? 2 * log->capacity : 64;
        sl_legality_row *rows = SL_ARENA_NEW_ARRAY(log->arena, sl_legality_row, larger);
        if (!rows) return sl_no_memory(err, "a report", larger * sizeof *rows);
        if (log->count) memcpy(rows, log->rows, log->count * sizeof *rows);
        log->rows = rows;
        log->capacity = larger;
    }
    sl_legality_row row = {.op = sl_op_info_of(node->op)->name, .kind = kind};
    row.label = sl_arena_format(log->arena, "%s%s", log->prefix ? log->prefix : "", node->label);
    row.detail = sl_arena_copy_text(log->arena, detail, strlen(detail));
    if (!row.label || !row.detail) return sl_no_memory(err, "a report", strlen(detail));
    log->rows[log->count++] = row;
    return SL_OK;
}

/* The ops of a graph, each listed once. */
static void list_ops(const sl_graph *graph, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        uint32_t before = 0;
        while (before < n && graph->nodes[before].op != graph->nodes[n].op) before++;
        if (before < n || used >= capacity) continue;
        const int more = snprintf(text + used, capacity - used, "%s%s", used ? " " : "",
                                  sl_op_info_of(graph->nodes[n].op)->name);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* ---- rewriting ---- */

/* Rules may lead to nodes that need other rules; a chain longer than this is a cycle. */
enum { MOST_DEPTH = 6, DETAIL_BYTES = 400 };

typedef struct {
    const sl_target *target;
    sl_legality_log *log;
    uint32_t depth;
    sl_error *err;
    sl_status status;
    uint32_t rewritten; /* nodes */
} legaliser;

/* l has what it was given, and depth; the rest is 0. */
static sl_status legalise(sl_graph *graph, legaliser *l);

/* The value in the graph in which the rule works that stands for a value of this graph. */
static sl_value declare(sl_graph *to, const sl_graph *from, sl_value value, uint32_t index) {
    const sl_value_info *info = &from->values[value.v];
    char name[16];
    (void)snprintf(name, sizeof name, "in%u", index);
    if (info->kind == SL_VALUE_CONSTANT)
        return sl_graph_constant_in_place(to, name, info->type, info->data);
    const bool plain = sl_dtype_infos[info->type.dtype].bytes > 0;
    return sl_graph_declare(to, plain ? SL_VALUE_INPUT : SL_VALUE_WEIGHT, name, info->type);
}

/* Applies the rule to the node in a graph of its own; false if it does not apply. */
static bool apply(const sl_rebuild *r, const sl_rewrite *rule, const sl_node *node, sl_graph *to) {
    sl_node fresh = {0};
    char name[16];
    if (!sl_node_make_room(&to->arena, &fresh, node->input_count, node->output_count)) {
        sl_graph_mistake(to, SL_NO_MEMORY, "no memory for a node");
        return false;
    }
    sl_graph_scope(to, "%s", node->label);
    for (uint32_t i = 0; i < node->input_count; i++)
        fresh.inputs[i] = declare(to, r->graph, sl_rebuild_input(r, node, i), i);
    if (!rule->rewrite(to, node, fresh.inputs, fresh.outputs)) return false;
    for (uint32_t o = 0; o < node->output_count; o++) {
        (void)snprintf(name, sizeof name, "out%u", o);
        sl_graph_output(to, name, fresh.outputs[o]);
    }
    return true;
}

/* Replaces the node by the result of the rule. */
static void take_over(sl_rebuild *r, const sl_node *node, const sl_graph *made) {
    sl_node fresh = {0};
    if (!sl_node_make_room(r->scratch, &fresh, node->input_count, node->output_count)) {
        sl_graph_mistake(r->graph, SL_NO_MEMORY, "no memory for a node");
        return;
    }
    for (uint32_t i = 0; i < node->input_count; i++) fresh.inputs[i] = sl_rebuild_input(r, node, i);
    sl_rw_inline_given(r->graph, made, (sl_values){fresh.input_count, fresh.inputs}, fresh.outputs);
    for (uint32_t o = 0; o < node->output_count; o++) sl_rebuild_set(r, node, o, fresh.outputs[o]);
    r->changed = true;
}

/* Whether the rule led to supported nodes, which then replace the node; otherwise why is set. */
static bool try_rule(sl_rebuild *r, const sl_rewrite *rule, const sl_node *node, sl_error *why) {
    legaliser *l = r->ctx;
    sl_graph *made = NULL;
    if (sl_graph_create("made", r->graph->arena.allocator, &made, why) != SL_OK) return false;
    made->customs = r->graph->customs;
    sl_error deeper = {0};
    bool done = apply(r, rule, node, made);
    if (done) {
        legaliser inner = {.target = l->target, .depth = l->depth + 1, .err = &deeper};
        done = sl_graph_check(made, &deeper) == SL_OK && legalise(made, &inner) == SL_OK;
        if (!done) *why = deeper;
    }
    if (done) {
        char text[DETAIL_BYTES];
        take_over(r, node, made);
        l->rewritten++;
        list_ops(made, text, sizeof text);
        l->status = note(l->log, node, SL_LEGAL_REWRITTEN, text, l->err);
    }
    sl_graph_destroy(made);
    return done;
}

static bool may_rewrite(const sl_node *node) {
    return sl_op_is_pure(sl_op_info_of(node->op));
}

static bool is_always(sl_op op) {
    for (const sl_rewrite *rule = sl_rewrites; rule->name; rule++)
        if (rule->op == op && rule->always) return true;
    return false;
}

/* Without a target, no kernel of the op is known. */
static bool is_native(const sl_target *target, const sl_graph *graph, const sl_node *node,
                      sl_error *why) {
    if (target) return sl_target_runs_node(target, graph, node, why) == SL_OK;
    return !is_always(node->op);
}

/* Whether the node is rewritten although the device supports it. */
static bool is_costly(const sl_target *target, const sl_node *node) {
    return target && target->hosts_bodies && (sl_op_info_of(node->op)->traits & SL_OP_RUNS);
}

static void legalise_node(sl_rebuild *r, const sl_node *node) {
    legaliser *l = r->ctx;
    sl_error why = {0};
    if (l->status != SL_OK) return;
    const bool native = is_native(l->target, r->graph, node, &why);
    for (const sl_rewrite *rule = sl_rewrites;
         rule->name && (!native || is_costly(l->target, node)); rule++)
        if (rule->op == node->op && may_rewrite(node) && l->depth < MOST_DEPTH &&
            try_rule(r, rule, node, &why))
            return;
    sl_rebuild_same(r, node);
    if (native)
        l->status = note(l->log, node, SL_LEGAL_NATIVE, "", l->err);
    else if (l->log)
        l->status = note(l->log, node, SL_LEGAL_UNSUPPORTED, why.message, l->err);
    else
        l->status = sl_fail(l->err, SL_UNSUPPORTED, "%s", why.message);
}

/* Most graphs need no rewriting. */
static bool is_all_native(const sl_graph *graph, const sl_target *target) {
    sl_error why;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (is_costly(target, &graph->nodes[n]) ||
            !is_native(target, graph, &graph->nodes[n], &why))
            return false;
    return true;
}

static sl_status legalise(sl_graph *graph, legaliser *l) {
    sl_rebuild r = {.graph = graph, .node = legalise_node, .ctx = l};
    if (is_all_native(graph, l->target)) {
        for (uint32_t n = 0; l->log && n < graph->node_count; n++)
            SL_TRY(note(l->log, &graph->nodes[n], SL_LEGAL_NATIVE, "", l->err));
        return SL_OK;
    }
    const sl_status status = sl_rebuild_graph(&r, l->err);
    return l->status != SL_OK ? l->status : status;
}

sl_status sl_legalise(sl_graph *graph, const sl_target *target, sl_legality_log *log,
                      uint32_t *rewritten, sl_error *err) {
    legaliser l = {.target = target, .log = log, .err = err};
    SL_TRY(sl_graph_check(graph, err));
    const sl_status status = legalise(graph, &l);
    if (rewritten) *rewritten = l.rewritten;
    return status;
}

sl_status sl_check_legal(const sl_graph *graph, const sl_target *target, sl_error *err) {
    for (uint32_t n = 0; target && n < graph->node_count; n++)
        SL_TRY(sl_target_runs_node(target, graph, &graph->nodes[n], err));
    return SL_OK;
}

/* ---- the report ---- */

static sl_status report(sl_graph *graph, const sl_target *target, sl_legality_log *log,
                        sl_error *err);

typedef struct {
    sl_attr_visitor visitor; /* first */
    const sl_target *target;
    sl_legality_log *log;
    const sl_node *node;
    sl_error *err;
    sl_status status;
} body_report;

static void report_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind,
                        void *value) {
    body_report *b = (body_report *)visitor;
    const sl_attr *attr = value;
    const char *outer = b->log->prefix;
    if (kind != SL_ATTR_graph || !attr->graph || b->status != SL_OK) return;
    b->log->prefix =
        sl_arena_format(b->log->arena, "%s%s.%s: ", outer ? outer : "", b->node->label, name);
    b->status = b->log->prefix /* the body belongs to the copy, which may be changed */
                    ? report((sl_graph *)(uintptr_t)attr->graph, b->target, b->log, b->err)
                    : sl_no_memory(b->err, "a report", strlen(name));
    b->log->prefix = outer;
}

static sl_status report(sl_graph *graph, const sl_target *target, sl_legality_log *log,
                        sl_error *err) {
    const sl_compiler_options options = {.target = target};
    sl_pass_context context = {.options = &options};
    SL_TRY(sl_passes_run(graph, &context, SL_PASS_legalise, err));
    SL_TRY(sl_legalise(graph, target, log, NULL, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_op_info *info = sl_op_info_of(graph->nodes[n].op);
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
        body_report b = {{report_body}, target, log, &graph->nodes[n], err, SL_OK};
        memcpy(attrs, graph->nodes[n].attrs, info->attrs_bytes);
        info->visit_attrs(&b.visitor, attrs);
        SL_TRY(b.status);
    }
    return SL_OK;
}

sl_status sl_legality_report(const sl_graph *graph, const sl_target *target, sl_legality_log *log,
                             sl_error *err) {
    sl_graph *copy;
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_verify(graph, err));
    SL_TRY(sl_graph_copy(graph, log->arena->allocator, &copy, err));
    const sl_status status = report(copy, target, log, err);
    sl_graph_destroy(copy);
    return status;
}
