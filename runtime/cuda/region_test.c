/* region_test.c - Elementwise regions on the CUDA device have the bits of their steps, each
 * launched alone. */
#include "compiler/compile.h"
#include "tests/support/bound_program.h"
#include "tests/support/cuda_device.h"
#include <stdio.h>

#define GRAPH(BODY)                                                                                \
    "graph \"g\" { input %x : f32[6,40] input %y : f32[6,40] input %z : f32[6,40] "                \
    "input %row : f32[40] input %col : f32[6,1] input %i : i32[6,40] input %h : f16[6,40] " BODY   \
    " output \"o\" = %o }"

static const struct {
    const char *text;
    uint32_t steps; /* of the fused program */
} rows[] = {
    /* floats of one shape */
    {GRAPH("%1 = mul(%x, %y) %2 = add(%1, %z) %3 = gelu(%2) %4 = sub(%3, %x) %o = exp(%4)"), 1},
    {GRAPH("%1 = sigmoid(%x) %2 = rsqrt(%1) %3 = swiglu(%2, %y) %o = maximum(%3, %1)"), 1},
    /* operands that broadcast */
    {GRAPH("%1 = mul(%x, %row) %2 = add(%1, %col) %o = silu(%2)"), 1},
    {GRAPH("%1 = add(%col, %x) %2 = tanh(%1) %3 = mul(%2, %row) %o = sub(%3, %y)"), 1},
    /* other ops, and other types */
    {GRAPH("%1 = sin(%x) %2 = erf(%1) %3 = mul(%2, %y) %o = softplus(%3)"), 1},
    {GRAPH("%1 = less(%x, %y) %2 = mul(%x, %z) %o = where(%1, %2, %y)"), 1},
    {GRAPH("%1 = cast(%x) {to = f16} %2 = mul(%1, %h) %3 = cast(%2) {to = f32} %o = add(%3, %y)"),
     1},
    {GRAPH("%1 = mul(%i, %i) %2 = add(%1, %i) %3 = cast(%2) {to = f32} %o = clamp(%3, %x, %y)"), 1},
    /* what the kernels do not have stays out */
    {GRAPH("%1 = neg(%x) %2 = bitcast(%1) {to = i32} %3 = add(%2, %i) %o = abs(%3)"), 3},
};

static uint64_t run(const char *text, bool fused, uint32_t *steps) {
    const sl_compiler_options options = {.model = SL_SCHEDULE_EDGES,
                                         .no_simplify = true,
                                         .no_fusion = !fused,
                                         .target = &sl_target_cuda};
    sl_error err = {0};
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    bound_program bound;
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err) ||
        sl_compile_graph(graph, &options, NULL, &program, &err))
        fail_msg("%s", err.message);
    bound_program_init(&bound, program, cuda_device(), NULL);
    const uint64_t digest = bound_program_run(&bound, NULL);
    *steps = program->step_count;
    bound_program_deinit(&bound);
    sl_program_destroy(program);
    sl_graph_destroy(graph);
    return digest;
}

static void regions_have_the_bits_of_their_steps(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t apart, fused;
        const uint64_t wanted = run(rows[i].text, false, &apart);
        const uint64_t found = run(rows[i].text, true, &fused);
        if (fused != rows[i].steps) fail_msg("row %zu: %u steps of %u", i, fused, apart);
        if (found != wanted) fail_msg("row %zu: other bits than its steps", i);
    }
}

/* More steps than a kernel takes become several regions. */
static void long_chains_are_cut(void **state) {
    (void)state;
    char text[2000] = "graph \"g\" { input %x : f32[7] %1 = tanh(%x) ";
    for (int i = 1; i < 40; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%%%d = tanh(%%%d) ", i + 1,
                       i);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "output \"o\" = %%40 }");
    uint32_t apart, fused;
    assert_true(run(text, false, &apart) == run(text, true, &fused));
    assert_int_equal(apart, 40);
    assert_int_equal(fused, 3);
}

int main(void) {
    if (!getenv("SLUICE_CUDA_EMULATOR") && !getenv("SLUICE_CUDA")) {
        printf("skipped: no emulated driver was built\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_have_the_bits_of_their_steps),
        cmocka_unit_test(long_chains_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
