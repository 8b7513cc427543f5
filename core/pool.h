/* pool.h - The common part of all pooling ops: the same leading attributes, and for those with
 * one input the same arguments. */
#ifndef SL_CORE_POOL_H
#define SL_CORE_POOL_H
#include "core/ops.h"
#include "core/window.h"
#include <stddef.h>

typedef sl_pool_max_attrs sl_pool_attrs;
typedef sl_pool_max_args sl_pool_args;

#define SL_SAME_HEAD(OP)                                                                           \
    _Static_assert(offsetof(sl_##OP##_attrs, ceil) == offsetof(sl_pool_attrs, ceil), #OP)
SL_SAME_HEAD(pool_max_backward);
#undef SL_SAME_HEAD
#define SL_SAME_HEAD(OP)                                                                           \
    _Static_assert(offsetof(sl_##OP##_attrs, ceil) == offsetof(sl_pool_attrs, ceil) &&             \
                       offsetof(sl_##OP##_args, attrs) == offsetof(sl_pool_args, attrs),           \
                   #OP)
SL_SAME_HEAD(pool_min);
SL_SAME_HEAD(pool_sum);
SL_SAME_HEAD(pool_prod);
SL_SAME_HEAD(pool_mean);
SL_SAME_HEAD(lp_pool);
SL_SAME_HEAD(max_pool_indices);
SL_SAME_HEAD(pool_mean_backward);
#undef SL_SAME_HEAD

static inline sl_window sl_pool_window(const sl_pool_attrs *attrs, const sl_type *x,
                                       const sl_type *y) {
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    return sl_window_of(&lists, attrs->kernel.items, x, y);
}
#endif
