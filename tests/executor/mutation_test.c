/* mutation_test.c - Are the proofs strong enough?  Right programs are made wrong in one place, and
 * a checker must notice.
 *
 * Mutants: an edge deleted, a barrier taken away, a step moved before the barrier it waits for, a
 * buffer moved onto another while both are needed.  A barrier that no conflict crosses is no
 * mutant: taking it away leaves a right program.  Those are counted apart, and the rate with them
 * is printed too.  The table of conflicts that tells them shares its test of overlap with the
 * proofs (core/check/touches.h), which check_test.c compares with a table of bytes.
 */
#include "compiler/compile.h"
#include "core/check.h"
#include "core/check/touches.h"
#include "runtime/null/simulate.h"
#include "tests/support/fable.h"
#include "tests/support/program_maker.h"
#include "tests/support/random_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef SL_DEBUG
enum { RANDOM_PROGRAMS = 300, LARGE_STEPS = 300, MUTANTS_EACH = 60 };
#else
enum { RANDOM_PROGRAMS = 1000, LARGE_STEPS = 1000, MUTANTS_EACH = 100000 };
#endif
enum { SIMULATED_RUNS = 8 };

static const char *const model_names[] = {"levels", "groups", "edges"};

typedef enum { EDGE, BARRIER, BOUNDARY, PLACE, KINDS } mutation;
static const char *const kind_names[KINDS] = {"edges deleted", "barriers removed",
                                              "steps before their barrier", "buffers moved"};
typedef struct {
    uint32_t mutants[KINDS], killed[KINDS];
    uint32_t redundant_barriers; /* no mutants: nothing on one side conflicts with the other */
    uint32_t simulated, seen;    /* killed mutants that were run as well, and failed there */
} tally;

static bool passes(const sl_program *program) {
    sl_error err = {0};
    return sl_check_program(program, NULL, &err) == SL_OK;
}

/* Whether some run goes wrong. */
static bool fails_in_runs(const sl_program *program, uint32_t runs) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_simulation simulation;
    sl_error err = {0};
    assert_int_equal(sl_simulation_init(&simulation, program, &arena, &err), SL_OK);
    bool failed = false;
    for (uint32_t i = 0; i < runs && !failed; i++) failed = sl_simulation_run(&simulation, &err);
    sl_arena_deinit(&arena);
    return failed;
}

/* True when the mutant was killed; a survivor must run right. */
static bool judge(const sl_program *mutant, mutation kind, tally *t) {
    const bool killed = !passes(mutant);
    t->mutants[kind]++;
    t->killed[kind] += killed;
    if (!killed && fails_in_runs(mutant, SIMULATED_RUNS))
        fail_msg("a run went wrong that every proof had passed (%s)", kind_names[kind]);
    if (killed && t->mutants[kind] % 16 == 0) {
        sl_error err = {0};
        if (sl_check_bounds(mutant, &err) != SL_OK) return killed;
        t->simulated++;
        t->seen += fails_in_runs(mutant, SIMULATED_RUNS);
    }
    return killed;
}

/* Every how-manieth of `count` mutants is tried. */
static uint32_t stride_of(uint32_t count) {
    return count > MUTANTS_EACH ? count / MUTANTS_EACH : 1;
}

static void delete_edges(const sl_program *program, tally *t) {
    const uint32_t count = program->edges.first[program->step_count];
    for (uint32_t gone = 0; gone < count; gone += stride_of(count)) {
        sl_program *mutant = program_copy(program);
        sl_edges *edges = &mutant->edges;
        memmove(edges->targets + gone, edges->targets + gone + 1,
                (count - gone - 1) * sizeof *edges->targets);
        uint32_t from = 0;
        for (uint32_t s = 0; s <= program->step_count; s++) {
            if (program->edges.first[s] <= gone) from = s;
            if (edges->first[s] > gone) edges->first[s]--;
        }
        if (!judge(mutant, EDGE, t))
            fail_msg("no checker missed the edge from '%s' to '%s'", program->steps[from].label,
                     program->steps[program->edges.targets[gone]].label);
        sl_program_destroy(mutant);
    }
}

/* The first step of level + 1 that conflicts with one of level; UINT32_MAX when there is none. */
static uint32_t bound_step(const sl_program *program, const uint8_t *conflicts, uint32_t level) {
    for (uint32_t b = 0; b < program->step_count; b++)
        for (uint32_t a = 0; a < b && program->steps[b].level == level + 1; a++)
            if (program->steps[a].level == level && conflicts[(size_t)b * program->step_count + a])
                return b;
    return UINT32_MAX;
}

static void remove_barriers(const sl_program *program, const uint8_t *conflicts, tally *t) {
    const uint32_t count = program->level_count - 1;
    for (uint32_t level = 0; level < count; level += stride_of(count)) {
        const uint32_t bound = bound_step(program, conflicts, level);
        sl_program *mutant = program_copy(program);
        for (uint32_t s = 0; s < mutant->step_count; s++)
            if (mutant->steps[s].level > level) mutant->steps[s].level--;
        if (bound == UINT32_MAX) {
            t->redundant_barriers++;
            if (!passes(mutant) || fails_in_runs(mutant, SIMULATED_RUNS))
                fail_msg("a barrier without conflicts across it was missed");
        } else if (!judge(mutant, BARRIER, t)) {
            fail_msg("no checker missed the barrier before '%s'", program->steps[bound].label);
        }
        sl_program_destroy(mutant);
    }
}

/* A step that waits at a barrier goes to the end of the level before. */
static void lower_boundaries(const sl_program *program, const uint8_t *conflicts, tally *t) {
    const uint32_t count = program->level_count - 1;
    for (uint32_t level = 0; level < count; level += stride_of(count)) {
        const uint32_t bound = bound_step(program, conflicts, level);
        if (bound == UINT32_MAX) continue;
        sl_program *mutant = program_copy(program);
        uint32_t at = bound;
        for (; at > 0 && mutant->steps[at - 1].level > level; at--)
            mutant->steps[at] = mutant->steps[at - 1];
        mutant->steps[at] = program->steps[bound];
        mutant->steps[at].level = level;
        if (!judge(mutant, BOUNDARY, t))
            fail_msg("no checker missed that '%s' does not wait", program->steps[bound].label);
        sl_program_destroy(mutant);
    }
}

/* ---- memory ---- */

static bool touches(const sl_access *accesses, uint32_t count, uint32_t buffer, uint64_t at) {
    for (uint32_t i = 0; i < count; i++) {
        const sl_access *access = &accesses[i];
        if (access->buffer.v != buffer || at < access->begin) continue;
        const uint64_t distance = at - access->begin;
        const uint64_t run = access->count > 1 ? distance / access->stride : 0;
        if (run < access->count && distance - run * access->stride < access->bytes) return true;
    }
    return false;
}

/* The first place after `at` where a run of these accesses begins or ends. */
static uint64_t next_border(const sl_access *accesses, uint32_t count, uint32_t buffer,
                            uint64_t at) {
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const sl_access *access = &accesses[i];
        if (access->buffer.v != buffer) continue;
        for (uint32_t run = 0; run < access->count; run++) {
            const uint64_t begin = access->begin + run * access->stride;
            const uint64_t border = at < begin ? begin : begin + access->bytes;
            if (border > at && border < next) next = border;
        }
    }
    return next;
}

/* Bytes [at, at + result) of the buffer are touched alike by every step. */
static uint64_t alike_from(const sl_program *program, uint32_t buffer, uint64_t at) {
    uint64_t next = UINT64_MAX;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        const uint64_t read = next_border(step->reads, step->read_count, buffer, at);
        const uint64_t write = next_border(step->writes, step->write_count, buffer, at);
        if (read < next) next = read;
        if (write < next) next = write;
    }
    return next - at;
}

static bool writes_byte(const sl_step *step, uint32_t buffer, uint64_t at) {
    return touches(step->writes, step->write_count, buffer, at);
}

/* held[s]: what the byte holds after step s is still read, or is an output. */
static void find_held(const sl_program *program, uint32_t buffer, uint64_t at, bool *held) {
    bool wanted = program->buffers[buffer].kind == SL_BUFFER_OUTPUT;
    for (uint32_t s = program->step_count; s-- > 0;) {
        const sl_step *step = &program->steps[s];
        held[s] = wanted;
        if (writes_byte(step, buffer, at)) wanted = false;
        if (touches(step->reads, step->read_count, buffer, at)) wanted = true;
    }
}

/* Whether one of two bytes that lie on each other is written while the other is held. */
static bool spoil(const sl_program *program, uint32_t a, uint64_t a_at, uint32_t b, uint64_t b_at) {
    enum { MOST_STEPS = 4096 };
    static bool held_a[MOST_STEPS], held_b[MOST_STEPS];
    assert_true(program->step_count <= MOST_STEPS);
    find_held(program, a, a_at, held_a);
    find_held(program, b, b_at, held_b);
    for (uint32_t s = 0; s < program->step_count; s++)
        if ((held_a[s] && writes_byte(&program->steps[s], b, b_at)) ||
            (held_b[s] && writes_byte(&program->steps[s], a, a_at)))
            return true;
    return false;
}

/* Whether b at offset loses a byte to another buffer, or the other to b.  Sharing bytes alone does
 * no harm: what both have there may be needed at different times, or by neither. */
static bool lies_on_another(const sl_program *program, uint32_t b, uint64_t offset) {
    for (uint32_t o = 0; o < program->buffer_count; o++) {
        const sl_buffer *other = &program->buffers[o];
        if (o == b || !sl_buffer_in_arena(other)) continue;
        const uint64_t begin = offset > other->arena_offset ? offset : other->arena_offset;
        uint64_t end = offset + program->buffers[b].bytes;
        if (end > other->arena_offset + other->bytes) end = other->arena_offset + other->bytes;
        for (uint64_t at = begin; at < end;) {
            const uint64_t at_b = at - offset, at_o = at - other->arena_offset;
            if (spoil(program, b, at_b, o, at_o)) return true;
            const uint64_t here = alike_from(program, b, at_b),
                           there = alike_from(program, o, at_o);
            if (here >= end - at && there >= end - at) break;
            at += here < there ? here : there;
        }
    }
    return false;
}

static void move_buffers(const sl_program *program, tally *t) {
    const uint32_t stride = stride_of(2 * program->buffer_count);
    for (uint32_t i = 0; i < 2 * program->buffer_count; i += stride) {
        const uint32_t b = i / 2;
        const sl_buffer *buffer = &program->buffers[b];
        if (!sl_buffer_in_arena(buffer)) continue;
        const uint64_t step = program->arena_alignment;
        if (i % 2 ? buffer->arena_offset < step
                  : buffer->arena_offset + buffer->bytes + step > program->arena_bytes)
            continue;
        const uint64_t offset = i % 2 ? buffer->arena_offset - step : buffer->arena_offset + step;
        if (!lies_on_another(program, b, offset)) continue;
        sl_program *mutant = program_copy(program);
        mutant->buffers[b].arena_offset = offset;
        if (!judge(mutant, PLACE, t))
            fail_msg("no checker missed the place of '%s'", buffer->name ? buffer->name : "?");
        sl_program_destroy(mutant);
    }
}

/* ---- programs ---- */

static void mutate(const sl_program *program, tally *t) {
    sl_error err = {0};
    if (sl_check_program(program, NULL, &err)) fail_msg("%s", err.message);
    assert_false(fails_in_runs(program, SIMULATED_RUNS));
    if (program->model == SL_SCHEDULE_EDGES) {
        delete_edges(program, t);
    } else {
        uint8_t *conflicts = program_conflicts(program);
        remove_barriers(program, conflicts, t);
        lower_boundaries(program, conflicts, t);
        free(conflicts);
    }
    move_buffers(program, t);
}

static void report(const char *what, const tally *t) {
    uint32_t mutants = 0, killed = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        mutants += t->mutants[kind];
        killed += t->killed[kind];
        if (t->mutants[kind])
            print_message("%s: %s: %u of %u killed\n", what, kind_names[kind], t->killed[kind],
                          t->mutants[kind]);
    }
    const uint32_t all = mutants + t->redundant_barriers;
    print_message("%s: %u of %u killed; with %u barriers that no conflict crosses: %.2f %% of %u; "
                  "runs alone found %u of %u\n",
                  what, killed, mutants, t->redundant_barriers, 100.0 * killed / all, all, t->seen,
                  t->simulated);
    assert_true(mutants > 0);
    assert_int_equal(killed, mutants);
    assert_true(t->seen >= 0.5 * t->simulated);
}

static sl_program *planned(uint64_t seed, uint32_t steps, const sl_compiler_options *options) {
    sl_program *program = random_program(seed, steps);
    sl_error err = {0};
    if (sl_schedule(program, options, &err) || sl_plan(program, options, &err))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    return program;
}

static void test_random_programs(void **state) {
    (void)state;
    tally tallies[3] = {0};
    for (uint32_t seed = 0; seed < RANDOM_PROGRAMS; seed++) {
        const sl_compiler_options options = {.model = (sl_schedule_model)(seed % 3),
                                             .two_submits = seed % 2,
                                             .lookahead = seed % 5 ? 0 : 4,
                                             .no_in_place = seed % 7 == 0};
        sl_program *program = planned(seed, 8 + seed % 40, &options);
        mutate(program, &tallies[seed % 3]);
        sl_program_destroy(program);
    }
    for (int model = 0; model < 3; model++) report(model_names[model], &tallies[model]);
}

/* Thousands of buffers: only proved and run, and a few mutants. */
static void test_large_programs(void **state) {
    (void)state;
    for (int model = 0; model < 3; model++) {
        const sl_compiler_options options = {.model = (sl_schedule_model)model,
                                             .two_submits = true};
        sl_program *program = planned(1000 + (uint64_t)model, LARGE_STEPS, &options);
        print_message("%s: %u steps, %u buffers, %llu bytes of %llu\n", model_names[model],
                      program->step_count, program->buffer_count,
                      (unsigned long long)program->arena_bytes,
                      (unsigned long long)program->report.unshared_bytes);
        sl_error err = {0};
        if (sl_check_program(program, NULL, &err)) fail_msg("%s", err.message);
        assert_false(fails_in_runs(program, 2));
        sl_program_destroy(program);
    }
}

static void test_fable(void **state) {
    (void)state;
    sl_model *model = fable_open();
    for (int i = 0; i < 6; i++) {
        const uint32_t rows = i % 2 ? 13 : 1;
        const sl_compiler_options options = {.model = (sl_schedule_model)(i / 2),
                                             .two_submits = true};
        sl_graph *graph = fable_graph(model, rows, 1);
        sl_program *program = NULL;
        sl_error err = {0};
        if (sl_compile_graph(graph, &options, NULL, &program, &err)) fail_msg("%s", err.message);
        tally t = {0};
        mutate(program, &t);
        char what[64];
        (void)snprintf(what, sizeof what, "fable %s, %s", rows > 1 ? "prefill" : "decode",
                       model_names[i / 2]);
        report(what, &t);
        sl_program_destroy(program);
        sl_graph_destroy(graph);
    }
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_large_programs),
        cmocka_unit_test(test_fable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
