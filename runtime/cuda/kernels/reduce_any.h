/* reduce_any.h - Arguments of the kernels in reduce_any.cu: reductions of any plain type.  Types
 * are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_REDUCE_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_REDUCE_ANY_H
#include "runtime/cuda/kernels/number.h"
#include "runtime/cuda/kernels/strides.h"

enum { SL_FOLD_THREADS = 128 };

/* Over any axes: a thread or, where they are few, a block makes a result. */
typedef struct {
    const void *x;
    void *out;
    int64_t outputs, count;
    int32_t type, how, mean, by_block;
    sl_walk stay, go; /* the dims that stay, and those that go */
} sl_fold_axes;

/* Lines of `count` elements, `inner` apart, as many lines side by side. */
typedef struct {
    const void *x;
    void *out;
    int64_t lines, count, inner;
    int32_t type, how;
    int32_t least, last, wide;  /* of a search: the minimum, the last of equals, i64 */
    int32_t exclusive, reverse; /* of running sums and products */
    int32_t reserved;
} sl_fold_lines;
#endif
