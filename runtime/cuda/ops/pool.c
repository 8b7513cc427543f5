/* pool.c - Pooling of any plain type, and its gradients. */
#include "core/pool.h"
#include "runtime/cuda/kernels/windows.h"
#include "runtime/cuda/ops/strides.h"

_Static_assert((int)PLAIN_THREADS == (int)SL_WINDOW_THREADS, "blocks are as kernels take them");

static sl_status plan_pool(sl_gpu_planner *planner, sl_pooled_fn function, const sl_pool_args *a,
                           sl_pooled *p) {
    p->x = a->x.data;
    p->out = a->out.data;
    p->type = number_of(&a->x.type);
    p->count = sl_type_elements(&a->out.type);
    p->w = sl_pool_window(&a->attrs, &a->x.type, &a->out.type);
    ADD_PLAIN(planner, function, p->count, *p);
    return SL_OK;
}
#define POOL(NAME, HOW)                                                                            \
    PLAN(NAME) {                                                                                   \
        return plan_pool(planner, SL_CUDA_FN(sl_pool), args, &(sl_pooled){.how = (HOW)});          \
    }
POOL(pool_max, SL_FOLD_MAX)
POOL(pool_min, SL_FOLD_MIN)
POOL(pool_sum, SL_FOLD_ADD)
POOL(pool_prod, SL_FOLD_MUL)
#undef POOL

PLAN(pool_mean) {
    const sl_pool_mean_args *a = args;
    sl_pooled p = {.how = SL_FOLD_ADD, .mean = 1, .include_pad = (int32_t)a->attrs.include_pad};
    return plan_pool(planner, SL_CUDA_FN(sl_pool), args, &p);
}
PLAN(lp_pool) {
    const sl_lp_pool_args *a = args;
    sl_pooled p = {.how = SL_FOLD_ADD, .power = (double)a->attrs.p};
    return plan_pool(planner, SL_CUDA_FN(sl_pool), args, &p);
}
PLAN(max_pool_indices) {
    const sl_max_pool_indices_args *a = args;
    sl_pooled p = {.column_major = (int32_t)a->attrs.column_major};
    return plan_pool(planner, SL_CUDA_FN(sl_pool_largest), args, &p);
}

/* ---- gradients ---- */

/* First finds the position of each window's maximum, so that the gradient need not search for it.
 */
PLAN(pool_max_backward) {
    const sl_pool_max_backward_args *a = args;
    const int64_t windows = sl_type_elements(&a->dy.type);
    sl_pooled p = {.x = a->x.data, .type = number_of(&a->x.type), .count = windows};
    p.w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->dy.type);
    p.out = sl_gpu_scratch(planner, (uint64_t)windows * sizeof(int64_t));
    ADD_PLAIN(planner, SL_CUDA_FN(sl_pool_largest), windows, p);
    const sl_pool_gradient g = {.dy = a->dy.data,
                                .largest = p.out,
                                .dx = a->dx.data,
                                .count = sl_type_elements(&a->dx.type),
                                .type = p.type,
                                .w = p.w};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_pool_backward), g.count, g);
    return SL_OK;
}
PLAN(pool_mean_backward) {
    const sl_pool_mean_backward_args *a = args;
    const sl_pool_gradient g = {
        .dy = a->dy.data,
        .dx = a->dx.data,
        .count = sl_type_elements(&a->dx.type),
        .type = number_of(&a->dx.type),
        .include_pad = (int32_t)a->attrs.include_pad,
        .w = sl_pool_window((const void *)&a->attrs, &a->dx.type, &a->dy.type)};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_pool_backward), g.count, g);
    return SL_OK;
}
