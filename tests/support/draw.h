/* draw.h - Graphs at random over the whole vocabulary, well-typed, with their operands.
 *
 * vocabulary.def says how the operands and attributes of an op are drawn; inference has the last
 * word.  Every node is evaluated as it is made, so that indices are in range, systems can be solved
 * and numbers stay tame.  Operands are earlier results where any fits, or can be made to. */
#ifndef SL_TESTS_SUPPORT_DRAW_H
#define SL_TESTS_SUPPORT_DRAW_H
#include "tests/support/reference.h"

enum { DRAWN_VALUES = 2048 };

typedef struct {
    sl_graph *graph;
    reference plain; /* every value */
    void **bytes;    /* [value]: of inputs, weights and states, to begin with; in plain's arena */
} drawn_graph;

/* The same seed and number of nodes give the same graph. */
drawn_graph *draw_graph(uint64_t seed, uint32_t nodes);
/* A graph that ends with a node of the op, whose first result is its output; NULL: all tries were
 * refused. */
drawn_graph *draw_graph_of(sl_op op, uint64_t seed);
void drawn_destroy(drawn_graph *drawn);
/* Why an op is never drawn; NULL when it is. */
const char *draw_reason(sl_op op);
/* How many rows, of all that were tried, inference or evaluation refused. */
typedef struct {
    uint64_t tried[SL_OP_COUNT], kept[SL_OP_COUNT];
} draw_counts;
extern draw_counts draw_counted;
#endif
