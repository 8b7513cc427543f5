/* elementwise_double.h - Functions on vectors of doubles that core/elementwise.def uses beside
 * those of vdouble.h; results are rounded to f32. */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_DOUBLE_H
#define SL_RUNTIME_CPU_ELEMENTWISE_DOUBLE_H
#include "runtime/cpu/kernels/vdouble.h"

/* log1p for all f32 values; keeps -0. */
INLINE vd dlog1p_all(vd x) {
    const vd minus = dsplat(-1);
    vd y = dlog1p(x);
    y = dchoose(x == dsplat(INFINITY), x, y);
    y = dchoose(x == minus, dsplat(-INFINITY), y);
    y = dchoose((x < minus) | (x != x), dsplat(NAN), y);
    return dchoose(x == dsplat(0), x, y);
}
INLINE vd dexpm1_all(vd x) {
    return dchoose((x != x) | (x == dsplat(0)), x, dexpm1(x));
}
/* log1p for x >= 0; infinity gives infinity. */
INLINE vd dlog1p_above(vd x) {
    return dchoose(x == dsplat(INFINITY), x, dlog1p(x));
}
INLINE vd dasinh(vd x) {
    const vd size = dabs(x), z = size * size;
    const vd y = dlog1p_above(size + z / (dsplat(1) + dsqrt(z + dsplat(1))));
    return dchoose((size == dsplat(INFINITY)) | (x != x), x, dsigned(y, x));
}
INLINE vd dacosh(vd x) {
    const vd t = x - dsplat(1), safe = dchoose(t >= dsplat(0), t, dsplat(0));
    const vd y = dlog1p_above(safe + dsqrt(safe * (safe + dsplat(2))));
    return dchoose(t >= dsplat(0), y, dsplat(NAN));
}
INLINE vd datanh(vd x) {
    const vd size = dabs(x), one = dsplat(1);
    const vd inside = dchoose(size < one, size, dsplat(0));
    const vd y = dsplat(0.5) * dlog1p(dsplat(2) * inside / (one - inside));
    const vd edge = dchoose(size == one, dsplat(INFINITY), dsplat(NAN));
    return dsigned(dchoose(size < one, y, edge), x);
}
INLINE vd dsinh(vd x) {
    const vd m = dexpm1(dabs(x));
    const vd y = dsplat(0.5) * (m + m / (m + dsplat(1)));
    return dchoose(x != x, x, dsigned(y, x));
}
INLINE vd dcosh(vd x) {
    const vd e = dexp(dabs(x));
    return dchoose(x != x, x, dsplat(0.5) * (e + dsplat(1) / e));
}
INLINE vd dright(vd x) { /* sqrt(1 - x^2) */
    return dsqrt((dsplat(1) - x) * (dsplat(1) + x));
}
INLINE vd dsoftplus(vd x) {
    const vd above = dchoose(x > dsplat(0), x, dsplat(0));
    return dchoose(x != x, x, above + dlog1p(dexp(-dabs(x))));
}
INLINE vd dgelu_approx(vd x) {
    const double c = 2 * 0.79788456080286536;
    const vd u = dsplat(c) * x * (dsplat(1) + dsplat(0.044715) * x * x);
    const vd y = x / (dsplat(1) + dexp(-u));
    return dchoose(x == dsplat(-INFINITY), dsplat(NAN), y); /* -infinity times 0 */
}

/* Sine, cosine or tangent of large arguments, where the reduction by pi needs more digits.  Rare,
 * so it calls the C library and is not inlined. */
static __attribute__((noinline, cold, unused)) vd dfar(vl far, vd x, vd y, double exact(double)) {
    for (int j = 0; j < DLANES; j++)
        if (far[j]) y[j] = exact(x[j]);
    return y;
}
#define TURN(NAME, EXACT, EXPRESSION)                                                              \
    INLINE vd NAME(vd x) {                                                                         \
        const vl far = ~(dabs(x) < dsplat(1e6));                                                   \
        const dturn turn = dturned(dchoose(far, dsplat(0), x));                                    \
        const vd y = EXPRESSION;                                                                   \
        return __builtin_expect(dany(far), 0) ? dfar(far, x, y, EXACT) : y;                        \
    }
TURN(dsin, sin, turn.sine)
TURN(dcos, cos, turn.cosine)
TURN(dtan, tan, turn.sine / turn.cosine)
#undef TURN

/* |x|^y, with the sign changed for odd powers of negative x. */
INLINE vd dpow(vd x, vd y) {
    const vd size = dabs(x);
    const vl ordinary = (size > dsplat(0)) & (size < dsplat(INFINITY)) & (dabs(y) < dsplat(0x1p30));
    const vd base = dchoose(ordinary, size, dsplat(1)), by = dchoose(ordinary, y, dsplat(1));
    vd power = dexp(by * dlog_of(base, base - dsplat(1)));
    const vl whole = drint(by) == by, odd = drint(by * dsplat(0.5)) != by * dsplat(0.5);
    const vl below = x < dsplat(0);
    power = dchoose(below & whole & odd, -power, power);
    power = dchoose(below & ~whole, dsplat(NAN), power);
    if (dany(~ordinary))
        for (int j = 0; j < DLANES; j++)
            if (!ordinary[j]) power[j] = pow(x[j], y[j]);
    return power;
}

/* ---- derivatives of activations ---- */

/* Gives exactly 0 at -infinity, which dexp does not reach. */
INLINE vd dsigmoid(vd x) {
    return dchoose(x == dsplat(-INFINITY), dsplat(0), dsplat(1) / (dsplat(1) + dexp(-x)));
}
INLINE vd dslope_sigmoid(vd x) {
    return dsigmoid(x) * dsigmoid(-x);
}
/* y, but NaN if x is infinite, where the definition multiplies infinity by 0. */
INLINE vd dslope_finite(vd x, vd y) {
    return dchoose(dabs(x) == dsplat(INFINITY), dsplat(NAN), y);
}
INLINE vd dslope_silu(vd x) {
    return dslope_finite(x, dsigmoid(x) * (dsplat(1) + x * dsigmoid(-x)));
}
INLINE vd dslope_tanh(vd x) {
    return dsplat(4) * dslope_sigmoid(x + x);
}
/* Phi(x) = e^(-x^2/2) Q(-x) for negative x, with Q as in vgelu: accurate also where it is so small
 * that 1 + erf would cancel. */
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
#endif
