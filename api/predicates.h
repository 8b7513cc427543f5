/* predicates.h - The kinds of ops, for the table that `sluice ir ops` prints. */
#ifndef SL_API_PREDICATES_H
#define SL_API_PREDICATES_H
#include "core/ops.h"

/* KIND(name, words) */
#define SL_PREDICATES(KIND)                                                                        \
    KIND(ELEMENTWISE, "elementwise")                                                               \
    KIND(BLAS, "blas")                                                                             \
    KIND(REDUCTION, "reduction")                                                                   \
    KIND(BOUNDARY, "fusion boundary")                                                              \
    KIND(TRANSFORM, "transform-eligible")                                                          \
    KIND(REORDERABLE, "reorderable")                                                               \
    KIND(STATEFUL, "stateful")                                                                     \
    KIND(STREAMS, "streams")

enum {
#define KIND(NAME, WORDS) SL_BIT_##NAME,
    SL_PREDICATES(KIND)
#undef KIND
#define KIND(NAME, WORDS) SL_IS_##NAME = 1 << SL_BIT_##NAME,
        SL_PREDICATES(KIND)
#undef KIND
};

/* A mask of SL_IS_.. bits, never 0; predicates.def defines them. */
uint32_t sl_op_predicates(sl_op op);
#endif
