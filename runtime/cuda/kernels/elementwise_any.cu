/* elementwise_any.cu - Generic elementwise kernels: any op, or a region of them, on operands of any plain
 * type, an element per thread.  Op and types are run-time switches, uniform per launch.  Ops on
 * floats that models have are in elementwise.cu, without these switches. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/elementwise_any.h"
#include "runtime/cuda/kernels/elementwise.cuh"
#include "runtime/cuda/kernels/walk.cuh"

#define TWO_OVER_ROOT_PI 1.12837916709551257390
#define ROOT_TWO         1.41421356237309504880
#define HALF_ROOT_TWO    0.70710678118654752440

/* ---- reals of one operand ---- */

DEVICE double sigmoid_of(double x) {
    return 1 / (1 + exp(-x));
}
DEVICE double sign_of(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
DEVICE double softplus_of(double x) {
    return fmax(x, 0.0) + (x != x ? x : log1p(exp(-fabs(x))));
}
DEVICE double bent(double x) { /* what gelu_approx takes the sigmoid of */
    return TWO_OVER_ROOT_PI * ROOT_TWO * (x + 0.044715 * x * x * x);
}

DEVICE double real_of_one(int number, double x) {
    switch (number) {
#define ONE(OP, ...)                                                                               \
    case SL_STEP_##OP:                                                                             \
        return __VA_ARGS__;
        ONE(neg, -x)
        ONE(abs, fabs(x))
        ONE(exp, exp(x))
        ONE(log, log(x))
        ONE(sqrt, sqrt(x))
        ONE(rsqrt, 1 / sqrt(x))
        ONE(tanh, tanh(x))
        ONE(sigmoid, sigmoid_of(x))
        ONE(silu, x * sigmoid_of(x))
        ONE(gelu, 0.5 * x * erfc(-x * HALF_ROOT_TWO))
        ONE(gelu_approx, x * sigmoid_of(bent(x)))
        ONE(relu, x < 0 ? 0 : x)
        ONE(sin, sin(x))
        ONE(cos, cos(x))
        ONE(tan, tan(x))
        ONE(asin, asin(x))
        ONE(acos, acos(x))
        ONE(atan, atan(x))
        ONE(sinh, sinh(x))
        ONE(cosh, cosh(x))
        ONE(asinh, asinh(x))
        ONE(acosh, acosh(x))
        ONE(atanh, atanh(x))
        ONE(round, rint(x))
        ONE(floor, floor(x))
        ONE(ceil, ceil(x))
        ONE(sign, sign_of(x))
        ONE(erf, erf(x))
        ONE(log1p, log1p(x))
        ONE(expm1, expm1(x))
        ONE(softplus, softplus_of(x))
        ONE(reciprocal, 1 / x)
#undef ONE
    default:
        return 0;
    }
}

/* ---- their slopes ---- */

DEVICE double slope_sigmoid_of(double x) {
    return sigmoid_of(x) * sigmoid_of(-x);
}
DEVICE double slope_gelu_approx_of(double x) {
    const double inner = TWO_OVER_ROOT_PI * ROOT_TWO * (1 + 3 * 0.044715 * x * x);
    return sigmoid_of(bent(x)) + x * slope_sigmoid_of(bent(x)) * inner;
}
DEVICE double slope_gelu_of(double x) {
    return 0.5 * erfc(-x * HALF_ROOT_TWO) +
           x * exp(-0.5 * x * x) * 0.5 * TWO_OVER_ROOT_PI * HALF_ROOT_TWO;
}

DEVICE double slope_of(int kind, double x) {
    switch (kind) {
#define SLOPE(KIND, ...)                                                                           \
    case SL_SLOPE_##KIND:                                                                          \
        return __VA_ARGS__;
        SLOPE(identity, x != x ? x : 1)
        SLOPE(neg, x != x ? x : -1)
        SLOPE(abs, sign_of(x))
        SLOPE(exp, exp(x))
        SLOPE(log, 1 / x)
        SLOPE(sqrt, 0.5 / sqrt(x))
        SLOPE(rsqrt, -0.5 / (x * sqrt(x)))
        SLOPE(tanh, 1 / (cosh(x) * cosh(x)))
        SLOPE(sigmoid, slope_sigmoid_of(x))
        SLOPE(silu, sigmoid_of(x) * (1 + x * sigmoid_of(-x)))
        SLOPE(gelu, slope_gelu_of(x))
        SLOPE(gelu_approx, slope_gelu_approx_of(x))
        SLOPE(relu, x > 0)
        SLOPE(sin, cos(x))
        SLOPE(cos, -sin(x))
        SLOPE(tan, 1 / (cos(x) * cos(x)))
        SLOPE(asin, 1 / sqrt((1 - x) * (1 + x)))
        SLOPE(acos, -1 / sqrt((1 - x) * (1 + x)))
        SLOPE(atan, 1 / (1 + x * x))
        SLOPE(sinh, cosh(x))
        SLOPE(cosh, sinh(x))
        SLOPE(asinh, 1 / sqrt(1 + x * x))
        SLOPE(acosh, 1 / sqrt((x - 1) * (x + 1)))
        SLOPE(atanh, 1 / ((1 - x) * (1 + x)))
        SLOPE(erf, TWO_OVER_ROOT_PI * exp(-x * x))
        SLOPE(log1p, 1 / (1 + x))
        SLOPE(expm1, exp(x))
        SLOPE(softplus, sigmoid_of(x))
        SLOPE(reciprocal, -1 / (x * x))
#undef SLOPE
    default: /* round, floor, ceil, sign */
        return x != x ? x : 0;
    }
}

/* ---- reals of two ---- */

DEVICE double real_mod(double x, double y, bool truncate) {
    const double rest = fmod(x, y);
    if (truncate || rest != rest) return rest;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest != 0 ? rest : copysign(0.0, y);
}

DEVICE double real_of_two(int number, int attribute, double x, double y) {
    switch (number) {
    case SL_STEP_add:
        return x + y;
    case SL_STEP_sub:
        return x - y;
    case SL_STEP_mul:
        return x * y;
    case SL_STEP_div:
        return x / y;
    case SL_STEP_pow:
        return pow(x, y);
    case SL_STEP_mod:
        return real_mod(x, y, attribute);
    case SL_STEP_atan2:
        return atan2(x, y);
    case SL_STEP_relu_backward:
        return x > 0 ? y : 0;
    case SL_STEP_sigmoid_gate:
        return x * sigmoid_of(y);
    case SL_STEP_swiglu:
        return x * sigmoid_of(x) * y;
    default:
        return 0;
    }
}

/* ---- integers ---- */

DEVICE int64_t whole_pow(int type, int64_t x, int64_t y) {
    uint64_t result = 1, base = (uint64_t)x;
    if (y < 0 && type != SL_TYPE_u64) {
        if (x == 1) return 1;
        return x == -1 ? (y % 2 ? -1 : 1) : 0;
    }
    for (uint64_t left = (uint64_t)y; left; left >>= 1, base *= base)
        if (left & 1) result *= base;
    return (int64_t)result;
}
DEVICE int64_t whole_mod(int type, int64_t x, int64_t y, bool truncate) {
    if (y == 0) return 0;
    if (type == SL_TYPE_u64) return (int64_t)((uint64_t)x % (uint64_t)y);
    const int64_t rest = y == -1 ? 0 : x % y;
    return !truncate && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
DEVICE int64_t whole_shift_right(int type, int64_t x, int64_t y) {
    const bool inside = (uint64_t)y < (uint64_t)bits_of(type);
    if (type == SL_TYPE_u64) return inside ? (int64_t)((uint64_t)x >> y) : 0;
    return x >> (inside ? y : 63);
}

DEVICE int64_t whole_of_two(int number, int attribute, int type, int64_t x, int64_t y) {
    switch (number) {
    case SL_STEP_add:
        return (int64_t)((uint64_t)x + (uint64_t)y);
    case SL_STEP_sub:
        return (int64_t)((uint64_t)x - (uint64_t)y);
    case SL_STEP_mul:
        return (int64_t)((uint64_t)x * (uint64_t)y);
    case SL_STEP_div:
        return whole_div(type, x, y);
    case SL_STEP_pow:
        return whole_pow(type, x, y);
    case SL_STEP_mod:
        return whole_mod(type, x, y, attribute);
    case SL_STEP_logical_and:
    case SL_STEP_bitwise_and:
        return x & y;
    case SL_STEP_logical_or:
    case SL_STEP_bitwise_or:
        return x | y;
    case SL_STEP_logical_xor:
    case SL_STEP_bitwise_xor:
        return x ^ y;
    case SL_STEP_shift_left:
        return (uint64_t)y < (uint64_t)bits_of(type) ? (int64_t)((uint64_t)x << y) : 0;
    case SL_STEP_shift_right:
        return whole_shift_right(type, x, y);
    default:
        return 0;
    }
}
DEVICE int64_t whole_of_one(int number, int type, int64_t x) {
    const bool negative = type != SL_TYPE_u64 && x < 0;
    switch (number) {
    case SL_STEP_neg:
        return whole_negative(x);
    case SL_STEP_abs:
        return negative ? whole_negative(x) : x;
    case SL_STEP_relu:
        return negative ? 0 : x;
    case SL_STEP_sign:
        return negative ? -1 : x != 0;
    case SL_STEP_bitwise_not:
        return ~x;
    case SL_STEP_logical_not:
        return !x;
    default:
        return 0;
    }
}

/* ---- complex numbers ---- */

DEVICE number complex_quotient(number x, number y) {
    const double size = y.re * y.re + y.im * y.im;
    return number_of((x.re * y.re + x.im * y.im) / size, (x.im * y.re - x.re * y.im) / size);
}
DEVICE number complex_exp(number x) {
    const double size = exp(x.re);
    return number_of(size * cos(x.im), x.im == 0 ? x.im : size * sin(x.im));
}
/* The larger part from the half of |x| + |re|, the other from the product of both. */
DEVICE number complex_sqrt(number x) {
    const double large = sqrt((hypot(x.re, x.im) + fabs(x.re)) / 2);
    const double other = large == 0 ? 0 : fabs(x.im) / (2 * large);
    return number_of(x.re >= 0 ? large : other, copysign(x.re >= 0 ? other : large, x.im));
}

DEVICE number complex_point(int number_, number x, number y) {
    switch (number_) {
    case SL_STEP_add:
        return number_of(x.re + y.re, x.im + y.im);
    case SL_STEP_sub:
        return number_of(x.re - y.re, x.im - y.im);
    case SL_STEP_mul:
        return product_of(SL_TYPE_c64, x, y);
    case SL_STEP_div:
        return complex_quotient(x, y);
    case SL_STEP_neg:
        return number_of(-x.re, -x.im);
    case SL_STEP_exp:
        return complex_exp(x);
    case SL_STEP_log:
        return number_of(log(hypot(x.re, x.im)), atan2(x.im, x.re));
    case SL_STEP_sqrt:
        return complex_sqrt(x);
    case SL_STEP_real:
        return number_of(x.re);
    case SL_STEP_imag:
        return number_of(x.im);
    case SL_STEP_conjugate:
        return number_of(x.re, -x.im);
    case SL_STEP_complex_norm_sq:
        return number_of(x.re * x.re + x.im * x.im);
    case SL_STEP_complex_norm_sq_backward:
        return number_of(y.re * x.re, y.re * x.im);
    default:
        return x;
    }
}

/* 0 any, 1 the negative one, 2 the positive one, 3 any */
DEVICE bool is_infinite(double x, int which) {
    const double most = 1.7976931348623157e308;
    return (x > most && which != 1) || (x < -most && which != 2);
}

/* ---- from type to type ---- */

DEVICE int64_t whole_of_whole(int from, int64_t x, int to, bool saturate) {
    if (!saturate) return wrapped(to, x);
    if (from != SL_TYPE_u64 && x < 0) return x < lowest(to) ? lowest(to) : x;
    return (uint64_t)x > (uint64_t)highest(to) ? highest(to) : x;
}
DEVICE int64_t whole_of_real(double x, int to, bool saturate) {
    const double two63 = 9223372036854775808.0, two64 = 2 * two63;
    if (x != x) return 0;
    x = trunc(x);
    if (saturate) {
        if (x <= (double)lowest(to)) return lowest(to);
        if (x >= (to == SL_TYPE_u64 ? two64 : (double)highest(to))) return highest(to);
    } else if (!(fabs(x) < two63)) { /* modulo 2^64 */
        const double rest = is_infinite(x, 0) ? 0 : fmod(x, two64);
        const uint64_t size = (uint64_t)fabs(rest);
        return wrapped(to, (int64_t)(rest < 0 ? 0 - size : size));
    }
    if (to == SL_TYPE_u64 && x > 0) return (int64_t)(uint64_t)x;
    return wrapped(to, (int64_t)x);
}
DEVICE double real_of_whole(int from, int64_t x, int to) {
    const bool large = from == SL_TYPE_u64;
    if (to == SL_TYPE_f64) return large ? (double)(uint64_t)x : (double)x;
    return large ? (float)(uint64_t)x : (float)x; /* rounded to singles first, as on the CPU */
}

DEVICE number cast_to(int from, number x, int to, bool saturate) {
    if (from == SL_TYPE_c64) return x;
    if (to == SL_TYPE_bool) return number_of_whole(is_real(from) ? x.re != 0 : x.whole != 0);
    if (is_real(to) || to == SL_TYPE_c64)
        return is_real(from) ? number_of(x.re) : number_of(real_of_whole(from, x.whole, to));
    return number_of_whole(is_real(from) ? whole_of_real(x.re, to, saturate)
                                         : whole_of_whole(from, x.whole, to, saturate));
}

/* ---- any ---- */

DEVICE bool compares(int number_, int type, number x, number y) {
    const bool real = is_real(type), less = real ? x.re < y.re : is_less(type, x.whole, y.whole);
    const bool more = real ? x.re > y.re : is_less(type, y.whole, x.whole);
    const bool same = type == SL_TYPE_c64 ? x.re == y.re && x.im == y.im
                      : real              ? x.re == y.re
                                          : x.whole == y.whole;
    switch (number_) {
    case SL_STEP_equal:
        return same;
    case SL_STEP_not_equal:
        return !same;
    case SL_STEP_less:
        return less;
    case SL_STEP_less_equal:
        return less || same;
    case SL_STEP_greater:
        return more;
    default:
        return more || same;
    }
}

DEVICE number point_of(const sl_point_op &a, const number (&x)[SL_POINT_OPERANDS]) {
    const int type = a.types[0];
    switch (a.number) {
    case 0:
        return number_of(slope_of(a.attribute, x[0].re) * x[1].re);
    case SL_STEP_equal:
    case SL_STEP_not_equal:
    case SL_STEP_less:
    case SL_STEP_less_equal:
    case SL_STEP_greater:
    case SL_STEP_greater_equal:
        return number_of_whole(compares(a.number, type, x[0], x[1]));
    case SL_STEP_maximum:
        return larger(type, x[0], x[1]);
    case SL_STEP_minimum:
        return smaller(type, x[0], x[1]);
    case SL_STEP_where:
        return x[0].whole ? x[1] : x[2];
    case SL_STEP_clamp:
        return smaller(type, larger(type, x[0], x[1]), x[2]);
    case SL_STEP_is_nan:
        return number_of_whole(x[0].re != x[0].re);
    case SL_STEP_is_inf:
        return number_of_whole(is_infinite(x[0].re, a.attribute));
    case SL_STEP_cast:
        return cast_to(type, x[0], a.out_type, a.attribute % 2);
    case SL_STEP_complex:
        return number_of(x[0].re, x[1].re);
    }
    const bool two = a.number <= SL_STEP_swiglu;
    if (type == SL_TYPE_c64) return complex_point(a.number, x[0], x[1]);
    if (is_real(type))
        return number_of(two ? real_of_two(a.number, a.attribute, x[0].re, x[1].re)
                             : real_of_one(a.number, x[0].re));
    return number_of_whole(two ? whole_of_two(a.number, a.attribute, type, x[0].whole, x[1].whole)
                               : whole_of_one(a.number, type, x[0].whole));
}

SL_CUDA_KERNEL(sl_point, sl_point_each) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t at[SL_POINT_OPERANDS] = {0, 0, 0}, rest = i;
    for (int d = a.rank - 1; d >= 0; d--) {
        const int64_t outer = quotient(rest, a.dims[d]), inner = rest - outer * a.dims[d];
#pragma unroll
        for (int o = 0; o < SL_POINT_OPERANDS; o++) at[o] += inner * a.steps[o][d];
        rest = outer;
    }
    number x[SL_POINT_OPERANDS] = {};
#pragma unroll
    for (int o = 0; o < SL_POINT_OPERANDS; o++)
        if (a.in[o]) x[o] = load_number(a.point.types[o], a.in[o], at[o]);
    store_number(a.point.out_type, a.out, i, point_of(a.point, x));
}

/* ---- regions ---- */

/* As if it had been stored as the type and loaded again. */
DEVICE number rounded(int type, number x) {
    double place;
    store_number(type, &place, 0, x);
    return load_number(type, &place, 0);
}

/* With the bits of the op's own kernel, which for floats may be one of elementwise.cu. */
DEVICE number step_of(const sl_point_op &a, const number (&x)[SL_POINT_OPERANDS]) {
    if (a.types[0] == SL_TYPE_f32 && has_apply(a.number))
        return number_of(apply_step(a.number, (float)x[0].re, (float)x[1].re));
    return rounded(a.out_type, point_of(a, x));
}

SL_CUDA_KERNEL(sl_point_steps, sl_point_region) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t at[SL_POINT_INPUTS] = {}, rest = i;
    for (int d = a.rank - 1; d >= 0; d--) {
        const int64_t outer = quotient(rest, a.dims[d]), inner = rest - outer * a.dims[d];
#pragma unroll
        for (int o = 0; o < SL_POINT_INPUTS; o++) at[o] += inner * a.strides[o][d];
        rest = outer;
    }
    number registers[SL_POINT_REGISTERS] = {};
#pragma unroll
    for (int o = 0; o < SL_POINT_INPUTS; o++)
        if (a.in[o]) registers[o] = load_number(a.types[o], a.in[o], at[o]);
    for (int s = 0; s < a.steps; s++) {
        number x[SL_POINT_OPERANDS];
#pragma unroll
        for (int o = 0; o < SL_POINT_OPERANDS; o++) x[o] = registers[a.code[s].from[o]];
        registers[a.code[s].to] = step_of(a.code[s].point, x);
    }
    store_number(a.code[a.steps - 1].point.out_type, a.out, i, registers[a.code[a.steps - 1].to]);
}
