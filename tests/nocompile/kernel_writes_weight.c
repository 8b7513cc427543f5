// expect: discards.*qualifier
#include "core/ops.h"

/* A kernel sees its inputs through const views. */
void scale_first(const sl_linear_args *args);
void scale_first(const sl_linear_args *args) {
#ifdef WRONG
    float *first = args->w.data;
#else
    float *first = args->out.data;
#endif
    first[0] *= 2;
}
