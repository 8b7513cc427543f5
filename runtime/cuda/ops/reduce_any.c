/* reduce_any.c - Reductions, cumulative sums and products of any plain type. */
#include "runtime/cuda/kernels/reduce_any.h"
#include "runtime/cuda/ops/strides.h"

/* ---- over any axes ---- */

/* The argument structs of all reductions have the same layout. */
_Static_assert(sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_min_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_prod_args),
               "reductions share their arguments");

static sl_status plan_fold(sl_gpu_planner *planner, const sl_reduce_sum_args *a, int32_t how,
                           bool mean) {
    enum {
        FEW = 64,
        MANY = 1 << 14
    }; /* with fewer elements, or more results, one thread per result */
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

static sl_status plan_search(sl_gpu_planner *planner, const sl_argmax_args *a, bool least) {
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
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

static sl_status plan_running(sl_gpu_planner *planner, const sl_cumsum_args *a, int32_t how,
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
