/* elementwise_unary.c - Unary elementwise ops and their derivatives. */
#include "compiler/ops/elementwise.h"
#include <math.h>
#include <string.h>

static sl_status infer_unary(const sl_infer_args *a, unsigned classes, sl_error *err) {
    SL_TRY(sl_elementwise_class(a, 0, "x", classes, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

static sl_status eval_unary(const sl_eval_args *a, sl_real_fn *real, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) a->out[0].data[i] = real(x[i]);
    return SL_OK;
}

#define UNARY(NAME, EXPRESSION)                                                                    \
    static double real_##NAME(double x) {                                                          \
        return EXPRESSION;                                                                         \
    }                                                                                              \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_unary(a, SL_FLOATS, err);                                                     \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        return eval_unary(a, real_##NAME, err);                                                    \
    }
UNARY(rsqrt, 1 / sqrt(x))
UNARY(tanh, tanh(x))
UNARY(sigmoid, sl_sigmoid(x))
UNARY(silu, sl_silu(x))
UNARY(gelu, 0.5 * x * erfc(-x * M_SQRT1_2))
/* (1 + tanh(u)) / 2 = sigmoid(2u), which keeps its digits where it is small. */
UNARY(gelu_approx, x *sl_sigmoid(M_2_SQRTPI *M_SQRT2 *(x + 0.044715 * x * x * x)))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tan, tan(x))
UNARY(asin, asin(x))
UNARY(acos, acos(x))
UNARY(atan, atan(x))
UNARY(sinh, sinh(x))
UNARY(cosh, cosh(x))
UNARY(asinh, asinh(x))
UNARY(acosh, acosh(x))
UNARY(atanh, atanh(x))
UNARY(round, rint(x))
UNARY(floor, floor(x))
UNARY(ceil, ceil(x))
UNARY(erf, erf(x))
UNARY(log1p, log1p(x))
UNARY(expm1, expm1(x))
UNARY(softplus, fmax(x, 0) + (isnan(x) ? x : log1p(exp(-fabs(x)))))
UNARY(reciprocal, 1 / x)
#undef UNARY

/* ---- of integers too ---- */

static double real_neg(double x) {
    return -x;
}
static int64_t integer_neg(int64_t x) {
    return (int64_t)(0 - (uint64_t)x);
}
static double real_relu(double x) {
    return x < 0 ? 0 : x;
}
static int64_t integer_relu(int64_t x) {
    return x < 0 ? 0 : x;
}
static int64_t integer_abs(int64_t x) {
    return x < 0 ? integer_neg(x) : x;
}
static double real_sign(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
static int64_t integer_sign(int64_t x) {
    return (x > 0) - (x < 0);
}

static sl_status eval_integers(const sl_eval_args *a, int64_t function(int64_t), sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_dtype dtype = a->out[0].type.dtype;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        sl_slot_set_integer(dtype, a->out[0].data + i,
                            sl_wrap_integer(dtype, function(sl_slot_integer(dtype, x + i))));
    return SL_OK;
}

/* Of u64 every value is positive, whatever its top bit. */
static int64_t same(int64_t x) {
    return x;
}
static int64_t any_bit(int64_t x) {
    return x != 0;
}

#define NUMBERS(NAME, CLASSES, REAL, INTEGER, OF_U64)                                              \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_unary(a, CLASSES, err);                                                       \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        const sl_dtype dtype = a->out[0].type.dtype;                                               \
        if (sl_dtype_infos[dtype].kind == SL_KIND_INT)                                             \
            return eval_integers(a, dtype == SL_DTYPE_u64 ? OF_U64 : INTEGER, err);                \
        return eval_unary(a, REAL, err);                                                           \
    }
NUMBERS(abs, SL_NUMBERS, fabs, integer_abs, same)
NUMBERS(relu, SL_NUMBERS, real_relu, integer_relu, same)
NUMBERS(sign, SL_NUMBERS, real_sign, integer_sign, any_bit)
#undef NUMBERS

static int64_t integer_bitwise_not(int64_t x) {
    return ~x;
}
sl_status infer_bitwise_not(const sl_infer_args *a, sl_error *err) {
    return infer_unary(a, SL_INTS, err);
}
sl_status eval_bitwise_not(const sl_eval_args *a, sl_error *err) {
    return eval_integers(a, integer_bitwise_not, err);
}
static int64_t integer_logical_not(int64_t x) {
    return !x;
}
sl_status infer_logical_not(const sl_infer_args *a, sl_error *err) {
    return infer_unary(a, SL_BOOLS, err);
}
sl_status eval_logical_not(const sl_eval_args *a, sl_error *err) {
    return eval_integers(a, integer_logical_not, err);
}

/* ---- of complex numbers too ---- */

static void complex_neg(const double *x, double *out) {
    out[0] = -x[0], out[1] = -x[1];
}
static void complex_exp(const double *x, double *out) {
    const double size = exp(x[0]);
    out[0] = size * cos(x[1]), out[1] = x[1] == 0 ? x[1] : size * sin(x[1]);
}
static void complex_log(const double *x, double *out) {
    out[0] = log(hypot(x[0], x[1])), out[1] = atan2(x[1], x[0]);
}
/* The larger part from the half of |x| + |re|, the other from the product of both. */
static void complex_sqrt(const double *x, double *out) {
    const double larger = sqrt((hypot(x[0], x[1]) + fabs(x[0])) / 2);
    const double other = larger == 0 ? 0 : fabs(x[1]) / (2 * larger);
    out[0] = x[0] >= 0 ? larger : other;
    out[1] = copysign(x[0] >= 0 ? other : larger, x[1]);
}

static sl_status eval_complex_unary(const sl_eval_args *a, void function(const double *, double *),
                                    sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        function(x + 2 * i, a->out[0].data + 2 * i);
    return SL_OK;
}

#define COMPLEX(NAME, CLASSES, REAL)                                                               \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_unary(a, CLASSES, err);                                                       \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        const sl_dtype dtype = a->out[0].type.dtype;                                               \
        if (dtype == SL_DTYPE_c64) return eval_complex_unary(a, complex_##NAME, err);              \
        if (sl_dtype_infos[dtype].kind == SL_KIND_INT) return eval_integers(a, integer_neg, err);  \
        return eval_unary(a, REAL, err);                                                           \
    }
COMPLEX(neg, SL_NUMBERS | SL_COMPLEXES, real_neg)
COMPLEX(exp, SL_FLOATS | SL_COMPLEXES, exp)
COMPLEX(log, SL_FLOATS | SL_COMPLEXES, log)
COMPLEX(sqrt, SL_FLOATS | SL_COMPLEXES, sqrt)
#undef COMPLEX

/* ---- questions ---- */

sl_status infer_is_nan(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_unary(a, SL_FLOATS, err));
    a->out[0].dtype = SL_DTYPE_bool;
    return SL_OK;
}
static double real_is_nan(double x) {
    return isnan(x) != 0;
}
sl_status eval_is_nan(const sl_eval_args *a, sl_error *err) {
    return eval_unary(a, real_is_nan, err);
}

sl_status infer_is_inf(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_attr(a->label, "which", ((const sl_is_inf_attrs *)a->attrs)->which, 0, 3, err));
    return infer_is_nan(a, err);
}
static double is_infinite(double x) {
    return isinf(x) != 0;
}
static double is_negative_infinite(double x) {
    return isinf(x) && x < 0;
}
static double is_positive_infinite(double x) {
    return isinf(x) && x > 0;
}
sl_status eval_is_inf(const sl_eval_args *a, sl_error *err) {
    static sl_real_fn *const fns[] = {is_infinite, is_negative_infinite, is_positive_infinite,
                                      is_infinite};
    return eval_unary(a, fns[((const sl_is_inf_attrs *)a->attrs)->which], err);
}

/* ---- derivatives ---- */

static double slope_identity(double x) {
    return isnan(x) ? x : 1;
}
static double slope_neg(double x) {
    return isnan(x) ? x : -1;
}
static double slope_nowhere(double x) {
    return isnan(x) ? x : 0;
}
static double slope_relu(double x) {
    return x > 0;
}
static double slope_gelu(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * 0.5 * M_2_SQRTPI * M_SQRT1_2;
}
static double slope_sigmoid(double x) {
    return sl_sigmoid(x) * sl_sigmoid(-x);
}
static double slope_gelu_approx(double x) {
    const double c = M_2_SQRTPI * M_SQRT2, u = c * (x + 0.044715 * x * x * x);
    return sl_sigmoid(u) + x * slope_sigmoid(u) * c * (1 + 3 * 0.044715 * x * x);
}
static double slope_silu(double x) {
    return sl_sigmoid(x) * (1 + x * sl_sigmoid(-x));
}
static double slope_tanh(double x) {
    return 1 / (cosh(x) * cosh(x));
}

#define SLOPE(NAME, EXPRESSION)                                                                    \
    static double slope_##NAME(double x) {                                                         \
        return EXPRESSION;                                                                         \
    }
SLOPE(log, 1 / x)
SLOPE(sqrt, 0.5 / sqrt(x))
SLOPE(rsqrt, -0.5 / (x * sqrt(x)))
SLOPE(cos, -sin(x))
SLOPE(tan, 1 / (cos(x) * cos(x)))
SLOPE(asin, 1 / sqrt((1 - x) * (1 + x)))
SLOPE(acos, -1 / sqrt((1 - x) * (1 + x)))
SLOPE(atan, 1 / (1 + x * x))
SLOPE(asinh, 1 / sqrt(1 + x * x))
SLOPE(acosh, 1 / sqrt((x - 1) * (x + 1)))
SLOPE(atanh, 1 / ((1 - x) * (1 + x)))
SLOPE(erf, M_2_SQRTPI *exp(-x *x))
SLOPE(log1p, 1 / (1 + x))
SLOPE(reciprocal, -1 / (x * x))
#undef SLOPE

sl_real_fn *sl_derivative_find(const char *kind) {
    static const struct {
        const char *kind;
        sl_real_fn *slope;
    } slopes[] = {
        {"identity", slope_identity},
        {"neg", slope_neg},
        {"abs", real_sign},
        {"exp", exp},
        {"log", slope_log},
        {"sqrt", slope_sqrt},
        {"rsqrt", slope_rsqrt},
        {"tanh", slope_tanh},
        {"sigmoid", slope_sigmoid},
        {"silu", slope_silu},
        {"gelu", slope_gelu},
        {"gelu_approx", slope_gelu_approx},
        {"relu", slope_relu},
        {"sin", cos},
        {"cos", slope_cos},
        {"tan", slope_tan},
        {"asin", slope_asin},
        {"acos", slope_acos},
        {"atan", slope_atan},
        {"sinh", cosh},
        {"cosh", sinh},
        {"asinh", slope_asinh},
        {"acosh", slope_acosh},
        {"atanh", slope_atanh},
        {"round", slope_nowhere},
        {"floor", slope_nowhere},
        {"ceil", slope_nowhere},
        {"sign", slope_nowhere},
        {"erf", slope_erf},
        {"log1p", slope_log1p},
        {"expm1", exp},
        {"softplus", sl_sigmoid},
        {"reciprocal", slope_reciprocal},
    };
    for (size_t i = 0; i < sizeof slopes / sizeof slopes[0]; i++)
        if (strcmp(kind, slopes[i].kind) == 0) return slopes[i].slope;
    return NULL;
}

static sl_status infer_backward(const sl_infer_args *a, unsigned classes, sl_error *err) {
    static const char *const names[] = {"x", "dy"};
    SL_TRY(sl_elementwise_class(a, 0, "x", classes, err));
    if (classes == SL_COMPLEXES)
        SL_TRY(sl_elementwise_class(a, 1, "dy", SL_FLOATS, err));
    else
        SL_TRY(sl_elementwise_alike(a, 0, 1, names, err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_elementwise_broadcast(a, 2, &a->out[0].shape, err);
}

static sl_status eval_backward(const sl_eval_args *a, sl_real_fn *slope, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        a->out[0].data[i] = slope(in[0][sl_broadcast_index(&a->in[0].type.shape, shape, i)]) *
                            in[1][sl_broadcast_index(&a->in[1].type.shape, shape, i)];
    return SL_OK;
}

sl_status infer_activation_backward(const sl_infer_args *a, sl_error *err) {
    const char *kind = ((const sl_activation_backward_attrs *)a->attrs)->kind;
    if (!sl_derivative_find(kind))
        return sl_fail(err, SL_INVALID,
                       "%s: kind is '%s', must be the name of an op of one operand with a "
                       "derivative, such as 'gelu'",
                       a->label, kind);
    return infer_backward(a, SL_FLOATS, err);
}
sl_status eval_activation_backward(const sl_eval_args *a, sl_error *err) {
    const char *kind = ((const sl_activation_backward_attrs *)a->attrs)->kind;
    return eval_backward(a, sl_derivative_find(kind), err);
}

sl_status infer_relu_backward(const sl_infer_args *a, sl_error *err) {
    return infer_backward(a, SL_FLOATS, err);
}
/* A choice, not a product: what is infinite does not become NaN. */
sl_status eval_relu_backward(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double x = in[0][sl_broadcast_index(&a->in[0].type.shape, shape, i)];
        const double dy = in[1][sl_broadcast_index(&a->in[1].type.shape, shape, i)];
        a->out[0].data[i] = x > 0 ? dy : 0;
    }
    return SL_OK;
}

sl_status infer_complex_norm_sq_backward(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_backward(a, SL_COMPLEXES, err));
    if (a->in[1].dtype == SL_DTYPE_f32) return SL_OK;
    char text[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s: dy is %s, must be f32", a->label,
                   sl_type_format(&a->in[1], text, sizeof text));
}
sl_status eval_complex_norm_sq_backward(const sl_eval_args *a, sl_error *err) {
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
