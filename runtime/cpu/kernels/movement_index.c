/* movement_index.c - Gather, scatter and dynamic slices, for any plain type. */
#include "core/ops.h"
#include "runtime/cpu/kernels/elements.h"
#include "runtime/cpu/kernels/wide.h"

/* ---- gather ---- */

/* An item is the contiguous run that one index selects. */
SPLIT(gather) {
    const sl_gather_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    const uint32_t axis = sl_axis(a->attrs.axis, x->rank);
    return (sl_split){head_of(x, axis) * sl_type_elements(&a->indices.type),
                      grain_of(sl_dims_tail(x, axis + 1) + 1), 0};
}
RUN(gather) {
    const sl_gather_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    const uint32_t axis = sl_axis(a->attrs.axis, x->rank);
    const int64_t count = sl_type_elements(&a->indices.type), extent = x->dims[axis];
    const size_t bytes = (size_t)sl_dims_tail(x, axis + 1) * element_bytes(&a->x.type);
    int64_t outer = begin / count, at = begin % count;
    for (int64_t i = begin; i < end; i++, at++) {
        if (at == count) outer++, at = 0;
        int64_t index;
        SL_TRY(place_of(&a->indices, at, extent, &index, worker->err));
        copy_bytes((char *)a->out.data + (size_t)i * bytes,
                   (const char *)a->x.data + (size_t)(outer * extent + index) * bytes, bytes);
    }
    return SL_OK;
}

/* Index of the slice that tuple t selects, within its batch. */
SL_CHECKED static sl_status tuple_place(const sl_cview *indices, int64_t t, const int64_t *dims,
                                        int64_t *out, sl_error *err) {
    const int64_t length = last_dim(&indices->type);
    *out = 0;
    for (int64_t d = 0; d < length; d++) {
        int64_t at;
        SL_TRY(place_of(indices, t * length + d, dims[d], &at, err));
        *out = *out * dims[d] + at;
    }
    return SL_OK;
}

/* An item is an index tuple. */
SPLIT(gather_nd) {
    const sl_gather_nd_args *a = args;
    const uint32_t from = a->attrs.batch_dims + (uint32_t)last_dim(&a->indices.type);
    const int64_t inner = sl_dims_tail(&a->x.type.shape, from);
    return (sl_split){sl_type_elements(&a->out.type) / inner, grain_of(inner + 4), 0};
}
RUN(gather_nd) {
    const sl_gather_nd_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    const uint32_t batch = a->attrs.batch_dims;
    const int64_t inner = sl_dims_tail(x, batch + (uint32_t)last_dim(&a->indices.type));
    const int64_t slices = sl_dims_tail(x, batch) / inner;
    const int64_t per_batch = sl_type_elements(&a->out.type) / inner / head_of(x, batch);
    const size_t bytes = (size_t)inner * element_bytes(&a->x.type);
    for (int64_t t = begin; t < end; t++) {
        int64_t at;
        SL_TRY(tuple_place(&a->indices, t, x->dims + batch, &at, worker->err));
        copy_bytes((char *)a->out.data + (size_t)t * bytes,
                   (const char *)a->x.data + (size_t)(t / per_batch * slices + at) * bytes, bytes);
    }
    return SL_OK;
}

/* An item is a row of the output. */
SPLIT(take_along) {
    const sl_take_along_args *a = args;
    return (sl_split){rows_of(&a->out.type), grain_of(last_dim(&a->out.type) * 2), 0};
}
RUN(take_along) {
    const sl_take_along_args *a = args;
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape;
    const uint32_t axis = sl_axis(a->attrs.axis, x->rank), last = x->rank - 1;
    const int64_t n = out->dims[last], stride = sl_dims_tail(x, axis + 1);
    const int64_t step = axis == last ? 0 : 1; /* stride of x between columns */
    const size_t bytes = element_bytes(&a->x.type);
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, base = 0;
        for (uint32_t d = last; d-- > 0; rest /= out->dims[d])
            if (d != axis) base += rest % out->dims[d] * sl_dims_tail(x, d + 1);
        for (int64_t i = 0; i < n; i++) {
            int64_t index;
            SL_TRY(place_of(&a->indices, row * n + i, x->dims[axis], &index, worker->err));
            const int64_t from = base + index * stride + i * step;
            copy_bytes((char *)a->out.data + (size_t)(row * n + i) * bytes,
                       (const char *)a->x.data + (size_t)from * bytes, bytes);
        }
    }
    return SL_OK;
}

/* ---- scatter: an item is some adjacent lines along the axis ---- */

/* `block` adjacent lines of x are an item.  When updates are combined, the lines are kept in 64-bit
 * numbers until all their updates have been applied, and are rounded once. */
typedef struct {
    uint32_t axis;
    int64_t extent, inner, block, blocks;
} lines;

enum { MOST_LINES = 16, MOST_HELD = 65536 };

static lines lines_of(const sl_dims *x, uint32_t axis) {
    lines l = {.axis = axis, .extent = x->dims[axis], .inner = sl_dims_tail(x, axis + 1)};
    const int64_t fit = l.extent > 0 ? MOST_HELD / l.extent : 1;
    l.block = least(least(MOST_LINES, l.inner), fit > 1 ? fit : 1);
    l.blocks = parts_of(l.inner, l.block);
    return l;
}

/* Offset of the first update of a line; -1 if it has none. */
static int64_t updates_of(const sl_dims *x, const sl_dims *updates, uint32_t axis, int64_t outer,
                          int64_t column) {
    int64_t at = 0;
    for (uint32_t d = x->rank; d-- > 0;) {
        if (d == axis) continue;
        int64_t *rest = d > axis ? &column : &outer;
        const int64_t i = *rest % x->dims[d];
        *rest /= x->dims[d];
        if (i >= updates->dims[d]) return -1;
        at += i * sl_dims_tail(updates, d + 1);
    }
    return at;
}

/* The lines of an item and their updates. */
typedef struct {
    int64_t first, columns; /* element j of the lines begins at first + j * inner */
    int64_t updates[MOST_LINES];
} line_block;

static line_block block_of(const sl_scatter_args *a, const lines *l, int64_t item) {
    const int64_t outer = item / l->blocks, column = item % l->blocks * l->block;
    line_block b = {.first = outer * l->extent * l->inner + column,
                    .columns = least(l->block, l->inner - column)};
    for (int64_t c = 0; c < b.columns; c++)
        b.updates[c] =
            updates_of(&a->x.type.shape, &a->updates.type.shape, l->axis, outer, column + c);
    return b;
}

SL_CHECKED static sl_status scatter_set(const sl_scatter_args *a, const lines *l,
                                        const line_block *b, sl_error *err) {
    const size_t bytes = element_bytes(&a->x.type);
    const sl_dims *updates = &a->updates.type.shape;
    const int64_t stride = sl_dims_tail(updates, l->axis + 1);
    for (int64_t j = 0; j < l->extent; j++) {
        const size_t at = (size_t)(b->first + j * l->inner) * bytes;
        memcpy((char *)a->out.data + at, (const char *)a->x.data + at, (size_t)b->columns * bytes);
    }
    for (int64_t j = 0; j < updates->dims[l->axis]; j++)
        for (int64_t c = 0; c < b->columns; c++) {
            if (b->updates[c] < 0) continue;
            const int64_t from = b->updates[c] + j * stride;
            int64_t index;
            SL_TRY(place_of(&a->indices, from, l->extent, &index, err));
            copy_bytes((char *)a->out.data + (size_t)(b->first + index * l->inner + c) * bytes,
                       (const char *)a->updates.data + (size_t)from * bytes, bytes);
        }
    return SL_OK;
}

SL_CHECKED static sl_status scatter_fold(const sl_scatter_args *a, const lines *l,
                                         const line_block *b, sl_worker *worker) {
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    const sl_dims *updates = &a->updates.type.shape;
    const int64_t stride = sl_dims_tail(updates, l->axis + 1);
    wide *held = worker->scratch, value[2];
    for (int64_t j = 0; j < l->extent; j++)
        widen(dtype, (const char *)a->x.data + (size_t)(b->first + j * l->inner) * bytes,
              b->columns, held + j * b->columns);
    for (int64_t j = 0; j < updates->dims[l->axis]; j++)
        for (int64_t c = 0; c < b->columns; c++) {
            if (b->updates[c] < 0) continue;
            const int64_t from = b->updates[c] + j * stride;
            int64_t index;
            SL_TRY(place_of(&a->indices, from, l->extent, &index, worker->err));
            widen(dtype, (const char *)a->updates.data + (size_t)from * bytes, 1, value);
            fold_wide(dtype, (fold)a->attrs.combine, held + index * b->columns + c, value, 1);
        }
    for (int64_t j = 0; j < l->extent; j++)
        narrow(dtype, held + j * b->columns, b->columns,
               (char *)a->out.data + (size_t)(b->first + j * l->inner) * bytes);
    return SL_OK;
}

SPLIT(scatter) {
    const sl_scatter_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    const lines l = lines_of(x, sl_axis(a->attrs.axis, x->rank));
    return (sl_split){head_of(x, l.axis) * l.blocks, grain_of(l.extent * l.block * 4),
                      a->attrs.combine ? (size_t)(l.extent * l.block) * sizeof(wide) : 0};
}
RUN(scatter) {
    const sl_scatter_args *a = args;
    const sl_dims *x = &a->x.type.shape;
    const lines l = lines_of(x, sl_axis(a->attrs.axis, x->rank));
    for (int64_t item = begin; item < end; item++) {
        const line_block b = block_of(a, &l, item);
        if (a->attrs.combine)
            SL_TRY(scatter_fold(a, &l, &b, worker));
        else
            SL_TRY(scatter_set(a, &l, &b, worker->err));
    }
    return SL_OK;
}

/* ---- scatter of slices: an item is a block of rows and columns of the output ---- */

/* The output as outer * rows slices of `inner` elements.  An item keeps `block` rows by `width`
 * columns in 64-bit numbers, applies all updates to them in order, and stores them. */
typedef struct {
    int64_t outer, rows, inner, block, width, blocks, widths;
} slabs;

enum { MOST_ROWS = 2048, MOST_COLUMNS = 64 };

static slabs slabs_of(int64_t outer, int64_t rows, int64_t inner) {
    slabs s = {.outer = outer, .rows = rows, .inner = inner};
    s.width = least(inner, MOST_COLUMNS);
    s.block = least(rows, MOST_ROWS * (s.width < 8 ? 8 : 1));
    s.blocks = parts_of(rows, s.block);
    s.widths = parts_of(inner, s.width);
    return s;
}

static sl_split split_slabs(const slabs *s, sl_dtype dtype, int64_t updates) {
    const int64_t held = s->block * s->width;
    return (sl_split){s->outer * s->blocks * s->widths, grain_of(held + updates * s->width),
                      (size_t)(held * unit_of(dtype)) * sizeof(wide)};
}

/* The block of an item, and its 64-bit values. */
typedef struct {
    const slabs *all;
    wide *held;
    int64_t outer, row, rows, column, columns;
} slab;

static slab slab_of(const slabs *s, int64_t item, wide *held) {
    slab b = {.all = s,
              .held = held,
              .outer = item / (s->blocks * s->widths),
              .row = item / s->widths % s->blocks * s->block,
              .column = item % s->widths * s->width};
    b.rows = least(s->block, s->rows - b.row);
    b.columns = least(s->width, s->inner - b.column);
    return b;
}

/* Combines slice `from` of the updates with row `to` of the output, if the block contains it. */
static void fold_slice(const slab *b, const sl_cview *updates, int64_t from, fold kind,
                       int64_t to) {
    const sl_dtype dtype = updates->type.dtype;
    const int64_t unit = unit_of(dtype);
    wide values[MOST_COLUMNS * 2];
    if (to < b->row || to >= b->row + b->rows) return;
    widen(dtype,
          (const char *)updates->data + (size_t)(from * b->all->inner + b->column) * size_of(dtype),
          b->columns, values);
    fold_wide(dtype, kind, b->held + (to - b->row) * b->columns * unit, values, b->columns);
}

static void store_slab(const slab *b, const sl_view *out) {
    const slabs *s = b->all;
    const sl_dtype dtype = out->type.dtype;
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t at = (b->outer * s->rows + b->row + r) * s->inner + b->column;
        narrow(dtype, b->held + r * b->columns * unit_of(dtype), b->columns,
               (char *)out->data + (size_t)at * size_of(dtype));
    }
}

/* Scatter-add of updates [outer, indices, inner] to zeros. */
SL_CHECKED static sl_status add_slabs(const slabs *s, const sl_cview *indices,
                                      const sl_cview *updates, const sl_view *out, int64_t item,
                                      sl_worker *worker) {
    const slab b = slab_of(s, item, worker->scratch);
    const int64_t count = sl_type_elements(&indices->type);
    start_fold(out->type.dtype, FOLD_ADD, b.held, b.rows * b.columns);
    for (int64_t i = 0; i < count; i++) {
        int64_t to;
        SL_TRY(place_of(indices, i, s->rows, &to, worker->err));
        fold_slice(&b, updates, b.outer * count + i, FOLD_ADD, to);
    }
    store_slab(&b, out);
    return SL_OK;
}

static slabs scatter_add_slabs(const sl_scatter_add_args *a) {
    return slabs_of(1, a->attrs.rows, sl_dims_tail(&a->out.type.shape, 1));
}
SPLIT(scatter_add) {
    const sl_scatter_add_args *a = args;
    const slabs s = scatter_add_slabs(a);
    return split_slabs(&s, a->out.type.dtype, sl_type_elements(&a->indices.type));
}
RUN(scatter_add) {
    const sl_scatter_add_args *a = args;
    const slabs s = scatter_add_slabs(a);
    for (int64_t item = begin; item < end; item++)
        SL_TRY(add_slabs(&s, &a->indices, &a->updates, &a->out, item, worker));
    return SL_OK;
}

static slabs gather_backward_slabs(const sl_gather_backward_args *a) {
    const sl_dims *out = &a->out.type.shape;
    const uint32_t axis = sl_axis(a->attrs.axis, out->rank);
    return slabs_of(head_of(out, axis), out->dims[axis], sl_dims_tail(out, axis + 1));
}
SPLIT(gather_backward) {
    const sl_gather_backward_args *a = args;
    const slabs s = gather_backward_slabs(a);
    return split_slabs(&s, a->out.type.dtype, sl_type_elements(&a->indices.type));
}
RUN(gather_backward) {
    const sl_gather_backward_args *a = args;
    const slabs s = gather_backward_slabs(a);
    for (int64_t item = begin; item < end; item++)
        SL_TRY(add_slabs(&s, &a->indices, &a->dy, &a->out, item, worker));
    return SL_OK;
}

static slabs scatter_nd_slabs(const sl_scatter_nd_args *a) {
    const uint32_t length = (uint32_t)last_dim(&a->indices.type);
    const sl_dims *out = &a->out.type.shape;
    return slabs_of(1, head_of(out, length), sl_dims_tail(out, length));
}

/* The number of index tuples. */
static int64_t tuples_of(const sl_cview *indices) {
    return head_of(&indices->type.shape, indices->type.shape.rank - 1);
}

SPLIT(scatter_nd) {
    const sl_scatter_nd_args *a = args;
    const slabs s = scatter_nd_slabs(a);
    return split_slabs(&s, a->out.type.dtype, tuples_of(&a->indices));
}
RUN(scatter_nd) {
    const sl_scatter_nd_args *a = args;
    const slabs s = scatter_nd_slabs(a);
    const sl_dtype dtype = a->x.type.dtype;
    for (int64_t item = begin; item < end; item++) {
        const slab b = slab_of(&s, item, worker->scratch);
        for (int64_t r = 0; r < b.rows; r++) {
            const int64_t at = (b.row + r) * s.inner + b.column;
            widen(dtype, (const char *)a->x.data + (size_t)at * size_of(dtype), b.columns,
                  b.held + r * b.columns * unit_of(dtype));
        }
        for (int64_t t = 0; t < tuples_of(&a->indices); t++) {
            int64_t to;
            SL_TRY(tuple_place(&a->indices, t, a->x.type.shape.dims, &to, worker->err));
            fold_slice(&b, &a->updates, t, (fold)a->attrs.combine, to);
        }
        store_slab(&b, &a->out);
    }
    return SL_OK;
}

/* ---- iota, one_hot ---- */

enum { MADE = 256 }; /* elements of an item */

SPLIT(iota) {
    const sl_iota_args *a = args;
    return (sl_split){parts_of(sl_type_elements(&a->out.type), MADE), grain_of(MADE * 4), 0};
}
RUN(iota) {
    const sl_iota_args *a = args;
    const sl_dims *out = &a->out.type.shape;
    const sl_dtype dtype = a->out.type.dtype;
    const uint32_t axis = sl_axis(a->attrs.axis, out->rank);
    const int64_t inner = sl_dims_tail(out, axis + 1), extent = out->dims[axis];
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * MADE;
        const int64_t n = least(MADE, sl_type_elements(&a->out.type) - first);
        wide values[MADE];
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (first + i) / inner % extent;
            if (is_real(dtype))
                values[i].real = (double)at;
            else
                values[i].integer = at;
        }
        narrow(dtype, values, n, (char *)a->out.data + (size_t)first * size_of(dtype));
    }
    return SL_OK;
}

/* An item is one index of the new axis. */
SPLIT(one_hot) {
    const sl_one_hot_args *a = args;
    const sl_dims *out = &a->out.type.shape;
    const int64_t inner = sl_dims_tail(out, sl_axis(a->attrs.axis, out->rank) + 1);
    return (sl_split){sl_type_elements(&a->out.type) / inner, grain_of(inner * 2), 0};
}
RUN(one_hot) {
    const sl_one_hot_args *a = args;
    const sl_dims *out = &a->out.type.shape;
    const int64_t inner = sl_dims_tail(out, sl_axis(a->attrs.axis, out->rank) + 1);
    const int64_t depth = a->attrs.depth;
    const size_t bytes = element_bytes(&a->out.type);
    for (int64_t item = begin; item < end; item++)
        for (int64_t i = 0; i < inner; i++) {
            const int64_t index = index_at(&a->indices, item / depth * inner + i);
            const bool here = (index < 0 ? index + depth : index) == item % depth;
            copy_bytes((char *)a->out.data + (size_t)(item * inner + i) * bytes,
                       (const char *)a->values.data + (here ? bytes : 0), bytes);
        }
    return SL_OK;
}
