/* elementwise_f32.c - Strips of f32, which also hold f16 and bf16 values. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/elementwise_strips.h"
#include "runtime/cpu/kernels/vdouble.h"

/* Every vector of a strip: X, Y, Z are those of the operands. */
#define STRIP_FN(NAME, ...)                                                                        \
    static void strip_##NAME(const strip *s) {                                                     \
        const float *x = s->in[0], *y = s->in[1], *z = s->in[2];                                   \
        float *out = s->out;                                                                       \
        (void)y, (void)z;                                                                          \
        FOR_VECTORS(i, n, s->count, vstore_n(out + i, __VA_ARGS__, n););                           \
    }
#define X vload_n(x + i, n)
#define Y vload_n(y + i, n)
#define Z vload_n(z + i, n)
STRIP_FN(add, apply_add_f32(X, Y))
STRIP_FN(sub, apply_sub_f32(X, Y))
STRIP_FN(mul, apply_mul_f32(X, Y))
STRIP_FN(div, apply_div_f32(X, Y))
STRIP_FN(maximum, apply_maximum_f32(X, Y))
STRIP_FN(minimum, apply_minimum_f32(X, Y))
STRIP_FN(clamp, apply_minimum_f32(apply_maximum_f32(X, Y), Z))
STRIP_FN(sigmoid_gate, apply_sigmoid_gate(X, Y))
STRIP_FN(swiglu, apply_swiglu(X, Y))
STRIP_FN(relu_backward, (vf)((vi)Y &(X > vzero())))
STRIP_FN(neg, apply_neg(X))
STRIP_FN(abs, apply_abs(X))
STRIP_FN(relu, apply_relu(X))
STRIP_FN(exp, apply_exp(X))
STRIP_FN(log, apply_log(X))
STRIP_FN(sqrt, apply_sqrt(X))
STRIP_FN(rsqrt, apply_rsqrt(X))
STRIP_FN(tanh, apply_tanh(X))
STRIP_FN(sigmoid, apply_sigmoid(X))
STRIP_FN(silu, apply_silu(X))
STRIP_FN(gelu, apply_gelu(X))
STRIP_FN(reciprocal, vsplat(1.0f) / X)

/* 1 with the sign of x where that is neither 0 nor NaN. */
INLINE vf vsign(vf x) {
    const vi other = (x < vzero()) | (x > vzero());
    return choose(other, ((vi)x & INT32_MIN) | (vi)vsplat(1.0f), (vi)x);
}
/* f32 values from 2^23 on are integers; adding 2^23 rounds the others.  Signs of zeros are kept. */
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
STRIP_FN(sign, vsign(X))
STRIP_FN(round, vround(X))
STRIP_FN(floor, vfloor(X))
STRIP_FN(ceil, vceil(X))

/* ---- to bytes of 0 and 1 ---- */

#define QUESTION(NAME, EXPRESSION)                                                                 \
    static void strip_##NAME(const strip *s) {                                                     \
        const float *restrict x = s->in[0], *restrict y = s->in[1];                                \
        uint8_t *restrict out = s->out;                                                            \
        (void)y;                                                                                   \
        for (int64_t i = 0; i < s->count; i++) out[i] = EXPRESSION;                                \
    }
QUESTION(equal, x[i] == y[i])
QUESTION(not_equal, x[i] != y[i])
QUESTION(less, x[i] < y[i])
QUESTION(less_equal, x[i] <= y[i])
QUESTION(greater, x[i] > y[i])
QUESTION(greater_equal, x[i] >= y[i])
QUESTION(is_nan, x[i] != x[i])
QUESTION(is_inf,
         (s->attribute != 1 && x[i] == INFINITY) || (s->attribute != 2 && x[i] == -INFINITY))

/* ---- in doubles ---- */

#define FOR_DOUBLES(...)                                                                           \
    for (int64_t i = 0; i < s->count; i += DLANES) {                                               \
        const int64_t n = least(DLANES, s->count - i);                                             \
        const vd x = dload_n((const float *)s->in[0] + i, n);                                      \
        float *out = (float *)s->out + i;                                                          \
        __VA_ARGS__                                                                                \
    }
#define DOUBLES_FN(NAME, EXPRESSION)                                                               \
    static void strip_##NAME(const strip *s) {                                                     \
        FOR_DOUBLES(dstore_n(out, EXPRESSION, n);)                                                 \
    }

INLINE vd dlog1p_all(vd x) {
    const vd minus = dsplat(-1);
    vd y = dlog1p(x);
    y = dchoose(x == dsplat(INFINITY), x, y);
    y = dchoose(x == minus, dsplat(-INFINITY), y);
    return dchoose((x < minus) | (x != x), dsplat(NAN), y);
}
/* Of what is not below 0; log1p of infinity is infinite. */
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
INLINE vd dright(vd x) { /* the other side of a triangle */
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
DOUBLES_FN(asin, datan2(x, dright(x)))
DOUBLES_FN(acos, datan2(dright(x), x))
DOUBLES_FN(atan, datan2(x, dsplat(1)))
DOUBLES_FN(sinh, dsinh(x))
DOUBLES_FN(cosh, dcosh(x))
DOUBLES_FN(asinh, dasinh(x))
DOUBLES_FN(acosh, dacosh(x))
DOUBLES_FN(atanh, datanh(x))
DOUBLES_FN(erf, dchoose(x != x, x, derf(x)))
DOUBLES_FN(log1p, dchoose(x == dsplat(0), x, dlog1p_all(x)))          /* -0 stays */
DOUBLES_FN(expm1, dchoose((x != x) | (x == dsplat(0)), x, dexpm1(x))) /* -0 stays */
DOUBLES_FN(softplus, dsoftplus(x))
DOUBLES_FN(gelu_approx, dgelu_approx(x))

/* Far from 0 pi needs more digits; so rare that it may be slow. */
#define TURN_FN(NAME, EXPRESSION)                                                                  \
    static void strip_##NAME(const strip *s) {                                                     \
        FOR_DOUBLES({                                                                              \
            const vl far = ~(dabs(x) < dsplat(1e6));                                               \
            const dturn turn = dturned(dchoose(far, dsplat(0), x));                                \
            vd y = EXPRESSION;                                                                     \
            if (dany(far))                                                                         \
                for (int j = 0; j < DLANES; j++)                                                   \
                    if (far[j]) y[j] = NAME(x[j]);                                                 \
            dstore_n(out, y, n);                                                                   \
        })                                                                                         \
    }
TURN_FN(sin, turn.sine)
TURN_FN(cos, turn.cosine)
TURN_FN(tan, turn.sine / turn.cosine)

/* ---- of two operands, in doubles ---- */

static void strip_atan2(const strip *s) {
    FOR_DOUBLES(dstore_n(out, datan2(x, dload_n((const float *)s->in[1] + i, n)), n);)
}

/* |x|^y, turned around for odd powers of what is negative. */
static void strip_pow(const strip *s) {
    FOR_DOUBLES({
        const vd y = dload_n((const float *)s->in[1] + i, n), size = dabs(x);
        const vl ordinary =
            (size > dsplat(0)) & (size < dsplat(INFINITY)) & (dabs(y) < dsplat(0x1p30));
        const vd base = dchoose(ordinary, size, dsplat(1)), by = dchoose(ordinary, y, dsplat(1));
        vd power = dexp(by * dlog_of(base, base - dsplat(1)));
        const vl whole = drint(by) == by, odd = drint(by * dsplat(0.5)) != by * dsplat(0.5);
        const vl below = x < dsplat(0);
        power = dchoose(below & whole & odd, -power, power);
        power = dchoose(below & ~whole, dsplat(NAN), power);
        if (dany(~ordinary))
            for (int j = 0; j < DLANES; j++)
                if (!ordinary[j]) power[j] = pow(x[j], y[j]);
        dstore_n(out, power, n);
    })
}

static void strip_mod(const strip *s) {
    const float *x = s->in[0], *y = s->in[1];
    float *out = s->out;
    for (int64_t i = 0; i < s->count; i++) {
        const float rest = fmodf(x[i], y[i]), whole = rest != 0 ? rest : copysignf(0, y[i]);
        const bool turn = rest != 0 && (rest < 0) != (y[i] < 0);
        out[i] = s->attribute ? rest : turn ? rest + y[i] : whole;
    }
}

static void strip_complex(const strip *s) {
    const float *x = s->in[0], *y = s->in[1];
    float *out = s->out;
    for (int64_t i = 0; i < s->count; i++) out[2 * i] = x[i], out[2 * i + 1] = y[i];
}

strip_table SL_KERNEL(sl_strips_f32) = {
#define HAS(NAME) [SL_STEP_##NAME] = strip_##NAME,
    HAS(add) HAS(sub) HAS(mul) HAS(div) HAS(maximum) HAS(minimum) HAS(pow) HAS(mod) HAS(atan2)
        HAS(equal) HAS(not_equal) HAS(less) HAS(less_equal) HAS(greater) HAS(greater_equal)
            HAS(complex) HAS(relu_backward) HAS(sigmoid_gate) HAS(swiglu) HAS(clamp) HAS(neg)
                HAS(abs) HAS(exp) HAS(log) HAS(sqrt) HAS(rsqrt) HAS(tanh) HAS(sigmoid) HAS(silu)
                    HAS(gelu) HAS(gelu_approx) HAS(relu) HAS(sin) HAS(cos) HAS(tan) HAS(asin)
                        HAS(acos) HAS(atan) HAS(sinh) HAS(cosh) HAS(asinh) HAS(acosh) HAS(atanh)
                            HAS(round) HAS(floor) HAS(ceil) HAS(sign) HAS(erf) HAS(log1p) HAS(expm1)
                                HAS(softplus) HAS(reciprocal) HAS(is_nan) HAS(is_inf)
#undef HAS
};
