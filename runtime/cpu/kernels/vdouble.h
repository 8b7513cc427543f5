/* vdouble.h - f32 functions computed in vectors of doubles: half as many lanes, but the polynomials
 * are accurate to 1e-10, so that a result has only one rounding error. */
#ifndef SL_RUNTIME_CPU_VDOUBLE_H
#define SL_RUNTIME_CPU_VDOUBLE_H
#include "runtime/cpu/kernels/vec.h"
#include <math.h>
#include <stdbool.h>

enum { DLANES = LANES / 2 };
typedef double vd __attribute__((vector_size(DLANES * 8)));
typedef int64_t vl __attribute__((vector_size(DLANES * 8)));
typedef uint64_t vul __attribute__((vector_size(DLANES * 8)));

INLINE vd dsplat(double x) {
#if defined(__AVX512F__)
    return (vd)_mm512_set1_pd(x);
#elif defined(__AVX2__)
    return (vd)_mm256_set1_pd(x);
#else
    return (vd){x, x};
#endif
}
/* Loads the first n of DLANES floats; the other lanes are 1. */
INLINE vd dload_n(const float *p, int64_t n) {
    float floats[DLANES];
    if (n < DLANES) {
        for (int i = 0; i < DLANES; i++) floats[i] = i < n ? p[i] : 1;
        p = floats;
    }
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
    return (vd){(double)p[0], (double)p[1]};
#endif
}
INLINE void dstore_n(float *p, vd x, int64_t n) {
    float floats[DLANES];
#if defined(__AVX512F__)
    _mm256_storeu_ps(n < DLANES ? floats : p, _mm512_cvtpd_ps((__m512d)x));
#elif defined(__AVX2__)
    _mm_storeu_ps(n < DLANES ? floats : p, _mm256_cvtpd_ps((__m256d)x));
#else
    float *to = n < DLANES ? floats : p;
    to[0] = (float)x[0], to[1] = (float)x[1];
#endif
    /* cppcheck-suppress uninitvar ; stored above where n < DLANES */
    for (int64_t i = 0; i < n && n < DLANES; i++) p[i] = floats[i];
}
INLINE vd dsqrt(vd x) {
#if defined(__AVX512F__)
    return (vd)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
    return (vd)_mm256_sqrt_pd((__m256d)x);
#else
    for (int i = 0; i < DLANES; i++) x[i] = sqrt(x[i]);
    return x;
#endif
}
INLINE bool dany(vl where) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)where) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_pd((__m256d)where) != 0;
#else
    int64_t any = 0;
    for (int i = 0; i < DLANES; i++) any |= where[i];
    return any != 0;
#endif
}
INLINE vd dchoose(vl where, vd yes, vd no) {
    return (vd)((where & (vl)yes) | (~where & (vl)no));
}
INLINE vd dabs(vd x) {
    return (vd)((vul)x & (uint64_t)INT64_MAX);
}
/* x, negated where `sign` is negative. */
INLINE vd dsigned(vd x, vd sign) {
    return (vd)((vul)x ^ ((vul)sign & (uint64_t)INT64_MIN));
}
/* Rounds to an integer; |x| <= 2^51. */
INLINE vd drint(vd x) {
    const vd magic = dsplat(0x1.8p52);
    return x + magic - magic;
}
/* The low bits of an integral x. */
INLINE vul dbits(vd x) {
    return (vul)(x + dsplat(0x1.8p52));
}

#define TERMS(...) ((const double[]){__VA_ARGS__}), sizeof((const double[]){__VA_ARGS__}) / 8
INLINE vd dpolynomial(vd x, const double *terms, size_t count) {
    vd p = dsplat(terms[0]);
    for (size_t i = 1; i < count; i++) p = p * x + dsplat(terms[i]);
    return p;
}

/* For x such that 2^n is a double. */
typedef struct {
    vd scale, q; /* e^x - 1 = scale q + (scale - 1) */
} dexp_parts;
INLINE dexp_parts dexp_split(vd x) {
    const vd n = drint(x * dsplat(0x1.71547652b82fep0));
    const vd r = (x - n * dsplat(0x1.62e42fefa38p-1)) - n * dsplat(0x1.ef35793c7673p-45);
    const vd p = dpolynomial(r, TERMS(2.48764406749954e-05, 0.000199078121679767,
                                      0.00138888211787828, 0.00833328317274138, 0.0416666668934611,
                                      0.166666667876332, 0.499999999997949, 0.999999999995443));
    return (dexp_parts){(vd)((vul)dsplat(1) + (dbits(n) << 52)), r * p};
}
INLINE vd dclamp(vd x, double most) {
    x = dchoose(x > dsplat(most), dsplat(most), x);
    return dchoose(x < dsplat(-most), dsplat(-most), x);
}
/* Beyond +-700 the f32 result is 0 or infinite anyway. */
INLINE vd dexp(vd x) {
    const dexp_parts e = dexp_split(dclamp(x, 700));
    return e.scale * e.q + e.scale;
}
INLINE vd dexpm1(vd x) {
    const dexp_parts e = dexp_split(dclamp(x, 700));
    return e.scale * e.q + (e.scale - dsplat(1));
}

/* log(u) for u = 1 + f > 0 and normal; f is exact where u is near 1. */
INLINE vd dlog_of(vd u, vd f) {
    const uint64_t low = 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    const vul above = (vul)u - low + ((uint64_t)1023 << 52);
    const vd n = (vd)((above >> 52) + (vul)dsplat(0x1p52)) - dsplat(0x1p52 + 1023);
    const vd m = (vd)((above & 0xfffffffffffff) + low);
    f = dchoose(n == dsplat(0), f, m - dsplat(1));
    const vd s = f / (f + dsplat(2));
    const vd p = dpolynomial(s * s, TERMS(0.196098807579487, 0.221741257007776, 0.285721691629245,
                                          0.399999948619871, 0.666666666796825, 1.99999999999995));
    return n * dsplat(0x1.62e42fefa39efp-1) + s * p;
}
/* For finite x > -1. */
INLINE vd dlog1p(vd x) {
    return dlog_of(x + dsplat(1), x);
}

typedef struct {
    vd sine, cosine;
} dturn;
/* Sine and cosine for |x| <= 1e6: the multiple of pi/2 is below 2^20, so its product with the first
 * 33 bits of pi/2 is exact. */
INLINE dturn dturned(vd x) {
    const vd k = drint(x * dsplat(0x1.45f306dc9c883p-1));
    const vd r = (x - k * dsplat(0x1.921fb544p0)) - k * dsplat(0x1.0b4611a626331p-34);
    const vd z = r * r;
    const vd s =
        r * dpolynomial(z, TERMS(2.7173402900348e-06, -0.000198392016884244, 0.00833332878098611,
                                 -0.166666666315797, 0.999999999995673));
    const vd c =
        dpolynomial(z, TERMS(-2.71732989807829e-07, 2.47989268943664e-05, -0.00138888803845424,
                             0.0416666665437227, -0.499999999993497, 0.999999999999944));
    const vul quarter = dbits(k);
    const vl swap = (vl)((quarter & 1) != 0);
    const vd sine = dchoose(swap, c, s), cosine = dchoose(swap, s, c);
    return (dturn){dsigned(sine, (vd)(quarter << 62)), dsigned(cosine, (vd)((quarter + 1) << 62))};
}

/* Same as atan2, including zeros and infinities. */
INLINE vd datan2(vd y, vd x) {
    const vd ax = dabs(x), ay = dabs(y), one = dsplat(1), zero = dsplat(0);
    const vl steep = ay > ax;
    const vd small = dchoose(steep, ax, ay), large = dchoose(steep, ay, ax);
    vd t = dchoose(large == zero, zero, small / large);
    t = dchoose((small == dsplat(INFINITY)) & (large == dsplat(INFINITY)), one, t);
    const vl upper = t > dsplat(0.41421356237309503);
    const vd r = dchoose(upper, (t - one) / (t + one), t);
    const vd p =
        dpolynomial(r * r, TERMS(-0.0376925102347826, 0.0697649031477174, -0.0899310505044077,
                                 0.111035228682823, -0.142853906007665, 0.199999931719016,
                                 -0.333333332782221, 0.999999999999268));
    vd angle = r * p + dchoose(upper, dsplat(M_PI_4), zero);
    angle = dchoose(steep, dsplat(M_PI_2) - angle, angle);
    angle = dchoose((vl)x < 0, dsplat(M_PI) - angle, angle); /* -0 too */
    angle = dsigned(angle, y);
    return dchoose((x != x) | (y != y), x + y, angle);
}

/* A polynomial near 0, else 1 - e^(-x^2) q; 1 beyond 4.2. */
INLINE vd derf(vd x) {
    const vd y = dchoose(dabs(x) > dsplat(4.2), dsplat(4.2), dabs(x)), z = y * y;
    const vd near =
        dpolynomial(z, TERMS(-9.67359031499371e-06, 0.000112682537196257, -0.000848439652633642,
                             0.00522105341084984, -0.0268654383099034, 0.112837826220513,
                             -0.376126384759905, 1.12837916706236));
    const vd inverse = dsplat(1) / (y + dsplat(2)), q = (y - dsplat(2)) * inverse;
    const vd tail =
        dpolynomial(q, TERMS(-0.000616469663332697, -0.000826402361461673, 0.00308528833694048,
                             0.00647815085485849, -0.0215104143559331, -0.0364421958656507,
                             0.279472088546015, -0.687160684743673, 1.02158270525237));
    const vd far = dsplat(1) - dexp(-z) * (tail * inverse);
    return dsigned(dchoose(y < dsplat(1), y * near, far), x);
}
#endif
