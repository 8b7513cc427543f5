#include "compiler/ops/numbers.h"
#include "core/codec.h"
#include <stdio.h>

static const struct {
    uint32_t class;
    const char *text;
} names[] = {
    {SL_NUMBERS_FLOAT, "f32, f16, bf16, f64"},
    {SL_NUMBERS_INT, "an integer type"},
    {SL_NUMBERS_COMPLEX, "c64"},
    {SL_NUMBERS_INDEX, "i32, i64"},
    {SL_NUMBERS_BYTE, "i8, u8"},
    {SL_NUMBERS_CODE, "i8, u8, i16, u16, i32"},
    {SL_NUMBERS_FULL, "f32, f64"},
    {SL_NUMBERS_NARROW, "f32, f16, bf16"},
};

static bool is_in(sl_dtype dtype, uint32_t class) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    const bool byte = dtype == SL_DTYPE_i8 || dtype == SL_DTYPE_u8;
    switch (class) {
    case SL_NUMBERS_FLOAT:
        return kind == SL_KIND_FLOAT;
    case SL_NUMBERS_INT:
        return kind == SL_KIND_INT;
    case SL_NUMBERS_COMPLEX:
        return kind == SL_KIND_COMPLEX;
    case SL_NUMBERS_INDEX:
        return dtype == SL_DTYPE_i32 || dtype == SL_DTYPE_i64;
    case SL_NUMBERS_BYTE:
        return byte;
    case SL_NUMBERS_CODE:
        return byte || dtype == SL_DTYPE_i16 || dtype == SL_DTYPE_u16 || dtype == SL_DTYPE_i32;
    case SL_NUMBERS_FULL:
        return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_f64;
    default:
        return kind == SL_KIND_FLOAT && dtype != SL_DTYPE_f64;
    }
}

sl_status sl_check_numbers(const sl_infer_args *a, uint32_t input, const char *name,
                           uint32_t classes, sl_error *err) {
    const sl_type *type = &a->in[input];
    char wanted[160] = "", found[SL_TYPE_TEXT];
    size_t length = 0;
    SL_TRY(sl_type_check_shape(type, a->label, err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(classes & names[i].class)) continue;
        if (is_in(type->dtype, names[i].class)) return SL_OK;
        length += (size_t)snprintf(wanted + length, sizeof wanted - length, "%s%s",
                                   length ? ", " : "", names[i].text);
    }
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be of %s", a->label, name,
                   sl_type_format(type, found, sizeof found), wanted);
}

sl_status sl_check_same_dtype(const sl_infer_args *a, const uint32_t inputs[2],
                              const char *const text[2], sl_error *err) {
    const sl_type *first = &a->in[inputs[0]], *second = &a->in[inputs[1]];
    if (first->dtype == second->dtype) return SL_OK;
    char found[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s as %s %s", a->label, text[1],
                   sl_type_format(second, found, sizeof found), sl_dtype_infos[first->dtype].name,
                   text[0], sl_type_format(first, other, sizeof other));
}

sl_status sl_check_inputs_after(const sl_infer_args *a, uint32_t own, const char *name,
                                uint32_t least, uint32_t most, sl_error *err) {
    const uint32_t count = a->in_count > own ? a->in_count - own : 0;
    if (count >= least && count <= most) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s are %u tensors, must be %u to %u", a->label, name,
                   count, least, most);
}

sl_status sl_check_dims(const sl_infer_args *a, uint32_t input, const char *name,
                        const sl_dims *wanted, sl_error *err) {
    const sl_type *type = &a->in[input], like = {type->dtype, *wanted};
    if (sl_dims_equal(&type->shape, wanted)) return SL_OK;
    char found[SL_TYPE_TEXT], text[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s", a->label, name,
                   sl_type_format(type, found, sizeof found),
                   sl_type_format(&like, text, sizeof text));
}

sl_status sl_check_param(const sl_infer_args *a, uint32_t input, const char *name, int64_t count,
                         sl_error *err) {
    const sl_dims *shape = &a->in[input].shape;
    if (shape->rank == 0 || (shape->rank == 1 && (shape->dims[0] == 1 || shape->dims[0] == count)))
        return SL_OK;
    char found[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must have one element or %lld", a->label, name,
                   sl_type_format(&a->in[input], found, sizeof found), (long long)count);
}

sl_status sl_check_named_axis(const sl_infer_args *a, const char *name, int64_t axis, uint32_t rank,
                              uint32_t *out, sl_error *err) {
    SL_TRY(sl_check_attr(a->label, name, axis, -(int64_t)rank, (int64_t)rank - 1, err));
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return SL_OK;
}

double sl_round_to(sl_dtype dtype, double value) {
    uint64_t coded = 0;
    double kept = 0;
    sl_encode_f64(dtype, &value, 1, &coded);
    sl_decode_f64(dtype, &coded, 1, &kept);
    return kept;
}

void sl_sum_add(sl_dtype dtype, const double *x, const double *y, sl_sum *sum) {
    switch (sl_dtype_infos[dtype].kind) {
    case SL_KIND_INT:
        sum->whole += (uint64_t)sl_slot_integer(dtype, x) * (uint64_t)sl_slot_integer(dtype, y);
        break;
    case SL_KIND_COMPLEX:
        sum->re += x[0] * y[0] - x[1] * y[1];
        sum->im += x[0] * y[1] + x[1] * y[0];
        break;
    default:
        sum->re += x[0] * y[0];
    }
}

void sl_sum_get(sl_dtype dtype, const sl_sum *sum, double *slot) {
    if (sl_dtype_infos[dtype].kind == SL_KIND_INT) {
        sl_slot_set_integer(dtype, slot, sl_wrap_integer(dtype, (int64_t)sum->whole));
        return;
    }
    slot[0] = sum->re;
    if (sl_dtype_infos[dtype].kind == SL_KIND_COMPLEX) slot[1] = sum->im;
}
