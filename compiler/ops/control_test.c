/* control_test.c - Ops with bodies: error messages, text form, and no leaks when memory runs
 * out. */
#include "base/memory.h"
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "core/check.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Bodies by letter: $x in a text is replaced. */
#define IDENTITY    "graph \"i\" { input %a : f32[3] output \"a\" = %a }"
#define WIDE        "graph \"w\" { input %a : f32[4] output \"a\" = %a }"
#define PAIR        "graph \"p\" { input %a : f32[3] input %b : f32[3] output \"a\" = %a }"
#define TWICE       "graph \"t\" { input %a : f32[3] output \"a\" = %a output \"b\" = %a }"
#define WITH_WEIGHT "graph \"g\" { input %a : f32[3] weight %w : f32[3] output \"a\" = %a }"
#define YES         "graph \"y\" { input %a : f32[3] constant %t : bool[] = {1} output \"t\" = %t }"
#define NUMBER      "graph \"n\" { input %a : f32[3] output \"a\" = %a }"
#define STEP                                                                                       \
    "graph \"s\" { input %a : f32[3] input %x : f32[] %n = add(%a, %x) output \"a\" = %n "         \
    "output \"y\" = %x }"

static void refuses(const char *node, const char *message) {
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "graph \"g\" { input %%c : bool[] input %%d : bool[2] input %%a : f32[3] "
                   "input %%x : f32[5] input %%z : f32[4] %s }",
                   node);
    sl_graph *graph = NULL;
    sl_error err = {0};
    const sl_status status = sl_graph_parse(text, strlen(text), NULL, &graph, &err);
    if (status != SL_INVALID) fail_msg("%s: %s", node, status ? err.message : "accepted");
    if (!strstr(err.message, message)) fail_msg("'%s', must be '%s'", err.message, message);
}

static void test_if(void **state) {
    (void)state;
    refuses("%o = if(%d, %a) {then = " IDENTITY ", otherwise = " IDENTITY "}",
            "if: condition is bool[2], must be one bool");
    refuses("%o = if(%a, %a) {then = " IDENTITY ", otherwise = " IDENTITY "}",
            "if: condition is f32[3], must be one bool");
    refuses("%o = if(%c, %a) {then = " IDENTITY "}", "if: otherwise is missing, must be a graph");
    refuses("%o = if(%c, %a) {then = " IDENTITY ", otherwise = " WIDE "}",
            "if: input 'a' of otherwise is f32[4], must be f32[3] as input 0 is");
    refuses("%o = if(%c, %a) {then = " PAIR ", otherwise = " IDENTITY "}",
            "if: then has 2 inputs, must have 1");
    refuses("%o = if(%c, %a, %a) {then = " IDENTITY ", otherwise = " IDENTITY "}",
            "if: then has 1 inputs, but takes input 1 too");
    refuses("%o = if(%c, %a) {then = " TWICE ", otherwise = " IDENTITY "}",
            "if: then has 2 outputs, must have 1");
    refuses("%o = if(%c, %a) {then = " WITH_WEIGHT ", otherwise = " IDENTITY "}",
            "if: 'w' of then is a weight, state or experts: a body may only declare inputs and "
            "constants");
    refuses("%o = if(%c, %a) {then = " IDENTITY ", otherwise = " YES "}",
            "if: output 't' of otherwise is bool[], must be f32[3] as result 0 is");
}

static void test_while(void **state) {
    (void)state;
    refuses("%o = while(%a) {condition = " NUMBER ", body = " IDENTITY "}",
            "while: condition gives f32[3], must be one bool");
    refuses("%o = while(%a) {condition = " YES ", body = " YES "}",
            "while: output 't' of body is bool[], must be f32[3] as carry 0 is");
    refuses("%o, %p = while(%a) {condition = " YES ", body = " IDENTITY "}",
            "while: 2 results, must be 1 as there are carries");
    refuses("%o = while(%a) {condition = " YES ", body = " IDENTITY ", most = -1}",
            "while: most is -1, must be 0 to");
    refuses("%o = while(%a) {condition = " YES "}", "while: body is missing, must be a graph");
}

static void test_scan(void **state) {
    (void)state;
    refuses("%o = scan(%a) {carries = 1, body = " IDENTITY "}",
            "scan: length is 0, must be given as there are no xs");
    refuses("%o = scan(%a) {carries = 2, length = 1, body = " IDENTITY "}",
            "scan: carries is 2, must be 0 to 1");
    refuses("%o = scan(%a) {carries = 1, consts = 1, length = 1, body = " IDENTITY "}",
            "scan: consts is 1, must be 0 to 0");
    refuses("%o, %y = scan(%a, %x) {carries = 1, length = 4, body = " STEP "}",
            "scan: x 0 is f32[5], its first dim must be 4");
    refuses("%o, %y = scan(%a, %x, %z) {carries = 1, body = " STEP "}",
            "scan: x 1 is f32[4], its first dim must be 5");
    refuses("%o, %y = scan(%a, %c) {carries = 1, body = " STEP "}",
            "scan: x 0 is bool[], must have plain elements and a first dim");
    refuses("%o = scan(%a, %x) {carries = 1, body = " STEP "}",
            "scan: 1 results, must be 1 carries and 1 ys");
    refuses("%o, %y = scan(%z, %x) {carries = 1, body = " STEP "}",
            "scan: input 'a' of body is f32[3], must be f32[4] as carry 0 is");
    refuses("%o, %y = scan(%a, %x) {carries = 1, reverse = 2, body = " STEP "}",
            "scan: reverse is 2, must be 0 to 1");
}

#define BACK                                                                                       \
    "graph \"b\" { input %a : f32[3] input %x : f32[] input %da : f32[3] input %dy : f32[] "       \
    "output \"da\" = %da output \"dx\" = %dy }"

static void test_scan_backward(void **state) {
    (void)state;
    refuses("%o, %p = scan_backward(%a, %x, %a) {carries = 1, body = " STEP ", backward = " BACK
            "}",
            "scan_backward: 3 inputs, must be the 2 of the scan and gradients of its 2 results");
    refuses("%o, %p = scan_backward(%a, %x, %a, %z) {carries = 1, body = " STEP ", backward = " BACK
            "}",
            "scan_backward: the gradient of result 1 is f32[4], must be f32[5] as the result is");
    refuses("%o, %p = scan_backward(%a, %x, %a, %x) {carries = 1, body = " STEP ", backward = " STEP
            "}",
            "scan_backward: backward has 2 inputs, but takes result 0 too");
    refuses("%o = scan_backward(%a, %x, %a, %x) {carries = 1, body = " STEP ", backward = " BACK
            "}",
            "scan_backward: 1 results, must be 2, one for each input of the scan");
    refuses("%o, %p = scan_backward_xs(%a, %x, %a, %x) {carries = 1, body = " STEP
            ", backward = " BACK "}",
            "scan_backward_xs: 2 results, must be 1, one for each x of the scan");
}

/* ---- a graph with all of them, printed and parsed again ---- */

static const char everything[] =
    "graph \"g\" { input %c : bool[] input %a : f32[3] input %x : f32[5] input %dy : f32[5] "
    "scope \"first\" "
    "%o = if(%c, %a) {then = " IDENTITY ", otherwise = graph \"o\" { input %a : f32[3] "
    "  %s, %y = scan(%a, %a) {carries = 1, body = " STEP "} output \"a\" = %s }} "
    "%w = while(%o) {condition = graph \"n\" { input %a : f32[3] constant %f : bool[1] = {0} "
    "  output \"f\" = %f }, body = " IDENTITY ", most = 7} "
    "scope \"second\" "
    "%s, %y = scan(%w, %x) {carries = 1, length = 5, reverse = 1, checkpoints = 2, body = " STEP
    "} "
    "%da, %dx = scan_backward(%w, %x, %s, %dy) {carries = 1, checkpoints = 2, body = " STEP
    ", backward = " BACK "} "
    "%z = scan_backward_xs(%w, %x, %s, %dy) {carries = 1, body = " STEP ", backward = " BACK "} "
    "%f = custom_fn(%s) {body = " IDENTITY "} "
    "output \"y\" = %y output \"da\" = %da output \"dx\" = %dx output \"z\" = %z "
    "output \"f\" = %f }";

static void test_text(void **state) {
    (void)state;
    sl_graph *graph = NULL, *again = NULL;
    sl_error err = {0};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    char *text = NULL, *second = NULL;
    if (sl_graph_parse(everything, strlen(everything), NULL, &graph, &err))
        fail_msg("%s", err.message);
    assert_int_equal(sl_graph_verify(graph, &err), SL_OK);
    assert_int_equal(sl_graph_print(graph, &arena, &text, &err), SL_OK);
    if (sl_graph_parse(text, strlen(text), NULL, &again, &err)) fail_msg("%s", err.message);
    assert_int_equal(sl_graph_print(again, &arena, &second, &err), SL_OK);
    assert_string_equal(text, second);
    sl_graph_destroy(graph);
    sl_graph_destroy(again);
    sl_arena_deinit(&arena);
}

/* The verifier finds an invalid body, and the checker one that is planned wrongly. */
static void test_bodies_are_checked(void **state) {
    (void)state;
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_parse(everything, strlen(everything), NULL, &graph, &err), SL_OK);
    const sl_scan_attrs *scan = graph->nodes[2].attrs;
    sl_graph *body = (sl_graph *)(uintptr_t)scan->body;
    body->values[3].use_count++;
    assert_int_equal(sl_graph_verify(graph, &err), SL_INVALID);
    body->values[3].use_count--;
    if (sl_compile_graph(graph, NULL, NULL, &program, &err)) fail_msg("%s", err.message);
    assert_int_equal(sl_check_program(program, NULL, &err), SL_OK);
    uint32_t checked = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        if (step->op != SL_OP_scan) continue;
        assert_int_equal(step->body_count, 1);
        sl_step *inner = &step->bodies[0]->steps[0];
        ((sl_access *)(uintptr_t)inner->writes)[0].bytes += 1 << 20;
        assert_int_not_equal(sl_check_program(program, NULL, &err), SL_OK);
        checked++;
    }
    assert_int_equal(checked, 1);
    sl_program_destroy(program);
    sl_graph_destroy(graph);
}

/* ---- out of memory ---- */

typedef struct {
    uint64_t left;
    uint64_t held;
} stingy;

static void *stingy_resize(void *ctx, void *ptr, size_t old, size_t bytes, size_t align) {
    stingy *s = ctx;
    if (bytes && !s->left) return NULL;
    if (bytes) s->left--;
    s->held += bytes;
    s->held -= old;
    return sl_resize(NULL, ptr, old, bytes, align);
}

/* Everything from text to results; false if it failed for lack of memory. */
static bool go(const sl_allocator *allocator) {
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    sl_device *device = NULL;
    sl_executable *exe = NULL;
    sl_evaluator *evaluator = NULL;
    sl_error err = {0};
    sl_status status = SL_OK;
    static const float data[5] = {1, 2, 3, 4, 5};
    static const char *const names[] = {"c", "a", "x", "dy"};
    SL_TRY_ELSE(done, sl_graph_parse(everything, strlen(everything), allocator, &graph, &err));
    SL_TRY_ELSE(done, sl_evaluator_create(graph, allocator, &evaluator, &err));
    for (int i = 0; i < 4; i++)
        SL_TRY_ELSE(done, sl_evaluator_bind(evaluator, sl_graph_find(graph, names[i]),
                                            i ? (const void *)data : "\0", &err));
    SL_TRY_ELSE(done, sl_evaluator_run(evaluator, &err));
    sl_evaluator_destroy(evaluator);
    evaluator = NULL;
    SL_TRY_ELSE(done, sl_compile_graph(graph, NULL, allocator, &program, &err));
    SL_TRY_ELSE(done,
                sl_device_cpu_create(&(sl_device_options){.threads = 1}, allocator, &device, &err));
    SL_TRY_ELSE(done, device->ops->load(device, program, &exe, &err));
    for (int i = 0; i < 4; i++) {
        sl_buffer_id buffer;
        assert_true(sl_program_find(program, names[i], &buffer));
        SL_TRY_ELSE(done, device->ops->bind(exe, buffer, i ? (void *)(uintptr_t)data : "\0", &err));
    }
    SL_TRY_ELSE(done, device->ops->run(exe, &err));
done:
    if (status != SL_OK && status != SL_NO_MEMORY) fail_msg("%s", err.message);
    if (exe) device->ops->unload(exe);
    if (device) device->ops->destroy(device);
    sl_evaluator_destroy(evaluator);
    sl_program_destroy(program);
    sl_graph_destroy(graph);
    return status == SL_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    uint64_t failures = 0;
    for (uint64_t left = 0;; left++) {
        stingy s = {.left = left};
        const sl_allocator allocator = {stingy_resize, &s};
        const bool went = go(&allocator);
        assert_int_equal(s.held, 0);
        if (went) break;
        failures++;
    }
    assert_true(failures > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_if),        cmocka_unit_test(test_while),
        cmocka_unit_test(test_scan),      cmocka_unit_test(test_scan_backward),
        cmocka_unit_test(test_text),      cmocka_unit_test(test_bodies_are_checked),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
