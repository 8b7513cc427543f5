#include "engine/inspect/draw.h"
#include "engine/inspect/page.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Processes and threads of the trace: the viewer shows one track for each.  Viewers take a track of
 * number 0 for the idle thread, and equal numbers for one thread. */
enum {
    COMPUTE = 1,
    DISK = 2,
    LEVELS_TRACK = 1,
    FIRST_MEMBER_TRACK = 2,
    WAITS_TRACK = 9999,
    FIRST_LANE_TRACK = 10000,
    MAX_LANES = 64
};

struct sl_trace_file {
    sl_arena arena;
    sl_page page;
    sl_error err; /* the first failure of the page */
    double zero;  /* the time of the beginning */
    bool has_any; /* an event has been written: a comma comes first */
    bool waits;   /* there was one */
    uint32_t members, lanes;
    double free_from[MAX_LANES];
};
typedef sl_trace_file drawing;

typedef struct {
    double begin, end;
} span;

static double earliest(const sl_recording *r) {
    double zero = r->trace->count ? r->trace->events[0].begin : 0;
    for (uint32_t i = 0; i < r->trace->count; i++)
        if (r->trace->events[i].begin < zero) zero = r->trace->events[i].begin;
    for (uint32_t i = 0; i < r->reads->count; i++)
        if (r->reads->events[i].submit < zero) zero = r->reads->events[i].submit;
    return zero;
}

static void begin_event(drawing *d) {
    sl_page_print(&d->page, d->has_any ? ",\n" : "\n");
    d->has_any = true;
}

static void name_track(drawing *d, int process, uint32_t track, const char *name) {
    begin_event(d);
    sl_page_print(&d->page,
                  "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,"
                  "\"args\":{\"name\":\"%s\"}},\n",
                  process, track, name);
    sl_page_print(&d->page,
                  "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%u,"
                  "\"args\":{\"sort_index\":%u}}",
                  process, track, track);
}

static void name_process(drawing *d, int process, const char *name) {
    begin_event(d);
    sl_page_print(&d->page,
                  "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"%s\"}}",
                  process, name);
}

/* Up to the name, which the caller quotes; then the arguments follow and "}".  Both ends are
 * rounded to nanoseconds before they are subtracted, so that neighbours do not come to overlap. */
static void draw_slice(drawing *d, int process, uint32_t track, span when) {
    const long long begin = llround((when.begin - d->zero) * 1e9);
    const long long length = llround((when.end - d->zero) * 1e9) - begin;
    begin_event(d);
    sl_page_print(&d->page,
                  "{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,"
                  "\"name\":",
                  process, track, begin / 1000, begin % 1000, length / 1000, length % 1000);
}

static void draw_steps(drawing *d, const sl_recording *r) {
    for (uint32_t i = 0; i < r->trace->count; i++) {
        const sl_trace_event *e = &r->trace->events[i];
        const sl_step *step = &r->program->steps[e->step];
        if (e->member >= d->members) d->members = e->member + 1;
        draw_slice(d, COMPUTE, FIRST_MEMBER_TRACK + e->member, (span){e->begin, e->end});
        sl_page_quote(&d->page, step->label);
        sl_page_print(&d->page, ",\"cat\":\"%s\",\"args\":{\"step\":%u,\"level\":%u,\"run\":%u}}",
                      sl_op_info_of(step->op)->name, e->step, step->level,
                      r->first_number + e->run);
    }
}

static void draw_named(drawing *d, const char *what, uint32_t number, span when) {
    draw_slice(d, COMPUTE, LEVELS_TRACK, when);
    sl_page_print(&d->page, "\"%s %u\",\"cat\":\"%s\"}", what, number, what);
}

static void widen(span *s, const sl_trace_event *e) {
    if (s->end == 0 || e->begin < s->begin) s->begin = e->begin;
    if (e->end > s->end) s->end = e->end;
}

/* The levels of one run lie inside the run's own slice.  levels: room for all of them. */
static void draw_run(drawing *d, const sl_recording *r, uint32_t run, span *levels) {
    const sl_program *program = r->program;
    const sl_trace *trace = r->trace;
    span whole = {0};
    for (uint32_t l = 0; l < program->level_count; l++) levels[l] = (span){0};
    for (uint32_t i = 0; i < trace->count; i++) {
        if (trace->events[i].run != run) continue;
        widen(&whole, &trace->events[i]);
        widen(&levels[program->steps[trace->events[i].step].level], &trace->events[i]);
    }
    draw_named(d, r->name, r->first_number + run, whole);
    for (uint32_t l = 0; l < program->level_count; l++)
        if (levels[l].end > 0) draw_named(d, "level", l, levels[l]);
}

static void draw_runs(drawing *d, const sl_recording *r, span *levels) {
    uint32_t runs = 0;
    for (uint32_t i = 0; i < r->trace->count; i++)
        if (r->trace->events[i].run >= runs) runs = r->trace->events[i].run + 1;
    for (uint32_t run = 0; run < runs; run++) draw_run(d, r, run, levels);
}

static int by_submit(const void *a, const void *b) {
    const double x = ((const sl_read_event *)a)->submit, y = ((const sl_read_event *)b)->submit;
    return (x > y) - (x < y);
}

/* Reads that overlap go to different lanes, each to the first that is free.  sorted: by submit. */
static void draw_reads(drawing *d, const sl_read_event *sorted, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const sl_read_event *e = &sorted[i];
        uint32_t lane = 0;
        while (lane < MAX_LANES - 1 && d->free_from[lane] > e->submit) lane++;
        if (lane >= d->lanes) d->lanes = lane + 1;
        d->free_from[lane] = e->complete;
        draw_slice(d, DISK, FIRST_LANE_TRACK + lane, (span){e->submit, e->complete});
        sl_page_print(&d->page,
                      "\"layer %u expert %u\",\"cat\":\"read\",\"args\":{\"bytes\":%llu}}",
                      e->layer, e->expert, (unsigned long long)e->bytes);
    }
}

static void draw_waits(drawing *d, const sl_read_log *log) {
    for (uint32_t i = 0; i < log->wait_count; i++) {
        draw_slice(d, COMPUTE, WAITS_TRACK, (span){log->waits[i].begin, log->waits[i].end});
        sl_page_print(&d->page, "\"wait for experts of layer %u\",\"cat\":\"wait\"}",
                      log->waits[i].layer);
    }
    d->waits |= log->wait_count > 0;
}

static void draw_tracks(drawing *d) {
    char name[32];
    name_process(d, COMPUTE, "compute");
    name_track(d, COMPUTE, LEVELS_TRACK, "runs and levels");
    if (d->waits) name_track(d, COMPUTE, WAITS_TRACK, "waits for experts");
    for (uint32_t m = 0; m < d->members; m++) {
        (void)snprintf(name, sizeof name, "member %u", m);
        name_track(d, COMPUTE, FIRST_MEMBER_TRACK + m, name);
    }
    for (uint32_t lane = 0; lane < d->lanes; lane++) {
        (void)snprintf(name, sizeof name, "reads %u", lane);
        name_track(d, DISK, FIRST_LANE_TRACK + lane, name);
    }
    if (d->lanes) name_process(d, DISK, "disk");
}

sl_status sl_trace_file_open(const char *path, double zero, const sl_allocator *allocator,
                             sl_trace_file **out, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, allocator);
    sl_trace_file *file = SL_ARENA_NEW(&arena, sl_trace_file);
    if (!file) return sl_no_memory(err, "a trace", sizeof *file);
    file->arena = arena;
    file->zero = zero;
    sl_page_open(&file->page, path, allocator, &file->err);
    sl_page_print(&file->page, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    if (file->page.status != SL_OK) return sl_trace_file_close(file, true, err);
    *out = file;
    return SL_OK;
}

void sl_trace_file_add(sl_trace_file *file, const sl_recording *recording) {
    sl_arena arena;
    if (file->page.status != SL_OK) return;
    sl_arena_init(&arena, file->arena.allocator);
    span *levels = SL_ARENA_NEW_ARRAY(&arena, span, recording->program->level_count + 1);
    sl_read_event *reads = SL_ARENA_NEW_ARRAY(&arena, sl_read_event, recording->reads->count + 1);
    if (levels && reads) {
        for (uint32_t i = 0; i < recording->reads->count; i++)
            reads[i] = recording->reads->events[i];
        qsort(reads, recording->reads->count, sizeof *reads, by_submit);
        if (recording->compile_end > 0) {
            draw_slice(file, COMPUTE, LEVELS_TRACK,
                       (span){recording->compile_begin, recording->compile_end});
            sl_page_print(&file->page, "\"compile\",\"cat\":\"compile\"}");
        }
        draw_runs(file, recording, levels);
        draw_steps(file, recording);
        draw_waits(file, recording->reads);
        draw_reads(file, reads, recording->reads->count);
    } else
        file->page.status =
            sl_no_memory(&file->err, "a trace", recording->reads->count * sizeof *reads);
    sl_arena_deinit(&arena);
}

sl_status sl_trace_file_close(sl_trace_file *file, bool keep, sl_error *err) {
    sl_status status = SL_OK;
    if (keep) {
        draw_tracks(file);
        sl_page_print(&file->page, "\n]}\n");
        status = sl_page_close(&file->page);
        if (status != SL_OK && err) *err = file->err;
    } else
        sl_page_abandon(&file->page);
    sl_arena arena = file->arena; /* the file itself lives in it */
    sl_arena_deinit(&arena);
    return status;
}

sl_status sl_write_trace(const sl_recording *recording, const char *path,
                         const sl_allocator *allocator, sl_error *err) {
    sl_trace_file *file;
    SL_TRY(sl_trace_file_open(path, earliest(recording), allocator, &file, err));
    sl_trace_file_add(file, recording);
    return sl_trace_file_close(file, true, err);
}
