/* compile_test.c - Lowering, scheduling and planning, checked by code that trusts none of them. */
#include "compiler/build.h"
#include "compiler/compile.h"
#include "runtime/null/null.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static sl_error err;

static sl_graph *new_graph(void) {
    sl_graph *graph = NULL;
    if (sl_graph_create("test", NULL, &graph, &err) != SL_OK) fail_msg("%s", err.message);
    return graph;
}

static sl_program *compile(sl_graph *graph) {
    sl_program *program = NULL;
    if (sl_compile_graph(graph, NULL, &program, &err) != SL_OK) fail_msg("%s", err.message);
    return program;
}

static sl_value input(sl_graph *g, const char *name, int64_t rows, int64_t cols) {
    return sl_graph_declare(g, SL_VALUE_INPUT, name, sl_type_make(SL_DTYPE_f32, 2, rows, cols));
}

static sl_value add(sl_graph *g, sl_value a, sl_value b) {
    return sl_build_add(g, (sl_add_in){a, b}, (sl_add_attrs){0}).out;
}

static const sl_step *step_labelled(const sl_program *program, const char *label) {
    for (uint32_t s = 0; s < program->step_count; s++)
        if (strcmp(program->steps[s].label, label) == 0) return &program->steps[s];
    fail_msg("no step '%s'", label);
    return NULL;
}

static void dead_nodes_and_views_are_no_steps(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 4, 8);
    (void)add(g, x, x); /* unused */
    const sl_value flat =
        sl_build_reshape(g, (sl_reshape_in){x}, (sl_reshape_attrs){.shape = {1, {-1}}}).out;
    sl_graph_output(g, "y", sl_build_neg(g, (sl_neg_in){flat}, (sl_neg_attrs){0}).out);
    sl_program *program = compile(g);
    assert_int_equal(program->step_count, 1);
    assert_string_equal(program->steps[0].label, "neg");
    assert_int_equal(program->steps[0].operands[0].type.shape.rank, 1);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

static void independent_steps_share_a_level(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 4, 8);
    const sl_value a = sl_build_exp(g, (sl_exp_in){x}, (sl_exp_attrs){0}).out;
    const sl_value b = sl_build_neg(g, (sl_neg_in){x}, (sl_neg_attrs){0}).out;
    sl_graph_output(g, "y", add(g, a, b));
    sl_program *program = compile(g);
    assert_int_equal(program->level_count, 2);
    assert_int_equal(step_labelled(program, "exp")->level, step_labelled(program, "neg")->level);
    assert_int_equal(step_labelled(program, "add")->level, 1);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

/* Reads of a state before and after its update stay on their sides of it. */
static void state_updates_are_ordered(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_type cache =
        sl_type_make(SL_DTYPE_f32, 4, (int64_t)1, (int64_t)16, (int64_t)1, (int64_t)8);
    const sl_value k_state = sl_graph_declare(g, SL_VALUE_STATE, "k", cache);
    const sl_value v_state = sl_graph_declare(g, SL_VALUE_STATE, "v", cache);
    const sl_value ids =
        sl_graph_declare(g, SL_VALUE_INPUT, "ids", sl_type_make(SL_DTYPE_i32, 1, (int64_t)2));
    const sl_value rows =
        sl_graph_declare(g, SL_VALUE_INPUT, "rows",
                         sl_type_make(SL_DTYPE_f32, 3, (int64_t)2, (int64_t)1, (int64_t)8));
    sl_graph_scope(g, "before");
    const sl_value old = sl_build_sdpa(g, (sl_sdpa_in){rows, k_state, v_state, ids, ids},
                                       (sl_sdpa_attrs){.scale = 1})
                             .out;
    sl_graph_scope(g, "%s", "");
    const sl_kv_append_out next = sl_build_kv_append(
        g, (sl_kv_append_in){rows, rows, ids, ids, k_state, v_state}, (sl_kv_append_attrs){0});
    sl_graph_scope(g, "after");
    const sl_value fresh =
        sl_build_sdpa(g, (sl_sdpa_in){rows, next.cache_k, next.cache_v, ids, ids},
                      (sl_sdpa_attrs){.scale = 1})
            .out;
    sl_graph_output(g, "old", old);
    sl_graph_output(g, "fresh", fresh);
    sl_program *program = compile(g);
    const uint32_t update = step_labelled(program, "kv_append")->level;
    assert_true(step_labelled(program, "before sdpa")->level < update);
    assert_true(step_labelled(program, "after sdpa")->level > update);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

/* x -> router -> request, then experts; a side branch like the shared expert needs x alone. */
static sl_graph *moe_graph(void) {
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 2, 8);
    const sl_value experts =
        sl_graph_declare(g, SL_VALUE_EXPERTS, "e",
                         sl_type_make(SL_DTYPE_f32, 3, (int64_t)4, (int64_t)16, (int64_t)8));
    const sl_value w = sl_graph_declare(g, SL_VALUE_WEIGHT, "w",
                                        sl_type_make(SL_DTYPE_f32, 2, (int64_t)4, (int64_t)8));
    sl_graph_scope(g, "side");
    sl_value side = x;
    for (int i = 0; i < 4; i++) side = sl_build_silu(g, (sl_silu_in){side}, (sl_silu_attrs){0}).out;
    sl_graph_scope(g, "%s", "");
    const sl_value logits = sl_build_linear(g, (sl_linear_in){x, w}, (sl_linear_attrs){0}).out;
    const sl_route_out route =
        sl_build_route(g, (sl_route_in){logits}, (sl_route_attrs){.k = 2, .normalise = 1});
    const sl_moe_group_out group =
        sl_build_moe_group(g, (sl_moe_group_in){route.experts, experts}, (sl_moe_group_attrs){0});
    const sl_value y = sl_build_moe_ffn(g, (sl_moe_ffn_in){x, group.order, group.starts, experts},
                                        (sl_moe_ffn_attrs){.k = 2})
                           .out;
    const sl_value routed =
        sl_build_moe_combine(g, (sl_moe_combine_in){y, route.weights}, (sl_moe_combine_attrs){0})
            .out;
    sl_graph_output(g, "y", add(g, routed, side));
    return g;
}

static void other_work_runs_while_experts_are_read(void **state) {
    (void)state;
    sl_graph *g = moe_graph();
    sl_program *program = compile(g);
    const uint32_t request = step_labelled(program, "moe_group")->level;
    const uint32_t wait = step_labelled(program, "moe_ffn")->level;
    assert_int_equal(request, 2);
    for (uint32_t s = 0; s < program->step_count; s++) {
        if (strcmp(program->steps[s].label, "side silu") != 0) continue;
        assert_true(program->steps[s].level > request);
        assert_true(program->steps[s].level < wait);
    }
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

static sl_graph *chain_graph(void) {
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 16, 16);
    sl_value v = sl_build_exp(g, (sl_exp_in){x}, (sl_exp_attrs){0}).out;
    sl_graph_output(g, "early", v);
    for (int i = 0; i < 20; i++) v = sl_build_neg(g, (sl_neg_in){v}, (sl_neg_attrs){0}).out;
    sl_graph_output(g, "late", v);
    return g;
}

/* A long chain of equal buffers needs only two at a time; outputs are never shared. */
static void memory_is_shared_by_lifetime(void **state) {
    (void)state;
    sl_graph *g = chain_graph();
    sl_program *program = compile(g);
    assert_int_equal(program->unshared_bytes, 21 * 16 * 16 * 4);
    assert_int_equal(program->arena_bytes, 3 * 16 * 16 * 4); /* early, and two in the chain */
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

/* The null device re-derives conflicts from final addresses; mutations of the result must fail. */
static void null_device_accepts_only_right_programs(void **state) {
    (void)state;
    sl_graph *g = chain_graph();
    sl_program *program = compile(g);
    sl_device *device = NULL;
    sl_executable *exe = NULL;
    assert_int_equal(sl_device_null_create(NULL, &device, &err), SL_OK);
    assert_int_equal(device->ops->load(device, program, &exe, &err), SL_OK);
    device->ops->unload(exe);
    for (uint32_t s = 1; s < program->step_count; s++) { /* merge each level into the one before */
        const uint32_t level = program->steps[s].level;
        if (level == program->steps[s - 1].level) continue;
        program->steps[s].level = program->steps[s - 1].level;
        assert_int_equal(device->ops->load(device, program, &exe, &err), SL_INVALID);
        program->steps[s].level = level;
    }
    for (uint32_t b = 0; b < program->buffer_count; b++) { /* move each buffer out of the arena */
        if (program->buffers[b].kind != SL_BUFFER_TEMP) continue;
        const uint64_t offset = program->buffers[b].arena_offset;
        program->buffers[b].arena_offset = program->arena_bytes;
        assert_int_equal(device->ops->load(device, program, &exe, &err), SL_INVALID);
        program->buffers[b].arena_offset = offset;
    }
    device->ops->destroy(device);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Random graphs of many shapes of sharing: every program passes the null device's proof. */
static void random_programs_are_right(void **state) {
    (void)state;
    sl_device *device = NULL;
    assert_int_equal(sl_device_null_create(NULL, &device, &err), SL_OK);
    for (uint32_t seed = 1; seed <= 200; seed++) {
        uint32_t random = seed;
        sl_graph *g = new_graph();
        sl_value values[64] = {input(g, "x", 1 + next_random(&random) % 9, 16)};
        for (uint32_t i = 1; i < 64; i++) {
            const sl_value a = values[next_random(&random) % i];
            const sl_value b = values[next_random(&random) % i];
            values[i] = next_random(&random) % 3
                            ? add(g, a, b)
                            : sl_build_reshape(g, (sl_reshape_in){a},
                                               (sl_reshape_attrs){.shape = {2, {-1, 16}}})
                                  .out;
        }
        for (int o = 0; o < 3; o++) {
            char name[16];
            (void)snprintf(name, sizeof name, "y%d", o);
            sl_graph_output(g, name, values[next_random(&random) % 64]);
        }
        sl_program *program = compile(g);
        sl_executable *exe = NULL;
        if (device->ops->load(device, program, &exe, &err) != SL_OK)
            fail_msg("seed %u: %s", seed, err.message);
        device->ops->unload(exe);
        sl_program_destroy(program);
        sl_graph_destroy(g);
    }
    device->ops->destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_nodes_and_views_are_no_steps),
        cmocka_unit_test(independent_steps_share_a_level),
        cmocka_unit_test(state_updates_are_ordered),
        cmocka_unit_test(other_work_runs_while_experts_are_read),
        cmocka_unit_test(null_device_accepts_only_right_programs),
        cmocka_unit_test(memory_is_shared_by_lifetime),
        cmocka_unit_test(random_programs_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
