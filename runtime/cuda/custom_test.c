/* custom_test.c - Custom ops that put their work into the stream of the emulated CUDA device. */
#include "sluice/experimental.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 6, BYTES = COUNT * 4 };
typedef int copy_fn(uint64_t to, uint64_t from, size_t bytes, void *stream);
static copy_fn *copy; /* cuMemcpyDtoDAsync */
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* swapped: the second half of x, then the first. */
typedef struct {
    int launches, kernels;
    void *stream;
    sl_status fails;
} counts;

static sl_status same_shape(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                            sl_error *why) {
    (void)ctx, (void)why;
    outputs[0] = call->inputs[0];
    return SL_OK;
}

static sl_status swap_on_host(void *ctx, const sl_custom_call *call, const void *const *inputs,
                              void *const *outputs, sl_error *why) {
    (void)call, (void)why;
    ((counts *)ctx)->kernels++;
    memcpy(outputs[0], (const char *)inputs[0] + BYTES / 2, BYTES / 2);
    memcpy((char *)outputs[0] + BYTES / 2, inputs[0], BYTES / 2);
    return SL_OK;
}

static sl_status swap_in_stream(void *ctx, const sl_custom_call *call, const void *const *inputs,
                                void *const *outputs, void *stream, sl_error *why) {
    (void)why;
    counts *c = ctx;
    if (c->fails != SL_OK) return c->fails;
    if (call->input_count != 1 || call->output_count != 1 || !stream) return SL_INVALID;
    const uint64_t from = (uint64_t)(uintptr_t)inputs[0], to = (uint64_t)(uintptr_t)outputs[0];
    c->launches++;
    c->stream = stream;
    return copy(to, from + BYTES / 2, BYTES / 2, stream) ||
                   copy(to + BYTES / 2, from, BYTES / 2, stream)
               ? SL_DEVICE
               : SL_OK;
}

/* Kernels before and after the custom op, in the program and in a loop. */
static const char program[] =
    "graph \"g\" { input %x : f32[6] %a = neg(%x) %b = custom(%a) {name = \"swapped\"}"
    " %c = add(%b, %x) output \"y\" = %c }";
static const char loop[] =
    "graph \"g\" { input %x : f32[6] %y = scan(%x) {carries = 1, length = 3, body = graph \"b\" {"
    " input %h : f32[6] %s = custom(%h) {name = \"swapped\"} %n = add(%s, %s)"
    " output \"h\" = %n }} output \"y\" = %y }";

/* Runs it twice and returns the status of the first call that failed. */
static sl_status run(const char *text, counts *c, const sl_custom_op *op, float result[COUNT]) {
    static const float x[COUNT] = {1, 2, 3, 40, 50, 60};
    const sl_compile_options options = {.struct_size = sizeof options, .device = "cuda"};
    sl_custom_ops *ops = NULL;
    sl_graph *graph = NULL;
    sl_compiled *compiled = NULL;
    sl_custom_op given = *op;
    given.ctx = c;
    must(sl_custom_ops_create(&ops, &err));
    must(sl_custom_ops_add(ops, &given, &err));
    must(sl_graph_read_using(text, strlen(text), ops, &graph, &err));
    sl_status status = sl_compile(graph, &options, &compiled, &err);
    if (status == SL_OK) status = sl_compiled_set(compiled, "x", x, sizeof x, &err);
    for (int i = 0; i < 2 && status == SL_OK; i++) status = sl_compiled_run(compiled, &err);
    if (status == SL_OK) memcpy(result, sl_compiled_get(compiled, "y", NULL), BYTES);
    sl_compiled_destroy(compiled);
    sl_graph_destroy(graph);
    sl_custom_ops_destroy(ops);
    return status;
}

static const sl_custom_op in_stream = {.struct_size = sizeof in_stream,
                                       .name = "swapped",
                                       .shape = same_shape,
                                       .cuda_launch = swap_in_stream};
static const sl_custom_op both = {.struct_size = sizeof both,
                                  .name = "swapped",
                                  .shape = same_shape,
                                  .kernel = swap_on_host,
                                  .cuda_launch = swap_in_stream};
static const sl_custom_op on_host = {
    .struct_size = sizeof on_host, .name = "swapped", .shape = same_shape, .kernel = swap_on_host};

static void check(const char *text, const float wanted[COUNT], int calls) {
    float result[COUNT];
    counts c = {0};
    must(run(text, &c, &in_stream, result));
    assert_memory_equal(result, wanted, BYTES);
    assert_int_equal(c.launches, 2 * calls);
    assert_non_null(c.stream);
    c = (counts){0};
    must(run(text, &c, &both, result));
    assert_memory_equal(result, wanted, BYTES);
    assert_true(c.launches == 2 * calls && c.kernels == 0);
    c = (counts){0};
    must(run(text, &c, &on_host, result));
    assert_memory_equal(result, wanted, BYTES);
    assert_true(c.launches == 0 && c.kernels == 2 * calls);
}

static void work_runs_in_order(void **state) {
    (void)state;
    static const float once[COUNT] = {-39, -48, -57, 39, 48, 57};
    static const float thrice[COUNT] = {320, 400, 480, 8, 16, 24};
    check(program, once, 1);
    check(loop, thrice, 3);
}

static void failures_are_told(void **state) {
    (void)state;
    float result[COUNT];
    counts c = {.fails = SL_IO};
    assert_int_equal(run(program, &c, &in_stream, result), SL_IO);
    assert_non_null(strstr(err.message, "the kernel of custom op 'swapped' failed"));
    const sl_custom_op nothing = {
        .struct_size = sizeof nothing, .name = "swapped", .shape = same_shape};
    assert_int_equal(run(program, &c, &nothing, result), SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no kernel for custom op 'swapped'"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_runs_in_order),
        cmocka_unit_test(failures_are_told),
    };
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    void *library = driver ? dlopen(driver, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (library) copy = (copy_fn *)dlsym(library, "cuMemcpyDtoDAsync_v2");
    if (!copy) {
        print_message("skipped: no emulated driver was built\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
