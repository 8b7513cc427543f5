/* elementwise.c - Ops on elements: binary with broadcasting, and unary. */
#include "compiler/ops/check.h"
#include <math.h>

static sl_status infer_binary(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "a number[..]", err));
    const bool integers = a->in[0].dtype == SL_DTYPE_i32;
    SL_TRY(sl_match_second(a, integers ? "b i32[..]" : "b f32[..]", err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_broadcast(a->label, &a->in[0].shape, &a->in[1].shape, &a->out[0].shape, err);
}

typedef double real_fn(double x, double y);
typedef int64_t integer_fn(int64_t x, int64_t y);

/* The low 32 bits, as i32 arithmetic wraps. */
static double wrapped(int64_t value) {
    const uint32_t bits = (uint32_t)(uint64_t)value;
    return bits < 0x80000000u ? (double)bits : (double)bits - 4294967296.0;
}

static sl_status eval_binary(const sl_eval_args *a, real_fn *real, integer_fn *integer,
                             sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_type *type = &a->out[0].type;
    const bool integers = integer && type->dtype == SL_DTYPE_i32;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const double x = in[0][sl_broadcast_index(&a->in[0].type.shape, &type->shape, i)];
        const double y = in[1][sl_broadcast_index(&a->in[1].type.shape, &type->shape, i)];
        a->out[0].data[i] = integers ? wrapped(integer((int64_t)x, (int64_t)y)) : real(x, y);
    }
    return SL_OK;
}

#define BINARY(NAME, EXPRESSION)                                                                   \
    static double real_##NAME(double x, double y) {                                                \
        return EXPRESSION;                                                                         \
    }                                                                                              \
    static int64_t integer_##NAME(int64_t x, int64_t y) {                                          \
        return EXPRESSION;                                                                         \
    }                                                                                              \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_binary(a, err);                                                               \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        return eval_binary(a, real_##NAME, integer_##NAME, err);                                   \
    }
BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x *y)
#undef BINARY

static double real_div(double x, double y) {
    return x / y;
}

sl_status infer_div(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "a f32[..]", err));
    return infer_binary(a, err);
}

sl_status eval_div(const sl_eval_args *a, sl_error *err) {
    return eval_binary(a, real_div, NULL, err);
}

static double larger(double x, double y) {
    return isnan(x) || x > y ? x : y;
}

sl_status infer_maximum(const sl_infer_args *a, sl_error *err) {
    return infer_binary(a, err);
}

sl_status eval_maximum(const sl_eval_args *a, sl_error *err) {
    return eval_binary(a, larger, NULL, err);
}

static double smaller(double x, double y) {
    return isnan(x) || x < y ? x : y;
}

sl_status infer_minimum(const sl_infer_args *a, sl_error *err) {
    return infer_binary(a, err);
}

sl_status eval_minimum(const sl_eval_args *a, sl_error *err) {
    return eval_binary(a, smaller, NULL, err);
}

static sl_status infer_unary(const sl_infer_args *a, const char *signature, sl_error *err) {
    SL_TRY(sl_match(a, signature, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

static sl_status eval_unary(const sl_eval_args *a, double (*function)(double), sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const bool integers = a->out[0].type.dtype == SL_DTYPE_i32;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double y = function(x[i]);
        a->out[0].data[i] = integers ? wrapped((int64_t)y) : y;
    }
    return SL_OK;
}

#define UNARY(NAME, TYPES, EXPRESSION)                                                             \
    static double real_##NAME(double x) {                                                          \
        return EXPRESSION;                                                                         \
    }                                                                                              \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_unary(a, "x " TYPES "[..]", err);                                             \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        return eval_unary(a, real_##NAME, err);                                                    \
    }
UNARY(neg, "number", -x)
UNARY(abs, "number", fabs(x))
UNARY(relu, "number", x < 0 ? 0 : x)
UNARY(exp, "f32", exp(x))
UNARY(log, "f32", log(x))
UNARY(sqrt, "f32", sqrt(x))
UNARY(rsqrt, "f32", 1 / sqrt(x))
UNARY(tanh, "f32", tanh(x))
UNARY(sigmoid, "f32", sl_sigmoid(x))
UNARY(silu, "f32", sl_silu(x))
UNARY(gelu, "f32", 0.5 * x * erfc(-x * M_SQRT1_2))
#undef UNARY
