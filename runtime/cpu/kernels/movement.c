/* movement.c - Transpose, slice, pad, concat and similar, for any plain type. */
#include "core/ops.h"
#include "runtime/cpu/kernels/elements.h"

/* The number of contiguous runs of dims[axis..], and the bytes of one. */
static int64_t stretches(const sl_type *type, uint32_t axis) {
    return head_of(&type->shape, axis);
}
static size_t stretch_bytes(const sl_type *type, uint32_t axis) {
    return (size_t)sl_dims_tail(&type->shape, axis) * element_bytes(type);
}

/* ---- strided copies: an item is a part of an output row ---- */

/* out[i, j, ..] = x[offset + i * strides[0] + j * strides[1] + ..]; rank is at least 1. */
typedef struct {
    uint32_t rank;
    int64_t dims[SL_MAX_RANK], strides[SL_MAX_RANK];
    int64_t offset;
} steps;

enum { LONGEST = 16384 }; /* elements of an item, at most */

/* Adds an innermost dim; merges it with the previous one if they are contiguous. */
static void push_dim(steps *s, int64_t size, int64_t stride) {
    if (size == 1) return;
    if (s->rank && s->strides[s->rank - 1] == stride * size) {
        s->dims[s->rank - 1] *= size;
        s->strides[s->rank - 1] = stride;
        return;
    }
    s->dims[s->rank] = size;
    s->strides[s->rank++] = stride;
}

static steps end_dims(steps s) {
    if (s.rank) return s;
    s.rank = 1;
    s.dims[0] = s.strides[0] = 1;
    return s;
}

static sl_split split_steps(const steps *s, const sl_type *out) {
    const int64_t n = s->dims[s->rank - 1], rows = sl_type_elements(out) / n;
    return (sl_split){rows * parts_of(n, LONGEST), grain_of(least(n, LONGEST) * 2), 0};
}

#define COPY_STRIDED(TYPE)                                                                         \
    for (int64_t i = 0; i < n; i++) ((TYPE *)to)[i] = ((const TYPE *)from)[i * stride]
static void copy_strided(void *to, const void *from, int64_t n, int64_t stride, size_t bytes) {
    if (stride == 1)
        memcpy(to, from, (size_t)n * bytes);
    else if (bytes == 4)
        COPY_STRIDED(uint32_t);
    else if (bytes == 8)
        COPY_STRIDED(uint64_t);
    else if (bytes == 2)
        COPY_STRIDED(uint16_t);
    else
        COPY_STRIDED(uint8_t);
}

static void run_steps(const steps *s, const sl_cview *x, const sl_view *out, int64_t begin,
                      int64_t end) {
    const size_t bytes = element_bytes(&x->type);
    const int64_t n = s->dims[s->rank - 1], stride = s->strides[s->rank - 1];
    const int64_t parts = parts_of(n, LONGEST);
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / parts, first = item % parts * LONGEST;
        int64_t rest = row, from = s->offset + first * stride;
        for (uint32_t d = s->rank - 1; d-- > 0; rest /= s->dims[d])
            from += rest % s->dims[d] * s->strides[d];
        copy_strided((char *)out->data + (size_t)(row * n + first) * bytes,
                     (const char *)x->data + from * (int64_t)bytes, least(n - first, LONGEST),
                     stride, bytes);
    }
}

static steps transpose_steps(const sl_transpose_args *a) {
    const sl_dims *perm = &a->attrs.perm, *out = &a->out.type.shape;
    steps s = {0};
    for (uint32_t d = 0; d < out->rank; d++)
        push_dim(&s, out->dims[d], sl_dims_tail(&a->x.type.shape, (uint32_t)perm->dims[d] + 1));
    return end_dims(s);
}

static steps slice_steps(const sl_slice_args *a) {
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape;
    steps s = {.offset = a->attrs.start * sl_dims_tail(x, sl_axis(a->attrs.axis, x->rank) + 1)};
    for (uint32_t d = 0; d < x->rank; d++) push_dim(&s, out->dims[d], sl_dims_tail(x, d + 1));
    return end_dims(s);
}

/* The first element that start:end:step selects of an axis of `size`; the selection is not
 * empty. */
static int64_t first_of(int64_t start, int64_t step, int64_t size) {
    const int64_t at = start < 0 ? start + size : start, last = size - 1;
    if (step < 0) return at > last ? last : at;
    return at < 0 ? 0 : at;
}

static steps strided_slice_steps(const sl_strided_slice_args *a) {
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape;
    steps s = {0};
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t step = a->attrs.steps.items[d], inner = sl_dims_tail(x, d + 1);
        s.offset += first_of(a->attrs.starts.items[d], step, x->dims[d]) * inner;
        if (out->dims[d] > 1) push_dim(&s, out->dims[d], step * inner);
    }
    return end_dims(s);
}

static steps reverse_steps(const sl_reverse_args *a) {
    const sl_dims *x = &a->x.type.shape, *axes = &a->attrs.axes;
    bool turned[SL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < axes->rank; i++) turned[sl_axis(axes->dims[i], x->rank)] = true;
    steps s = {0};
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t inner = sl_dims_tail(x, d + 1);
        if (turned[d]) s.offset += (x->dims[d] - 1) * inner;
        push_dim(&s, x->dims[d], turned[d] ? -inner : inner);
    }
    return end_dims(s);
}

static steps expand_steps(const sl_expand_args *a) {
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape;
    const uint32_t added = out->rank - x->rank;
    steps s = {0};
    for (uint32_t d = 0; d < out->rank; d++) {
        const int64_t own = d < added ? 1 : x->dims[d - added];
        push_dim(&s, out->dims[d], own == 1 ? 0 : sl_dims_tail(x, d - added + 1));
    }
    return end_dims(s);
}

/* Everything but the offset, which is only known at run time. */
static steps dynamic_slice_steps(const sl_dynamic_slice_args *a) {
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape;
    steps s = {0};
    for (uint32_t d = 0; d < x->rank; d++) push_dim(&s, out->dims[d], sl_dims_tail(x, d + 1));
    return end_dims(s);
}

#define STEPS(OP)                                                                                  \
    SPLIT(OP) {                                                                                    \
        const sl_##OP##_args *a = args;                                                            \
        const steps s = OP##_steps(a);                                                             \
        return split_steps(&s, &a->out.type);                                                      \
    }
#define MOVE(OP)                                                                                   \
    STEPS(OP)                                                                                      \
    RUN(OP) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        const steps s = OP##_steps(a);                                                             \
        run_steps(&s, &a->x, &a->out, begin, end);                                                 \
        return SL_OK;                                                                              \
    }
MOVE(transpose)
MOVE(slice)
MOVE(strided_slice)
MOVE(reverse)
MOVE(expand)

STEPS(dynamic_slice)
RUN(dynamic_slice) {
    const sl_dynamic_slice_args *a = args;
    steps s = dynamic_slice_steps(a);
    s.offset = part_offset(&a->x.type.shape, &a->out.type.shape, &a->starts);
    run_steps(&s, &a->x, &a->out, begin, end);
    return SL_OK;
}

/* An item is a row of x. */
SPLIT(dynamic_update_slice) {
    const sl_dynamic_update_slice_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type)), 0};
}
RUN(dynamic_update_slice) {
    const sl_dynamic_update_slice_args *a = args;
    const sl_dims *x = &a->x.type.shape, *part = &a->update.type.shape;
    const int64_t offset = part_offset(x, part, &a->starts);
    const size_t bytes = element_bytes(&a->x.type),
                 row_bytes = stretch_bytes(&a->x.type, x->rank ? x->rank - 1 : 0);
    const int64_t cols = last_dim(&a->x.type), width = last_dim(&a->update.type);
    const bool some = sl_type_elements(&a->update.type) > 0;
    for (int64_t row = begin; row < end; row++) {
        char *to = (char *)a->out.data + (size_t)row * row_bytes;
        memcpy(to, (const char *)a->x.data + (size_t)row * row_bytes, row_bytes);
        /* The row's index in the update, dim by dim. */
        int64_t rest = row, first = offset / cols, at = 0, stride = 1;
        bool inside = some;
        for (uint32_t d = x->rank ? x->rank - 1 : 0; d-- > 0;) {
            const int64_t i = rest % x->dims[d] - first % x->dims[d];
            inside = inside && i >= 0 && i < part->dims[d];
            at += i * stride;
            stride *= part->dims[d];
            rest /= x->dims[d], first /= x->dims[d];
        }
        if (inside)
            memcpy(to + (size_t)(offset % cols) * bytes,
                   (const char *)a->update.data + (size_t)(at * width) * bytes,
                   (size_t)width * bytes);
    }
    return SL_OK;
}

/* ---- concat, split: an item is a contiguous run of one part ---- */

SPLIT(concat) {
    const sl_concat_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->out.type.shape.rank);
    const int64_t parts = SL_LIST_COUNT(a->parts);
    return (sl_split){stretches(&a->out.type, axis) * parts,
                      grain_of((int64_t)stretch_bytes(&a->out.type, axis) / 4 / parts), 0};
}
RUN(concat) {
    const sl_concat_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->out.type.shape.rank);
    const int64_t parts = SL_LIST_COUNT(a->parts);
    const size_t whole = stretch_bytes(&a->out.type, axis);
    size_t at = 0;
    for (int64_t p = 0; p < begin % parts; p++) at += stretch_bytes(&a->parts.items[p].type, axis);
    for (int64_t i = begin; i < end; i++) {
        const sl_cview *part = &a->parts.items[i % parts];
        const size_t bytes = stretch_bytes(&part->type, axis), row = (size_t)(i / parts);
        if (i % parts == 0) at = 0;
        if (bytes)
            memcpy((char *)a->out.data + row * whole + at, (const char *)part->data + row * bytes,
                   bytes);
        at += bytes;
    }
    return SL_OK;
}

SPLIT(split) {
    const sl_split_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    const int64_t parts = SL_LIST_COUNT(a->parts);
    return (sl_split){stretches(&a->x.type, axis) * parts,
                      grain_of((int64_t)stretch_bytes(&a->x.type, axis) / 4 / parts), 0};
}
RUN(split) {
    const sl_split_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    const int64_t parts = SL_LIST_COUNT(a->parts);
    const size_t whole = stretch_bytes(&a->x.type, axis);
    size_t at = 0;
    for (int64_t p = 0; p < begin % parts; p++) at += stretch_bytes(&a->parts.items[p].type, axis);
    for (int64_t i = begin; i < end; i++) {
        const sl_view *part = &a->parts.items[i % parts];
        const size_t bytes = stretch_bytes(&part->type, axis), row = (size_t)(i / parts);
        if (i % parts == 0) at = 0;
        if (bytes)
            memcpy((char *)part->data + row * bytes, (const char *)a->x.data + row * whole + at,
                   bytes);
        at += bytes;
    }
    return SL_OK;
}

/* ---- pad, roll, triangles: an item is a row of the output ---- */

/* The index in [0, n) that position i (possibly outside) reads in a padding mode; -1: the fill
 * value. */
static int64_t padded(int64_t i, int64_t n, uint32_t mode) {
    if (i >= 0 && i < n) return i;
    if (mode == 0) return -1;
    if (mode == 2) return i < 0 ? 0 : n - 1;
    const int64_t period = mode == 3 ? n : n > 1 ? 2 * (n - 1) : 1;
    int64_t at = i % period;
    if (at < 0) at += period;
    return at < n ? at : period - at;
}

/* One padded row: `before` elements, the row x of `size` elements, and the rest.  x is NULL if the
 * whole row is the fill value. */
static void pad_row(const sl_pad_args *a, const char *x, int64_t before, int64_t size, char *to) {
    const size_t bytes = element_bytes(&a->x.type);
    const int64_t n = last_dim(&a->out.type);
    const int64_t first = x ? least(before > 0 ? before : 0, n) : n;
    const int64_t last = x ? least(before + size > first ? before + size : first, n) : n;
    for (int64_t i = 0; i < n; i++) {
        if (i == first && last > first) {
            memcpy(to + (size_t)i * bytes, x + (i - before) * (int64_t)bytes,
                   (size_t)(last - first) * bytes);
            i = last - 1;
            continue;
        }
        const int64_t from = x ? padded(i - before, size, a->attrs.mode) : -1;
        copy_bytes(to + (size_t)i * bytes,
                   from < 0 ? (const char *)a->value.data : x + from * (int64_t)bytes, bytes);
    }
}

SPLIT(pad) {
    const sl_pad_args *a = args;
    return (sl_split){rows_of(&a->out.type), grain_of(last_dim(&a->out.type)), 0};
}
RUN(pad) {
    const sl_pad_args *a = args;
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape;
    const size_t bytes = element_bytes(&a->x.type);
    const int64_t n = last_dim(&a->out.type);
    const uint32_t last = x->rank ? x->rank - 1 : 0;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, from = 0;
        bool inside = true;
        for (uint32_t d = last; d-- > 0; rest /= out->dims[d]) {
            const int64_t at =
                padded(rest % out->dims[d] - a->attrs.before.items[d], x->dims[d], a->attrs.mode);
            inside = inside && at >= 0;
            from += at * sl_dims_tail(x, d + 1);
        }
        pad_row(a, inside ? (const char *)a->x.data + from * (int64_t)bytes : NULL,
                x->rank ? a->attrs.before.items[last] : 0, x->rank ? x->dims[last] : 1,
                (char *)a->out.data + (size_t)(row * n) * bytes);
    }
    return SL_OK;
}

SPLIT(trilu) {
    const sl_trilu_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type)), 0};
}
RUN(trilu) {
    const sl_trilu_args *a = args;
    const size_t bytes = element_bytes(&a->x.type);
    const int64_t rows = dim(&a->x.type, a->x.type.shape.rank - 2), cols = last_dim(&a->x.type);
    const int64_t k = a->attrs.k > cols ? cols : a->attrs.k < -rows ? -rows : a->attrs.k;
    for (int64_t row = begin; row < end; row++) {
        /* Columns [first, last) are kept. */
        const int64_t edge = row % rows + k + !a->attrs.upper;
        const int64_t cut = edge < 0 ? 0 : least(edge, cols);
        const int64_t first = a->attrs.upper ? cut : 0, last = a->attrs.upper ? cols : cut;
        char *to = (char *)a->out.data + (size_t)(row * cols) * bytes;
        const char *from = (const char *)a->x.data + (size_t)(row * cols) * bytes;
        memset(to, 0, (size_t)first * bytes);
        memcpy(to + (size_t)first * bytes, from + (size_t)first * bytes,
               (size_t)(last - first) * bytes);
        memset(to + (size_t)last * bytes, 0, (size_t)(cols - last) * bytes);
    }
    return SL_OK;
}
