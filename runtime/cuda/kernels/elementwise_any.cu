/* elementwise_any.cu - Generic elementwise kernels: any op, or a region of them, on operands of any
 * plain type, one element per thread.  Op and types are run-time switches, uniform per launch.  The
 * float ops that models use are in elementwise.cu, without these switches. */
#include "core/elementwise_forms.h"
#include "runtime/cuda/kernels/elementwise.cuh"
#include "runtime/cuda/kernels/elementwise_any.h"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/strides.cuh"

/* ---- casts ---- */

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
        const double rest = sl_is_infinite(x, 0) ? 0 : fmod(x, two64);
        const uint64_t size = (uint64_t)fabs(rest);
        return wrapped(to, (int64_t)(rest < 0 ? 0 - size : size));
    }
    if (to == SL_TYPE_u64 && x > 0) return (int64_t)(uint64_t)x;
    return wrapped(to, (int64_t)x);
}
DEVICE double real_of_whole(int from, int64_t x, int to) {
    const bool large = from == SL_TYPE_u64;
    if (to == SL_TYPE_f64) return large ? (double)(uint64_t)x : (double)x;
    return large ? (float)(uint64_t)x : (float)x; /* rounded to f32 first, as on the CPU */
}

DEVICE number cast_to(int from, number x, int to, bool saturate) {
    if (from == SL_TYPE_c64) return x;
    if (to == SL_TYPE_bool) return number_of_whole(is_real(from) ? x.re != 0 : x.whole != 0);
    if (is_real(to) || to == SL_TYPE_c64)
        return is_real(from) ? number_of(x.re) : number_of(real_of_whole(from, x.whole, to));
    return number_of_whole(is_real(from) ? whole_of_real(x.re, to, saturate)
                                         : whole_of_whole(from, x.whole, to, saturate));
}

/* ---- single ops ---- */

DEVICE number number_of_complex(sl_complex x) {
    return number_of(x.re, x.im);
}
DEVICE number whole_of(const sl_point_op &a, const number (&x)[SL_POINT_OPERANDS]) {
    const int type = a.types[0], bits = bits_of(type);
    if (type == SL_TYPE_u64 || type == SL_TYPE_bool)
        return number_of_whole((int64_t)sl_elementwise_unsigned(
            a.number, a.attribute, bits, (uint64_t)x[0].whole, (uint64_t)x[1].whole,
            (uint64_t)x[2].whole));
    return number_of_whole(sl_elementwise_signed(a.number, a.attribute, bits, x[0].whole,
                                                 x[1].whole, x[2].whole));
}

/* One op on one element: ops that need their own code first, then the functions of
 * core/elementwise.def, by type. */
DEVICE number point_of(const sl_point_op &a, const number (&x)[SL_POINT_OPERANDS]) {
    const int type = a.types[0];
    switch (a.number) {
    case 0:
        return number_of(sl_elementwise_slope(a.attribute, x[0].re) * x[1].re);
    case SL_STEP_where:
        return x[0].whole ? x[1] : x[2];
    case SL_STEP_cast:
        return cast_to(type, x[0], a.out_type, a.attribute % 2);
    case SL_STEP_complex:
        return number_of(x[0].re, x[1].re);
    case SL_STEP_real:
        return number_of(x[0].re);
    case SL_STEP_imag:
        return number_of(x[0].im);
    case SL_STEP_conjugate:
        return number_of(x[0].re, -x[0].im);
    case SL_STEP_complex_norm_sq:
        return number_of(x[0].re * x[0].re + x[0].im * x[0].im);
    case SL_STEP_complex_norm_sq_backward:
        return number_of(x[1].re * x[0].re, x[1].re * x[0].im);
    }
    number result;
    if (type == SL_TYPE_c64)
        result = number_of_complex(sl_elementwise_complex(a.number, sl_complex_of(x[0].re, x[0].im),
                                                          sl_complex_of(x[1].re, x[1].im)));
    else if (is_real(type))
        result = number_of(
            sl_elementwise_real(a.number, a.attribute, x[0].re, x[1].re, x[2].re));
    else
        return whole_of(a, x);
    return a.out_type == SL_TYPE_bool ? number_of_whole(result.re != 0) : result;
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

/* x after a store and a load as `type`. */
DEVICE number rounded(int type, number x) {
    double place;
    store_number(type, &place, 0, x);
    return load_number(type, &place, 0);
}

/* Gives the same bits as the op's own kernel, which for f32 may be one of elementwise.cu. */
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
