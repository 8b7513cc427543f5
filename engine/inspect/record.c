#include "engine/inspect/record.h"
#include "base/clock.h"
#include "runtime/profile.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_READS = 1 << 16 };

typedef struct {
    sl_model *model;
    const sl_record_plan *plan;
    sl_arena arena;
    sl_forward *forward;
    sl_prepared_forward step;
    sl_trace trace;
    sl_read_log reads;
    double *seconds; /* [runs] */
    int32_t *tokens, *slots, *positions;
} recorder;

static sl_status make_room(recorder *r, sl_error *err) {
    const uint32_t rows = r->plan->rows;
    SL_TRY(sl_trace_create(r->step.program, r->plan->runs, &r->arena, &r->trace, err));
    r->reads.capacity = MOST_READS;
    r->reads.events = SL_ARENA_NEW_ARRAY(&r->arena, sl_read_event, MOST_READS);
    r->seconds = SL_ARENA_NEW_ARRAY(&r->arena, double, r->plan->runs);
    r->tokens = SL_ARENA_NEW_ARRAY(&r->arena, int32_t, rows);
    r->slots = SL_ARENA_NEW_ARRAY(&r->arena, int32_t, rows);
    r->positions = SL_ARENA_NEW_ARRAY(&r->arena, int32_t, rows);
    if (r->reads.events && r->seconds && r->tokens && r->slots && r->positions) return SL_OK;
    return sl_no_memory(err, "a trace", MOST_READS * sizeof *r->reads.events);
}

/* Any tokens do: spread over the vocabulary, other ones in each run.  The first run starts at
 * position 0, which resets the recurrent state. */
static void choose_rows(recorder *r, uint32_t run) {
    const uint32_t rows = r->plan->rows;
    const uint32_t fitting = (r->model->context_tokens - r->plan->depth) / rows;
    const uint32_t next = r->plan->depth + (fitting ? run % fitting * rows : 0);
    const uint32_t start = run == 0 ? 0 : next;
    for (uint32_t i = 0; i < rows; i++) {
        r->tokens[i] = (int32_t)(((uint64_t)(run * rows + i) * 7919 + 17) % r->model->config.vocab);
        r->positions[i] = (int32_t)(start + i);
    }
}

static sl_status run_once(recorder *r, uint32_t run, sl_error *err) {
    const uint32_t rows = r->plan->rows, wanted = r->plan->wanted;
    const int32_t last = (int32_t)rows - 1;
    choose_rows(r, run);
    const sl_forward_rows step = {.count = rows,
                                  .wanted = wanted,
                                  .tokens = r->tokens,
                                  .slots = r->slots,
                                  .positions = r->positions,
                                  .wanted_rows = wanted == 1 && rows > 1 ? &last : NULL};
    sl_forward_result result;
    return sl_forward_run(r->forward, &step, &result, err);
}

/* The first run, which touches everything for the first time, is not recorded. */
static sl_status run_all(recorder *r, sl_error *err) {
    const sl_device_ops *ops = r->model->device->ops;
    if (r->plan->depth) SL_TRY(sl_forward_fake_kv(r->forward, 0, err));
    SL_TRY(run_once(r, 0, err));
    ops->attach(r->step.executable, &r->trace);
    sl_expert_store_attach(r->model->store, &r->reads);
    sl_status status = SL_OK;
    for (uint32_t run = 0; run < r->plan->runs && status == SL_OK; run++) {
        const double begin = sl_clock_seconds();
        status = run_once(r, run + 1, err);
        r->seconds[run] = sl_clock_seconds() - begin;
    }
    sl_expert_store_attach(r->model->store, NULL);
    ops->attach(r->step.executable, NULL);
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint32_t copy_rows(const sl_profile_row *from, uint32_t count, sl_inspect_row *out) {
    if (count > SL_INSPECT_ROWS) count = SL_INSPECT_ROWS;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (sl_inspect_row){
            .calls = from[i].calls, .seconds = from[i].seconds, .share = from[i].share};
        (void)snprintf(out[i].name, sizeof out[i].name, "%s", from[i].name);
    }
    return count;
}

static sl_status describe(recorder *r, sl_inspect_report *report, sl_error *err) {
    sl_profile profile;
    SL_TRY(sl_profile_build(r->step.program, &r->trace, &r->arena, &profile, err));
    qsort(r->seconds, r->plan->runs, sizeof *r->seconds, by_value);
    report->runs = r->plan->runs;
    report->threads = r->model->device_info.threads;
    report->run_seconds = r->seconds[r->plan->runs / 2];
    if (profile.wall_seconds > 0)
        report->busy_share = profile.busy_seconds / profile.wall_seconds / report->threads;
    report->trace_events = r->trace.count;
    report->trace_dropped = r->trace.dropped;
    report->reads = (uint64_t)r->reads.count + r->reads.dropped;
    report->op_count = copy_rows(profile.ops, profile.op_count, report->ops);
    report->label_count = copy_rows(profile.labels, profile.label_count, report->labels);
    return SL_OK;
}

static sl_status prepare(recorder *r, sl_error *err) {
    sl_forward_options options = *sl_forward_options_of(r->model->forward);
    options.compile = r->plan->compile;
    options.shape.slots = 1;
    options.chunk_rows = 0;
    SL_TRY(sl_forward_create(&options, &r->forward, err));
    SL_TRY(sl_forward_bind(r->forward, options.experts_source, err));
    return sl_forward_prepare(r->forward, r->plan->rows, r->plan->wanted, &r->step, err);
}

static sl_status record(recorder *r, const char *trace_path, sl_inspect_report *report,
                        sl_error *err) {
    SL_TRY(prepare(r, err));
    SL_TRY(make_room(r, err));
    SL_TRY(run_all(r, err));
    SL_TRY(describe(r, report, err));
    if (!trace_path) return SL_OK;
    const sl_recording recording = {r->step.program, &r->trace, &r->reads, report->threads};
    return sl_write_trace(&recording, trace_path, &r->model->allocator, err);
}

static sl_status prove(recorder *r, sl_inspect_report *report, sl_error *err) {
    sl_device_proof proof;
    SL_TRY(prepare(r, err));
    const double begin = sl_clock_seconds();
    SL_TRY(r->model->device->ops->prove(r->step.executable, &proof, err));
    report->prove_seconds = sl_clock_seconds() - begin;
    report->proved_steps = proof.steps;
    report->proved_launches = proof.launches;
    report->proved_segments = proof.segments;
    report->proved_edges = proof.edges;
    return SL_OK;
}

sl_status sl_prove(sl_model *model, const sl_record_plan *plan, sl_inspect_report *report,
                   sl_error *err) {
    recorder r = {.model = model, .plan = plan};
    if (!model->device || !model->device->ops->prove) return SL_OK;
    (void)pthread_mutex_lock(&model->lock);
    const sl_status status = prove(&r, report, err);
    sl_forward_destroy(r.forward);
    (void)pthread_mutex_unlock(&model->lock);
    return status;
}

sl_status sl_record(sl_model *model, const sl_record_plan *plan, const char *trace_path,
                    sl_inspect_report *report, sl_error *err) {
    recorder r = {.model = model, .plan = plan};
    sl_arena_init(&r.arena, &model->allocator);
    (void)pthread_mutex_lock(&model->lock);
    const sl_status status = record(&r, trace_path, report, err);
    sl_forward_destroy(r.forward);
    (void)pthread_mutex_unlock(&model->lock);
    sl_arena_deinit(&r.arena);
    return status;
}
