/* compile_test.c - Lowering, scheduling and planning, checked by code that trusts none of them. */
#include "compiler/build.h"
#include "compiler/compile.h"
#include "core/check.h"
#include "core/kv.h"
#include "runtime/null/null.h"
#include "tests/support/overlap.h"
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

static sl_program *compile_so(sl_graph *graph, sl_compiler_options options) {
    sl_program *program = NULL;
    options.no_fusion = options.no_simplify = true; /* what is built is what is lowered */
    if (sl_compile_graph(graph, &options, NULL, &program, &err) != SL_OK)
        fail_msg("%s", err.message);
    if (sl_check_program(program, NULL, &err) != SL_OK) fail_msg("%s", err.message);
    return program;
}

static sl_program *compile(sl_graph *graph) {
    return compile_so(graph, (sl_compiler_options){0});
}

static sl_value input(sl_graph *g, const char *name, int64_t rows, int64_t cols) {
    return sl_graph_declare(g, SL_VALUE_INPUT, name, sl_type_make(SL_DTYPE_f32, 2, rows, cols));
}

static sl_value add(sl_graph *g, sl_value a, sl_value b) {
    return sl_build_add(g, (sl_add_in){a, b}, (sl_add_attrs){0}).out;
}

static sl_value neg(sl_graph *g, sl_value x) {
    return sl_build_neg(g, (sl_neg_in){x}, (sl_neg_attrs){0}).out;
}

static sl_value slice(sl_graph *g, sl_value x, uint32_t axis, uint32_t start, uint32_t length) {
    return sl_build_slice(g, (sl_slice_in){x}, (sl_slice_attrs){axis, start, length, 0}).out;
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
    const sl_kv_shape cache = {SL_DTYPE_f32, 1, 1, 16, 8};
    const sl_value k_state = sl_graph_declare(g, SL_VALUE_STATE, "k", sl_kv_keys(cache));
    const sl_value v_state = sl_graph_declare(g, SL_VALUE_STATE, "v", sl_kv_values(cache));
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
        assert_true(program->steps[s].level >= request);
        assert_true(program->steps[s].level <= wait);
        assert_true(&program->steps[s] > step_labelled(program, "moe_group"));
        assert_true(&program->steps[s] < step_labelled(program, "moe_ffn"));
    }
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

static sl_graph *chain_graph(void) {
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 16, 16);
    sl_value v = sl_build_exp(g, (sl_exp_in){x}, (sl_exp_attrs){0}).out;
    sl_graph_output(g, "early", v);
    for (int i = 0; i < 20; i++) v = neg(g, v);
    sl_graph_output(g, "late", v);
    return g;
}

/* A long chain of equal buffers needs two at a time, one where results replace operands, and one
 * for each where nothing is shared; outputs are never shared. */
static void memory_is_shared_by_lifetime(void **state) {
    (void)state;
    const uint64_t each = 16 * 16 * 4;
    const struct {
        sl_compiler_options options;
        uint64_t arena_bytes;
        uint32_t in_place;
    } cases[] = {
        {{.no_in_place = true}, 3 * each, 0},
        {{0}, 2 * each, 19}, /* the first reads an output */
        {{.no_sharing = true}, 21 * each, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_graph *g = chain_graph();
        sl_program *program = compile_so(g, cases[i].options);
        assert_int_equal(program->report.unshared_bytes, 21 * each);
        assert_int_equal(program->arena_bytes, cases[i].arena_bytes);
        assert_int_equal(program->report.arena_bytes, cases[i].arena_bytes);
        assert_int_equal(program->report.in_place, cases[i].in_place);
        sl_program_destroy(program);
        sl_graph_destroy(g);
    }
}

/* Results without elements between steps: an arena of no bytes is a plan, too. */
static void empty_values_take_no_memory(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 0, 4);
    sl_graph_output(g, "o", neg(g, neg(g, neg(g, x))));
    sl_program *program = compile(g);
    assert_int_equal(program->step_count, 3);
    assert_int_equal(program->arena_bytes, 0);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

/* ---- views and accesses ---- */

static void contiguous_slices_are_views(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value x = neg(g, input(g, "x", 8, 16));
    const sl_value rows = slice(g, x, 0, 2, 4);      /* rows 2 to 5 */
    const sl_value one = slice(g, rows, 0, 1, 1);    /* row 3 */
    const sl_value part = slice(g, one, 1, 4, 8);    /* of one row: contiguous too */
    const sl_value column = slice(g, rows, 1, 4, 8); /* of four: not */
    const sl_value all = slice(g, column, 1, 0, 8);  /* everything: a view again */
    sl_graph_output(g, "part", part);
    sl_graph_output(g, "column", all);
    sl_program *program = compile(g);
    assert_int_equal(program->step_count, 2); /* neg and one slice */
    const sl_program_output *output = &program->outputs[0];
    assert_int_equal(output->operand.offset_bytes, (3 * 16 + 4) * 4);
    const sl_buffer *buffer = &program->buffers[output->operand.buffer.v];
    assert_int_equal(buffer->kind, SL_BUFFER_OUTPUT);
    assert_int_equal(buffer->bytes, 8 * 16 * 4);
    const sl_access *read = &step_labelled(program, "slice")->reads[0];
    assert_int_equal(read->begin, (2 * 16 + 4) * 4);
    assert_int_equal(read->bytes, 8 * 4);
    assert_int_equal(read->stride, 16 * 4);
    assert_int_equal(read->count, 4);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

/* A slice of a state is taken when it says, not when it is used. */
static void slices_of_states_are_copies(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value memory =
        sl_graph_declare(g, SL_VALUE_STATE, "window",
                         sl_type_make(SL_DTYPE_f32, 3, (int64_t)2, (int64_t)3, (int64_t)8));
    const sl_value ids =
        sl_graph_declare(g, SL_VALUE_INPUT, "ids", sl_type_make(SL_DTYPE_i32, 1, (int64_t)2));
    const sl_value taps = sl_graph_declare(g, SL_VALUE_WEIGHT, "w",
                                           sl_type_make(SL_DTYPE_f32, 2, (int64_t)8, (int64_t)4));
    const sl_value old = slice(g, memory, 0, 1, 1);
    const sl_causal_conv_out conv =
        sl_build_causal_conv(g, (sl_causal_conv_in){input(g, "x", 2, 8), taps, ids, ids, memory},
                             (sl_causal_conv_attrs){0});
    sl_graph_output(g, "old", neg(g, old));
    sl_graph_output(g, "new", conv.out);
    sl_program *program = compile(g);
    assert_true(step_labelled(program, "slice")->level <
                step_labelled(program, "causal_conv")->level);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

/* A view of a state shows what the state has become, so it may not outlive an update. */
static void stale_views_are_refused(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    const sl_value memory =
        sl_graph_declare(g, SL_VALUE_STATE, "window",
                         sl_type_make(SL_DTYPE_f32, 3, (int64_t)2, (int64_t)3, (int64_t)8));
    const sl_value ids =
        sl_graph_declare(g, SL_VALUE_INPUT, "ids", sl_type_make(SL_DTYPE_i32, 1, (int64_t)2));
    const sl_value taps = sl_graph_declare(g, SL_VALUE_WEIGHT, "w",
                                           sl_type_make(SL_DTYPE_f32, 2, (int64_t)8, (int64_t)4));
    const sl_value view =
        sl_build_reshape(g, (sl_reshape_in){memory}, (sl_reshape_attrs){.shape = {1, {-1}}}).out;
    sl_graph_output(g, "before", neg(g, view));
    (void)sl_build_causal_conv(g, (sl_causal_conv_in){input(g, "x", 2, 8), taps, ids, ids, memory},
                               (sl_causal_conv_attrs){0});
    sl_program_destroy(compile(g));
    sl_graph_output(g, "after", neg(g, view));
    sl_program *program = NULL;
    const sl_compiler_options as_it_is = {.no_simplify = true}; /* not one neg for both */
    assert_int_equal(sl_compile_graph(g, &as_it_is, NULL, &program, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "'window' that was updated since"));
    sl_graph_destroy(g);
}

/* Steps may not only be built from graphs: two halves of every row of one buffer. */
static void column_blocks_do_not_conflict(void **state) {
    (void)state;
    sl_buffer buffers[] = {{.kind = SL_BUFFER_TEMP, .bytes = 256}};
    sl_access left = {.bytes = 16, .stride = 32, .count = 8}, right = left;
    right.begin = 16;
    sl_step steps[] = {
        {.op = SL_OP_neg, .label = "write left", .write_count = 1, .writes = &left},
        {.op = SL_OP_neg, .label = "read right", .read_count = 1, .reads = &right},
        {.op = SL_OP_neg, .label = "read left", .read_count = 1, .reads = &left},
    };
    sl_program program = {.buffers = buffers, .buffer_count = 1, .steps = steps, .step_count = 3};
    assert_int_equal(sl_schedule(&program, NULL, &err), SL_OK);
    assert_int_equal(step_labelled(&program, "read right")->level, 0);
    assert_int_equal(step_labelled(&program, "read left")->level, 1);
}

/* ---- in place ---- */

static uint32_t in_place_of(sl_graph *g, const char *output, sl_value value) {
    sl_graph_output(g, output, value);
    sl_program *program = compile(g);
    const uint32_t count = program->report.in_place;
    sl_program_destroy(program);
    sl_graph_destroy(g);
    return count;
}

static void in_place_only_where_right(void **state) {
    (void)state;
    sl_graph *g = new_graph();
    sl_value x = neg(g, input(g, "x", 4, 8));
    assert_int_equal(in_place_of(g, "y", neg(g, x)), 1); /* into an output as well */

    g = new_graph();
    x = neg(g, input(g, "x", 4, 8));
    assert_int_equal(in_place_of(g, "y", add(g, x, x)), 1); /* twice the same elements */

    g = new_graph(); /* x is used again, in the same level or later */
    x = neg(g, input(g, "x", 4, 8));
    assert_int_equal(in_place_of(g, "y", add(g, neg(g, x), x)), 1); /* the sum takes neg x over */

    g = new_graph(); /* inputs and outputs are not ours to overwrite */
    x = input(g, "x", 4, 8);
    assert_int_equal(in_place_of(g, "y", neg(g, x)), 0);
    g = new_graph();
    x = neg(g, input(g, "x", 4, 8));
    sl_graph_output(g, "x2", x);
    assert_int_equal(in_place_of(g, "y", neg(g, x)), 0);

    g = new_graph(); /* a row and a column, spread over both axes */
    const sl_value row = neg(g, input(g, "row", 1, 8)), column = neg(g, input(g, "column", 4, 1));
    assert_int_equal(in_place_of(g, "y", add(g, row, column)), 0);

    g = new_graph(); /* a part of a larger buffer */
    x = neg(g, input(g, "x", 4, 8));
    assert_int_equal(in_place_of(g, "y", neg(g, slice(g, x, 0, 0, 2))), 0);

    g = new_graph(); /* the whole, and a part of it spread over the whole */
    x = neg(g, input(g, "x", 4, 8));
    assert_int_equal(in_place_of(g, "y", add(g, x, slice(g, x, 0, 3, 1))), 0);

    g = new_graph(); /* not pointwise */
    x = neg(g, input(g, "x", 4, 8));
    assert_int_equal(
        in_place_of(g, "y",
                    sl_build_softmax(g, (sl_softmax_in){x}, (sl_softmax_attrs){.axis = -1}).out),
        0);
}

static void alignment_is_kept_or_refused(void **state) {
    (void)state;
    for (uint64_t alignment = 64; alignment <= 2 << 20; alignment *= 2) {
        sl_graph *g = chain_graph();
        sl_program *program = compile_so(g, (sl_compiler_options){.arena_alignment = alignment});
        assert_int_equal(program->arena_alignment, alignment);
        for (uint32_t b = 0; b < program->buffer_count; b++)
            assert_int_equal(program->buffers[b].arena_offset % alignment, 0);
        sl_program_destroy(program);
        sl_graph_destroy(g);
    }
    const uint64_t wrong[] = {1, 32, 65, 96, 4 << 20};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sl_graph *g = chain_graph();
        sl_program *program = NULL;
        const sl_compiler_options options = {.arena_alignment = wrong[i]};
        assert_int_equal(sl_compile_graph(g, &options, NULL, &program, &err), SL_INVALID);
        assert_non_null(strstr(err.message, "alignment"));
        sl_graph_destroy(g);
    }
}

/* ---- models of scheduling ---- */

/* `width` chains side by side, of `length` steps each, written one after another. */
static sl_graph *branches_graph(int width, int length) {
    sl_graph *g = new_graph();
    const sl_value x = input(g, "x", 4, 8);
    for (int w = 0; w < width; w++) {
        sl_value v = x;
        for (int i = 0; i < length; i++) v = neg(g, v);
        char name[16];
        (void)snprintf(name, sizeof name, "y%d", w);
        sl_graph_output(g, name, v);
    }
    return g;
}

static void reordering_can_be_left_out(void **state) {
    (void)state;
    for (int model = SL_SCHEDULE_LEVELS; model <= SL_SCHEDULE_EDGES; model++) {
        sl_graph *g = branches_graph(3, 4);
        sl_program *program = compile_so(
            g, (sl_compiler_options){.no_reordering = true, .model = (sl_schedule_model)model});
        assert_int_equal(program->level_count, 12);
        assert_int_equal(program->report.moved, 0);
        assert_int_equal(program->report.histogram[1], 12);
        sl_program_destroy(program);
        sl_graph_destroy(g);
    }
}

static void groups_need_few_barriers(void **state) {
    (void)state;
    sl_graph *g = branches_graph(6, 5);
    sl_program *program = compile_so(g, (sl_compiler_options){.model = SL_SCHEDULE_GROUPS});
    assert_int_equal(program->report.barriers_naive, 29);
    assert_int_equal(program->report.barriers, 4);
    assert_int_equal(program->report.histogram[6], 5);
    assert_true(program->report.moved > 0);
    sl_program_destroy(program);
    sl_graph_destroy(g);
    g = branches_graph(6, 5); /* a chain and a half is in sight at a time */
    program = compile_so(g, (sl_compiler_options){.model = SL_SCHEDULE_GROUPS, .lookahead = 8});
    assert_in_range(program->report.barriers, 5, 28);
    sl_program_destroy(program);
    sl_graph_destroy(g);
    g = branches_graph(6, 5);
    program = compile_so(g, (sl_compiler_options){.model = SL_SCHEDULE_GROUPS, .lookahead = 1});
    assert_int_equal(program->report.barriers, 24); /* none between chains, which do not conflict */
    assert_int_equal(program->report.moved, 0);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

static void early_submits_end_with_a_group(void **state) {
    (void)state;
    const sl_compiler_options options = {.model = SL_SCHEDULE_GROUPS, .two_submits = true};
    sl_graph *g = branches_graph(3, 300);
    sl_program *program = compile_so(g, options);
    const uint32_t early = program->early_steps;
    assert_in_range(early, 90, 100);
    assert_true(program->steps[early].level > program->steps[early - 1].level);
    sl_program_destroy(program);
    sl_graph_destroy(g);
    g = branches_graph(3, 40);
    program = compile_so(g, options);
    assert_in_range(program->early_steps, 64, 70);
    sl_program_destroy(program);
    sl_graph_destroy(g);
    g = branches_graph(3, 20); /* too few for two */
    program = compile_so(g, options);
    assert_int_equal(program->early_steps, 0);
    sl_program_destroy(program);
    sl_graph_destroy(g);
}

static void edges_are_few_and_enough(void **state) {
    (void)state;
    sl_graph *g = branches_graph(4, 10);
    sl_program *program = compile_so(g, (sl_compiler_options){.model = SL_SCHEDULE_EDGES});
    assert_int_equal(program->report.edges, 4 * 9); /* nothing between the chains */
    assert_int_equal(program->edges.first[program->step_count], 4 * 9);
    assert_true(program->report.edges_naive > program->report.edges); /* chains are in place */
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
    assert_int_equal(sl_device_null_create(&(sl_device_options){0}, NULL, &device, &err), SL_OK);
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

/* ---- random programs ---- */

static sl_value random_value(sl_graph *g, const sl_value *values, uint32_t count,
                             uint32_t *random) {
    const sl_value a = values[next_random(random) % count], b = values[next_random(random) % count];
    const int64_t rows = sl_graph_value(g, a)->type.shape.dims[0];
    switch (next_random(random) % 8) {
    case 0:
        return sl_build_reshape(g, (sl_reshape_in){a}, (sl_reshape_attrs){.shape = {2, {-1, 16}}})
            .out;
    case 1:
        return sl_build_softmax(g, (sl_softmax_in){a}, (sl_softmax_attrs){.axis = -1}).out;
    case 2: { /* two halves of each row, joined the other way round */
        const sl_value left = slice(g, a, 1, 0, 8), right = slice(g, a, 1, 8, 8);
        return sl_build_join(g, right, left, 1);
    }
    case 3: /* one row, spread */
        return add(g, a, slice(g, b, 0, next_random(random) % (uint32_t)rows, 1));
    case 4:
        return neg(g, a);
    default:
        return add(g, a, b);
    }
}

static sl_graph *random_graph(uint32_t seed) {
    enum { VALUES = 64 };
    uint32_t random = seed;
    sl_graph *g = new_graph();
    sl_value values[VALUES] = {input(g, "x", 1 + next_random(&random) % 9, 16)};
    for (uint32_t i = 1; i < VALUES; i++) {
        const uint32_t near = next_random(&random) % 2 && i > 6 ? 6 : i;
        values[i] = random_value(g, values + i - near, near, &random);
    }
    for (int o = 0; o < 3; o++) {
        char name[16];
        (void)snprintf(name, sizeof name, "y%d", o);
        sl_graph_output(g, name, values[VALUES - 1 - next_random(&random) % 32]);
    }
    return g;
}

static sl_access placed(const sl_program *p, const sl_access *access) {
    sl_access at = *access;
    const sl_buffer *buffer = &p->buffers[access->buffer.v];
    if (buffer->kind != SL_BUFFER_TEMP && buffer->kind != SL_BUFFER_OUTPUT) {
        at.buffer.v++;
        return at;
    }
    at.buffer.v = 0; /* the arena */
    at.begin += buffer->arena_offset;
    return at;
}

static bool collide(const sl_program *p, const sl_access *a, uint32_t a_count, const sl_access *b,
                    uint32_t b_count) {
    for (uint32_t i = 0; i < a_count; i++)
        for (uint32_t j = 0; j < b_count; j++) {
            const sl_access x = placed(p, &a[i]), y = placed(p, &b[j]);
            if (x.buffer.v == y.buffer.v && sl_access_overlap(&x, &y)) return true;
        }
    return false;
}

/* Counts pairs that conflict; those of one level must be ordered by a path of edges. */
static uint32_t check_pairs(const sl_program *p) {
    static bool path[256][256];
    memset(path, 0, sizeof path);
    assert_in_range(p->step_count, 0, 256);
    uint32_t pairs = 0;
    for (uint32_t s = p->step_count; p->model == SL_SCHEDULE_EDGES && s-- > 0;)
        for (uint32_t e = p->edges.first[s]; e < p->edges.first[s + 1]; e++) {
            path[s][p->edges.targets[e]] = true;
            for (uint32_t t = 0; t < p->step_count; t++) path[s][t] |= path[p->edges.targets[e]][t];
        }
    for (uint32_t b = 0; b < p->step_count; b++)
        for (uint32_t a = 0; a < b; a++) {
            const sl_step *x = &p->steps[a], *y = &p->steps[b];
            if (!collide(p, x->writes, x->write_count, y->reads, y->read_count) &&
                !collide(p, x->reads, x->read_count, y->writes, y->write_count) &&
                !collide(p, x->writes, x->write_count, y->writes, y->write_count))
                continue;
            pairs++;
            assert_true(p->model == SL_SCHEDULE_EDGES ? path[a][b] : x->level < y->level);
        }
    return pairs;
}

/* The parts of a program that planning decides, as one number. */
static uint64_t plan_digest(const sl_program *p) {
    uint64_t digest = p->arena_bytes;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        digest = digest * 31 + p->buffers[b].arena_offset + p->buffers[b].last_level;
    return digest * 31 + p->report.in_place + p->report.edges;
}

static void check_program(sl_program *p, const sl_compiler_options *options) {
    const uint32_t pairs = check_pairs(p);
    if (p->model == SL_SCHEDULE_EDGES) assert_int_equal(p->report.edges_naive, pairs);
    assert_true(p->report.live_bytes <= p->arena_bytes);
    assert_true(p->arena_bytes <= p->report.unshared_bytes);
    const uint64_t before = plan_digest(p);
    assert_int_equal(sl_plan(p, options, &err), SL_OK);
    assert_int_equal(plan_digest(p), before);
}

/* Random graphs of many shapes of sharing: every program passes the null device's proof. */
static void random_programs_are_right(void **state) {
    (void)state;
    const sl_compiler_options hows[] = {
        {0},
        {.no_in_place = true},
        {.no_reordering = true},
        {.no_sharing = true},
        {.model = SL_SCHEDULE_GROUPS, .lookahead = 5},
        {.model = SL_SCHEDULE_GROUPS, .two_submits = true, .arena_alignment = 256},
        {.model = SL_SCHEDULE_EDGES},
        {.model = SL_SCHEDULE_EDGES, .no_reordering = true},
    };
    sl_device *device = NULL;
    assert_int_equal(sl_device_null_create(&(sl_device_options){0}, NULL, &device, &err), SL_OK);
    for (uint32_t seed = 0; seed < 240; seed++) {
        const sl_compiler_options *options = &hows[seed % (sizeof hows / sizeof hows[0])];
        sl_graph *g = random_graph(seed);
        sl_program *program = compile_so(g, *options);
        check_program(program, options);
        sl_executable *exe = NULL;
        if (device->ops->load(device, program, &exe, &err) != SL_OK)
            fail_msg("seed %u: %s", seed, err.message);
        device->ops->unload(exe);
        sl_program_destroy(program);
        sl_graph_destroy(g);
    }
    device->ops->destroy(device);
}

/* Compiling fuses its graph; a copy keeps the original as it was. */
static void copies_are_equal_and_apart(void **state) {
    (void)state;
    sl_graph *g = moe_graph(), *copy = NULL;
    const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const sl_value c =
        sl_graph_constant(g, "c", sl_type_make(SL_DTYPE_f32, 1, (int64_t)8), numbers);
    sl_graph_output(g, "z", neg(g, c));
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    char *text = NULL, *copied = NULL, *after = NULL;
    assert_int_equal(sl_graph_print(g, &arena, &text, &err), SL_OK);
    assert_int_equal(sl_graph_copy(g, NULL, &copy, &err), SL_OK);
    assert_int_equal(sl_graph_verify(copy, &err), SL_OK);
    assert_int_equal(sl_graph_print(copy, &arena, &copied, &err), SL_OK);
    assert_string_equal(copied, text);
    sl_program *program = NULL;
    assert_int_equal(sl_compile_graph(copy, NULL, NULL, &program, &err), SL_OK);
    sl_program_destroy(program);
    (void)neg(copy, c);
    sl_graph_destroy(copy);
    assert_int_equal(sl_graph_print(g, &arena, &after, &err), SL_OK);
    assert_string_equal(after, text);
    sl_arena_deinit(&arena);
    sl_graph_destroy(g);
}

typedef struct {
    int left; /* allocations that succeed */
} failing;

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    failing *f = ctx;
    if (new_bytes && f->left-- <= 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    for (int model = SL_SCHEDULE_LEVELS; model <= SL_SCHEDULE_EDGES; model++) {
        const sl_compiler_options options = {.no_fusion = true, .model = (sl_schedule_model)model};
        sl_graph *g = branches_graph(8, 40);
        sl_status status = SL_NO_MEMORY;
        for (int allowed = 0; status != SL_OK; allowed++) {
            failing f = {allowed};
            const sl_allocator allocator = {failing_resize, &f};
            sl_program *program = NULL;
            status = sl_compile_graph(g, &options, &allocator, &program, &err);
            assert_true(status == SL_OK ? allowed > 3 : status == SL_NO_MEMORY);
            sl_program_destroy(program);
        }
        sl_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_nodes_and_views_are_no_steps),
        cmocka_unit_test(independent_steps_share_a_level),
        cmocka_unit_test(state_updates_are_ordered),
        cmocka_unit_test(other_work_runs_while_experts_are_read),
        cmocka_unit_test(null_device_accepts_only_right_programs),
        cmocka_unit_test(memory_is_shared_by_lifetime),
        cmocka_unit_test(empty_values_take_no_memory),
        cmocka_unit_test(contiguous_slices_are_views),
        cmocka_unit_test(slices_of_states_are_copies),
        cmocka_unit_test(stale_views_are_refused),
        cmocka_unit_test(column_blocks_do_not_conflict),
        cmocka_unit_test(in_place_only_where_right),
        cmocka_unit_test(alignment_is_kept_or_refused),
        cmocka_unit_test(reordering_can_be_left_out),
        cmocka_unit_test(groups_need_few_barriers),
        cmocka_unit_test(early_submits_end_with_a_group),
        cmocka_unit_test(edges_are_few_and_enough),
        cmocka_unit_test(random_programs_are_right),
        cmocka_unit_test(copies_are_equal_and_apart),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
