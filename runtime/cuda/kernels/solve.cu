/* solve.cu - Linear systems and determinants, by LU with partial pivoting in double. */
#include "runtime/cuda/kernels/block.cuh"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/solve.h"
#include "runtime/cuda/kernels/strides.cuh"

enum { THREADS = SL_SOLVE_THREADS };

/* System blockIdx.x: matrix and right-hand sides in one array with rows of `width`. */
struct matrix {
    double *rows;
    int64_t size, width;
    MEMBER double &at(int64_t row, int64_t column) const { return rows[row * width + column]; }
};
DEVICE matrix load_matrix(const sl_systems &a) {
    const matrix m = {a.work + blockIdx.x * a.size * (a.size + a.cols), a.size, a.size + a.cols};
    for (int64_t i = threadIdx.x; i < m.size * m.width; i += THREADS) {
        const int64_t row = quotient(i, m.width), column = i - row * m.width;
        const int64_t line = blockIdx.x * m.size + row;
        m.rows[i] = column < m.size ? load_number(a.type, a.a, line * m.size + column).re
                                    : load_number(a.type, a.b, line * a.cols + column - m.size).re;
    }
    __syncthreads();
    return m;
}

/* The row, from `column` on, with the largest magnitude in that column; the first of ties. */
DEVICE int64_t pivot_row(const matrix &m, int64_t column) {
    double most = -1;
    int64_t best = column;
    for (int64_t r = column + threadIdx.x; r < m.size; r += THREADS)
        if (fabs(m.at(r, column)) > most) {
            most = fabs(m.at(r, column));
            best = r;
        }
    return place_of_largest<THREADS>(most, best);
}

DEVICE void swap_rows(const matrix &m, int64_t x, int64_t y) {
    for (int64_t i = threadIdx.x; i < m.width && x != y; i += THREADS) {
        const double kept = m.at(x, i);
        m.at(x, i) = m.at(y, i);
        m.at(y, i) = kept;
    }
    __syncthreads();
}

/* Eliminates `column` from the rows below; the column itself is not updated (never read again). */
DEVICE void clear_column(const matrix &m, int64_t column) {
    const int64_t across = m.width - column - 1, below = m.size - column - 1;
    for (int64_t i = threadIdx.x; i < below * across; i += THREADS) {
        const int64_t down = quotient(i, across), row = column + 1 + down;
        const int64_t to = column + 1 + i - down * across;
        m.at(row, to) -= m.at(row, column) / m.at(column, column) * m.at(column, to);
    }
    __syncthreads();
}

/* Reduces to an upper triangle; false if a pivot is 0.  `product` is the determinant: the product
 * of the pivots with the sign of the row exchanges. */
DEVICE bool eliminate(const matrix &m, double &product) {
    product = 1;
    for (int64_t c = 0; c < m.size; c++) {
        const int64_t best = pivot_row(m, c);
        swap_rows(m, best, c);
        const double pivot = m.at(c, c);
        if (pivot == 0) return false;
        product *= best == c ? pivot : -pivot;
        clear_column(m, c);
    }
    return true;
}

/* Back substitution: each solved row, from the last one on, is subtracted from all rows above. */
DEVICE void substitute(const matrix &m) {
    const int64_t cols = m.width - m.size;
    for (int64_t r = m.size - 1; r >= 0; r--) {
        for (int64_t i = threadIdx.x; i < cols; i += THREADS) m.at(r, m.size + i) /= m.at(r, r);
        __syncthreads();
        for (int64_t i = threadIdx.x; i < r * cols; i += THREADS) {
            const int64_t row = quotient(i, cols), to = m.size + i - row * cols;
            m.at(row, to) -= m.at(row, r) * m.at(r, to);
        }
        __syncthreads();
    }
}

SL_CUDA_KERNEL(sl_solve, sl_systems, SL_SOLVE_THREADS) {
    const matrix m = load_matrix(a);
    double product;
    if (!eliminate(m, product)) {
        if (threadIdx.x == 0)
            (void)checked(a.fault, SL_FAULT_PIVOT, (int)blockIdx.x, -1, (int)a.size);
        return;
    }
    substitute(m);
    for (int64_t i = threadIdx.x; i < m.size * a.cols; i += THREADS) {
        const int64_t row = quotient(i, a.cols);
        store_number(a.type, a.out, blockIdx.x * m.size * a.cols + i,
                     number_of(m.at(row, m.size + i - row * a.cols)));
    }
}

SL_CUDA_KERNEL(sl_determinant, sl_systems, SL_SOLVE_THREADS) {
    const matrix m = load_matrix(a);
    double product;
    const bool regular = eliminate(m, product);
    if (threadIdx.x == 0) store_number(a.type, a.out, blockIdx.x, number_of(regular ? product : 0));
}
