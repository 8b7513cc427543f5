/* movement.c - Reshape, transpose, slice, pad, concat: data movement by attributes. */
#include "compiler/ops/numbers.h"
#include "compiler/ops/operand.h"
#include "core/codec.h"
#include <string.h>

static sl_status infer_plain(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_kinds(a, 0, "x", SL_PLAIN, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

/* ---- reshape ---- */

static sl_status wrong_count(const sl_infer_args *a, const sl_dims *wanted, sl_error *err) {
    char x[SL_TYPE_TEXT], shape[SL_TYPE_TEXT];
    const sl_type target = {a->in[0].dtype, *wanted};
    return sl_fail(err, SL_INVALID, "%s: x %s does not fill %s exactly", a->label,
                   sl_type_format(&a->in[0], x, sizeof x),
                   sl_type_format(&target, shape, sizeof shape));
}

/* A reshape of grouped rows (a8) keeps their bytes if no row has padding, before or after. */
static sl_status check_groups(const sl_infer_args *a, const sl_dims *to, sl_error *err) {
    const sl_dims *from = &a->in[0].shape;
    if (from->rank > 1 && to->rank > 1 && from->dims[from->rank - 1] % SL_GROUP_COLS == 0 &&
        to->dims[to->rank - 1] % SL_GROUP_COLS == 0)
        return SL_OK;
    return sl_fail(
        err, SL_INVALID,
        "%s: rows of a8 consist of whole groups of %d: the last dims must be multiples of that",
        a->label, SL_GROUP_COLS);
}

sl_status sl_infer_reshape(const sl_infer_args *a, sl_error *err) {
    const bool rows = a->in[0].dtype == SL_DTYPE_a8;
    SL_TRY(rows ? sl_match(a, "x a8[..]", err) : infer_plain(a, err));
    a->out[0] = a->in[0];
    const sl_reshape_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "the rank of shape", attrs->shape.rank, 0, SL_MAX_RANK, err));
    sl_dims *out = &a->out[0].shape;
    *out = attrs->shape;
    const int64_t elements = sl_type_elements(&a->in[0]), least = elements > 0;
    int64_t known = 1, *open = NULL;
    for (uint32_t d = 0; d < out->rank; d++) {
        const bool is_open = out->dims[d] == -1;
        if ((out->dims[d] < least && !is_open) || (is_open && open))
            return sl_fail(err, SL_INVALID,
                           "%s: dim %u of shape is %lld, must be at least %lld, or -1 once",
                           a->label, d, (long long)out->dims[d], (long long)least);
        if (is_open)
            open = &out->dims[d];
        else if (__builtin_mul_overflow(known, out->dims[d], &known) || (known > elements && least))
            return wrong_count(a, &attrs->shape, err);
    }
    if (open && known > 0 && elements % known == 0)
        *open = elements / known;
    else if (open || known != elements)
        return wrong_count(a, &attrs->shape, err);
    return rows ? check_groups(a, out, err) : SL_OK;
}

sl_status sl_eval_reshape(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    memmove(a->out[0].data, x, (size_t)sl_type_slots(&a->out[0].type) * sizeof *x);
    return SL_OK;
}

/* ---- strided copies: out[i, j, ..] = x[offset + i * strides[0] + j * strides[1] + ..] ---- */

typedef struct {
    int64_t offset, strides[SL_MAX_RANK];
} steps;

/* The contiguous strides of x. */
static steps steps_of(const sl_dims *x) {
    steps s = {0};
    for (uint32_t d = 0; d < x->rank; d++) s.strides[d] = sl_dims_tail(x, d + 1);
    return s;
}

static sl_status eval_steps(const sl_eval_args *a, const steps *s, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_type *type = &a->out[0].type;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        int64_t source = s->offset, rest = i;
        for (uint32_t d = type->shape.rank; d-- > 0; rest /= type->shape.dims[d])
            source += rest % type->shape.dims[d] * s->strides[d];
        sl_move(type->dtype, a->out[0].data, i, x, source);
    }
    return SL_OK;
}

sl_status sl_infer_transpose(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_plain(a, err));
    const sl_dims *perm = &((const sl_transpose_attrs *)a->attrs)->perm, *x = &a->in[0].shape;
    SL_TRY(sl_check_attr(a->label, "the length of perm", perm->rank, x->rank, x->rank, err));
    bool seen[SL_MAX_RANK] = {false};
    for (uint32_t d = 0; d < x->rank; d++) {
        SL_TRY(
            sl_check_attr(a->label, "a dim in perm", perm->dims[d], 0, (int64_t)x->rank - 1, err));
        if (seen[perm->dims[d]])
            return sl_fail(err, SL_INVALID, "%s: perm names dim %lld twice", a->label,
                           (long long)perm->dims[d]);
        seen[perm->dims[d]] = true;
        a->out[0].shape.dims[d] = x->dims[perm->dims[d]];
    }
    return SL_OK;
}

sl_status sl_eval_transpose(const sl_eval_args *a, sl_error *err) {
    const sl_dims *perm = &((const sl_transpose_attrs *)a->attrs)->perm;
    const steps x = steps_of(&a->in[0].type.shape);
    steps turned = {0};
    for (uint32_t d = 0; d < perm->rank; d++) turned.strides[d] = x.strides[perm->dims[d]];
    return eval_steps(a, &turned, err);
}

sl_status sl_infer_slice(const sl_infer_args *a, sl_error *err) {
    const sl_slice_attrs *attrs = a->attrs;
    SL_TRY(infer_plain(a, err));
    uint32_t axis;
    SL_TRY(sl_find_axis(a->label, attrs->axis, a->in[0].shape.rank, &axis, err));
    const int64_t size = a->in[0].shape.dims[axis];
    SL_TRY(sl_check_attr(a->label, "start", attrs->start, 0, size, err));
    SL_TRY(sl_check_attr(a->label, "length", attrs->length, 0, size - attrs->start, err));
    a->out[0].shape.dims[axis] = attrs->length;
    return SL_OK;
}

sl_status sl_eval_slice(const sl_eval_args *a, sl_error *err) {
    const sl_slice_attrs *attrs = a->attrs;
    steps s = steps_of(&a->in[0].type.shape);
    s.offset = attrs->start * s.strides[sl_axis(attrs->axis, a->in[0].type.shape.rank)];
    return eval_steps(a, &s, err);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

int64_t sl_slice_range(int64_t start, int64_t end, int64_t step, int64_t size, int64_t *from) {
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    *from = clamp(start < 0 ? start + size : start, low, high);
    const int64_t to = clamp(end < 0 ? end + size : end, low, high);
    if (step < 0) return *from > to ? (*from - to - 1) / (step < -size ? size + 1 : -step) + 1 : 0;
    return *from < to ? (to - *from - 1) / step + 1 : 0;
}

sl_status sl_infer_strided_slice(const sl_infer_args *a, sl_error *err) {
    const sl_strided_slice_attrs *attrs = a->attrs;
    SL_TRY(infer_plain(a, err));
    const sl_dims *x = &a->in[0].shape;
    SL_TRY(sl_check_attr(a->label, "the number of starts", attrs->starts.count, x->rank, x->rank,
                         err));
    SL_TRY(sl_check_attr(a->label, "the number of ends", attrs->ends.count, x->rank, x->rank, err));
    SL_TRY(
        sl_check_attr(a->label, "the number of steps", attrs->steps.count, x->rank, x->rank, err));
    for (uint32_t d = 0; d < x->rank; d++) {
        if (attrs->steps.items[d] == 0)
            return sl_fail(err, SL_INVALID, "%s: step %u is 0, must not be 0", a->label, d);
        int64_t from;
        a->out[0].shape.dims[d] = sl_slice_range(attrs->starts.items[d], attrs->ends.items[d],
                                                 attrs->steps.items[d], x->dims[d], &from);
    }
    return SL_OK;
}

sl_status sl_eval_strided_slice(const sl_eval_args *a, sl_error *err) {
    const sl_strided_slice_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].type.shape, *out = &a->out[0].type.shape;
    steps s = steps_of(x);
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t from;
        (void)sl_slice_range(attrs->starts.items[d], attrs->ends.items[d], attrs->steps.items[d],
                             x->dims[d], &from);
        s.offset += from * s.strides[d];
        s.strides[d] *= out->dims[d] > 1 ? attrs->steps.items[d] : 0;
    }
    return eval_steps(a, &s, err);
}

sl_status sl_infer_reverse(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_plain(a, err));
    bool turned[SL_MAX_RANK] = {false};
    return sl_check_axes(a->label, &((const sl_reverse_attrs *)a->attrs)->axes, a->in[0].shape.rank,
                         turned, err);
}

sl_status sl_eval_reverse(const sl_eval_args *a, sl_error *err) {
    const sl_dims *axes = &((const sl_reverse_attrs *)a->attrs)->axes;
    const sl_dims *x = &a->in[0].type.shape;
    steps s = steps_of(x);
    for (uint32_t i = 0; i < axes->rank; i++) {
        const uint32_t axis = sl_axis(axes->dims[i], x->rank);
        s.offset += (x->dims[axis] - 1) * s.strides[axis];
        s.strides[axis] = -s.strides[axis];
    }
    return eval_steps(a, &s, err);
}

sl_status sl_infer_expand(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_plain(a, err));
    const sl_dims *x = &a->in[0].shape, *shape = &((const sl_expand_attrs *)a->attrs)->shape;
    SL_TRY(sl_check_attr(a->label, "the rank of shape", shape->rank, x->rank, SL_MAX_RANK, err));
    sl_dims *out = &a->out[0].shape;
    out->rank = shape->rank;
    for (uint32_t d = 0; d < shape->rank; d++) {
        const uint32_t added = shape->rank - x->rank;
        const int64_t wanted = shape->dims[d], own = d < added ? 1 : x->dims[d - added];
        out->dims[d] = wanted == -1 && d >= added ? own : wanted;
        if (out->dims[d] < 0 || (out->dims[d] != own && own != 1)) {
            char text[SL_TYPE_TEXT];
            return sl_fail(err, SL_INVALID, "%s: dim %u of shape is %lld, x %s does not fill it",
                           a->label, d, (long long)wanted,
                           sl_type_format(&a->in[0], text, sizeof text));
        }
    }
    return SL_OK;
}

sl_status sl_eval_expand(const sl_eval_args *a, sl_error *err) {
    const sl_dims *x = &a->in[0].type.shape;
    const uint32_t added = a->out[0].type.shape.rank - x->rank;
    steps s = {0};
    for (uint32_t d = 0; d < x->rank; d++)
        s.strides[added + d] = x->dims[d] == 1 ? 0 : sl_dims_tail(x, d + 1);
    return eval_steps(a, &s, err);
}

/* ---- concat, split ---- */

sl_status sl_infer_concat(const sl_infer_args *a, sl_error *err) {
    if (!a->in_count) return sl_fail(err, SL_INVALID, "%s: no parts, at least 1 wanted", a->label);
    SL_TRY(sl_check_kinds(a, 0, "the first part", SL_PLAIN, err));
    uint32_t axis;
    SL_TRY(sl_find_axis(a->label, ((const sl_concat_attrs *)a->attrs)->axis, a->in[0].shape.rank,
                        &axis, err));
    a->out[0] = a->in[0];
    for (uint32_t i = 1; i < a->in_count; i++) {
        SL_TRY(sl_type_check_shape(&a->in[i], a->label, err));
        sl_type same = a->in[i];
        if (same.shape.rank == a->in[0].shape.rank)
            same.shape.dims[axis] = a->in[0].shape.dims[axis];
        if (!sl_type_equal(&same, &a->in[0])) {
            char x[SL_TYPE_TEXT], y[SL_TYPE_TEXT];
            return sl_fail(err, SL_INVALID,
                           "%s: part %u is %s, must be like the first %s except along axis %u",
                           a->label, i, sl_type_format(&a->in[i], y, sizeof y),
                           sl_type_format(&a->in[0], x, sizeof x), axis);
        }
        a->out[0].shape.dims[axis] += a->in[i].shape.dims[axis];
    }
    return SL_OK;
}

/* A part of one axis, from index `at` on. */
typedef struct {
    const sl_type *whole, *part;
    uint32_t axis;
    int64_t at;
} place;

/* Copies the contiguous runs of dims[axis..] of a part from or to the whole tensor. */
static void copy_part(const place *p, const double *from, double *to, bool joins) {
    const int64_t unit = sl_unit(p->whole->dtype);
    const int64_t inner = sl_dims_tail(&p->whole->shape, p->axis + 1);
    const int64_t run = sl_dims_tail(&p->part->shape, p->axis) * unit;
    const int64_t row = sl_dims_tail(&p->whole->shape, p->axis) * unit;
    for (int64_t i = 0; i < sl_dims_head(&p->whole->shape, p->axis); i++) {
        const int64_t big = i * row + p->at * inner * unit, small = i * run;
        memcpy(to + (joins ? big : small), from + (joins ? small : big),
               (size_t)run * sizeof *from);
    }
}

sl_status sl_eval_concat(const sl_eval_args *a, sl_error *err) {
    const sl_type *out = &a->out[0].type;
    const uint32_t axis = sl_axis(((const sl_concat_attrs *)a->attrs)->axis, out->shape.rank);
    int64_t at = 0;
    for (uint32_t i = 0; i < a->in_count; i++) {
        const sl_eval_args part = {.label = a->label, .in = &a->in[i], .scratch = a->scratch};
        const double *x;
        SL_TRY(sl_eval_inputs(&part, 1, &x, err));
        copy_part(&(place){out, &a->in[i].type, axis, at}, x, a->out[0].data, true);
        at += a->in[i].type.shape.dims[axis];
    }
    return SL_OK;
}

sl_status sl_infer_split(const sl_infer_args *a, sl_error *err) {
    const sl_split_attrs *attrs = a->attrs;
    SL_TRY(sl_check_kinds(a, 0, "x", SL_PLAIN, err));
    uint32_t axis;
    SL_TRY(sl_find_axis(a->label, attrs->axis, a->in[0].shape.rank, &axis, err));
    SL_TRY(sl_check_attr(a->label, "the number of sizes", attrs->sizes.count, a->out_count,
                         a->out_count, err));
    int64_t left = a->in[0].shape.dims[axis];
    for (uint32_t i = 0; i < a->out_count; i++) {
        SL_TRY(sl_check_attr(a->label, "a size", attrs->sizes.items[i], 0, left, err));
        left -= attrs->sizes.items[i];
        a->out[i] = a->in[0];
        a->out[i].shape.dims[axis] = attrs->sizes.items[i];
    }
    if (!left) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: the sizes sum to %lld, must sum to %lld", a->label,
                   (long long)(a->in[0].shape.dims[axis] - left),
                   (long long)a->in[0].shape.dims[axis]);
}

sl_status sl_eval_split(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_type *whole = &a->in[0].type;
    const uint32_t axis = sl_axis(((const sl_split_attrs *)a->attrs)->axis, whole->shape.rank);
    int64_t at = 0;
    for (uint32_t i = 0; i < a->out_count; i++) {
        copy_part(&(place){whole, &a->out[i].type, axis, at}, x, a->out[i].data, false);
        at += a->out[i].type.shape.dims[axis];
    }
    return SL_OK;
}

/* ---- pad, triangles ---- */

enum { PAD_VALUE, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

sl_status sl_infer_pad(const sl_infer_args *a, sl_error *err) {
    const sl_pad_attrs *attrs = a->attrs;
    SL_TRY(infer_plain(a, err));
    SL_TRY(sl_check_kinds(a, 1, "value", SL_PLAIN, err));
    if (a->in[1].dtype != a->in[0].dtype || sl_type_elements(&a->in[1]) != 1)
        return sl_refuse(a, 1, "value", "one element of the type of x", err);
    const sl_dims *x = &a->in[0].shape;
    SL_TRY(sl_check_attr(a->label, "mode", attrs->mode, PAD_VALUE, PAD_WRAP, err));
    SL_TRY(sl_check_attr(a->label, "the length of before", attrs->before.count, x->rank, x->rank,
                         err));
    SL_TRY(
        sl_check_attr(a->label, "the length of after", attrs->after.count, x->rank, x->rank, err));
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t most = (int64_t)1 << 48, size = x->dims[d];
        const int64_t before = attrs->before.items[d], after = attrs->after.items[d];
        SL_TRY(sl_check_attr(a->label, "before", before, -size, most, err));
        SL_TRY(sl_check_attr(a->label, "after", after, -size - before, most, err));
        const bool grows = before > 0 || after > 0;
        if (attrs->mode != PAD_VALUE && grows && size == 0)
            return sl_refuse(a, 0, "x", "nonempty to be padded with its own elements", err);
        a->out[0].shape.dims[d] = before + size + after;
    }
    return SL_OK;
}

/* The index in [0, n) that position i (possibly outside) reads in a padding mode; -1: the fill
 * value. */
static int64_t padded(int64_t i, int64_t n, uint32_t mode) {
    if (i >= 0 && i < n) return i;
    if (mode == PAD_VALUE) return -1;
    if (mode == PAD_EDGE) return i < 0 ? 0 : n - 1;
    const int64_t period = mode == PAD_WRAP ? n : n > 1 ? 2 * (n - 1) : 1;
    const int64_t at = (i % period + period) % period;
    return at < n ? at : period - at;
}

sl_status sl_eval_pad(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_pad_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].type.shape;
    const sl_type *out = &a->out[0].type;
    for (int64_t i = 0; i < sl_type_elements(out); i++) {
        int64_t source = 0, rest = i;
        bool inside = true;
        for (uint32_t d = x->rank; d-- > 0; rest /= out->shape.dims[d]) {
            const int64_t at = rest % out->shape.dims[d] - attrs->before.items[d];
            const int64_t from = padded(at, x->dims[d], attrs->mode);
            inside = inside && from >= 0;
            source += from * sl_dims_tail(x, d + 1);
        }
        sl_move(out->dtype, a->out[0].data, i, in[!inside], inside ? source : 0);
    }
    return SL_OK;
}

sl_status sl_infer_trilu(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_plain(a, err));
    if (a->in[0].shape.rank < 2) return sl_refuse(a, 0, "x", "of at least two dims", err);
    return sl_check_attr(a->label, "upper", ((const sl_trilu_attrs *)a->attrs)->upper, 0, 1, err);
}

sl_status sl_eval_trilu(const sl_eval_args *a, sl_error *err) {
    const double *x, nothing[2] = {0};
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_trilu_attrs *attrs = a->attrs;
    const sl_type *type = &a->out[0].type;
    const int64_t rows = type->shape.dims[type->shape.rank - 2];
    const int64_t cols = type->shape.dims[type->shape.rank - 1];
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const int64_t away = i % cols - i / cols % rows;
        const bool stays = attrs->upper ? away >= attrs->k : away <= attrs->k;
        sl_move(type->dtype, a->out[0].data, i, stays ? x : nothing, stays ? i : 0);
    }
    return SL_OK;
}
