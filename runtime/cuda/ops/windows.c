/* windows.c - Pools of any plain type. */
#include "runtime/cuda/kernels/windows.h"
#include "core/window.h"
#include "runtime/cuda/ops/walk.h"
#include <stddef.h>
#include <string.h>

_Static_assert((int)SL_WINDOW_AXES == (int)SL_MAX_SPATIAL, "every window fits");

/* Attributes of all pools begin alike. */
static sl_status plan_pool(sl_cuda_planner *planner, const sl_pool_max_args *a, sl_pooled *p) {
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    const sl_window w = sl_window_of(&lists, a->attrs.kernel.items, &a->x.type, &a->out.type);
    p->x = a->x.data;
    p->out = a->out.data;
    p->type = number_of(&a->x.type);
    p->count = sl_type_elements(&a->out.type);
    memcpy(p->in, w.in, sizeof p->in);
    memcpy(p->outs, w.out, sizeof p->outs);
    memcpy(p->taps, w.kernel, sizeof p->taps);
    memcpy(p->stride, w.stride, sizeof p->stride);
    memcpy(p->dilation, w.dilation, sizeof p->dilation);
    memcpy(p->before, w.before, sizeof p->before);
    memcpy(p->after, w.after, sizeof p->after);
    SL_CUDA_ADD(planner, "sl_pool", parts_of(p->count, SL_WINDOW_THREADS), SL_WINDOW_THREADS, *p);
    return SL_OK;
}
#define POOL(NAME, HOW)                                                                            \
    _Static_assert(sizeof(sl_##NAME##_args) == sizeof(sl_pool_max_args), "pools are alike");       \
    PLAN(NAME) {                                                                                   \
        sl_pooled p = {.how = (HOW)};                                                              \
        return plan_pool(planner, args, &p);                                                       \
    }
POOL(pool_max, SL_FOLD_MAX)
POOL(pool_min, SL_FOLD_MIN)
POOL(pool_sum, SL_FOLD_ADD)
POOL(pool_prod, SL_FOLD_MUL)
#undef POOL

_Static_assert(offsetof(sl_pool_mean_args, attrs.dilations) ==
                   offsetof(sl_pool_max_args, attrs.dilations),
               "the mean's attributes begin like those of others");
PLAN(pool_mean) {
    const sl_pool_mean_args *a = args;
    sl_pooled p = {.how = SL_FOLD_ADD, .mean = 1, .include_pad = (int32_t)a->attrs.include_pad};
    return plan_pool(planner, args, &p);
}
