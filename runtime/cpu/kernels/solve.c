/* solve.c - Linear systems by LU decomposition with partial pivoting, in doubles for all types: an
 * f32 result then has only its own rounding error, unless the matrix is nearly singular.  An item
 * is a system. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <math.h>
#include <string.h>

typedef struct {
    const char *op;
    const sl_cview *a, *b;
    const sl_view *out;
    int64_t size, cols, count;
} systems;

static systems systems_of(const char *op, const sl_cview *a, const sl_cview *b,
                          const sl_view *out) {
    systems s = {.op = op, .a = a, .b = b, .out = out, .size = last_dim(&a->type)};
    s.count = sl_type_elements(&a->type) / (s.size * s.size);
    s.cols = sl_type_elements(&b->type) / (s.size * s.count);
    return s;
}

static sl_split split_systems(const systems *s) {
    return (sl_split){s->count, grain_of(s->size * s->size * (s->size + s->cols)),
                      (size_t)(s->size * (s->size + s->cols)) * sizeof(double)};
}

static void to_doubles(const sl_cview *from, int64_t at, int64_t count, double *to) {
    if (from->type.dtype == SL_DTYPE_f64)
        memcpy(to, (const double *)from->data + at, (size_t)count * sizeof *to);
    else
        for (int64_t i = 0; i < count; i++) to[i] = (double)((const float *)from->data)[at + i];
}

static void swap_rows(double *x, double *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const double kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* The row at or below `column` with the largest magnitude in that column. */
static int64_t pivot_row(const double *a, int64_t size, int64_t column) {
    int64_t best = column;
    for (int64_t r = column + 1; r < size; r++)
        if (fabs(a[r * size + column]) > fabs(a[best * size + column])) best = r;
    return best;
}

static void subtract_row(double *to, const double *from, double factor, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] -= factor * from[i];
}

/* Gaussian elimination: a becomes upper triangular, and b (NULL if cols is 0) is transformed with
 * it.  Returns the column of a zero pivot, or -1; *odd is flipped by every row exchange. */
static int64_t eliminate(double *a, double *b, int64_t size, int64_t cols, bool *odd) {
    for (int64_t c = 0; c < size; c++) {
        const int64_t best = pivot_row(a, size, c);
        if (a[best * size + c] == 0) return c;
        if (best != c) {
            *odd = !*odd;
            swap_rows(a + best * size, a + c * size, size);
            if (cols) swap_rows(b + best * cols, b + c * cols, cols);
        }
        for (int64_t r = c + 1; r < size; r++) {
            const double factor = a[r * size + c] / a[c * size + c];
            subtract_row(a + r * size + c, a + c * size + c, factor, size - c);
            if (cols) subtract_row(b + r * cols, b + c * cols, factor, cols);
        }
    }
    return -1;
}

static void substitute(const double *a, double *b, int64_t size, int64_t cols) {
    for (int64_t r = size; r-- > 0;) {
        for (int64_t c = r + 1; c < size; c++)
            subtract_row(b + r * cols, b + c * cols, a[r * size + c], cols);
        for (int64_t n = 0; n < cols; n++) b[r * cols + n] /= a[r * size + r];
    }
}

static sl_status run_systems(const systems *s, int64_t begin, int64_t end, sl_worker *worker) {
    const int64_t square = s->size * s->size, sides = s->size * s->cols;
    double *a = worker->scratch, *b = a + square;
    for (int64_t i = begin; i < end; i++) {
        to_doubles(s->a, i * square, square, a);
        to_doubles(s->b, i * sides, sides, b);
        bool odd = false;
        const int64_t bad = eliminate(a, b, s->size, s->cols, &odd);
        if (bad >= 0)
            return sl_fail(worker->err, SL_INVALID,
                           "%s: a is singular: pivot %lld of matrix %lld is 0", s->op,
                           (long long)bad, (long long)i);
        substitute(a, b, s->size, s->cols);
        for (int64_t n = 0; n < sides; n++)
            if (s->out->type.dtype == SL_DTYPE_f64)
                ((double *)s->out->data)[i * sides + n] = b[n];
            else
                ((float *)s->out->data)[i * sides + n] = (float)b[n];
    }
    return SL_OK;
}

#define SOLVE(OP)                                                                                  \
    SPLIT(OP) {                                                                                    \
        const sl_##OP##_args *a = args;                                                            \
        const systems s = systems_of(#OP, &a->a, &a->b, &a->out);                                  \
        return split_systems(&s);                                                                  \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        const systems s = systems_of(#OP, &a->a, &a->b, &a->out);                                  \
        return run_systems(&s, begin, end, worker);                                                \
    }
SOLVE(dense_solve)
SOLVE(batched_dense_solve)

/* ---- det ---- */

SPLIT(det) {
    const sl_det_args *d = args;
    const int64_t size = last_dim(&d->x.type);
    return (sl_split){sl_type_elements(&d->out.type), grain_of(size * size * size),
                      (size_t)(size * size) * sizeof(double)};
}
RUN(det) {
    const sl_det_args *d = args;
    const int64_t size = last_dim(&d->x.type);
    double *a = worker->scratch;
    for (int64_t i = begin; i < end; i++) {
        bool odd = false;
        to_doubles(&d->x, i * size * size, size * size, a);
        const bool singular = eliminate(a, NULL, size, 0, &odd) >= 0;
        double product = odd ? -1 : 1;
        for (int64_t n = 0; n < size; n++) product *= a[n * size + n];
        if (singular) product = 0;
        if (d->out.type.dtype == SL_DTYPE_f64)
            ((double *)d->out.data)[i] = product;
        else
            ((float *)d->out.data)[i] = (float)product;
    }
    return SL_OK;
}
