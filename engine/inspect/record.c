#include "engine/inspect/record.h"
#include "base/clock.h"
#include "runtime/devices.h"
#include "runtime/profile.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_READS = 1 << 16 };

typedef struct {
    const sl_runnable *what;
    uint32_t runs;
    sl_arena arena;
    sl_trace trace;
    sl_read_log reads;
    double *seconds; /* [runs] */
} recorder;

static sl_status make_room(recorder *r, sl_error *err) {
    SL_TRY(sl_trace_create(r->what->program, r->runs, &r->arena, &r->trace, err));
    r->reads.capacity = r->what->store ? MOST_READS : 0;
    r->reads.wait_capacity = r->reads.capacity;
    r->reads.events = SL_ARENA_NEW_ARRAY(&r->arena, sl_read_event, r->reads.capacity + 1);
    r->reads.waits = SL_ARENA_NEW_ARRAY(&r->arena, sl_wait_event, r->reads.wait_capacity + 1);
    r->seconds = SL_ARENA_NEW_ARRAY(&r->arena, double, r->runs);
    if (r->reads.events && r->reads.waits && r->seconds) return SL_OK;
    return sl_no_memory(err, "a trace", MOST_READS * sizeof *r->reads.events);
}

static void attach(recorder *r, bool on) {
    const sl_runnable *what = r->what;
    what->device->ops->attach(what->executable, on ? &r->trace : NULL);
    if (what->store) sl_expert_store_attach(what->store, on ? &r->reads : NULL);
}

/* The first run, which touches everything for the first time, is not recorded. */
static sl_status run_all(recorder *r, sl_error *err) {
    const sl_runnable *what = r->what;
    SL_TRY(what->run(what->ctx, 0, err));
    attach(r, true);
    sl_status status = SL_OK;
    for (uint32_t run = 0; run < r->runs && status == SL_OK; run++) {
        const double begin = sl_clock_seconds();
        status = what->run(what->ctx, run + 1, err);
        r->seconds[run] = sl_clock_seconds() - begin;
    }
    attach(r, false);
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sl_status copy_rows(const sl_profile_row *from, uint32_t count, sl_arena *arena,
                           const sl_inspect_row **out, sl_error *err) {
    sl_inspect_row *rows = SL_ARENA_NEW_ARRAY(arena, sl_inspect_row, count + 1);
    if (!rows) return sl_no_memory(err, "a report", count * sizeof *rows);
    for (uint32_t i = 0; i < count; i++) {
        rows[i] =
            (sl_inspect_row){.name = sl_arena_copy_text(arena, from[i].name, strlen(from[i].name)),
                             .calls = from[i].calls,
                             .seconds = from[i].seconds,
                             .share = from[i].share};
        if (!rows[i].name) return sl_no_memory(err, "a report", strlen(from[i].name));
    }
    *out = rows;
    return SL_OK;
}

static sl_status describe(recorder *r, sl_inspect_report *report, sl_error *err) {
    sl_profile profile;
    sl_arena *memory = report->memory;
    SL_TRY(sl_profile_build(r->what->program, &r->trace, &r->arena, &profile, err));
    qsort(r->seconds, r->runs, sizeof *r->seconds, by_value);
    report->runs = r->runs;
    report->threads = sl_device_describe(r->what->device).threads;
    report->run_seconds = r->seconds[r->runs / 2];
    if (profile.wall_seconds > 0)
        report->busy_share = profile.busy_seconds / profile.wall_seconds / report->threads;
    report->trace_events = r->trace.count;
    report->trace_dropped = r->trace.dropped;
    report->reads = (uint64_t)r->reads.count + r->reads.dropped;
    report->op_count = profile.op_count;
    report->label_count = profile.label_count;
    SL_TRY(copy_rows(profile.ops, profile.op_count, memory, &report->ops, err));
    return copy_rows(profile.labels, profile.label_count, memory, &report->labels, err);
}

static sl_status record(recorder *r, const char *trace_path, sl_inspect_report *report,
                        sl_error *err) {
    SL_TRY(make_room(r, err));
    SL_TRY(run_all(r, err));
    SL_TRY(describe(r, report, err));
    if (!trace_path) return SL_OK;
    const sl_recording recording = {
        .program = r->what->program, .trace = &r->trace, .reads = &r->reads, .name = "run"};
    return sl_write_trace(&recording, trace_path, r->arena.allocator, err);
}

sl_status sl_record(const sl_runnable *what, uint32_t runs, const char *trace_path,
                    sl_inspect_report *report, sl_error *err) {
    recorder r = {.what = what, .runs = runs};
    sl_arena_init(&r.arena, what->program->arena.allocator);
    const sl_status status = record(&r, trace_path, report, err);
    sl_arena_deinit(&r.arena);
    return status;
}

sl_status sl_prove(const sl_runnable *what, sl_inspect_report *report, sl_error *err) {
    sl_device_proof proof;
    if (!what->device->ops->prove) return SL_OK;
    const double begin = sl_clock_seconds();
    SL_TRY(what->device->ops->prove(what->executable, &proof, err));
    report->prove_seconds = sl_clock_seconds() - begin;
    report->proved_steps = proof.steps;
    report->proved_launches = proof.launches;
    report->proved_segments = proof.segments;
    report->proved_edges = proof.edges;
    report->graph_nodes = proof.nodes;
    report->joined_steps = proof.joined;
    report->hosted_steps = proof.hosted;
    return SL_OK;
}
