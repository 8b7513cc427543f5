/* reduce_any.h - Arguments of the kernels in reduce_any.cu: reductions of any plain type.  Types
 * are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_REDUCE_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_REDUCE_ANY_H
#include "runtime/cuda/kernels/number.h"
#include "runtime/cuda/kernels/strides.h"

enum { SL_FOLD_THREADS = 128 };

/* Over any axes: one thread per result or, if `by_block`, one block. */
typedef struct {
    const void *x;
    void *out;
    int64_t outputs, count;
    int32_t type, how, mean, by_block;
    sl_walk stay, go; /* the kept dims, and the reduced dims */
} sl_fold_axes;

/* Lines of `count` elements that are `inner` apart; `inner` lines are interleaved. */
typedef struct {
    const void *x;
    void *out;
    int64_t lines, count, inner;
    int32_t type, how;
    int32_t least, last, wide;  /* argmin/argmax: minimum, last of ties, i64 result */
    int32_t exclusive, reverse; /* cumulative sum and product */
    int32_t reserved;
} sl_fold_lines;
#endif
