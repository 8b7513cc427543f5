/* dag_test.c - Dependencies against comparing all pairs of steps, byte by byte. */
#include "compiler/schedule/dag.h"
#include "tests/support/overlap.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STEPS = 48, BUFFERS = 3, BYTES = 160, MOST_ACCESSES = 3 };

static sl_error err;

typedef struct {
    sl_program program;
    sl_buffer buffers[BUFFERS];
    sl_step steps[MOST_STEPS];
    sl_access reads[MOST_STEPS][MOST_ACCESSES], writes[MOST_STEPS][MOST_ACCESSES];
} fixture;

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static sl_access random_access(uint32_t *seed) {
    sl_access access = {.buffer = {next_random(seed) % BUFFERS},
                        .begin = next_random(seed) % 40,
                        .bytes = 1 + next_random(seed) % 12,
                        .count = 1 + next_random(seed) % 3 * (next_random(seed) % 3)};
    access.stride = access.bytes + next_random(seed) % 10;
    return access;
}

/* Two buffers in the arena that share bytes at their addresses, and a state. */
static void make_program(fixture *f, uint32_t seed) {
    memset(f, 0, sizeof *f);
    for (uint32_t b = 0; b < BUFFERS; b++)
        f->buffers[b] = (sl_buffer){.kind = b < 2 ? SL_BUFFER_TEMP : SL_BUFFER_STATE,
                                    .bytes = BYTES,
                                    .arena_offset = b * 30};
    f->program = (sl_program){.buffers = f->buffers,
                              .buffer_count = BUFFERS,
                              .steps = f->steps,
                              .step_count = 2 + next_random(&seed) % (MOST_STEPS - 2),
                              .arena_bytes = BYTES + 30};
    for (uint32_t s = 0; s < f->program.step_count; s++) {
        sl_step *step = &f->steps[s];
        step->read_count = next_random(&seed) % (MOST_ACCESSES + 1);
        step->write_count = next_random(&seed) % 5 ? 1 : next_random(&seed) % 3;
        step->undeclared = next_random(&seed) % 64 == 0;
        step->reads = f->reads[s];
        step->writes = f->writes[s];
        for (uint32_t a = 0; a < step->read_count; a++) f->reads[s][a] = random_access(&seed);
        for (uint32_t a = 0; a < step->write_count; a++) f->writes[s][a] = random_access(&seed);
    }
}

static bool share(const fixture *f, sl_space space, sl_access a, sl_access b) {
    const bool in_arena = a.buffer.v < 2 && b.buffer.v < 2 && space == SL_SPACE_ADDRESSES;
    if (in_arena) {
        a.begin += f->buffers[a.buffer.v].arena_offset;
        b.begin += f->buffers[b.buffer.v].arena_offset;
    }
    return (in_arena || a.buffer.v == b.buffer.v) && sl_access_overlap(&a, &b);
}

static bool any_shared(const fixture *f, sl_space space, const sl_access *a, uint32_t a_count,
                       const sl_access *b, uint32_t b_count) {
    for (uint32_t i = 0; i < a_count; i++)
        for (uint32_t j = 0; j < b_count; j++)
            if (share(f, space, a[i], b[j])) return true;
    return false;
}

static bool opaque(const sl_step *s) {
    return s->undeclared || s->read_count + s->write_count == 0;
}

static bool conflict(const fixture *f, sl_space space, uint32_t earlier, uint32_t later) {
    const sl_step *x = &f->steps[earlier], *y = &f->steps[later];
    return opaque(x) || opaque(y) ||
           any_shared(f, space, x->writes, x->write_count, y->reads, y->read_count) ||
           any_shared(f, space, x->reads, x->read_count, y->writes, y->write_count) ||
           any_shared(f, space, x->writes, x->write_count, y->writes, y->write_count);
}

typedef bool matrix[MOST_STEPS][MOST_STEPS];

static uint32_t conflicts_of(const fixture *f, sl_space space, matrix out) {
    uint32_t pairs = 0;
    memset(out, 0, sizeof(matrix));
    for (uint32_t b = 0; b < f->program.step_count; b++)
        for (uint32_t a = 0; a < b; a++) pairs += out[a][b] = conflict(f, space, a, b);
    return pairs;
}

static void close_paths(uint32_t n, matrix paths) {
    for (uint32_t a = n; a-- > 0;)
        for (uint32_t b = a + 1; b < n; b++)
            for (uint32_t c = b + 1; paths[a][b] && c < n; c++) paths[a][c] |= paths[b][c];
}

static void paths_of(const sl_edges *edges, uint32_t n, uint32_t without, matrix out) {
    memset(out, 0, sizeof(matrix));
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t e = edges->first[s]; e < edges->first[s + 1]; e++)
            if (e != without) out[s][edges->targets[e]] = true;
    close_paths(n, out);
}

static void check_sides(const sl_dag *dag) {
    assert_int_equal(dag->out.first[dag->step_count], dag->edge_count);
    assert_int_equal(dag->in.first[dag->step_count], dag->edge_count);
    for (uint32_t s = 0; s < dag->step_count; s++) {
        for (uint32_t e = dag->out.first[s]; e < dag->out.first[s + 1]; e++) {
            assert_true(dag->out.targets[e] > s);
            if (e > dag->out.first[s]) assert_true(dag->out.targets[e] > dag->out.targets[e - 1]);
        }
        for (uint32_t e = dag->in.first[s]; e < dag->in.first[s + 1]; e++) {
            assert_true(dag->in.targets[e] < s);
            if (e > dag->in.first[s]) assert_true(dag->in.targets[e] > dag->in.targets[e - 1]);
        }
    }
}

static void same_paths(uint32_t seed, uint32_t n, matrix found, matrix wanted) {
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            if (found[a][b] != wanted[a][b])
                fail_msg("seed %u: %u to %u: path %d, wanted %d", seed, a, b, found[a][b],
                         wanted[a][b]);
}

static void check_minimal(const sl_dag *reduced) {
    static matrix all, less;
    const uint32_t n = reduced->step_count;
    paths_of(&reduced->out, n, UINT32_MAX, all);
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        paths_of(&reduced->out, n, e, less);
        assert_memory_not_equal(all, less, sizeof all);
    }
}

static void check_one(uint32_t seed, sl_space space) {
    static fixture f;
    static matrix wanted, found;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    make_program(&f, seed);
    const uint32_t n = f.program.step_count, pairs = conflicts_of(&f, space, wanted);
    close_paths(n, wanted);
    sl_dag dag, reduced;
    assert_int_equal(sl_dag_build(&f.program, space, &arena, &dag, &err), SL_OK);
    check_sides(&dag);
    paths_of(&dag.out, n, UINT32_MAX, found);
    same_paths(seed, n, found, wanted);
    assert_int_equal(sl_dag_reduce(&dag, &arena, &reduced, &err), SL_OK);
    check_sides(&reduced);
    paths_of(&reduced.out, n, UINT32_MAX, found);
    same_paths(seed, n, found, wanted);
    if (seed % 16 == 0) check_minimal(&reduced);
    uint32_t counted = 0;
    assert_int_equal(sl_dag_count_conflicts(&f.program, space, &arena, &counted, &err), SL_OK);
    assert_int_equal(counted, pairs);
    assert_true(reduced.edge_count <= dag.edge_count && dag.edge_count <= pairs);
    sl_arena_deinit(&arena);
}

static void buffers_as_by_brute_force(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 800; seed++) check_one(seed, SL_SPACE_BUFFERS);
}

static void addresses_as_by_brute_force(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 800; seed++) check_one(seed, SL_SPACE_ADDRESSES);
}

/* An access of very many runs counts as all it spans: never fewer dependencies. */
static void many_runs_are_covered(void **state) {
    (void)state;
    static fixture f;
    make_program(&f, 1);
    f.buffers[2].bytes = 1 << 20;
    f.writes[0][0] = (sl_access){.buffer = {2}, .bytes = 4, .stride = 16, .count = 1000};
    f.reads[1][0] = sl_access_range((sl_buffer_id){2}, 16 * 999, 16 * 999 + 4);
    f.steps[0] = (sl_step){.write_count = 1, .writes = f.writes[0]};
    f.steps[1] = (sl_step){.read_count = 1, .reads = f.reads[1]};
    f.program.step_count = 2;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_dag dag;
    assert_int_equal(sl_dag_build(&f.program, SL_SPACE_BUFFERS, &arena, &dag, &err), SL_OK);
    assert_int_equal(dag.edge_count, 1);
    sl_arena_deinit(&arena);
}

/* A writer, a thousand readers and a writer again: each reader waits for the first alone. */
static void readers_do_not_wait_for_each_other(void **state) {
    (void)state;
    enum { READERS = 1000 };
    static sl_step steps[READERS + 2];
    sl_buffer buffer = {.kind = SL_BUFFER_STATE, .bytes = 64};
    const sl_access all = sl_access_range((sl_buffer_id){0}, 0, 64);
    for (int s = 0; s < READERS + 2; s++) steps[s] = (sl_step){.read_count = 1, .reads = &all};
    steps[0] = steps[READERS + 1] = (sl_step){.write_count = 1, .writes = &all};
    const sl_program program = {
        .buffers = &buffer, .buffer_count = 1, .steps = steps, .step_count = READERS + 2};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_dag dag;
    assert_int_equal(sl_dag_build(&program, SL_SPACE_BUFFERS, &arena, &dag, &err), SL_OK);
    assert_int_equal(dag.edge_count, 2 * READERS);
    assert_int_equal(dag.out.first[1], READERS);
    sl_arena_deinit(&arena);
}

/* Thousands of parts, written backwards; read as a whole, written as a whole, read in one part. */
static void many_parts_become_one(void **state) {
    (void)state;
    enum { PARTS = 6000, STEPS = PARTS + 3 };
    static sl_step steps[STEPS];
    static sl_access parts[PARTS];
    sl_buffer buffer = {.kind = SL_BUFFER_STATE, .bytes = 16 * PARTS};
    const sl_access all = sl_access_range((sl_buffer_id){0}, 0, buffer.bytes);
    for (uint32_t s = 0; s < PARTS; s++) {
        const uint64_t end = buffer.bytes - 16 * (uint64_t)s;
        parts[s] = sl_access_range((sl_buffer_id){0}, end - 16, end);
        steps[s] = (sl_step){.write_count = 1, .writes = &parts[s]};
    }
    steps[PARTS] = (sl_step){.read_count = 1, .reads = &all};
    steps[PARTS + 1] = (sl_step){.write_count = 1, .writes = &all};
    steps[PARTS + 2] = (sl_step){.read_count = 1, .reads = &parts[PARTS / 3]};
    const sl_program program = {
        .buffers = &buffer, .buffer_count = 1, .steps = steps, .step_count = STEPS};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_dag dag;
    assert_int_equal(sl_dag_build(&program, SL_SPACE_BUFFERS, &arena, &dag, &err), SL_OK);
    assert_int_equal(dag.edge_count, PARTS + 2);
    assert_int_equal(dag.in.first[PARTS], 0);
    assert_int_equal(dag.in.targets[dag.in.first[PARTS + 1]], PARTS);
    assert_int_equal(dag.in.targets[dag.in.first[PARTS + 2]], PARTS + 1);
    sl_arena_deinit(&arena);
}

static void no_steps_are_fine(void **state) {
    (void)state;
    const sl_program program = {0};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_dag dag, reduced;
    assert_int_equal(sl_dag_build(&program, SL_SPACE_BUFFERS, &arena, &dag, &err), SL_OK);
    assert_int_equal(sl_dag_reduce(&dag, &arena, &reduced, &err), SL_OK);
    assert_int_equal(reduced.edge_count, 0);
    sl_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_as_by_brute_force),
        cmocka_unit_test(addresses_as_by_brute_force),
        cmocka_unit_test(many_runs_are_covered),
        cmocka_unit_test(readers_do_not_wait_for_each_other),
        cmocka_unit_test(many_parts_become_one),
        cmocka_unit_test(no_steps_are_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
