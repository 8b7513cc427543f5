#include "runtime/null/simulate.h"

/* xorshift64: a number below limit. */
static uint32_t draw(sl_simulation *s, uint32_t limit) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (uint32_t)((s->random >> 32) * limit >> 32);
}

static void shuffle(sl_simulation *s, uint32_t *items, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t j = draw(s, i), swapped = items[i - 1];
        items[i - 1] = items[j];
        items[j] = swapped;
    }
}

/* ---- what reads are meant to see: the program in order, each buffer with memory of its own ----
 */

typedef struct {
    sl_simulation *simulation;
    sl_spans latest;  /* by address in a space without sharing: 1 + the last writer */
    uint64_t *places; /* [buffer]: where it lies there */
    uint32_t count;
    bool store; /* otherwise only count */
} expectation;

static void want(expectation *e, const sl_touch *touch) {
    const sl_touches *touches = &e->simulation->touches;
    const uint64_t base = touches->bases[touch->buffer.v], place = e->places[touch->buffer.v];
    for (uint32_t run = 0; run < touch->count; run++) {
        const uint64_t begin = sl_touch_run(touch, run) - base + place, end = begin + touch->bytes;
        for (uint32_t i = sl_spans_find(&e->latest, begin);
             i < e->latest.count && e->latest.items[i].begin < end; i++) {
            const sl_spans_item *span = &e->latest.items[i];
            const sl_spans_item wanted = {
                (span->begin > begin ? span->begin : begin) - place + base,
                (span->end < end ? span->end : end) - place + base, span->value};
            if (e->store) e->simulation->wanted[e->count] = wanted;
            e->count++;
        }
    }
}

static void write_latest(expectation *e, uint32_t step, const sl_touch *touch) {
    const uint64_t shift =
        e->places[touch->buffer.v] - e->simulation->touches.bases[touch->buffer.v];
    for (uint32_t run = 0; run < touch->count; run++) {
        const uint64_t begin = sl_touch_run(touch, run) + shift;
        sl_spans_set(&e->latest, begin, begin + touch->bytes, 1 + step);
    }
}

/* Outputs and states as the program in order leaves them. */
static void want_results(expectation *e) {
    const sl_program *program = e->simulation->program;
    const uint64_t *bases = e->simulation->touches.bases;
    for (uint32_t o = 0; o < program->output_count; o++) {
        const sl_operand *at = &program->outputs[o].operand;
        if (program->buffers[at->buffer.v].kind == SL_BUFFER_EXPERTS) continue;
        want(e, &(sl_touch){.begin = bases[at->buffer.v] + at->offset_bytes,
                            .bytes = sl_type_bytes(&at->type),
                            .count = 1,
                            .buffer = at->buffer});
    }
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == SL_BUFFER_STATE)
            want(e, &(sl_touch){.begin = bases[b],
                                .bytes = program->buffers[b].bytes,
                                .count = 1,
                                .buffer = {b}});
}

static void expect(expectation *e, bool store) {
    sl_simulation *s = e->simulation;
    sl_spans_clear(&e->latest);
    e->count = 0;
    e->store = store;
    for (uint32_t step = 0; step < s->program->step_count; step++) {
        s->first_wanted[step] = e->count;
        for (uint32_t i = s->touches.first[step]; i < s->touches.first[step + 1]; i++)
            if (s->touches.items[i].write)
                write_latest(e, step, &s->touches.items[i]);
            else
                want(e, &s->touches.items[i]);
    }
    s->first_wanted[s->program->step_count] = e->count;
    want_results(e);
    s->first_wanted[s->program->step_count + 1] = e->count;
}

static sl_status find_wanted(sl_simulation *s, sl_arena *arena, sl_arena *scratch, sl_error *err) {
    const sl_program *program = s->program;
    expectation e = {.simulation = s};
    e.places = SL_ARENA_NEW_ARRAY(scratch, uint64_t, (size_t)program->buffer_count + 1);
    if (!e.places) return sl_no_memory(err, "a simulation", program->buffer_count);
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        e.places[b] = bytes;
        bytes += program->buffers[b].bytes;
    }
    SL_TRY(sl_spans_init(&e.latest, bytes, s->touches.write_runs, scratch, err));
    expect(&e, false);
    s->wanted = SL_ARENA_NEW_ARRAY(arena, sl_spans_item, (size_t)e.count + 1);
    if (!s->wanted) return sl_no_memory(err, "a simulation", e.count * sizeof(sl_spans_item));
    expect(&e, true);
    return SL_OK;
}

sl_status sl_simulation_init(sl_simulation *simulation, const sl_program *program, sl_arena *arena,
                             sl_error *err) {
    const size_t steps = program->step_count;
    *simulation = (sl_simulation){
        .program = program,
        .first_wanted = SL_ARENA_NEW_ARRAY(arena, uint32_t, steps + 2),
        .order = SL_ARENA_NEW_ARRAY(arena, uint32_t, steps + 1),
        .waiting = SL_ARENA_NEW_ARRAY(arena, uint32_t, steps + 1),
        .random = 0x9e3779b97f4a7c15,
    };
    if (!simulation->first_wanted || !simulation->order || !simulation->waiting)
        return sl_no_memory(err, "a simulation", steps * 3 * sizeof(uint32_t));
    sl_touches *touches = &simulation->touches;
    SL_TRY(sl_touches_collect(program, arena, touches, err));
    simulation->delayed = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)touches->first[steps] + 1);
    if (!simulation->delayed) return sl_no_memory(err, "a simulation", touches->first[steps]);
    SL_TRY(sl_spans_init(&simulation->seen, touches->space_bytes, touches->write_runs, arena, err));
    sl_arena scratch;
    sl_arena_init(&scratch, arena->allocator);
    const sl_status status = find_wanted(simulation, arena, &scratch, err);
    sl_arena_deinit(&scratch);
    return status;
}

/* ---- running ---- */

static const char *label_of(const sl_simulation *s, uint32_t writer) {
    return writer ? s->program->steps[writer - 1].label : "no step";
}

/* Everything that step is meant to see; step_count: what must be left at the end. */
static sl_status look(const sl_simulation *s, uint32_t step, sl_error *err) {
    const char *who =
        step < s->program->step_count ? s->program->steps[step].label : "the end of the program";
    for (uint32_t w = s->first_wanted[step]; w < s->first_wanted[step + 1]; w++) {
        const sl_spans_item *wanted = &s->wanted[w];
        for (uint32_t i = sl_spans_find(&s->seen, wanted->begin);
             i < s->seen.count && s->seen.items[i].begin < wanted->end; i++)
            if (s->seen.items[i].value != wanted->value)
                return sl_fail(err, SL_DEVICE,
                               "%s: sees at %llu what %s wrote, wanted what %s wrote", who,
                               (unsigned long long)wanted->begin,
                               label_of(s, s->seen.items[i].value), label_of(s, wanted->value));
    }
    return SL_OK;
}

static void publish(sl_simulation *s, uint32_t step, const sl_touch *touch) {
    for (uint32_t run = 0; run < touch->count; run++) {
        const uint64_t begin = sl_touch_run(touch, run);
        sl_spans_set(&s->seen, begin, begin + touch->bytes, 1 + step);
    }
}

static sl_status run_step(sl_simulation *s, uint32_t step, bool may_delay, sl_error *err) {
    SL_TRY(look(s, step, err));
    for (uint32_t i = s->touches.first[step]; i < s->touches.first[step + 1]; i++) {
        if (!s->touches.items[i].write) continue;
        if (may_delay && draw(s, 2))
            s->delayed[s->delayed_count++] = i;
        else
            publish(s, step, &s->touches.items[i]);
    }
    return SL_OK;
}

/* Which step touch i belongs to, in [first, last). */
static uint32_t step_of(const sl_simulation *s, uint32_t i, uint32_t first, uint32_t last) {
    while (first + 1 < last && s->touches.first[first + 1] <= i) first++;
    return first;
}

/* The steps of the open group that have not run yet. */
static sl_status run_open(sl_simulation *s, sl_error *err) {
    const uint32_t first = s->ran;
    for (uint32_t i = first; i < s->handed; i++) s->order[i] = i;
    shuffle(s, s->order + first, s->handed - first);
    s->ran = s->handed;
    for (uint32_t i = first; i < s->handed; i++) SL_TRY(run_step(s, s->order[i], true, err));
    return SL_OK;
}

/* The open group ends: all of its steps have run, and all that they wrote is seen. */
static sl_status run_barrier(sl_simulation *s, sl_error *err) {
    SL_TRY(run_open(s, err));
    shuffle(s, s->delayed, s->delayed_count);
    for (uint32_t i = 0; i < s->delayed_count; i++)
        publish(s, step_of(s, s->delayed[i], s->group, s->handed),
                &s->touches.items[s->delayed[i]]);
    s->delayed_count = 0;
    s->group = s->handed;
    return SL_OK;
}

void sl_simulation_begin(sl_simulation *s) {
    sl_spans_clear(&s->seen);
    s->handed = s->group = s->ran = s->delayed_count = 0;
}

sl_status sl_simulation_submit(sl_simulation *s, uint32_t end, sl_error *err) {
    const sl_step *steps = s->program->steps;
    for (; s->handed < end; s->handed++)
        if (s->handed > s->group && steps[s->handed].level != steps[s->group].level)
            SL_TRY(run_barrier(s, err));
    return end < s->program->step_count && draw(s, 2) ? run_open(s, err) : SL_OK;
}

sl_status sl_simulation_finish(sl_simulation *s, sl_error *err) {
    SL_TRY(run_barrier(s, err));
    return look(s, s->program->step_count, err);
}

static sl_status run_submits(sl_simulation *s, sl_error *err) {
    const uint32_t early = s->program->early_steps;
    sl_simulation_begin(s);
    if (early) SL_TRY(sl_simulation_submit(s, early, err));
    SL_TRY(sl_simulation_submit(s, s->program->step_count, err));
    return sl_simulation_finish(s, err);
}

/* order[done .. ready) are the steps that wait for nothing any more. */
static sl_status run_edges(sl_simulation *s, sl_error *err) {
    const sl_edges *edges = &s->program->edges;
    const uint32_t steps = s->program->step_count;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < steps; i++) s->waiting[i] = 0;
    for (uint32_t e = 0; steps && e < edges->first[steps]; e++) s->waiting[edges->targets[e]]++;
    for (uint32_t i = 0; i < steps; i++)
        if (s->waiting[i] == 0) s->order[ready++] = i;
    for (uint32_t done = 0; done < ready; done++) {
        const uint32_t chosen = done + draw(s, ready - done), step = s->order[chosen];
        s->order[chosen] = s->order[done];
        s->order[done] = step;
        SL_TRY(run_step(s, step, false, err));
        for (uint32_t e = edges->first[step]; e < edges->first[step + 1]; e++)
            if (--s->waiting[edges->targets[e]] == 0) s->order[ready++] = edges->targets[e];
    }
    return SL_OK;
}

sl_status sl_simulation_run(sl_simulation *simulation, sl_error *err) {
    if (simulation->program->model != SL_SCHEDULE_EDGES) return run_submits(simulation, err);
    sl_spans_clear(&simulation->seen);
    SL_TRY(run_edges(simulation, err));
    return look(simulation, simulation->program->step_count, err);
}

sl_status sl_simulation_run_serially(sl_simulation *simulation, const uint32_t *order,
                                     sl_error *err) {
    const uint32_t steps = simulation->program->step_count;
    sl_spans_clear(&simulation->seen);
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t step = order ? order[i] : i;
        if (step >= steps)
            return sl_fail(err, SL_INVALID, "step %u of an order: there are %u", step, steps);
        SL_TRY(run_step(simulation, step, false, err));
    }
    return look(simulation, steps, err);
}
