/* resize.c - Resizing: an item is a row of the output.
 *
 * First a weighted sum of input rows resizes all axes but the last; then the last axis is
 * resized. */
#include "core/resize.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/element.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* The taps (input index and weight) of the current output row for all axes but the last, and of all
 * output elements for the last axis. */
typedef struct {
    uint32_t rank;
    sl_resize_axis axes[SL_MAX_RANK];
    int64_t taps[SL_MAX_RANK];
    int64_t *indices[SL_MAX_RANK];
    double *weights[SL_MAX_RANK];
    bool *seen;  /* last axis: whether an element is inside the input */
    double *row; /* the combined input row, as doubles or floats */
} table;

/* How many taps are stored for axis i. */
static int64_t entries(const table *t, uint32_t i) {
    return t->taps[i] * (i + 1 == t->rank ? t->axes[i].out : 1);
}

/* Lays out the table in scratch and returns its size; with NULL it only counts. */
static size_t lay_table(const sl_resize_args *a, char *scratch, table *t) {
    size_t at = 0;
    *t = (table){.rank = a->x.type.shape.rank};
    for (uint32_t i = 0; i < t->rank; i++) {
        t->axes[i] = sl_resize_axis_of(&a->attrs, &a->x.type.shape, i);
        t->taps[i] = sl_resize_taps(&t->axes[i]);
        if (scratch) t->indices[i] = (int64_t *)(void *)(scratch + at);
        at += (size_t)entries(t, i) * sizeof(int64_t);
        if (scratch) t->weights[i] = (double *)(void *)(scratch + at);
        at += (size_t)entries(t, i) * sizeof(double);
    }
    if (scratch) t->row = (double *)(void *)(scratch + at);
    at += (size_t)last_dim(&a->x.type) * sizeof(double);
    if (scratch) t->seen = (bool *)(scratch + at);
    return at + (size_t)last_dim(&a->out.type);
}

SPLIT(resize) {
    const sl_resize_args *a = args;
    table t;
    const size_t bytes = lay_table(a, NULL, &t);
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < t.rank; i++) rows *= t.taps[i];
    const int64_t each = last_dim(&a->x.type) * rows +
                         last_dim(&a->out.type) * (t.rank ? t.taps[t.rank - 1] : 1) * 2;
    return (sl_split){rows_of(&a->out.type), grain_of(each), bytes};
}

static void fill_last(table *t) {
    const uint32_t last = t->rank - 1;
    for (int64_t o = 0; o < t->axes[last].out; o++)
        t->seen[o] = sl_resize_at(&t->axes[last], o, t->indices[last] + o * t->taps[last],
                                  t->weights[last] + o * t->taps[last]);
}

/* Computes the taps of output row `row`; false if it is outside the input.  *rows: the number of
 * input rows to combine. */
static bool fill_row(table *t, int64_t row, int64_t *rows) {
    *rows = 1;
    for (uint32_t i = t->rank - 1; i-- > 0;) {
        if (!sl_resize_at(&t->axes[i], row % t->axes[i].out, t->indices[i], t->weights[i]))
            return false;
        row /= t->axes[i].out;
        *rows *= t->taps[i];
    }
    return true;
}

/* The input row of combination `pick` of taps, and its weight. */
static int64_t picked_row(const table *t, int64_t pick, double *weight) {
    int64_t row = 0, stride = 1;
    *weight = 1;
    for (uint32_t i = t->rank - 1; i-- > 0;) {
        row += t->indices[i][pick % t->taps[i]] * stride;
        *weight *= t->weights[i][pick % t->taps[i]];
        stride *= t->axes[i].in;
        pick /= t->taps[i];
    }
    return row;
}

static void sum_rows_f32(const sl_resize_args *a, const table *t, int64_t rows) {
    const int64_t n = last_dim(&a->x.type);
    float *sum = (float *)(void *)t->row;
    for (int64_t pick = 0; pick < rows; pick++) {
        double weight;
        const float *from = (const float *)a->x.data + picked_row(t, pick, &weight) * n;
        const vf factor = vsplat((float)weight);
        FOR_VECTORS(i, count, n, {
            const vf before = pick ? vload_n(sum + i, count) : vzero();
            vstore_n(sum + i, vfma(vload_n(from + i, count), factor, before), count);
        });
    }
}

static void last_f32(const sl_resize_args *a, const table *t, float *out) {
    const uint32_t last = t->rank - 1;
    const int64_t taps = t->taps[last];
    const float *row = (const float *)(const void *)t->row;
    for (int64_t o = 0; o < t->axes[last].out; o++) {
        const int64_t *indices = t->indices[last] + o * taps;
        const double *weights = t->weights[last] + o * taps;
        float sum = 0;
        for (int64_t k = 0; k < taps && t->seen[o]; k++) sum += row[indices[k]] * (float)weights[k];
        out[o] = t->seen[o] ? sum : a->attrs.extrapolation;
    }
}

static void row_any(const sl_resize_args *a, const table *t, int64_t rows, int64_t to) {
    const sl_dtype dtype = a->x.type.dtype;
    const uint32_t last = t->rank - 1;
    const int64_t n = last_dim(&a->x.type), taps = t->taps[last];
    for (int64_t i = 0; i < n; i++) t->row[i] = 0;
    for (int64_t pick = 0; pick < rows; pick++) {
        double weight;
        const int64_t from = picked_row(t, pick, &weight) * n;
        for (int64_t i = 0; i < n; i++) t->row[i] += real_at(dtype, a->x.data, from + i) * weight;
    }
    for (int64_t o = 0; o < t->axes[last].out; o++) {
        double sum = 0;
        for (int64_t k = 0; k < taps && t->seen[o]; k++)
            sum += t->row[t->indices[last][o * taps + k]] * t->weights[last][o * taps + k];
        put_real(dtype, a->out.data, to + o, t->seen[o] ? sum : (double)a->attrs.extrapolation);
    }
}

/* Nearest neighbour: copies elements of any type. */
static void move_row(const sl_resize_args *a, const table *t, int64_t to, const char *outside) {
    const size_t bytes = sl_dtype_infos[a->x.type.dtype].bytes;
    double weight;
    const int64_t from = picked_row(t, 0, &weight) * last_dim(&a->x.type);
    for (int64_t o = 0; o < t->axes[t->rank - 1].out; o++) {
        const char *source = outside;
        if (t->seen[o])
            source = (const char *)a->x.data + (size_t)(from + t->indices[t->rank - 1][o]) * bytes;
        memcpy((char *)a->out.data + (size_t)(to + o) * bytes, source, bytes);
    }
}

RUN(resize) {
    const sl_resize_args *a = args;
    const size_t bytes = sl_dtype_infos[a->x.type.dtype].bytes;
    table t;
    (void)lay_table(a, worker->scratch, &t);
    if (t.rank == 0) {
        memcpy(a->out.data, a->x.data, bytes);
        return SL_OK;
    }
    fill_last(&t);
    char outside[16] = {0};
    const double value = (double)a->attrs.extrapolation;
    if (is_real(a->x.type.dtype)) sl_encode_f64(a->x.type.dtype, &value, 1, outside);
    const int64_t n = last_dim(&a->out.type);
    for (int64_t row = begin; row < end; row++) {
        int64_t rows;
        if (!fill_row(&t, row, &rows)) {
            for (int64_t o = 0; o < n; o++)
                memcpy((char *)a->out.data + (size_t)(row * n + o) * bytes, outside, bytes);
        } else if (t.axes[0].mode == SL_RESIZE_NEAREST) {
            move_row(a, &t, row * n, outside);
        } else if (a->x.type.dtype == SL_DTYPE_f32) {
            sum_rows_f32(a, &t, rows);
            last_f32(a, &t, (float *)a->out.data + row * n);
        } else {
            row_any(a, &t, rows, row * n);
        }
    }
    return SL_OK;
}

/* ---- resize_nearest2x: an item is a row of the smaller tensor ---- */

SPLIT(resize_nearest2x) {
    const sl_resize_nearest2x_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type) * 4), 0};
}

#define DOUBLE_ROW(TYPE)                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((TYPE *)to)[2 * i] = ((TYPE *)to)[2 * i + 1] = ((const TYPE *)from)[i]

RUN(resize_nearest2x) {
    const sl_resize_nearest2x_args *a = args;
    const size_t bytes = sl_dtype_infos[a->x.type.dtype].bytes;
    const int64_t n = last_dim(&a->x.type);
    for (int64_t row = begin; row < end; row++) {
        const void *from = (const char *)a->x.data + (size_t)(row * n) * bytes;
        void *to = (char *)a->out.data + (size_t)(row * 4 * n) * bytes;
        if (bytes == 4)
            DOUBLE_ROW(uint32_t);
        else if (bytes == 2)
            DOUBLE_ROW(uint16_t);
        else if (bytes == 8)
            DOUBLE_ROW(uint64_t);
        else
            DOUBLE_ROW(uint8_t);
        memcpy((char *)to + (size_t)(2 * n) * bytes, to, (size_t)(2 * n) * bytes);
    }
    return SL_OK;
}

SPLIT(resize_nearest2x_backward) {
    const sl_resize_nearest2x_backward_args *a = args;
    return (sl_split){rows_of(&a->dx.type), grain_of(last_dim(&a->dx.type) * 8), 0};
}
RUN(resize_nearest2x_backward) {
    const sl_resize_nearest2x_backward_args *a = args;
    const sl_dtype dtype = a->dy.type.dtype;
    const int64_t n = last_dim(&a->dx.type);
    for (int64_t i = begin * n; i < end * n; i++) {
        const int64_t at = i / n * 4 * n + i % n * 2;
        put_real(dtype, a->dx.data, i,
                 real_at(dtype, a->dy.data, at) + real_at(dtype, a->dy.data, at + 1) +
                     real_at(dtype, a->dy.data, at + 2 * n) +
                     real_at(dtype, a->dy.data, at + 2 * n + 1));
    }
    return SL_OK;
}
