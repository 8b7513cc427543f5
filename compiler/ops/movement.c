/* movement.c - Ops that move elements without changing them. */
#include "compiler/ops/check.h"
#include "core/codec.h"
#include <string.h>

static sl_status infer_plain(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x plain[..]", err));
    a->out[0] = a->in[0];
    return SL_OK;
}

static sl_status check_axis(const sl_infer_args *a, uint32_t axis, sl_error *err) {
    return sl_check_attr(a->label, "axis", axis, 0, (int64_t)a->in[0].shape.rank - 1, err);
}

/* Product of dims[0..before). */
static int64_t dims_head(const sl_dims *dims, uint32_t before) {
    int64_t product = 1;
    for (uint32_t i = 0; i < before; i++) product *= dims->dims[i];
    return product;
}

static sl_status wrong_count(const sl_infer_args *a, const sl_dims *wanted, sl_error *err) {
    char x[SL_TYPE_TEXT], shape[SL_TYPE_TEXT];
    const sl_type target = {a->in[0].dtype, *wanted};
    return sl_fail(err, SL_INVALID, "%s: x %s does not fill %s exactly", a->label,
                   sl_type_format(&a->in[0], x, sizeof x),
                   sl_type_format(&target, shape, sizeof shape));
}

/* Rows of groups keep their bytes when no row has padding, before or after. */
static sl_status check_groups(const sl_infer_args *a, const sl_dims *to, sl_error *err) {
    const sl_dims *from = &a->in[0].shape;
    if (from->rank > 1 && to->rank > 1 && from->dims[from->rank - 1] % SL_GROUP_COLS == 0 &&
        to->dims[to->rank - 1] % SL_GROUP_COLS == 0)
        return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%s: rows of a8 stay whole groups of %d: the last dims must be "
                   "multiples of it",
                   a->label, SL_GROUP_COLS);
}

sl_status infer_reshape(const sl_infer_args *a, sl_error *err) {
    const bool rows = a->in[0].dtype == SL_DTYPE_a8;
    SL_TRY(sl_match(a, rows ? "x a8[..]" : "x plain[..]", err));
    a->out[0] = a->in[0];
    const sl_reshape_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "the rank of shape", attrs->shape.rank, 0, SL_MAX_RANK, err));
    sl_dims *out = &a->out[0].shape;
    *out = attrs->shape;
    const int64_t elements = sl_type_elements(&a->in[0]);
    int64_t known = 1, *open = NULL;
    for (uint32_t d = 0; d < out->rank; d++) {
        const bool is_open = out->dims[d] == -1;
        if ((out->dims[d] < 1 && !is_open) || (is_open && open))
            return sl_fail(err, SL_INVALID,
                           "%s: dim %u of shape is %lld, must be at least 1, or -1 once", a->label,
                           d, (long long)out->dims[d]);
        if (is_open)
            open = &out->dims[d];
        else if (__builtin_mul_overflow(known, out->dims[d], &known) || known > elements)
            return wrong_count(a, &attrs->shape, err);
    }
    if (open && elements % known == 0)
        *open = elements / known;
    else if (open || known != elements)
        return wrong_count(a, &attrs->shape, err);
    return rows ? check_groups(a, out, err) : SL_OK;
}

sl_status eval_reshape(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    memmove(a->out[0].data, x, (size_t)sl_type_elements(&a->out[0].type) * sizeof *x);
    return SL_OK;
}

sl_status infer_transpose(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_plain(a, err));
    const sl_dims *perm = &((const sl_transpose_attrs *)a->attrs)->perm, *x = &a->in[0].shape;
    SL_TRY(sl_check_attr(a->label, "the length of perm", perm->rank, x->rank, x->rank, err));
    bool seen[SL_MAX_RANK] = {false};
    for (uint32_t d = 0; d < x->rank; d++) {
        SL_TRY(
            sl_check_attr(a->label, "a dim in perm", perm->dims[d], 0, (int64_t)x->rank - 1, err));
        if (seen[perm->dims[d]])
            return sl_fail(err, SL_INVALID, "%s: perm names dim %lld twice", a->label,
                           (long long)perm->dims[d]);
        seen[perm->dims[d]] = true;
        a->out[0].shape.dims[d] = x->dims[perm->dims[d]];
    }
    return SL_OK;
}

sl_status eval_transpose(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_dims *perm = &((const sl_transpose_attrs *)a->attrs)->perm;
    const sl_dims *from = &a->in[0].type.shape, *to = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_dims_tail(to, 0); i++) {
        int64_t source = 0, rest = i;
        for (uint32_t d = to->rank; d-- > 0; rest /= to->dims[d])
            source += rest % to->dims[d] * sl_dims_tail(from, (uint32_t)perm->dims[d] + 1);
        a->out[0].data[i] = x[source];
    }
    return SL_OK;
}

sl_status infer_slice(const sl_infer_args *a, sl_error *err) {
    const sl_slice_attrs *attrs = a->attrs;
    SL_TRY(infer_plain(a, err));
    SL_TRY(check_axis(a, attrs->axis, err));
    const int64_t size = a->in[0].shape.dims[attrs->axis];
    SL_TRY(sl_check_attr(a->label, "start", attrs->start, 0, size - 1, err));
    SL_TRY(sl_check_attr(a->label, "length", attrs->length, 1, size - attrs->start, err));
    a->out[0].shape.dims[attrs->axis] = attrs->length;
    return SL_OK;
}

sl_status eval_slice(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_slice_attrs *attrs = a->attrs;
    const sl_dims *from = &a->in[0].type.shape;
    const int64_t inner = sl_dims_tail(from, attrs->axis + 1), size = from->dims[attrs->axis];
    const int64_t run = attrs->length * inner;
    for (int64_t i = 0; i < dims_head(from, attrs->axis); i++)
        memcpy(a->out[0].data + i * run, x + (i * size + attrs->start) * inner,
               (size_t)run * sizeof *x);
    return SL_OK;
}

sl_status infer_concat(const sl_infer_args *a, sl_error *err) {
    const sl_concat_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "a plain[..]", err));
    SL_TRY(sl_match_second(a, "b plain[..]", err));
    SL_TRY(check_axis(a, attrs->axis, err));
    sl_type same = a->in[1];
    if (same.shape.rank == a->in[0].shape.rank)
        same.shape.dims[attrs->axis] = a->in[0].shape.dims[attrs->axis];
    if (!sl_type_equal(&same, &a->in[0])) {
        char x[SL_TYPE_TEXT], y[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: b is %s, must be like a %s except along axis %u",
                       a->label, sl_type_format(&a->in[1], y, sizeof y),
                       sl_type_format(&a->in[0], x, sizeof x), attrs->axis);
    }
    a->out[0] = a->in[0];
    a->out[0].shape.dims[attrs->axis] += a->in[1].shape.dims[attrs->axis];
    return SL_OK;
}

sl_status eval_concat(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const uint32_t axis = ((const sl_concat_attrs *)a->attrs)->axis;
    double *out = a->out[0].data;
    for (int64_t i = 0; i < dims_head(&a->out[0].type.shape, axis); i++)
        for (int part = 0; part < 2; part++) {
            const int64_t run = sl_dims_tail(&a->in[part].type.shape, axis);
            memcpy(out, in[part] + i * run, (size_t)run * sizeof *out);
            out += run;
        }
    return SL_OK;
}

sl_status infer_gather(const sl_infer_args *a, sl_error *err) {
    const sl_gather_attrs *attrs = a->attrs;
    SL_TRY(infer_plain(a, err));
    SL_TRY(sl_match_second(a, "indices i32[..]", err));
    SL_TRY(check_axis(a, attrs->axis, err));
    const sl_dims *x = &a->in[0].shape, *indices = &a->in[1].shape;
    const uint32_t rank = x->rank - 1 + indices->rank;
    SL_TRY(sl_check_attr(a->label, "the rank of the result", rank, 0, SL_MAX_RANK, err));
    sl_dims *out = &a->out[0].shape;
    out->rank = 0;
    for (uint32_t d = 0; d < attrs->axis; d++) out->dims[out->rank++] = x->dims[d];
    for (uint32_t d = 0; d < indices->rank; d++) out->dims[out->rank++] = indices->dims[d];
    for (uint32_t d = attrs->axis + 1; d < x->rank; d++) out->dims[out->rank++] = x->dims[d];
    return SL_OK;
}

sl_status eval_gather(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const uint32_t axis = ((const sl_gather_attrs *)a->attrs)->axis;
    const sl_dims *x = &a->in[0].type.shape;
    const int64_t count = sl_type_elements(&a->in[1].type), size = x->dims[axis];
    const int64_t inner = sl_dims_tail(x, axis + 1);
    SL_TRY(sl_eval_bounds(a, "indices", in[1], count, size, err));
    double *out = a->out[0].data;
    for (int64_t i = 0; i < dims_head(x, axis); i++)
        for (int64_t j = 0; j < count; j++, out += inner)
            memcpy(out, in[0] + (i * size + (int64_t)in[1][j]) * inner,
                   (size_t)inner * sizeof *out);
    return SL_OK;
}
