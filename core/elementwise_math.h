/* elementwise_math.h - Functions that core/elementwise.def calls, on doubles and on complex
 * numbers, for the evaluator and the kernels of every device. */
#ifndef SL_CORE_ELEMENTWISE_MATH_H
#define SL_CORE_ELEMENTWISE_MATH_H
#include "core/everywhere.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define SL_SQRT_HALF   0.70710678118654752440
#define SL_2_SQRTPI    1.12837916709551257390 /* 2 / sqrt(pi) */
#define SL_1_SQRT2PI   0.39894228040143268    /* 1 / sqrt(2 pi) */
#define SL_GELU_FACTOR 1.5957691216057307     /* 2 sqrt(2 / pi) */
#define SL_GELU_CUBE   0.044715

/* NaN if either operand is NaN. */
SL_EVERYWHERE double sl_maximum(double x, double y) {
    return x > y || x != x ? x : y;
}
SL_EVERYWHERE double sl_minimum(double x, double y) {
    return x < y || x != x ? x : y;
}
/* The remainder with the sign of x if `truncate`, else of y. */
SL_EVERYWHERE double sl_remainder(double x, double y, bool truncate) {
    const double rest = fmod(x, y);
    if (truncate) return rest;
    if (rest == 0) return copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}
/* Which: 1 negative, 2 positive, 0 and 3 both. */
SL_EVERYWHERE bool sl_is_infinite(double x, uint32_t which) {
    const double most = 1.7976931348623157e308;
    return (x > most && which != 1) || (x < -most && which != 2);
}
SL_EVERYWHERE double sl_sign(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
SL_EVERYWHERE double sl_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
SL_EVERYWHERE double sl_silu(double x) {
    return x / (1 + exp(-x));
}
SL_EVERYWHERE double sl_softplus(double x) {
    return x != x ? x : fmax(x, 0.0) + log1p(exp(-fabs(x)));
}
/* (1 + tanh(u)) / 2 = sigmoid(2u), which does not cancel where it is small. */
SL_EVERYWHERE double sl_gelu_approx(double x) {
    return x / (1 + exp(-SL_GELU_FACTOR * (x + SL_GELU_CUBE * x * x * x)));
}

/* Activations by their number in ops with an attribute `act`: none relu silu gelu sigmoid tanh
 * gelu_approx, as core/elementwise.def has them. */
enum { SL_ACTIVATIONS = 7 };
SL_EVERYWHERE double sl_activate(double x, uint32_t act) {
    switch (act) {
    case 1:
        return x < 0 ? 0 : x;
    case 2:
        return sl_silu(x);
    case 3:
        return 0.5 * x * erfc(-x * SL_SQRT_HALF);
    case 4:
        return sl_sigmoid(x);
    case 5:
        return tanh(x);
    case 6:
        return sl_gelu_approx(x);
    default:
        return x;
    }
}

/* ---- derivatives ---- */

/* The derivative of a piecewise constant function. */
SL_EVERYWHERE double sl_slope_of_steps(double x) {
    return x != x ? x : 0;
}
SL_EVERYWHERE double sl_slope_gelu(double x) {
    return 0.5 * erfc(-x * SL_SQRT_HALF) + x * exp(-0.5 * x * x) * SL_1_SQRT2PI;
}
SL_EVERYWHERE double sl_slope_gelu_approx(double x) {
    const double c = SL_GELU_FACTOR, u = c * (x + SL_GELU_CUBE * x * x * x);
    return sl_sigmoid(u) +
           x * (sl_sigmoid(u) * sl_sigmoid(-u)) * c * (1 + 3 * SL_GELU_CUBE * x * x);
}

/* ---- complex numbers: sl_complex_<op> of rows whose types include c64 ---- */

typedef struct {
    double re, im;
} sl_complex;
SL_EVERYWHERE sl_complex sl_complex_of(double re, double im) {
    sl_complex z;
    z.re = re, z.im = im;
    return z;
}
SL_EVERYWHERE sl_complex sl_complex_add(sl_complex x, sl_complex y) {
    return sl_complex_of(x.re + y.re, x.im + y.im);
}
SL_EVERYWHERE sl_complex sl_complex_sub(sl_complex x, sl_complex y) {
    return sl_complex_of(x.re - y.re, x.im - y.im);
}
SL_EVERYWHERE sl_complex sl_complex_mul(sl_complex x, sl_complex y) {
    return sl_complex_of(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}
SL_EVERYWHERE sl_complex sl_complex_div(sl_complex x, sl_complex y) {
    const double size = y.re * y.re + y.im * y.im;
    return sl_complex_of((x.re * y.re + x.im * y.im) / size, (x.im * y.re - x.re * y.im) / size);
}
/* Comparisons are 1 or 0. */
SL_EVERYWHERE sl_complex sl_complex_equal(sl_complex x, sl_complex y) {
    return sl_complex_of(x.re == y.re && x.im == y.im, 0);
}
SL_EVERYWHERE sl_complex sl_complex_not_equal(sl_complex x, sl_complex y) {
    return sl_complex_of(!(x.re == y.re && x.im == y.im), 0);
}
SL_EVERYWHERE sl_complex sl_complex_neg(sl_complex x, sl_complex y) {
    (void)y;
    return sl_complex_of(-x.re, -x.im);
}
SL_EVERYWHERE sl_complex sl_complex_exp(sl_complex x, sl_complex y) {
    const double size = exp(x.re);
    (void)y;
    return sl_complex_of(size * cos(x.im), x.im == 0 ? x.im : size * sin(x.im));
}
SL_EVERYWHERE sl_complex sl_complex_log(sl_complex x, sl_complex y) {
    (void)y;
    return sl_complex_of(log(hypot(x.re, x.im)), atan2(x.im, x.re));
}
/* The larger part is sqrt((|x| + |re|) / 2); the other follows from the product of both parts. */
SL_EVERYWHERE sl_complex sl_complex_sqrt(sl_complex x, sl_complex y) {
    const double larger = sqrt((hypot(x.re, x.im) + fabs(x.re)) / 2);
    const double other = larger == 0 ? 0 : fabs(x.im) / (2 * larger);
    (void)y;
    return sl_complex_of(x.re >= 0 ? larger : other, copysign(x.re >= 0 ? other : larger, x.im));
}
#endif
