/* matmul.c - Matrix products with broadcast batch dims. */
#include "compiler/ops/numbers.h"

/* All dims but the last two. */
static sl_dims batch_of(const sl_dims *shape) {
    sl_dims batch = *shape;
    batch.rank -= 2;
    return batch;
}

sl_status sl_infer_matmul(const sl_infer_args *a, sl_error *err) {
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
        return sl_fail(err, SL_INVALID,
                       "%s: b is %s, its second-to-last dim must be %lld as in a %s", a->label,
                       sl_type_format(&a->in[1], y, sizeof y), (long long)inner,
                       sl_type_format(&a->in[0], x, sizeof x));
    const sl_dims left_batch = batch_of(left), right_batch = batch_of(right);
    SL_TRY(sl_broadcast(a->label, &left_batch, &right_batch, out, err));
    out->dims[out->rank++] = left->dims[left->rank - 2];
    out->dims[out->rank++] = right->dims[right->rank - 1];
    return SL_OK;
}

/* Slots of both operands and of the product, whose element type is dtype. */
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

sl_status sl_eval_matmul(const sl_eval_args *a, sl_error *err) {
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
