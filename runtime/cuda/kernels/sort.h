/* sort.h - Arguments of the kernels in sort.cu: sorting of any plain type.  Types are numbered as
 * in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SORT_H
#define SL_RUNTIME_CUDA_KERNELS_SORT_H
#include <stdint.h>

enum { SL_ORDER_RUN = 512, SL_ORDER_THREADS = 128 };

/* Lines of `count` elements, `inner` apart, as many lines side by side.  Of each line, one after
 * the other, `now` has the numbers of its elements, sorted in runs of `width`, and `next` has room
 * for as many.  NaN is greater than all others, equals stay in order. */
typedef struct {
    const void *x;
    int32_t *now, *next;
    int64_t elements, count, inner, width;
    int32_t type, descending;
} sl_order;

/* The first `kept` elements of each line, and their numbers; either may be NULL. */
typedef struct {
    sl_order order;
    void *values;
    int64_t *from;
    int64_t kept, results;
} sl_ordered;
#endif
