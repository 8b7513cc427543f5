/* activate.h - Activation functions after a matrix product, by their number in the op. */
#ifndef SL_RUNTIME_CPU_ACTIVATE_H
#define SL_RUNTIME_CPU_ACTIVATE_H
#include "runtime/cpu/kernels/elementwise.h"

/* Tanh approximation of GELU: x/2 (1 + tanh u) = x / (1 + e^-2u). */
INLINE vf vgelu_approx(vf x) {
    const vf u = x * vfma(x * x, vsplat(0.0713548163f), vsplat(1.59576912f));
    return vgated(x, u);
}

INLINE vf activated(vf x, uint32_t act) {
    switch (act) {
    case 1:
        return vrelu(x);
    case 2:
        return vsilu(x);
    case 3:
        return vgelu(x);
    case 4:
        return vsigmoid(x);
    case 5:
        return vtanh(x);
    default:
        return vgelu_approx(x);
    }
}
/* Applies activation `act` in place; 0 is the identity. */
static inline void activate_f32(float *x, int64_t n, uint32_t act) {
    if (act == 0) return;
    FOR_VECTORS(i, count, n, vstore_n(x + i, activated(vload_n(x + i, count), act), count););
}
#endif
