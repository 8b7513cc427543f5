/* matmul.c - Matrix products and embedding lookup. */
#include "compiler/ops/numbers.h"

/* The dims in front of a matrix. */
static sl_dims batch_of(const sl_dims *shape) {
    sl_dims batch = *shape;
    batch.rank -= 2;
    return batch;
}

sl_status infer_matmul(const sl_infer_args *a, sl_error *err) {
    const uint32_t any = SL_NUMBERS_FLOAT | SL_NUMBERS_INT | SL_NUMBERS_COMPLEX;
    SL_TRY(sl_check_numbers(a, 0, "a", any, err));
    SL_TRY(sl_check_numbers(a, 1, "b", any, err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"a", "b"}, err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_matmul_shape(a, &a->out[0].shape, err);
}

sl_status sl_matmul_shape(const sl_infer_args *a, sl_dims *out, sl_error *err) {
    const sl_dims *left = &a->in[0].shape, *right = &a->in[1].shape;
    char x[SL_TYPE_TEXT], y[SL_TYPE_TEXT];
    for (int i = 0; i < 2; i++)
        if (a->in[i].shape.rank < 2)
            return sl_fail(err, SL_INVALID, "%s: %s is %s, must have two dims or more", a->label,
                           i ? "b" : "a", sl_type_format(&a->in[i], x, sizeof x));
    const int64_t inner = left->dims[left->rank - 1];
    if (right->dims[right->rank - 2] != inner)
        return sl_fail(err, SL_INVALID, "%s: b is %s, its last dim but one must be %lld as in a %s",
                       a->label, sl_type_format(&a->in[1], y, sizeof y), (long long)inner,
                       sl_type_format(&a->in[0], x, sizeof x));
    const sl_dims left_batch = batch_of(left), right_batch = batch_of(right);
    SL_TRY(sl_broadcast(a->label, &left_batch, &right_batch, out, err));
    out->dims[out->rank++] = left->dims[left->rank - 2];
    out->dims[out->rank++] = right->dims[right->rank - 1];
    return SL_OK;
}

/* Slots of both factors and of the product, whose element type is dtype. */
static void multiply(sl_dtype dtype, const double *const factors[2], double *out,
                     const int64_t mkn[3]) {
    const int64_t rows = mkn[0], inner = mkn[1], cols = mkn[2], slots = sl_slots_of(dtype);
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < cols; n++) {
            sl_sum sum = {0};
            for (int64_t k = 0; k < inner; k++)
                sl_sum_add(dtype, factors[0] + (m * inner + k) * slots,
                           factors[1] + (k * cols + n) * slots, &sum);
            sl_sum_get(dtype, &sum, out + (m * cols + n) * slots);
        }
}

int64_t sl_matmul_index(const sl_dims *operand, const sl_dims *out, int64_t matrix) {
    const sl_dims from = batch_of(operand), to = batch_of(out);
    return sl_broadcast_index(&from, &to, matrix);
}

sl_status eval_matmul(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *left = &a->in[0].type.shape, *right = &a->in[1].type.shape;
    const sl_type *out = &a->out[0].type;
    const int64_t mkn[3] = {left->dims[left->rank - 2], left->dims[left->rank - 1],
                            right->dims[right->rank - 1]};
    const sl_dims batch = batch_of(&out->shape);
    const int64_t slots = sl_slots_of(out->dtype);
    for (int64_t i = 0; i < sl_dims_tail(&batch, 0); i++) {
        const double *const factors[2] = {
            in[0] + sl_matmul_index(left, &out->shape, i) * mkn[0] * mkn[1] * slots,
            in[1] + sl_matmul_index(right, &out->shape, i) * mkn[1] * mkn[2] * slots};
        multiply(out->dtype, factors, a->out[0].data + i * mkn[0] * mkn[2] * slots, mkn);
    }
    return SL_OK;
}

sl_status infer_embed(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "table weight[V,H], ids i32[T] -> f32[T,H]", err);
}

sl_status eval_embed(const sl_eval_args *a, sl_error *err) {
    const int64_t vocab = sl_eval_dim(a, 0, 0), width = sl_eval_dim(a, 0, 1);
    const int64_t rows = sl_eval_dim(a, 1, 0);
    const sl_eval_args only_ids = {.label = a->label, .in = &a->in[1], .scratch = a->scratch};
    const double *ids;
    SL_TRY(sl_eval_inputs(&only_ids, 1, &ids, err));
    SL_TRY(sl_eval_bounds(a, "ids", ids, rows, vocab, err));
    for (int64_t t = 0; t < rows; t++)
        sl_eval_row(&a->in[0], (int64_t)ids[t], a->out[0].data + t * width);
    return SL_OK;
}

sl_status infer_linear(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], w weight[N,K] -> f32[T,N]", err);
}

/* Rows of x, x_stride apart, times those of a weight, to rows of out. */
typedef struct {
    const double *x;
    double *out, *row; /* row: room for one of w */
    int64_t rows, inner, x_stride, out_stride;
} product;

static void multiply_weight(const sl_eval_tensor *w, int64_t cols, const product *p) {
    for (int64_t n = 0; n < cols; n++) {
        sl_eval_row(w, n, p->row);
        for (int64_t t = 0; t < p->rows; t++) {
            double sum = 0;
            for (int64_t k = 0; k < p->inner; k++) sum += p->x[t * p->x_stride + k] * p->row[k];
            p->out[t * p->out_stride + n] = sum;
        }
    }
}

sl_status eval_linear(const sl_eval_args *a, sl_error *err) {
    const int64_t inner = sl_eval_dim(a, 0, 1), cols = sl_eval_dim(a, 1, 0);
    product p = {.out = a->out[0].data,
                 .rows = sl_eval_dim(a, 0, 0),
                 .inner = inner,
                 .x_stride = inner,
                 .out_stride = cols};
    SL_TRY(sl_eval_inputs(a, 1, &p.x, err));
    SL_TRY(sl_eval_scratch(a, inner, &p.row, err));
    multiply_weight(&a->in[1], cols, &p);
    return SL_OK;
}

sl_status infer_linear_heads(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[T,heads,K], w weight[heads,N,K] -> f32[T,heads,N]", err);
}

/* Matrix `index` of those that w stacks. */
static sl_eval_tensor matrix_of(const sl_eval_tensor *w, int64_t index) {
    const sl_dims *shape = &w->type.shape;
    sl_eval_tensor matrix = {.type =
                                 sl_type_make(w->type.dtype, 2, shape->dims[1], shape->dims[2])};
    if (w->data) matrix.data = w->data + index * sl_type_elements(&matrix.type);
    if (w->coded)
        matrix.coded = (const char *)w->coded + (uint64_t)index * sl_type_bytes(&matrix.type);
    return matrix;
}

sl_status eval_linear_heads(const sl_eval_args *a, sl_error *err) {
    const int64_t heads = sl_eval_dim(a, 0, 1), inner = sl_eval_dim(a, 0, 2);
    const int64_t cols = sl_eval_dim(a, 1, 1);
    const double *x;
    double *row;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_scratch(a, inner, &row, err));
    for (int64_t h = 0; h < heads; h++) {
        const sl_eval_tensor matrix = matrix_of(&a->in[1], h);
        const product p = {.x = x + h * inner,
                           .out = a->out[0].data + h * cols,
                           .row = row,
                           .rows = sl_eval_dim(a, 0, 0),
                           .inner = inner,
                           .x_stride = heads * inner,
                           .out_stride = heads * cols};
        multiply_weight(&matrix, cols, &p);
    }
    return SL_OK;
}
