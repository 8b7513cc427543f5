/* needs.h - What public functions do when a required pointer is NULL. */
#ifndef SL_API_NEEDS_H
#define SL_API_NEEDS_H
#include "base/error.h"

/* In functions with a status: SL_NEED(model && out); */
#define SL_NEED(pointers)                                                                          \
    do {                                                                                           \
        if (!(pointers))                                                                           \
            return sl_fail(err, SL_INVALID, "%s: a required pointer is NULL (%s)", __func__,       \
                           #pointers);                                                             \
    } while (0)

/* In others: returns result, the "nothing" of the function. */
#define SL_NEED_OR(result, pointers)                                                               \
    do {                                                                                           \
        if (!(pointers)) return result;                                                            \
    } while (0)

/* In functions that build a graph: records a mistake and returns result. */
#define SL_NEED_IN(graph, result, pointers)                                                        \
    do {                                                                                           \
        if (!(graph)) return result;                                                               \
        if (!(pointers)) {                                                                         \
            sl_graph_mistake(graph, SL_INVALID, "%s: a required pointer is NULL (%s)", __func__,   \
                             #pointers);                                                           \
            return result;                                                                         \
        }                                                                                          \
    } while (0)
#endif
