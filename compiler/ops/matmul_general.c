/* matmul_general.c - dot_general, LoRA and grouped matrix products. */
#include "compiler/ops/numbers.h"

/* ---- dot_general ---- */

/* The dims of one operand, by role. */
typedef struct {
    uint32_t rank, batch[SL_MAX_RANK], contract[SL_MAX_RANK], rest[SL_MAX_RANK];
    uint32_t batch_count, contract_count, rest_count;
    bool taken[SL_MAX_RANK];
} dim_roles;

static sl_status take_axes(const sl_infer_args *a, const char *name, sl_integers list,
                           dim_roles *roles, uint32_t *out, sl_error *err) {
    if (list.count > roles->rank)
        return sl_fail(err, SL_INVALID, "%s: %s lists %u dims, there are only %u", a->label, name,
                       list.count, roles->rank);
    for (uint32_t i = 0; i < list.count; i++) {
        SL_TRY(sl_check_named_axis(a, name, list.items[i], roles->rank, &out[i], err));
        if (roles->taken[out[i]])
            return sl_fail(err, SL_INVALID, "%s: %s: dim %u is named twice", a->label, name,
                           out[i]);
        roles->taken[out[i]] = true;
    }
    return SL_OK;
}

static sl_status roles_of(const sl_infer_args *a, uint32_t input, dim_roles *out, sl_error *err) {
    const sl_dot_general_attrs *attrs = a->attrs;
    const sl_integers batch = input ? attrs->rhs_batch : attrs->lhs_batch;
    const sl_integers contract = input ? attrs->rhs_contract : attrs->lhs_contract;
    *out = (dim_roles){.rank = a->in[input].shape.rank,
                       .batch_count = batch.count,
                       .contract_count = contract.count};
    SL_TRY(take_axes(a, input ? "rhs_batch" : "lhs_batch", batch, out, out->batch, err));
    SL_TRY(
        take_axes(a, input ? "rhs_contract" : "lhs_contract", contract, out, out->contract, err));
    for (uint32_t d = 0; d < out->rank; d++)
        if (!out->taken[d]) out->rest[out->rest_count++] = d;
    return SL_OK;
}

/* Checks that both sides have as many dims, of the same sizes. */
static sl_status check_pairs(const sl_infer_args *a, const char *what, const uint32_t counts[2],
                             const uint32_t *const axes[2], sl_error *err) {
    if (counts[0] != counts[1])
        return sl_fail(err, SL_INVALID, "%s: %u %s dims of a and %u of b, must be the same number",
                       a->label, counts[0], what, counts[1]);
    for (uint32_t i = 0; i < counts[0]; i++) {
        const int64_t x = a->in[0].shape.dims[axes[0][i]], y = a->in[1].shape.dims[axes[1][i]];
        if (x != y)
            return sl_fail(err, SL_INVALID,
                           "%s: %s dim %u of b is %lld, must be %lld as dim %u of a", a->label,
                           what, axes[1][i], (long long)y, (long long)x, axes[0][i]);
    }
    return SL_OK;
}

static sl_status dot_roles(const sl_infer_args *a, dim_roles roles[2], sl_error *err) {
    for (uint32_t i = 0; i < 2; i++) SL_TRY(roles_of(a, i, &roles[i], err));
    SL_TRY(check_pairs(a, "batch", (uint32_t[2]){roles[0].batch_count, roles[1].batch_count},
                       (const uint32_t *[2]){roles[0].batch, roles[1].batch}, err));
    return check_pairs(a, "contracted",
                       (uint32_t[2]){roles[0].contract_count, roles[1].contract_count},
                       (const uint32_t *[2]){roles[0].contract, roles[1].contract}, err);
}

sl_status sl_infer_dot_general(const sl_infer_args *a, sl_error *err) {
    const uint32_t any = SL_NUMBERS_FLOAT | SL_NUMBERS_INT | SL_NUMBERS_COMPLEX;
    dim_roles roles[2];
    SL_TRY(sl_check_numbers(a, 0, "a", any, err));
    SL_TRY(sl_check_numbers(a, 1, "b", any, err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"a", "b"}, err));
    SL_TRY(dot_roles(a, roles, err));
    const uint32_t rank = roles[0].batch_count + roles[0].rest_count + roles[1].rest_count;
    SL_TRY(sl_check_attr(a->label, "the rank of the result", rank, 0, SL_MAX_RANK, err));
    sl_dims *out = &a->out[0].shape;
    *out = (sl_dims){0};
    for (uint32_t i = 0; i < roles[0].batch_count; i++)
        out->dims[out->rank++] = a->in[0].shape.dims[roles[0].batch[i]];
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < roles[side].rest_count; i++)
            out->dims[out->rank++] = a->in[side].shape.dims[roles[side].rest[i]];
    a->out[0].dtype = a->in[0].dtype;
    return SL_OK;
}

/* Offset of the element whose dims `axes` have the given linear index. */
static int64_t offset_of(const sl_dims *shape, const uint32_t *axes, uint32_t count,
                         int64_t *index) {
    int64_t offset = 0;
    for (uint32_t i = count; i-- > 0;) {
        const int64_t size = shape->dims[axes[i]];
        offset += *index % size * sl_dims_tail(shape, axes[i] + 1);
        *index /= size;
    }
    return offset;
}

sl_status sl_eval_dot_general(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    const sl_type types[2] = {a->in[0].type, a->in[1].type};
    const sl_infer_args as_inferred = {a->label, types, a->attrs, NULL, 2, 1};
    dim_roles roles[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    SL_TRY(dot_roles(&as_inferred, roles, err));
    const sl_dims *left = &types[0].shape, *right = &types[1].shape;
    const int64_t slots = sl_slots_of(types[0].dtype);
    int64_t inner = 1;
    for (uint32_t i = 0; i < roles[0].contract_count; i++)
        inner *= left->dims[roles[0].contract[i]];
    for (int64_t e = 0; e < sl_type_elements(&a->out[0].type); e++) {
        int64_t rest = e;
        int64_t y = offset_of(right, roles[1].rest, roles[1].rest_count, &rest);
        int64_t x = offset_of(left, roles[0].rest, roles[0].rest_count, &rest);
        int64_t same = rest;
        x += offset_of(left, roles[0].batch, roles[0].batch_count, &rest);
        y += offset_of(right, roles[1].batch, roles[1].batch_count, &same);
        sl_sum sum = {0};
        for (int64_t k = 0; k < inner; k++) {
            int64_t of_left = k, of_right = k;
            const int64_t dx =
                offset_of(left, roles[0].contract, roles[0].contract_count, &of_left);
            const int64_t dy =
                offset_of(right, roles[1].contract, roles[1].contract_count, &of_right);
            sl_sum_add(types[0].dtype, in[0] + (x + dx) * slots, in[1] + (y + dy) * slots, &sum);
        }
        sl_sum_get(types[0].dtype, &sum, a->out[0].data + e * slots);
    }
    return SL_OK;
}

/* ---- lora_matmul ---- */

sl_status sl_infer_lora_matmul(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "w", "a", "b"};
    SL_TRY(
        sl_match(a, "x float[..,K], w float[K,N], a float[K,R], b float[R,N] -> f32[..,N]", err));
    for (uint32_t i = 1; i < 4; i++)
        SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, i}, (const char *[2]){"x", names[i]}, err));
    a->out[0].dtype = a->in[0].dtype;
    return SL_OK;
}

sl_status sl_eval_lora_matmul(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    double *low;
    const double scale = (double)((const sl_lora_matmul_attrs *)a->attrs)->scale;
    const int64_t inner = sl_eval_dim(a, 1, 0), cols = sl_eval_dim(a, 1, 1);
    const int64_t rank = sl_eval_dim(a, 2, 1);
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    SL_TRY(sl_eval_scratch(a, rank, &low, err));
    for (int64_t row = 0; row < sl_type_elements(&a->in[0].type) / inner; row++) {
        const double *x = in[0] + row * inner;
        for (int64_t r = 0; r < rank; r++) {
            low[r] = 0;
            for (int64_t k = 0; k < inner; k++) low[r] += x[k] * in[2][k * rank + r];
        }
        for (int64_t n = 0; n < cols; n++) {
            double sum = 0, correction = 0;
            for (int64_t k = 0; k < inner; k++) sum += x[k] * in[1][k * cols + n];
            for (int64_t r = 0; r < rank; r++) correction += low[r] * in[3][r * cols + n];
            a->out[0].data[row * cols + n] = sum + scale * correction;
        }
    }
    return SL_OK;
}

/* ---- grouped_matmul ---- */

sl_status sl_infer_grouped_matmul(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x float[M,K], w float[E,K,N], experts any[M] -> f32[M,N]", err));
    SL_TRY(sl_check_same_dtype(a, (uint32_t[2]){0, 1}, (const char *[2]){"x", "w"}, err));
    SL_TRY(sl_check_numbers(a, 2, "experts", SL_NUMBERS_INDEX, err));
    a->out[0].dtype = a->in[0].dtype;
    return SL_OK;
}

sl_status sl_eval_grouped_matmul(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    const int64_t experts = sl_eval_dim(a, 1, 0), inner = sl_eval_dim(a, 1, 1);
    const int64_t cols = sl_eval_dim(a, 1, 2);
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    for (int64_t row = 0; row < sl_eval_dim(a, 0, 0); row++) {
        const int64_t expert = sl_slot_integer(a->in[2].type.dtype, &in[2][row]);
        SL_TRY(sl_check_attr(a->label, "an index of experts", expert, 0, experts - 1, err));
        for (int64_t n = 0; n < cols; n++) {
            double sum = 0;
            for (int64_t k = 0; k < inner; k++)
                sum += in[0][row * inner + k] * in[1][(expert * inner + k) * cols + n];
            a->out[0].data[row * cols + n] = sum;
        }
    }
    return SL_OK;
}
