/* one_node.h - A graph of one node: inputs x0, x1, ..., outputs y0, ... */
#ifndef SL_TESTS_SUPPORT_ONE_NODE_H
#define SL_TESTS_SUPPORT_ONE_NODE_H
#include "compiler/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct {
    sl_op op;
    const void *attrs;
    uint32_t in_count, out_count;
    const sl_type *in;
} one_node;

__attribute__((unused)) static sl_graph *one_node_graph(const one_node *n) {
    enum { MOST = 64 };
    sl_graph *graph = NULL;
    sl_value in[MOST], out[MOST];
    char name[16];
    sl_error err = {0};
    assert_true(n->in_count <= MOST && n->out_count <= MOST);
    assert_int_equal(sl_graph_create("one", NULL, &graph, &err), SL_OK);
    for (uint32_t i = 0; i < n->in_count; i++) {
        (void)snprintf(name, sizeof name, "x%u", i);
        in[i] = sl_graph_declare(graph, SL_VALUE_INPUT, name, n->in[i]);
    }
    sl_graph_append_list(graph, n->op, (sl_values){n->in_count, in}, n->attrs,
                         (sl_value_slots){n->out_count, out});
    for (uint32_t o = 0; o < n->out_count; o++) {
        (void)snprintf(name, sizeof name, "y%u", o);
        sl_graph_output(graph, name, out[o]);
    }
    if (sl_graph_verify(graph, &err) != SL_OK)
        fail_msg("%s: %s", sl_op_info_of(n->op)->name, err.message);
    return graph;
}
#endif
