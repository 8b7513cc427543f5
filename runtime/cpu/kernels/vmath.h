/* vmath.h - Math functions on vectors, and reductions of rows.
 *
 * A sum is accumulated over fixed lanes in a fixed order, so that its result depends only on the
 * data: never on how work is divided or on the number of rows. */
#ifndef SL_RUNTIME_CPU_VMATH_H
#define SL_RUNTIME_CPU_VMATH_H
#include "runtime/cpu/kernels/vec.h"
#include <float.h>
#include <math.h>

INLINE vf choose(vi where, vi yes, vi no) {
    return (vf)((where & yes) | (~where & no));
}
INLINE vf vabs(vf x) {
    return (vf)((vu)x & 0x7fffffff);
}

/* Prevents the compiler from contracting x into an FMA. */
INLINE vf vrounded(vf x) {
#if defined(__AVX512F__)
    __asm__("" : "+v"(x));
#elif defined(__x86_64__)
    __asm__("" : "+x"(x));
#else
    __asm__("" : "+m"(x));
#endif
    return x;
}
/* A mask with bit i set if lane i is. */
INLINE uint32_t vbits(vi where) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)where);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)where);
#elif defined(__SSE2__)
    return (uint32_t)_mm_movemask_ps((__m128)where);
#else
    uint32_t bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (uint32_t)(where[i] != 0) << i;
    return bits;
#endif
}
/* The largest lane; no lane may be NaN. */
INLINE float vmost(vf v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float best = v[0];
    for (int i = 1; i < LANES; i++) best = v[i] > best ? v[i] : best;
    return best;
#endif
}

static const float LN2_HIGH = 0x1.63p-1f; /* its product with an integer exponent is exact */
static const float LN2_LOW = -0x1.bd0106p-13f;

/* e to the x, within 1 ulp of the true value.
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial; 2^n in two factors, so that
 * results may overflow to infinity and underflow gradually. */
typedef struct {
    vf r, n, rounded;
} exp_parts;

INLINE exp_parts vexp_reduce(vf x) {
    const vf magic = vsplat(0x1.8p23f); /* adding it rounds to an integer */
    x = vmin(vsplat(89.0f), vmax(vsplat(-104.0f), x));
    exp_parts e = {.rounded = vfma(x, vsplat(0x1.715476p+0f), magic)};
    e.n = e.rounded - magic;
    e.r = vfma(e.n, vsplat(-LN2_HIGH), x);
    e.r = vfma(e.n, vsplat(-LN2_LOW), e.r);
    return e;
}
INLINE vf vexp_finish(exp_parts e) {
    vf p = vsplat(0.000198910798644647f);
    p = vfma(p, e.r, vsplat(0.0013933731243014336f));
    p = vfma(p, e.r, vsplat(0.00833331048488617f));
    p = vfma(p, e.r, vsplat(0.041666463017463684f));
    p = vfma(p, e.r, vsplat(0.1666666716337204f));
    p = vfma(p, e.r, vsplat(0.5f));
    p = vfma(p, e.r * e.r, e.r) + vsplat(1.0f);
#if defined(__AVX512F__)
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)e.n);
#else
    const vi power = (vi)((vu)e.rounded - (vu)vsplat(0x1.8p23f));
    const vi half = power >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((power - half + 127) << 23);
#endif
}
INLINE vf vexp(vf x) {
    return vexp_finish(vexp_reduce(x));
}

/* log(1 + f), given s = f / (2 + f): 2 atanh(s) = f - s (f - R(s^2)), where the polynomial R is
 * minimax for |s| <= 1/3. */
INLINE vf vlog_near_one(vf f, vf s) {
    const vf z = s * s;
    vf p = vsplat(0.243009374f);
    p = vfma(p, z, vsplat(0.214276567f));
    p = vfma(p, z, vsplat(0.286168844f));
    p = vfma(p, z, vsplat(0.39998877f));
    p = vfma(p, z, vsplat(0.666666746f));
    return f - s * (f - z * p);
}
/* log(1 + x) for x in [0, 1], within 1 ulp. */
INLINE vf vlog1p(vf x) {
    return vlog_near_one(x, x / (vsplat(2.0f) + x));
}
/* The natural logarithm, within 1 ulp: x = 2^n m with m in [sqrt(1/2), sqrt(2)). */
INLINE vf vlog(vf x) {
    const uint32_t low = 0x3f3504f3; /* sqrt(1/2) */
    const vi tiny = x < vsplat(0x1p-126f);
    const vf normal = choose(tiny, (vi)(x * vsplat(0x1p23f)), (vi)x);
    const vu above = (vu)normal - low;
    const vf n = vfrom_i32(((vi)above >> 23) + (tiny & -23));
    const vf f = (vf)((above & 0x7fffff) + low) - vsplat(1.0f);
    const vf s = f / (vsplat(2.0f) + f);
    const vf rest = vfma(n, vsplat(LN2_LOW), vlog_near_one(f, s));
    vf y = vfma(n, vsplat(LN2_HIGH), rest);
    y = choose(x == vsplat(INFINITY), (vi)x, (vi)y);
    y = choose(x == vzero(), (vi)vsplat(-INFINITY), (vi)y);
    return choose((x < vzero()) | (x != x), (vi)vsplat(NAN), (vi)y);
}

/* Within 2 ulp: an odd polynomial near 0, else 1 - 2 / (e^2x + 1). */
INLINE vf vtanh(vf x) {
    const vf z = x * x, size = vabs(x), one = vsplat(1.0f);
    vf p = vsplat(-0.00570497848f);
    p = vfma(p, z, vsplat(0.0206390787f));
    p = vfma(p, z, vsplat(-0.0537397116f));
    p = vfma(p, z, vsplat(0.133314416f));
    p = vfma(p, z, vsplat(-0.333332807f));
    const vf near = vfma(x * z, p, x);
    const vf far = one - vsplat(2.0f) / (vexp(size + size) + one);
    const vi sign = (vi)x & INT32_MIN;
    return choose(size < vsplat(0.625f), (vi)near | sign, (vi)far | sign); /* -0 stays -0 */
}

/* GELU: x Phi(x), Phi the normal distribution, within 6 ulp.  For y = |x| the tail is Phi(-y) =
 * e^(-y^2/2) Q(y), where Q(y) (y + a) is a polynomial in (y - a) / (y + a), minimax up to where the
 * tail vanishes.  y^2 is computed in two parts, because e^(-y^2/2) amplifies its relative error by
 * y^2.  -infinity gives NaN, as -infinity times 0 does. */
INLINE vf vgelu(vf x) {
    const vf y = vmin(vsplat(14.5f), vabs(x)), high = (vf)((vu)y & 0xfffff000);
    const vf inverse = vsplat(1.0f) / (y + vsplat(2.5f)), q = (y - vsplat(2.5f)) * inverse;
    exp_parts e = vexp_reduce(vsplat(-0.5f) * high * high);
    e.r += vsplat(-0.5f) * (y - high) * (y + high);
    vf p = vsplat(-0.00015726719f);
    p = vfma(p, q, vsplat(-0.000310865609f));
    p = vfma(p, q, vsplat(0.000684344792f));
    p = vfma(p, q, vsplat(0.00252329791f));
    p = vfma(p, q, vsplat(-0.00160096097f));
    p = vfma(p, q, vsplat(-0.0163860209f));
    p = vfma(p, q, vsplat(0.0092359148f));
    p = vfma(p, q, vsplat(0.131986961f));
    p = vfma(p, q, vsplat(-0.433692008f));
    p = vfma(p, q, vsplat(0.706656635f));
    const vf tail = vexp_finish(e) * (y * (p * inverse));
    return choose(x < vzero(), (vi) - (tail + (x - x)), (vi)(x - tail));
}
/* x / (1 + e^-u), also where e^-u overflows f32. */
INLINE vf vgated(vf x, vf u) {
    const vf e = vexp(-vabs(u));
    return choose(u < vzero(), (vi)(x * e), (vi)x) / (vsplat(1.0f) + e);
}
INLINE vf vsigmoid(vf x) {
    return vgated(vsplat(1.0f), x);
}
INLINE vf vsilu(vf x) {
    return vgated(x, x);
}

/* Sum of a[i] * b[i]. */
INLINE float vdot(const float *a, const float *b, int64_t n) {
    vf acc[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * (int64_t)LANES <= n; i += 4 * (int64_t)LANES)
        for (int64_t j = 0; j < 4; j++)
            acc[j] = vfma(vload(a + i + j * LANES), vload(b + i + j * LANES), acc[j]);
    for (; i + LANES <= n; i += LANES) acc[0] = vfma(vload(a + i), vload(b + i), acc[0]);
    if (i < n) acc[1] = vfma(vload_n(a + i, n - i), vload_n(b + i, n - i), acc[1]);
    return vsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}
/* Sum of x[i]. */
INLINE float vtotal(const float *x, int64_t n) {
    vf acc[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * (int64_t)LANES <= n; i += 2 * (int64_t)LANES)
        for (int64_t j = 0; j < 2; j++) acc[j] += vload(x + i + j * LANES);
    for (; i < n; i += LANES) acc[0] += vload_n(x + i, n - i < LANES ? n - i : LANES);
    return vsum(acc[0] + acc[1]);
}

/* Runs the body for every vector of n floats: i is its start and count its number of lanes, which
 * is the constant LANES except for a shorter last one. */
#define FOR_VECTORS(i, count, n, ...)                                                              \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= (n); i += LANES) {                                                     \
            const int64_t count = LANES;                                                           \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int64_t count = (n)-i;                                                           \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

/* The largest of x[0..n), ignoring NaN. */
INLINE float vlargest(const float *x, int64_t n) {
    vf most = vsplat(-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) most = vmax(vload(x + i), most);
    float best = vmost(most);
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}
/* Replaces x[i] by e^(x[i] - largest) and returns their sum, which is NaN if any x[i] is. */
INLINE float vsoftmax_terms(float *x, int64_t n) {
    const vf most = vsplat(vlargest(x, n));
    FOR_VECTORS(i, count, n, vstore_n(x + i, vexp(vload_n(x + i, count) - most), count););
    return vtotal(x, n);
}
#endif
