/* graph_test.c - Graphs by way of the public functions. */
#include "compiler/graph.h"
#include "sluice/experimental.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void graphs_are_built_and_read_back(void **state) {
    (void)state;
    sl_graph *g = NULL;
    sl_error err = {0};
    char *text = NULL;
    assert_int_equal(sl_graph_create("api", NULL, &g, &err), SL_OK);
    sl_value in[2] = {sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4}),
                      sl_graph_add_weight(g, "gain", "f32", 1, (int64_t[]){4})};
    sl_graph_add_state(g, "s", "f16", 1, (int64_t[]){3});
    sl_graph_add_constant(g, "c", "i32", 0, NULL, &(int32_t){-7});
    sl_graph_set_scope(g, "first");
    sl_graph_set_label(g, "q_norm");
    const sl_value out = sl_graph_apply(g, "rms_norm", in, 2, "eps=1e-6");
    sl_graph_add_output(g, "y", out);
    assert_int_equal(sl_graph_text(g, &text, &err), SL_OK);
    assert_string_equal(text, "graph \"api\" {\n  input %x : f32[2,4]\n  weight %gain : f32[4]\n"
                              "  state %s : f16[3]\n  constant %c : i32[] = {-7}\n"
                              "  scope \"first\"\n  label \"q_norm\"\n"
                              "  %5 = rms_norm(%x, %gain) {eps = 1e-06, offset = 0} : f32[2,4]\n"
                              "  output \"y\" = %5\n}\n");
    sl_graph *again = NULL;
    assert_int_equal(sl_graph_read(text, strlen(text), &again, &err), SL_OK);
    char *same = NULL;
    assert_int_equal(sl_graph_text(again, &same, &err), SL_OK);
    assert_string_equal(same, text);
    sl_graph_destroy(again);
    sl_free(same);
    sl_free(text);
    const char *const kinds[] = {"input", "weight", "state", "constant", "output"};
    sl_graph_item item = {.struct_size = sizeof item};
    assert_int_equal(sl_graph_item_count(g), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(sl_graph_item_at(g, i, &item, &err), SL_OK);
        assert_string_equal(item.kind, kinds[i]);
    }
    assert_true(strcmp(item.name, "y") == 0 && item.rank == 2 && item.dims[1] == 4);
    assert_int_equal(sl_graph_item_at(g, 5, &item, &err), SL_INVALID);
    sl_op_row row = {.struct_size = sizeof row};
    assert_int_equal(sl_op_count(), SL_OP_COUNT);
    assert_int_equal(sl_op_at(SL_OP_swiglu, &row, &err), SL_OK);
    assert_string_equal(row.name, "swiglu");
    assert_int_equal(sl_op_at(SL_OP_COUNT, &row, &err), SL_INVALID);
    sl_graph_destroy(g);
}

static void mistakes_are_reported(void **state) {
    (void)state;
    static const struct {
        const char *op, *attrs, *message;
        uint32_t count;
    } cases[] = {
        {"soft", NULL, "unknown op 'soft'", 1},
        {"softmax", NULL, "softmax takes 1 inputs (x), found 2", 2},
        {"attention", NULL, "attention takes 3 inputs or more (q, k, v, extra..), found 2", 2},
        {"softmax", "width=1",
         "attributes of softmax: line 1, column 1: softmax has no attribute 'width'", 1},
        {"reduce_sum", NULL,
         "attributes of reduce_sum: line 1, column 1: reduce_sum: attribute 'axes' is missing", 1},
        {"cast", NULL, "attributes of cast: line 1, column 1: cast: attribute 'to' is missing", 1},
        {"topk", "k=1", "topk has 2 results, room for 1", 1},
        {"softmax", "axis=2", "softmax: axis is 2, must be -2 to 1", 1},
        {"linear", NULL,
         "linear: w is f64[2,4], must be weight[N,K] (f32, f16, bf16 or a panel type)", 2},
        {"reduce_sum", "axes=[1] keep=1",
         "attributes of reduce_sum: line 1, column 10: expected ',', found 'k'", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_graph *g = NULL;
        sl_error err = {0};
        assert_int_equal(sl_graph_create("api", NULL, &g, &err), SL_OK);
        const sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4});
        const sl_value wide = sl_graph_add_weight(g, "w", "f64", 2, (int64_t[]){2, 4});
        const sl_value y =
            sl_graph_apply(g, cases[i].op, (sl_value[]){x, wide}, cases[i].count, cases[i].attrs);
        assert_int_equal(y.v, 0);
        assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
        assert_string_equal(err.message, cases[i].message);
        sl_graph_destroy(g);
    }
    sl_graph *g = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("api", NULL, &g, &err), SL_OK);
    assert_int_equal(sl_graph_add_input(g, "x", "f65", 0, NULL).v, 0);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_string_equal(err.message, "x: unknown element type 'f65'");
    sl_graph_destroy(g);
}

/* y = x + x of two numbers. */
static sl_graph *doubling(void) {
    sl_graph *g = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("double", NULL, &g, &err), SL_OK);
    const sl_value x = sl_graph_add_input(g, "x", "f32", 1, (int64_t[]){2});
    sl_graph_add_output(g, "y", sl_graph_apply(g, "add", (sl_value[]){x, x}, 2, NULL));
    return g;
}

static void ops_with_several_results(void **state) {
    (void)state;
    sl_graph *g = doubling();
    sl_error err = {0};
    sl_value in[16] = {{0}}, out[8] = {{7}, {7}};
    assert_int_equal(sl_graph_apply(g, "gaussian_splat_backward", in, 16, NULL).v, 0);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "attribute 'width' is missing"));
    sl_graph_destroy(g);
    g = doubling();
    const sl_node_spec few = {
        sizeof few, "gaussian_splat_backward", "width=2, height=2", in, 8, out, 1, NULL, 0};
    sl_graph_add_node(g, &few);
    assert_int_equal(out[0].v, 0);
    assert_int_equal(out[1].v, 7);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    sl_graph_destroy(g);
}

/* The text of a node's attributes. */
static void assert_attrs(const sl_graph *g, uint32_t index, const char *wanted) {
    char *text = NULL;
    sl_error err = {0};
    if (sl_graph_node_attrs(g, index, &text, &err)) fail_msg("%s", err.message);
    assert_string_equal(text, wanted);
    sl_free(text);
}

static void results_go_to_an_array_with_room(void **state) {
    (void)state;
    sl_graph *g = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("room", NULL, &g, &err), SL_OK);
    const sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 6});
    sl_value out[4] = {{9}, {9}, {9}, {9}};
    sl_node_spec node = {.struct_size = sizeof node,
                         .op = "topk",
                         .attrs = "k=2",
                         .inputs = &x,
                         .input_count = 1,
                         .outputs = out,
                         .output_count = 3};
    assert_int_equal(sl_graph_add_node(g, &node), 2);
    assert_true(out[0].v && out[1].v && !out[2].v && out[3].v == 9);
    node.op = "split";
    node.attrs = "axis=-1, sizes=[1, 2, 3]";
    assert_int_equal(sl_graph_add_node(g, &node), 3);
    const sl_value joined = sl_graph_apply(g, "concat", out, 3, "axis=1");
    sl_tensor_type type;
    assert_int_equal(sl_value_type(g, joined, &type, &err), SL_OK);
    assert_string_equal(type.dtype, "f32");
    assert_true(type.rank == 2 && type.dims[0] == 2 && type.dims[1] == 6);
    assert_int_equal(sl_value_type(g, (sl_value){999}, &type, &err), SL_INVALID);
    node.output_count = 2;
    assert_int_equal(sl_graph_add_node(g, &node), 0);
    assert_true(!out[0].v && !out[1].v && out[2].v);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_string_equal(err.message, "split has 3 results, room for 2");
    sl_graph_destroy(g);
}

static void attributes_have_defaults_and_words(void **state) {
    (void)state;
    sl_graph *g = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("defaults", NULL, &g, &err), SL_OK);
    const sl_value x = sl_graph_add_input(g, "x", "f32", 4, (int64_t[]){1, 2, 4, 4});
    const sl_value w = sl_graph_add_input(g, "w", "f32", 4, (int64_t[]){3, 2, 3, 3});
    const sl_value qkv[] = {x, x, x};
    const sl_value soft = sl_graph_apply(g, "softmax", &x, 1, NULL);
    (void)sl_graph_apply(g, "conv", (sl_value[]){x, w}, 2, "pads_before=[1,1]");
    sl_graph_set_scope(g, "layer 0");
    sl_graph_set_label(g, "mix");
    (void)sl_graph_apply(g, "attention", qkv, 3, "mask=causal");
    (void)sl_graph_apply(g, "reduce_max", &x, 1, "axes=[-1], keep=true");
    (void)sl_graph_apply(g, "reduce_max", &x, 1, "axes=[-1], keep=1");
    if (sl_graph_check(g, &err)) fail_msg("%s", err.message);
    assert_attrs(g, 0, "{axis = -1}");
    assert_attrs(
        g, 1, "{strides = [], pads_before = [1, 1], pads_after = [], dilations = [], groups = 1}");
    assert_attrs(g, 2, "{mask = causal, window = 0, scale = 0, softcap = 0, sinks = false}");
    assert_attrs(g, 3, "{axes = [-1], keep = true}");
    assert_attrs(g, 4, "{axes = [-1], keep = true}");
    sl_node_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_graph_node_count(g), 5);
    assert_int_equal(sl_graph_node_at(g, 2, &info, &err), SL_OK);
    assert_string_equal(info.op, "attention");
    assert_string_equal(info.label, "layer 0 mix");
    assert_true(info.input_count == 3 && info.output_count == 1);
    assert_int_equal(sl_graph_node_input(g, 2, 2).v, x.v);
    assert_int_equal(sl_graph_node_output(g, 0, 0).v, soft.v);
    assert_int_equal(sl_graph_node_input(g, 2, 3).v, 0);
    assert_int_equal(sl_graph_node_output(g, 5, 0).v, 0);
    assert_int_equal(sl_graph_node_at(g, 5, &info, &err), SL_INVALID);
    sl_graph_set_label(g, "late");
    (void)sl_graph_apply(g, "attention", qkv, 3, "mask=casual");
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_string_equal(err.message,
                        "attributes of layer 0 late: line 1, column 6: expected one of "
                        "none causal sliding custom bias, found 'casual'");
    sl_graph_destroy(g);
}

/* A value tells its graph, also where both graphs have a value of that number. */
static void values_of_another_graph_are_refused(void **state) {
    (void)state;
    const int64_t dims[] = {2, 4};
    for (int way = 0; way < 4; way++) {
        sl_graph *a = NULL, *b = NULL;
        sl_error err = {0};
        sl_tensor_type type;
        assert_int_equal(sl_graph_create("a", NULL, &a, &err), SL_OK);
        assert_int_equal(sl_graph_create("b", NULL, &b, &err), SL_OK);
        const sl_value x = sl_graph_add_input(a, "x", "f32", 2, dims);
        const sl_value y = sl_graph_add_input(b, "x", "f32", 2, dims);
        assert_int_not_equal(x.v, y.v);
        assert_int_equal(sl_value_type(b, y, &type, &err), SL_OK);
        assert_int_equal(sl_value_type(b, x, &type, &err), SL_INVALID);
        assert_string_equal(err.message, "the value is not a value of graph 'b'");
        sl_graph_set_scope(b, "layer 0");
        sl_value outs[2];
        const sl_node_spec spec = {.struct_size = sizeof spec,
                                   .op = "split",
                                   .attrs = "sizes=[2, 2], axis=1",
                                   .inputs = &x,
                                   .input_count = 1,
                                   .outputs = outs,
                                   .output_count = 2};
        static const char *const messages[] = {
            "layer 0 matmul: input 'b' is a value of another graph",
            "layer 0 split: input 'x' is a value of another graph",
            "output 'z' is a value of another graph", "neg takes 1 inputs (x), found 2"};
        if (way == 0) assert_int_equal(sl_graph_apply(b, "matmul", (sl_value[]){y, x}, 2, "").v, 0);
        if (way == 1) assert_int_equal(sl_graph_add_node(b, &spec), 0);
        if (way == 2) sl_graph_add_output(b, "z", x);
        if (way == 3) assert_int_equal(sl_graph_apply(b, "neg", (sl_value[]){y, x}, 2, "").v, 0);
        assert_int_equal(sl_graph_check(b, &err), SL_INVALID);
        assert_string_equal(err.message, messages[way]);
        assert_int_equal(sl_graph_check(a, &err), SL_OK);
        sl_graph_destroy(a);
        sl_graph_destroy(b);
    }
}

/* Every default of the op table can be read. */
static void every_default_is_valid(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sl_op_count(); i++) {
        sl_graph *g = NULL;
        sl_error err = {0};
        sl_op_row row = {.struct_size = sizeof row};
        assert_int_equal(sl_op_at(i, &row, &err), SL_OK);
        assert_int_equal(sl_graph_create("one", NULL, &g, &err), SL_OK);
        (void)sl_graph_apply(g, row.name, NULL, 0, NULL);
        (void)!sl_graph_check(g, &err);
        if (strstr(err.message, "column") && !strstr(err.message, "is missing"))
            fail_msg("%s", err.message);
        sl_graph_destroy(g);
        if (strcmp(row.name, "topk") == 0)
            assert_string_equal(row.attributes,
                                "k:i64 axis:i64=-1 largest:bool=true sorted:bool=true ");
    }
    assert_string_equal(sl_dtype_name_at(0), "f32");
    uint32_t types = 0;
    while (sl_dtype_name_at(types)) types++;
    assert_true(types > 14);
}

static void a_graph_may_grow_after_it_was_compiled(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        sl_graph *g = doubling();
        sl_compiled *c = NULL;
        sl_bucketed *b = NULL;
        sl_error err = {0};
        const sl_compile_options options = {.struct_size = sizeof options, .device = devices[d]};
        const sl_bucket_options buckets = {.struct_size = sizeof buckets, .compile = &options};
        if (sl_compile(g, &options, &c, &err)) fail_msg("%s", err.message);
        if (sl_bucketed_create(g, &buckets, &b, &err)) fail_msg("%s", err.message);
        sl_value x = sl_graph_add_input(g, "late", "f32", 1, (int64_t[]){2});
        for (int i = 0; i < 300; i++) x = sl_graph_apply(g, "neg", &x, 1, NULL);
        sl_graph_add_output(g, "z", x);
        assert_int_equal(sl_graph_check(g, &err), SL_OK);
        const float given[2] = {1, 2}, wanted[2] = {2, 4};
        assert_int_equal(sl_compiled_set(c, "x", given, sizeof given, &err), SL_OK);
        assert_int_equal(sl_compiled_set(c, "late", given, sizeof given, &err), SL_INVALID);
        assert_int_equal(sl_compiled_run(c, &err), SL_OK);
        assert_memory_equal(sl_compiled_get(c, "y", NULL), wanted, sizeof wanted);
        assert_null(sl_compiled_get(c, "z", NULL));
        sl_compiled_destroy(c);
        if (sl_bucketed_resize(b, NULL, 0, &err)) fail_msg("%s", err.message);
        assert_int_equal(sl_bucketed_set(b, "x", given, sizeof given, &err), SL_OK);
        assert_int_equal(sl_bucketed_run(b, &err), SL_OK);
        assert_memory_equal(sl_bucketed_get(b, "y", NULL), wanted, sizeof wanted);
        assert_null(sl_bucketed_get(b, "z", NULL));
        sl_bucketed_destroy(b);
        sl_graph_destroy(g);
    }
}

static void inputs_must_be_set(void **state) {
    (void)state;
    sl_graph *g = doubling();
    sl_compiled *c = NULL;
    sl_error err = {0};
    sl_graph_add_input(g, "unused", "f32", 1, (int64_t[]){2});
    if (sl_compile(g, NULL, &c, &err)) fail_msg("%s", err.message);
    assert_int_equal(sl_compiled_run(c, &err), SL_INVALID);
    assert_string_equal(err.message, "input 'x' was never set");
    assert_int_equal(sl_compiled_set(c, "x", (float[]){1, 2}, 8, &err), SL_OK);
    assert_int_equal(sl_compiled_run(c, &err), SL_OK);
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
}

/* Callers of older versions have shorter structs; what follows them is not read. */
static void structs_of_older_callers(void **state) {
    (void)state;
    sl_graph *g = doubling();
    sl_compiled *c = NULL;
    sl_bucketed *b = NULL;
    sl_error err = {0};
    const sl_compile_options compile = {.struct_size = sizeof(size_t), .device = "nowhere"};
    const sl_bucket_options shorter = {.struct_size = offsetof(sl_bucket_options, compile),
                                       .compile = (const void *)(uintptr_t)8};
    if (sl_compile(g, &compile, &c, &err)) fail_msg("%s", err.message);
    if (sl_bucketed_create(g, &shorter, &b, &err)) fail_msg("%s", err.message);
    assert_int_equal(sl_bucketed_resize(b, NULL, 0, &err), SL_OK);
    sl_value in = sl_graph_node_input(g, 0, 0), out;
    const sl_node_spec node = {.struct_size = offsetof(sl_node_spec, bodies),
                               .op = "neg",
                               .inputs = &in,
                               .input_count = 1,
                               .outputs = &out,
                               .output_count = 1,
                               .bodies = (const void *)(uintptr_t)8,
                               .body_count = 9};
    sl_graph_add_node(g, &node);
    assert_int_equal(sl_graph_check(g, &err), SL_OK);
    sl_bucketed_destroy(b);
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
}

static void null_pointers(void **state) {
    (void)state;
    sl_graph *g = NULL, *filled = doubling();
    sl_compiled *c = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create(NULL, NULL, &g, &err), SL_INVALID);
    assert_string_equal(err.message, "sl_graph_create: a required pointer is NULL (name && out)");
    assert_int_equal(sl_compile(NULL, NULL, &c, &err), SL_INVALID);
    assert_int_equal(sl_compile(filled, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_compile(filled, NULL, NULL, NULL), SL_INVALID);
    assert_int_equal(sl_compiled_run(NULL, &err), SL_INVALID);
    assert_null(sl_compiled_get(NULL, "x", NULL));
    assert_int_equal(sl_graph_add_input(NULL, "x", "f32", 0, NULL).v, 0);
    assert_int_equal(sl_graph_add_input(filled, "z", "f32", 2, NULL).v, 0);
    assert_int_equal(sl_graph_check(filled, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "sl_graph_add_input: a required pointer is NULL"));
    sl_graph_destroy(filled);
}

static sl_status endless_text(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                              sl_error *err) {
    (void)ctx, (void)call, (void)outputs;
    memset(err->message, 'a', sizeof err->message);
    return SL_INVALID;
}

static void texts_of_custom_ops_end(void **state) {
    (void)state;
    sl_custom_ops *ops = NULL;
    sl_graph *g = doubling();
    sl_error err = {0};
    const sl_custom_op op = {.struct_size = sizeof op, .name = "endless", .shape = endless_text};
    assert_int_equal(sl_custom_ops_create(&ops, &err), SL_OK);
    assert_int_equal(sl_custom_ops_add(ops, &op, &err), SL_OK);
    sl_graph_use_custom_ops(g, ops);
    sl_value in = sl_graph_node_input(g, 0, 0), out;
    const sl_node_spec node = {.struct_size = sizeof node,
                               .op = "custom",
                               .attrs = "name=\"endless\", attrs=\"\"",
                               .inputs = &in,
                               .input_count = 1,
                               .outputs = &out,
                               .output_count = 1};
    sl_graph_add_node(g, &node);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "aaaa"));
    assert_true(strlen(err.message) < sizeof err.message);
    sl_graph_destroy(g);
    sl_custom_ops_destroy(ops);
}

/* Names are looked up in tables: work in the square of these counts would take half a minute. */
static void many_inputs_and_outputs(void **state) {
    (void)state;
    enum { COUNT = 12000 };
    sl_graph *g = NULL;
    sl_compiled *c = NULL;
    sl_error err = {0};
    char name[16];
    const clock_t start = clock();
    assert_int_equal(sl_graph_create("many", NULL, &g, &err), SL_OK);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "x%d", i);
        const sl_value x = sl_graph_add_input(g, name, "f32", 1, (int64_t[]){1});
        (void)snprintf(name, sizeof name, "y%d", i);
        sl_graph_add_output(g, name, sl_graph_apply(g, "neg", &x, 1, NULL));
    }
    if (sl_compile(g, NULL, &c, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "x%d", i);
        assert_int_equal(sl_compiled_set(c, name, &(float){(float)i}, 4, &err), SL_OK);
    }
    if (sl_compiled_run(c, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "y%d", i);
        assert_true(*(const float *)sl_compiled_get(c, name, NULL) == (float)-i);
    }
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > 15) fail_msg("%.1f s", seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_built_and_read_back),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(ops_with_several_results),
        cmocka_unit_test(results_go_to_an_array_with_room),
        cmocka_unit_test(attributes_have_defaults_and_words),
        cmocka_unit_test(values_of_another_graph_are_refused),
        cmocka_unit_test(every_default_is_valid),
        cmocka_unit_test(a_graph_may_grow_after_it_was_compiled),
        cmocka_unit_test(inputs_must_be_set),
        cmocka_unit_test(structs_of_older_callers),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(texts_of_custom_ops_end),
        cmocka_unit_test(many_inputs_and_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
