/* differential_test.c - Random graphs over the whole vocabulary: what compiled programs give is
 * what the graphs mean.  SLUICE_RANDOM_GRAPHS says how many, SLUICE_RANDOM_SEED where they begin,
 * SLUICE_RANDOM_REPORT=1 shows how many used each op. */
#include "core/codec.h"
#include "tests/support/differential.h"
#include "tests/support/rounds.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- which ops were used ---- */

typedef struct {
    sl_attr_visitor visitor; /* first */
    bool *used;
} counter;

static void count_graph(const sl_graph *graph, bool *used);

static void count_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    const counter *c = (const counter *)visitor;
    (void)name;
    if (kind == SL_ATTR_graph && ((const sl_attr *)value)->graph)
        count_graph(((const sl_attr *)value)->graph, c->used);
}

static void count_graph(const sl_graph *graph, bool *used) {
    counter c = {{count_body}, used};
    bool *live = calloc(graph->value_count + 1, sizeof *live);
    assert_non_null(live);
    for (uint32_t o = 0; o < graph->output_count; o++) live[graph->outputs[o].value.v] = true;
    for (uint32_t n = graph->node_count; n > 0; n--) {
        const sl_node *node = &graph->nodes[n - 1];
        bool needed = sl_node_changes_state(node);
        for (uint32_t o = 0; o < node->output_count; o++) needed |= live[node->outputs[o].v];
        if (!needed) continue;
        used[node->op] = true;
        for (uint32_t i = 0; i < node->input_count; i++) live[node->inputs[i].v] = true;
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
        memcpy(attrs, node->attrs, sl_op_info_of(node->op)->attrs_bytes);
        sl_op_info_of(node->op)->visit_attrs(&c.visitor, attrs);
    }
    free(live);
}

static void report(const uint64_t used[SL_OP_COUNT], uint64_t graphs, const difference *all) {
    printf("%llu graphs; %llu elements compared, %llu beyond one op's limit, %llu undecided\n",
           (unsigned long long)graphs, (unsigned long long)all->checked,
           (unsigned long long)all->wide, (unsigned long long)all->open);
    for (int op = 0; op < SL_OP_COUNT; op++) {
        const char *reason = draw_reason((sl_op)op);
        if (used[op])
            printf("%-36s %llu\n", sl_op_info_of((sl_op)op)->name, (unsigned long long)used[op]);
        else
            printf("%-36s none: %s\n", sl_op_info_of((sl_op)op)->name,
                   reason ? reason : "by chance");
    }
}

/* ---- failures ---- */

static void show(const drawn_graph *drawn) {
    sl_arena arena;
    sl_error err = {0};
    char *text = NULL;
    sl_arena_init(&arena, NULL);
    if (sl_graph_print(drawn->graph, &arena, &text, &err)) fail_msg("%s", err.message);
    fprintf(stderr, "%s\n", text);
    for (uint32_t v = 1; v <= drawn->graph->value_count; v++) {
        const sl_eval_tensor *t = &drawn->plain.tensors[v];
        if (!drawn->bytes[v] || !t->data) continue;
        fprintf(stderr, "%s =", drawn->graph->values[v].name);
        for (int64_t i = 0; i < sl_type_slots(&t->type) && i < 40; i++)
            if (sl_is_wide(t->type.dtype))
                fprintf(stderr, " %lld", (long long)sl_slot_integer(t->type.dtype, &t->data[i]));
            else
                fprintf(stderr, " %.9g", t->data[i]);
        fprintf(stderr, "\n");
    }
    sl_arena_deinit(&arena);
}

static void tell(uint64_t seed, const drawn_graph *drawn, const difference *found) {
    fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, found->why);
    drawn_graph *small = differential_shrink(drawn, found);
    show(small ? small : drawn);
    if (small) drawn_destroy(small);
}

static void test_random_graphs(void **state) {
    (void)state;
    static uint64_t used[SL_OP_COUNT];
    const uint64_t count = number("SLUICE_RANDOM_GRAPHS", is_long_run() ? 10000 : 300);
    const uint64_t first = number("SLUICE_RANDOM_SEED", 1);
    const uint64_t most = number("SLUICE_RANDOM_FAILURES", 1);
    uint64_t failed = 0;
    difference all = {0};
    for (uint64_t seed = first; seed < first + count && failed < most; seed++) {
        drawn_graph *drawn = draw_graph(seed, 2 + (uint32_t)(seed % 15));
        bool here[SL_OP_COUNT] = {false};
        differential_check(drawn, &all);
        if (all.why[0]) {
            failed++;
            tell(seed, drawn, &all);
        }
        count_graph(drawn->graph, here);
        for (int op = 0; op < SL_OP_COUNT; op++) used[op] += here[op];
        drawn_destroy(drawn);
    }
    if (getenv("SLUICE_RANDOM_REPORT")) report(used, count, &all);
    if (failed) fail_msg("%llu graphs differ", (unsigned long long)failed);
}

/* ---- the judge ---- */

/* A graph with its inputs, which are floats, in order. */
static drawn_graph *written(const char *text, const float *const *inputs) {
    drawn_graph *drawn = calloc(1, sizeof *drawn);
    sl_error err = {0};
    assert_non_null(drawn);
    if (sl_graph_parse(text, strlen(text), NULL, &drawn->graph, &err)) fail_msg("%s", err.message);
    const sl_graph *graph = drawn->graph;
    reference_init(&drawn->plain, graph, DRAWN_VALUES, 0);
    drawn->bytes = SL_ARENA_NEW_ARRAY(&drawn->plain.arena, void *, DRAWN_VALUES);
    assert_non_null(drawn->bytes);
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *info = &graph->values[v];
        if (info->kind == SL_VALUE_RESULT) continue;
        if (info->kind == SL_VALUE_INPUT) {
            const size_t bytes = sl_type_bytes(&info->type);
            drawn->bytes[v] = sl_arena_alloc(&drawn->plain.arena, bytes, 64);
            assert_non_null(drawn->bytes[v]);
            memcpy(drawn->bytes[v], *inputs++, bytes);
        }
        reference_declare(&drawn->plain, (sl_value){v}, drawn->bytes[v]);
    }
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (reference_node(&drawn->plain, &graph->nodes[n], &err)) fail_msg("%s", err.message);
    return drawn;
}

/* What the compiled graph gives is within the judge's limits. */
static void accepts(const drawn_graph *drawn) {
    difference found = {0};
    differential_check(drawn, &found);
    if (found.why[0]) fail_msg("%s", found.why);
}

/* How far moved evaluations are from a number in element `at` of the first output: the farthest,
 * and how many of them are NaN. */
enum { EVALUATIONS = 32 };
typedef struct {
    double far;
    uint32_t nans;
} moves;
static moves moves_of(const drawn_graph *drawn, bool faint, uint32_t at, double from) {
    const sl_graph *graph = drawn->graph;
    moves found = {0};
    for (uint64_t seed = 1; seed <= EVALUATIONS; seed++) {
        reference r;
        sl_error err = {0};
        reference_init(&r, graph, graph->value_count + 1, seed);
        r.faint = faint;
        for (uint32_t v = 1; v <= graph->value_count; v++)
            if (graph->values[v].kind != SL_VALUE_RESULT)
                reference_declare(&r, (sl_value){v}, drawn->bytes[v]);
        for (uint32_t n = 0; n < graph->node_count; n++)
            if (reference_node(&r, &graph->nodes[n], &err)) fail_msg("%s", err.message);
        const double far = fabs(r.tensors[graph->outputs[0].value.v].data[at] - from);
        found.far = fmax(found.far, far);
        found.nans += isnan(far);
        reference_deinit(&r);
    }
    return found;
}

/* Kernels leave 1e-17 of zeros off the diagonal; rows of codes are scaled by their largest. */
static void test_faint_elements(void **state) {
    (void)state;
    static const float x[] = {-4.24327803f,  -0.328395545f, -1.74882555f, 1.14182734f, 4.69785738f,
                              -0.336092502f, 0.569749355f,  -1.56179833f, -5.17524862f};
    drawn_graph *drawn =
        written("graph \"g\" { input %x : f32[3,3] %1 = dense_solve(%x, %x) "
                "%2 = reshape(%1) {shape = [9]} %3 = slice(%2) {axis = 0, start = 5, length = 3} "
                "%4, %5, %6 = add_rms_norm_quantise(%1, %1, %3) {eps = 1e-06, offset = 0} "
                "output \"solved\" = %1 output \"codes\" = %6 }",
                (const float *const[]){x});
    accepts(drawn);
    for (int faint = 0; faint < 2; faint++) { /* no element is moved farther than before */
        assert_true(moves_of(drawn, faint, 0, 1).far <= 8e-6);
        assert_true(moves_of(drawn, faint, 1, 0).far <= 8e-6);
    }
    drawn_destroy(drawn);
}

#define LOOP(BODY)                                                                                 \
    "graph \"g\" { input %x : f32[2,6] %y = custom_fn(%x) {body = graph \"body\" "                 \
    "{ input %x0 : f32[2,6] %1 = " BODY " output \"o\" = %1 }} output \"y\" = %y }"
#define FFT "fft(%x0) {inverse = 0, norm = 0}"

/* The real part of a spectrum's first number does not depend on imaginary parts; by the definition
 * it does, with the weight 0.  Rows without a NaN, and bodies of other ops, are as exact as ever.
 */
static void test_lost_nans(void **state) {
    (void)state;
    static const float x[] = {0.25f, 1, 2, 0.5f, NAN, -1, 3, 2, 1, 0, -1, -2};
    static const float finite[] = {0.25f, 1, 2, 0.5f, 0, -1, 3, 2, 1, 0, -1, -2};
    drawn_graph *lost = written(LOOP(FFT), (const float *const[]){x});
    drawn_graph *kept = written(LOOP("neg(%x0)"), (const float *const[]){x});
    drawn_graph *none = written(LOOP(FFT), (const float *const[]){finite});
    accepts(lost), accepts(kept), accepts(none);
    const moves first = moves_of(lost, false, 0, 0), other = moves_of(lost, false, 6, 6);
    assert_true(first.nans > 0 && first.nans < EVALUATIONS);
    assert_true(other.nans == 0 && other.far <= 1e-4);
    assert_int_equal(moves_of(kept, false, 4, 0).nans, EVALUATIONS);
    assert_true(moves_of(none, false, 0, 3.25).nans == 0);
    assert_true(moves_of(none, false, 0, 3.25).far <= 1e-4);
    drawn_destroy(lost), drawn_destroy(kept), drawn_destroy(none);
}

/* Scores that differ by less than a step of 1 are chosen as if they were equal. */
static void test_equal_scores(void **state) {
    (void)state;
    static const float logits[] = {20, 0, 88, -1}, bias[4] = {0};
    drawn_graph *drawn = written("graph \"g\" { input %x : f32[1,4] input %b : f32[4] "
                                 "%1, %2 = route_groups(%x, %b) {k = 1, groups = 2, "
                                 "groups_kept = 2, scale = 1} output \"y\" = %1 }",
                                 (const float *const[]){logits, bias});
    accepts(drawn);
    assert_true(moves_of(drawn, false, 0, 1).far == 1); /* 0 or 2 */
    assert_true(moves_of(drawn, false, 0, 0).far == 2 && moves_of(drawn, false, 0, 2).far == 2);
    drawn_destroy(drawn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_faint_elements),
        cmocka_unit_test(test_lost_nans), cmocka_unit_test(test_equal_scores)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    differential_end();
    return failed;
}
