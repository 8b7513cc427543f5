/* elementwise.h - Elementwise functions on vectors of floats that core/elementwise.def uses beside
 * those of vmath.h, and apply_<op> for each of its rows with vector lanes (vf). */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_H
#define SL_RUNTIME_CPU_ELEMENTWISE_H
#include "core/elementwise_steps.h"
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
INLINE vf vrelu(vf x) {
    return vmax(vzero(), x);
}
INLINE vf vsigmoid_gate(vf x, vf gate) {
    return x * vsigmoid(gate);
}
INLINE vf vswiglu(vf gate, vf up) {
    return vsilu(gate) * up;
}
/* Propagates NaN from either operand. */
INLINE vf or_nan(vf x, vf result) {
    return choose(x != x, (vi)x, (vi)result);
}
INLINE vf vmaximum(vf x, vf y) {
    return or_nan(x, vmax(x, y));
}
INLINE vf vminimum(vf x, vf y) {
    return or_nan(x, vmin(x, y));
}
/* +-1 with the sign of x; x itself if it is 0 or NaN. */
INLINE vf vsign(vf x) {
    const vi other = (x < vzero()) | (x > vzero());
    return choose(other, ((vi)x & INT32_MIN) | (vi)vsplat(1.0f), (vi)x);
}
/* f32 values of 2^23 and above are integers; adding and subtracting 2^23 rounds the others.  The
 * sign of zero is kept. */
INLINE vf vround(vf x) {
    const vf magic = vsplat(0x1p23f), size = vabs(x);
    const vf whole = vrounded(size + magic) - magic;
    return choose(size < magic, (vi)whole | ((vi)x & INT32_MIN), (vi)x);
}
INLINE vf vfloor(vf x) {
    const vf whole = vround(x), lower = whole - vsplat(1.0f);
    return choose(whole > x, (vi)lower, (vi)whole);
}
INLINE vf vceil(vf x) {
    return -vfloor(-x);
}

/* Operands that the op does not have are ignored. */
#define APPLY_vf(OP, ...)                                                                          \
    INLINE vf apply_##OP(vf x, vf y, vf z) {                                                       \
        (void)y, (void)z;                                                                          \
        return __VA_ARGS__;                                                                        \
    }
#define APPLY_vd(OP, ...)
#define APPLY_each(OP, ...)
#define APPLY_none(OP, ...)
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, LANES, SINGLE, ...)     \
    APPLY_##LANES(OP, SINGLE)
#define ELEMENTWISE_FUSED(NUMBER, OP, OPERANDS, LANES, SINGLE) APPLY_##LANES(OP, SINGLE)
#include "core/elementwise.def"
#undef APPLY_vf
#undef APPLY_vd
#undef APPLY_each
#undef APPLY_none
#endif
