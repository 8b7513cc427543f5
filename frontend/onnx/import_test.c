/* import_test.c - What ONNX's own test cases (tests/onnx) do not cover: broken files, error
 * messages, functions, open shapes, constant folding. */
#include "frontend/onnx/import.h"
#include "frontend/onnx/wire.h"
#include "sluice/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- Writing protobuf messages ---- */

typedef struct {
    unsigned char bytes[4096];
    size_t count;
} message;

static void put_varint(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7) m->bytes[m->count++] = (unsigned char)(value | 0x80);
    m->bytes[m->count++] = (unsigned char)value;
}
static void put_number(message *m, uint32_t field, uint64_t value) {
    put_varint(m, field << 3);
    put_varint(m, value);
}
static void put_bytes(message *m, uint32_t field, const void *bytes, size_t count) {
    put_varint(m, field << 3 | 2);
    put_varint(m, count);
    assert_true(m->count + count < sizeof m->bytes);
    memcpy(m->bytes + m->count, bytes, count);
    m->count += count;
}
static void put_text(message *m, uint32_t field, const char *text) {
    put_bytes(m, field, text, strlen(text));
}
static void put(message *m, uint32_t field, const message *inner) {
    put_bytes(m, field, inner->bytes, inner->count);
}

/* An f32 value with dims; -1 is the open dim "n". */
static message value_of(const char *name, uint32_t rank, const int64_t *dims) {
    message info = {0}, type = {0}, tensor = {0}, shape = {0};
    for (uint32_t i = 0; i < rank; i++) {
        message dim = {0};
        if (dims[i] < 0)
            put_text(&dim, 2, "n");
        else
            put_number(&dim, 1, (uint64_t)dims[i]);
        put(&shape, 1, &dim);
    }
    put_number(&tensor, 1, 1);
    put(&tensor, 2, &shape);
    put(&type, 1, &tensor);
    put_text(&info, 1, name);
    put(&info, 2, &type);
    return info;
}

/* Names separated by spaces. */
static void put_names(message *m, uint32_t field, const char *names) {
    while (*names) {
        const size_t bytes = strcspn(names, " ");
        put_bytes(m, field, names, bytes);
        names += bytes + (names[bytes] == ' ');
    }
}

static message node_of(const char *op, const char *inputs, const char *outputs) {
    message node = {0};
    put_names(&node, 1, inputs);
    put_names(&node, 2, outputs);
    put_text(&node, 3, "the_node");
    put_text(&node, 4, op);
    return node;
}

static message integers_of(const char *name, uint32_t count, const int64_t *items) {
    message tensor = {0};
    put_number(&tensor, 1, count);
    put_number(&tensor, 2, 7);
    for (uint32_t i = 0; i < count; i++)
        put_number(&tensor, 7, (uint64_t)items[i]); /* not packed */
    put_text(&tensor, 8, name);
    return tensor;
}

static message model_of(const message *graph, int64_t opset) {
    message model = {0}, version = {0};
    put_number(&version, 2, (uint64_t)opset);
    put_number(&model, 1, 8);
    put(&model, 8, &version);
    put(&model, 7, graph);
    return model;
}

/* A graph x[2,3] -> y by one node, with a tensor "c". */
static message graph_of(const message *node, const message *tensor) {
    message graph = {0};
    const message x = value_of("x", 2, (int64_t[]){2, 3}), y = value_of("y", 0, NULL);
    put(&graph, 1, node);
    put_text(&graph, 2, "g");
    if (tensor) put(&graph, 5, tensor);
    put(&graph, 11, &x);
    put(&graph, 12, &y);
    return graph;
}

/* Expects that the import fails with a message that contains the text. */
static void expect_refusal(const message *model, const char *text) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    assert_int_not_equal(sl_onnx_import(model->bytes, model->count, NULL, NULL, &graph, &err),
                         SL_OK);
    if (!strstr(err.message, text)) fail_msg("'%s' is not in '%s'", text, err.message);
}

static sl_graph *expect_graph(const message *model, const sl_onnx_options *options) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    if (sl_onnx_import(model->bytes, model->count, options, NULL, &graph, &err) != SL_OK)
        fail_msg("%s", err.message);
    assert_int_equal(sl_graph_verify(graph, &err), SL_OK);
    return graph;
}

/* ---- Cases ---- */

static void numbers_come_packed_or_not(void **state) {
    (void)state;
    message m = {0};
    put_number(&m, 3, 300);
    put_bytes(&m, 3, (unsigned char[]){1, 0xac, 0x02, 5}, 4);
    put_number(&m, 4, 9);
    sl_wire_numbers numbers = {.message = {m.bytes, m.bytes + m.count, NULL}, .number = 3};
    uint64_t value;
    const uint64_t wanted[] = {300, 1, 300, 5};
    for (size_t i = 0; i < 4; i++) {
        assert_true(sl_wire_number(&numbers, &value));
        assert_int_equal(value, wanted[i]);
    }
    assert_false(sl_wire_number(&numbers, &value));
    assert_null(numbers.message.broken);
}

/* Any truncation or change gives a graph or an error. */
static void damaged_files_are_refused(void **state) {
    (void)state;
    const message tensor = integers_of("c", 2, (int64_t[]){3, 2});
    const message node = node_of("Reshape", "x c", "y"), graph = graph_of(&node, &tensor);
    const message whole = model_of(&graph, 13);
    sl_graph *made = NULL;
    sl_error err;
    uint32_t refused = 0;
    for (size_t cut = 0; cut < whole.count; cut++) {
        made = NULL;
        if (sl_onnx_import(whole.bytes, cut, NULL, NULL, &made, &err) != SL_OK) refused++;
        sl_graph_destroy(made);
    }
    assert_int_equal(refused, whole.count);
    for (size_t i = 0; i < 8 * whole.count; i++) {
        message changed = whole;
        changed.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        made = NULL;
        if (sl_onnx_import(changed.bytes, changed.count, NULL, NULL, &made, &err) != SL_OK)
            continue;
        if (sl_graph_verify(made, &err) != SL_OK) fail_msg("%s", err.message);
        sl_graph_destroy(made);
    }
}

static void refusals_name_the_node(void **state) {
    (void)state;
    message node = node_of("NoSuchOp", "x", "y"), graph = graph_of(&node, NULL);
    message model = model_of(&graph, 13);
    expect_refusal(&model, "node 'the_node' (NoSuchOp): unknown op");
    node = node_of("Unique", "x", "y");
    graph = graph_of(&node, NULL);
    model = model_of(&graph, 13);
    expect_refusal(&model, "(Unique): the shape of its result depends on data");
    node = node_of("Relu", "z", "y");
    graph = graph_of(&node, NULL);
    model = model_of(&graph, 13);
    expect_refusal(&model, "input 'z' is not defined before this node");
    node = node_of("Reshape", "x x", "y");
    graph = graph_of(&node, NULL);
    model = model_of(&graph, 13);
    expect_refusal(&model, "input 'x' must be known when the model is imported");
    node = node_of("Relu", "x", "y");
    graph = graph_of(&node, NULL);
    model = model_of(&graph, 99);
    expect_refusal(&model, "opset 99");
    expect_refusal(&(message){0}, "it has no graph");

    const message relu = node_of("Relu", "x", "y"), y = value_of("y", 0, NULL);
    message graph_twice = graph_of(&relu, NULL);
    put(&graph_twice, 12, &y);
    model = model_of(&graph_twice, 21);
    expect_refusal(&model, "two outputs are called 'y'");
}

/* A Gemm of bytes whose beta is 1e17. */
static void numbers_out_of_range_are_refused(void **state) {
    (void)state;
    FILE *file = fopen("tests/data/fuzz/frontend_onnx_import_fuzz/gemm_beta_of_bytes.onnx", "rb");
    message model = {0};
    assert_non_null(file);
    model.count = fread(model.bytes, 1, sizeof model.bytes, file);
    (void)fclose(file);
    expect_refusal(&model, "the number 1.00881e+17 is not representable as i8");
}

static void data_in_other_files_is_refused(void **state) {
    (void)state;
    message tensor = integers_of("c", 2, (int64_t[]){3, 2});
    put_number(&tensor, 14, 1);
    message node = node_of("Reshape", "x c", "y"), graph = graph_of(&node, &tensor);
    message model = model_of(&graph, 13);
    expect_refusal(&model, "tensor 'c': its data is in another file");
    tensor = integers_of("c", 3, (int64_t[]){3, 2, 1});
    tensor.bytes[1] = 2; /* dims [2] for three numbers */
    graph = graph_of(&node, &tensor);
    model = model_of(&graph, 13);
    expect_refusal(&model, "tensor 'c': 3 numbers of data for i64[2]");
}

static void open_shapes_must_be_given(void **state) {
    (void)state;
    const message node = node_of("Relu", "x", "y"), y = value_of("y", 0, NULL);
    const message x = value_of("x", 2, (int64_t[]){-1, 3});
    message graph = {0};
    put(&graph, 1, &node);
    put(&graph, 11, &x);
    put(&graph, 12, &y);
    const message model = model_of(&graph, 13);
    expect_refusal(&model, "input 'x': dim 0 is open: 'n'");
    sl_graph *made = NULL;
    sl_error err;
    assert_int_equal(sl_graph_import_onnx(model.bytes, model.count, "x=5,3", &made, &err), SL_OK);
    assert_int_equal(made->values[made->outputs[0].value.v].type.shape.dims[0], 5);
    sl_graph_destroy(made);
    assert_int_not_equal(sl_graph_import_onnx(model.bytes, model.count, "x=5,4", &made, &err),
                         SL_OK);
    assert_non_null(strstr(err.message, "input 'x': dim 1 is 3 in the model, but 4 was given"));
    assert_int_not_equal(sl_graph_import_onnx(model.bytes, model.count, "x:5", &made, &err), SL_OK);
}

/* Shape computations are folded during the import; none are left in the graph. */
static void shapes_are_folded(void **state) {
    (void)state;
    const message shape = node_of("Shape", "x", "s"), node = node_of("Concat", "s c", "t");
    const message reshape = node_of("Reshape", "x t", "y");
    message axis = {0}, with_axis = node, graph = {0};
    put_text(&axis, 1, "axis");
    put_number(&axis, 3, 0);
    put_number(&axis, 20, 2);
    put(&with_axis, 5, &axis);
    const message tensor = integers_of("c", 2, (int64_t[]){1, 1});
    const message x = value_of("x", 2, (int64_t[]){2, 3}), y = value_of("y", 0, NULL);
    put(&graph, 1, &shape);
    put(&graph, 1, &with_axis);
    put(&graph, 1, &reshape);
    put(&graph, 5, &tensor);
    put(&graph, 11, &x);
    put(&graph, 12, &y);
    const message model = model_of(&graph, 13);
    sl_graph *made = expect_graph(&model, NULL);
    assert_int_equal(made->node_count, 1);
    assert_int_equal(made->value_count, 2);
    const sl_type *type = &made->values[made->outputs[0].value.v].type;
    assert_int_equal(type->shape.rank, 4);
    assert_int_equal(type->shape.dims[1], 3);
    sl_graph_destroy(made);
}

/* A function of the model is inlined at its call. */
static void functions_are_called(void **state) {
    (void)state;
    message function = {0}, call = node_of("Twice", "x", "y");
    put_text(&call, 7, "mine");
    const message inner = node_of("Add", "a a", "b");
    put_text(&function, 1, "Twice");
    put_names(&function, 4, "a");
    put_names(&function, 5, "b");
    put(&function, 7, &inner);
    put_text(&function, 10, "mine");
    const message graph = graph_of(&call, NULL);
    message model = model_of(&graph, 13);
    put(&model, 25, &function);
    sl_graph *made = expect_graph(&model, NULL);
    assert_int_equal(made->node_count, 1);
    assert_int_equal(made->nodes[0].op, SL_OP_add);
    sl_graph_destroy(made);
    message again = {0}; /* recursion is an error */
    const message loop = node_of("Twice", "a", "b");
    message itself = loop;
    put_text(&itself, 7, "mine");
    put_text(&again, 1, "Twice");
    put_names(&again, 4, "a");
    put_names(&again, 5, "b");
    put(&again, 7, &itself);
    put_text(&again, 10, "mine");
    model = model_of(&graph, 13);
    put(&model, 25, &again);
    expect_refusal(&model, "functions call each other");
}

/* A bound input is a constant; the message names an input that should be bound. */
static void bound_inputs_are_constants(void **state) {
    (void)state;
    const message node = node_of("Reshape", "x s", "y");
    message graph = graph_of(&node, NULL);
    message s = value_of("s", 1, (int64_t[]){1});
    put(&graph, 11, &s);
    const message model = model_of(&graph, 13);
    sl_onnx_refusal refusal = {0};
    sl_onnx_options options = {.refusal = &refusal};
    sl_graph *made = NULL;
    sl_error err;
    assert_int_equal(sl_onnx_import(model.bytes, model.count, &options, NULL, &made, &err),
                     SL_UNSUPPORTED);
    assert_string_equal(refusal.op, "Reshape");
    assert_string_equal(refusal.needs, "s");
    const int64_t six = 6;
    const sl_onnx_binding binding = {"s", sl_type_make(SL_DTYPE_i64, 1, (int64_t)1), &six};
    options.binding_count = 1;
    options.bindings = &binding;
    made = expect_graph(&model, &options);
    assert_int_equal(made->values[made->outputs[0].value.v].type.shape.rank, 1);
    sl_graph_destroy(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_packed_or_not),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(refusals_name_the_node),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(data_in_other_files_is_refused),
        cmocka_unit_test(open_shapes_must_be_given),
        cmocka_unit_test(shapes_are_folded),
        cmocka_unit_test(functions_are_called),
        cmocka_unit_test(bound_inputs_are_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
