/* compiled_time.c - Where the time of runs goes (sluice/executor.h). */
#include "api/compiled.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/inspect/draw.h"
#include "runtime/profile.h"
#include <string.h>

sl_status sl_compiled_timing_of(const sl_compiled *c, sl_compiled_timing *out, sl_error *err) {
    SL_NEED(c && out);
    SL_TRY(SL_STRUCT_CHECK(sl_compiled_timing, out, err));
    SL_TRY(sl_compiled_check_idle(c, err));
    SL_STRUCT_GIVE(sl_compiled_timing, out, &c->timings);
    return SL_OK;
}

/* ---- windows ---- */

static void detach(sl_compiled *c) {
    c->executor->device->ops->attach(c->executable, NULL);
    c->window.left = 0;
}

void sl_window_count(sl_compiled *c) {
    sl_window *window = &c->window;
    if (!window->left) return;
    window->recorded++;
    if (--window->left == 0) detach(c);
}

void sl_window_close(sl_compiled *c) {
    sl_window *window = &c->window;
    if (!window->is_open) return;
    if (window->left) detach(c);
    sl_arena_deinit(&window->arena);
    *window = (sl_window){0};
}

static sl_status copy_text(sl_arena *arena, const char *text, const char **out, sl_error *err) {
    *out = text ? sl_arena_copy_text(arena, text, strlen(text)) : NULL;
    return text && !*out ? sl_no_memory(err, "a profile", strlen(text)) : SL_OK;
}

static sl_status open_window(sl_compiled *c, const sl_profile_options *options, sl_error *err) {
    sl_window *window = &c->window;
    window->left = 0;
    const uint32_t runs = options->runs ? options->runs : 1;
    SL_TRY(copy_text(&window->arena, options->labels, &window->labels, err));
    SL_TRY(copy_text(&window->arena, options->trace_path, &window->path, err));
    SL_TRY(sl_trace_create(c->program, runs, &window->arena, &window->trace, err));
    c->executor->device->ops->attach(c->executable, &window->trace);
    window->left = runs;
    return SL_OK;
}

sl_status sl_compiled_profile_begin(sl_compiled *c, const sl_profile_options *given,
                                    sl_error *err) {
    SL_NEED(c);
    sl_profile_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_profile_options, &options, given, err));
    SL_TRY(sl_compiled_check_idle(c, err));
    if (!c->executor->device)
        return sl_fail(err, SL_UNSUPPORTED, "the device '%s' does not support profiling",
                       c->executor->row->name);
    if (c->window.is_open)
        return sl_fail(err, SL_INVALID, "graph '%s': a profile is open", c->graph->name);
    c->window.is_open = true;
    sl_arena_init(&c->window.arena, c->executor->allocator);
    sl_queue_enter(c->executor->queue);
    const sl_status status = open_window(c, &options, err);
    if (status != SL_OK) sl_window_close(c);
    sl_queue_leave(c->executor->queue);
    return status;
}

/* ---- reports ---- */

/* Leaves the events of steps whose label begins as the window wants. */
static void select_events(const sl_program *program, sl_window *window) {
    sl_trace *trace = &window->trace;
    uint32_t kept = 0;
    const size_t length = window->labels ? strlen(window->labels) : 0;
    for (uint32_t i = 0; length && i < trace->count; i++)
        if (strncmp(program->steps[trace->events[i].step].label, window->labels, length) == 0)
            trace->events[kept++] = trace->events[i];
    if (length) trace->count = kept;
}

static sl_status copy_rows(const sl_profile_row *from, uint32_t count, sl_arena *arena,
                           const sl_time_row **out, sl_error *err) {
    sl_time_row *rows = SL_ARENA_NEW_ARRAY(arena, sl_time_row, (size_t)count + 1);
    if (!rows) return sl_no_memory(err, "a profile", count * sizeof *rows);
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (sl_time_row){
            .calls = from[i].calls, .seconds = from[i].seconds, .share = from[i].share};
        SL_TRY(copy_text(arena, from[i].name, &rows[i].name, err));
    }
    *out = rows;
    return SL_OK;
}

static sl_status fill_report(const sl_compiled *c, const sl_profile *profile, sl_arena *memory,
                             sl_profile_report *out, sl_error *err) {
    const sl_window *window = &c->window;
    *out = (sl_profile_report){.runs = window->recorded,
                               .dropped = window->trace.dropped,
                               .busy_seconds = profile->busy_seconds,
                               .wall_seconds = profile->wall_seconds,
                               .op_count = profile->op_count,
                               .label_count = profile->label_count};
    SL_TRY(copy_rows(profile->ops, profile->op_count, memory, &out->ops, err));
    return copy_rows(profile->labels, profile->label_count, memory, &out->labels, err);
}

static sl_status report_window(sl_compiled *c, sl_arena *memory, sl_profile_report *out,
                               sl_error *err) {
    sl_window *window = &c->window;
    sl_profile profile;
    select_events(c->program, window);
    SL_TRY(sl_profile_build(c->program, &window->trace, &window->arena, &profile, err));
    SL_TRY(fill_report(c, &profile, memory, out, err));
    if (!window->path) return SL_OK;
    const sl_read_log none = {0};
    const sl_recording recording = {
        .program = c->program, .trace = &window->trace, .reads = &none, .name = "run"};
    return sl_write_trace(&recording, window->path, c->executor->allocator, err);
}

/* The report's memory outlives the executor: it is the C library's. */
static sl_status end_window(sl_compiled *c, sl_profile_report *out, sl_error *err) {
    sl_profile_report report = {0};
    sl_arena *memory = sl_allocate(NULL, sizeof *memory, _Alignof(sl_arena));
    if (!memory) return sl_no_memory(err, "a profile", sizeof *memory);
    sl_arena_init(memory, NULL);
    const sl_status status = report_window(c, memory, &report, err);
    report.memory = memory;
    if (status == SL_OK)
        SL_STRUCT_GIVE(sl_profile_report, out, &report);
    else
        sl_profile_report_deinit(&report);
    return status;
}

/* The memory of a report can be released only if there is room for its address. */
static sl_status check_report(const sl_profile_report *out, sl_error *err) {
    SL_TRY(SL_STRUCT_CHECK(sl_profile_report, out, err));
    if (out->struct_size >= offsetof(sl_profile_report, runs)) return SL_OK;
    return sl_fail(err, SL_INVALID, "sl_profile_report: struct_size is %zu, wanted %zu",
                   out->struct_size, sizeof *out);
}

sl_status sl_compiled_profile_end(sl_compiled *c, sl_profile_report *out, sl_error *err) {
    SL_NEED(c && out);
    SL_TRY(sl_compiled_check_idle(c, err));
    SL_TRY(check_report(out, err));
    if (!c->window.is_open)
        return sl_fail(err, SL_INVALID, "graph '%s': no profile is open", c->graph->name);
    sl_queue_enter(c->executor->queue);
    const sl_status status = end_window(c, out, err);
    sl_window_close(c);
    sl_queue_leave(c->executor->queue);
    return status;
}

void sl_profile_report_deinit(sl_profile_report *report) {
    if (!report || !report->memory) return;
    sl_arena *memory = report->memory;
    sl_arena_deinit(memory);
    sl_release(NULL, memory, sizeof *memory, _Alignof(sl_arena));
    report->memory = NULL;
}

sl_status sl_compiled_profile(sl_compiled *c, const sl_profile_options *options,
                              sl_profile_report *out, sl_error *err) {
    SL_NEED(c && out);
    sl_status status = SL_OK;
    SL_TRY(check_report(out, err));
    SL_TRY(sl_compiled_profile_begin(c, options, err));
    while (c->window.left && status == SL_OK) status = sl_compiled_run(c, err);
    if (status == SL_OK) return sl_compiled_profile_end(c, out, err);
    sl_queue_enter(c->executor->queue);
    sl_window_close(c);
    sl_queue_leave(c->executor->queue);
    return status;
}
