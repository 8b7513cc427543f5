/* direct_test.c - Direct mode gives the bits that compiled graphs give. */
#include "api/values.h"
#include "core/codec.h"
#include "sluice/direct.h"
#include "sluice/experimental.h"
#include "tests/support/draw.h"
#include "tests/support/op_fixture.h"
#include "tests/support/random_graph.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

static sl_error err;

static sl_compile_options options_for(const char *device, const char *words) {
    return (sl_compile_options){.struct_size = sizeof(sl_compile_options),
                                .device = device,
                                .threads = 1,
                                .compile = words};
}

/* ---- a graph, compiled and directly ---- */

/* The data of declared values by id; NULL where they have none. */
typedef struct {
    const sl_graph *graph;
    void *const *data;
} feed;

static size_t bytes_of(const sl_value_info *info) {
    return sl_type_bytes(&info->type);
}
static bool is_set(const feed *f, uint32_t v) {
    const sl_value_kind kind = f->graph->values[v].kind;
    return f->data[v] &&
           (kind == SL_VALUE_INPUT || kind == SL_VALUE_WEIGHT || kind == SL_VALUE_STATE);
}

static sl_compiled *run_compiled(const feed *f, const sl_compile_options *how, sl_status *status) {
    sl_compiled *c = NULL;
    *status = sl_compile(f->graph, how, &c, &err);
    for (uint32_t v = 1; v <= f->graph->value_count && *status == SL_OK; v++)
        if (is_set(f, v))
            *status = sl_compiled_set(c, f->graph->values[v].name, f->data[v],
                                      bytes_of(&f->graph->values[v]), &err);
    if (*status == SL_OK) *status = sl_compiled_run(c, &err);
    return c;
}

static void set_all(sl_direct *d, const feed *f) {
    for (uint32_t v = 1; v <= f->graph->value_count; v++)
        if (is_set(f, v) && sl_direct_set(d, f->graph->values[v].name, f->data[v],
                                          bytes_of(&f->graph->values[v]), &err) != SL_OK)
            fail_msg("%s", err.message);
}

static void compare_outputs(const char *what, const sl_graph *graph, sl_compiled *c, sl_direct *d) {
    for (uint32_t o = 0; o < graph->output_count; o++) {
        size_t wanted_bytes = 0, bytes = 0;
        const void *wanted = sl_compiled_get(c, graph->outputs[o].name, &wanted_bytes), *found;
        const sl_status status =
            sl_direct_get(d, sl_value_seal(graph, graph->outputs[o].value), &found, &bytes, &err);
        if (status == SL_UNSUPPORTED && strstr(err.message, "is not kept in bytes on 'ref'"))
            continue;
        if (status != SL_OK) fail_msg("%s: %s", what, err.message);
        assert_int_equal(bytes, wanted_bytes);
        if (bytes && memcmp(found, wanted, bytes) != 0)
            fail_msg("%s: result %s differs", what, graph->outputs[o].name);
    }
}

/* The nodes of a graph that exists. */
static void check_graph(const char *what, sl_graph *graph, void *const *data,
                        const sl_compile_options *how) {
    const feed f = {graph, data};
    sl_status status;
    sl_direct *d = NULL;
    sl_compiled *c = run_compiled(&f, how, &status);
    if (status != SL_OK) fail_msg("%s: %s", what, err.message);
    assert_int_equal(sl_direct_create(graph, how, &d, &err), SL_OK);
    set_all(d, &f);
    if (sl_direct_run(d, &err) != SL_OK) fail_msg("%s: %s", what, err.message);
    compare_outputs(what, graph, c, d);
    sl_direct_destroy(d);
    sl_compiled_destroy(c);
}

/* ---- fixtures: one node, which runs when it is added ---- */

typedef struct {
    fixture f;
    void *data[MOST_TENSORS + 1];
    bool has_experts;
} op_case;

static void open_case(op_case *c, const json_t *item) {
    *c = (op_case){0};
    fixture_open(&c->f, json_string_value(json_object_get(item, "op")),
                 json_string_value(json_object_get(item, "attrs")));
    const json_t *ins = json_object_get(item, "in"), *outs = json_object_get(item, "out");
    c->f.in_count = (uint32_t)json_array_size(ins);
    if (c->f.info->outs_name) c->f.out_count = (uint32_t)json_array_size(outs);
    assert_true(c->f.in_count <= MOST_TENSORS && c->f.out_count <= MOST_TENSORS);
    for (uint32_t i = 0; i < c->f.info->input_count; i++)
        c->has_experts |= c->f.info->input_kinds[i] == SL_OPERAND_EXPERTS;
    for (uint32_t i = 0; i < c->f.in_count && !c->has_experts; i++) {
        const sl_eval_tensor t = c->f.in[i] = fixture_tensor(&c->f, json_array_get(ins, i));
        c->data[i + 1] = sl_arena_alloc(&c->f.arena, sl_type_bytes(&t.type) + 1, 64);
        assert_non_null(c->data[i + 1]);
        sl_encode_f64(t.type.dtype, t.data, sl_type_elements(&t.type), c->data[i + 1]);
    }
}

/* The name of input i. */
static const char *name_of(uint32_t i) {
    static const char names[MOST_TENSORS][2] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                "i", "j", "k", "l", "m", "n", "o", "p"};
    return names[i];
}

/* Declares the inputs and appends the node. */
static void build_case(const op_case *c, sl_graph *g) {
    sl_value in[MOST_TENSORS], out[MOST_TENSORS];
    for (uint32_t i = 0; i < c->f.in_count; i++)
        in[i] = sl_graph_declare(
            g, sl_input_kind(c->f.info, i) == SL_OPERAND_STATE ? SL_VALUE_STATE : SL_VALUE_INPUT,
            name_of(i), c->f.in[i].type);
    sl_graph_append_list(g, c->f.op, (sl_values){c->f.in_count, in}, c->f.attrs,
                         (sl_value_slots){c->f.out_count, out});
    for (uint32_t o = 0; o < c->f.out_count; o++) sl_graph_output(g, name_of(o), out[o]);
}

static bool check_case(const char *what, const op_case *c, const sl_compile_options *how) {
    sl_graph *g = NULL, *direct = NULL;
    sl_direct *d = NULL;
    sl_status status;
    assert_int_equal(sl_graph_create("case", NULL, &g, &err), SL_OK);
    assert_int_equal(sl_graph_create("case", NULL, &direct, &err), SL_OK);
    build_case(c, g);
    const feed f = {g, c->data};
    sl_compiled *compiled = run_compiled(&f, how, &status);
    assert_int_equal(sl_direct_create(direct, how, &d, &err), SL_OK);
    set_all(d, &f);
    build_case(c, direct);
    const sl_status found = sl_graph_check(direct, &err);
    if ((found == SL_OK) != (status == SL_OK))
        fail_msg("%s: status %d instead of %d: %s", what, (int)found, (int)status, err.message);
    if (status == SL_OK) compare_outputs(what, direct, compiled, d);
    sl_direct_destroy(d);
    sl_compiled_destroy(compiled);
    sl_graph_destroy(direct);
    sl_graph_destroy(g);
    return status == SL_OK;
}

/* Every `step`-th case of all files; returns how many ran. */
static uint32_t check_fixtures(const sl_compile_options *how, size_t step) {
    uint32_t ran = 0;
    size_t number = 0;
    DIR *folder = opendir("tests/data/ops");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[512], what[600];
        if (!strstr(entry->d_name, ".json")) continue;
        (void)snprintf(path, sizeof path, "tests/data/ops/%s", entry->d_name);
        json_t *cases = json_load_file(path, 0, NULL);
        assert_non_null(cases);
        for (size_t i = 0; i < json_array_size(cases); i++) {
            op_case c;
            if (number++ % step) continue;
            open_case(&c, json_array_get(cases, i));
            (void)snprintf(what, sizeof what, "%s case %zu, %s", path, i, c.f.info->name);
            if (!c.has_experts) ran += check_case(what, &c, how);
            fixture_close(&c.f);
        }
        json_decref(cases);
    }
    closedir(folder);
    return ran;
}

static void fixtures_have_the_same_bits(void **state) {
    (void)state;
    const sl_compile_options plain = options_for("cpu", NULL), ref = options_for("ref", NULL);
    assert_true(check_fixtures(&plain, 1) > 3500);
    assert_true(check_fixtures(&ref, 11) > 300);
}

static void fixtures_have_the_same_bits_on_a_gpu(void **state) {
    (void)state;
    const char *path = getenv("SLUICE_CUDA_EMULATOR");
    if (!path || !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
    const sl_compile_options how = options_for("cuda", NULL);
    assert_true(check_fixtures(&how, 31) > 100);
}

/* ---- graphs of many nodes ---- */

/* Fused and unfused, in another order, by several threads: the passes that keep bits. */
static const char *const words[] = {"no-simplify", "no-simplify,no-fusion",
                                    "no-simplify,no-sharing,no-in-place"};

/* Integers are slots, 0, or positions. */
static void *numbers(const sl_type *type, bool positions, uint32_t seed) {
    const int64_t count = sl_type_elements(type);
    const sl_dtype_kind kind = sl_dtype_infos[type->dtype].kind;
    void *data = calloc(1, sl_type_bytes(type) + 64);
    assert_non_null(data);
    for (int64_t i = 0; i < count && sl_dtype_infos[type->dtype].bytes; i++) {
        double value = (double)((uint32_t)(i * 7919 + seed * 104729) % 2003) / 1001 - 1;
        if (kind != SL_KIND_FLOAT) value = positions ? (double)i : 0;
        sl_encode_f64(type->dtype, &value, 1,
                      (char *)data + (size_t)i * sl_dtype_infos[type->dtype].bytes);
    }
    return data;
}

static void random_graphs_have_the_same_bits(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        sl_graph *graph = random_graph(seed, 40);
        void **data = calloc(graph->value_count + 1, sizeof *data);
        assert_non_null(data);
        for (uint32_t v = 1; v <= graph->value_count; v++)
            if (graph->values[v].kind == SL_VALUE_INPUT ||
                sl_value_declared_kind(&graph->values[v]) == SL_VALUE_WEIGHT)
                data[v] = numbers(&graph->values[v].type,
                                  strcmp(graph->values[v].name, "positions") == 0, v);
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            char what[64];
            const sl_compile_options how = options_for("cpu", words[w]);
            (void)snprintf(what, sizeof what, "random graph %u, %s", seed, words[w]);
            check_graph(what, graph, data, &how);
        }
        for (uint32_t v = 1; v <= graph->value_count; v++) free(data[v]);
        free(data);
        sl_graph_destroy(graph);
    }
}

static void drawn_graphs_have_the_same_bits(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        drawn_graph *drawn = draw_graph(seed, 24);
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            char what[64];
            const sl_compile_options how = options_for("cpu", words[w]);
            (void)snprintf(what, sizeof what, "drawn graph %u, %s", seed, words[w]);
            check_graph(what, drawn->graph, drawn->bytes, &how);
        }
        drawn_destroy(drawn);
    }
}

/* ---- building ---- */

static const float *floats_of(sl_direct *d, sl_value value, size_t count) {
    const void *data = NULL;
    size_t bytes = 0;
    if (sl_direct_get(d, value, &data, &bytes, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(bytes, count * sizeof(float));
    return data;
}

static void refuses(sl_direct *d, sl_value value, const char *message) {
    const void *data;
    assert_int_equal(sl_direct_get(d, value, &data, NULL, &err), SL_INVALID);
    assert_string_equal(err.message, message);
}

static void values_are_there_while_the_graph_is_built(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    for (size_t i = 0; i < 2; i++) {
        const sl_compile_options how = options_for(devices[i], NULL);
        const float x[4] = {1, -2, 3, -4}, w[2] = {2, 10};
        sl_graph *g = NULL;
        sl_direct *d = NULL;
        assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
        assert_int_equal(sl_direct_create(g, &how, &d, &err), SL_OK);
        assert_int_equal(sl_direct_set(d, "x", x, sizeof x, &err), SL_OK);
        assert_int_equal(sl_direct_set(d, "w", w, sizeof w, &err), SL_OK);
        const sl_value in[2] = {sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 2}),
                                sl_graph_add_weight(g, "w", "f32", 2, (int64_t[]){1, 2})};
        assert_true(floats_of(d, in[0], 4)[3] == -4);
        const sl_value y = sl_graph_apply(g, "linear", in, 2, NULL);
        assert_true(floats_of(d, y, 2)[0] == -18 && floats_of(d, y, 2)[1] == -34);
        sl_value parts[2];
        const sl_node_spec split = {.struct_size = sizeof split,
                                    .op = "split",
                                    .attrs = "axis=1, sizes=[1, 1]",
                                    .inputs = in,
                                    .input_count = 1,
                                    .outputs = parts,
                                    .output_count = 2};
        assert_int_equal(sl_graph_add_node(g, &split), 2);
        assert_true(floats_of(d, parts[1], 2)[0] == -2 && floats_of(d, parts[0], 2)[1] == 3);
        assert_int_equal(sl_direct_set(d, "x", w, sizeof w, &err), SL_INVALID);
        assert_string_equal(err.message, "'x' is f32[2,2] of 16 bytes, but 8 bytes were given");
        assert_int_equal(sl_direct_set(d, "w", x, sizeof w, &err), SL_OK);
        assert_int_equal(sl_direct_run(d, &err), SL_OK);
        assert_true(floats_of(d, y, 2)[0] == 5 && floats_of(d, y, 2)[1] == 11);
        sl_direct_destroy(d);
        sl_graph_destroy(g);
    }
}

static void a_node_that_cannot_run_is_named(void **state) {
    (void)state;
    sl_graph *g = NULL;
    sl_direct *d = NULL, *second = NULL;
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    const sl_value x = sl_graph_add_input(g, "x", "f32", 1, (int64_t[]){2});
    const sl_value before = sl_graph_apply(g, "neg", &x, 1, NULL);
    assert_int_equal(sl_direct_create(g, NULL, &d, &err), SL_OK);
    assert_int_equal(sl_direct_create(g, NULL, &second, &err), SL_INVALID);
    assert_string_equal(err.message, "graph 'g' is in direct mode already");
    refuses(d, before, "its operand %2, the result of 'neg', was not computed");
    refuses(d, (sl_value){before.v + 1}, "no value of graph 'g'");
    refuses(d, (sl_value){2}, "no value of graph 'g'"); /* of no graph */
    sl_graph_set_scope(g, "layer 3");
    assert_int_equal(sl_graph_apply(g, "abs", &x, 1, NULL).v, 0);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_string_equal(err.message, "layer 3 abs: input 'x' was never set");
    sl_direct_destroy(d);
    sl_graph_destroy(g);

    const float rows[4] = {1, 2, 3, 4};
    const int32_t ids[1] = {5};
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    assert_int_equal(sl_direct_create(g, NULL, &d, &err), SL_OK);
    assert_int_equal(sl_direct_set(d, "rows", rows, sizeof rows, &err), SL_OK);
    assert_int_equal(sl_direct_set(d, "ids", ids, sizeof ids, &err), SL_OK);
    sl_graph_set_scope(g, "stem");
    const sl_value in[2] = {sl_graph_add_weight(g, "rows", "f32", 2, (int64_t[]){2, 2}),
                            sl_graph_add_input(g, "ids", "i32", 1, (int64_t[]){1})};
    assert_int_equal(sl_graph_apply(g, "embed", in, 2, NULL).v, 0);
    assert_int_equal(sl_graph_check(g, &err), SL_INVALID);
    assert_string_equal(err.message, "stem embed: embed: id of row 0 is 5, must be in [0, 2)");
    sl_direct_destroy(d);
    sl_graph_destroy(g);
}

static void states_are_updated_in_place(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    for (size_t i = 0; i < 2; i++) {
        const sl_compile_options how = options_for(devices[i], NULL);
        const float logits[3] = {1, 5, 2};
        const double temperature[5] = {0};
        sl_graph *g = NULL;
        sl_direct *d = NULL;
        assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
        assert_int_equal(sl_direct_create(g, &how, &d, &err), SL_OK);
        assert_int_equal(sl_direct_set(d, "logits", logits, sizeof logits, &err), SL_OK);
        assert_int_equal(sl_direct_set(d, "how", temperature, sizeof temperature, &err), SL_OK);
        assert_int_equal(sl_direct_set(d, "slots", &(int32_t){1}, 4, &err), SL_OK);
        assert_int_equal(sl_direct_set(d, "chosen", &(int32_t[]){7, 8}, 8, &err), SL_OK);
        const sl_value in[4] = {sl_graph_add_input(g, "logits", "f32", 2, (int64_t[]){1, 3}),
                                sl_graph_add_input(g, "how", "f64", 2, (int64_t[]){1, 5}),
                                sl_graph_add_input(g, "slots", "i32", 1, (int64_t[]){1}),
                                sl_graph_add_state(g, "chosen", "i32", 1, (int64_t[]){2})};
        const void *data = NULL;
        assert_int_equal(sl_direct_get(d, in[3], &data, NULL, &err), SL_OK);
        assert_memory_equal(data, ((int32_t[]){7, 8}), 8);
        sl_value out[2] = {{0}};
        const sl_node_spec choose = {.struct_size = sizeof choose,
                                     .op = "choose",
                                     .inputs = in,
                                     .input_count = 4,
                                     .outputs = out,
                                     .output_count = 2};
        assert_int_equal(sl_graph_add_node(g, &choose), 2);
        assert_int_equal(sl_direct_get(d, out[0], &data, NULL, &err), SL_OK);
        assert_int_equal(*(const int32_t *)data, 1);
        assert_int_equal(sl_direct_get(d, out[1], &data, NULL, &err), SL_OK);
        assert_memory_equal(data, ((int32_t[]){7, 1}), 8);
        refuses(d, in[3], "uses a version of state 'chosen' that is not its latest");
        assert_int_equal(sl_direct_set(d, "chosen", &(int32_t[]){3, 4}, 8, &err), SL_OK);
        assert_int_equal(sl_direct_run(d, &err), SL_OK);
        assert_int_equal(sl_direct_get(d, out[1], &data, NULL, &err), SL_OK);
        assert_memory_equal(data, ((int32_t[]){3, 1}), 8);
        sl_direct_destroy(d);
        sl_graph_destroy(g);
    }
}

static sl_status shape_as_input(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                                sl_error *error) {
    (void)ctx, (void)error;
    outputs[0] = call->inputs[0];
    return SL_OK;
}
static sl_status scale_by(void *ctx, const sl_custom_call *call, const void *const *inputs,
                          void *const *outputs, sl_error *error) {
    (void)error;
    for (int64_t i = 0; i < call->inputs[0].dims[0]; i++)
        ((float *)outputs[0])[i] = *(const float *)ctx * ((const float *)inputs[0])[i];
    return SL_OK;
}

/* Two sets have a custom op of one name; a loop calls a body. */
static void callbacks_and_bodies_run(void **state) {
    (void)state;
    float factors[2] = {3, 5};
    sl_custom_ops *sets[2];
    sl_graph *g = NULL, *body = NULL;
    sl_direct *d = NULL;
    sl_value out;
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    assert_int_equal(sl_direct_create(g, NULL, &d, &err), SL_OK);
    assert_int_equal(sl_direct_set(d, "x", &(float[]){1, 2}, 8, &err), SL_OK);
    const sl_value x = sl_graph_add_input(g, "x", "f32", 1, (int64_t[]){2});
    sl_node_spec spec = {.struct_size = sizeof spec,
                         .op = "custom",
                         .attrs = "name=\"scale\"",
                         .inputs = &x,
                         .input_count = 1,
                         .outputs = &out,
                         .output_count = 1};
    for (int i = 0; i < 2; i++) {
        const sl_custom_op op = {.struct_size = sizeof op,
                                 .name = "scale",
                                 .ctx = &factors[i],
                                 .shape = shape_as_input,
                                 .kernel = scale_by};
        assert_int_equal(sl_custom_ops_create(&sets[i], &err), SL_OK);
        assert_int_equal(sl_custom_ops_add(sets[i], &op, &err), SL_OK);
        sl_graph_use_custom_ops(g, sets[i]);
        assert_int_equal(sl_graph_add_node(g, &spec), 1);
        assert_true(floats_of(d, out, 2)[1] == 2 * factors[i]);
    }
    assert_int_equal(sl_graph_create("body", NULL, &body, &err), SL_OK);
    const sl_value carry = sl_graph_add_input(body, "c", "f32", 1, (int64_t[]){2});
    sl_graph_add_output(body, "c",
                        sl_graph_apply(body, "add", (sl_value[]){carry, carry}, 2, NULL));
    spec.op = "scan";
    spec.attrs = "carries=1, length=4";
    spec.bodies = &(sl_body_spec){"body", body};
    spec.body_count = 1;
    const uint32_t results = sl_graph_add_node(g, &spec);
    if (sl_graph_check(g, &err) != SL_OK || results != 1) fail_msg("%s", err.message);
    assert_true(floats_of(d, out, 2)[1] == 32);
    sl_direct_destroy(d);
    sl_graph_destroy(body);
    sl_graph_destroy(g);
    for (int i = 0; i < 2; i++) sl_custom_ops_destroy(sets[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_there_while_the_graph_is_built),
        cmocka_unit_test(a_node_that_cannot_run_is_named),
        cmocka_unit_test(states_are_updated_in_place),
        cmocka_unit_test(callbacks_and_bodies_run),
        cmocka_unit_test(fixtures_have_the_same_bits),
        cmocka_unit_test(random_graphs_have_the_same_bits),
        cmocka_unit_test(drawn_graphs_have_the_same_bits),
        cmocka_unit_test(fixtures_have_the_same_bits_on_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
