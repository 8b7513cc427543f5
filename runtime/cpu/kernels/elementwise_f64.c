/* elementwise_f64.c - Strips of doubles; functions are the C library's. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_strips.h"
#include <math.h>

#define STRIP_FN(NAME, TYPE, ...)                                                                  \
    static void strip_##NAME(const strip *s) {                                                     \
        const double *x = s->in[0], *y = s->in[1], *z = s->in[2];                                  \
        TYPE *out = s->out;                                                                        \
        (void)y, (void)z;                                                                          \
        for (int64_t i = 0; i < s->count; i++) out[i] = __VA_ARGS__;                               \
    }

static inline double larger(double x, double y) {
    return x > y || x != x ? x : y;
}
static inline double smaller(double x, double y) {
    return x < y || x != x ? x : y;
}
static double rest_of(double x, double y, bool truncate) {
    const double rest = fmod(x, y);
    if (truncate) return rest;
    if (rest == 0) return copysign(0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}
static double softplus(double x) {
    return x != x ? x : fmax(x, 0) + log1p(exp(-fabs(x)));
}
static double gelu_approx(double x) {
    return x / (1 + exp(-1.5957691216057307 * (x + 0.044715 * x * x * x)));
}

STRIP_FN(add, double, x[i] + y[i])
STRIP_FN(sub, double, x[i] - y[i])
STRIP_FN(mul, double, x[i] * y[i])
STRIP_FN(div, double, x[i] / y[i])
STRIP_FN(maximum, double, larger(x[i], y[i]))
STRIP_FN(minimum, double, smaller(x[i], y[i]))
STRIP_FN(clamp, double, smaller(larger(x[i], y[i]), z[i]))
STRIP_FN(pow, double, pow(x[i], y[i]))
STRIP_FN(mod, double, rest_of(x[i], y[i], s->attribute))
STRIP_FN(atan2, double, atan2(x[i], y[i]))
STRIP_FN(relu_backward, double, x[i] > 0 ? y[i] : 0)
STRIP_FN(neg, double, -x[i])
STRIP_FN(abs, double, fabs(x[i]))
STRIP_FN(exp, double, exp(x[i]))
STRIP_FN(log, double, log(x[i]))
STRIP_FN(sqrt, double, sqrt(x[i]))
STRIP_FN(rsqrt, double, 1 / sqrt(x[i]))
STRIP_FN(tanh, double, tanh(x[i]))
STRIP_FN(sigmoid, double, 1 / (1 + exp(-x[i])))
STRIP_FN(silu, double, x[i] / (1 + exp(-x[i])))
STRIP_FN(gelu, double, 0.5 * x[i] * erfc(-x[i] * M_SQRT1_2))
STRIP_FN(gelu_approx, double, gelu_approx(x[i]))
STRIP_FN(relu, double, x[i] < 0 ? 0 : x[i])
STRIP_FN(sin, double, sin(x[i]))
STRIP_FN(cos, double, cos(x[i]))
STRIP_FN(tan, double, tan(x[i]))
STRIP_FN(asin, double, asin(x[i]))
STRIP_FN(acos, double, acos(x[i]))
STRIP_FN(atan, double, atan(x[i]))
STRIP_FN(sinh, double, sinh(x[i]))
STRIP_FN(cosh, double, cosh(x[i]))
STRIP_FN(asinh, double, asinh(x[i]))
STRIP_FN(acosh, double, acosh(x[i]))
STRIP_FN(atanh, double, atanh(x[i]))
STRIP_FN(round, double, rint(x[i]))
STRIP_FN(floor, double, floor(x[i]))
STRIP_FN(ceil, double, ceil(x[i]))
STRIP_FN(sign, double, x[i] > 0 ? 1 : x[i] < 0 ? -1 : x[i])
STRIP_FN(erf, double, erf(x[i]))
STRIP_FN(log1p, double, log1p(x[i]))
STRIP_FN(expm1, double, expm1(x[i]))
STRIP_FN(softplus, double, softplus(x[i]))
STRIP_FN(reciprocal, double, 1 / x[i])
STRIP_FN(equal, uint8_t, x[i] == y[i])
STRIP_FN(not_equal, uint8_t, x[i] != y[i])
STRIP_FN(less, uint8_t, x[i] < y[i])
STRIP_FN(less_equal, uint8_t, x[i] <= y[i])
STRIP_FN(greater, uint8_t, x[i] > y[i])
STRIP_FN(greater_equal, uint8_t, x[i] >= y[i])
STRIP_FN(is_nan, uint8_t, x[i] != x[i])
STRIP_FN(is_inf, uint8_t,
         (s->attribute != 1 && x[i] == (double)INFINITY) ||
             (s->attribute != 2 && x[i] == -(double)INFINITY))

strip_table SL_KERNEL(sl_strips_f64) = {
#define HAS(NAME) [SL_STEP_##NAME] = strip_##NAME,
    HAS(add) HAS(sub) HAS(mul) HAS(div) HAS(maximum) HAS(minimum) HAS(pow) HAS(mod) HAS(atan2)
        HAS(equal) HAS(not_equal) HAS(less) HAS(less_equal) HAS(greater) HAS(greater_equal)
            HAS(relu_backward) HAS(clamp) HAS(neg) HAS(abs) HAS(exp) HAS(log) HAS(sqrt) HAS(rsqrt)
                HAS(tanh) HAS(sigmoid) HAS(silu) HAS(gelu) HAS(gelu_approx) HAS(relu) HAS(sin)
                    HAS(cos) HAS(tan) HAS(asin) HAS(acos) HAS(atan) HAS(sinh) HAS(cosh) HAS(asinh)
                        HAS(acosh) HAS(atanh) HAS(round) HAS(floor) HAS(ceil) HAS(sign) HAS(erf)
                            HAS(log1p) HAS(expm1) HAS(softplus) HAS(reciprocal) HAS(is_nan)
                                HAS(is_inf)
#undef HAS
};
