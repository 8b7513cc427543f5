/* report.c - The fusion report, and queries of passes. */
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include <string.h>

sl_status sl_fusion_note(sl_fusion_log *log, const char *pattern, const char *label,
                         const char *why, sl_error *err) {
    sl_fusion_report *report = &log->report;
    if (!log->wanted) return SL_OK;
    if (report->row_count == log->capacity) {
        const uint32_t larger = log->capacity ? 2 * log->capacity : 64;
        sl_fusion_row *rows = SL_ARENA_NEW_ARRAY(log->arena, sl_fusion_row, larger);
        if (!rows) return sl_no_memory(err, "a fusion report", larger * sizeof *rows);
        if (report->rows) memcpy(rows, report->rows, report->row_count * sizeof *rows);
        report->rows = rows;
        log->capacity = larger;
    }
    const char *copy = why ? sl_arena_copy_text(log->arena, why, strlen(why)) : NULL;
    if (why && !copy) return sl_no_memory(err, "a fusion report", strlen(why));
    const char *name = sl_arena_copy_text(log->arena, label, strlen(label));
    if (!name) return sl_no_memory(err, "a fusion report", strlen(label));
    report->rows[report->row_count++] = (sl_fusion_row){pattern, name, copy};
    return SL_OK;
}

sl_fusion_log sl_fusion_begin(sl_graph *graph, const sl_pass_context *context) {
    const sl_fusion_report *wanted = context ? context->options->fusions : NULL;
    sl_fusion_log log = {.arena = wanted ? wanted->arena : &graph->arena, .wanted = wanted != NULL};
    if (context) log.capacity = context->row_capacity, log.target = context->options->target;
    if (wanted) log.report = (sl_fusion_report){wanted->arena, wanted->rows, wanted->row_count, 0};
    return log;
}

void sl_fusion_end(const sl_fusion_log *log, sl_pass_context *context) {
    if (!context) return;
    context->fused += log->report.fused_nodes;
    context->row_capacity = log->capacity;
    if (!context->options->fusions) return;
    *context->options->fusions = log->report;
    context->options->fusions->fused_nodes = context->fused;
}

bool sl_op_is_pure(const sl_op_info *info) {
    for (uint32_t i = 0; i < info->input_count; i++)
        if (info->input_kinds[i] != SL_OPERAND_IN) return false;
    return !(info->traits & (SL_OP_REQUESTS | SL_OP_STREAMS));
}

bool sl_graph_gives(const sl_graph *graph, sl_value value) {
    for (uint32_t o = 0; o < graph->output_count; o++)
        if (graph->outputs[o].value.v == value.v) return true;
    return false;
}

uint32_t sl_node_uses(const sl_graph *graph, uint32_t n, sl_value value) {
    uint32_t uses = 0;
    const sl_node *node = &graph->nodes[n];
    if (node->op == SL_OP_COUNT) return 0;
    for (uint32_t i = 0; i < node->input_count; i++) uses += node->inputs[i].v == value.v;
    return uses;
}
