/* sizing_test.c - A program that was compiled for the most rows gives, for every smaller number,
 * the bytes of one that was compiled for it; what depends on sizes in another way is refused. */
#include "compiler/build.h"
#include "compiler/compile.h"
#include "core/sizing.h"
#include "runtime/cpu/cpu.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 70, MOST_WANTED = 9, COLS = 48, OUTPUTS = 21 };
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_program *compile(const char *text) {
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    must(sl_graph_read(text, strlen(text), &graph, &err));
    must(sl_compile_graph(graph, NULL, NULL, &program, &err));
    sl_graph_destroy(graph);
    return program;
}

/* Some of x's rows, normed and multiplied. */
static sl_program *compile_rows(int rows, int wanted) {
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "graph \"g\" { input %%x : f32[%d,%d] input %%i : i32[%d] weight %%gain : f32[%d] "
        "weight %%w : f32[%d,%d] %%n = rms_norm(%%x, %%gain) {eps=1e-6} "
        "%%s = silu(%%n) %%g = gather(%%s, %%i) %%y = linear(%%g, %%w) "
        "output \"y\" = %%y output \"s\" = %%s }",
        rows, COLS, wanted, COLS, OUTPUTS, COLS);
    return compile(text);
}

static float x[MOST * COLS], gain[COLS], w[OUTPUTS * COLS];
static int32_t indices[MOST_WANTED];

static void bind(sl_device *device, sl_executable *executable, const sl_program *program) {
    static const struct {
        const char *name;
        void *data;
    } all[] = {{"x", x}, {"i", indices}, {"gain", gain}, {"w", w}};
    for (int i = 0; i < 4; i++) {
        sl_buffer_id id;
        assert_true(sl_program_find(program, all[i].name, &id));
        must(device->ops->bind(executable, id, all[i].data, &err));
    }
}

static void compare(sl_device *device, sl_executable *whole, int rows, int wanted) {
    sl_program *program = compile_rows(rows, wanted);
    sl_executable *exact = NULL;
    float *y = malloc((size_t)wanted * OUTPUTS * sizeof *y);
    float *s = malloc((size_t)rows * COLS * sizeof *s);
    assert_true(y && s);
    must(device->ops->load(device, program, &exact, &err));
    bind(device, exact, program);
    must(device->ops->run(exact, &err));
    memcpy(y, device->ops->output(exact, 0), (size_t)wanted * OUTPUTS * sizeof *y);
    memcpy(s, device->ops->output(exact, 1), (size_t)rows * COLS * sizeof *s);
    must(device->ops->run(whole, &err));
    assert_memory_equal(y, device->ops->output(whole, 0), (size_t)wanted * OUTPUTS * sizeof *y);
    assert_memory_equal(s, device->ops->output(whole, 1), (size_t)rows * COLS * sizeof *s);
    device->ops->unload(exact);
    sl_program_destroy(program);
    free(y);
    free(s);
}

static void smaller_sizes_are_the_same(void **state) {
    (void)state;
    static const int rows[] = {MOST, 1, 2, 3, 64, 17, MOST};
    sl_program *program = compile_rows(MOST, MOST_WANTED);
    sl_program *probe = compile_rows(MOST - 1, MOST_WANTED + 2);
    sl_sizing sizing = {.most = {MOST, MOST_WANTED}};
    sl_arena arena;
    sl_device *device = NULL;
    sl_executable *whole = NULL;
    sl_arena_init(&arena, NULL);
    must(sl_sizing_find(program, probe, &arena, &sizing, &err));
    must(sl_device_cpu_create(&(sl_device_options){.threads = 2}, NULL, &device, &err));
    must(device->ops->load(device, program, &whole, &err));
    bind(device, whole, program);
    for (int i = 0; i < MOST * COLS; i++) x[i] = (float)((i * 7919) % 1013) / 500.0f - 1;
    for (int i = 0; i < OUTPUTS * COLS; i++) w[i] = (float)((i * 31) % 101) / 50.0f - 1;
    for (int i = 0; i < COLS; i++) gain[i] = (float)(i % 17) / 16.0f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int wanted = 1; wanted <= MOST_WANTED; wanted += 4) {
            for (int k = 0; k < wanted; k++) indices[k] = (k * 5) % rows[i];
            must(device->ops->resize(whole, &sizing, (int64_t[]){rows[i], wanted}, &err));
            compare(device, whole, rows[i], wanted);
        }
    /* Without wanted rows the rest is still computed. */
    must(device->ops->resize(whole, &sizing, (int64_t[]){5, 0}, &err));
    must(device->ops->run(whole, &err));
    must(device->ops->resize(whole, &sizing, (int64_t[]){5, 1}, &err));
    compare(device, whole, 5, 1);
    static const int64_t wrong[][2] = {{MOST + 1, 1}, {1, MOST_WANTED + 1}, {-1, 1}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(device->ops->resize(whole, &sizing, wrong[i], &err), SL_INVALID);
    compare(device, whole, 5, 1); /* nothing has changed */
    device->ops->unload(whole);
    device->ops->destroy(device);
    sl_arena_deinit(&arena);
    sl_program_destroy(program);
    sl_program_destroy(probe);
}

static void other_dependences_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *whole, *probe, *why;
    } cases[] = {
        {"graph \"g\" { input %x : f32[8,4] %y = neg(%x) output \"y\" = %y }",
         "graph \"g\" { input %x : f32[7,4] %y = abs(%x) output \"y\" = %y }", "in its kind"},
        {"graph \"g\" { input %x : f32[8,4] %y = neg(%x) output \"y\" = %y }",
         "graph \"g\" { input %x : f32[7,4] %z = neg(%x) %y = exp(%z) output \"y\" = %y "
         "output \"z\" = %z }",
         "1 steps of 2 buffers, and 2 of 3 for other sizes"},
        {"graph \"g\" { input %x : f32[8,4] %y = neg(%x) output \"y\" = %y }",
         "graph \"g\" { input %x : f32[7,5] %y = neg(%x) output \"y\" = %y }", "in its shapes"},
        {"graph \"g\" { input %x : f32[8,4] %y = neg(%x) output \"y\" = %y }",
         "graph \"g\" { input %x : f32[5,4] %y = neg(%x) output \"y\" = %y }", "in its shapes"},
        {"graph \"g\" { input %x : f32[8,4] %z = transpose(%x) {perm=[1,0]} "
         "%y = slice(%z) {axis=1, start=1, length=7} output \"y\" = %y }",
         "graph \"g\" { input %x : f32[7,4] %z = transpose(%x) {perm=[1,0]} "
         "%y = slice(%z) {axis=1, start=1, length=6} output \"y\" = %y }",
         "depends on sizes in its"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_program *program = compile(cases[i].whole), *probe = compile(cases[i].probe);
        sl_sizing sizing = {.most = {8, 3}};
        sl_arena arena;
        sl_arena_init(&arena, NULL);
        assert_int_equal(sl_sizing_find(program, probe, &arena, &sizing, &err), SL_UNSUPPORTED);
        if (!strstr(err.message, cases[i].why)) fail_msg("%zu: %s", i, err.message);
        sl_arena_deinit(&arena);
        sl_program_destroy(program);
        sl_program_destroy(probe);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smaller_sizes_are_the_same),
        cmocka_unit_test(other_dependences_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
