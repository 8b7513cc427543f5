/* schedule.c - Levels by list scheduling over the conflicts of declared accesses. */
#include "compiler/compile.h"
#include <string.h>

/* Edges in compressed form: the successors of step s are targets[first[s] .. first[s+1]). */
typedef struct {
    uint32_t *first, *targets;
    uint32_t *waiting;      /* per step: predecessors not yet scheduled */
    bool *leads_to_request; /* per step: an ancestor of the next request, or it */
    bool *scheduled;
    uint32_t *order; /* the steps by level */
} dag;

static bool overlap(const sl_access *a, const sl_access *b) {
    return a->buffer.v == b->buffer.v && a->begin < b->end && b->begin < a->end;
}

static bool any_overlap(const sl_access *a, uint32_t a_count, const sl_access *b,
                        uint32_t b_count) {
    for (uint32_t i = 0; i < a_count; i++)
        for (uint32_t j = 0; j < b_count; j++)
            if (overlap(&a[i], &b[j])) return true;
    return false;
}

/* Read after write, write after read, write after write. */
static bool conflict(const sl_step *earlier, const sl_step *later) {
    return any_overlap(earlier->writes, earlier->write_count, later->reads, later->read_count) ||
           any_overlap(earlier->reads, earlier->read_count, later->writes, later->write_count) ||
           any_overlap(earlier->writes, earlier->write_count, later->writes, later->write_count);
}

/* Steps that touch each buffer, so that only those are compared. */
typedef struct {
    uint32_t *first, *steps;
} touch_lists;

static void for_each_access(const sl_step *step, uint32_t *counters, uint32_t *sink,
                            uint32_t index) {
    for (uint32_t a = 0; a < step->read_count + step->write_count; a++) {
        const sl_access *access =
            a < step->read_count ? &step->reads[a] : &step->writes[a - step->read_count];
        const uint32_t at = counters[access->buffer.v]++;
        if (sink) sink[at] = index;
    }
}

static bool build_touch_lists(const sl_program *p, sl_arena *arena, touch_lists *out) {
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, p->buffer_count + 2);
    uint32_t *cursor = SL_ARENA_NEW_ARRAY(arena, uint32_t, p->buffer_count + 1);
    if (!out->first || !cursor) return false;
    for (uint32_t s = 0; s < p->step_count; s++)
        for_each_access(&p->steps[s], out->first + 1, NULL, s);
    for (uint32_t b = 0; b < p->buffer_count; b++) out->first[b + 1] += out->first[b];
    memcpy(cursor, out->first, p->buffer_count * sizeof *cursor);
    out->steps = SL_ARENA_NEW_ARRAY(arena, uint32_t, out->first[p->buffer_count] + 1);
    if (!out->steps) return false;
    for (uint32_t s = 0; s < p->step_count; s++)
        for_each_access(&p->steps[s], cursor, out->steps, s);
    return true;
}

/* Calls visit for every later step that conflicts with step s, once each. */
static uint32_t successors_of(const sl_program *p, const touch_lists *lists, uint32_t s,
                              uint32_t *seen, uint32_t *targets) {
    const sl_step *step = &p->steps[s];
    uint32_t count = 0;
    for (uint32_t a = 0; a < step->read_count + step->write_count; a++) {
        const sl_access *access =
            a < step->read_count ? &step->reads[a] : &step->writes[a - step->read_count];
        for (uint32_t i = lists->first[access->buffer.v]; i < lists->first[access->buffer.v + 1];
             i++) {
            const uint32_t t = lists->steps[i];
            if (t <= s || seen[t] == s + 1) continue;
            seen[t] = s + 1;
            if (!conflict(step, &p->steps[t])) continue;
            if (targets) targets[count] = t;
            count++;
        }
    }
    return count;
}

static bool build_dag(const sl_program *p, sl_arena *arena, dag *d) {
    touch_lists lists = {0};
    const uint32_t n = p->step_count;
    d->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    d->waiting = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    d->leads_to_request = SL_ARENA_NEW_ARRAY(arena, bool, n + 1);
    d->scheduled = SL_ARENA_NEW_ARRAY(arena, bool, n + 1);
    d->order = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    uint32_t *seen = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    if (!d->first || !d->waiting || !d->leads_to_request || !d->scheduled || !d->order || !seen ||
        !build_touch_lists(p, arena, &lists))
        return false;
    for (uint32_t s = 0; s < n; s++)
        d->first[s + 1] = d->first[s] + successors_of(p, &lists, s, seen, NULL);
    d->targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, d->first[n] + 1);
    if (!d->targets) return false;
    memset(seen, 0, n * sizeof *seen);
    for (uint32_t s = 0; s < n; s++) {
        (void)successors_of(p, &lists, s, seen, d->targets + d->first[s]);
        for (uint32_t e = d->first[s]; e < d->first[s + 1]; e++) d->waiting[d->targets[e]]++;
    }
    return true;
}

static bool is(const sl_step *step, uint32_t trait) {
    return (sl_op_info_of(step->op)->traits & trait) != 0;
}

/* Marks the first unscheduled request and everything it waits for. */
static void mark_leading(const sl_program *p, dag *d) {
    const uint32_t n = p->step_count;
    memset(d->leads_to_request, 0, n * sizeof *d->leads_to_request);
    uint32_t request = 0;
    while (request < n && (d->scheduled[request] || !is(&p->steps[request], SL_OP_REQUESTS)))
        request++;
    if (request == n) return;
    d->leads_to_request[request] = true;
    for (uint32_t s = request; s-- > 0;)
        for (uint32_t e = d->first[s]; e < d->first[s + 1]; e++)
            if (d->leads_to_request[d->targets[e]]) d->leads_to_request[s] = true;
}

/* What may run now: first what leads to the next request, then other work, last what waits. */
enum { LEADING, OTHER, WAITING, RANKS };

static int rank_of(const sl_program *p, const dag *d, uint32_t s) {
    if (is(&p->steps[s], SL_OP_STREAMS)) return WAITING;
    return d->leads_to_request[s] ? LEADING : OTHER;
}

static uint32_t take_level(const sl_program *p, dag *d, uint32_t *level) {
    int best = RANKS;
    for (uint32_t s = 0; s < p->step_count; s++)
        if (!d->scheduled[s] && d->waiting[s] == 0 && rank_of(p, d, s) < best)
            best = rank_of(p, d, s);
    uint32_t count = 0;
    for (uint32_t s = 0; s < p->step_count; s++)
        if (!d->scheduled[s] && d->waiting[s] == 0 && rank_of(p, d, s) == best) level[count++] = s;
    return count;
}

static void retire(const sl_program *p, dag *d, const uint32_t *level, uint32_t count) {
    bool requested = false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t s = level[i];
        d->scheduled[s] = true;
        requested |= is(&p->steps[s], SL_OP_REQUESTS);
        for (uint32_t e = d->first[s]; e < d->first[s + 1]; e++) d->waiting[d->targets[e]]--;
    }
    if (requested) mark_leading(p, d);
}

sl_status sl_schedule(sl_program *program, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, program->arena.allocator);
    dag d = {0};
    const uint32_t n = program->step_count;
    sl_step *sorted = SL_ARENA_NEW_ARRAY(&scratch, sl_step, n + 1);
    if (!sorted || !build_dag(program, &scratch, &d)) {
        sl_arena_deinit(&scratch);
        return sl_no_memory(err, "a schedule", n);
    }
    mark_leading(program, &d);
    uint32_t done = 0, level = 0;
    for (; done < n; level++) {
        const uint32_t count = take_level(program, &d, d.order + done);
        retire(program, &d, d.order + done, count);
        for (uint32_t i = done; i < done + count; i++) {
            sorted[i] = program->steps[d.order[i]];
            sorted[i].level = level;
        }
        done += count;
    }
    memcpy(program->steps, sorted, n * sizeof *sorted);
    program->level_count = level;
    sl_arena_deinit(&scratch);
    return SL_OK;
}
