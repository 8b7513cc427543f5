/* movement_index.c - Gather, scatter, slicing and one-hot: data movement by index operands. */
#include "compiler/ops/operand.h"
#include <string.h>

/* Checks x of any plain type, followed by indices. */
static sl_status infer_indexed(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, "x", SL_PLAIN, err));
    a->out[0] = a->in[0];
    return sl_check_indices(a, 1, "indices", err);
}

static void push_dims(sl_dims *to, const sl_dims *from, uint32_t begin, uint32_t end) {
    for (uint32_t d = begin; d < end; d++) to->dims[to->rank++] = from->dims[d];
}

static sl_status check_result_rank(const sl_infer_args *a, uint32_t rank, sl_error *err) {
    return sl_check_attr(a->label, "the rank of the result", rank, 0, SL_MAX_RANK, err);
}

/* ---- gather and its gradient ---- */

sl_status sl_infer_gather(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_indexed(a, err));
    const sl_dims *x = &a->in[0].shape, *indices = &a->in[1].shape;
    uint32_t axis;
    SL_TRY(sl_find_axis(a->label, ((const sl_gather_attrs *)a->attrs)->axis, x->rank, &axis, err));
    SL_TRY(check_result_rank(a, x->rank - 1 + indices->rank, err));
    sl_dims *out = &a->out[0].shape;
    out->rank = 0;
    push_dims(out, x, 0, axis);
    push_dims(out, indices, 0, indices->rank);
    push_dims(out, x, axis + 1, x->rank);
    return SL_OK;
}

sl_status sl_eval_gather(const sl_eval_args *a, sl_error *err) {
    const double *x;
    int64_t *indices;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_integers(a, 1, &indices, err));
    const sl_dims *shape = &a->in[0].type.shape;
    const uint32_t axis = sl_axis(((const sl_gather_attrs *)a->attrs)->axis, shape->rank);
    const int64_t count = sl_type_elements(&a->in[1].type), size = shape->dims[axis];
    const int64_t inner = sl_dims_tail(shape, axis + 1);
    const sl_type *out = &a->out[0].type;
    for (int64_t i = 0; i < sl_type_elements(out); i++) {
        const int64_t outer = i / inner / count;
        int64_t index;
        SL_TRY(sl_eval_index(a, indices[i / inner % count], size, &index, err));
        sl_move(out->dtype, a->out[0].data, i, x, (outer * size + index) * inner + i % inner);
    }
    return SL_OK;
}

sl_status sl_infer_gather_backward(const sl_infer_args *a, sl_error *err) {
    const sl_gather_backward_attrs *attrs = a->attrs;
    SL_TRY(sl_check_indices(a, 0, "indices", err));
    SL_TRY(sl_check_kinds(a, 1, "dy", SL_FLOATS, err));
    const sl_dims *indices = &a->in[0].shape, *dy = &a->in[1].shape;
    if (dy->rank < indices->rank)
        return sl_refuse(a, 1, "dy", "of at least as many dims as indices", err);
    const uint32_t rank = dy->rank - indices->rank + 1;
    uint32_t axis;
    SL_TRY(check_result_rank(a, rank, err));
    SL_TRY(sl_find_axis(a->label, attrs->axis, rank, &axis, err));
    SL_TRY(sl_check_attr(a->label, "size", attrs->size, 0, (int64_t)1 << 48, err));
    for (uint32_t d = 0; d < indices->rank; d++)
        if (dy->dims[axis + d] != indices->dims[d])
            return sl_refuse(a, 1, "dy", "like indices from axis on", err);
    a->out[0] = (sl_type){.dtype = a->in[1].dtype};
    sl_dims *out = &a->out[0].shape;
    push_dims(out, dy, 0, axis);
    out->dims[out->rank++] = attrs->size;
    push_dims(out, dy, axis + indices->rank, dy->rank);
    return SL_OK;
}

/* Scatter-add of updates [outer, indices, inner] to zeros [outer, size, inner]. */
static sl_status add_at(const sl_eval_args *a, int64_t size, int64_t inner, sl_error *err) {
    const double *in[2];
    int64_t *indices;
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    SL_TRY(sl_eval_integers(a, 0, &indices, err));
    const int64_t count = sl_type_elements(&a->in[0].type), unit = sl_unit(a->out[0].type.dtype);
    const int64_t all = sl_type_elements(&a->in[1].type);
    memset(a->out[0].data, 0, (size_t)sl_type_slots(&a->out[0].type) * sizeof(double));
    for (int64_t i = 0; i < all; i++) {
        const int64_t outer = i / inner / count;
        int64_t index;
        SL_TRY(sl_eval_index(a, indices[i / inner % count], size, &index, err));
        const int64_t to = (outer * size + index) * inner + i % inner;
        sl_fold_slot(a->out[0].type.dtype, SL_FOLD_ADD, a->out[0].data + to * unit,
                     in[1] + i * unit);
    }
    return SL_OK;
}

sl_status sl_eval_gather_backward(const sl_eval_args *a, sl_error *err) {
    const sl_gather_backward_attrs *attrs = a->attrs;
    const sl_dims *out = &a->out[0].type.shape;
    return add_at(a, attrs->size, sl_dims_tail(out, sl_axis(attrs->axis, out->rank) + 1), err);
}

sl_status sl_infer_scatter_add(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_indices(a, 0, "indices", err));
    SL_TRY(sl_check_kinds(a, 1, "updates", SL_NUMBERS | SL_COMPLEXES, err));
    const sl_dims *indices = &a->in[0].shape, *updates = &a->in[1].shape;
    bool fits = updates->rank >= indices->rank;
    for (uint32_t d = 0; fits && d < indices->rank; d++)
        fits = updates->dims[d] == indices->dims[d];
    if (!fits) return sl_refuse(a, 1, "updates", "dims of indices, then those of a row", err);
    SL_TRY(check_result_rank(a, updates->rank - indices->rank + 1, err));
    a->out[0] = (sl_type){.dtype = a->in[1].dtype};
    a->out[0].shape.dims[a->out[0].shape.rank++] = ((const sl_scatter_add_attrs *)a->attrs)->rows;
    push_dims(&a->out[0].shape, updates, indices->rank, updates->rank);
    return SL_OK;
}

sl_status sl_eval_scatter_add(const sl_eval_args *a, sl_error *err) {
    return add_at(a, ((const sl_scatter_add_attrs *)a->attrs)->rows,
                  sl_dims_tail(&a->out[0].type.shape, 1), err);
}

/* ---- take_along, scatter ---- */

/* Checks that indices have the rank of x and, except along axis, at most its dims. */
static sl_status check_along(const sl_infer_args *a, int64_t given, sl_error *err) {
    SL_TRY(infer_indexed(a, err));
    const sl_dims *x = &a->in[0].shape, *indices = &a->in[1].shape;
    uint32_t axis;
    SL_TRY(sl_find_axis(a->label, given, x->rank, &axis, err));
    bool fits = indices->rank == x->rank;
    for (uint32_t d = 0; fits && d < x->rank; d++)
        fits = d == axis || indices->dims[d] <= x->dims[d];
    if (fits) return SL_OK;
    return sl_refuse(a, 1, "indices", "of the rank of x, and larger only along axis", err);
}

/* Offset in x of the element that element i of the indices selects. */
static sl_status place_along(const sl_eval_args *a, const int64_t *indices, uint32_t axis,
                             int64_t i, int64_t *out, sl_error *err) {
    const sl_dims *x = &a->in[0].type.shape, *own = &a->in[1].type.shape;
    int64_t rest = i;
    *out = 0;
    for (uint32_t d = x->rank; d-- > 0; rest /= own->dims[d]) {
        int64_t at = rest % own->dims[d];
        if (d == axis) SL_TRY(sl_eval_index(a, indices[i], x->dims[d], &at, err));
        *out += at * sl_dims_tail(x, d + 1);
    }
    return SL_OK;
}

sl_status sl_infer_take_along(const sl_infer_args *a, sl_error *err) {
    SL_TRY(check_along(a, ((const sl_take_along_attrs *)a->attrs)->axis, err));
    a->out[0].shape = a->in[1].shape;
    return SL_OK;
}

sl_status sl_eval_take_along(const sl_eval_args *a, sl_error *err) {
    const double *x;
    int64_t *indices, from;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_integers(a, 1, &indices, err));
    const sl_type *out = &a->out[0].type;
    const uint32_t axis = sl_axis(((const sl_take_along_attrs *)a->attrs)->axis, out->shape.rank);
    for (int64_t i = 0; i < sl_type_elements(out); i++) {
        SL_TRY(place_along(a, indices, axis, i, &from, err));
        sl_move(out->dtype, a->out[0].data, i, x, from);
    }
    return SL_OK;
}

/* Only numbers can be combined. */
static sl_status check_combine(const sl_infer_args *a, uint32_t combine, sl_error *err) {
    SL_TRY(sl_check_attr(a->label, "combine", combine, SL_FOLD_SET, SL_FOLD_MIN, err));
    return combine == SL_FOLD_SET ? SL_OK : sl_check_kinds(a, 0, "x", SL_NUMBERS, err);
}

sl_status sl_infer_scatter(const sl_infer_args *a, sl_error *err) {
    const sl_scatter_attrs *attrs = a->attrs;
    SL_TRY(check_along(a, attrs->axis, err));
    SL_TRY(check_combine(a, attrs->combine, err));
    const sl_type wanted = {a->in[0].dtype, a->in[1].shape};
    return sl_check_type(a, 2, "updates", &wanted, "like x of the shape of indices", err);
}

sl_status sl_eval_scatter(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    int64_t *indices, to;
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    SL_TRY(sl_eval_integers(a, 1, &indices, err));
    const sl_scatter_attrs *attrs = a->attrs;
    const sl_type *out = &a->out[0].type;
    const uint32_t axis = sl_axis(attrs->axis, out->shape.rank);
    const int64_t unit = sl_unit(out->dtype);
    memcpy(a->out[0].data, in[0], (size_t)sl_type_slots(out) * sizeof(double));
    for (int64_t i = 0; i < sl_type_elements(&a->in[1].type); i++) {
        SL_TRY(place_along(a, indices, axis, i, &to, err));
        sl_fold_slot(out->dtype, (sl_fold)attrs->combine, a->out[0].data + to * unit,
                     in[2] + i * unit);
    }
    return SL_OK;
}

/* ---- gather_nd, scatter_nd ---- */

/* The length of an index tuple: the last dim of indices. */
static sl_status check_tuples(const sl_infer_args *a, uint32_t batch, uint32_t *out,
                              sl_error *err) {
    SL_TRY(infer_indexed(a, err));
    const sl_dims *x = &a->in[0].shape, *indices = &a->in[1].shape;
    if (indices->rank == 0) return sl_refuse(a, 1, "indices", "of at least one dim", err);
    SL_TRY(sl_check_attr(a->label, "batch_dims", batch, 0, (int64_t)indices->rank - 1, err));
    SL_TRY(sl_check_attr(a->label, "batch_dims", batch, 0, x->rank, err));
    SL_TRY(sl_check_attr(a->label, "the last dim of indices", indices->dims[indices->rank - 1], 0,
                         (int64_t)x->rank - batch, err));
    for (uint32_t d = 0; d < batch; d++)
        if (indices->dims[d] != x->dims[d])
            return sl_refuse(a, 1, "indices", "like x in its batch dims", err);
    *out = (uint32_t)indices->dims[indices->rank - 1];
    return SL_OK;
}

sl_status sl_infer_gather_nd(const sl_infer_args *a, sl_error *err) {
    const uint32_t batch = ((const sl_gather_nd_attrs *)a->attrs)->batch_dims;
    uint32_t length = 0;
    SL_TRY(check_tuples(a, batch, &length, err));
    const sl_dims *x = &a->in[0].shape, *indices = &a->in[1].shape;
    SL_TRY(check_result_rank(a, indices->rank - 1 + x->rank - batch - length, err));
    sl_dims *out = &a->out[0].shape;
    out->rank = 0;
    push_dims(out, indices, 0, indices->rank - 1);
    push_dims(out, x, batch + length, x->rank);
    return SL_OK;
}

/* Index of the slice that a tuple selects, within its batch. */
static sl_status place_tuple(const sl_eval_args *a, const int64_t *tuple, uint32_t batch,
                             uint32_t length, int64_t *out, sl_error *err) {
    const sl_dims *x = &a->in[0].type.shape;
    *out = 0;
    for (uint32_t d = 0; d < length; d++) {
        int64_t at;
        SL_TRY(sl_eval_index(a, tuple[d], x->dims[batch + d], &at, err));
        *out = *out * x->dims[batch + d] + at;
    }
    return SL_OK;
}

sl_status sl_eval_gather_nd(const sl_eval_args *a, sl_error *err) {
    const double *x;
    int64_t *indices, at;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_integers(a, 1, &indices, err));
    const sl_dims *shape = &a->in[0].type.shape, *own = &a->in[1].type.shape;
    const uint32_t batch = ((const sl_gather_nd_attrs *)a->attrs)->batch_dims;
    const uint32_t length = (uint32_t)own->dims[own->rank - 1];
    const int64_t inner = sl_dims_tail(shape, batch + length);
    const int64_t slices = sl_dims_tail(shape, batch);
    const sl_type *out = &a->out[0].type;
    if (!sl_type_elements(out)) return SL_OK;
    const int64_t tuples = sl_type_elements(out) / inner;
    const int64_t per_batch = tuples / sl_dims_head(shape, batch);
    for (int64_t t = 0; t < tuples; t++) {
        SL_TRY(place_tuple(a, indices + t * length, batch, length, &at, err));
        for (int64_t i = 0; i < inner; i++)
            sl_move(out->dtype, a->out[0].data, t * inner + i, x,
                    t / per_batch * slices + at * inner + i);
    }
    return SL_OK;
}

sl_status sl_infer_scatter_nd(const sl_infer_args *a, sl_error *err) {
    uint32_t length = 0;
    SL_TRY(check_tuples(a, 0, &length, err));
    SL_TRY(check_combine(a, ((const sl_scatter_nd_attrs *)a->attrs)->combine, err));
    const sl_dims *x = &a->in[0].shape, *indices = &a->in[1].shape;
    const uint32_t rank = indices->rank - 1 + x->rank - length;
    SL_TRY(sl_check_attr(a->label, "the rank of updates", rank, 0, SL_MAX_RANK, err));
    sl_type wanted = {.dtype = a->in[0].dtype};
    push_dims(&wanted.shape, indices, 0, indices->rank - 1);
    push_dims(&wanted.shape, x, length, x->rank);
    return sl_check_type(a, 2, "updates", &wanted, "by x and indices", err);
}

sl_status sl_eval_scatter_nd(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    int64_t *indices, at;
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    SL_TRY(sl_eval_integers(a, 1, &indices, err));
    const sl_fold kind = (sl_fold)((const sl_scatter_nd_attrs *)a->attrs)->combine;
    const sl_dims *own = &a->in[1].type.shape;
    const uint32_t length = (uint32_t)own->dims[own->rank - 1];
    const sl_type *out = &a->out[0].type;
    const int64_t inner = sl_dims_tail(&out->shape, length), unit = sl_unit(out->dtype);
    memcpy(a->out[0].data, in[0], (size_t)sl_type_slots(out) * sizeof(double));
    for (int64_t t = 0; t < sl_dims_head(own, own->rank - 1); t++) {
        SL_TRY(place_tuple(a, indices + t * length, 0, length, &at, err));
        for (int64_t i = 0; i < inner; i++)
            sl_fold_slot(out->dtype, kind, a->out[0].data + (at * inner + i) * unit,
                         in[2] + (t * inner + i) * unit);
    }
    return SL_OK;
}

/* ---- dynamic_slice, dynamic_update_slice ---- */

static sl_status check_starts(const sl_infer_args *a, uint32_t input, sl_error *err) {
    SL_TRY(sl_check_indices(a, input, "starts", err));
    const sl_type wanted = sl_type_make(a->in[input].dtype, 1, (int64_t)a->in[0].shape.rank);
    return sl_check_type(a, input, "starts", &wanted, "(one per dim of x)", err);
}

sl_status sl_infer_dynamic_slice(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, "x", SL_PLAIN, err));
    SL_TRY(check_starts(a, 1, err));
    const sl_dims *x = &a->in[0].shape, *sizes = &((const sl_dynamic_slice_attrs *)a->attrs)->sizes;
    SL_TRY(sl_check_attr(a->label, "the number of sizes", sizes->rank, x->rank, x->rank, err));
    for (uint32_t d = 0; d < x->rank; d++)
        SL_TRY(sl_check_attr(a->label, "a size", sizes->dims[d], 0, x->dims[d], err));
    a->out[0] = (sl_type){a->in[0].dtype, *sizes};
    return SL_OK;
}

/* Offset in x of element i of the slice. */
static int64_t place_in_part(const sl_dims *x, const sl_dims *part, const int64_t *starts,
                             int64_t i) {
    int64_t at = 0;
    for (uint32_t d = x->rank; d-- > 0; i /= part->dims[d]) {
        const int64_t most = x->dims[d] - part->dims[d];
        const int64_t start = starts[d] < 0 ? 0 : starts[d] > most ? most : starts[d];
        at += (start + i % part->dims[d]) * sl_dims_tail(x, d + 1);
    }
    return at;
}

sl_status sl_eval_dynamic_slice(const sl_eval_args *a, sl_error *err) {
    const double *x;
    int64_t *starts;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_integers(a, 1, &starts, err));
    const sl_type *out = &a->out[0].type;
    for (int64_t i = 0; i < sl_type_elements(out); i++)
        sl_move(out->dtype, a->out[0].data, i, x,
                place_in_part(&a->in[0].type.shape, &out->shape, starts, i));
    return SL_OK;
}

sl_status sl_infer_dynamic_update_slice(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, "x", SL_PLAIN, err));
    SL_TRY(sl_check_kinds(a, 1, "update", SL_PLAIN, err));
    SL_TRY(check_starts(a, 2, err));
    const sl_dims *x = &a->in[0].shape, *update = &a->in[1].shape;
    bool fits = a->in[1].dtype == a->in[0].dtype && update->rank == x->rank;
    for (uint32_t d = 0; fits && d < x->rank; d++) fits = update->dims[d] <= x->dims[d];
    if (!fits)
        return sl_refuse(a, 1, "update", "of the type and rank of x, with no larger dim", err);
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_dynamic_update_slice(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    int64_t *starts;
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    SL_TRY(sl_eval_integers(a, 2, &starts, err));
    const sl_type *out = &a->out[0].type, *update = &a->in[1].type;
    memcpy(a->out[0].data, in[0], (size_t)sl_type_slots(out) * sizeof(double));
    for (int64_t i = 0; i < sl_type_elements(update); i++)
        sl_move(out->dtype, a->out[0].data, place_in_part(&out->shape, &update->shape, starts, i),
                in[1], i);
    return SL_OK;
}

/* ---- iota, one_hot ---- */

sl_status sl_infer_iota(const sl_infer_args *a, sl_error *err) {
    const sl_iota_attrs *attrs = a->attrs;
    a->out[0] = (sl_type){attrs->dtype, attrs->shape};
    SL_TRY(sl_type_check_shape(&a->out[0], a->label, err));
    const sl_infer_args made = {.label = a->label, .in = a->out};
    SL_TRY(sl_check_kinds(&made, 0, "the result", SL_NUMBERS, err));
    uint32_t axis;
    return sl_find_axis(a->label, attrs->axis, attrs->shape.rank, &axis, err);
}

sl_status sl_eval_iota(const sl_eval_args *a, sl_error *err) {
    (void)err;
    const sl_iota_attrs *attrs = a->attrs;
    const uint32_t axis = sl_axis(attrs->axis, attrs->shape.rank);
    const int64_t inner = sl_dims_tail(&attrs->shape, axis + 1), size = attrs->shape.dims[axis];
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const int64_t at = i / inner % size;
        if (sl_dtype_infos[attrs->dtype].kind == SL_KIND_INT)
            sl_slot_set_integer(attrs->dtype, &a->out[0].data[i], sl_wrap(attrs->dtype, at));
        else
            a->out[0].data[i] = (double)at;
    }
    return SL_OK;
}

sl_status sl_infer_one_hot(const sl_infer_args *a, sl_error *err) {
    const sl_one_hot_attrs *attrs = a->attrs;
    SL_TRY(sl_check_indices(a, 0, "indices", err));
    SL_TRY(sl_check_kinds(a, 1, "values", SL_PLAIN, err));
    const sl_type wanted = sl_type_make(a->in[1].dtype, 1, (int64_t)2);
    SL_TRY(sl_check_type(a, 1, "values", &wanted, "(those of elsewhere and of the place)", err));
    const sl_dims *indices = &a->in[0].shape;
    uint32_t axis;
    SL_TRY(check_result_rank(a, indices->rank + 1, err));
    SL_TRY(sl_find_axis(a->label, attrs->axis, indices->rank + 1, &axis, err));
    SL_TRY(sl_check_attr(a->label, "depth", attrs->depth, 0, (int64_t)1 << 48, err));
    a->out[0] = (sl_type){.dtype = a->in[1].dtype};
    sl_dims *out = &a->out[0].shape;
    push_dims(out, indices, 0, axis);
    out->dims[out->rank++] = attrs->depth;
    push_dims(out, indices, axis, indices->rank);
    return SL_OK;
}

sl_status sl_eval_one_hot(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    int64_t *indices;
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    SL_TRY(sl_eval_integers(a, 0, &indices, err));
    const sl_one_hot_attrs *attrs = a->attrs;
    const sl_type *out = &a->out[0].type;
    const uint32_t axis = sl_axis(attrs->axis, out->shape.rank);
    const int64_t inner = sl_dims_tail(&out->shape, axis + 1), depth = attrs->depth;
    for (int64_t i = 0; i < sl_type_elements(out); i++) {
        const int64_t index = indices[i / inner / depth * inner + i % inner];
        const bool here = (index < 0 ? index + depth : index) == i / inner % depth;
        sl_move(out->dtype, a->out[0].data, i, in[1], here);
    }
    return SL_OK;
}
