/* matmul.c - Products of two computed matrices, with batch dims broadcast.
 *
 * An item is a block of ITEM_ROWS x ITEM_COLS of one output matrix. */
#include "core/ops.h"
#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"

enum { ITEM_ROWS = 16, ITEM_COLS = 128 };

typedef struct {
    int64_t rows, cols, inner;
    int64_t row_blocks, col_blocks, batches;
} extents;

static extents extents_of(const sl_matmul_args *a) {
    const sl_dims *out = &a->out.type.shape;
    extents e = {
        .rows = out->dims[out->rank - 2],
        .cols = out->dims[out->rank - 1],
        .inner = last_dim(&a->a.type),
    };
    e.row_blocks = parts_of(e.rows, ITEM_ROWS);
    e.col_blocks = parts_of(e.cols, ITEM_COLS);
    e.batches = sl_type_elements(&a->out.type) / (e.rows * e.cols);
    return e;
}

/* Which matrix of a broadcast operand belongs to output matrix `batch`. */
static int64_t matrix_index(const sl_dims *operand, const sl_dims *out, int64_t batch) {
    int64_t index = 0, stride = 1;
    for (uint32_t i = 2; i < out->rank; i++) {
        const int64_t extent = out->dims[out->rank - 1 - i], at = batch % extent;
        batch /= extent;
        if (i >= operand->rank) continue;
        const int64_t own = operand->dims[operand->rank - 1 - i];
        if (own != 1) index += at * stride;
        stride *= own;
    }
    return index;
}

SPLIT(matmul) {
    const extents e = extents_of(args);
    const int64_t operations = ITEM_ROWS * least(e.cols, ITEM_COLS) * e.inner / 8;
    return (sl_split){e.batches * e.row_blocks * e.col_blocks, grain_of(operations), 0};
}

RUN(matmul) {
    const sl_matmul_args *a = args;
    const extents e = extents_of(a);
    for (int64_t item = begin; item < end; item++) {
        const int64_t col = item % e.col_blocks * ITEM_COLS;
        const int64_t row = item / e.col_blocks % e.row_blocks * ITEM_ROWS;
        const int64_t batch = item / (e.col_blocks * e.row_blocks);
        const int64_t left = matrix_index(&a->a.type.shape, &a->out.type.shape, batch);
        const int64_t right = matrix_index(&a->b.type.shape, &a->out.type.shape, batch);
        gemm_run(&(gemm){
            .a = (const float *)a->a.data + (left * e.rows + row) * e.inner,
            .a_row = e.inner,
            .a_col = 1,
            .b = (const float *)a->b.data + right * e.inner * e.cols + col,
            .b_row = e.cols,
            .c = (float *)a->out.data + (batch * e.rows + row) * e.cols + col,
            .c_row = e.cols,
            .rows = least(ITEM_ROWS, e.rows - row),
            .cols = least(ITEM_COLS, e.cols - col),
            .inner = e.inner,
        });
    }
    return SL_OK;
}
