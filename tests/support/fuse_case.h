/* fuse_case.h - Graphs from text, fused and taken apart again: all that must hold whatever the
 * graph. */
#ifndef SL_TESTS_SUPPORT_FUSE_CASE_H
#define SL_TESTS_SUPPORT_FUSE_CASE_H
#include "compiler/eval.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/rules.h"
#include "core/codec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DECLARATIONS                                                                               \
    "input %x : f32[4,8] input %y : f32[4,8] input %z : f32[4,8] input %row : f32[1,8]\n"          \
    "input %q : f32[4,2,6] input %v : f32[4,2,6] input %slots : i32[4] input %at : i32[4]\n"       \
    "input %cos : f32[4,1,2] input %sin : f32[4,1,2]\n"                                            \
    "input %e : f32[4,3,8] input %r : f32[4,3] input %mix : f32[4,1] input %late : f32[8,8]\n"     \
    "weight %g : f32[8] weight %h : f32[6] weight %b : f32[8] weight %w : f32[8,8]\n"              \
    "weight %u : f32[8,8] weight %t : f16[3,8] input %ints : i32[4,8]\n"                           \
    "state %ck : f32[2,2,1,6,16] state %cv : f32[2,2,16,6] state %s : f32[4,8]\n"
#define GRAPH(BODY) "graph \"g\" {\n" DECLARATIONS BODY "\n}\n"
#define CONV(BODY)                                                                                 \
    GRAPH("input %i : f32[2,4,5,6] weight %k : f32[6,2,3,2] weight %kb : f32[6]\n" BODY)

static sl_graph *parse(const char *text) {
    sl_error err = {0};
    sl_graph *graph = NULL;
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err) != SL_OK)
        fail_msg("%s", err.message);
    return graph;
}

static void verify(const sl_graph *graph) {
    sl_error err = {0};
    if (sl_graph_verify(graph, &err) != SL_OK) fail_msg("%s", err.message);
}

/* A number in [-1, 1) that depends on the name and the index alone. */
static double number(const char *name, int64_t index) {
    uint64_t hash = 1469598103934665603u ^ (uint64_t)index * 0x9e3779b97f4a7c15u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    hash ^= hash >> 29;
    return (double)(hash * 0xbf58476d1ce4e5b9u >> 40) / 8388608.0 - 1;
}

enum { MOST_VALUES = 512, MOST_OUTPUTS = 16 };
typedef struct {
    double *outputs[MOST_OUTPUTS], *states[8];
    int64_t sizes[MOST_OUTPUTS], state_sizes[8];
    uint32_t output_count, state_count;
} results;

static double *copied(const double *data, int64_t count) {
    double *copy = calloc((size_t)count, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, data, (size_t)count * sizeof *copy);
    return copy;
}

/* Integers name slots 0 and 1 and positions 0 to 4. */
static void *bytes_of(const sl_value_info *value) {
    const int64_t count = sl_type_elements(&value->type);
    void *bytes = calloc(1, sl_type_bytes(&value->type));
    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++) {
        double element = number(value->name, i);
        if (value->type.dtype == SL_DTYPE_i32)
            element = strcmp(value->name, "at") == 0 ? (double)i : (double)(i / 2);
        sl_encode_f64(value->type.dtype, &element, 1,
                      (char *)bytes + (size_t)i * sl_dtype_infos[value->type.dtype].bytes);
    }
    return bytes;
}

static void bind_value(sl_evaluator *evaluator, const sl_graph *graph, uint32_t v, void **kept,
                       results *r) {
    const sl_value_info *value = &graph->values[v];
    sl_error err = {0};
    if (value->kind == SL_VALUE_STATE) {
        const int64_t count = sl_type_elements(&value->type);
        double *state = calloc((size_t)count, sizeof *state);
        assert_non_null(state);
        for (int64_t i = 0; i < count; i++) state[i] = number(value->name, i);
        assert_int_equal(sl_evaluator_bind_state(evaluator, (sl_value){v}, state, &err), SL_OK);
        r->states[r->state_count] = state;
        r->state_sizes[r->state_count++] = count;
    } else if (value->kind == SL_VALUE_INPUT || value->kind == SL_VALUE_WEIGHT) {
        *kept = bytes_of(value);
        assert_int_equal(sl_evaluator_bind(evaluator, (sl_value){v}, *kept, &err), SL_OK);
    }
}

static results evaluate(const sl_graph *graph) {
    sl_evaluator *evaluator = NULL;
    sl_error err = {0};
    results r = {0};
    void *kept[MOST_VALUES] = {0};
    assert_true(graph->value_count < MOST_VALUES && graph->output_count <= MOST_OUTPUTS);
    if (sl_evaluator_create(graph, NULL, &evaluator, &err) != SL_OK) fail_msg("%s", err.message);
    for (uint32_t v = 1; v <= graph->value_count; v++)
        bind_value(evaluator, graph, v, &kept[v], &r);
    if (sl_evaluator_run(evaluator, &err) != SL_OK) fail_msg("%s", err.message);
    for (uint32_t o = 0; o < graph->output_count; o++) {
        const sl_value value = graph->outputs[o].value;
        r.sizes[o] = sl_type_elements(&graph->values[value.v].type);
        r.outputs[o] = copied(sl_evaluator_result(evaluator, value), r.sizes[o]);
    }
    r.output_count = graph->output_count;
    sl_evaluator_destroy(evaluator);
    for (uint32_t v = 0; v < MOST_VALUES; v++) free(kept[v]);
    return r;
}

static void free_results(results *r) {
    for (uint32_t i = 0; i < r->output_count; i++) free(r->outputs[i]);
    for (uint32_t i = 0; i < r->state_count; i++) free(r->states[i]);
}

/* To the last bit: the parts are evaluated by the same functions in the same order, save for sums
 * whose operands changed sides. */
static void same_results(const results *a, const results *b) {
    assert_int_equal(a->output_count, b->output_count);
    assert_int_equal(a->state_count, b->state_count);
    for (uint32_t o = 0; o < a->output_count; o++) {
        assert_int_equal(a->sizes[o], b->sizes[o]);
        assert_memory_equal(a->outputs[o], b->outputs[o], (size_t)a->sizes[o] * sizeof(double));
    }
    for (uint32_t s = 0; s < a->state_count; s++)
        assert_memory_equal(a->states[s], b->states[s], (size_t)a->state_sizes[s] * sizeof(double));
}

static char *print(const sl_graph *graph, sl_arena *arena) {
    sl_error err = {0};
    char *text = NULL;
    if (sl_graph_print(graph, arena, &text, &err) != SL_OK) fail_msg("%s", err.message);
    return text;
}

static void prints_and_parses(const sl_graph *graph) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const char *text = print(graph, &arena);
    sl_graph *again = parse(text);
    assert_string_equal(print(again, &arena), text);
    sl_graph_destroy(again);
    sl_arena_deinit(&arena);
}

static uint32_t count_op(const sl_graph *graph, const char *name) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += strcmp(sl_op_info_of(graph->nodes[n].op)->name, name) == 0;
    return count;
}

static bool is_fused_op(sl_op op) {
    static sl_rule rules[SL_RULE_COUNT];
    sl_rules_read(rules);
    for (int i = 0; i < SL_RULE_COUNT; i++)
        if (rules[i].whole.op == op) return true;
    return op == SL_OP_elementwise_region || op == SL_OP_batch_elementwise_region;
}

/* Fuses and takes apart, checking all that must hold whatever the graph; the fused graph is for the
 * caller to look at. */
static void round_trip(const char *text, sl_graph **out_fused, sl_fusion_report *report) {
    sl_error err = {0};
    sl_graph *graph = parse(text), *apart = parse(text);
    results before = evaluate(graph);
    const uint32_t nodes = graph->node_count;
    if (sl_fuse(graph, report, &err) != SL_OK) fail_msg("%s", err.message);
    verify(graph);
    assert_int_equal(nodes - graph->node_count, report->fused_nodes);
    prints_and_parses(graph);
    results after = evaluate(graph);
    same_results(&before, &after);
    assert_int_equal(sl_fuse(apart, NULL, &err), SL_OK);
    if (sl_unfuse(apart, &err) != SL_OK) fail_msg("%s", err.message);
    verify(apart);
    for (uint32_t n = 0; n < apart->node_count; n++) assert_false(is_fused_op(apart->nodes[n].op));
    assert_int_equal(apart->node_count, nodes);
    results last = evaluate(apart);
    same_results(&before, &last);
    free_results(&before), free_results(&after), free_results(&last);
    sl_graph_destroy(apart);
    *out_fused = graph;
}
#endif
