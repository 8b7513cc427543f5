/* sort.c - Ops along one axis: argmax, argmin, cumulative sums, top-k and sorting. */
#include "core/ops.h"
#include "runtime/cpu/kernels/elements.h"
#include "runtime/cpu/kernels/wide.h"

/* The dims around an axis.  An item is up to `block` neighbouring lines. */
typedef struct {
    int64_t outer, extent, inner, block, blocks;
} lines;

enum { MOST_LINES = 64, CHUNK = 256 };

static lines lines_of(const sl_dims *x, uint32_t axis) {
    lines l = {head_of(x, axis), x->dims[axis], sl_dims_tail(x, axis + 1), 0, 0};
    l.block = least(l.inner, MOST_LINES);
    l.blocks = parts_of(l.inner, l.block);
    return l;
}

/* Element `row` of the first line of an item, and the number of lines. */
static int64_t first_of(const lines *l, int64_t item, int64_t *columns) {
    const int64_t column = item % l->blocks * l->block;
    *columns = least(l->block, l->inner - column);
    return item / l->blocks * l->extent * l->inner + column;
}

/* ---- argmax and argmin ---- */

_Static_assert(sizeof(sl_argmax_args) == sizeof(sl_argmin_args), "they share their arguments");

static lines arg_lines(const sl_argmax_args *a) {
    const sl_dims *x = &a->x.type.shape;
    return lines_of(x, x->rank - 1 - (uint32_t)a->attrs.axis);
}

static sl_split split_arg(const sl_argmax_args *a) {
    const lines l = arg_lines(a);
    return (sl_split){l.outer * l.blocks, grain_of(l.extent * l.block), 0};
}

/* Whether x takes the place of the best so far; NaN never does, nor is one replaced. */
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

/* The line lies side by side. */
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

/* ---- running sums and products ---- */

_Static_assert(sizeof(sl_cumsum_args) == sizeof(sl_cumprod_args) &&
                   sizeof(sl_cumsum_args) == sizeof(sl_cumsum_backward_args),
               "they share their arguments");

typedef struct {
    fold how;
    bool reverse;
} cumulation;

static lines cumulation_lines(const sl_cumsum_args *a) {
    return lines_of(&a->x.type.shape, sl_axis(a->attrs.axis, a->x.type.shape.rank));
}

static sl_split split_cumulation(const sl_cumsum_args *a) {
    const lines l = cumulation_lines(a);
    return (sl_split){l.outer * l.blocks, grain_of(l.extent * l.block * 2), 0};
}

/* One line that lies side by side, in chunks. */
static void cumulate_row(const sl_cumsum_args *a, const cumulation *c, int64_t first, int64_t n) {
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    wide so_far[2], values[CHUNK];
    start_fold(dtype, c->how, so_far, 1);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t count = least(CHUNK, n - done);
        const size_t at = (size_t)(first + (c->reverse ? n - done - count : done)) * bytes;
        widen(dtype, (const char *)a->x.data + at, count, values);
        for (int64_t i = 0; i < count; i++) {
            wide *value = &values[c->reverse ? count - 1 - i : i];
            const wide before = *so_far;
            fold_wide(dtype, c->how, so_far, value, 1);
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
        start_fold(dtype, c.how, so_far, columns);
        for (int64_t j = 0; j < l.extent; j++) {
            const int64_t row = c.reverse ? l.extent - 1 - j : j;
            const size_t at = (size_t)(first + row * l.inner) * bytes;
            char *to = (char *)a->out.data + at;
            widen(dtype, (const char *)a->x.data + at, columns, values);
            if (a->attrs.exclusive) narrow(dtype, so_far, columns, to);
            fold_wide(dtype, c.how, so_far, values, columns);
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

/* ---- sorting: an item is a line ---- */

/* Keys are in the order of what they stand for. */
typedef struct {
    uint64_t key;
    int64_t index;
} entry;

static bool comes_first(const entry *a, const entry *b) {
    return a->key < b->key || (a->key == b->key && a->index < b->index);
}

static uint64_t key_of(sl_dtype dtype, wide value, bool descending) {
    const uint64_t top = (uint64_t)1 << 63;
    uint64_t key = (uint64_t)value.integer;
    if (!is_real(dtype)) {
        if (dtype != SL_DTYPE_u64) key ^= top;
    } else if (isnan(value.real)) {
        key = UINT64_MAX;
    } else {
        value.real += 0.0; /* -0 is 0 */
        key = (uint64_t)value.integer;
        key = key & top ? ~key : key | top;
    }
    return descending ? ~key : key;
}

/* A line as entries. */
static void load_entries(const sl_cview *x, int64_t first, const lines *l, bool descending,
                         entry *to) {
    const sl_dtype dtype = x->type.dtype;
    for (int64_t j = 0; j < l->extent; j++) {
        wide value;
        widen(dtype, (const char *)x->data + (size_t)(first + j * l->inner) * size_of(dtype), 1,
              &value);
        to[j] = (entry){key_of(dtype, value, descending), j};
    }
}

/* Runs that are sorted by insertion. */
enum { SHORT = 16 };
static void sort_short(entry *e, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const entry moved = e[i];
        int64_t j = i;
        for (; j > 0 && comes_first(&moved, &e[j - 1]); j--) e[j] = e[j - 1];
        e[j] = moved;
    }
}

static void merge(const entry *a, int64_t a_count, const entry *b, int64_t b_count, entry *to) {
    while (a_count && b_count) {
        const bool second = comes_first(b, a);
        *to++ = second ? *b : *a;
        b += second, b_count -= second;
        a += !second, a_count -= !second;
    }
    memcpy(to, a, (size_t)a_count * sizeof *a);
    memcpy(to + a_count, b, (size_t)b_count * sizeof *b);
}

/* Sorts n entries with room for as many; returns where they are. */
static entry *sort_entries(entry *e, entry *room, int64_t n) {
    for (int64_t i = 0; i < n; i += SHORT) sort_short(e + i, least(SHORT, n - i));
    for (int64_t run = SHORT; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t first = least(run, n - i), second = least(run, n - i - first);
            merge(e + i, first, e + i + first, second, room + i);
        }
        entry *other = e;
        e = room;
        room = other;
    }
    return e;
}

/* Moves the entry at the top of a heap, whose last come first, down to its place. */
static void sift(entry *heap, int64_t n) {
    const entry moved = heap[0];
    int64_t at = 0;
    for (int64_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && comes_first(&heap[child], &heap[child + 1])) child++;
        if (!comes_first(&moved, &heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* The k of n entries that come first, in order; returns where they are. */
static entry *select_entries(entry *e, entry *room, int64_t n, int64_t k) {
    if (k * 8 > n) return sort_entries(e, room, n);
    entry *sorted = sort_entries(e, room, k);
    if (sorted != e) memcpy(e, sorted, (size_t)k * sizeof *e);
    for (int64_t i = 0; i < k / 2; i++) { /* descending order is a heap */
        const entry other = e[i];
        e[i] = e[k - 1 - i];
        e[k - 1 - i] = other;
    }
    for (int64_t i = k; i < n && k > 0; i++) {
        if (!comes_first(&e[i], &e[0])) continue;
        e[0] = e[i];
        sift(e, k);
    }
    return sort_entries(e, room, k);
}

/* What an op wants of the sorted lines. */
typedef struct {
    const sl_cview *x;
    uint32_t axis;
    bool descending;
    int64_t kept;
    const sl_view *values, *indices; /* NULL where not wanted */
} sorting;

static sl_split split_sorting(const sorting *s) {
    const lines l = lines_of(&s->x->type.shape, s->axis);
    return (sl_split){l.outer * l.inner, grain_of(l.extent * 16),
                      (size_t)(2 * l.extent) * sizeof(entry)};
}

static void run_sorting(const sorting *s, int64_t begin, int64_t end, void *scratch) {
    const lines l = lines_of(&s->x->type.shape, s->axis);
    const size_t bytes = size_of(s->x->type.dtype);
    entry *entries = scratch;
    for (int64_t line = begin; line < end; line++) {
        const int64_t outer = line / l.inner, column = line % l.inner;
        const int64_t first = outer * l.extent * l.inner + column;
        load_entries(s->x, first, &l, s->descending, entries);
        const entry *e = select_entries(entries, entries + l.extent, l.extent, s->kept);
        for (int64_t j = 0; j < s->kept; j++) {
            const int64_t to = outer * s->kept * l.inner + column + j * l.inner;
            const int64_t from = first + e[j].index * l.inner;
            if (s->indices) ((int64_t *)s->indices->data)[to] = e[j].index;
            if (s->values)
                copy_bytes((char *)s->values->data + (size_t)to * bytes,
                           (const char *)s->x->data + (size_t)from * bytes, bytes);
        }
    }
}

static sorting topk_sorting(const sl_topk_args *a) {
    return (sorting){&a->x,
                     sl_axis(a->attrs.axis, a->x.type.shape.rank),
                     a->attrs.largest,
                     a->attrs.k,
                     &a->values,
                     &a->indices};
}
static sorting sort_sorting(const sl_sort_args *a) {
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    return (sorting){&a->x, axis, a->attrs.descending, dim(&a->x.type, axis), &a->out, NULL};
}
static sorting argsort_sorting(const sl_argsort_args *a) {
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    return (sorting){&a->x, axis, a->attrs.descending, dim(&a->x.type, axis), NULL, &a->out};
}

#define SORTING(OP)                                                                                \
    SPLIT(OP) {                                                                                    \
        const sorting s = OP##_sorting(args);                                                      \
        return split_sorting(&s);                                                                  \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sorting s = OP##_sorting(args);                                                      \
        run_sorting(&s, begin, end, worker->scratch);                                              \
        return SL_OK;                                                                              \
    }
SORTING(topk)
SORTING(sort)
SORTING(argsort)
