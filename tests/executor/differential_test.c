/* differential_test.c - Random graphs over the whole vocabulary: what compiled programs give is
 * what the graphs mean.  SLUICE_RANDOM_GRAPHS says how many, SLUICE_RANDOM_SEED where they begin,
 * SLUICE_RANDOM_REPORT=1 shows how many used each op. */
#include "core/codec.h"
#include "tests/support/differential.h"
#include "tests/support/rounds.h"
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
    differential_end();
    if (getenv("SLUICE_RANDOM_REPORT")) report(used, count, &all);
    if (failed) fail_msg("%llu graphs differ", (unsigned long long)failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
