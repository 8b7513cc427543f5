/* folds.c - Reductions, running sums and products of any plain type. */
#include "runtime/cuda/kernels/folds.h"
#include "runtime/cuda/ops/walk.h"

/* ---- over any axes ---- */

/* All reductions have one layout. */
_Static_assert(sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_min_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_prod_args),
               "reductions share their arguments");

static sl_status plan_fold(sl_cuda_planner *planner, const sl_reduce_sum_args *a, int32_t how,
                           bool mean) {
    enum { FEW = 64, MANY = 1 << 14 }; /* elements and results of which threads need no company */
    const sl_dims *shape = &a->x.type.shape;
    bool gone[SL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < a->attrs.axes.rank; i++)
        gone[sl_axis(a->attrs.axes.dims[i], shape->rank)] = true;
    sl_fold_axes f = {.x = a->x.data, .out = a->out.data, .how = how, .mean = mean};
    f.type = number_of(&a->x.type);
    for (uint32_t i = 0; i < shape->rank; i++)
        walk_push(gone[i] ? &f.go : &f.stay, shape->dims[i], sl_dims_tail(shape, i + 1), 0);
    walk_end(&f.stay);
    walk_end(&f.go);
    f.outputs = walk_elements(&f.stay);
    f.count = walk_elements(&f.go);
    f.by_block = f.count > FEW && f.outputs < MANY;
    ADD_EACH(planner, SL_CUDA_FN(sl_fold), f.by_block ? f.outputs * SL_FOLD_THREADS : f.outputs,
             SL_FOLD_THREADS, f);
    return SL_OK;
}
PLAN(any_reduce_sum) {
    return plan_fold(planner, args, SL_FOLD_ADD, false);
}
PLAN(any_reduce_mean) {
    return plan_fold(planner, args, SL_FOLD_ADD, true);
}
PLAN(any_reduce_max) {
    return plan_fold(planner, args, SL_FOLD_MAX, false);
}
PLAN(any_reduce_min) {
    return plan_fold(planner, args, SL_FOLD_MIN, false);
}
PLAN(any_reduce_prod) {
    return plan_fold(planner, args, SL_FOLD_MUL, false);
}

/* ---- along one axis ---- */

static sl_fold_lines lines_of(const sl_cview *x, void *out, uint32_t axis) {
    const sl_dims *shape = &x->type.shape;
    sl_fold_lines f = {.x = x->data, .out = out, .type = number_of(&x->type)};
    f.count = shape->dims[axis];
    f.inner = sl_dims_tail(shape, axis + 1);
    f.lines = sl_type_elements(&x->type) / f.count;
    return f;
}

_Static_assert(sizeof(sl_argmax_args) == sizeof(sl_argmin_args), "one struct serves both");

static sl_status plan_search(sl_cuda_planner *planner, const sl_argmax_args *a, bool least) {
    const uint32_t axis = a->x.type.shape.rank - 1 - (uint32_t)a->attrs.axis;
    sl_fold_lines f = lines_of(&a->x, a->out.data, axis);
    f.least = least;
    f.last = (int32_t)a->attrs.last;
    f.wide = a->out.type.dtype == SL_DTYPE_i64;
    ADD_EACH(planner, SL_CUDA_FN(sl_search), f.lines, SL_FOLD_THREADS, f);
    return SL_OK;
}
PLAN(any_argmax) {
    return plan_search(planner, args, false);
}
PLAN(any_argmin) {
    return plan_search(planner, args, true);
}

_Static_assert(sizeof(sl_cumsum_args) == sizeof(sl_cumprod_args) &&
                   sizeof(sl_cumsum_args) == sizeof(sl_cumsum_backward_args),
               "one struct serves all");

static sl_status plan_running(sl_cuda_planner *planner, const sl_cumsum_args *a, int32_t how,
                              bool backward) {
    sl_fold_lines f = lines_of(&a->x, a->out.data, sl_axis(a->attrs.axis, a->x.type.shape.rank));
    f.how = how;
    f.exclusive = (int32_t)a->attrs.exclusive;
    f.reverse = (a->attrs.reverse != 0) != backward;
    ADD_EACH(planner, SL_CUDA_FN(sl_running), f.lines, SL_FOLD_THREADS, f);
    return SL_OK;
}
PLAN(cumsum) {
    return plan_running(planner, args, SL_FOLD_ADD, false);
}
PLAN(cumprod) {
    return plan_running(planner, args, SL_FOLD_MUL, false);
}
PLAN(cumsum_backward) {
    return plan_running(planner, args, SL_FOLD_ADD, true);
}

/* ---- products of matrices ---- */

PLAN(any_matmul) {
    const sl_matmul_args *p = args;
    const sl_dims *out = &p->out.type.shape;
    sl_product_any launch = {.left = p->a.data, .right = p->b.data, .out = p->out.data};
    launch.type = number_of(&p->out.type);
    launch.rows = out->dims[out->rank - 2];
    launch.cols = out->dims[out->rank - 1];
    launch.inner = last_dim(&p->a.type);
    launch.count = sl_type_elements(&p->out.type);
    for (uint32_t i = 0; i + 2 < out->rank; i++)
        walk_push(&launch.batch, out->dims[i], broadcast_stride(&p->a.type.shape, out, i),
                  broadcast_stride(&p->b.type.shape, out, i));
    walk_end(&launch.batch);
    ADD_EACH(planner, SL_CUDA_FN(sl_product), launch.count, SL_FOLD_THREADS, launch);
    return SL_OK;
}

PLAN(grouped_matmul) {
    const sl_grouped_matmul_args *p = args;
    sl_product_any launch = {.left = p->x.data, .right = p->w.data, .out = p->out.data, .rows = 1};
    launch.type = number_of(&p->out.type);
    launch.cols = last_dim(&p->w.type);
    launch.inner = last_dim(&p->x.type);
    launch.count = sl_type_elements(&p->out.type);
    launch.choice = indices_of(planner, &p->experts);
    launch.choices = dim(&p->w.type, 0);
    walk_push(&launch.batch, dim(&p->x.type, 0), launch.inner, 0);
    walk_end(&launch.batch);
    ADD_EACH(planner, SL_CUDA_FN(sl_product), launch.count, SL_FOLD_THREADS, launch);
    return SL_OK;
}
