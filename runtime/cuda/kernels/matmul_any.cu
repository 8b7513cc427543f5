/* matmul_any.cu - Matrix products of any number type; the type is a run-time switch (number.cuh).
 * Those of f32 are in matmul.cu. */
#include "runtime/cuda/kernels/matmul_any.h"
#include "runtime/cuda/kernels/indices.cuh"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/strides.cuh"

/* Offset of the right-hand matrix that `choice` selects for a left-hand matrix. */
DEVICE int64_t chosen_place(const sl_product_any &a, int64_t matrix) {
    if (!a.choice.data) return 0;
    return index_within(a.choice, matrix, raw_index(a.choice, matrix), a.choices) * a.inner *
           a.cols;
}
SL_CUDA_KERNEL(sl_product, sl_product_any, SL_PRODUCT_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const int64_t row = quotient(i, a.cols), col = i - row * a.cols;
    const int64_t matrix = quotient(row, a.rows);
    const places at = walk_to(a.batch, matrix);
    const int64_t left = at.x + (row - matrix * a.rows) * a.inner;
    const int64_t right = at.y + chosen_place(a, matrix) + col;
    number sum = fold_start(a.type, SL_FOLD_ADD);
    for (int64_t k = 0; k < a.inner; k++)
        sum = sum_of(sum, product_of(a.type, load_number(a.type, a.left, left + k),
                                     load_number(a.type, a.right, right + k * a.cols)));
    store_number(a.type, a.out, i, sum);
}
