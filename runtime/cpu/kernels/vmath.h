/* vmath.h - Functions on vectors, and sums and products of rows.
 *
 * A sum runs over fixed lanes in a fixed order, so that its result depends on the data alone: never
 * on how work is divided or on how many rows there are. */
#ifndef SL_RUNTIME_CPU_VMATH_H
#define SL_RUNTIME_CPU_VMATH_H
#include "runtime/cpu/kernels/vec.h"
#include <float.h>
#include <math.h>

/* e to the x, within 1 ulp of the true value.
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial; 2^n in two factors, so that
 * results may overflow to infinity and underflow gradually. */
INLINE vf vexp(vf x) {
    const vf magic = vsplat(0x1.8p23f); /* adding it rounds to an integer */
    x = vmin(vsplat(89.0f), vmax(vsplat(-104.0f), x));
    const vf rounded = vfma(x, vsplat(0x1.715476p+0f), magic);
    const vf n = rounded - magic;
    vf r = vfma(n, vsplat(-0x1.63p-1f), x); /* ln 2 in two parts; the first times n is exact */
    r = vfma(n, vsplat(0x1.bd0106p-13f), r);
    vf p = vsplat(0.000198910798644647f);
    p = vfma(p, r, vsplat(0.0013933731243014336f));
    p = vfma(p, r, vsplat(0.00833331048488617f));
    p = vfma(p, r, vsplat(0.041666463017463684f));
    p = vfma(p, r, vsplat(0.1666666716337204f));
    p = vfma(p, r, vsplat(0.5f));
    p = vfma(p, r * r, r) + vsplat(1.0f);
    const vi power = (vi)((vu)rounded - (vu)magic);
    const vi half = power >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((power - half + 127) << 23);
}
INLINE vf vsigmoid(vf x) {
    return vsplat(1.0f) / (vsplat(1.0f) + vexp(-x));
}
INLINE vf vsilu(vf x) {
    return x / (vsplat(1.0f) + vexp(-x));
}

/* Sum of a[i] * b[i]. */
INLINE float vdot(const float *a, const float *b, int64_t n) {
    vf acc[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            acc[j] = vfma(vload(a + i + j * LANES), vload(b + i + j * LANES), acc[j]);
    for (; i + LANES <= n; i += LANES) acc[0] = vfma(vload(a + i), vload(b + i), acc[0]);
    if (i < n) acc[1] = vfma(vload_n(a + i, n - i), vload_n(b + i, n - i), acc[1]);
    return vsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}
/* Sum of x[i]. */
INLINE float vtotal(const float *x, int64_t n) {
    vf acc[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int j = 0; j < 2; j++) acc[j] += vload(x + i + j * LANES);
    for (; i < n; i += LANES) acc[0] += vload_n(x + i, n - i < LANES ? n - i : LANES);
    return vsum(acc[0] + acc[1]);
}

/* Runs the body for every vector of n floats, with i its start and count its lanes:
 * LANES, constant, but for a last shorter one. */
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

/* The largest of x[0..n), NaNs aside. */
INLINE float vlargest(const float *x, int64_t n) {
    vf most = vsplat(-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) most = vmax(vload(x + i), most);
    float best = -INFINITY;
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    for (int lane = 0; lane < LANES; lane++) best = most[lane] > best ? most[lane] : best;
    return best;
}
/* Replaces x[i] by e^(x[i] - largest) and returns their sum: NaN when there is one among x. */
INLINE float vsoftmax_terms(float *x, int64_t n) {
    const vf most = vsplat(vlargest(x, n));
    FOR_VECTORS(i, count, n, vstore_n(x + i, vexp(vload_n(x + i, count) - most), count););
    return vtotal(x, n);
}
#endif
