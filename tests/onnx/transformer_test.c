/* transformer_test.c - Transformers as PyTorch's exporters write them end at the ops of the same
 * model written by hand, and compute the same.  suite_test.c compares their numbers with
 * onnxruntime's. */
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "compiler/passes/pipeline.h"
#include "core/codec.h"
#include "frontend/onnx/import.h"
#include "runtime/devices.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "tests/data/onnx/transformer/"
enum { MOST_ELEMENTS = 1024 };

static sl_error err;

static void *file_of(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) fail_msg("%s cannot be read", path);
    const long size = ftell(file);
    void *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    rewind(file);
    *count = fread(bytes, 1, (size_t)size, file);
    (void)fclose(file);
    return bytes;
}

static sl_graph *graph_of(const char *before, const char *name, const char *after, bool onnx) {
    char path[200];
    size_t count;
    sl_graph *graph = NULL;
    (void)snprintf(path, sizeof path, "%s%s%s", before, name, after);
    void *bytes = file_of(path, &count);
    const sl_status status = onnx ? sl_onnx_import(bytes, count, NULL, NULL, &graph, &err)
                                  : sl_graph_parse(bytes, count, NULL, &graph, &err);
    if (status != SL_OK) fail_msg("%s: %s", path, err.message);
    free(bytes);
    return graph;
}
#define EXPORTED(NAME) graph_of(FOLDER "test_", (NAME), "/model.onnx", true)
#define WRITTEN(NAME)  graph_of(FOLDER, (NAME), ".ir", false)

/* ---- ops ---- */

typedef struct {
    uint32_t of[SL_OP_COUNT];
} op_counts;

/* The ops that the device runs, without those that only give another view. */
static op_counts compiled(const sl_graph *graph, const sl_target *target, bool fuse) {
    op_counts counts = {{0}};
    sl_graph *copy = NULL;
    sl_compiler_options options = sl_compiler_options_for(target);
    options.no_fusion = options.no_simplify = !fuse;
    sl_pass_context context = {.options = &options};
    assert_int_equal(sl_graph_copy(graph, NULL, &copy, &err), SL_OK);
    if (sl_passes_run(copy, &context, SL_PASS_COUNT, &err) != SL_OK) fail_msg("%s", err.message);
    for (uint32_t n = 0; n < copy->node_count; n++) {
        const sl_op op = copy->nodes[n].op;
        counts.of[op] += !(sl_op_info_of(op)->traits & SL_OP_VIEW);
    }
    sl_graph_destroy(copy);
    return counts;
}

static void assert_same_ops(const char *name, const op_counts *found, const op_counts *wanted) {
    for (int op = 0; op < SL_OP_COUNT; op++)
        if (found->of[op] != wanted->of[op])
            fail_msg("%s: %u of %s, by hand %u", name, found->of[op],
                     sl_op_info_of((sl_op)op)->name, wanted->of[op]);
}

static const struct {
    const char *exported, *written;
    uint32_t layers, products; /* a layer's, with bias */
} models[] = {
    {"gpt2_eager_traced", "gpt2", 2, 4},
    {"gpt2_sdpa_decomposed", "gpt2", 2, 4},
    {"vit_eager_traced", "vit", 2, 6},
    {"vit_sdpa_decomposed", "vit", 2, 6},
};

static void exported_ends_like_written(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        sl_graph *given = EXPORTED(models[i].exported), *own = WRITTEN(models[i].written);
        const sl_target *cpu = sl_device_row_at(0)->target;
        const op_counts fused = compiled(given, cpu, true), plain = compiled(given, cpu, false);
        const op_counts wanted = compiled(own, cpu, true);
        assert_same_ops(models[i].exported, &fused, &wanted);
        for (uint32_t d = 0; sl_device_row_at(d); d++) { /* of which some have no such kernels */
            const op_counts other = compiled(given, sl_device_row_at(d)->target, true);
            assert_int_equal(other.of[SL_OP_attention], models[i].layers);
            assert_int_equal(other.of[SL_OP_softmax], 0);
        }
        assert_int_equal(fused.of[SL_OP_attention], models[i].layers);
        assert_int_equal(fused.of[SL_OP_fused_residual_ln], 2 * models[i].layers + 1);
        assert_int_equal(fused.of[SL_OP_fused_matmul_bias_act],
                         models[i].layers * models[i].products);
        assert_int_equal(plain.of[SL_OP_attention], 0);
        assert_int_equal(plain.of[SL_OP_softmax], models[i].layers);
        sl_graph_destroy(given);
        sl_graph_destroy(own);
    }
}

/* ---- numbers ---- */

/* The output, with what the graph has no data of from `from`; x is given. */
static double *evaluated(const sl_graph *graph, const sl_graph *from, const void *x,
                         int64_t *count) {
    sl_evaluator *evaluator = NULL;
    assert_int_equal(sl_evaluator_create(graph, NULL, &evaluator, &err), SL_OK);
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        const void *data = x;
        if (value->kind != SL_VALUE_INPUT && value->kind != SL_VALUE_WEIGHT) continue;
        if (value->kind == SL_VALUE_WEIGHT) {
            const sl_value known = sl_graph_find(from, value->name);
            if (!known.v) fail_msg("%s is missing", value->name);
            assert_true(sl_type_equal(&from->values[known.v].type, &value->type));
            data = from->values[known.v].data;
        }
        assert_int_equal(sl_evaluator_bind(evaluator, (sl_value){v}, data, &err), SL_OK);
    }
    if (sl_evaluator_run(evaluator, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_value out = graph->outputs[0].value;
    *count = sl_type_elements(&graph->values[out.v].type);
    double *copy = malloc((size_t)*count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, sl_evaluator_result(evaluator, out), (size_t)*count * sizeof *copy);
    sl_evaluator_destroy(evaluator);
    return copy;
}

static void both_compute_the_same(void **state) {
    (void)state;
    static int64_t tokens[MOST_ELEMENTS];
    static float pixels[MOST_ELEMENTS];
    for (int i = 0; i < MOST_ELEMENTS; i++) {
        tokens[i] = i * 7 % 40;
        pixels[i] = sinf((float)i * 1.7f);
    }
    for (size_t i = 1; i < sizeof models / sizeof models[0]; i += 2) { /* which keep their names */
        sl_graph *given = EXPORTED(models[i].exported), *own = WRITTEN(models[i].written);
        const void *x = strcmp(models[i].written, "vit") == 0 ? (void *)pixels : (void *)tokens;
        int64_t count, same;
        double *found = evaluated(given, given, x, &count),
               *wanted = evaluated(own, given, x, &same);
        double largest = 0;
        assert_int_equal(count, same);
        for (int64_t e = 0; e < count; e++) largest = fmax(largest, fabs(wanted[e]));
        for (int64_t e = 0; e < count; e++)
            if (!(fabs(found[e] - wanted[e]) <= 1e-6 * largest))
                fail_msg("%s: %g, by hand %g", models[i].exported, found[e], wanted[e]);
        free(found), free(wanted);
        sl_graph_destroy(given);
        sl_graph_destroy(own);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exported_ends_like_written),
        cmocka_unit_test(both_compute_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
