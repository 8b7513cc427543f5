/* elementwise.cuh - Elementwise functions of floats, for the elementwise kernels and for fused
 * ones. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_CUH
#define SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_CUH
#include "core/elementwise_steps.h"
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/elementwise.h"

/* gelu(x) = x Phi(x).  With y = |x| and the tail y Phi(-y), it is x - tail for x >= 0 and -tail for
 * x < 0; the tail is the rational approximation of the CPU kernels.  y^2 is kept in two floats: its
 * absolute error is the relative error of e^(-y^2 / 2). */
DEVICE float gelu_of(float x) {
    const float y = fminf(14.5f, fabsf(x)), square = y * y, rest = fmaf(y, y, -square);
    const float inverse = 1.0f / (y + 2.5f), q = (y - 2.5f) * inverse;
    float p = -0.00015726719f;
    p = fmaf(p, q, -0.000310865609f);
    p = fmaf(p, q, 0.000684344792f);
    p = fmaf(p, q, 0.00252329791f);
    p = fmaf(p, q, -0.00160096097f);
    p = fmaf(p, q, -0.0163860209f);
    p = fmaf(p, q, 0.0092359148f);
    p = fmaf(p, q, 0.131986961f);
    p = fmaf(p, q, -0.433692008f);
    p = fmaf(p, q, 0.706656635f);
    const float power = expf(-0.5f * square);
    const float tail = fmaf(power, -0.5f * rest, power) * (y * (p * inverse));
    return x < 0.0f ? -tail : x - tail;
}

#define APPLY(OP, ...)                                                                             \
    DEVICE float apply_##OP(float x) {                                                             \
        return __VA_ARGS__;                                                                        \
    }
APPLY(neg, -x)
APPLY(abs, fabsf(x))
/* exp, log and tanh in double: the float functions are not accurate to an ulp. */
APPLY(exp, (float)exp((double)x))
APPLY(log, (float)log((double)x))
APPLY(sqrt, sqrtf(x))
APPLY(rsqrt, 1.0f / sqrtf(x))
APPLY(tanh, (float)tanh((double)x))
APPLY(sigmoid, 1.0f / (1.0f + expf(-x)))
APPLY(silu, x / (1.0f + expf(-x)))
APPLY(gelu, gelu_of(x))
APPLY(relu, x < 0.0f ? 0.0f : x)
#undef APPLY

/* maximum and minimum return NaN if either operand is NaN. */
#define APPLY(OP, ...)                                                                             \
    DEVICE float apply_##OP(float x, float y) {                                                    \
        return __VA_ARGS__;                                                                        \
    }
APPLY(add, x + y)
APPLY(sub, x - y)
APPLY(mul, x *y)
APPLY(div, x / y)
APPLY(maximum, x != x || x > y ? x : y)
APPLY(minimum, x != x || x < y ? x : y)
APPLY(sigmoid_gate, x *apply_sigmoid(y))
APPLY(swiglu, apply_silu(x) * y)
#undef APPLY

/* Whether an op (core/elementwise_steps.h) has a function above, and its result; y is ignored if
 * the op has one operand. */
DEVICE bool has_apply(int number) {
    switch (number) {
#define POINT(OP) case SL_STEP_##OP:
        SL_POINTS_1(POINT)
        SL_POINTS_2(POINT)
#undef POINT
        return true;
    default:
        return false;
    }
}
DEVICE float apply_step(int number, float x, float y) {
    switch (number) {
#define POINT(OP)                                                                                  \
    case SL_STEP_##OP:                                                                             \
        return apply_##OP(x);
        SL_POINTS_1(POINT)
#undef POINT
#define POINT(OP)                                                                                  \
    case SL_STEP_##OP:                                                                             \
        return apply_##OP(x, y);
        SL_POINTS_2(POINT)
#undef POINT
    default:
        return 0;
    }
}
#endif
