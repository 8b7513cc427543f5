/* elementwise_convert.c - Conversion between element types. */
#include "compiler/ops/elementwise.h"
#include "core/codec.h"
#include <math.h>
#include <string.h>

static sl_status check_target(const sl_infer_args *a, sl_dtype to, sl_error *err) {
    if ((unsigned)to < SL_DTYPE_COUNT && sl_dtype_infos[to].bytes) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: to is %s, must be a plain type", a->label,
                   (unsigned)to < SL_DTYPE_COUNT ? sl_dtype_infos[to].name : "no type");
}

sl_status sl_infer_cast(const sl_infer_args *a, sl_error *err) {
    const sl_cast_attrs *attrs = a->attrs;
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_PLAIN, err));
    SL_TRY(check_target(a, attrs->to, err));
    SL_TRY(sl_check_attr(a->label, "saturate", attrs->saturate, 0, 1, err));
    if (a->in[0].dtype == SL_DTYPE_c64 && attrs->to != SL_DTYPE_c64)
        return sl_fail(err, SL_INVALID, "%s: x is c64, which can only be cast to c64; use real",
                       a->label);
    a->out[0] = a->in[0];
    a->out[0].dtype = attrs->to;
    return SL_OK;
}

/* The range of an integer type; the upper end of u64 is given as bits. */
static void ends_of(sl_dtype dtype, int64_t *low, int64_t *high) {
    const bool is_signed = dtype == SL_DTYPE_i8 || dtype == SL_DTYPE_i16 || dtype == SL_DTYPE_i32 ||
                           dtype == SL_DTYPE_i64;
    const int bits = (int)sl_dtype_infos[dtype].bytes * 8;
    *low = is_signed ? -((int64_t)1 << (bits - 2)) * 2 : 0;
    *high = is_signed ? -(*low + 1) : (int64_t)(UINT64_MAX >> (64 - bits));
}

static int64_t integer_of_integer(int64_t x, bool x_is_u64, sl_dtype to, bool saturate) {
    int64_t low, high;
    if (!saturate) return sl_wrap_integer(to, x);
    ends_of(to, &low, &high);
    if (!x_is_u64 && x < low) return low;
    const bool beyond = x_is_u64 || x >= 0 ? (uint64_t)x > (uint64_t)high : false;
    return beyond ? high : x;
}

static int64_t integer_of_real(double x, sl_dtype to, bool saturate) {
    int64_t low, high;
    ends_of(to, &low, &high);
    if (isnan(x)) return 0;
    x = trunc(x);
    if (saturate) {
        const double top = to == SL_DTYPE_u64 ? 0x1p64 : (double)high;
        if (x <= (double)low) return low;
        if (x >= top) return high;
    } else if (!(fabs(x) < 0x1p63)) {
        const double rest = isinf(x) ? 0 : fmod(x, 0x1p64); /* modulo 2^64 */
        return sl_wrap_integer(to, (int64_t)(rest < 0 ? 0 - (uint64_t)-rest : (uint64_t)rest));
    }
    return to == SL_DTYPE_u64 && x > 0 ? (int64_t)(uint64_t)x : sl_wrap_integer(to, (int64_t)x);
}

/* Rounded to what the type can represent. */
static double rounded(double x, sl_dtype to) {
    uint64_t bytes = 0;
    double back;
    sl_encode_f64(to, &x, 1, &bytes);
    sl_decode_f64(to, &bytes, 1, &back);
    return back;
}

static double real_of_integer(int64_t x, bool x_is_u64, sl_dtype to) {
    if (to == SL_DTYPE_f64) return x_is_u64 ? (double)(uint64_t)x : (double)x;
    return rounded((double)(x_is_u64 ? (float)(uint64_t)x : (float)x), to);
}

static void cast_one(const double *x, sl_dtype from, double *out, sl_dtype to, bool saturate) {
    const bool from_float = sl_dtype_infos[from].kind == SL_KIND_FLOAT;
    const sl_dtype_kind kind = sl_dtype_infos[to].kind;
    const int64_t integer = from_float ? 0 : sl_slot_integer(from, x);
    if (kind == SL_KIND_BOOL)
        *out = from_float ? *x != 0 : integer != 0;
    else if (kind == SL_KIND_FLOAT)
        *out = from_float ? rounded(*x, to) : real_of_integer(integer, from == SL_DTYPE_u64, to);
    else
        sl_slot_set_integer(to, out,
                            from_float
                                ? integer_of_real(*x, to, saturate)
                                : integer_of_integer(integer, from == SL_DTYPE_u64, to, saturate));
}

sl_status sl_eval_cast(const sl_eval_args *a, sl_error *err) {
    const sl_cast_attrs *attrs = a->attrs;
    const sl_dtype from = a->in[0].type.dtype;
    const int64_t count = sl_type_elements(&a->out[0].type);
    const double *x;
    double *out = a->out[0].data;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    if (from == SL_DTYPE_c64 && count) memcpy(out, x, (size_t)count * 2 * sizeof *out);
    for (int64_t i = 0; i < count && from != SL_DTYPE_c64; i++) {
        if (attrs->to == SL_DTYPE_c64) {
            cast_one(x + i, from, out + 2 * i, SL_DTYPE_f32, false);
            out[2 * i + 1] = 0;
        } else {
            cast_one(x + i, from, out + i, attrs->to, attrs->saturate);
        }
    }
    return SL_OK;
}

sl_status sl_infer_bitcast(const sl_infer_args *a, sl_error *err) {
    const sl_dtype to = ((const sl_bitcast_attrs *)a->attrs)->to;
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_NUMBERS | SL_COMPLEXES, err));
    SL_TRY(check_target(a, to, err));
    if (to == SL_DTYPE_bool || sl_dtype_infos[to].bytes != sl_dtype_infos[a->in[0].dtype].bytes)
        return sl_fail(err, SL_INVALID,
                       "%s: to is %s, must have elements of %u bytes as x, not bool", a->label,
                       sl_dtype_infos[to].name, sl_dtype_infos[a->in[0].dtype].bytes);
    a->out[0] = a->in[0];
    a->out[0].dtype = to;
    return SL_OK;
}
sl_status sl_eval_bitcast(const sl_eval_args *a, sl_error *err) {
    const sl_dtype from = a->in[0].type.dtype, to = a->out[0].type.dtype;
    const int64_t step_in = from == SL_DTYPE_c64 ? 2 : 1, step_out = to == SL_DTYPE_c64 ? 2 : 1;
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        uint64_t bytes = 0;
        sl_encode_f64(from, x + step_in * i, 1, &bytes);
        sl_decode_f64(to, &bytes, 1, a->out[0].data + step_out * i);
    }
    return SL_OK;
}

sl_status sl_infer_stop_gradient(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_PLAIN, err));
    a->out[0] = a->in[0];
    return SL_OK;
}
sl_status sl_eval_stop_gradient(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t slots = sl_type_slots(&a->out[0].type);
    if (slots) memmove(a->out[0].data, x, (size_t)slots * sizeof *x);
    return SL_OK;
}

/* ---- complex numbers and their parts ---- */

static sl_status check_f32(const sl_infer_args *a, uint32_t input, const char *name,
                           sl_error *err) {
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(&a->in[input], a->label, err));
    if (a->in[input].dtype == SL_DTYPE_f32) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be f32", a->label, name,
                   sl_type_format(&a->in[input], text, sizeof text));
}

sl_status sl_infer_complex(const sl_infer_args *a, sl_error *err) {
    SL_TRY(check_f32(a, 0, "re", err));
    SL_TRY(check_f32(a, 1, "im", err));
    a->out[0].dtype = SL_DTYPE_c64;
    return sl_elementwise_broadcast(a, 2, &a->out[0].shape, err);
}
sl_status sl_eval_complex(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        for (uint32_t part = 0; part < 2; part++)
            a->out[0].data[2 * i + part] =
                in[part][sl_broadcast_index(&a->in[part].type.shape, shape, i)];
    return SL_OK;
}

static sl_status infer_part(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_COMPLEXES, err));
    a->out[0] = a->in[0];
    a->out[0].dtype = SL_DTYPE_f32;
    return SL_OK;
}

#define PART(NAME, EXPRESSION)                                                                     \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        return infer_part(a, err);                                                                 \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        const double *x;                                                                           \
        SL_TRY(sl_eval_inputs(a, 1, &x, err));                                                     \
        for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++, x += 2)                    \
            a->out[0].data[i] = EXPRESSION;                                                        \
        return SL_OK;                                                                              \
    }
PART(real, x[0])
PART(imag, x[1])
PART(complex_norm_sq, x[0] * x[0] + x[1] * x[1])
#undef PART

sl_status sl_infer_conjugate(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_part(a, err));
    a->out[0].dtype = SL_DTYPE_c64;
    return SL_OK;
}
sl_status sl_eval_conjugate(const sl_eval_args *a, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    for (int64_t i = 0; i < sl_type_slots(&a->out[0].type); i++)
        a->out[0].data[i] = i % 2 ? -x[i] : x[i];
    return SL_OK;
}

sl_status sl_infer_complex_norm_sq_backward(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_COMPLEXES, err));
    SL_TRY(sl_elementwise_class(a, 1, "dy", SL_FLOATS, err));
    a->out[0].dtype = SL_DTYPE_c64;
    SL_TRY(sl_elementwise_broadcast(a, 2, &a->out[0].shape, err));
    return check_f32(a, 1, "dy", err);
}
sl_status sl_eval_complex_norm_sq_backward(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double *x = in[0] + 2 * sl_broadcast_index(&a->in[0].type.shape, shape, i);
        const double dy = in[1][sl_broadcast_index(&a->in[1].type.shape, shape, i)];
        a->out[0].data[2 * i] = dy * x[0], a->out[0].data[2 * i + 1] = dy * x[1];
    }
    return SL_OK;
}
