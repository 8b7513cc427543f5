/* sort.c - Sorting and top-k along one axis: an item is a line. */
#include "core/ops.h"
#include "runtime/cpu/kernels/lines.h"
#include "runtime/cpu/kernels/wide.h"

/* A key orders as its value does, as an unsigned integer. */
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
        value.real += 0.0; /* -0 becomes 0 */
        key = (uint64_t)value.integer;
        key = key & top ? ~key : key | top;
    }
    return descending ? ~key : key;
}

/* Reads a line as entries. */
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

/* Runs of this length are sorted by insertion. */
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

/* Merge sort of n entries; `room` holds as many.  Returns where the result is, e or room. */
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

/* Sifts down the top of a max-heap. */
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

/* The first k of n entries, in order; returns where they are. */
static entry *select_entries(entry *e, entry *room, int64_t n, int64_t k) {
    if (k * 8 > n) return sort_entries(e, room, n);
    entry *sorted = sort_entries(e, room, k);
    if (sorted != e) memcpy(e, sorted, (size_t)k * sizeof *e);
    for (int64_t i = 0; i < k / 2; i++) { /* an array in descending order is a heap */
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

/* What an op takes from the sorted lines. */
typedef struct {
    const sl_cview *x;
    uint32_t axis;
    bool descending;
    int64_t kept;
    const sl_view *values, *indices; /* NULL: not an output */
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
