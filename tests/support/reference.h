/* reference.h - A graph evaluated node by node as it grows, each value rounded to its type.
 *
 * With a seed, each result is moved at random, up or down, by what a kernel of its op may be off
 * (reference_limit), and before that the operands of ops that sum or choose by four steps of the
 * type they compute in; what is less than such a step of
 * every operand counts as nothing.  The spread of such evaluations says how far a right program may
 * be from the plain one, however badly conditioned the graph is.
 *
 * An element of a sum that is within its limit of 0 may as well have any smaller magnitude, which
 * matters where something scales by the largest of such elements: `faint` evaluations draw it.
 * Where a body computes an op that takes finite numbers alone (FINITE in vocabulary.def) and an
 * operand is not finite, kernels need not carry a NaN everywhere that the definition does: a NaN
 * among the results is a NaN or a number. */
#ifndef SL_TESTS_SUPPORT_REFERENCE_H
#define SL_TESTS_SUPPORT_REFERENCE_H
#include "compiler/eval.h"
#include "tests/support/random_program.h"

typedef struct {
    const sl_graph *graph;
    sl_arena arena;
    sl_eval_tensor *tensors; /* [value] */
    uint32_t capacity;
    test_random moves;
    bool moved, faint; /* faint: set it after reference_init */
    bool may_lose_nan; /* the node at hand */
    double least; /* of the node at hand: the least of the largest magnitudes of its operands */
} reference;

/* For graphs of less than `values` values.  seed 0: nothing is moved. */
void reference_init(reference *r, const sl_graph *graph, uint32_t values, uint64_t seed);
void reference_deinit(reference *r);
/* An input, weight or state; of a constant data is NULL. */
void reference_declare(reference *r, sl_value value, const void *data);
SL_CHECKED sl_status reference_node(reference *r, const sl_node *node, sl_error *err);

/* Whether kernels of the op are only compared on finite operands. */
bool reference_takes_finite(sl_op op);
/* The largest magnitude of a tensor that is finite. */
double reference_largest(const sl_type *type, const double *data);
/* How far an element may be off that one op computes: what the fixtures allow.  2e-6 of the largest
 * magnitude for f32, 1e-12 for f64; halves half a step more. */
double reference_limit(sl_dtype dtype, double largest, double value);
/* Whether every element is within so many limits of the other tensor's; integers are equal. */
bool reference_near(const sl_eval_tensor *a, const sl_eval_tensor *b, double limits);
#endif
