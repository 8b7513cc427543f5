/* norm_rms.h - RMS norm of a row, for all kernels that contain one. */
#ifndef SL_RUNTIME_CPU_NORM_RMS_H
#define SL_RUNTIME_CPU_NORM_RMS_H
#include "runtime/cpu/kernels/elementwise.h"

typedef struct {
    const float *gain;
    int64_t n;
    float eps, offset;
} rms_norm;

/* 1 / sqrt(mean(x^2) + eps). */
INLINE float inverse_rms(const float *x, int64_t n, float eps) {
    return 1.0f / sqrtf(vdot(x, x, n) / (float)n + eps);
}

/* Elements [i, i + count) of the normed row, given its inverse root mean square. */
INLINE vf rms_normed(const rms_norm *norm, const float *x, vf inverse, int64_t i, int64_t count) {
    const vf factor = vsplat(norm->offset) + vload_n(norm->gain + i, count);
    return vload_n(x + i, count) * inverse * factor;
}

/* x / rms(x) * gain * silu(z). */
INLINE void gated_rms_norm_row(const rms_norm *norm, const float *x, const float *z, float *out) {
    const vf inverse = vsplat(inverse_rms(x, norm->n, norm->eps));
    FOR_VECTORS(i, count, norm->n, {
        const vf normed = vload_n(x + i, count) * inverse * vload_n(norm->gain + i, count);
        vstore_n(out + i, normed * vsilu(vload_n(z + i, count)), count);
    });
}

INLINE void rms_norm_row(const rms_norm *norm, const float *x, float *out) {
    const vf inverse = vsplat(inverse_rms(x, norm->n, norm->eps));
    FOR_VECTORS(i, count, norm->n,
                vstore_n(out + i, rms_normed(norm, x, inverse, i, count), count););
}
/* sum = x + y, out = norm(sum). */
INLINE void add_rms_norm_row(const rms_norm *norm, const float *x, const float *y, float *sum,
                             float *out) {
    FOR_VECTORS(i, count, norm->n, {
        const vf both = vload_n(x + i, count) + vload_n(y + i, count);
        vstore_n(sum + i, both, count);
    });
    rms_norm_row(norm, sum, out);
}
#endif
