/* sort.c - Sorting along one axis. */
#include "compiler/ops/operand.h"
#include <stdlib.h>

typedef struct {
    double slot;
    int64_t index;
    sl_dtype dtype;
    bool descending;
} entry;

/* Stable: ties by index. */
static int compare_entries(const void *x, const void *y) {
    const entry *a = x, *b = y;
    const bool less = sl_slot_less(a->dtype, &a->slot, &b->slot);
    const bool greater = sl_slot_less(a->dtype, &b->slot, &a->slot);
    if (less || greater) return less == a->descending ? 1 : -1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* How an op sorts the lines along one axis. */
typedef struct {
    uint32_t axis;
    bool descending;
    int64_t kept;            /* elements kept of each line */
    double *values, *places; /* NULL: not a result; places are i64 */
} sorting;

static void keep_line(const sorting *s, const entry *entries, int64_t at, int64_t inner) {
    for (int64_t j = 0; j < s->kept; j++) {
        if (s->values) s->values[at + j * inner] = entries[j].slot;
        if (s->places)
            sl_slot_set_integer(SL_DTYPE_i64, &s->places[at + j * inner], entries[j].index);
    }
}

static sl_status eval_sorting(const sl_eval_args *a, const sorting *s, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_type *type = &a->in[0].type;
    const int64_t count = type->shape.dims[s->axis];
    const int64_t inner = sl_dims_tail(&type->shape, s->axis + 1);
    const int64_t lines = count ? sl_type_elements(type) / count : 0;
    entry *entries = SL_ARENA_NEW_ARRAY(a->scratch, entry, count + 1);
    if (!entries) return sl_no_memory(err, a->label, (uint64_t)count * sizeof *entries);
    for (int64_t i = 0; i < lines; i++) {
        const double *line = x + i / inner * inner * count + i % inner;
        for (int64_t j = 0; j < count; j++)
            entries[j] = (entry){line[j * inner], j, type->dtype, s->descending};
        qsort(entries, (size_t)count, sizeof *entries, compare_entries);
        keep_line(s, entries, i / inner * inner * s->kept + i % inner, inner);
    }
    return SL_OK;
}

sl_status sl_infer_topk(const sl_infer_args *a, sl_error *err) {
    const sl_topk_attrs *attrs = a->attrs;
    uint32_t axis;
    SL_TRY(sl_check_kinds(a, 0, "x", SL_NUMBERS | SL_BOOLS, err));
    SL_TRY(sl_find_axis(a->label, attrs->axis, a->in[0].shape.rank, &axis, err));
    SL_TRY(sl_check_attr(a->label, "k", attrs->k, 0, a->in[0].shape.dims[axis], err));
    SL_TRY(sl_check_attr(a->label, "largest", attrs->largest, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "sorted", attrs->sorted, 0, 1, err));
    a->out[0] = a->out[1] = a->in[0];
    a->out[0].shape.dims[axis] = a->out[1].shape.dims[axis] = attrs->k;
    a->out[1].dtype = SL_DTYPE_i64;
    return SL_OK;
}

sl_status sl_eval_topk(const sl_eval_args *a, sl_error *err) {
    const sl_topk_attrs *attrs = a->attrs;
    const sorting s = {.axis = sl_axis(attrs->axis, a->in[0].type.shape.rank),
                       .descending = attrs->largest,
                       .kept = attrs->k,
                       .values = a->out[0].data,
                       .places = a->out[1].data};
    return eval_sorting(a, &s, err);
}

_Static_assert(sizeof(sl_sort_attrs) == sizeof(sl_argsort_attrs), "one struct serves both");

static sl_status infer_sorting(const sl_infer_args *a, sl_error *err) {
    const sl_sort_attrs *attrs = a->attrs;
    uint32_t axis;
    SL_TRY(sl_check_kinds(a, 0, "x", SL_NUMBERS | SL_BOOLS, err));
    SL_TRY(sl_find_axis(a->label, attrs->axis, a->in[0].shape.rank, &axis, err));
    a->out[0] = a->in[0];
    return sl_check_attr(a->label, "descending", attrs->descending, 0, 1, err);
}

static sorting whole_sorting(const sl_eval_args *a) {
    const sl_sort_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].type.shape;
    const uint32_t axis = sl_axis(attrs->axis, x->rank);
    return (sorting){.axis = axis, .descending = attrs->descending, .kept = x->dims[axis]};
}

sl_status sl_infer_sort(const sl_infer_args *a, sl_error *err) {
    return infer_sorting(a, err);
}

sl_status sl_eval_sort(const sl_eval_args *a, sl_error *err) {
    sorting s = whole_sorting(a);
    s.values = a->out[0].data;
    return eval_sorting(a, &s, err);
}

sl_status sl_infer_argsort(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_sorting(a, err));
    a->out[0].dtype = SL_DTYPE_i64;
    return SL_OK;
}

sl_status sl_eval_argsort(const sl_eval_args *a, sl_error *err) {
    sorting s = whole_sorting(a);
    s.places = a->out[0].data;
    return eval_sorting(a, &s, err);
}
