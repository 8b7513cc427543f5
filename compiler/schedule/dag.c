/* dag.c - Dependencies from declared accesses, their closure and their reduction. */
#include "compiler/schedule/dag.h"
#include "compiler/schedule/intervals.h"
#include <string.h>

enum { MOST_RUNS = 64 }; /* of an access that is followed run by run; others count as their hull */

typedef struct {
    const sl_program *program;
    sl_arena *arena;
    uint64_t *base; /* [buffer]: where it begins on one line that holds everything */
    sl_intervals intervals;
    uint32_t *seen;  /* [step]: the last step that was found to depend on it, plus 1 */
    uint32_t *found; /* predecessors, step after step */
    uint32_t found_count, found_capacity;
    uint32_t *first; /* [step]: where its predecessors begin in found */
    bool no_memory;
} builder;

static bool is_opaque(const sl_step *step) {
    return step->undeclared || step->read_count + step->write_count == 0;
}

/* ---- places ---- */

static bool place_buffers(builder *b, sl_space space) {
    const sl_program *p = b->program;
    b->base = SL_ARENA_NEW_ARRAY(b->arena, uint64_t, p->buffer_count + 1);
    if (!b->base) return false;
    uint64_t end = space == SL_SPACE_ADDRESSES ? p->arena_bytes : 0;
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const sl_buffer *buffer = &p->buffers[i];
        const bool arena = buffer->kind == SL_BUFFER_TEMP || buffer->kind == SL_BUFFER_OUTPUT;
        if (arena && space == SL_SPACE_ADDRESSES) {
            b->base[i] = buffer->arena_offset;
        } else {
            b->base[i] = end;
            end += buffer->bytes;
        }
    }
    return true;
}

static uint32_t run_count(const sl_access *access) {
    return access->count > MOST_RUNS ? 1 : access->count;
}

static void run_of(const builder *b, const sl_access *access, uint32_t run, uint64_t *begin,
                   uint64_t *end) {
    const uint64_t base = b->base[access->buffer.v];
    *begin = base + access->begin + run * access->stride;
    *end = access->count > MOST_RUNS ? base + sl_access_end(access) : *begin + access->bytes;
}

static uint32_t count_runs(const sl_program *p) {
    uint32_t runs = 0;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const sl_step *step = &p->steps[s];
        for (uint32_t a = 0; a < step->read_count; a++) runs += run_count(&step->reads[a]);
        for (uint32_t a = 0; a < step->write_count; a++) runs += run_count(&step->writes[a]);
    }
    return runs;
}

static uint64_t *collect_positions(const builder *b, const sl_access *accesses, uint32_t count,
                                   uint64_t *into) {
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t run = 0; run < run_count(&accesses[a]); run++, into += 2)
            run_of(b, &accesses[a], run, &into[0], &into[1]);
    return into;
}

static bool cut_line(builder *b) {
    const sl_program *p = b->program;
    const uint32_t runs = count_runs(p);
    uint64_t *positions = SL_ARENA_NEW_ARRAY(b->arena, uint64_t, 2 * (size_t)runs + 1);
    if (!positions) return false;
    uint64_t *next = positions + 1; /* the first stays 0, the beginning of the line */
    for (uint32_t s = 0; s < p->step_count; s++) {
        next = collect_positions(b, p->steps[s].reads, p->steps[s].read_count, next);
        next = collect_positions(b, p->steps[s].writes, p->steps[s].write_count, next);
    }
    return sl_intervals_init(&b->intervals, positions, 2 * runs + 1, b->arena);
}

/* ---- dependencies ---- */

static void depend(builder *b, uint32_t step, uint32_t on) {
    if (on == SL_NO_STEP || on == step || b->seen[on] == step + 1) return;
    b->seen[on] = step + 1;
    if (b->found_count == b->found_capacity) {
        const uint32_t larger = b->found_capacity * 2 + 64;
        uint32_t *fresh = SL_ARENA_NEW_ARRAY(b->arena, uint32_t, larger);
        if (!fresh) {
            b->no_memory = true;
            return;
        }
        if (b->found_count) memcpy(fresh, b->found, b->found_count * sizeof *fresh);
        b->found = fresh;
        b->found_capacity = larger;
    }
    b->found[b->found_count++] = on;
}

static void read_run(builder *b, uint32_t step, uint64_t begin, uint64_t end) {
    sl_intervals *line = &b->intervals;
    const uint32_t last = sl_intervals_at(line, end);
    for (uint32_t i = sl_intervals_at(line, begin); i < last; i = sl_intervals_next(line, i)) {
        depend(b, step, line->writer[i]);
        if (line->readers[i] && line->readers[i]->step == step) continue;
        sl_reader *reader = SL_ARENA_NEW(b->arena, sl_reader);
        if (!reader) {
            b->no_memory = true;
            return;
        }
        *reader = (sl_reader){line->readers[i], step};
        line->readers[i] = reader;
    }
}

/* Afterwards the run is one interval. */
static void write_run(builder *b, uint32_t step, uint64_t begin, uint64_t end) {
    sl_intervals *line = &b->intervals;
    const uint32_t last = sl_intervals_at(line, end), first = sl_intervals_at(line, begin);
    if (first == last) return;
    for (uint32_t i = first; i < last; i = sl_intervals_next(line, i)) {
        if (!line->readers[i]) depend(b, step, line->writer[i]);
        for (const sl_reader *r = line->readers[i]; r; r = r->next) depend(b, step, r->step);
    }
    while (sl_intervals_next(line, first) < last) sl_intervals_join_next(line, first);
    line->writer[first] = step;
    line->readers[first] = NULL;
}

typedef void run_fn(builder *b, uint32_t step, uint64_t begin, uint64_t end);

static void for_each_run(builder *b, uint32_t step, const sl_access *accesses, uint32_t count,
                         run_fn *visit) {
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t run = 0; run < run_count(&accesses[a]); run++) {
            uint64_t begin, end;
            run_of(b, &accesses[a], run, &begin, &end);
            visit(b, step, begin, end);
        }
}

/* Opaque steps stand between all before and all after. */
static bool find_dependencies(builder *b) {
    const sl_program *p = b->program;
    uint32_t opaque = SL_NO_STEP;
    for (uint32_t s = 0; s < p->step_count && !b->no_memory; s++) {
        const sl_step *step = &p->steps[s];
        b->first[s] = b->found_count;
        depend(b, s, opaque);
        for_each_run(b, s, step->reads, step->read_count, read_run);
        for_each_run(b, s, step->writes, step->write_count, write_run);
        if (!is_opaque(step)) continue;
        for (uint32_t before = opaque == SL_NO_STEP ? 0 : opaque; before < s; before++)
            depend(b, s, before);
        opaque = s;
    }
    b->first[p->step_count] = b->found_count;
    return !b->no_memory;
}

/* ---- the result ---- */

/* The same edges from the other end.  Targets come out ascending. */
static bool turn(const sl_edges *edges, uint32_t n, sl_arena *arena, sl_edges *out) {
    out->first = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 2);
    out->targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, edges->first[n] + 1);
    if (!out->first || !out->targets) return false;
    uint32_t *cursor = out->first + 1; /* counts, then ends; begins one place earlier */
    for (uint32_t e = 0; e < edges->first[n]; e++) cursor[edges->targets[e] + 1]++;
    for (uint32_t s = 0; s < n; s++) cursor[s + 1] += cursor[s];
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t e = edges->first[s]; e < edges->first[s + 1]; e++)
            out->targets[cursor[edges->targets[e]]++] = s;
    return true;
}

sl_status sl_dag_build(const sl_program *program, sl_space space, sl_arena *arena, sl_dag *out,
                       sl_error *err) {
    const uint32_t n = program->step_count;
    builder b = {.program = program, .arena = arena};
    b.seen = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    b.first = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    *out = (sl_dag){.step_count = n};
    if (!b.seen || !b.first || !place_buffers(&b, space) || !cut_line(&b) || !find_dependencies(&b))
        return sl_no_memory(err, "dependencies", n);
    const sl_edges found = {b.first, b.found};
    if (!turn(&found, n, arena, &out->out) || !turn(&out->out, n, arena, &out->in))
        return sl_no_memory(err, "dependencies", b.found_count);
    out->edge_count = b.found_count;
    return SL_OK;
}

/* ---- reduction ---- */

/* Fills the row of what s reaches from its successors' rows and tells each successor that no
 * earlier one reaches.  Successors ascend, so that whatever reaches one comes before it. */
static uint32_t reach_from(const sl_dag *dag, uint64_t *reach, uint32_t s, uint32_t *kept) {
    const uint32_t words = (dag->step_count + 63) / 64;
    uint64_t *row = reach + (size_t)s * words;
    uint32_t count = 0;
    for (uint32_t e = dag->out.first[s]; e < dag->out.first[s + 1]; e++) {
        const uint32_t t = dag->out.targets[e];
        if (row[t / 64] >> t % 64 & 1) continue;
        kept[count++] = t;
        row[t / 64] |= UINT64_C(1) << t % 64;
        const uint64_t *theirs = reach + (size_t)t * words;
        for (uint32_t w = t / 64; w < words; w++) row[w] |= theirs[w];
    }
    return count;
}

static uint64_t *reach_rows(const sl_dag *dag, sl_arena *arena) {
    const size_t words = ((size_t)dag->step_count + 63) / 64;
    return SL_ARENA_NEW_ARRAY(arena, uint64_t, dag->step_count * words + 1);
}

sl_status sl_dag_reduce(const sl_dag *dag, sl_arena *arena, sl_dag *out, sl_error *err) {
    const uint32_t n = dag->step_count;
    sl_status status = SL_OK;
    sl_arena scratch;
    sl_arena_init(&scratch, arena->allocator);
    uint64_t *reach = reach_rows(dag, &scratch);
    uint32_t *kept = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, dag->edge_count + 1);
    uint32_t *counts = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, n + 1);
    *out = (sl_dag){.step_count = n};
    out->out.first = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    out->out.targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, dag->edge_count + 1);
    if (!reach || !kept || !counts || !out->out.first || !out->out.targets)
        status = sl_no_memory(err, "a reduced graph", dag->edge_count);
    for (uint32_t s = n; status == SL_OK && s-- > 0;)
        counts[s] = reach_from(dag, reach, s, kept + dag->out.first[s]);
    for (uint32_t s = 0; status == SL_OK && s < n; s++) {
        memcpy(out->out.targets + out->edge_count, kept + dag->out.first[s],
               counts[s] * sizeof *kept);
        out->edge_count += counts[s];
        out->out.first[s + 1] = out->edge_count;
    }
    if (status == SL_OK && !turn(&out->out, n, arena, &out->in))
        status = sl_no_memory(err, "a reduced graph", out->edge_count);
    sl_arena_deinit(&scratch);
    return status;
}

/* ---- all pairs ---- */

/* Parts of the line that a step touches: [first, last) of the positions. */
typedef struct {
    uint32_t step, first, last;
    bool write;
} touch;

typedef struct {
    builder *b;
    touch *touches; /* in order of steps */
    uint32_t count;
    uint64_t *readers, *writers; /* [position]: the 64 steps of the block at hand as bits */
} pairs;

static void add_touches(pairs *p, uint32_t step, const sl_access *accesses, uint32_t count,
                        bool write) {
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t run = 0; run < run_count(&accesses[a]); run++) {
            uint64_t begin, end;
            run_of(p->b, &accesses[a], run, &begin, &end);
            p->touches[p->count++] = (touch){step, sl_intervals_at(&p->b->intervals, begin),
                                             sl_intervals_at(&p->b->intervals, end), write};
        }
}

/* Marks the steps of a block where they touch; the first touch at or after the block. */
static uint32_t mark_block(pairs *p, uint32_t block, uint32_t at) {
    memset(p->readers, 0, p->b->intervals.count * sizeof *p->readers);
    memset(p->writers, 0, p->b->intervals.count * sizeof *p->writers);
    while (at < p->count && p->touches[at].step / 64 < block) at++;
    for (uint32_t t = at; t < p->count && p->touches[t].step / 64 == block; t++) {
        uint64_t *rows = p->touches[t].write ? p->writers : p->readers;
        for (uint32_t i = p->touches[t].first; i < p->touches[t].last; i++)
            rows[i] |= UINT64_C(1) << p->touches[t].step % 64;
    }
    return at;
}

/* Pairs of which the earlier step is in the block. */
static uint32_t count_block(const pairs *p, uint32_t block, uint32_t at) {
    uint32_t found = 0;
    while (at < p->count) {
        const uint32_t step = p->touches[at].step;
        uint64_t hits = 0;
        for (; at < p->count && p->touches[at].step == step; at++) {
            const touch *t = &p->touches[at];
            for (uint32_t i = t->first; i < t->last; i++)
                hits |= t->write ? p->writers[i] | p->readers[i] : p->writers[i];
        }
        if (step / 64 == block) hits &= (UINT64_C(1) << step % 64) - 1;
        found += (uint32_t)__builtin_popcountll(hits);
    }
    return found;
}

sl_status sl_dag_count_conflicts(const sl_program *program, sl_space space, sl_arena *arena,
                                 uint32_t *out_pairs, sl_error *err) {
    builder b = {.program = program, .arena = arena};
    if (!place_buffers(&b, space) || !cut_line(&b))
        return sl_no_memory(err, "conflicts", program->step_count);
    pairs p = {.b = &b,
               .touches = SL_ARENA_NEW_ARRAY(arena, touch, count_runs(program) + 1),
               .readers = SL_ARENA_NEW_ARRAY(arena, uint64_t, b.intervals.count),
               .writers = SL_ARENA_NEW_ARRAY(arena, uint64_t, b.intervals.count)};
    if (!p.touches || !p.readers || !p.writers)
        return sl_no_memory(err, "conflicts", b.intervals.count);
    uint32_t opaque = 0, found = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        found += is_opaque(step) ? s : opaque;
        if (is_opaque(step)) {
            opaque++;
            continue;
        }
        add_touches(&p, s, step->reads, step->read_count, false);
        add_touches(&p, s, step->writes, step->write_count, true);
    }
    for (uint32_t block = 0, at = 0; block * 64 < program->step_count; block++) {
        at = mark_block(&p, block, at);
        found += count_block(&p, block, at);
    }
    *out_pairs = found;
    return SL_OK;
}
