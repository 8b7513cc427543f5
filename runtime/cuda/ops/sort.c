/* sort.c - Sorting of any plain type. */
#include "runtime/cuda/ops/sort.h"
#include "runtime/cuda/ops/strides.h"

void sl_cuda_plan_order(sl_gpu_planner *planner, sl_order *order) {
    const int64_t lines = order->elements / order->count;
    const int64_t runs = lines * parts_of(order->count, SL_ORDER_RUN);
    order->now = sl_gpu_scratch(planner, (uint64_t)order->elements * sizeof *order->now);
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_order_runs), runs, threads_for(order->count, SL_ORDER_RUN),
                *order);
    if (order->count <= SL_ORDER_RUN) return;
    order->next = sl_gpu_scratch(planner, (uint64_t)order->elements * sizeof *order->next);
    for (order->width = SL_ORDER_RUN; order->width < order->count; order->width *= 2) {
        ADD_EACH(planner, SL_CUDA_FN(sl_order_merge), order->elements, SL_ORDER_THREADS, *order);
        int32_t *const sorted = order->next;
        order->next = order->now;
        order->now = sorted;
    }
}

static sl_status plan_sort(sl_gpu_planner *planner, const sl_cview *x, int64_t given,
                           sl_ordered *o) {
    const uint32_t axis = sl_axis(given, x->type.shape.rank);
    o->order.x = x->data;
    o->order.type = number_of(&x->type);
    o->order.elements = sl_type_elements(&x->type);
    o->order.count = dim(&x->type, axis);
    o->order.inner = sl_dims_tail(&x->type.shape, axis + 1);
    if (!o->kept) o->kept = o->order.count;
    o->results = o->order.elements / o->order.count * o->kept;
    sl_cuda_plan_order(planner, &o->order);
    ADD_EACH(planner, SL_CUDA_FN(sl_order_keep), o->results, SL_ORDER_THREADS, *o);
    return SL_OK;
}
PLAN(sort) {
    const sl_sort_args *a = args;
    sl_ordered o = {.values = a->out.data, .order.descending = (int32_t)a->attrs.descending};
    return plan_sort(planner, &a->x, a->attrs.axis, &o);
}
PLAN(argsort) {
    const sl_argsort_args *a = args;
    sl_ordered o = {.from = a->out.data, .order.descending = (int32_t)a->attrs.descending};
    return plan_sort(planner, &a->x, a->attrs.axis, &o);
}
PLAN(topk) {
    const sl_topk_args *a = args;
    sl_ordered o = {.values = a->values.data,
                    .from = a->indices.data,
                    .kept = a->attrs.k,
                    .order.descending = (int32_t)a->attrs.largest};
    return plan_sort(planner, &a->x, a->attrs.axis, &o);
}
