/* matmul.c - f32 matrix products with broadcast batch dims, and fused bias and activation.
 *
 * An item is a block of ITEM_ROWS x ITEM_COLS of one output matrix.  Its columns of the right
 * operand are packed first, unless there are too few rows to pay for it: unpacked, consecutive
 * elements of a column are a whole row apart, and each may be on its own page. */
#include "core/ops.h"
#include "runtime/cpu/kernels/activate.h"
#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/matrices.h"
#include <string.h>

enum { ITEM_ROWS = 256, ITEM_COLS = 64, PANEL_INNER = 512, FEW_ROWS = 8 };
enum { PANEL_BYTES = ITEM_COLS * PANEL_INNER * sizeof(float), AHEAD = 8 };

typedef struct {
    const sl_cview *a, *b;
    const float *bias; /* or NULL */
    const sl_view *out;
    uint32_t act;
    int64_t rows, cols, inner;
    int64_t row_blocks, col_blocks, batches;
} matmul;

static bool is_one_matrix(const sl_type *type) {
    return sl_type_elements(type) ==
           type->shape.dims[type->shape.rank - 2] * type->shape.dims[type->shape.rank - 1];
}

/* If the right operand is one matrix, the batch is folded into the rows. */
static matmul matmul_of(const sl_cview *a, const sl_cview *b, const sl_view *out) {
    matmul m = {.a = a, .b = b, .out = out};
    m.rows = out->type.shape.dims[out->type.shape.rank - 2];
    m.cols = last_dim(&out->type);
    m.inner = last_dim(&a->type);
    m.batches = sl_type_elements(&out->type) / (m.rows * m.cols);
    if (is_one_matrix(&b->type)) m.rows *= m.batches, m.batches = 1;
    m.row_blocks = parts_of(m.rows, ITEM_ROWS);
    m.col_blocks = parts_of(m.cols, ITEM_COLS);
    return m;
}

static sl_split split_of(const matmul *m) {
    const int64_t rows = least(m->rows, ITEM_ROWS);
    const int64_t operations = rows * least(m->cols, ITEM_COLS) * (m->inner / 8 + 1);
    return (sl_split){m->batches * m->row_blocks * m->col_blocks, grain_of(operations),
                      PANEL_BYTES};
}

/* Accumulates over the inner dim, one packed panel of the right operand at a time. */
static void multiply(const gemm *whole, float *panel) {
    for (int64_t k = 0; k == 0 || k < whole->inner; k += PANEL_INNER) {
        const int64_t inner = least(PANEL_INNER, whole->inner - k);
        for (int64_t i = 0; i < inner; i++) {
            const float *from = whole->b + (k + i) * whole->b_row;
            for (int64_t c = 0; c < whole->cols && i + AHEAD < inner; c += 16)
                __builtin_prefetch(from + AHEAD * whole->b_row + c);
            memcpy(panel + i * ITEM_COLS, from, (size_t)whole->cols * sizeof *from);
        }
        gemm part = *whole;
        part.a += k;
        part.b = panel;
        part.b_row = ITEM_COLS;
        part.inner = inner;
        part.add = k > 0;
        gemm_run(&part);
    }
}

static void finish(const matmul *m, const gemm *g, int64_t col) {
    const float *bias = m->bias ? m->bias + col : NULL;
    for (int64_t r = 0; r < g->rows && (bias || m->act); r++) {
        float *row = g->c + r * g->c_row;
        for (int64_t c = 0; c < g->cols && bias; c++) row[c] += bias[c];
        activate_f32(row, g->cols, m->act);
    }
}

static void run_items(const matmul *m, int64_t begin, int64_t end, sl_worker *worker) {
    const sl_dims *out = &m->out->type.shape;
    for (int64_t item = begin; item < end; item++) {
        const int64_t col = item % m->col_blocks * ITEM_COLS;
        const int64_t row = item / m->col_blocks % m->row_blocks * ITEM_ROWS;
        const int64_t batch = item / (m->col_blocks * m->row_blocks);
        const int64_t left = m->batches == 1 ? 0 : matrix_index(&m->a->type.shape, out, batch);
        const int64_t right = m->batches == 1 ? 0 : matrix_index(&m->b->type.shape, out, batch);
        const gemm g = {
            .a = (const float *)m->a->data + (left * m->rows + row) * m->inner,
            .a_row = m->inner,
            .a_col = 1,
            .b = (const float *)m->b->data + right * m->inner * m->cols + col,
            .b_row = m->cols,
            .c = (float *)m->out->data + (batch * m->rows + row) * m->cols + col,
            .c_row = m->cols,
            .rows = least(ITEM_ROWS, m->rows - row),
            .cols = least(ITEM_COLS, m->cols - col),
            .inner = m->inner,
        };
        if (g.rows < FEW_ROWS)
            gemm_run(&g);
        else
            multiply(&g, worker->scratch);
        finish(m, &g, col);
    }
}

SPLIT(matmul) {
    const sl_matmul_args *a = args;
    const matmul m = matmul_of(&a->a, &a->b, &a->out);
    return split_of(&m);
}
RUN(matmul) {
    const sl_matmul_args *a = args;
    const matmul m = matmul_of(&a->a, &a->b, &a->out);
    run_items(&m, begin, end, worker);
    return SL_OK;
}

SPLIT(matmul_bias_act) {
    const sl_fused_matmul_bias_act_args *a = args;
    const matmul m = matmul_of(&a->a, &a->b, &a->out);
    return split_of(&m);
}
RUN(matmul_bias_act) {
    const sl_fused_matmul_bias_act_args *a = args;
    matmul m = matmul_of(&a->a, &a->b, &a->out);
    m.bias = a->bias.data;
    m.act = a->attrs.act;
    run_items(&m, begin, end, worker);
    return SL_OK;
}
