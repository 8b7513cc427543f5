// expect: incompatible type
#include "compiler/build.h"

/* Neither a buffer of a program nor a plain number is a graph value. */
sl_value negate(sl_graph *graph, sl_value x, sl_buffer_id buffer);
sl_value negate(sl_graph *graph, sl_value x, sl_buffer_id buffer) {
    (void)x, (void)buffer;
#ifdef WRONG
    const sl_neg_in in = {.x = buffer};
#else
    const sl_neg_in in = {.x = x};
#endif
    return sl_build_neg(graph, in, (sl_neg_attrs){0}).out;
}
