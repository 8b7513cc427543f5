/* reduce_axis.c - Ops along one axis: argmax, argmin and cumulative ops. */
#include "core/ops.h"
#include "runtime/cpu/kernels/lines.h"
#include "runtime/cpu/kernels/wide.h"

enum { CHUNK = 256 };

/* Offset of the first line of an item, and its number of lines. */
static int64_t first_of(const lines *l, int64_t item, int64_t *columns) {
    const int64_t column = item % l->blocks * l->block;
    *columns = least(l->block, l->inner - column);
    return item / l->blocks * l->extent * l->inner + column;
}

/* ---- argmax and argmin ---- */

_Static_assert(sizeof(sl_argmax_args) == sizeof(sl_argmin_args), "they share their arguments");

static lines arg_lines(const sl_argmax_args *a) {
    const sl_dims *x = &a->x.type.shape;
    return lines_of(x, sl_axis(a->attrs.axis, x->rank));
}

static sl_split split_arg(const sl_argmax_args *a) {
    const lines l = arg_lines(a);
    return (sl_split){l.outer * l.blocks, grain_of(l.extent * l.block), 0};
}

/* Whether x replaces the best so far.  NaN never replaces anything and is never replaced. */
static bool is_better(sl_dtype dtype, wide x, wide best, bool least_wins, bool last) {
    if (is_real(dtype)) {
        if (x.real == best.real) return last;
        return least_wins ? x.real < best.real : x.real > best.real;
    }
    const int64_t flip = dtype == SL_DTYPE_u64 ? INT64_MIN : 0;
    const int64_t a = x.integer ^ flip, b = best.integer ^ flip;
    if (a == b) return last;
    return least_wins ? a < b : a > b;
}

static void store_index(const sl_view *out, int64_t at, int64_t index) {
    if (out->type.dtype == SL_DTYPE_i64)
        ((int64_t *)out->data)[at] = index;
    else
        ((int32_t *)out->data)[at] = (int32_t)index;
}

/* A contiguous line. */
static int64_t best_of_row(const sl_argmax_args *a, const char *x, int64_t n, bool least_wins) {
    const sl_dtype dtype = a->x.type.dtype;
    wide values[CHUNK], best;
    int64_t found = 0;
    if (dtype == SL_DTYPE_f32 && !least_wins && !a->attrs.last) {
        const float *floats = (const float *)(const void *)x;
        for (int64_t i = 1; i < n; i++)
            if (floats[i] > floats[found]) found = i;
        return found;
    }
    widen(dtype, x, 1, &best);
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = least(CHUNK, n - first);
        widen(dtype, x + (size_t)first * size_of(dtype), count, values);
        for (int64_t i = 0; i < count; i++)
            if (first + i && is_better(dtype, values[i], best, least_wins, a->attrs.last)) {
                best = values[i];
                found = first + i;
            }
    }
    return found;
}

static void run_arg(const sl_argmax_args *a, int64_t begin, int64_t end, bool least_wins) {
    const lines l = arg_lines(a);
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    for (int64_t item = begin; item < end; item++) {
        int64_t columns, found[MOST_LINES] = {0};
        const int64_t first = first_of(&l, item, &columns);
        const int64_t to = item / l.blocks * l.inner + item % l.blocks * l.block;
        const char *x = (const char *)a->x.data + (size_t)first * bytes;
        wide best[MOST_LINES], values[MOST_LINES];
        if (l.inner == 1) {
            store_index(&a->out, to, best_of_row(a, x, l.extent, least_wins));
            continue;
        }
        widen(dtype, x, columns, best);
        for (int64_t j = 1; j < l.extent; j++) {
            widen(dtype, x + (size_t)(j * l.inner) * bytes, columns, values);
            for (int64_t c = 0; c < columns; c++)
                if (is_better(dtype, values[c], best[c], least_wins, a->attrs.last)) {
                    best[c] = values[c];
                    found[c] = j;
                }
        }
        for (int64_t c = 0; c < columns; c++) store_index(&a->out, to + c, found[c]);
    }
}

SPLIT(argmax) {
    return split_arg(args);
}
RUN(argmax) {
    run_arg(args, begin, end, false);
    return SL_OK;
}
SPLIT(argmin) {
    return split_arg(args);
}
RUN(argmin) {
    run_arg(args, begin, end, true);
    return SL_OK;
}

/* ---- cumulative sums and products ---- */

_Static_assert(sizeof(sl_cumsum_args) == sizeof(sl_cumprod_args) &&
                   sizeof(sl_cumsum_args) == sizeof(sl_cumsum_backward_args),
               "they share their arguments");

typedef struct {
    fold kind;
    bool reverse;
} cumulation;

static lines cumulation_lines(const sl_cumsum_args *a) {
    return lines_of(&a->x.type.shape, sl_axis(a->attrs.axis, a->x.type.shape.rank));
}

static sl_split split_cumulation(const sl_cumsum_args *a) {
    const lines l = cumulation_lines(a);
    return (sl_split){l.outer * l.blocks, grain_of(l.extent * l.block * 2), 0};
}

/* A contiguous line, in chunks. */
static void cumulate_row(const sl_cumsum_args *a, const cumulation *c, int64_t first, int64_t n) {
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    wide so_far[2], values[CHUNK];
    start_fold(dtype, c->kind, so_far, 1);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t count = least(CHUNK, n - done);
        const size_t at = (size_t)(first + (c->reverse ? n - done - count : done)) * bytes;
        widen(dtype, (const char *)a->x.data + at, count, values);
        for (int64_t i = 0; i < count; i++) {
            wide *value = &values[c->reverse ? count - 1 - i : i];
            const wide before = *so_far;
            fold_wide(dtype, c->kind, so_far, value, 1);
            *value = a->attrs.exclusive ? before : *so_far;
        }
        narrow(dtype, values, count, (char *)a->out.data + at);
    }
}

static void cumulate(const sl_cumsum_args *a, int64_t begin, int64_t end, cumulation c) {
    const lines l = cumulation_lines(a);
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    for (int64_t item = begin; item < end; item++) {
        int64_t columns;
        const int64_t first = first_of(&l, item, &columns);
        if (l.inner == 1) {
            cumulate_row(a, &c, first, l.extent);
            continue;
        }
        wide so_far[MOST_LINES], values[MOST_LINES];
        start_fold(dtype, c.kind, so_far, columns);
        for (int64_t j = 0; j < l.extent; j++) {
            const int64_t row = c.reverse ? l.extent - 1 - j : j;
            const size_t at = (size_t)(first + row * l.inner) * bytes;
            char *to = (char *)a->out.data + at;
            widen(dtype, (const char *)a->x.data + at, columns, values);
            if (a->attrs.exclusive) narrow(dtype, so_far, columns, to);
            fold_wide(dtype, c.kind, so_far, values, columns);
            if (!a->attrs.exclusive) narrow(dtype, so_far, columns, to);
        }
    }
}

#define CUMULATION(OP, HOW, REVERSED)                                                              \
    SPLIT(OP) {                                                                                    \
        return split_cumulation(args);                                                             \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sl_cumsum_args *a = args;                                                            \
        cumulate(a, begin, end, (cumulation){HOW, (a->attrs.reverse != 0) != (REVERSED)});         \
        return SL_OK;                                                                              \
    }
CUMULATION(cumsum, FOLD_ADD, false)
CUMULATION(cumprod, FOLD_MUL, false)
CUMULATION(cumsum_backward, FOLD_ADD, true)
