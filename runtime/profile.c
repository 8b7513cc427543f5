#include "runtime/profile.h"
#include <stdlib.h>
#include <string.h>

/* What one step took, over all runs. */
typedef struct {
    const char *label;
    sl_op op;
    uint64_t calls;
    double seconds;
} step_time;

static int by_run_and_step(const void *a, const void *b) {
    const sl_trace_event *x = a, *y = b;
    if (x->run != y->run) return x->run < y->run ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int by_label(const void *a, const void *b) {
    return strcmp(((const step_time *)a)->label, ((const step_time *)b)->label);
}

static int by_seconds(const void *a, const void *b) {
    const sl_profile_row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Events in order of run and step: a step's first event in a run is its call. */
static void fold_events(const sl_trace_event *events, uint32_t count, step_time *steps,
                        sl_profile *out) {
    double begin = 0, end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const sl_trace_event *e = &events[i];
        const bool first_of_run = i == 0 || e->run != e[-1].run;
        steps[e->step].calls += first_of_run || e->step != e[-1].step;
        steps[e->step].seconds += e->end - e->begin;
        out->busy_seconds += e->end - e->begin;
        if (first_of_run) {
            out->wall_seconds += end - begin;
            out->runs++;
            begin = e->begin;
            end = e->end;
        }
        if (e->begin < begin) begin = e->begin;
        if (e->end > end) end = e->end;
    }
    out->wall_seconds += end - begin;
}

static void add_step(sl_profile_row *row, const step_time *step, double total) {
    row->calls += step->calls;
    row->seconds += step->seconds;
    row->share = total > 0 ? row->seconds / total : 0;
}

static uint32_t fold_ops(const step_time *steps, uint32_t count, double total,
                         sl_profile_row rows[SL_OP_COUNT]) {
    for (uint32_t s = 0; s < count; s++) {
        sl_profile_row *row = &rows[steps[s].op];
        row->name = sl_op_info_of(steps[s].op)->name;
        add_step(row, &steps[s], total);
    }
    uint32_t used = 0;
    for (uint32_t op = 0; op < SL_OP_COUNT; op++)
        if (rows[op].calls) rows[used++] = rows[op];
    qsort(rows, used, sizeof *rows, by_seconds);
    return used;
}

/* Orders steps by label on the way. */
static uint32_t fold_labels(step_time *steps, uint32_t count, double total, sl_profile_row *rows) {
    uint32_t used = 0;
    qsort(steps, count, sizeof *steps, by_label);
    for (uint32_t s = 0; s < count; s++) {
        if (!steps[s].calls) continue;
        if (used == 0 || strcmp(rows[used - 1].name, steps[s].label) != 0)
            rows[used++] = (sl_profile_row){.name = steps[s].label};
        add_step(&rows[used - 1], &steps[s], total);
    }
    qsort(rows, used, sizeof *rows, by_seconds);
    return used;
}

sl_status sl_profile_build(const sl_program *program, const sl_trace *trace, sl_arena *arena,
                           sl_profile *out, sl_error *err) {
    *out = (sl_profile){0};
    const uint32_t count = program->step_count;
    step_time *steps = SL_ARENA_NEW_ARRAY(arena, step_time, count + 1);
    sl_trace_event *events = SL_ARENA_NEW_ARRAY(arena, sl_trace_event, trace->count + 1);
    out->ops = SL_ARENA_NEW_ARRAY(arena, sl_profile_row, SL_OP_COUNT);
    out->labels = SL_ARENA_NEW_ARRAY(arena, sl_profile_row, count + 1);
    if (!steps || !events || !out->ops || !out->labels)
        return sl_no_memory(err, "a profile", trace->count * sizeof *events);
    for (uint32_t s = 0; s < count; s++)
        steps[s] = (step_time){.label = program->steps[s].label, .op = program->steps[s].op};
    for (uint32_t i = 0; i < trace->count; i++) {
        events[i] = trace->events[i];
        if (events[i].step >= count)
            return sl_fail(err, SL_INVALID, "a trace with step %u: the program has %u",
                           events[i].step, count);
    }
    qsort(events, trace->count, sizeof *events, by_run_and_step);
    fold_events(events, trace->count, steps, out);
    out->op_count = fold_ops(steps, count, out->busy_seconds, out->ops);
    out->label_count = fold_labels(steps, count, out->busy_seconds, out->labels);
    return SL_OK;
}

sl_status sl_trace_create(const sl_program *program, uint32_t runs, sl_arena *arena, sl_trace *out,
                          sl_error *err) {
    enum {
        MOST_EVENTS = 1 << 20,
        CHUNKS_PER_STEP =
            16 /* more than a step has on most machines; what is too much is counted */
    };
    const uint64_t events = (uint64_t)runs * program->step_count * CHUNKS_PER_STEP;
    *out = (sl_trace){.capacity = events < MOST_EVENTS ? (uint32_t)events : MOST_EVENTS};
    out->events = SL_ARENA_NEW_ARRAY(arena, sl_trace_event, out->capacity + 1);
    return out->events ? SL_OK : sl_no_memory(err, "a trace", out->capacity * sizeof *out->events);
}
