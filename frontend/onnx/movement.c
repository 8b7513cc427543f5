/* movement.c - Data movement: reshape, slice, concat, tile, pad. */
#include "frontend/onnx/families.h"
#include <string.h>

/* The dims that a Reshape requests: 0 keeps a dim, -1 is inferred. */
static bool resolve_shape(sl_onnx_call *c, const sl_integers *wanted, const sl_type *from,
                          sl_dims *out) {
    const bool keep = !sl_onnx_int(c, "allowzero", 0);
    int64_t product = 1;
    uint32_t open = SL_MAX_RANK;
    *out = (sl_dims){.rank = wanted->count};
    if (wanted->count > SL_MAX_RANK) {
        sl_onnx_refuse(c, "%u dims, at most %d are supported", wanted->count, SL_MAX_RANK);
        return false;
    }
    for (uint32_t i = 0; i < wanted->count; i++) {
        int64_t dim = wanted->items[i];
        if (dim == 0 && keep) dim = i < from->shape.rank ? from->shape.dims[i] : -2;
        if (dim == -1 && open == SL_MAX_RANK) {
            open = i;
            dim = 1;
        }
        if (dim < 0 || __builtin_mul_overflow(product, dim, &product)) {
            sl_onnx_wrong(c, "dim %u of the shape is %lld, which is invalid", i,
                          (long long)wanted->items[i]);
            return false;
        }
        out->dims[i] = dim;
    }
    if (open != SL_MAX_RANK) out->dims[open] = product ? sl_type_elements(from) / product : 0;
    return true;
}

void sl_onnx_reshape_op(sl_onnx_call *c) {
    const sl_type from = sl_onnx_in_type(c, 0);
    sl_integers wanted;
    sl_dims shape;
    if (!sl_onnx_ints_either(c, 1, "shape", &wanted)) {
        sl_onnx_wrong(c, "there is no shape");
        return;
    }
    if (resolve_shape(c, &wanted, &from, &shape))
        sl_onnx_set(c, 0, sl_onnx_reshape(c, sl_onnx_in(c, 0), &shape));
}

void sl_onnx_flatten(sl_onnx_call *c) {
    const sl_dims from = sl_onnx_in_type(c, 0).shape;
    const int64_t axis = sl_onnx_int(c, "axis", 1);
    const uint32_t at = axis == from.rank ? from.rank : sl_onnx_axis(c, axis, from.rank);
    sl_dims shape = {.rank = 2, .dims = {1, sl_dims_tail(&from, at)}};
    for (uint32_t i = 0; i < at; i++) shape.dims[0] *= from.dims[i];
    sl_onnx_set(c, 0, sl_onnx_reshape(c, sl_onnx_in(c, 0), &shape));
}

void sl_onnx_squeeze(sl_onnx_call *c) {
    const sl_dims from = sl_onnx_in_type(c, 0).shape;
    sl_integers list;
    sl_dims shape = {0}, axes = {0};
    const bool given = sl_onnx_ints_either(c, 1, "axes", &list);
    if (given && list.count) axes = sl_onnx_axes(c, &list, from.rank);
    for (uint32_t i = 0, next = 0; i < from.rank; i++) {
        const bool chosen = next < axes.rank && axes.dims[next] == i;
        next += chosen;
        if (chosen && from.dims[i] != 1) sl_onnx_wrong(c, "dim %u is not 1", i);
        if (given ? !chosen : from.dims[i] != 1) shape.dims[shape.rank++] = from.dims[i];
    }
    sl_onnx_set(c, 0, sl_onnx_reshape(c, sl_onnx_in(c, 0), &shape));
}

void sl_onnx_unsqueeze(sl_onnx_call *c) {
    const sl_dims from = sl_onnx_in_type(c, 0).shape;
    sl_integers list;
    sl_dims shape = {0};
    if (!sl_onnx_ints_either(c, 1, "axes", &list)) {
        sl_onnx_wrong(c, "there are no axes");
        return;
    }
    if (list.count > SL_MAX_RANK || from.rank + list.count > SL_MAX_RANK) {
        sl_onnx_refuse(c, "more than %d dims are not supported", SL_MAX_RANK);
        return;
    }
    const uint32_t rank = from.rank + list.count;
    const sl_dims axes = list.count ? sl_onnx_axes(c, &list, rank) : (sl_dims){0};
    if (axes.rank != list.count) sl_onnx_wrong(c, "an axis is given twice");
    for (uint32_t i = 0, next = 0, dim = 0; i < rank && !sl_onnx_failed(c); i++) {
        const bool fresh = next < axes.rank && axes.dims[next] == i;
        shape.dims[shape.rank++] = fresh ? 1 : from.dims[dim++];
        next += fresh;
    }
    sl_onnx_set(c, 0, sl_onnx_reshape(c, sl_onnx_in(c, 0), &shape));
}

void sl_onnx_transpose_op(sl_onnx_call *c) {
    const uint32_t rank = sl_onnx_in_type(c, 0).shape.rank;
    sl_dims perm = {.rank = rank};
    sl_integers list;
    const bool given = sl_onnx_ints(c, "perm", &list);
    if (given && list.count != rank) {
        sl_onnx_wrong(c, "perm has %u entries for %u dims", list.count, rank);
        return;
    }
    for (uint32_t i = 0; i < rank; i++) perm.dims[i] = given ? list.items[i] : rank - 1 - i;
    sl_onnx_set(c, 0, sl_onnx_transpose(c, sl_onnx_in(c, 0), &perm));
}

void sl_onnx_concat(sl_onnx_call *c) {
    const int64_t axis = sl_onnx_int(c, "axis", 1);
    sl_value *parts = sl_onnx_memory(c, c->in_count, sizeof *parts), out;
    if (!parts) return;
    for (uint32_t i = 0; i < c->in_count; i++) parts[i] = sl_onnx_in(c, i);
    sl_onnx_append(c, &(sl_onnx_step){"concat", c->in_count, 1, parts, &out}, "axis=%lld",
                   (long long)axis);
    sl_onnx_set(c, 0, out);
}

/* The sizes of the parts: given, or equal with a smaller last one (opset 18). */
static const int64_t *split_sizes(sl_onnx_call *c, int64_t dim) {
    sl_integers list;
    const bool given = sl_onnx_ints_either(c, 1, "split", &list);
    if (given && list.count == c->out_count) return list.items;
    if (given) sl_onnx_wrong(c, "%u sizes for %u outputs", list.count, c->out_count);
    int64_t *sizes = sl_onnx_memory(c, c->out_count, sizeof *sizes);
    if (!sizes || !c->out_count) return NULL;
    const int64_t each = (dim + c->out_count - 1) / c->out_count;
    for (uint32_t i = 0; i < c->out_count; i++) {
        sizes[i] = dim < each ? dim : each;
        dim -= sizes[i];
    }
    return sizes;
}

void sl_onnx_split(sl_onnx_call *c) {
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    const uint32_t axis = sl_onnx_axis(c, sl_onnx_int(c, "axis", 0), shape.rank);
    const int64_t *sizes = split_sizes(c, shape.dims[axis]);
    sl_value *parts = sl_onnx_memory(c, c->out_count, sizeof *parts);
    if (!parts || !sizes) return;
    const sl_value x = sl_onnx_in(c, 0);
    sl_onnx_append(c, &(sl_onnx_step){"split", 1, c->out_count, &x, parts}, "axis=%u, sizes=%s",
                   axis, sl_onnx_list(c, sizes, c->out_count));
    for (uint32_t i = 0; i < c->out_count; i++) sl_onnx_set(c, i, parts[i]);
}

/* Clamps to numbers that the attribute parser accepts. */
static int64_t bounded(int64_t value) {
    const int64_t most = (int64_t)1 << 48;
    return value > most ? most : value < -most ? -most : value;
}

void sl_onnx_slice_op(sl_onnx_call *c) {
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    sl_integers starts, ends, axes, steps = {0};
    const bool given = sl_onnx_ints_either(c, 1, "starts", &starts) &&
                       sl_onnx_ints_either(c, 2, "ends", &ends) && starts.count == ends.count;
    const bool has_axes = sl_onnx_ints_either(c, 3, "axes", &axes);
    const bool has_steps = sl_onnx_integers_in(c, 4, &steps);
    if (!given || starts.count > shape.rank || (has_axes && axes.count != starts.count) ||
        (has_steps && steps.count != starts.count)) {
        sl_onnx_wrong(c, "starts, ends, axes and steps do not fit %u dims", shape.rank);
        return;
    }
    int64_t from[SL_MAX_RANK] = {0}, to[SL_MAX_RANK], by[SL_MAX_RANK];
    for (uint32_t i = 0; i < shape.rank; i++) {
        to[i] = shape.dims[i];
        by[i] = 1;
    }
    for (uint32_t i = 0; i < starts.count; i++) {
        const uint32_t axis = sl_onnx_axis(c, has_axes ? axes.items[i] : i, shape.rank);
        from[axis] = bounded(starts.items[i]);
        to[axis] = bounded(ends.items[i]);
        by[axis] = has_steps ? bounded(steps.items[i]) : 1;
    }
    sl_onnx_set(c, 0,
                sl_onnx_with(c, "strided_slice", sl_onnx_in(c, 0), "starts=%s, ends=%s, steps=%s",
                             sl_onnx_list(c, from, shape.rank), sl_onnx_list(c, to, shape.rank),
                             sl_onnx_list(c, by, shape.rank)));
}

/* The mode of the graph op; -1 after an error. */
static int pad_mode(sl_onnx_call *c) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const char *mode = sl_onnx_text(c, "mode", "constant");
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, modes[i]) == 0) return i;
    sl_onnx_refuse(c, "mode '%s' is not supported", mode);
    return -1;
}

/* Opset 1 calls the pads paddings; from 18 on they may apply to some axes only. */
void sl_onnx_pad(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    const uint32_t rank = type.shape.rank;
    const int mode = pad_mode(c);
    sl_integers pads, axes;
    if (!sl_onnx_ints(c, "paddings", &pads) && !sl_onnx_ints_either(c, 1, "pads", &pads)) {
        sl_onnx_wrong(c, "there are no pads");
        return;
    }
    const bool some = sl_onnx_integers_in(c, 3, &axes);
    const uint32_t count = some ? axes.count : rank;
    if (pads.count != 2 * count) {
        sl_onnx_wrong(c, "%u pads for %u axes", pads.count, count);
        return;
    }
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t axis = sl_onnx_axis(c, some ? axes.items[i] : i, rank);
        before[axis] = pads.items[i];
        after[axis] = pads.items[count + i];
    }
    sl_value two[] = {sl_onnx_in(c, 0), {0}};
    two[1] = sl_onnx_has(c, 2)
                 ? sl_onnx_in(c, 2)
                 : sl_onnx_scalar(c, type.dtype, (double)sl_onnx_float(c, "value", 0));
    if (mode >= 0)
        sl_onnx_set(c, 0,
                    sl_onnx_with2(c, "pad", two, "before=%s, after=%s, mode=%d",
                                  sl_onnx_list(c, before, rank), sl_onnx_list(c, after, rank),
                                  mode));
}

/* Crops or pads with zeros at both ends. */
void sl_onnx_center_crop_pad(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    const uint32_t rank = type.shape.rank;
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    sl_integers axes, wanted;
    const bool some = sl_onnx_ints(c, "axes", &axes);
    if (!sl_onnx_integers_in(c, 1, &wanted)) return;
    const uint32_t count = some ? axes.count : rank;
    if (wanted.count != count) {
        sl_onnx_wrong(c, "%u sizes for %u axes", wanted.count, count);
        return;
    }
    for (uint32_t i = 0; i < count && !sl_onnx_failed(c); i++) {
        const uint32_t axis = sl_onnx_axis(c, some ? axes.items[i] : i, rank);
        const int64_t more = wanted.items[i] - type.shape.dims[axis];
        before[axis] = more / 2;
        after[axis] = more - more / 2;
    }
    const sl_value two[] = {sl_onnx_in(c, 0), sl_onnx_scalar(c, type.dtype, 0)};
    sl_onnx_set(c, 0,
                sl_onnx_with2(c, "pad", two, "before=%s, after=%s, mode=0",
                              sl_onnx_list(c, before, rank), sl_onnx_list(c, after, rank)));
}

void sl_onnx_expand_op(sl_onnx_call *c) {
    const sl_dims from = sl_onnx_in_type(c, 0).shape;
    sl_integers list;
    if (!sl_onnx_integers_in(c, 1, &list)) return;
    if (list.count > SL_MAX_RANK) {
        sl_onnx_refuse(c, "%u dims, at most %d are supported", list.count, SL_MAX_RANK);
        return;
    }
    const uint32_t rank = list.count > from.rank ? list.count : from.rank;
    sl_dims shape = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t mine = i + from.rank >= rank ? from.dims[i + from.rank - rank] : 1;
        const int64_t theirs = i + list.count >= rank ? list.items[i + list.count - rank] : 1;
        shape.dims[i] = mine == 1 ? theirs : mine;
    }
    sl_value x = sl_onnx_in(c, 0);
    x = sl_onnx_expand(c, x, &shape);
    sl_onnx_set(c, 0, x);
}

/* x as [1, d0, 1, d1, ..] expanded to [r0, d0, r1, d1, ..] if the rank allows it, else axis by
 * axis. */
void sl_onnx_tile(sl_onnx_call *c) {
    sl_dims shape = sl_onnx_in_type(c, 0).shape;
    sl_integers repeats;
    sl_value x = sl_onnx_in(c, 0);
    if (!sl_onnx_integers_in(c, 1, &repeats)) return;
    if (repeats.count != shape.rank) {
        sl_onnx_wrong(c, "%u repeats for %u dims", repeats.count, shape.rank);
        return;
    }
    for (uint32_t axis = 0; axis < shape.rank && !sl_onnx_failed(c); axis++) {
        const int64_t times = repeats.items[axis];
        if (times == 1) continue;
        sl_dims split = {.rank = 4,
                         .dims = {1, 1, shape.dims[axis], sl_dims_tail(&shape, axis + 1)}};
        for (uint32_t i = 0; i < axis; i++) split.dims[0] *= shape.dims[i];
        x = sl_onnx_reshape(c, x, &split);
        split.dims[1] = times;
        x = sl_onnx_expand(c, x, &split);
        if (__builtin_mul_overflow(shape.dims[axis], times, &shape.dims[axis]))
            sl_onnx_wrong(c, "%lld repeats are too many", (long long)times);
        x = sl_onnx_reshape(c, x, &shape);
    }
    sl_onnx_set(c, 0, x);
}

/* x[N,C,H,W] through six dims and a permutation of them. */
static sl_value shuffle(sl_onnx_call *c, const sl_dims *six, const sl_dims *perm,
                        const sl_dims *four) {
    const sl_value x = sl_onnx_reshape(c, sl_onnx_in(c, 0), six);
    return sl_onnx_reshape(c, sl_onnx_transpose(c, x, perm), four);
}

static int64_t block_size(sl_onnx_call *c, sl_dims *shape) {
    const int64_t block = sl_onnx_int(c, "blocksize", 0);
    *shape = sl_onnx_in_type(c, 0).shape;
    bool fits = shape->rank == 4 && block >= 1 && block <= 1024;
    for (uint32_t i = 0; i < shape->rank; i++) fits &= shape->dims[i] <= (int64_t)1 << 40;
    if (!fits) {
        sl_onnx_wrong(c, "an input of %u dims does not fit blocks of %lld", shape->rank,
                      (long long)block);
        return 0;
    }
    return block;
}

void sl_onnx_depth_to_space(sl_onnx_call *c) {
    sl_dims s;
    const int64_t b = block_size(c, &s);
    if (!b) return;
    const bool columns = strcmp(sl_onnx_text(c, "mode", "DCR"), "CRD") == 0;
    const int64_t depth = s.dims[1] / (b * b);
    const sl_dims four = {4, {s.dims[0], depth, s.dims[2] * b, s.dims[3] * b}};
    const sl_dims dcr = {6, {s.dims[0], b, b, depth, s.dims[2], s.dims[3]}};
    const sl_dims crd = {6, {s.dims[0], depth, b, b, s.dims[2], s.dims[3]}};
    sl_onnx_set(c, 0,
                columns ? shuffle(c, &crd, &(sl_dims){6, {0, 1, 4, 2, 5, 3}}, &four)
                        : shuffle(c, &dcr, &(sl_dims){6, {0, 3, 4, 1, 5, 2}}, &four));
}

void sl_onnx_space_to_depth(sl_onnx_call *c) {
    sl_dims s;
    const int64_t b = block_size(c, &s);
    if (!b) return;
    const sl_dims six = {6, {s.dims[0], s.dims[1], s.dims[2] / b, b, s.dims[3] / b, b}};
    const sl_dims four = {4, {s.dims[0], s.dims[1] * b * b, s.dims[2] / b, s.dims[3] / b}};
    sl_onnx_set(c, 0, shuffle(c, &six, &(sl_dims){6, {0, 3, 5, 1, 2, 4}}, &four));
}
