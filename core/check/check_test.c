/* check_test.c - The checks accept valid programs and report what is wrong with invalid ones. */
#include "core/check.h"
#include "core/check/spans.h"
#include "core/check/touches.h"
#include "tests/support/program_maker.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 64, BYTES = N * 4 };

static void accept(const sl_program *program) {
    sl_error err = {0};
    if (sl_check_program(program, NULL, &err)) fail_msg("%s", err.message);
}

/* The check fails with a message that contains both words. */
#define refuse(check, first, second)                                                               \
    do {                                                                                           \
        sl_error err = {0};                                                                        \
        assert_int_equal(check, SL_INVALID);                                                       \
        if (!strstr(err.message, first) || !strstr(err.message, second))                           \
            fail_msg("'%s' lacks %s or %s", err.message, first, second);                           \
    } while (0)

/* x -> a, x -> b, (a, b) -> c, c -> y: levels 0 0 1 2; y may reuse the memory of a. */
typedef struct {
    sl_program *program;
    sl_buffer_id x, a, b, c, y;
} diamond;

static diamond make_diamond(void) {
    sl_program *p = program_new(8, 8);
    diamond d = {.program = p};
    d.x = program_buffer(p, SL_BUFFER_INPUT, "x", N);
    d.a = program_buffer(p, SL_BUFFER_TEMP, "a", N);
    d.b = program_buffer(p, SL_BUFFER_TEMP, "b", N);
    d.c = program_buffer(p, SL_BUFFER_TEMP, "c", N);
    d.y = program_buffer(p, SL_BUFFER_TEMP, "y", N);
    program_step(p, SL_OP_exp, "first", 0);
    step_takes(p, d.x), step_gives(p, d.a);
    program_step(p, SL_OP_softmax, "second", 0);
    step_takes(p, d.x), step_gives(p, d.b);
    program_step(p, SL_OP_concat, "third", 1);
    step_takes(p, d.a), step_takes(p, d.b), step_gives(p, d.c);
    program_step(p, SL_OP_neg, "fourth", 2);
    step_takes(p, d.c), step_gives(p, d.y);
    program_output(p, d.y);
    p->arena_bytes = 4 * (uint64_t)BYTES;
    p->buffers[d.b.v].arena_offset = BYTES;
    p->buffers[d.c.v].arena_offset = 2 * (uint64_t)BYTES;
    p->buffers[d.y.v].arena_offset = 0;
    return d;
}

static void test_levels(void **state) {
    (void)state;
    for (int model = SL_SCHEDULE_LEVELS; model <= SL_SCHEDULE_GROUPS; model++) {
        diamond d = make_diamond();
        d.program->model = (sl_schedule_model)model;
        accept(d.program);
        d.program->early_steps = 1; /* the end of a submit is not a barrier; none is needed here */
        accept(d.program);
        d.program->steps[2].level = 0;
        refuse(sl_check_order(d.program, NULL, &err), "third", "'a'");
        d.program->steps[2].level = 1;
        d.program->steps[3].level = 1;
        refuse(sl_check_order(d.program, NULL, &err), "third", "fourth");
        d.program->early_steps = 3; /* it does not order third and fourth either */
        refuse(sl_check_order(d.program, NULL, &err), "third", "fourth");
        d.program->steps[3].level = 0;
        refuse(sl_check_bounds(d.program, &err), "fourth", "level 0 comes after level 1");
        d.program->steps[3].level = 9;
        refuse(sl_check_bounds(d.program, &err), "fourth", "level 9");
        d.program->steps[3].level = 2;
        d.program->early_steps = 5;
        refuse(sl_check_bounds(d.program, &err), "5 steps", "4");
        sl_program_destroy(d.program);
    }
}

static void test_edges(void **state) {
    (void)state;
    diamond d = make_diamond();
    const uint32_t right[][2] = {{0, 2}, {1, 2}, {2, 3}};
    program_edges(d.program, right, 3);
    accept(d.program); /* first and fourth conflict in y but are ordered by a path through third */
    for (uint32_t gone = 0; gone < 3; gone++) {
        uint32_t wrong[2][2];
        for (uint32_t e = 0, kept = 0; e < 3; e++)
            if (e != gone) memcpy(wrong[kept++], right[e], sizeof right[e]);
        program_edges(d.program, (const uint32_t(*)[2])wrong, 2);
        refuse(sl_check_order(d.program, NULL, &err), "step", gone == 2 ? "fourth" : "third");
    }
    const uint32_t backward[][2] = {{0, 2}, {1, 2}, {2, 2}};
    program_edges(d.program, backward, 3);
    refuse(sl_check_order(d.program, NULL, &err), "third", "from step 2 to 2");
    d.program->edges.first = NULL;
    refuse(sl_check_order(d.program, NULL, &err), "made", "no edges");
    sl_program_destroy(d.program);
}

static void test_undeclared(void **state) {
    (void)state;
    diamond d = make_diamond();
    d.program->steps[1].undeclared = true; /* it is in level 0 together with first */
    refuse(sl_check_order(d.program, NULL, &err), "second", "first");
    d.program->steps[0].undeclared = true;
    d.program->steps[0].read_count = d.program->steps[0].write_count = 0;
    for (uint32_t s = 1; s < 4; s++) d.program->steps[s].level++;
    d.program->level_count++;
    accept(d.program); /* its operands show that it writes a */
    d.program->buffers[d.b.v].arena_offset = 0;
    refuse(sl_check_values(d.program, NULL, &err), "third", "holds 'b'");
    sl_program_destroy(d.program);
}

static void test_sharing(void **state) {
    (void)state;
    diamond d = make_diamond();
    sl_buffer *buffers = d.program->buffers;
    buffers[d.b.v].arena_offset = 0; /* a is overwritten before it is read */
    refuse(sl_check_values(d.program, NULL, &err), "third", "'a'");
    refuse(sl_check_order(d.program, NULL, &err), "first", "second");
    buffers[d.b.v].arena_offset = BYTES;
    buffers[d.c.v].arena_offset = 0; /* third is not pointwise */
    refuse(sl_check_values(d.program, NULL, &err), "third: writes 'c' over 'a'", "reads");
    buffers[d.c.v].arena_offset = 2 * (uint64_t)BYTES;
    /* Fourth is pointwise: y may reuse c exactly. */
    buffers[d.y.v].arena_offset = 2 * (uint64_t)BYTES;
    accept(d.program);
    buffers[d.y.v].arena_offset += 64; /* but not at another offset */
    refuse(sl_check_values(d.program, NULL, &err), "fourth: writes 'y' over 'c'", "reads");
    buffers[d.y.v].arena_offset = 0;
    program_step(d.program, SL_OP_neg, "fifth", 3);
    step_takes(d.program, d.x), step_gives(d.program, d.a);
    /* The output was overwritten. */
    refuse(sl_check_values(d.program, NULL, &err), "y", "holds 'a'");
    sl_program_destroy(d.program);
}

static void test_unwritten(void **state) {
    (void)state;
    diamond d = make_diamond();
    d.program->steps[0].write_count = 0;
    refuse(sl_check_values(d.program, NULL, &err), "third", "nothing yet");
    ((sl_access *)(uintptr_t)d.program->steps[0].writes)[0].bytes -= 4;
    d.program->steps[0].write_count = 1;
    refuse(sl_check_values(d.program, NULL, &err), "third: reads byte 252 of 'a'", "nothing yet");
    sl_program_destroy(d.program);
}

static void test_two_results(void **state) {
    (void)state;
    sl_program *p = program_new(4, 2);
    const sl_buffer_id x = program_buffer(p, SL_BUFFER_INPUT, "x", 2 * N);
    const sl_buffer_id low = program_buffer(p, SL_BUFFER_TEMP, "low", N);
    const sl_buffer_id high = program_buffer(p, SL_BUFFER_TEMP, "high", N);
    program_step(p, SL_OP_split, "split", 0);
    step_takes(p, x), step_gives(p, low), step_gives(p, high);
    program_output(p, low), program_output(p, high);
    p->arena_bytes = 2 * (uint64_t)BYTES;
    p->buffers[high.v].arena_offset = BYTES;
    accept(p);
    p->buffers[high.v].arena_offset = BYTES - 64;
    refuse(sl_check_values(p, NULL, &err), "writes 'high' over 'low'", "writes too");
    sl_program_destroy(p);
}

static void test_bounds(void **state) {
    (void)state;
    diamond d = make_diamond();
    sl_buffer *buffers = d.program->buffers;
    sl_access *writes = (sl_access *)(uintptr_t)d.program->steps[0].writes;
    sl_access *reads = (sl_access *)(uintptr_t)d.program->steps[0].reads;
    buffers[d.c.v].arena_offset = 4 * (uint64_t)BYTES;
    refuse(sl_check_bounds(d.program, &err), "'c'", "arena of 1024");
    buffers[d.c.v].arena_offset = 2 * (uint64_t)BYTES + 4;
    refuse(sl_check_bounds(d.program, &err), "'c'", "multiple of 64");
    buffers[d.c.v].arena_offset = 2 * (uint64_t)BYTES;
    const sl_access outside[] = {
        sl_access_range(d.a, 0, BYTES + 1),
        sl_access_range(d.a, BYTES, BYTES + 4),
        {d.a, 0, 64, 128, 3},
        {d.a, UINT64_MAX - 3, 8, 0, 1},
        {d.a, 0, 8, UINT64_MAX / 2, 3},
        {d.a, 0, 8, 4, 2},
    };
    const sl_access kept = writes[0];
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        writes[0] = outside[i];
        refuse(sl_check_bounds(d.program, &err), "first", "'a' of 256 bytes");
    }
    writes[0] = sl_access_range((sl_buffer_id){77}, 0, 4);
    refuse(sl_check_bounds(d.program, &err), "first", "buffer 77");
    writes[0] = reads[0]; /* writes to an input */
    refuse(sl_check_bounds(d.program, &err), "first", "'x', which is read only");
    writes[0] = kept;
    ((sl_operand *)(uintptr_t)d.program->steps[1].operands)[0].offset_bytes = 4;
    refuse(sl_check_bounds(d.program, &err), "second", "'x', which has 256");
    sl_program_destroy(d.program);
}

/* Even and odd columns of one matrix: neither a conflict nor an overwritten value. */
static void test_strides(void **state) {
    (void)state;
    sl_program *p = program_new(4, 4);
    const sl_buffer_id x = program_buffer(p, SL_BUFFER_INPUT, "x", N);
    const sl_buffer_id m = program_buffer(p, SL_BUFFER_TEMP, "m", 4 * N);
    const sl_buffer_id y = program_buffer(p, SL_BUFFER_TEMP, "y", 4 * N);
    const sl_access even = {m, 0, 32, 64, 16}, odd = {m, 32, 32, 64, 16};
    program_step(p, SL_OP_slice, "even", 0);
    step_takes(p, x), step_writes(p, even);
    program_step(p, SL_OP_slice, "odd", 0);
    step_takes(p, x), step_writes(p, odd);
    program_step(p, SL_OP_softmax, "all", 1);
    step_takes(p, m), step_gives(p, y);
    program_output(p, y);
    p->arena_bytes = 8 * (uint64_t)BYTES;
    p->buffers[y.v].arena_offset = 4 * (uint64_t)BYTES;
    accept(p);
    ((sl_access *)(uintptr_t)p->steps[1].writes)[0] = (sl_access){m, 32, 33, 64, 15};
    refuse(sl_check_order(p, NULL, &err), "even", "byte 64 of 'm'");
    ((sl_access *)(uintptr_t)p->steps[1].writes)[0] = (sl_access){m, 32, 31, 64, 16};
    refuse(sl_check_values(p, NULL, &err), "all: reads byte 63", "nothing yet");
    sl_program_destroy(p);
}

/* The overlap of strided runs agrees with a brute-force byte map. */
static void test_common(void **state) {
    (void)state;
    enum { SPACE = 256 };
    srand(7);
    for (int i = 0; i < 20000; i++) {
        sl_touch t[2];
        uint8_t bytes[SPACE] = {0};
        for (int k = 0; k < 2; k++) {
            t[k] = (sl_touch){.begin = (uint64_t)rand() % 40,
                              .bytes = (uint64_t)(1 + rand() % 9),
                              .count = (uint32_t)(1 + rand() % 9)};
            t[k].stride = t[k].bytes + (uint64_t)rand() % 10;
            for (uint32_t run = 0; run < t[k].count; run++)
                for (uint64_t b = 0; b < t[k].bytes; b++)
                    bytes[sl_touch_run(&t[k], run) + b] |= (uint8_t)(1 << k);
        }
        uint64_t first = SPACE, at = SPACE;
        for (uint64_t b = SPACE; b-- > 0;)
            if (bytes[b] == 3) first = b;
        assert_int_equal(sl_touch_common(&t[0], &t[1], &at), first < SPACE);
        assert_int_equal(at, first);
    }
}

static void test_spans(void **state) {
    (void)state;
    enum { SPACE = 100, SETS = 500 };
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_spans spans;
    sl_error err = {0};
    assert_int_equal(sl_spans_init(&spans, SPACE, SETS, &arena, &err), SL_OK);
    uint32_t plain[SPACE] = {0};
    srand(3);
    for (int i = 0; i < SETS; i++) {
        const uint64_t begin = (uint64_t)rand() % SPACE;
        const uint64_t end = begin + (uint64_t)rand() % (SPACE - begin + 1);
        const uint32_t value = (uint32_t)rand() % 4;
        sl_spans_set(&spans, begin, end, value);
        for (uint64_t b = begin; b < end; b++) plain[b] = value;
        for (uint64_t b = 0; b < SPACE; b++)
            assert_int_equal(spans.items[sl_spans_find(&spans, b)].value, plain[b]);
        for (uint32_t s = 0; s < spans.count; s++) {
            assert_int_equal(spans.items[s].begin, s ? spans.items[s - 1].end : 0);
            assert_true(s == 0 || spans.items[s].value != spans.items[s - 1].value);
        }
        assert_int_equal(spans.items[spans.count - 1].end, SPACE);
    }
    sl_arena_deinit(&arena);
}

/* Makes the n-th allocation fail, for every n until everything succeeds. */
typedef struct {
    int left;
} failing;

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    failing *f = ctx;
    if (new_bytes && f->left-- <= 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_no_memory(void **state) {
    (void)state;
    diamond d = make_diamond();
    for (int n = 0;; n++) {
        failing f = {n};
        const sl_allocator allocator = {failing_resize, &f};
        sl_error err = {0};
        const sl_status status = sl_check_program(d.program, &allocator, &err);
        if (status == SL_OK) break;
        assert_int_equal(status, SL_NO_MEMORY);
        assert_true(n < 20);
    }
    sl_program_destroy(d.program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),     cmocka_unit_test(test_edges),
        cmocka_unit_test(test_undeclared), cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_unwritten),  cmocka_unit_test(test_two_results),
        cmocka_unit_test(test_bounds),     cmocka_unit_test(test_strides),
        cmocka_unit_test(test_common),     cmocka_unit_test(test_spans),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
