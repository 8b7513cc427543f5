/* inspect_text.c - Reports as text (sluice/inspect.h). */
#include "api/inspect_options.h"
#include "api/needs.h"
#include "engine/inspect/page.h"
#include "sluice/inspect.h"
#include <stdio.h>
#include <string.h>

/* A schedule of edges has none. */
static void print_barriers(FILE *to, const sl_inspect_report *r) {
    if (strcmp(r->schedule, "edges") == 0)
        (void)fprintf(to, "%-10s none: steps wait for single steps, by edges\n", "barriers");
    else
        (void)fprintf(to, "%-10s %-8u of %u, %u elided\n", "barriers", r->barriers,
                      r->barriers_naive, r->barriers_naive - r->barriers);
    if (r->early_steps)
        (void)fprintf(to,
                      "%-10s %u steps with %u barriers, then %u with %u, and one barrier between\n",
                      "submits", r->early_steps, r->early_barriers, r->steps - r->early_steps,
                      r->barriers - r->early_barriers - 1);
}

static void print_steps(FILE *to, const sl_inspect_report *r) {
    if (r->tokens)
        (void)fprintf(to, "%-10s %u token%s, logits of %u; schedule: %s\n", "step", r->tokens,
                      r->tokens == 1 ? "" : "s", r->wanted, r->schedule);
    else
        (void)fprintf(to, "%-10s schedule: %s\n", "graph", r->schedule);
    (void)fprintf(to, "%-10s %-8u from %u nodes, %u of them fused into others", "steps", r->steps,
                  r->nodes, r->fused);
    if (r->legalised) (void)fprintf(to, ", %u rewritten for the device", r->legalised);
    if (r->undeclared) (void)fprintf(to, "; %u steps with undeclared accesses", r->undeclared);
    (void)fputc('\n', to);
    (void)fprintf(to, "%-10s %-8u steps are not in graph order\n", "moved", r->moved);
    (void)fprintf(to, "%-10s %-8u", "groups", r->groups);
    const char *between = " ";
    for (int i = 1; i <= 9; i++) {
        if (!r->histogram[i % 9]) continue;
        (void)fprintf(to, "%s%u of %s%d", between, r->histogram[i % 9], i == 9 ? "more than " : "",
                      i == 9 ? 8 : i);
        between = ", ";
    }
    (void)fprintf(to, " steps; %.2f on average\n", r->groups ? (double)r->steps / r->groups : 0.0);
    print_barriers(to, r);
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
                  "%-10s build %.2f ms, check %.2f ms, simplify %.2f ms, legalise %.2f ms, "
                  "quantise %.2f ms,\n%-10s fuse %.2f ms, lower %.2f ms, schedule %.2f ms, plan "
                  "%.2f ms\n",
                  "compile", r->build_seconds * 1e3, r->check_seconds * 1e3,
                  r->simplify_seconds * 1e3, r->legalise_seconds * 1e3, r->quantise_seconds * 1e3,
                  "", r->fuse_seconds * 1e3, r->lower_seconds * 1e3, r->schedule_seconds * 1e3,
                  r->plan_seconds * 1e3);
    if (r->verify_seconds > 0)
        (void)fprintf(to, "%-10s order, bounds and values, in %.2f ms\n", "verified",
                      r->verify_seconds * 1e3);
    if (r->prove_seconds > 0)
        (void)fprintf(to,
                      "%-10s order of %u steps as the device has it: %u launches, %u segment%s, %u "
                      "edges, in %.2f ms\n",
                      "proved", r->proved_steps, r->proved_launches, r->proved_segments,
                      r->proved_segments == 1 ? "" : "s", r->proved_edges, r->prove_seconds * 1e3);
    if (r->prove_seconds > 0)
        (void)fprintf(to,
                      "%-10s %u graph nodes; %u steps share launches of others, the host runs %u\n",
                      "device", r->graph_nodes, r->joined_steps, r->hosted_steps);
    if (r->runs)
        (void)fprintf(to, "%-10s %.3f ms, median of %u; threads busy %.0f %%; %llu experts read\n",
                      "run", r->run_seconds * 1e3, r->runs, r->busy_share * 100,
                      (unsigned long long)r->reads);
}

void sl_inspect_print_rows(FILE *to, const char *what, const sl_inspect_row *rows, uint32_t count) {
    if (count == 0) return;
    (void)fprintf(to, "\n%-44s %8s %12s %7s\n", what, "calls", "us", "share");
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(to, "%-44s %8llu %12.1f %6.1f%%\n", rows[i].name,
                      (unsigned long long)rows[i].calls, rows[i].seconds * 1e6,
                      rows[i].share * 100);
}

/* ---- lists ---- */

/* How often each rule was applied and how often not, in the order of their first rows. */
static void print_rules(FILE *to, const sl_inspect_report *r) {
    (void)fprintf(to, "\n%-44s %8s %12s\n", "rule of fusion", "applied", "not applied");
    for (uint32_t i = 0; i < r->fusion_count; i++) {
        uint32_t applied = 0, refused = 0, before = 0;
        while (before < i && strcmp(r->fusions[before].rule, r->fusions[i].rule) != 0) before++;
        if (before < i) continue;
        for (uint32_t j = i; j < r->fusion_count; j++) {
            if (strcmp(r->fusions[j].rule, r->fusions[i].rule) != 0) continue;
            applied += !r->fusions[j].reason;
            refused += r->fusions[j].reason != NULL;
        }
        (void)fprintf(to, "%-44s %8u %12u\n", r->fusions[i].rule, applied, refused);
    }
}

static void print_fusions(FILE *to, const sl_inspect_report *r) {
    if (!r->fusion_count) return;
    print_rules(to, r);
    (void)fputc('\n', to);
    for (uint32_t i = 0; i < r->fusion_count; i++) {
        const sl_inspect_fusion *row = &r->fusions[i];
        (void)fprintf(to, "%s %s at %s%s%s\n", row->reason ? "not fused:" : "fused:", row->rule,
                      row->label, row->reason ? ": " : "", row->reason ? row->reason : "");
    }
}

/* By level, each of which begins with a barrier; or the edges as they are. */
static void print_waits(FILE *to, const sl_inspect_report *r) {
    const bool edges = strcmp(r->schedule, "edges") == 0;
    uint32_t level = 0;
    if (r->wait_count) (void)fputc('\n', to);
    for (uint32_t i = 0; i < r->wait_count; i++) {
        const sl_inspect_wait *w = &r->waits[i];
        if (!edges && w->level != level)
            (void)fprintf(to, "barrier between level %u and level %u\n", w->level - 1, w->level);
        level = w->level;
        (void)fprintf(to, "%s %u %s -> %u %s: %s", edges ? "edge" : "   ", w->from, w->from_label,
                      w->to, w->to_label, w->kind);
        if (w->bytes)
            (void)fprintf(to, " of %s%s%s, %llu bytes", w->buffer,
                          w->over[0] ? ", whose memory becomes " : "", w->over,
                          (unsigned long long)w->bytes);
        (void)fputc('\n', to);
    }
}

sl_status sl_inspect_print_text(void (*print)(FILE *to, const void *what), const void *what,
                                char **out_text, sl_error *err) {
    size_t bytes = 0;
    *out_text = NULL;
    FILE *to = open_memstream(out_text, &bytes);
    if (!to) return sl_no_memory(err, "a report", 0);
    print(to, what);
    const bool written = !ferror(to);
    if (fclose(to) == 0 && written && *out_text) return SL_OK;
    sl_free(*out_text);
    *out_text = NULL;
    return sl_no_memory(err, "a report", bytes);
}

static void print_report(FILE *to, const void *what) {
    const sl_inspect_report *report = what;
    print_steps(to, report);
    print_memory(to, report);
    print_times(to, report);
    sl_inspect_print_rows(to, "op", report->ops, report->op_count);
    sl_inspect_print_rows(to, "label", report->labels, report->label_count);
    print_fusions(to, report);
    print_waits(to, report);
}

sl_status sl_inspect_text(const sl_inspect_report *report, char **out_text, sl_error *err) {
    SL_NEED(report && out_text);
    return sl_inspect_print_text(print_report, report, out_text, err);
}
