/* elementwise.h - Elementwise ops on vectors, for the kernels of the ops themselves and for those
 * that have them inside. */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_H
#define SL_RUNTIME_CPU_ELEMENTWISE_H
#include "runtime/cpu/kernels/vmath.h"

INLINE vf vsqrt(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__aarch64__)
    return (vf)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}

#define APPLY(OP, ...)                                                                             \
    INLINE vf apply_##OP(vf x) {                                                                   \
        return __VA_ARGS__;                                                                        \
    }
APPLY(neg, -x)
APPLY(abs, vabs(x))
APPLY(relu, vmax(vzero(), x))
APPLY(exp, vexp(x))
APPLY(log, vlog(x))
APPLY(sqrt, vsqrt(x))
APPLY(rsqrt, vsplat(1.0f) / vsqrt(x))
APPLY(tanh, vtanh(x))
APPLY(sigmoid, vsigmoid(x))
APPLY(silu, vsilu(x))
APPLY(gelu, vgelu(x))
#undef APPLY

/* Propagates NaN from either operand. */
INLINE vf or_nan(vf x, vf result) {
    return choose(x != x, (vi)x, (vi)result);
}

#define APPLY(FN, ...)                                                                             \
    INLINE vf apply_##FN(vf x, vf y) {                                                             \
        return __VA_ARGS__;                                                                        \
    }
APPLY(add_f32, x + y)
APPLY(sub_f32, x - y)
APPLY(mul_f32, x *y)
APPLY(div_f32, x / y)
APPLY(maximum_f32, or_nan(x, vmax(x, y)))
APPLY(minimum_f32, or_nan(x, vmin(x, y)))
APPLY(sigmoid_gate, x *vsigmoid(y))
APPLY(swiglu, vsilu(x) * y)
/* Integers use the same registers; arithmetic wraps. */
APPLY(add_i32, (vf)((vu)x + (vu)y))
APPLY(sub_i32, (vf)((vu)x - (vu)y))
APPLY(mul_i32, (vf)((vu)x *(vu)y))
APPLY(maximum_i32, choose((vi)x > (vi)y, (vi)x, (vi)y))
APPLY(minimum_i32, choose((vi)x < (vi)y, (vi)x, (vi)y))
#undef APPLY
#endif
