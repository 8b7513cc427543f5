/* moments.h - Means and variances.  Blocks are summed in f32, block sums in doubles. */
#ifndef SL_RUNTIME_CPU_MOMENTS_H
#define SL_RUNTIME_CPU_MOMENTS_H
#include "core/type.h"
#include "runtime/cpu/kernels/element.h"
#include "runtime/cpu/kernels/vmath.h"

enum { MOMENTS_BLOCK = 512 };

/* The mean in two floats, because elements may be close to a mean that is far from 0; inverse: 1 /
 * sqrt(variance + eps). */
typedef struct {
    float mean, rest, inverse;
} moments;

INLINE vf centred(const moments *m, vf x) {
    return (x - vsplat(m->mean)) - vsplat(m->rest);
}

typedef double vlong __attribute__((vector_size(LANES * 8)));

INLINE double vlong_total(const vlong *v) {
    double sum = 0;
    for (int i = 0; i < LANES; i++) sum += (*v)[i];
    return sum;
}
static inline double sum_long(const float *x, int64_t n) {
    vlong acc = {0};
    FOR_VECTORS(i, count, n, acc += __builtin_convertvector(vload_n(x + i, count), vlong););
    return vlong_total(&acc);
}
static inline double squares_long(const float *x, int64_t n) {
    vlong acc = {0};
    FOR_VECTORS(i, count, n, {
        const vlong wide = __builtin_convertvector(vload_n(x + i, count), vlong);
        acc += wide * wide;
    });
    return vlong_total(&acc);
}

/* The sum of x[i] - shift, of at most one block. */
INLINE float shifted(const float *x, int64_t n, float shift) {
    vf acc[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * (int64_t)LANES <= n; i += 2 * (int64_t)LANES)
        for (int64_t j = 0; j < 2; j++) acc[j] += vload(x + i + j * LANES) - vsplat(shift);
    float rest = 0;
    for (; i < n; i++) rest += x[i] - shift;
    return vsum(acc[0] + acc[1]) + rest;
}

/* The sum of squares of centred elements, of at most one block. */
INLINE float squares(const float *x, int64_t n, const moments *m) {
    vf acc[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * (int64_t)LANES <= n; i += 2 * (int64_t)LANES)
        for (int64_t j = 0; j < 2; j++) {
            const vf d = centred(m, vload(x + i + j * LANES));
            acc[j] = vfma(d, d, acc[j]);
        }
    float rest = 0;
    for (; i < n; i++) {
        const float d = (x[i] - m->mean) - m->rest;
        rest += d * d;
    }
    return vsum(acc[0] + acc[1]) + rest;
}

static inline moments moments_of(const float *x, int64_t n, double eps) {
    /* Differences from the first element are summed: the mean may be much larger than these. */
    double sum = 0;
    for (int64_t at = 0; at < n; at += MOMENTS_BLOCK)
        sum += (double)shifted(x + at, n - at < MOMENTS_BLOCK ? n - at : MOMENTS_BLOCK, x[0]);
    const double mean = (double)x[0] + sum / (double)n;
    moments m = {.mean = (float)mean};
    m.rest = (float)(mean - (double)m.mean);
    double variance = 0;
    for (int64_t at = 0; at < n; at += MOMENTS_BLOCK)
        variance += (double)squares(x + at, n - at < MOMENTS_BLOCK ? n - at : MOMENTS_BLOCK, &m);
    m.inverse = (float)(1 / sqrt(variance / (double)n + eps));
    return m;
}

/* The same for any float type, elements `stride` apart. */
typedef struct {
    double mean, inverse;
} wide_moments;

static inline wide_moments wide_moments_of(const sl_cview *x, int64_t at, int64_t n, int64_t stride,
                                           double eps) {
    const sl_dtype dtype = x->type.dtype;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += real_at(dtype, x->data, at + i * stride);
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = real_at(dtype, x->data, at + i * stride) - mean;
        variance += d * d;
    }
    return (wide_moments){mean, 1 / sqrt(variance / (double)n + eps)};
}
#endif
