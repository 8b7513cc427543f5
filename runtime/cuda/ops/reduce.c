/* reduce.c - Reductions. */
#include "runtime/cuda/kernels/reduce.h"
#include "runtime/cuda/ops/strides.h"

/* ---- over any axes ---- */

static int32_t power_for(int64_t count, int32_t most) {
    int32_t power = 1;
    while (power < most && power < count) power *= 2;
    return power;
}

/* Sets the threads per output (`slices`) and the outputs per block (`columns`). */
static void divide_threads(sl_reduction *r) {
    r->inner = r->go.x[r->go.rank - 1] == 1;
    r->slices = power_for(r->count, r->inner ? SL_REDUCE_THREADS : 8);
    r->columns = SL_REDUCE_THREADS / r->slices;
}

static int64_t blocks_of(const sl_reduction *r) {
    return parts_of(r->outputs, r->columns);
}

static void add_reduction(sl_gpu_planner *planner, sl_reduction_fn function,
                          const sl_reduction *r) {
    sl_gpu_launch *launch = SL_CUDA_ADD(planner, function, blocks_of(r), SL_REDUCE_THREADS, *r);
    launch->grid[1] = (uint32_t)parts_of(r->count, r->span);
}

/* A second launch reduces the partial results of the first. */
static sl_reduction second_of(const sl_reduction *first, int64_t parts) {
    sl_reduction r = {
        .x = first->out, .outputs = first->outputs, .count = parts, .span = parts, .divisor = 1};
    walk_push(&r.stay, r.outputs, 1, 0);
    walk_end(&r.stay);
    walk_push(&r.go, parts, r.outputs, 0);
    walk_end(&r.go);
    divide_threads(&r);
    return r;
}

/* How many parts keep the device busy when there are few outputs; each part has work for its
 * threads. */
static int64_t parts_for(const sl_reduction *r, uint32_t multiprocessors) {
    const int64_t wanted = parts_of(2 * (int64_t)multiprocessors, blocks_of(r));
    const int64_t most = r->count / (64 * (int64_t)r->slices);
    return most < 2 ? 1 : least(wanted, most);
}

/* The argument structs of the three reductions have the same layout. */
_Static_assert(sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_mean_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_max_args),
               "reductions share their arguments");

static void plan_reduction(sl_gpu_planner *planner, sl_reduction_fn function,
                           const sl_reduce_sum_args *a, bool mean) {
    const sl_dims *shape = &a->x.type.shape;
    bool gone[SL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < a->attrs.axes.rank; i++)
        gone[sl_axis(a->attrs.axes.dims[i], shape->rank)] = true;
    sl_reduction r = {.x = a->x.data, .out = a->out.data, .divisor = 1};
    for (uint32_t i = 0; i < shape->rank; i++)
        walk_push(gone[i] ? &r.go : &r.stay, shape->dims[i], sl_dims_tail(shape, i + 1), 0);
    walk_end(&r.stay);
    walk_end(&r.go);
    r.outputs = walk_elements(&r.stay);
    r.count = r.span = walk_elements(&r.go);
    divide_threads(&r);
    const float divisor = mean ? (float)r.count : 1;
    const int64_t parts = parts_for(&r, planner->multiprocessors);
    if (parts == 1) {
        r.divisor = divisor;
        add_reduction(planner, function, &r);
        return;
    }
    r.span = parts_of(r.count, parts);
    const int64_t made = parts_of(r.count, r.span);
    r.out = sl_gpu_scratch(planner, (uint64_t)(made * r.outputs) * sizeof(float));
    add_reduction(planner, function, &r);
    sl_reduction second = second_of(&r, made);
    second.out = a->out.data;
    second.divisor = divisor;
    add_reduction(planner, function, &second);
}

PLAN(reduce_sum) {
    plan_reduction(planner, SL_CUDA_FN(sl_reduce_sum), args, false);
    return SL_OK;
}
PLAN(reduce_mean) {
    plan_reduction(planner, SL_CUDA_FN(sl_reduce_sum), args, true);
    return SL_OK;
}
PLAN(reduce_max) {
    plan_reduction(planner, SL_CUDA_FN(sl_reduce_max), args, false);
    return SL_OK;
}

/* ---- over the last axis ---- */

sl_gpu_plan_fn sl_cuda_plan_any_argmax; /* reduce_any.c */

/* Over the last axis with an i32 result; other cases use the generic kernel. */
PLAN(argmax) {
    const sl_argmax_args *a = args;
    const uint32_t rank = a->x.type.shape.rank;
    if (sl_axis(a->attrs.axis, rank) != rank - 1 || a->attrs.last ||
        a->out.type.dtype != SL_DTYPE_i32)
        return sl_cuda_plan_any_argmax(args, planner, err);
    const int64_t count = last_dim(&a->x.type), rows = rows_of(&a->x.type);
    const int64_t parts = parts_of(count, SL_ARGMAX_SPAN);
    sl_argmax_rows launch = {.x = a->x.data,
                             .out = a->out.data,
                             .count = count,
                             .parts = (int32_t)parts,
                             .vectors = count % 4 == 0 && is_aligned(a->x.data, 16)};
    if (parts > 1) launch.keys = sl_gpu_scratch(planner, (uint64_t)(rows * parts) * 8);
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_argmax_parts), rows * parts, 256, launch);
    if (parts > 1)
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_argmax_join), rows, threads_for(parts, 256), launch);
    return SL_OK;
}
