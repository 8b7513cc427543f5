/* sort.h - Arguments of the kernels in sort.cu: sorting of any plain type.  Types are numbered as
 * in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SORT_H
#define SL_RUNTIME_CUDA_KERNELS_SORT_H
#include <stdint.h>

enum { SL_ORDER_RUN = 512, SL_ORDER_THREADS = 128 };

/* Stable sort of lines of `count` elements that are `inner` apart; `inner` lines are interleaved.
 * `now` has the permutation of each line, sorted in runs of `width`; `next` receives the result of
 * a merge pass.  NaN is greater than all numbers. */
typedef struct {
    const void *x;
    int32_t *now, *next;
    int64_t elements, count, inner, width;
    int32_t type, descending;
} sl_order;

/* The first `kept` elements of each sorted line, and their indices; either output may be NULL. */
typedef struct {
    sl_order order;
    void *values;
    int64_t *from;
    int64_t kept, results;
} sl_ordered;
#endif
