/* elementwise_slopes.c - Strips of derivatives times dy.  Common activations are vectorised; the
 * others call the C library. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_strips.h"
#include "runtime/cpu/kernels/vdouble.h"
#include <math.h>
#include <string.h>

/* ---- one element, in double ---- */

typedef double slope_fn(double x);
#define SLOPE(NAME, EXPRESSION)                                                                    \
    static double slope_##NAME(double x) {                                                         \
        return EXPRESSION;                                                                         \
    }
SLOPE(identity, x != x ? x : 1)
SLOPE(neg, x != x ? x : -1)
SLOPE(abs, x > 0 ? 1 : x < 0 ? -1 : x)
SLOPE(relu, x > 0 ? 1 : 0)
SLOPE(nowhere, x != x ? x : 0)
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
SLOPE(tanh, 1 / (cosh(x) * cosh(x)))
SLOPE(softplus, 1 / (1 + exp(-x)))
SLOPE(sigmoid, slope_softplus(x) * slope_softplus(-x))
SLOPE(silu, slope_softplus(x) * (1 + x * slope_softplus(-x)))
SLOPE(gelu, 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * 0.39894228040143268)
#undef SLOPE
static double slope_gelu_approx(double x) {
    const double c = 1.5957691216057307, u = c * (x + 0.044715 * x * x * x);
    return slope_softplus(u) + x * slope_sigmoid(u) * c * (1 + 3 * 0.044715 * x * x);
}

#define PLAIN_FN(NAME, SLOPE)                                                                      \
    static void single_##NAME(const strip *s) {                                                    \
        const float *x = s->in[0], *dy = s->in[1];                                                 \
        float *out = s->out;                                                                       \
        for (int64_t i = 0; i < s->count; i++)                                                     \
            out[i] = (float)(SLOPE((double)x[i]) * (double)dy[i]);                                 \
    }                                                                                              \
    static void double_##NAME(const strip *s) {                                                    \
        const double *x = s->in[0], *dy = s->in[1];                                                \
        double *out = s->out;                                                                      \
        for (int64_t i = 0; i < s->count; i++) out[i] = SLOPE(x[i]) * dy[i];                       \
    }
/* KIND(name, slope): all but those below. */
#define KINDS(KIND)                                                                                \
    KIND(identity, slope_identity)                                                                 \
    KIND(neg, slope_neg)                                                                           \
    KIND(abs, slope_abs)                                                                           \
    KIND(exp, exp)                                                                                 \
    KIND(log, slope_log)                                                                           \
    KIND(sqrt, slope_sqrt)                                                                         \
    KIND(rsqrt, slope_rsqrt)                                                                       \
    KIND(relu, slope_relu)                                                                         \
    KIND(sin, cos)                                                                                 \
    KIND(cos, slope_cos)                                                                           \
    KIND(tan, slope_tan)                                                                           \
    KIND(asin, slope_asin)                                                                         \
    KIND(acos, slope_acos)                                                                         \
    KIND(atan, slope_atan)                                                                         \
    KIND(sinh, cosh)                                                                               \
    KIND(cosh, sinh)                                                                               \
    KIND(asinh, slope_asinh)                                                                       \
    KIND(acosh, slope_acosh)                                                                       \
    KIND(atanh, slope_atanh)                                                                       \
    KIND(round, slope_nowhere)                                                                     \
    KIND(floor, slope_nowhere)                                                                     \
    KIND(ceil, slope_nowhere)                                                                      \
    KIND(sign, slope_nowhere)                                                                      \
    KIND(erf, slope_erf)                                                                           \
    KIND(log1p, slope_log1p)                                                                       \
    KIND(expm1, exp)                                                                               \
    KIND(reciprocal, slope_reciprocal)
KINDS(PLAIN_FN)
#undef PLAIN_FN

/* ---- vectors, of what networks have ---- */

/* 0 at -infinity, which dexp does not quite reach. */
INLINE vd dsigmoid(vd x) {
    return dchoose(x == dsplat(-INFINITY), dsplat(0), dsplat(1) / (dsplat(1) + dexp(-x)));
}
INLINE vd dslope_softplus(vd x) {
    return dsigmoid(x);
}
INLINE vd dslope_sigmoid(vd x) {
    return dsigmoid(x) * dsigmoid(-x);
}
/* Infinity times 0. */
INLINE vd dslope_finite(vd x, vd y) {
    return dchoose(dabs(x) == dsplat(INFINITY), dsplat(NAN), y);
}
INLINE vd dslope_silu(vd x) {
    return dslope_finite(x, dsigmoid(x) * (dsplat(1) + x * dsigmoid(-x)));
}
INLINE vd dslope_tanh(vd x) {
    return dsplat(4) * dslope_sigmoid(x + x);
}
/* The share of the normal distribution below x is e^(-x^2/2) Q(-x) where x is negative, and Q as in
 * vgelu: also where it is so small that 1 + erf would be nothing but rounding. */
INLINE vd dslope_gelu(vd x) {
    const vd size = dabs(x), y = dchoose(size > dsplat(14.5), dsplat(14.5), size);
    const vd power = dexp(dsplat(-0.5) * x * x), inverse = dsplat(1) / (y + dsplat(2.5));
    const vd q = dpolynomial((y - dsplat(2.5)) * inverse,
                             TERMS(-0.00015726719, -0.000310865609, 0.000684344792, 0.00252329791,
                                   -0.00160096097, -0.0163860209, 0.0092359148, 0.131986961,
                                   -0.433692008, 0.706656635));
    const vd tail = power * (q * inverse);
    const vd below = dchoose(x < dsplat(0), tail, dsplat(1) - tail);
    return dslope_finite(x, below + x * power * dsplat(0.39894228040143268));
}
INLINE vd dslope_gelu_approx(vd x) {
    const vd c = dsplat(0.79788456080286536), cube = dsplat(0.044715) * x * x;
    const vd twice = dsplat(2) * c * x * (dsplat(1) + cube);
    const vd p = dsigmoid(twice);
    const vd rest = dsplat(2) * x * p * dsigmoid(-twice) * c * (dsplat(1) + dsplat(3) * cube);
    return dslope_finite(x, p + rest);
}

#define VECTOR_KINDS(KIND)                                                                         \
    KIND(softplus) KIND(sigmoid) KIND(silu) KIND(tanh) KIND(gelu) KIND(gelu_approx)
#define VECTOR_FN(NAME)                                                                            \
    static void single_##NAME(const strip *s) {                                                    \
        for (int64_t i = 0; i < s->count; i += DLANES) {                                           \
            const int64_t n = least(DLANES, s->count - i);                                         \
            const vd x = dload_n((const float *)s->in[0] + i, n);                                  \
            const vd dy = dload_n((const float *)s->in[1] + i, n);                                 \
            const vd y = dchoose(x != x, x, dslope_##NAME(x) * dy);                                \
            dstore_n((float *)s->out + i, y, n);                                                   \
        }                                                                                          \
    }                                                                                              \
    static void double_##NAME(const strip *s) {                                                    \
        const double *x = s->in[0], *dy = s->in[1];                                                \
        double *out = s->out;                                                                      \
        for (int64_t i = 0; i < s->count; i++) out[i] = slope_##NAME(x[i]) * dy[i];                \
    }
VECTOR_KINDS(VECTOR_FN)

strip_fn *SL_KERNEL(sl_strip_slope)(const char *kind, sl_dtype held) {
    static const struct {
        const char *kind;
        strip_fn *single, *wide;
    } slopes[] = {
#define KIND(NAME, SLOPE) {#NAME, single_##NAME, double_##NAME},
        KINDS(KIND)
#undef KIND
#define KIND(NAME) {#NAME, single_##NAME, double_##NAME},
            VECTOR_KINDS(KIND)
#undef KIND
    };
    for (size_t i = 0; i < sizeof slopes / sizeof slopes[0]; i++)
        if (strcmp(kind, slopes[i].kind) == 0)
            return held == SL_DTYPE_f64 ? slopes[i].wide : slopes[i].single;
    return NULL;
}
