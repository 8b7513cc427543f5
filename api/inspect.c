/* inspect.c - Looking inside and measuring (sluice/inspect.h). */
#include "engine/inspect/inspect.h"
#include "api/needs.h"
#include "api/options.h"
#include "engine/inspect/page.h"
#include <stdio.h>

enum { DEFAULT_RUNS = 4, MOST_RUNS = 100000 };

static sl_status complete(const sl_model *model, const sl_inspect_options *given,
                          sl_inspect_options *out, sl_error *err) {
    *out = (sl_inspect_options){0};
    sl_options_copy(out, sizeof *out, given);
    if (!out->tokens) out->tokens = 1;
    if (!out->wanted) out->wanted = 1;
    if (!out->runs && out->trace_path) out->runs = DEFAULT_RUNS;
    if (!model == !out->shape)
        return sl_fail(err, SL_INVALID, "%s to inspect",
                       model ? "give either a model or a shape, not both"
                             : "a model or a shape is required");
    if (out->tokens > SL_MAX_FORWARD_ROWS || (out->wanted != 1 && out->wanted != out->tokens))
        return sl_fail(err, SL_INVALID,
                       "a forward pass of %u tokens with logits of %u, wanted at most %d tokens, "
                       "and logits of one or of all",
                       out->tokens, out->wanted, SL_MAX_FORWARD_ROWS);
    if (model && out->depth >= model->context_tokens)
        return sl_fail(err, SL_INVALID, "a depth of %u, the context has %u tokens", out->depth,
                       model->context_tokens);
    if (out->runs > MOST_RUNS)
        return sl_fail(err, SL_INVALID, "%u runs, wanted at most %d", out->runs, MOST_RUNS);
    if (out->runs && (!model || !model->device))
        return sl_fail(err, SL_UNSUPPORTED,
                       "only a model on a device can be run and traced, not on ref");
    return SL_OK;
}

sl_status sl_inspect(sl_model *model, const sl_inspect_options *given, sl_inspect_report *out,
                     sl_error *err) {
    SL_NEED(out);
    sl_inspect_options options;
    *out = (sl_inspect_report){0};
    SL_TRY(complete(model, given, &options, err));
    return sl_inspect_forward(model, &options, NULL, out, err);
}

sl_status sl_inspect_steps(sl_model *model, const sl_inspect_options *given, int json,
                           char **out_text, sl_error *err) {
    sl_inspect_options options;
    sl_inspect_report report = {0};
    size_t bytes = 0;
    *out_text = NULL;
    SL_TRY(complete(model, given, &options, err));
    const sl_step_list list = {open_memstream(out_text, &bytes), json != 0};
    if (!list.to) return sl_no_memory(err, "a list of steps", 0);
    sl_status status = sl_inspect_forward(model, &options, &list, &report, err);
    if (fclose(list.to) != 0 && status == SL_OK)
        status = sl_no_memory(err, "a list of steps", bytes);
    if (status == SL_OK) return SL_OK;
    sl_text_free(*out_text);
    *out_text = NULL;
    return status;
}

sl_status sl_compare(sl_model *first, sl_model *second, const sl_compare_options *given,
                     sl_compare_report *out, sl_error *err) {
    SL_NEED(first && second && out);
    sl_compare_options options = {0};
    sl_options_copy(&options, sizeof options, given);
    *out = (sl_compare_report){0};
    if (!second->device)
        return sl_fail(err, SL_INVALID, "the second device to compare must not be ref");
    if (options.tokens > SL_MAX_FORWARD_ROWS || options.tokens > second->context_tokens)
        return sl_fail(
            err, SL_INVALID,
            "a forward pass of %u tokens, wanted at most %d and at most the context's %u",
            options.tokens, SL_MAX_FORWARD_ROWS, second->context_tokens);
    return sl_compare_steps(first, second, &options, out, err);
}

sl_status sl_measure_gpu(sl_model *model, sl_gpu_floors *out, sl_error *err) {
    SL_NEED(model && out);
    sl_device_floors floors;
    *out = (sl_gpu_floors){0};
    if (!model->device || !model->device->ops->measure) return SL_OK;
    SL_TRY(model->device->ops->measure(model->device, &floors, err));
    *out = (sl_gpu_floors){floors.copy_bytes_per_second, floors.bf16_operations_per_second,
                           floors.host_bytes_per_second};
    return SL_OK;
}

sl_status sl_measure_disk(const sl_model *model, sl_disk_floor *out, sl_error *err) {
    SL_NEED(model && out);
    return sl_disk_measure(model, out, err);
}

sl_token_cost sl_model_token_cost(const sl_model *model) {
    SL_NEED_OR((sl_token_cost){0}, model);
    return sl_token_cost_of(model);
}

/* ---- The report as a table ---- */

static void print_steps(FILE *to, const sl_inspect_report *r) {
    (void)fprintf(to, "%-10s %u token%s, logits of %u; schedule: %s\n", "step", r->tokens,
                  r->tokens == 1 ? "" : "s", r->wanted, r->schedule);
    (void)fprintf(to, "%-10s %-8u from %u nodes, %u of them fused into others\n", "steps", r->steps,
                  r->nodes, r->fused);
    (void)fprintf(to, "%-10s %-8u steps are not in graph order\n", "moved", r->moved);
    (void)fprintf(to, "%-10s %-8u", "groups", r->groups);
    for (int i = 1; i <= 9; i++)
        if (r->histogram[i % 9])
            (void)fprintf(to, "%s%u of %s%d", i == 1 ? " " : ", ", r->histogram[i % 9],
                          i == 9 ? "more than " : "", i == 9 ? 8 : i);
    (void)fprintf(to, " steps\n%-10s %-8u of %u, %u elided\n", "barriers", r->barriers,
                  r->barriers_naive, r->barriers_naive - r->barriers);
    (void)fprintf(to, "%-10s %-8u of %u conflicting pairs, after reduction\n", "edges", r->edges,
                  r->edges_naive);
}

static void print_memory(FILE *to, const sl_inspect_report *r) {
    char arena[SL_BYTES_TEXT], unshared[SL_BYTES_TEXT], live[SL_BYTES_TEXT];
    (void)fprintf(to, "%-10s %-8s of %s without sharing; at most %s live, x %.3f; %u in place\n",
                  "arena", sl_bytes_text(r->arena_bytes, arena),
                  sl_bytes_text(r->unshared_bytes, unshared), sl_bytes_text(r->live_bytes, live),
                  r->live_bytes ? (double)r->arena_bytes / (double)r->live_bytes : 0.0,
                  r->in_place);
}

static void print_times(FILE *to, const sl_inspect_report *r) {
    (void)fprintf(to,
                  "%-10s build %.2f ms, fuse %.2f ms, lower %.2f ms, schedule %.2f ms, plan %.2f "
                  "ms\n",
                  "compile", r->build_seconds * 1e3, r->fuse_seconds * 1e3, r->lower_seconds * 1e3,
                  r->schedule_seconds * 1e3, r->plan_seconds * 1e3);
    if (r->verify_seconds > 0)
        (void)fprintf(to, "%-10s order, bounds and values, in %.2f ms\n", "verified",
                      r->verify_seconds * 1e3);
    if (r->prove_seconds > 0)
        (void)fprintf(to,
                      "%-10s order of %u steps as the device has it: %u launches, %u segment%s, %u "
                      "edges, in %.2f ms\n",
                      "proved", r->proved_steps, r->proved_launches, r->proved_segments,
                      r->proved_segments == 1 ? "" : "s", r->proved_edges, r->prove_seconds * 1e3);
    if (r->runs)
        (void)fprintf(to, "%-10s %.3f ms, median of %u; threads busy %.0f %%; %llu experts read\n",
                      "run", r->run_seconds * 1e3, r->runs, r->busy_share * 100,
                      (unsigned long long)r->reads);
}

static void print_rows(FILE *to, const char *what, const sl_inspect_row *rows, uint32_t count) {
    if (count == 0) return;
    (void)fprintf(to, "\n%-44s %8s %12s %7s\n", what, "calls", "us", "share");
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(to, "%-44s %8llu %12.1f %6.1f%%\n", rows[i].name,
                      (unsigned long long)rows[i].calls, rows[i].seconds * 1e6,
                      rows[i].share * 100);
}

sl_status sl_inspect_text(const sl_inspect_report *report, char **out_text, sl_error *err) {
    SL_NEED(report && out_text);
    size_t bytes = 0;
    *out_text = NULL;
    FILE *to = open_memstream(out_text, &bytes);
    if (!to) return sl_no_memory(err, "a report", 0);
    print_steps(to, report);
    print_memory(to, report);
    print_times(to, report);
    print_rows(to, "op", report->ops, report->op_count);
    print_rows(to, "label", report->labels, report->label_count);
    const bool written = !ferror(to);
    if (fclose(to) == 0 && written && *out_text) return SL_OK;
    sl_text_free(*out_text);
    *out_text = NULL;
    return sl_no_memory(err, "a report", bytes);
}
