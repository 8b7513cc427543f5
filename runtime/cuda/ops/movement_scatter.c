/* movement_scatter.c - Scatter of any plain type. */
#include "runtime/cuda/kernels/movement_scatter.h"
#include "runtime/cuda/ops/sort.h"
#include "runtime/cuda/ops/strides.h"

static int64_t *room_for_places(sl_gpu_planner *planner, int64_t count) {
    return sl_gpu_scratch(planner, (uint64_t)count * sizeof(int64_t));
}

/* Given the destinations: sorts the updates by destination and combines them. */
static sl_status plan_folding(sl_gpu_planner *planner, sl_scattered *s) {
    sl_order order = {
        .x = s->places, .elements = s->count, .count = s->count, .inner = 1, .type = SL_TYPE_i64};
    sl_cuda_plan_order(planner, &order);
    s->order = order.now;
    ADD_EACH(planner, SL_CUDA_FN(sl_scatter_start), s->outer * s->extent * s->inner,
             SL_SCATTER_THREADS, *s);
    ADD_EACH(planner, SL_CUDA_FN(sl_scatter), s->outer * s->count * s->inner, SL_SCATTER_THREADS,
             *s);
    return SL_OK;
}

/* Destinations from tuples of indices; each update has `inner` elements. */
static sl_status plan_tuples(sl_gpu_planner *planner, sl_scattered *s, const sl_cview *indices,
                             int64_t length, const int64_t *dims) {
    sl_tuple_places p = {.indices = indices_of(planner, indices),
                         .count = sl_type_elements(&indices->type) / length,
                         .length = length};
    for (int64_t d = 0; d < length; d++) p.dims[d] = dims[d];
    s->places = p.places = room_for_places(planner, p.count);
    s->count = p.count;
    ADD_EACH(planner, SL_CUDA_FN(sl_places_of_tuples), p.count, SL_SCATTER_THREADS, p);
    return plan_folding(planner, s);
}

/* Adds dy or updates [.., n, inner] into zeros [.., extent, inner]. */
static sl_status plan_added(sl_gpu_planner *planner, const sl_cview *indices,
                            const sl_cview *updates, const sl_view *out, uint32_t axis) {
    sl_scattered s = {.updates = updates->data,
                      .out = out->data,
                      .extent = dim(&out->type, axis),
                      .inner = sl_dims_tail(&out->type.shape, axis + 1),
                      .type = number_of(&out->type),
                      .how = SL_FOLD_ADD};
    s.outer = sl_type_elements(&out->type) / (s.extent * s.inner);
    return plan_tuples(planner, &s, indices, 1, &s.extent);
}
PLAN(scatter_add) {
    const sl_scatter_add_args *a = args;
    return plan_added(planner, &a->indices, &a->updates, &a->out, 0);
}
PLAN(gather_backward) {
    const sl_gather_backward_args *a = args;
    return plan_added(planner, &a->indices, &a->dy, &a->out,
                      sl_axis(a->attrs.axis, a->out.type.shape.rank));
}

PLAN(scatter_nd) {
    const sl_scatter_nd_args *a = args;
    const sl_dims *out = &a->out.type.shape;
    const int64_t length = last_dim(&a->indices.type);
    sl_scattered s = {.x = a->x.data,
                      .updates = a->updates.data,
                      .out = a->out.data,
                      .outer = 1,
                      .inner = sl_dims_tail(out, (uint32_t)length),
                      .type = number_of(&a->out.type),
                      .how = (int32_t)a->attrs.combine};
    s.extent = sl_type_elements(&a->out.type) / s.inner;
    return plan_tuples(planner, &s, &a->indices, length, out->dims);
}

PLAN(scatter) {
    const sl_scatter_args *a = args;
    const sl_dims *out = &a->out.type.shape, *own = &a->indices.type.shape;
    sl_scattered s = {.x = a->x.data,
                      .updates = a->updates.data,
                      .out = a->out.data,
                      .outer = 1,
                      .extent = sl_type_elements(&a->out.type),
                      .inner = 1,
                      .count = sl_type_elements(&a->indices.type),
                      .type = number_of(&a->out.type),
                      .how = (int32_t)a->attrs.combine};
    sl_axis_places p = {.indices = indices_of(planner, &a->indices),
                        .count = s.count,
                        .rank = (int32_t)out->rank,
                        .axis = (int32_t)sl_axis(a->attrs.axis, out->rank)};
    for (uint32_t d = 0; d < out->rank; d++) p.dims[d] = out->dims[d], p.own[d] = own->dims[d];
    s.places = p.places = room_for_places(planner, p.count);
    ADD_EACH(planner, SL_CUDA_FN(sl_places_along_axis), p.count, SL_SCATTER_THREADS, p);
    return plan_folding(planner, &s);
}
