/* norm_rms_test.c - rms_norm of every float type and over any axes, as devices run it: on every
 * instruction set of this machine, and on a GPU or the emulated one. */
#include "core/codec.h"
#include "sluice/graph.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 256 };
static sl_error err;

/* Runs the graph with the same inputs on any device; returns the number of elements of its result.
 */
static size_t run(const char *text, const sl_compile_options *how, double *out) {
    sl_graph *graph = NULL;
    sl_compiled *compiled = NULL;
    if (sl_graph_read(text, strlen(text), &graph, &err) != SL_OK) fail_msg("%s", err.message);
    if (sl_compile(graph, how, &compiled, &err) != SL_OK) {
        sl_graph_destroy(graph);
        return 0;
    }
    sl_graph_item item = {.struct_size = sizeof item};
    sl_type type = {0};
    for (uint32_t i = 0; sl_graph_item_at(graph, i, &item, NULL) == SL_OK; i++) {
        double values[MOST];
        uint8_t bytes[MOST * sizeof(double)];
        type.shape.rank = item.rank;
        memcpy(type.shape.dims, item.dims, item.rank * sizeof *item.dims);
        while (strcmp(sl_dtype_infos[type.dtype].name, item.dtype) != 0) type.dtype++;
        if (strcmp(item.kind, "input") != 0) break;
        for (int e = 0; e < MOST; e++) values[e] = sin(1.7 * e + i) * 2 + 0.25 * i;
        sl_encode_f64(type.dtype, values, sl_type_elements(&type), bytes);
        if (sl_compiled_set(compiled, item.name, bytes, sl_type_bytes(&type), &err) != SL_OK)
            fail_msg("%s", err.message);
        type.dtype = 0;
    }
    if (sl_compiled_run(compiled, &err) != SL_OK) fail_msg("%s", err.message);
    const size_t count = (size_t)sl_type_elements(&type);
    sl_decode_f64(type.dtype, sl_compiled_get(compiled, "y", NULL), (int64_t)count, out);
    sl_compiled_destroy(compiled);
    sl_graph_destroy(graph);
    return count;
}

/* Bounds relative to the largest element: one rounding to the type, and those of f32 sums. */
static const struct {
    const char *dtype;
    double bound;
} types[] = {{"f32", 1e-6}, {"f16", 0x1p-11}, {"bf16", 0x1p-8}, {"f64", 1e-14}};

static void check(const char *text, const char *where, double bound,
                  const sl_compile_options *how) {
    double wanted[MOST], found[MOST], off = 0, largest = 0;
    const sl_compile_options ref = {.struct_size = sizeof ref, .device = "ref"};
    const size_t count = run(text, &ref, wanted), same = run(text, how, found);
    if (same != count || !count) fail_msg("%s on %s: %s", text, where, err.message);
    for (size_t i = 0; i < count; i++) {
        off = fmax(off, fabs(found[i] - wanted[i]));
        largest = fmax(largest, fabs(wanted[i]));
    }
    if (!(off <= bound * largest)) fail_msg("%s on %s: off by %g", text, where, off / largest);
}

/* With T for the type of everything. */
static const char *const graphs[] = {
    "input %x : T[2,3,17] input %g : T[17] %1 = rms_norm(%x, %g) {eps = 1e-5, offset = 1}",
    "input %x : T[4,33] input %g : T[33] input %z : T[4,33] "
    "%1 = rms_norm_mul(%x, %g, %z) {eps = 1e-6}",
    "input %x : T[3,4,5] input %g : T[3,5] %1 = rms_norm_axes(%x, %g) {axes = [2, 0], eps = 1e-3}",
    "input %x : T[3,4,5] %1 = rms_norm_axes(%x) {axes = [1], eps = 1e-3}",
    "input %x : T[6,7] input %g : T[7] "
    "%1 = rms_norm_axes(%x, %g) {axes = [-1], eps = 1e-6, offset = 0.5}",
    "input %x : T[2,9] %1 = rms_norm_axes(%x) {axes = [0, 1], eps = 1e-6}",
};

static void check_all(const char *where, const sl_compile_options *how) {
    for (size_t g = 0; g < sizeof graphs / sizeof graphs[0]; g++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            char text[512];
            size_t used = (size_t)snprintf(text, sizeof text, "graph \"g\" {");
            for (const char *at = graphs[g]; *at; at++)
                used +=
                    (size_t)snprintf(text + used, sizeof text - used, at[0] == 'T' ? "%s" : "%.1s",
                                     at[0] == 'T' ? types[t].dtype : at);
            (void)snprintf(text + used, sizeof text - used, " output \"y\" = %%1}");
            check(text, where, types[t].bound, how);
        }
}

static void every_isa_agrees_with_the_evaluator(void **state) {
    (void)state;
    static const char *const isas[] = {"baseline", "avx2", "avx512", "neon"};
    double ignored[MOST];
    int tried = 0;
    for (size_t i = 0; i < 4; i++) {
        const sl_compile_options how = {.struct_size = sizeof how, .device = "cpu", .isa = isas[i]};
        const char *probe = "graph \"g\" {input %x : f32[2] %1 = abs(%x) output \"y\" = %1}";
        if (!run(probe, &how, ignored)) continue; /* not of this machine */
        check_all(isas[i], &how);
        tried++;
    }
    assert_true(tried > 0);
}

static void a_gpu_agrees_with_the_evaluator(void **state) {
    (void)state;
    const char *path = getenv("SLUICE_CUDA_EMULATOR");
    if (!path || !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
    const sl_compile_options how = {.struct_size = sizeof how, .device = "cuda"};
    check_all("cuda", &how);
}

static void mistakes_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"%x : f32[2,3] %1 = rms_norm_axes(%x) {axes = [0, 0]}", "axis 0 is given twice"},
        {"%x : f32[2,3] %1 = rms_norm_axes(%x) {axes = [2]}", "rms_norm_axes: axis is 2"},
        {"%x : f32[2,3] input %g : f32[3] %1 = rms_norm_axes(%x, %g) {axes = [0]}",
         "gain is f32[3], must be f32[2], the dims of x along the axes"},
        {"%x : f32[2,2] input %g : f32[2] %1 = rms_norm_axes(%x, %g, %g) {axes = [0]}",
         "the number of inputs is 3"},
        {"%x : f16[2,2] input %g : f32[2] %1 = rms_norm_axes(%x, %g) {axes = [0]}",
         "gain is f32[2], its elements must be f16 as those of x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        sl_graph *graph = NULL;
        (void)snprintf(text, sizeof text, "graph \"g\" {input %s}", rows[i][0]);
        assert_int_not_equal(sl_graph_read(text, strlen(text), &graph, &err), SL_OK);
        if (!strstr(err.message, rows[i][1])) fail_msg("row %zu: %s", i, err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_agrees_with_the_evaluator),
        cmocka_unit_test(a_gpu_agrees_with_the_evaluator),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
