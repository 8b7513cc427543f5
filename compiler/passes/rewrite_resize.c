/* rewrite_resize.c - Resizing, from gather, products and sums. */
#include "compiler/ops/semantics.h"
#include "compiler/passes/rewrite.h"
#include "core/resize.h"

/* ---- an axis ---- */

/* The sources of the elements of a resized axis, as slots of constants. */
typedef struct {
    int64_t taps;
    double *indices, *weights; /* [out, taps] */
    double *seen;              /* [out]: bools */
    bool all_seen;
} table;

static bool fill_table(sl_graph *g, const sl_resize_axis *axis, sl_arena *scratch, table *t) {
    const int64_t taps = t->taps = sl_resize_taps(axis), count = axis->out * taps;
    int64_t *from = SL_ARENA_NEW_ARRAY(scratch, int64_t, (size_t)taps);
    t->indices = SL_ARENA_NEW_ARRAY(scratch, double, (size_t)count);
    t->weights = SL_ARENA_NEW_ARRAY(scratch, double, (size_t)count);
    t->seen = SL_ARENA_NEW_ARRAY(scratch, double, (size_t)axis->out);
    t->all_seen = true;
    if (!from || !t->indices || !t->weights || !t->seen) {
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a resized axis");
        return false;
    }
    for (int64_t o = 0; o < axis->out; o++) {
        const bool seen = sl_resize_at(axis, o, from, t->weights + o * taps);
        for (int64_t k = 0; k < taps; k++)
            sl_slot_set_integer(SL_DTYPE_i64, &t->indices[o * taps + k], seen ? from[k] : 0);
        t->seen[o] = seen;
        t->all_seen &= seen;
    }
    return true;
}

/* x[outer, in, inner] resized to [outer, out, inner]; positions outside x are `outside`. */
static sl_value apply_table(sl_graph *g, sl_value x, const table *t, int64_t out, double outside) {
    const sl_dtype dtype = sl_rw_type(g, x)->dtype;
    sl_dims shape = sl_rw_type(g, x)->shape;
    const sl_type places = {SL_DTYPE_i64, {2, {out, t->taps}}}, one = {.dtype = dtype};
    const sl_type weights = {dtype, {3, {out, t->taps, 1}}};
    const sl_type rows = {SL_DTYPE_bool, {2, {out, 1}}};
    const sl_gather_in from = {x, sl_rw_constant(g, &places, t->indices)};
    x = sl_build_gather(g, from, (sl_gather_attrs){.axis = 1}).out;
    if (t->taps > 1) {
        x = sl_rw_binary(g, SL_OP_mul, x, sl_rw_constant(g, &weights, t->weights));
        x = sl_rw_reduce(g, SL_OP_reduce_sum, x, &(const sl_dims){1, {2}});
    }
    shape.dims[1] = out;
    x = sl_rw_reshape(g, x, &shape);
    if (t->all_seen) return x;
    const double fill[2] = {outside, outside};
    return sl_rw_where(g, sl_rw_constant(g, &rows, t->seen), x, sl_rw_constant(g, &one, fill));
}

static sl_value resize_axis(sl_graph *g, sl_value x, const sl_resize_axis *axis, double outside) {
    sl_arena scratch;
    table t;
    sl_arena_init(&scratch, g->arena.allocator);
    if (fill_table(g, axis, &scratch, &t)) x = apply_table(g, x, &t, axis->out, outside);
    sl_arena_deinit(&scratch);
    return x;
}

bool sl_rewrite_resize(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_resize_attrs *a = node->attrs;
    const sl_type x = *sl_rw_type(g, in[0]);
    sl_dims shape = x.shape;
    sl_resize_mode mode;
    (void)sl_resize_mode_find(a->mode, &mode);
    if (mode != SL_RESIZE_NEAREST && !sl_rw_is_wide(g, in[0])) return false;
    if (sl_type_elements(&x) == 0) return false;
    out[0] = in[0];
    for (uint32_t i = 0; i < x.shape.rank; i++) {
        const sl_resize_axis axis = sl_resize_axis_of(a, &x.shape, i);
        const int64_t inner = sl_dims_tail(&shape, i + 1);
        const sl_dims lines = {3, {sl_dims_tail(&shape, 0) / (axis.in * inner), axis.in, inner}};
        if (sl_resize_is_identity(&axis)) continue;
        out[0] = resize_axis(g, sl_rw_reshape(g, out[0], &lines), &axis, (double)a->extrapolation);
        shape.dims[i] = axis.out;
    }
    out[0] = sl_rw_reshape(g, out[0], &shape);
    return true;
}

/* ---- nearest, factor 2 ---- */

/* Repeats each element `times` times along rows and columns. */
static sl_dims cells_of(const sl_dims *shape, int64_t times) {
    const int64_t columns = shape->dims[shape->rank - 1];
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < shape->rank; i++) rows *= shape->dims[i];
    return (sl_dims){4, {rows, times, columns, times}};
}

bool sl_rewrite_resize_nearest2x(sl_graph *g, const sl_node *node, const sl_value *in,
                                 sl_value *out) {
    sl_dims shape = sl_rw_type(g, in[0])->shape;
    const sl_dims single = cells_of(&shape, 1);
    const sl_expand_in x = {.x = sl_rw_reshape(g, in[0], &single)};
    const sl_value cells =
        sl_build_expand(g, x, (sl_expand_attrs){.shape = cells_of(&shape, 2)}).out;
    (void)node;
    for (uint32_t i = shape.rank - 2; i < shape.rank; i++) shape.dims[i] *= 2;
    out[0] = sl_rw_reshape(g, cells, &shape);
    return true;
}

bool sl_rewrite_resize_nearest2x_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                          sl_value *out) {
    sl_dims dx = sl_rw_type(g, in[0])->shape;
    for (uint32_t i = dx.rank - 2; i < dx.rank; i++) dx.dims[i] /= 2;
    const sl_dims cells = cells_of(&dx, 2);
    (void)node;
    const sl_value sums = sl_rw_reduce(g, SL_OP_reduce_sum, sl_rw_reshape(g, in[0], &cells),
                                       &(const sl_dims){2, {1, 3}});
    out[0] = sl_rw_reshape(g, sums, &dx);
    return true;
}
