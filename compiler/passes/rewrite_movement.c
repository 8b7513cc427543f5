/* rewrite_movement.c - Data movement as slices, concats and reshapes; regions as their
 * instructions. */
#include "compiler/passes/rewrite.h"
#include "core/elementwise_region.h"

enum { MOST_PARTS = 64 };

static sl_dtype_kind kind_of(const sl_graph *g, sl_value value) {
    return sl_dtype_infos[sl_rw_type(g, value)->dtype].kind;
}
static bool is_number(const sl_graph *g, sl_value value) {
    return kind_of(g, value) == SL_KIND_FLOAT || kind_of(g, value) == SL_KIND_INT;
}
static bool is_empty(const sl_graph *g, sl_value value) {
    return sl_type_elements(sl_rw_type(g, value)) == 0;
}

/* The tensor of ones has only the dims that are repeated. */
bool sl_rewrite_expand(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_dims *to = &((const sl_expand_attrs *)node->attrs)->shape;
    const sl_type *x = sl_rw_type(g, in[0]);
    sl_type ones = {x->dtype, *to};
    if (!is_number(g, in[0]) || is_empty(g, in[0])) return false;
    for (uint32_t i = 0; i < to->rank; i++) {
        const uint32_t missing = to->rank - x->shape.rank;
        const int64_t own = i < missing ? 1 : x->shape.dims[i - missing];
        if (to->dims[i] == -1 || to->dims[i] == own) ones.shape.dims[i] = 1;
        if (ones.shape.dims[i] == 0) return false;
    }
    out[0] = sl_rw_binary(g, SL_OP_mul, in[0], sl_rw_filled(g, &ones, 1));
    return true;
}

bool sl_rewrite_split(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_split_attrs *a = node->attrs;
    const uint32_t axis = sl_axis(a->axis, sl_rw_type(g, in[0])->shape.rank);
    int64_t at = 0;
    for (uint32_t i = 0; i < a->sizes.count; at += a->sizes.items[i++])
        out[i] = sl_rw_slice(g, in[0], axis, at, a->sizes.items[i]);
    return true;
}

bool sl_rewrite_concat(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    enum { FEW = 16 };
    const int64_t axis = ((const sl_concat_attrs *)node->attrs)->axis;
    const uint32_t groups = (node->input_count + FEW - 1) / FEW;
    sl_value *joined = SL_ARENA_NEW_ARRAY(&g->arena, sl_value, (size_t)groups + 1);
    if (groups == 1 || !joined) return false;
    for (uint32_t i = 0, left = node->input_count; i < groups; i++, in += FEW, left -= FEW)
        joined[i] = sl_rw_concat(g, (sl_values){left < FEW ? left : FEW, in}, axis);
    out[0] = sl_rw_concat(g, (sl_values){groups, joined}, axis);
    return true;
}

/* ---- strided slices ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Every step-th of `count` elements from start on: by a reshape to [.., step], with a shorter last
 * part. */
static sl_value every(sl_graph *g, sl_value x, uint32_t axis, const int64_t start_count_step[3]) {
    const int64_t start = start_count_step[0], count = start_count_step[1];
    const int64_t step = start_count_step[2];
    if (step == 1 || count == 1) return sl_rw_slice(g, x, axis, start, count);
    const sl_value whole = sl_rw_slice(g, x, axis, start, (count - 1) * step);
    const sl_dims shape = sl_rw_type(g, whole)->shape;
    sl_dims stepped = {.rank = shape.rank + 1}, picked = shape;
    for (uint32_t i = 0; i < shape.rank; i++) stepped.dims[i + (i > axis)] = shape.dims[i];
    stepped.dims[axis] = picked.dims[axis] = count - 1;
    stepped.dims[axis + 1] = step;
    const sl_value firsts = sl_rw_slice(g, sl_rw_reshape(g, whole, &stepped), axis + 1, 0, 1);
    const sl_value parts[2] = {sl_rw_reshape(g, firsts, &picked),
                               sl_rw_slice(g, x, axis, start + (count - 1) * step, 1)};
    return sl_rw_concat(g, (sl_values){2, parts}, axis);
}

bool sl_rewrite_strided_slice(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_strided_slice_attrs *a = node->attrs;
    const sl_dims shape = sl_rw_type(g, in[0])->shape;
    int64_t ways[SL_MAX_RANK][3];
    for (uint32_t i = 0; i < shape.rank; i++) {
        const int64_t dim = shape.dims[i], step = a->steps.items[i];
        int64_t start = a->starts.items[i], end = a->ends.items[i];
        if (step < 1 || (step > 1 && shape.rank == SL_MAX_RANK)) return false;
        start = clamp(start < 0 ? start + dim : start, 0, dim);
        end = clamp(end < 0 ? end + dim : end, 0, dim);
        ways[i][0] = start;
        ways[i][1] = step >= dim ? end > start : (end - start + step - 1) / step;
        ways[i][2] = step;
        if (end <= start) return false;
    }
    out[0] = in[0];
    for (uint32_t i = 0; i < shape.rank; i++) out[0] = every(g, out[0], i, ways[i]);
    return true;
}

bool sl_rewrite_reverse(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_dims *axes = &((const sl_reverse_attrs *)node->attrs)->axes;
    const sl_dims shape = sl_rw_type(g, in[0])->shape;
    for (uint32_t i = 0; i < axes->rank; i++)
        if (shape.dims[sl_axis(axes->dims[i], shape.rank)] > MOST_PARTS) return false;
    if (is_empty(g, in[0])) return false;
    out[0] = in[0];
    for (uint32_t i = 0; i < axes->rank; i++) {
        sl_value parts[MOST_PARTS];
        const uint32_t axis = sl_axis(axes->dims[i], shape.rank);
        const int64_t dim = shape.dims[axis];
        for (int64_t at = 0; at < dim; at++)
            parts[at] = sl_rw_slice(g, out[0], axis, dim - 1 - at, 1);
        out[0] = sl_rw_concat(g, (sl_values){(uint32_t)dim, parts}, axis);
    }
    return true;
}

/* ---- pad ---- */

/* `length` elements of the fill value along the axis, to be concatenated with x. */
static sl_value filler(sl_graph *g, sl_value x, uint32_t axis, int64_t length, sl_value value) {
    sl_type type = *sl_rw_type(g, x);
    const sl_dims none = {0};
    type.shape.dims[axis] = length;
    return sl_rw_binary(g, SL_OP_mul, sl_rw_filled(g, &type, 1), sl_rw_reshape(g, value, &none));
}

static sl_value pad_axis(sl_graph *g, sl_value x, uint32_t axis, const int64_t ends[2],
                         sl_value value) {
    const int64_t cut[2] = {ends[0] < 0 ? -ends[0] : 0, ends[1] < 0 ? -ends[1] : 0};
    const int64_t kept = sl_rw_type(g, x)->shape.dims[axis] - cut[0] - cut[1];
    sl_value parts[3];
    uint32_t count = 0;
    x = sl_rw_slice(g, x, axis, cut[0], kept);
    if (ends[0] > 0) parts[count++] = filler(g, x, axis, ends[0], value);
    parts[count++] = x;
    if (ends[1] > 0) parts[count++] = filler(g, x, axis, ends[1], value);
    return sl_rw_concat(g, (sl_values){count, parts}, axis);
}

bool sl_rewrite_pad(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_pad_attrs *a = node->attrs;
    const sl_dims shape = sl_rw_type(g, in[0])->shape;
    if (a->mode != 0 || !is_number(g, in[0])) return false;
    for (uint32_t i = 0; i < shape.rank; i++) {
        const int64_t before = a->before.items[i], after = a->after.items[i];
        const int64_t cut = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
        if (cut >= shape.dims[i]) return false;
    }
    out[0] = in[0];
    for (uint32_t i = 0; i < shape.rank; i++)
        out[0] = pad_axis(g, out[0], i, (int64_t[2]){a->before.items[i], a->after.items[i]}, in[1]);
    return true;
}

bool sl_rewrite_pad_nothing(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_pad_attrs *a = node->attrs;
    const sl_dims none = {0};
    sl_dims shape = sl_rw_type(g, in[0])->shape;
    if (a->mode != 0 || !is_empty(g, in[0])) return false;
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dims[i] += a->before.items[i] + a->after.items[i];
    out[0] = sl_build_expand(g, (sl_expand_in){.x = sl_rw_reshape(g, in[1], &none)},
                             (sl_expand_attrs){.shape = shape})
                 .out;
    return true;
}

/* ---- regions ---- */

bool sl_rewrite_batch_region(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_batch_elementwise_region_attrs *a = node->attrs;
    const sl_elementwise_region_attrs attrs = {.code = a->code, .prologue = a->prologue};
    sl_value parts[MOST_PARTS] = {0};
    if (node->input_count > MOST_PARTS) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        sl_graph_append_list(g, SL_OP_elementwise_region, (sl_values){1, &in[i]}, &attrs,
                             (sl_value_slots){1, &parts[i]});
    out[0] = sl_rw_concat(g, (sl_values){node->input_count, parts}, 0);
    return true;
}

/* Each element twice along an axis. */
static sl_value twice(sl_graph *g, sl_value x, uint32_t axis) {
    const sl_dims shape = sl_rw_type(g, x)->shape;
    sl_dims apart = {.rank = shape.rank + 1}, joined = shape;
    for (uint32_t i = 0; i < shape.rank; i++) apart.dims[i + (i > axis)] = shape.dims[i];
    apart.dims[axis + 1] = 1;
    joined.dims[axis] *= 2;
    const sl_value one = sl_rw_reshape(g, x, &apart);
    const sl_value both = sl_rw_concat(g, (sl_values){2, (sl_value[]){one, one}}, axis + 1);
    return sl_rw_reshape(g, both, &joined);
}

bool sl_rewrite_transform_region(sl_graph *g, const sl_node *node, const sl_value *in,
                                 sl_value *out) {
    const sl_integers *steps = &((const sl_transform_region_attrs *)node->attrs)->steps;
    const uint32_t rank = sl_rw_type(g, in[0])->shape.rank;
    if (rank == SL_MAX_RANK || is_empty(g, in[0])) return false;
    out[0] = in[0];
    for (uint32_t i = 0; i < steps->count; i++)
        out[0] = twice(g, twice(g, out[0], rank - 1), rank - 2);
    return true;
}

/* ---- splats ---- */

bool sl_rewrite_splat_render(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_gaussian_splat_render_attrs *a = node->attrs;
    const sl_gaussian_splat_prepare_attrs prepare = {
        .width = a->width, .height = a->height, .radius = a->radius, .cutoff = a->cutoff};
    const sl_gaussian_splat_rasterize_attrs rasterize = {
        .width = a->width, .height = a->height, .cutoff = a->cutoff, .enough = a->enough};
    sl_value made[4];
    sl_graph_append(g, SL_OP_gaussian_splat_prepare, in, &prepare, made);
    made[3] = in[6];
    sl_graph_append(g, SL_OP_gaussian_splat_rasterize, made, &rasterize, out);
    return true;
}
