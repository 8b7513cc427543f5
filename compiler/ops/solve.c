/* solve.c - Linear systems and determinants. */
#include "compiler/ops/numbers.h"
#include <math.h>
#include <string.h>

static sl_status infer_solve(const sl_infer_args *a, const char *const signatures[2],
                             sl_error *err) {
    const bool vectors = a->in[1].shape.rank + 1 == a->in[0].shape.rank;
    SL_TRY(sl_match(a, signatures[vectors], err));
    SL_TRY(sl_check_numbers(a, 0, "a", SL_NUMBERS_FULL, err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"a", "b"}, err));
    a->out[0] = a->in[1];
    return SL_OK;
}

sl_status sl_infer_dense_solve(const sl_infer_args *a, sl_error *err) {
    static const char *const signatures[] = {"a float[N,N], b float[N,K]",
                                             "a float[N,N], b float[N]"};
    return infer_solve(a, signatures, err);
}

sl_status sl_infer_batched_dense_solve(const sl_infer_args *a, sl_error *err) {
    static const char *const signatures[] = {"a float[..,N,N], b float[..,N,K]",
                                             "a float[..,N,N], b float[..,N]"};
    SL_TRY(sl_match(a, "a float[..,B,N,N]", err));
    return infer_solve(a, signatures, err);
}

/* Solves one system by Gaussian elimination; overwrites a and b.  Returns the column of a zero
 * pivot, or -1. */
static int64_t solve(double *a, double *b, int64_t size, int64_t cols) {
    for (int64_t c = 0; c < size; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < size; r++)
            if (fabs(a[r * size + c]) > fabs(a[best * size + c])) best = r;
        if (a[best * size + c] == 0) return c;
        for (int64_t i = 0; i < size + cols; i++) {
            double *x = i < size ? &a[best * size + i] : &b[best * cols + i - size];
            double *y = i < size ? &a[c * size + i] : &b[c * cols + i - size];
            const double kept = *x;
            *x = *y;
            *y = kept;
        }
        for (int64_t r = c + 1; r < size; r++) {
            const double factor = a[r * size + c] / a[c * size + c];
            for (int64_t i = c; i < size; i++) a[r * size + i] -= factor * a[c * size + i];
            for (int64_t i = 0; i < cols; i++) b[r * cols + i] -= factor * b[c * cols + i];
        }
    }
    for (int64_t r = size; r-- > 0;)
        for (int64_t i = 0; i < cols; i++) {
            for (int64_t c = r + 1; c < size; c++)
                b[r * cols + i] -= a[r * size + c] * b[c * cols + i];
            b[r * cols + i] /= a[r * size + r];
        }
    return -1;
}

sl_status sl_eval_dense_solve(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    double *matrix;
    const int64_t size = sl_eval_last_dim(a, 0);
    const int64_t count = sl_type_elements(&a->in[0].type) / (size * size);
    const int64_t sides = sl_type_elements(&a->in[1].type) / count;
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    SL_TRY(sl_eval_scratch(a, size * size, &matrix, err));
    memcpy(a->out[0].data, in[1], (size_t)(sides * count) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        memcpy(matrix, in[0] + i * size * size, (size_t)(size * size) * sizeof *matrix);
        const int64_t bad = solve(matrix, a->out[0].data + i * sides, size, sides / size);
        if (bad >= 0)
            return sl_fail(err, SL_INVALID, "%s: a is singular: pivot %lld of matrix %lld is 0",
                           a->label, (long long)bad, (long long)i);
    }
    return SL_OK;
}

sl_status sl_infer_det(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x float[..,N,N] -> f32[..]", err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_check_numbers(a, 0, "x", SL_NUMBERS_FULL, err);
}

/* A row exchange changes the sign; a zero pivot gives 0. */
static double determinant(double *a, int64_t size) {
    double product = 1;
    for (int64_t c = 0; c < size; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < size; r++)
            if (fabs(a[r * size + c]) > fabs(a[best * size + c])) best = r;
        for (int64_t i = 0; i < size && best != c; i++) {
            const double kept = a[best * size + i];
            a[best * size + i] = a[c * size + i];
            a[c * size + i] = kept;
        }
        const double pivot = a[c * size + c];
        product *= best == c ? pivot : -pivot;
        if (pivot == 0) return 0;
        for (int64_t r = c + 1; r < size; r++) {
            const double factor = a[r * size + c] / pivot;
            for (int64_t i = c; i < size; i++) a[r * size + i] -= factor * a[c * size + i];
        }
    }
    return product;
}

sl_status sl_eval_det(const sl_eval_args *a, sl_error *err) {
    const double *x;
    double *matrix;
    const int64_t size = sl_eval_last_dim(a, 0);
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_scratch(a, size * size, &matrix, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        memcpy(matrix, x + i * size * size, (size_t)(size * size) * sizeof *matrix);
        a->out[0].data[i] = determinant(matrix, size);
    }
    return SL_OK;
}

sl_status sl_eval_batched_dense_solve(const sl_eval_args *a, sl_error *err) {
    return sl_eval_dense_solve(a, err);
}
