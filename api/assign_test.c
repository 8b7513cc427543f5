/* assign_test.c - Weights that a graph writes: what reads them before sees the old value, on every
 * device and under every schedule, and they keep the new one from run to run. */
#include "sluice/experimental.h"
#include "sluice/graph.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 5000, READERS = 12, RUNS = 3 };
static sl_error err;

/* Every reader is independent of the assignment, so that only the access of w orders them; readers
 * of the new value follow. */
static sl_graph *build(void) {
    sl_graph *g = NULL;
    const int64_t dims[1] = {COUNT};
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    const sl_value w = sl_graph_add_weight(g, "w", "f32", 1, dims);
    const sl_value x = sl_graph_add_input(g, "x", "f32", 1, dims);
    sl_value sum = sl_graph_apply(g, "mul", (sl_value[]){w, x}, 2, NULL);
    for (int i = 1; i < READERS; i++) {
        const sl_value more = sl_graph_apply(g, i % 2 ? "sub" : "add", (sl_value[]){x, w}, 2, NULL);
        sum = sl_graph_apply(g, "add", (sl_value[]){sum, more}, 2, NULL);
    }
    const sl_value next = sl_graph_apply(g, "assign", (sl_value[]){w, x}, 2, NULL);
    sl_graph_add_output(g, "old", sum);
    sl_graph_add_output(g, "new", sl_graph_apply(g, "neg", &next, 1, NULL));
    sl_graph_add_output(g, "w", next);
    return g;
}

static void fill(float *x, int run) {
    for (int i = 0; i < COUNT; i++) x[i] = (float)((i * 7 + run * 13) % 64) / 8;
}

/* Sums of multiples of 1/64 below 2^10 are exact. */
static float old_of(float w, float x) {
    float sum = w * x;
    for (int i = 1; i < READERS; i++) sum += i % 2 ? x - w : x + w;
    return sum;
}

static void check(const char *device, const char *words, uint32_t threads) {
    static float w[COUNT], x[COUNT];
    sl_compiled *c = NULL;
    sl_graph *g = build();
    const sl_compile_options how = {
        .struct_size = sizeof how, .device = device, .threads = threads, .compile = words};
    if (sl_compile(g, &how, &c, &err) != SL_OK) fail_msg("%s %s: %s", device, words, err.message);
    fill(x, 0);
    assert_int_equal(sl_compiled_set(c, "x", x, sizeof x, &err), SL_OK);
    assert_int_equal(sl_compiled_run(c, &err), SL_INVALID);
    assert_string_equal(err.message, "weight 'w' was never set");
    fill(w, 100);
    assert_int_equal(sl_compiled_set(c, "w", w, sizeof w, &err), SL_OK);
    for (int run = 0; run < RUNS; run++) {
        fill(x, run);
        assert_int_equal(sl_compiled_set(c, "x", x, sizeof x, &err), SL_OK);
        if (sl_compiled_run(c, &err) != SL_OK) fail_msg("%s: %s", device, err.message);
        const float *old = sl_compiled_get(c, "old", NULL),
                    *fresh = sl_compiled_get(c, "new", NULL);
        const float *kept = sl_compiled_get(c, "w", NULL);
        for (int i = 0; i < COUNT; i++) {
            if (old[i] != old_of(w[i], x[i]) || fresh[i] != -x[i] || kept[i] != x[i])
                fail_msg("%s %s, run %d: element %d is %g, %g, %g", device, words, run, i,
                         (double)old[i], (double)fresh[i], (double)kept[i]);
            w[i] = x[i];
        }
    }
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
}

static void readers_see_the_old_value(void **state) {
    (void)state;
    static const char *const words[] = {"",
                                        "no-fusion",
                                        "no-fusion,no-simplify",
                                        "no-reordering",
                                        "groups",
                                        "groups,lookahead=1,no-fusion",
                                        "no-sharing,no-in-place"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (uint32_t threads = 1; threads <= 4; threads++) check("cpu", words[i], threads);
    check("ref", "", 1);
}

static void readers_see_the_old_value_on_a_gpu(void **state) {
    (void)state;
    const char *path = getenv("SLUICE_CUDA_EMULATOR");
    if (!path || !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
    check("cuda", "", 1);
    check("cuda", "no-fusion,eager", 1);
}

/* x steps to 3, the minimum of (x - 3)^2, by each optimiser. */
static void steps_reach_a_minimum(void **state) {
    (void)state;
    static const struct {
        const char *op, *attrs;
        uint32_t moments;
    } rows[] = {{"sgd_step", "mu=0.5", 1},
                {"sgd_step", "mu=0.5, nesterov=true", 1},
                {"adamw_step", "decay=0", 2},
                {"lion_step", NULL, 1}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        sl_graph *g = NULL;
        sl_compiled *c = NULL;
        sl_value in[6], out[3];
        static const char *const names[] = {"first", "second"};
        const int64_t one[1] = {1}, two[1] = {2};
        uint32_t count = 0;
        assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
        in[count++] = sl_graph_add_weight(g, "x", "f32", 1, one);
        for (uint32_t m = 0; m < rows[r].moments; m++)
            in[count++] = sl_graph_add_state(g, names[m], "f32", 1, one);
        const sl_value three = sl_graph_add_constant(g, "three", "f32", 1, one, &(float){3});
        in[count++] = sl_graph_apply(g, "sub", (sl_value[]){in[0], three}, 2, NULL);
        in[count++] = sl_graph_add_input(g, "rate", "f32", 0, NULL);
        if (rows[r].moments == 2) in[count++] = sl_graph_add_input(g, "c", "f32", 1, two);
        const sl_node_spec step = {.struct_size = sizeof step,
                                   .op = rows[r].op,
                                   .attrs = rows[r].attrs,
                                   .inputs = in,
                                   .input_count = count,
                                   .outputs = out,
                                   .output_count = 3};
        (void)sl_graph_add_node(g, &step);
        sl_graph_add_output(g, "x", out[0]);
        if (sl_compile(g, NULL, &c, &err) != SL_OK) fail_msg("%s", err.message);
        assert_int_equal(sl_compiled_set(c, "x", &(float){-1}, 4, &err), SL_OK);
        double first = 1, second = 1;
        for (int t = 1; t <= 300; t++) {
            first *= 0.9, second *= 0.999;
            const float rate = 0.3f / (1 + (float)t / 20),
                        pair[2] = {(float)(1 - first), (float)(1 - second)};
            assert_int_equal(sl_compiled_set(c, "rate", &rate, 4, &err), SL_OK);
            if (rows[r].moments == 2)
                assert_int_equal(sl_compiled_set(c, "c", pair, 8, &err), SL_OK);
            if (sl_compiled_run(c, &err) != SL_OK) fail_msg("%s", err.message);
        }
        const float x = *(const float *)sl_compiled_get(c, "x", NULL);
        if (!(x > 2.9f && x < 3.1f)) fail_msg("%s: %g", rows[r].op, (double)x);
        sl_compiled_destroy(c);
        sl_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_the_old_value),
        cmocka_unit_test(readers_see_the_old_value_on_a_gpu),
        cmocka_unit_test(steps_reach_a_minimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
