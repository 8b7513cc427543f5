/* movement_any.c - Data movement of any plain type with strides or indices. */
#include "runtime/cuda/ops/strides.h"

_Static_assert((int)SL_PLACE_DIMS == (int)SL_MAX_RANK, "every shape fits");

static sl_moved moved_of(const void *x, const sl_view *out) {
    return (sl_moved){.x = x,
                      .out = out->data,
                      .count = sl_type_elements(&out->type),
                      .bytes = (int32_t)sl_dtype_infos[out->type.dtype].bytes,
                      .rank = (int32_t)out->type.shape.rank};
}
static void copy_dims(int64_t *to, const sl_dims *from) {
    for (uint32_t d = 0; d < from->rank; d++) to[d] = from->dims[d];
}

/* ---- by attributes ---- */

/* The strides of x, before steps and start are applied. */
static sl_stepped stepped_of(const sl_cview *x, const sl_view *out) {
    sl_stepped s = {.m = moved_of(x->data, out)};
    copy_dims(s.dims, &out->type.shape);
    for (uint32_t d = 0; d < out->type.shape.rank; d++)
        s.steps[d] = broadcast_stride(&x->type.shape, &out->type.shape, d);
    return s;
}
static void start_at(sl_stepped *s, int64_t offset) {
    s->m.x = (const char *)s->m.x + offset * s->m.bytes;
}

/* The start of a slice: negative values count from the end; clamped to the range. */
static int64_t slice_start(int64_t start, int64_t step, int64_t size) {
    const int64_t from = start < 0 ? start + size : start;
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    return from < low ? low : from > high ? high : from;
}
PLAN(strided_slice) {
    const sl_strided_slice_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    sl_stepped s = stepped_of(&a->x, &a->out);
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t step = a->attrs.steps.items[d], stride = sl_dims_tail(x, d + 1);
        start_at(&s, slice_start(a->attrs.starts.items[d], step, x->dims[d]) * stride);
        s.steps[d] = s.dims[d] > 1 ? step * stride : 0;
    }
    ADD_EACH(planner, SL_CUDA_FN(sl_steps), s.m.count, SL_PLACE_THREADS, s);
    return SL_OK;
}
PLAN(reverse) {
    const sl_reverse_args *a = args;
    sl_stepped s = stepped_of(&a->x, &a->out);
    for (uint32_t i = 0; i < a->attrs.axes.rank; i++) {
        const uint32_t d = sl_axis(a->attrs.axes.dims[i], a->x.type.shape.rank);
        start_at(&s, (s.dims[d] - 1) * s.steps[d]);
        s.steps[d] = -s.steps[d];
    }
    ADD_EACH(planner, SL_CUDA_FN(sl_steps), s.m.count, SL_PLACE_THREADS, s);
    return SL_OK;
}
PLAN(expand) {
    const sl_expand_args *a = args;
    const sl_stepped s = stepped_of(&a->x, &a->out);
    ADD_EACH(planner, SL_CUDA_FN(sl_steps), s.m.count, SL_PLACE_THREADS, s);
    return SL_OK;
}
PLAN(pad) {
    const sl_pad_args *a = args;
    sl_padded p = {.m = moved_of(a->x.data, &a->out), .value = a->value.data};
    p.mode = (int32_t)a->attrs.mode;
    copy_dims(p.dims, &a->out.type.shape);
    copy_dims(p.extents, &a->x.type.shape);
    for (uint32_t d = 0; d < a->attrs.before.count; d++) p.before[d] = a->attrs.before.items[d];
    ADD_EACH(planner, SL_CUDA_FN(sl_pad), p.m.count, SL_PLACE_THREADS, p);
    return SL_OK;
}
PLAN(trilu) {
    const sl_trilu_args *a = args;
    const uint32_t rank = a->x.type.shape.rank;
    const sl_triangle t = {.m = moved_of(a->x.data, &a->out),
                           .rows = dim(&a->x.type, rank - 2),
                           .cols = dim(&a->x.type, rank - 1),
                           .k = a->attrs.k,
                           .upper = (int32_t)a->attrs.upper};
    ADD_EACH(planner, SL_CUDA_FN(sl_trilu), t.m.count, SL_PLACE_THREADS, t);
    return SL_OK;
}
PLAN(iota) {
    const sl_iota_args *a = args;
    const sl_dims *shape = &a->out.type.shape;
    const uint32_t axis = sl_axis(a->attrs.axis, shape->rank);
    const sl_counted c = {.out = a->out.data,
                          .count = sl_type_elements(&a->out.type),
                          .inner = sl_dims_tail(shape, axis + 1),
                          .size = shape->dims[axis],
                          .type = number_of(&a->out.type)};
    ADD_EACH(planner, SL_CUDA_FN(sl_iota), c.count, SL_PLACE_THREADS, c);
    return SL_OK;
}

/* ---- by indices ---- */

PLAN(any_gather) {
    const sl_gather_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    const sl_gathered g = {.m = moved_of(a->x.data, &a->out),
                           .indices = indices_of(planner, &a->indices),
                           .extent = dim(&a->x.type, axis),
                           .inner = sl_dims_tail(&a->x.type.shape, axis + 1),
                           .n = sl_type_elements(&a->indices.type)};
    ADD_EACH(planner, SL_CUDA_FN(sl_gather_any), g.m.count, SL_PLACE_THREADS, g);
    return SL_OK;
}
PLAN(take_along) {
    const sl_take_along_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    sl_taken t = {.m = moved_of(a->x.data, &a->out), .indices = indices_of(planner, &a->indices)};
    t.axis = sl_axis(a->attrs.axis, x->rank);
    t.extent = x->dims[t.axis];
    copy_dims(t.dims, &a->out.type.shape);
    for (uint32_t d = 0; d < x->rank; d++) t.steps[d] = sl_dims_tail(x, d + 1);
    ADD_EACH(planner, SL_CUDA_FN(sl_take_along), t.m.count, SL_PLACE_THREADS, t);
    return SL_OK;
}
PLAN(gather_nd) {
    const sl_gather_nd_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    const uint32_t batch = a->attrs.batch_dims;
    sl_tuples t = {.m = moved_of(a->x.data, &a->out), .indices = indices_of(planner, &a->indices)};
    t.length = last_dim(&a->indices.type);
    t.inner = sl_dims_tail(x, batch + (uint32_t)t.length);
    t.slices = sl_dims_tail(x, batch);
    t.per_batch = t.m.count / t.inner / (sl_dims_tail(x, 0) / t.slices);
    for (int64_t d = 0; d < t.length; d++) t.dims[d] = x->dims[batch + d];
    ADD_EACH(planner, SL_CUDA_FN(sl_gather_nd), t.m.count, SL_PLACE_THREADS, t);
    return SL_OK;
}
/* A slice of x: the result, or the destination of `update`. */
static sl_status plan_part(sl_gpu_planner *planner, sl_part_fn function, sl_part *p,
                           const sl_cview *x, const sl_type *part, const sl_cview *starts) {
    p->starts = indices_of(planner, starts);
    copy_dims(p->dims, &x->type.shape);
    copy_dims(p->part, &part->shape);
    ADD_EACH(planner, function, p->m.count, SL_PLACE_THREADS, *p);
    return SL_OK;
}
PLAN(dynamic_slice) {
    const sl_dynamic_slice_args *a = args;
    sl_part p = {.m = moved_of(a->x.data, &a->out)};
    return plan_part(planner, SL_CUDA_FN(sl_part_of), &p, &a->x, &a->out.type, &a->starts);
}
PLAN(dynamic_update_slice) {
    const sl_dynamic_update_slice_args *a = args;
    sl_part p = {.m = moved_of(a->x.data, &a->out), .update = a->update.data};
    return plan_part(planner, SL_CUDA_FN(sl_part_replaced), &p, &a->x, &a->update.type, &a->starts);
}
PLAN(one_hot) {
    const sl_one_hot_args *a = args;
    const sl_dims *out = &a->out.type.shape;
    const sl_marked m = {.m = moved_of(a->values.data, &a->out),
                         .indices = indices_of(planner, &a->indices),
                         .inner = sl_dims_tail(out, sl_axis(a->attrs.axis, out->rank) + 1),
                         .depth = a->attrs.depth};
    ADD_EACH(planner, SL_CUDA_FN(sl_one_hot), m.m.count, SL_PLACE_THREADS, m);
    return SL_OK;
}
