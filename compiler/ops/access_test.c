/* access_test.c - Which parts of their operands steps declare, and what is saved by it.  That
 * kernels keep to it is tested by tests/executor/access_truth_test.c. */
#include "compiler/compile.h"
#include "core/check.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static sl_graph *parsed(const char *nodes) {
    char text[2048];
    sl_graph *graph = NULL;
    sl_error err = {0};
    const int bytes = snprintf(text, sizeof text, "graph \"g\" { %s }", nodes);
    assert_true(bytes > 0 && (size_t)bytes < sizeof text);
    if (sl_graph_parse(text, (size_t)bytes, NULL, &graph, &err)) fail_msg("%s", err.message);
    return graph;
}

static sl_program *lowered(const char *nodes) {
    sl_graph *graph = parsed(nodes);
    sl_program *program = NULL;
    sl_error err = {0};
    if (sl_lower(graph, NULL, &program, &err)) fail_msg("%s: %s", nodes, err.message);
    sl_graph_destroy(graph);
    return program;
}

static sl_program *compiled(const char *nodes, sl_schedule_model model) {
    sl_graph *graph = parsed(nodes);
    sl_program *program = NULL;
    sl_error err = {0};
    const sl_compiler_options options = {.model = model, .no_simplify = true, .no_fusion = true};
    if (sl_compile_graph(graph, &options, NULL, &program, &err) ||
        sl_check_program(program, NULL, &err))
        fail_msg("%s: %s", nodes, err.message);
    sl_graph_destroy(graph);
    return program;
}

/* ---- parts ---- */

#define Y      " output \"y\" = %y"
#define AT(S)  "constant %slots : i32[2] = {" S "} constant %positions : i32[2] = {20, 40} "
#define CACHES "input %k : f32[2,2,8] state %keys : f32[3,2,4,8,16] state %values : f32[3,2,64,8] "

static void parts_are_declared(void **state) {
    (void)state;
    static const struct {
        const char *nodes;
        uint32_t read; /* which of the first step's */
        uint64_t begin, bytes, stride;
        uint32_t count;
    } cases[] = {
        {"input %x : f32[5,6,7] %y = slice(%x) {axis = 1, start = 2, length = 3}" Y, 0, 2 * 28,
         3 * 28, 6 * 28, 5},
        {"input %x : f32[5,6,7] constant %s : i32[3] = {1, 9, -1} "
         "%y = dynamic_slice(%x, %s) {sizes = [2, 4, 7]}" Y,
         0, (6 + 2) * 28, 4 * 28, 6 * 28, 2},
        {"input %x : f32[5,6,7] %y = strided_slice(%x) {starts = [4, 0, 1], ends = [1, 6, 6], "
         "steps = [-2, 1, 2]}" Y,
         0, (2 * 6 * 7 + 1) * 4, 5 * 4, 7 * 4, 18},
        {"input %x : f32[4,9] input %v : f32[1] %y = pad(%x, %v) {before = [1, -2], after = [0, "
         "-3], mode = constant}" Y,
         0, 2 * 4, 4 * 4, 9 * 4, 4},
        {"input %x : u8[4,9] input %v : u8[1] %y = pad(%x, %v) {before = [1, -2], after = [0, -3], "
         "mode = edge}" Y,
         0, 0, 36, 0, 1},
        {"weight %t : f16[50,70] constant %i : i32[3] = {7, 9, 7} %y = embed(%t, %i)" Y, 0, 7 * 140,
         3 * 140, 50 * 140, 1},
        {"weight %t : q8[50,70] constant %i : i32[3] = {7, 9, 7} %y = embed(%t, %i)" Y, 0, 0, 0, 0,
         1},
        {"input %x : f32[5,6,7] constant %i : i64[2] = {-2, 3} %y = gather(%x, %i) {axis = 1}" Y, 0,
         3 * 28, 2 * 28, 6 * 28, 5},
        {"input %x : f32[5,6,7] constant %i : i64[2] = {6, 3} %y = gather(%x, %i) {axis = 1}" Y, 0,
         0, 840, 0, 1}, /* out of range: an error of the run */
        {"input %x : f32[5,6,7] input %i : i64[2] %y = gather(%x, %i) {axis = 1}" Y, 0, 0, 840, 0,
         1},
        {"input %x : f32[5,6,7] constant %i : i32[2,2] = {1, 5, 3, 4} %y = gather_nd(%x, %i)" Y, 0,
         (6 + 4) * 28, 2 * 28, 6 * 28, 3},
        {"input %x : f32[5,6,7] input %i : i32[5,2,7] %y = take_along(%x, %i) {axis = 0}" Y, 0, 0,
         2 * 28, 6 * 28, 5},
        {CACHES AT("1, 1") "%y, %z = kv_append(%k, %k, %slots, %positions, %keys, %values)" Y, 4,
         (2 * 4 + 1) * 512, 2 * 512, 4 * 512, 2},
        {CACHES AT("1, 1") "%y, %z = kv_append(%k, %k, %slots, %positions, %keys, %values)" Y, 5,
         (2 * 64 + 16) * 32, 32 * 32, 64 * 32, 2},
        {CACHES AT("0, 2") "%y = sdpa(%k, %keys, %values, %slots, %positions)" Y, 1, 0, 3 * 512,
         4 * 512, 6},
        {CACHES "input %slots : i32[2] constant %positions : i32[2] = {20, 40} "
                "%y = sdpa(%k, %keys, %values, %slots, %positions)" Y,
         1, 0, 3 * 2 * 4 * 512, 0, 1},
        {CACHES "constant %slots : i32[2] = {1, 1} input %positions : i32[2] "
                "%y = sdpa(%k, %keys, %values, %slots, %positions)" Y,
         2, 2 * 64 * 32, 2 * 64 * 32, 2 * 2 * 64 * 32, 1},
        {CACHES "constant %slots : i32[2,1] = {1, 1} constant %positions : i32[2] = {20, 40} "
                "%y = sdpa(%k, %keys, %values, %slots, %positions)" Y,
         1, 0, 3 * 2 * 4 * 512, 0, 1}, /* pages */
        {"input %k : f32[2,2,8] state %keys : k16[3,2,4,8,16] state %values : v16[3,2,64,8] " AT(
             "1, 1") "%y, %z = kv_append(%k, %k, %slots, %positions, %keys, %values)" Y,
         4, 2 * 4 * (64 + 256), 2 * 4 * (64 + 256), 2 * 4 * (64 + 256), 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        sl_program *program = lowered(cases[c].nodes);
        const sl_step *step = &program->steps[0];
        const sl_access *read = &step->reads[cases[c].read];
        const uint64_t all = sl_type_bytes(&step->operands[cases[c].read].type);
        assert_true(read->count >= 1);
        if (read->begin != cases[c].begin ||
            read->bytes != (cases[c].bytes ? cases[c].bytes : all) ||
            read->count != cases[c].count || (read->count > 1 && read->stride != cases[c].stride))
            fail_msg("%s: %u runs of %llu from %llu, %llu apart", cases[c].nodes, read->count,
                     (unsigned long long)read->bytes, (unsigned long long)read->begin,
                     (unsigned long long)read->stride);
        sl_program_destroy(program);
    }
}

static void parts_without_elements_are_not_read(void **state) {
    (void)state;
    static const char *const nodes[] = {
        "state %x : f32[4,7] %y = slice(%x) {axis = 1, start = 3, length = 0}" Y,
        "state %x : f32[4,7] "
        "%y = strided_slice(%x) {starts = [0, -9], ends = [4, 7], steps = [1, -1]}" Y,
        "state %x : f32[4,7] input %v : f32[1] "
        "%y = pad(%x, %v) {before = [0, -7], after = [0, 7], mode = constant}" Y,
    };
    for (size_t n = 0; n < sizeof nodes / sizeof nodes[0]; n++) {
        sl_program *program = compiled(nodes[n], SL_SCHEDULE_LEVELS);
        const sl_step *step = &program->steps[0];
        assert_int_equal(step->reads[0].bytes, 0);
        assert_true(sl_access_end(&step->reads[0]) <= sl_type_bytes(&step->operands[0].type));
        sl_program_destroy(program);
    }
}

/* States are written where they are read. */
static void states_are_written_in_part(void **state) {
    (void)state;
    sl_program *program = lowered(
        CACHES AT("1, 1") "%y, %z = kv_append(%k, %k, %slots, %positions, %keys, %values)" Y);
    const sl_step *step = &program->steps[0];
    assert_int_equal(step->write_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_memory_equal(&step->writes[i], &step->reads[4 + i], sizeof(sl_access));
    sl_program_destroy(program);
}

/* ---- views ---- */

static void parts_in_one_piece_are_no_steps(void **state) {
    (void)state;
    static const struct {
        const char *nodes;
        uint32_t steps;
        uint64_t offset; /* of the output */
    } cases[] = {
        {"%a, %b = split(%x) {axis = 0, sizes = [1, 3]} output \"b\" = %b", 1, 6 * 28},
        {"%r = reshape(%x) {shape = [1, 24, 7]} %a, %b = split(%r) {axis = -2, sizes = [5, 19]} "
         "output \"b\" = %b",
         1, 5 * 28},
        {"%a, %b = split(%x) {axis = 1, sizes = [2, 4]} output \"b\" = %b", 2, 0},
        {"constant %s : i32[3] = {9, 0, 0} %b = dynamic_slice(%x, %s) {sizes = [2, 6, 7]} "
         "output \"b\" = %b",
         1, 2 * 6 * 28},
        {"input %s : i32[3] %b = dynamic_slice(%x, %s) {sizes = [4, 6, 7]} output \"b\" = %b", 2,
         0},
        {"%b = strided_slice(%x) {starts = [-1, 1, 0], ends = [9, 4, 7], steps = [2, 1, 1]} "
         "output \"b\" = %b",
         1, (3 * 6 + 1) * 28},
        {"%b = strided_slice(%x) {starts = [3, 0, 0], ends = [-9, 6, 7], steps = [-1, 1, 1]} "
         "output \"b\" = %b",
         2, 0}, /* backwards */
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char nodes[512];
        (void)snprintf(nodes, sizeof nodes, "input %%given : f32[4,6,7] %%x = neg(%%given) %s",
                       cases[c].nodes);
        sl_program *program = compiled(nodes, SL_SCHEDULE_LEVELS);
        if (program->step_count != cases[c].steps ||
            program->outputs[0].operand.offset_bytes != cases[c].offset)
            fail_msg("%s: %u steps, at %llu", nodes, program->step_count,
                     (unsigned long long)program->outputs[0].operand.offset_bytes);
        sl_program_destroy(program);
    }
}

/* Parts of a state are what it held then. */
static void parts_of_states_are_copies(void **state) {
    (void)state;
    sl_program *program =
        lowered("state %x : f32[4,6] %a, %b = split(%x) {axis = 0, sizes = [1, 3]} "
                "output \"b\" = %b");
    assert_int_equal(program->step_count, 1);
    sl_program_destroy(program);
}

/* ---- what is saved ---- */

/* Two sequences in one cache, each with a token of its own. */
static const char two_sequences[] =
    "input %p : i32[1] input %k : f32[1,2,8] input %q : f32[1,4,8] "
    "state %keys : f32[2,2,4,8,16] state %values : f32[2,2,64,8] "
    "@ %first : i32[1]@0 @ %second : i32[1]@1 "
    "%a, %b = kv_append(%k, %k, %first, %p, %keys, %values) %y = sdpa(%q, %a, %b, %first, %p) "
    "%c, %d = kv_append(%k, %k, %second, %p, %a, %b) %z = sdpa(%q, %c, %d, %second, %p) "
    "output \"y\" = %y output \"z\" = %z";

/* With slots that are constants, or inputs. */
static void write_sequences(bool constant, char out[1024]) {
    char *to = out;
    for (const char *from = two_sequences; *from; from++) {
        if (*from != '@')
            *to++ = *from;
        else if (from[1] == ' ')
            to += sprintf(to, constant ? "constant" : "input");
        else if (constant)
            to += sprintf(to, " = {%c}", *++from);
        else
            from++;
    }
    *to = 0;
}

static void sequences_do_not_wait_for_each_other(void **state) {
    (void)state;
    static const uint32_t barriers[2] = {3, 1}, edges[2] = {3, 2};
    for (int constant = 0; constant < 2; constant++) {
        char nodes[1024];
        write_sequences(constant, nodes);
        sl_program *program = compiled(nodes, SL_SCHEDULE_GROUPS);
        assert_int_equal(program->report.steps, 4);
        assert_int_equal(program->report.barriers, barriers[constant]);
        sl_program_destroy(program);
        program = compiled(nodes, SL_SCHEDULE_EDGES);
        assert_int_equal(program->report.edges, edges[constant]);
        sl_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_declared),
        cmocka_unit_test(parts_without_elements_are_not_read),
        cmocka_unit_test(states_are_written_in_part),
        cmocka_unit_test(parts_in_one_piece_are_no_steps),
        cmocka_unit_test(parts_of_states_are_copies),
        cmocka_unit_test(sequences_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
